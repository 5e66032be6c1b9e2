// See instrument.h.

#include "worker/engine/instrument.h"

#include <algorithm>

#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/stack.h"
#include "ATen/ops/zeros.h"
#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"

namespace headcount::engine {
namespace {

constexpr unsigned kAllMeasurements = (1u << catalog::kMeasurementCount) - 1;

at::Tensor ToHost(const at::Tensor& bools) { return bools.to(at::kCPU, at::kByte).contiguous(); }

}  // namespace

Instrument::Instrument(Transformer& model, std::span<const Rule> rules,
                       std::span<const Row* const> rows, const struct Record& record)
    : model_(model),
      rows_(rows),
      record_(record),
      decider_(model.config(), rules, rows, model.device()),
      interventions_(model.config(), rules, rows, model.device()),
      first_weights_(rows.size()) {
  const int64_t layers = model.config().layers, heads = model.config().heads;
  const auto count = static_cast<int64_t>(rows.size());
  const at::TensorOptions bools = at::TensorOptions(at::kBool).device(model.device());
  const at::TensorOptions floats = at::TensorOptions(at::kFloat).device(model.device());
  masks_ = at::zeros({layers, count, heads}, bools);
  not_finite_ = at::zeros({layers, count, heads}, bools);
  if (record.measurements) {
    recorded_ = at::empty({count, catalog::kMeasurementCount, layers, heads}, floats);
  }
  if (record.head_sums) {
    rest_ = at::empty({count, layers, heads, model.config().head_dim}, floats);
    first_ = at::empty(rest_.sizes(), floats);
  }
}

unsigned Instrument::Measurements(int layer, const Packing& packing) const {
  return record_.measurements ? kAllMeasurements : decider_.Measurements(layer, packing.rows);
}

AttentionExtras Instrument::Extras(int layer, const Packing& packing) const {
  AttentionExtras extras = ExtrasFor(Measurements(layer, packing));
  extras.first_weight |= std::any_of(packing.rows.begin(), packing.rows.end(),
                                     [this](int row) { return WantsFirstWeights(row); });
  return extras;
}

at::Tensor Instrument::OnHeads(const LayerHeads& heads) {
  const MeasurementTensors measured = Measure(heads);
  Record(heads, measured);
  RecordFirstWeights(heads);
  const Decision decision =
      decider_.Decide(heads.layer, measured, heads.packing->rows, heads.packing->row_ids,
                      RowsThatLoseFirst(*heads.packing, heads.window));
  Check(heads, measured, decision);
  if (!decision.mask.defined()) return {};
  masks_.select(0, heads.layer).index_copy_(0, heads.packing->row_ids, decision.mask);
  return interventions_.CodesOf(decision.mask, heads.packing->row_ids);
}

MeasurementTensors Instrument::Measure(const LayerHeads& heads) {
  const unsigned measurements = Measurements(heads.layer, *heads.packing);
  MeasurementTensors measured;
  if (measurements == 0) return measured;
  const at::Tensor gram = NeedsGram(measurements) ? model_.Gram(heads.layer) : at::Tensor();
  const MeasureInput input{*heads.packing, heads.v, heads.attended, gram};
  for (const MeasureKernel& kernel : MeasureKernels()) {
    const auto m = static_cast<size_t>(kernel.measurement);
    if ((measurements >> m & 1u) == 0) continue;
    measured[m] = kernel.run(input);
    if (kernel.of_first_key) {
      measured[m] = OfTokensThatSeeFirst(measured[m], *heads.packing, heads.window);
    }
  }
  return measured;
}

void Instrument::Record(const LayerHeads& heads, const MeasurementTensors& measured) {
  const Packing& packing = *heads.packing;
  if (record_.measurements) {
    recorded_.select(2, heads.layer).index_copy_(0, packing.row_ids, at::stack(measured, 1));
  }
  if (record_.head_sums) {
    const at::Tensor& z = heads.attended.z;
    rest_.select(1, heads.layer).index_copy_(0, packing.row_ids, RowSumsWithoutFirst(z, packing));
    first_.select(1, heads.layer)
        .index_copy_(0, packing.row_ids, z.index_select(0, packing.first_tokens).to(at::kFloat));
  }
}

// A row's weights are those of its trunk's tokens, then of its branch's.
void Instrument::RecordFirstWeights(const LayerHeads& heads) {
  const Packing& packing = *heads.packing;
  const auto segment = [&](size_t index, int64_t length) {
    return heads.attended.first_weight.narrow(0, packing.begins[index], length);
  };
  const Layout& layout = packing.layout;
  for (size_t b = 0; b < layout.branches.size(); ++b) {
    const Layout::Branch& branch = layout.branches[b];
    for (const int row : branch.rows) {
      if (!WantsFirstWeights(row)) continue;
      at::Tensor weights = segment(layout.trunks.size() + b, branch.length);
      if (branch.trunk != Layout::kNoTrunk) {
        const auto trunk = static_cast<size_t>(branch.trunk);
        weights = at::cat({segment(trunk, layout.trunks[trunk]), weights});
      }
      at::Tensor& all = first_weights_[static_cast<size_t>(row)];
      if (!all.defined()) {
        all = at::empty({model_.config().layers, weights.size(1), weights.size(0)},
                        weights.options());
      }
      all.select(0, heads.layer).copy_(weights.t());
    }
  }
}

void Instrument::Check(const LayerHeads& heads, const MeasurementTensors& measured,
                       const Decision& decision) {
  at::Tensor bad = decision.not_finite;
  // What was only measured for a neighbour's rule says nothing about a row: its result would depend
  // on its batch.
  if (record_.measurements) {
    MeasurementTensors applicable = measured;
    const at::Tensor lost = RowsThatLoseFirst(*heads.packing, heads.window);
    for (const MeasureKernel& kernel : MeasureKernels()) {
      at::Tensor& values = applicable[static_cast<size_t>(kernel.measurement)];
      if (kernel.of_first_key && lost.defined()) values = values.masked_fill(lost, 0);
    }
    const at::Tensor more = at::stack(applicable).isfinite().logical_not_().any(0);
    bad = bad.defined() ? bad.logical_or(more) : more;
  }
  if (!bad.defined()) return;
  not_finite_.select(0, heads.layer).index_copy_(0, heads.packing->row_ids, bad);
}

void Instrument::Collect(std::span<RowResult* const> results) const {
  CollectMeasurements(results);
  CollectFirstWeights(results);
  CollectMasks(results);
  CollectFiniteness(results);
}

void Instrument::CollectMeasurements(std::span<RowResult* const> results) const {
  if (!recorded_.defined()) return;
  const at::Tensor all = recorded_.to(at::kCPU).contiguous();
  const int64_t size = all.numel() / all.size(0);
  const float* values = all.const_data_ptr<float>();
  for (RowResult* result : results) {
    result->measurements.assign(values, values + size);
    values += size;
  }
}

void Instrument::CollectFirstWeights(std::span<RowResult* const> results) const {
  for (size_t row = 0; row < first_weights_.size(); ++row) {
    if (!first_weights_[row].defined()) continue;
    const at::Tensor all = first_weights_[row].to(at::kCPU).contiguous();
    const float* values = all.const_data_ptr<float>();
    results[row]->first_weights.assign(values, values + all.numel());
  }
}

void Instrument::CollectMasks(std::span<RowResult* const> results) const {
  const int layers = model_.config().layers, heads = model_.config().heads;
  const size_t bits = static_cast<size_t>(layers) * static_cast<size_t>(heads);
  for (RowResult* result : results) result->mask.assign((bits + 7) / 8, 0);
  const at::Tensor all = ToHost(masks_);
  const uint8_t* zeroed = all.const_data_ptr<uint8_t>();
  for (size_t layer = 0; layer < static_cast<size_t>(layers); ++layer) {
    for (RowResult* result : results) {
      for (size_t head = 0; head < static_cast<size_t>(heads); ++head, ++zeroed) {
        const size_t bit = layer * static_cast<size_t>(heads) + head;
        if (*zeroed != 0) result->mask[bit / 8] |= static_cast<uint8_t>(1u << (bit % 8));
      }
    }
  }
}

void Instrument::CollectFiniteness(std::span<RowResult* const> results) const {
  const int layers = model_.config().layers, heads = model_.config().heads;
  const at::Tensor all = ToHost(not_finite_);
  const uint8_t* bad = all.const_data_ptr<uint8_t>();
  for (int layer = 0; layer < layers; ++layer) {
    for (RowResult* result : results) {
      for (int head = 0; head < heads; ++head, ++bad) {
        if (*bad == 0 || result->non_finite_layer >= 0) continue;
        result->finite = false;
        result->non_finite_layer = layer;
        result->non_finite_head = head;
      }
    }
  }
}

BatchHeadSums Instrument::CollectHeadSums() const {
  return {rest_.to(at::kCPU).contiguous(), first_.to(at::kCPU).contiguous()};
}

}  // namespace headcount::engine
