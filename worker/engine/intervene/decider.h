// Decides, layer by layer inside the forward pass, which heads each row of a batch loses: every row
// by its own rule. A simple rule is one part (part_decider.h); a combined one has several, decided
// side by side and put together by its steps.
//
// Made once a batch, used by one thread. Decisions stay on the device, so nothing waits for the
// accelerator. Throws libtorch's exceptions (see torch_guard.h). Rules are valid (validate.h).

#pragma once

#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "common/catalog/model_config.h"
#include "worker/engine/engine.h"
#include "worker/engine/intervene/part_decider.h"

namespace headcount::engine {

class Decider {
 public:
  // `rows` in the order of the batch.
  Decider(const catalog::ModelConfig& config, std::span<const Rule> rules,
          std::span<const Row* const> rows, c10::Device device);

  // Bits of the measurements that the rules of `rows` (indices into the batch's) need in this
  // layer.
  unsigned Measurements(int layer, std::span<const int> rows) const;

  // For `rows`, whose measurements these are; `row_ids` [rows] int64 are the same on the device.
  // `no_first` [rows, 1] bool, or undefined: rows for which first_weight is not applicable, as
  // opposed to damaged; scores that use it decide nothing for them.
  Decision Decide(int layer, const MeasurementTensors& measurements, std::span<const int> rows,
                  const at::Tensor& row_ids, const at::Tensor& no_first = {}) const;

 private:
  // A combined rule, and the rows that have it.
  struct Combination {
    std::vector<CombineStep> steps;
    std::vector<uint8_t> has_it;     // [rows] of the batch
    at::Tensor rows;                 // the same: [rows, 1] bool
    std::vector<at::Tensor> orders;  // of each kRandomInLayer step: [layers, rows, heads] int64,
                                     // the place of a head in the row's random order
  };

  void AddCombination(const Rule& rule, std::span<const RulePart> parts, std::vector<uint8_t> rows);
  at::Tensor RandomOrder(const CombineStep& step, std::span<const RulePart> parts,
                         std::span<const uint8_t> rows) const;
  at::Tensor Combine(const Combination& combination, int layer,
                     std::span<const at::Tensor> part_masks, const at::Tensor& row_ids) const;

  int layers_;
  int heads_;
  int kv_heads_;
  c10::Device device_;
  std::vector<PartDecider> parts_;  // the i-th part of each row's rule; a simple rule has one
  std::vector<Combination> combinations_;
};

}  // namespace headcount::engine
