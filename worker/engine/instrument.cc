// See instrument.h.

#include "worker/engine/instrument.h"

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
      record_(record),
      decider_(model.config(), rules, rows, model.device()),
      interventions_(model.config(), rules, rows, model.device()) {
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
  return ExtrasFor(Measurements(layer, packing));
}

at::Tensor Instrument::OnHeads(const LayerHeads& heads) {
  const MeasurementTensors measured = Measure(heads);
  Record(heads, measured);
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
