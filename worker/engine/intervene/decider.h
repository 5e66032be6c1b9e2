// Decides, layer by layer inside the forward pass, which heads each row of a batch loses: every row
// by its own rule.
//
// Made once a batch, used by one thread. Decisions stay on the device, so nothing waits for the
// accelerator. Throws libtorch's exceptions (see torch_guard.h). Rules are valid (validate.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "common/catalog/model_config.h"
#include "worker/engine/engine.h"
#include "worker/engine/intervene/score_program.h"

namespace headcount::engine {

struct Decision {
  at::Tensor mask;        // [rows, heads] bool: zeroed; undefined when no row can lose a head here
  at::Tensor not_finite;  // [rows, heads] bool: the score that decided was NaN or infinite;
                          // undefined: none was used
};

class Decider {
 public:
  // `rows` in the order of the batch.
  Decider(const catalog::ModelConfig& config, std::span<const Rule> rules,
          std::span<const Row* const> rows, c10::Device device);

  // Bits of the measurements that the rules of `rows` (indices into the batch's) need in this
  // layer.
  unsigned Measurements(int layer, std::span<const int> rows) const;

  // For `rows`, whose measurements these are; `row_ids` [rows] int64 are the same on the device.
  Decision Decide(int layer, const MeasurementTensors& measurements, std::span<const int> rows,
                  const at::Tensor& row_ids) const;

 private:
  // The rows of a batch that are decided by the same score in the same way.
  struct Group {
    const catalog::Score* score = nullptr;
    Rule::Select select = Rule::Select::kNone;
    std::vector<uint8_t> acts_host;  // [layers, rows]: the row's rule acts in this layer
    at::Tensor acts;                 // the same: [layers, rows, 1] bool
    at::Tensor limit;                // [rows, 1]: float32 thresholds, or int64 numbers of heads
  };

  // What is known before the pass: fixed heads and random draws.
  void AddFixed(std::span<const Rule> rules, std::span<const Row* const> rows);
  void AddGroups(std::span<const Rule> rules, std::span<const Row* const> rows);
  bool Acts(const Group& group, int layer, std::span<const int> rows) const;

  int layers_;
  int heads_;
  size_t rows_;
  c10::Device device_;
  std::vector<uint8_t> fixed_layers_;  // 1 where some row has a fixed head
  at::Tensor fixed_;                   // [layers, rows, heads] bool; undefined: none
  std::vector<Group> groups_;
};

// The `count` [rows, 1] most inactive heads of each row of `scores` [rows, heads]; ties go to the
// lower head and NaN is never chosen. Bool [rows, heads].
at::Tensor MostInactive(const at::Tensor& scores, const at::Tensor& count,
                        catalog::Inactive inactive);

}  // namespace headcount::engine
