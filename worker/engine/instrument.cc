// See instrument.h.

#include "worker/engine/instrument.h"

#include "ATen/ops/stack.h"
#include "ATen/ops/zeros.h"
#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"

namespace headcount::engine {
namespace {

constexpr unsigned kAllMeasurements = (1u << catalog::kMeasurementCount) - 1;

// One tensor of all layers on the host: [layers, rows, heads]; layers without one count as zeros.
at::Tensor StackBools(const std::vector<at::Tensor>& layers, int64_t rows, int64_t heads) {
  at::Tensor zeros;
  for (const at::Tensor& layer : layers) {
    if (layer.defined()) zeros = at::zeros({rows, heads}, layer.options());
  }
  if (!zeros.defined()) return {};
  std::vector<at::Tensor> all;
  for (const at::Tensor& layer : layers) all.push_back(layer.defined() ? layer : zeros);
  return at::stack(all).to(at::kCPU, at::kByte).contiguous();
}

}  // namespace

Instrument::Instrument(Transformer& model, std::span<const Rule> rules,
                       std::span<const Row* const> rows, const Record& record)
    : model_(model),
      record_(record),
      decider_(model.config(), rules, rows, model.device()),
      rows_(static_cast<int64_t>(rows.size())),
      masks_(static_cast<size_t>(model.config().layers)),
      not_finite_(static_cast<size_t>(model.config().layers)) {}

unsigned Instrument::Measurements(int layer) const {
  return record_.measurements ? kAllMeasurements : decider_.Measurements(layer);
}

AttentionExtras Instrument::Extras(int layer) const { return ExtrasFor(Measurements(layer)); }

void Instrument::OnHeads(LayerHeads& heads) {
  const MeasurementTensors measured = Measure(heads);
  if (record_.measurements) recorded_.push_back(at::stack(measured, 1));
  if (record_.head_sums) {
    rest_.push_back(RowSumsWithoutFirst(heads.attended.z, *heads.packing));
    first_.push_back(heads.attended.z.index_select(0, heads.packing->first_tokens).to(at::kFloat));
  }
  const Decision decision = decider_.Decide(heads.layer, measured);
  Check(heads.layer, measured, decision);
  if (!decision.mask.defined()) return;
  masks_[static_cast<size_t>(heads.layer)] = decision.mask;
  // Filled and not multiplied: a head that is not finite is zeroed too.
  heads.attended.z.masked_fill_(
      decision.mask.index_select(0, heads.packing->row_of_token).unsqueeze(-1), 0);
}

MeasurementTensors Instrument::Measure(const LayerHeads& heads) {
  const unsigned measurements = Measurements(heads.layer);
  MeasurementTensors measured;
  if (measurements == 0) return measured;
  const at::Tensor gram = NeedsGram(measurements) ? model_.Gram(heads.layer) : at::Tensor();
  const MeasureInput input{*heads.packing, heads.v, heads.attended, gram};
  for (const MeasureKernel& kernel : MeasureKernels()) {
    const auto m = static_cast<size_t>(kernel.measurement);
    if ((measurements >> m & 1u) != 0) measured[m] = kernel.run(input);
  }
  return measured;
}

void Instrument::Check(int layer, const MeasurementTensors& measured, const Decision& decision) {
  at::Tensor& bad = not_finite_[static_cast<size_t>(layer)];
  bad = decision.not_finite;
  // What was only measured for a neighbour's rule says nothing about a row: its result would depend
  // on its batch.
  if (!record_.measurements) return;
  for (const at::Tensor& values : measured) {
    const at::Tensor more = values.isfinite().logical_not_();
    bad = bad.defined() ? bad.logical_or(more) : more;
  }
}

void Instrument::Collect(std::span<RowResult* const> results) const {
  CollectMeasurements(results);
  CollectMasks(results);
  CollectFiniteness(results);
}

void Instrument::CollectMeasurements(std::span<RowResult* const> results) const {
  if (recorded_.empty()) return;
  // [layers, rows, measurements, heads] -> [rows, measurements, layers, heads]
  const at::Tensor all = at::stack(recorded_).permute({1, 2, 0, 3}).to(at::kCPU).contiguous();
  const int64_t size = all.numel() / rows_;
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
  const at::Tensor all = StackBools(masks_, rows_, heads);
  if (!all.defined()) return;
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
  const at::Tensor all = StackBools(not_finite_, rows_, heads);
  if (!all.defined()) return;
  const uint8_t* bad = all.const_data_ptr<uint8_t>();
  for (int layer = 0; layer < layers; ++layer) {
    for (RowResult* result : results) {
      for (int head = 0; head < heads; ++head, ++bad) {
        if (*bad == 0 || !result->finite) continue;
        result->finite = false;
        result->non_finite_layer = layer;
        result->non_finite_head = head;
      }
    }
  }
}

BatchHeadSums Instrument::CollectHeadSums() const {
  return {at::stack(rest_, 1).to(at::kCPU).contiguous(),
          at::stack(first_, 1).to(at::kCPU).contiguous()};
}

}  // namespace headcount::engine
