// Runs an attention and the dense one on the same queries, keys and values of every layer and keeps
// the largest differences. What goes on through the model is the former's output. For tests.

#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/engine/attention/attention.h"

namespace headcount::engine {

// Largest absolute differences over all layers, heads and tokens; those of means over a row's
// tokens of every head.
struct AttentionDifferences {
  int layers = 0;
  double z = 0;
  double first_weight = 0;
  double entropy = 0;
  double mean_first_weight = 0;
  double mean_entropy = 0;
  double mean_output_norm_relative = 0;
};

class ComparingAttention final : public Attention {
 public:
  ComparingAttention(std::unique_ptr<Attention> tested, AttentionDifferences& differences)
      : tested_(std::move(tested)), differences_(differences) {}
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override;

 private:
  std::unique_ptr<Attention> tested_;
  AttentionDifferences& differences_;
  std::unique_ptr<Attention> dense_ = MakeDenseAttention();
};

// Runs the prompts, one after the other, through the model in `directory` in `dtype` with every
// extra taken.
AttentionDifferences CompareAttention(std::unique_ptr<Attention> tested,
                                      const std::string& directory, c10::ScalarType dtype,
                                      const std::vector<std::vector<int32_t>>& prompts,
                                      c10::Device device = c10::Device(c10::DeviceType::CPU));

}  // namespace headcount::engine
