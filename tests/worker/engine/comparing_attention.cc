// See comparing_attention.h.

#include "comparing_attention.h"

#include <cstdlib>
#include <iostream>

#include "ATen/TensorOperators.h"
#include "ATen/ops/item.h"
#include "c10/core/InferenceMode.h"
#include "worker/engine/measure/row_reduce.h"
#include "worker/engine/model/transformer.h"
#include "worker/engine/walk.h"

namespace headcount::engine {
namespace {

// Written so that a NaN counts as a difference without bound.
void Raise(double& worst, const at::Tensor& difference) {
  const auto value = difference.abs().max().item<double>();
  if (!(value <= worst)) worst = value == value ? value : 1e300;
}

class TakeEverything final : public LayerWatcher {
 public:
  AttentionExtras Extras(int, const Packing&) const override { return {true, true}; }
  at::Tensor OnHeads(const LayerHeads&) override { return {}; }
  const Interventions& interventions() const override { return interventions_; }

 private:
  Interventions interventions_;
};

}  // namespace

AttentionOutput ComparingAttention::Run(const AttentionInput& input, AttentionExtras extras) const {
  const AttentionOutput tested = tested_->Run(input, extras);
  const AttentionOutput dense = dense_->Run(input, extras);
  const Packing& packing = *input.packing;
  ++differences_.layers;
  Raise(differences_.z, tested.z.to(at::kFloat) - dense.z.to(at::kFloat));
  Raise(differences_.first_weight, tested.first_weight - dense.first_weight);
  Raise(differences_.entropy, tested.entropy - dense.entropy);
  Raise(differences_.mean_first_weight,
        RowMeans(tested.first_weight, packing) - RowMeans(dense.first_weight, packing));
  Raise(differences_.mean_entropy,
        RowMeans(tested.entropy, packing) - RowMeans(dense.entropy, packing));
  const at::Tensor norms = RowMeans(Norms(dense.z), packing);
  Raise(differences_.mean_output_norm_relative,
        (RowMeans(Norms(tested.z), packing) - norms) / norms.clamp_min(1e-6));
  return tested;
}

AttentionDifferences CompareAttention(std::unique_ptr<Attention> tested,
                                      const std::string& directory, c10::ScalarType dtype,
                                      const std::vector<std::vector<int32_t>>& prompts,
                                      c10::Device device) {
  c10::InferenceMode inference;
  auto config = catalog::ReadModelConfig(directory);
  auto checkpoint = catalog::ListCheckpoint(directory);
  auto reader = CheckpointReader::Open(checkpoint.value());
  auto weights = LoadWeights(config.value(), reader.value(), dtype, device);
  AttentionDifferences differences;
  Transformer model(config.value(), std::move(weights.value()),
                    std::make_unique<ComparingAttention>(std::move(tested), differences), device);
  TakeEverything watcher;
  for (const std::vector<int32_t>& prompt : prompts) {
    const auto length = static_cast<int64_t>(prompt.size());
    const int64_t trunk = length / 3;
    // Two equal rows and a shorter one: blocks of more than one row are covered too. Then two
    // branches after a trunk.
    Layout layout;
    layout.branches = {{length / 2 + 1, Layout::kNoTrunk, {0}},
                       {length, Layout::kNoTrunk, {1}},
                       {length, Layout::kNoTrunk, {2}}};
    if (trunk > 0) {
      layout.trunks = {trunk};
      layout.branches.push_back({length - trunk, 0, {3}});
      layout.branches.push_back({1, 0, {4}});
    }
    std::vector<int32_t> tokens;
    const auto add = [&](int64_t begin, int64_t count) {
      tokens.insert(tokens.end(), prompt.begin() + begin, prompt.begin() + begin + count);
    };
    for (int64_t t : layout.trunks) add(0, t);
    for (const Layout::Branch& branch : layout.branches) {
      add(branch.trunk == Layout::kNoTrunk ? 0 : trunk, branch.length);
    }
    const std::vector<int> wanted(5, 0);
    const CancelFlag cancel = false;
    const WalkInput input{layout, tokens, wanted, 1 << 20};
    if (!Walk(model, input, &watcher, cancel, {}).ok()) std::abort();
  }
  return differences;
}

}  // namespace headcount::engine
