// What one batch of Engine::Run does in every layer: measure, decide, and keep what is asked for.
// Stands between attention and W_O as a LayerWatcher. Sees the rows of a batch piece by piece, in
// any order of pieces, each layer of a row once.
//
// Everything stays on the device until Collect. One thread; made once a batch. Throws libtorch's
// exceptions (see tensor/torch_guard.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/engine/engine.h"
#include "worker/engine/intervene/decider.h"
#include "worker/engine/intervene/interventions.h"
#include "worker/engine/model/transformer.h"
#include "worker/engine/walk.h"

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
             const struct Record& record);

  AttentionExtras Extras(int layer, const Packing& packing) const override;
  at::Tensor OnHeads(const LayerHeads& heads) override;
  const Interventions& interventions() const override { return interventions_; }

  // Fills measurements, mask and the finiteness of the batch's rows, results[i] for rows[i].
  void Collect(std::span<RowResult* const> results) const;
  // Only when recorded.
  BatchHeadSums CollectHeadSums() const;

 private:
  unsigned Measurements(int layer, const Packing& packing) const;
  MeasurementTensors Measure(const LayerHeads& heads);
  void Record(const LayerHeads& heads, const MeasurementTensors& measured);
  void RecordFirstWeights(const LayerHeads& heads);
  void Check(const LayerHeads& heads, const MeasurementTensors& measured, const Decision& decision);
  void CollectMeasurements(std::span<RowResult* const> results) const;
  void CollectFirstWeights(std::span<RowResult* const> results) const;
  void CollectMasks(std::span<RowResult* const> results) const;
  void CollectFiniteness(std::span<RowResult* const> results) const;

  bool WantsFirstWeights(int row) const { return rows_[static_cast<size_t>(row)]->first_weights; }

  Transformer& model_;
  const std::span<const Row* const> rows_;
  struct Record record_;
  Decider decider_;
  Interventions interventions_;
  // Of all rows of the batch; the last three are undefined unless recorded.
  at::Tensor masks_;       // [layers, rows, heads] bool
  at::Tensor not_finite_;  // [layers, rows, heads] bool
  at::Tensor recorded_;    // [rows, measurements, layers, heads]
  at::Tensor rest_;        // [rows, layers, heads, head_dim]
  at::Tensor first_;
  // A row of the batch: [layers, heads, positions], undefined where it is not asked for.
  std::vector<at::Tensor> first_weights_;
};

}  // namespace headcount::engine
