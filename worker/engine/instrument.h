// What one batch of Engine::Run does in every layer: measure, decide, zero, and keep what is asked
// for. Stands between attention and W_O as a LayerWatcher.
//
// Everything stays on the device until Collect, so nothing waits for the accelerator between
// layers. One thread; made once a batch. Throws libtorch's exceptions (see tensor/torch_guard.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/engine/engine.h"
#include "worker/engine/intervene/decider.h"
#include "worker/engine/model/transformer.h"

namespace headcount::engine {

// Sums of z of one batch's rows, [rows][layer][query head][head_dim] on the host.
struct BatchHeadSums {
  at::Tensor rest;   // over tokens i >= 1
  at::Tensor first;  // at position 0
};

class Instrument final : public LayerWatcher {
 public:
  // `rows` in the order of the batch. Both outlive the instrument.
  Instrument(Transformer& model, std::span<const Rule> rules, std::span<const Row* const> rows,
             const Record& record);

  AttentionExtras Extras(int layer) const override;
  void OnHeads(LayerHeads& heads) override;

  // Fills measurements, mask and the finiteness of the batch's rows, results[i] for rows[i].
  void Collect(std::span<RowResult* const> results) const;
  // Only when recorded.
  BatchHeadSums CollectHeadSums() const;

 private:
  unsigned Measurements(int layer) const;
  MeasurementTensors Measure(const LayerHeads& heads);
  void Check(int layer, const MeasurementTensors& measured, const Decision& decision);
  void CollectMeasurements(std::span<RowResult* const> results) const;
  void CollectMasks(std::span<RowResult* const> results) const;
  void CollectFiniteness(std::span<RowResult* const> results) const;

  Transformer& model_;
  Record record_;
  Decider decider_;
  int64_t rows_;
  std::vector<at::Tensor> recorded_;  // a layer: [rows, measurements, heads]
  std::vector<at::Tensor> masks_;  // a layer: [rows, heads] bool, undefined where nothing is zeroed
  std::vector<at::Tensor>
      not_finite_;                // a layer: [rows, heads] bool, undefined where nothing was taken
  std::vector<at::Tensor> rest_;  // a layer: [rows, heads, head_dim]
  std::vector<at::Tensor> first_;
};

}  // namespace headcount::engine
