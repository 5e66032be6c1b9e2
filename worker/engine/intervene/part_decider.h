// Decides by one simple rule a row: scores on one side of a threshold or among the most inactive,
// fixed heads, or random draws. What rules are made of (decider.h puts the parts together).
//
// Made once a batch, used by one thread. Decisions stay on the device, so nothing waits for the
// accelerator. Throws libtorch's exceptions (see tensor/torch_guard.h). Rules are valid
// (validate.h).

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "common/catalog/model_config.h"
#include "worker/engine/engine.h"
#include "worker/engine/intervene/score_program.h"

namespace headcount::engine {

struct Decision {
  at::Tensor mask;  // [rows, heads] bool: inactive; undefined when no row can lose a head here
  at::Tensor not_finite;  // [rows, heads] bool: the score that decided was NaN or infinite;
                          // undefined: none was used
};

// A row's rule, if it has one here, and what its draws are keyed by.
struct RulePart {
  const Rule* rule = nullptr;   // null: never decides anything; outlives the decider's making
  std::vector<uint8_t> layers;  // as Rule::layers, its own and those of what it is part of
  std::string_view sample;
};

class PartDecider {
 public:
  // One part a row of the batch, in its order.
  PartDecider(const catalog::ModelConfig& config, std::span<const RulePart> parts,
              c10::Device device);

  // Bits of the measurements that `rows` (indices into the batch's) need in this layer.
  unsigned Measurements(int layer, std::span<const int> rows) const;

  // For `rows`, whose measurements these are; `row_ids` [rows] int64 are the same on the device.
  Decision Decide(int layer, const MeasurementTensors& measurements, std::span<const int> rows,
                  const at::Tensor& row_ids, const at::Tensor& no_first) const;

 private:
  // How rows of a batch are decided by the same score in the same way.
  struct Way {
    const catalog::Score* score = nullptr;
    Rule::Select select = Rule::Select::kNone;
    HeadUnit unit = HeadUnit::kQueryHead;
    GroupScore group_score = GroupScore::kMean;
    bool operator==(const Way&) const = default;
  };
  struct Group {
    Way way;
    std::vector<uint8_t> acts_host;  // [layers, rows]: the row's rule acts in this layer
    at::Tensor acts;                 // the same: [layers, rows, 1] bool
    at::Tensor limit;  // [layers, rows, 1]: float32 thresholds, or int64 numbers of heads
  };

  // What is known before the pass: fixed heads and random draws.
  void AddFixed(std::span<const RulePart> parts);
  void AddGroups(std::span<const RulePart> parts);
  bool Acts(const Group& group, int layer, std::span<const int> rows) const;

  int layers_;
  int heads_;
  int kv_heads_;
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

// A host array of 0 and 1 as bools on the device.
at::Tensor ToBools(const std::vector<uint8_t>& values, at::IntArrayRef shape, c10::Device device);

}  // namespace headcount::engine
