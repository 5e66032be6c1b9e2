// Zeroing a head takes exactly its part out of W_O's output, and the Gram matrices give the norm of
// that part.

#include <cmath>

#include "ATen/TensorOperators.h"
#include "ATen/ops/item.h"
#include "ATen/ops/linear.h"
#include "engine_testing.h"
#include "golden_data.h"
#include "gtest/gtest.h"
#include "worker/engine/instrument.h"
#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"
#include "worker/engine/model/transformer.h"
#include "worker/engine/walk.h"

namespace headcount::engine {
namespace {

// Keeps each layer's z, before and after the engine's own instrument has decided.
class Recorder final : public LayerWatcher {
 public:
  explicit Recorder(LayerWatcher& inner) : inner_(inner) {}
  AttentionExtras Extras(int layer, const Packing& packing) const override {
    return inner_.Extras(layer, packing);
  }
  at::Tensor OnHeads(const LayerHeads& heads) override {
    before.push_back(heads.attended.z.clone());
    const at::Tensor codes = inner_.OnHeads(heads);
    after.push_back(heads.attended.z.clone());
    if (codes.defined()) {
      interventions().Apply(heads.layer, codes,
                            {heads.packing->row_of_token, heads.packing->positions}, {},
                            after.back());
    }
    return codes;
  }
  const Interventions& interventions() const override { return inner_.interventions(); }
  std::vector<at::Tensor> before, after;

 private:
  LayerWatcher& inner_;
};

class Projection : public ::testing::TestWithParam<std::string> {
 protected:
  Projection() {
    const std::string folder = TinyModel(GetParam());
    config_ = catalog::ReadModelConfig(folder).value();
    auto reader = CheckpointReader::Open(catalog::ListCheckpoint(folder).value());
    model_ = std::make_unique<Transformer>(
        config_, LoadWeights(config_, reader.value(), at::kFloat, cpu_).value(),
        MakeFlashAttention(), cpu_);
  }

  static Layout OneRow(const std::vector<int32_t>& prompt) {
    return SingleRows({{static_cast<int64_t>(prompt.size())}});
  }

  void Run(const std::vector<int32_t>& prompt, LayerWatcher& watcher) {
    const int wanted = 0;
    const CancelFlag cancel = false;
    const WalkInput input{OneRow(prompt), prompt, {&wanted, 1}, 1 << 20};
    ASSERT_TRUE(Walk(*model_, input, &watcher, cancel, {}).ok());
  }

  c10::Device cpu_{c10::DeviceType::CPU};
  catalog::ModelConfig config_;
  std::unique_ptr<Transformer> model_;
};

TEST_P(Projection, ZeroingAHeadTakesExactlyItsPart) {
  const auto prompt = TinyPrompts(GetParam())[3];
  for (int layer = 0; layer < config_.layers; ++layer) {
    for (int head = 0; head < config_.heads; ++head) {
      const Rule rule = FixedRule({{layer, head}});
      const Row row;
      const Row* const pointers[] = {&row};
      Instrument instrument(*model_, {&rule, 1}, pointers, {});
      Recorder recorder(instrument);
      Run(prompt, recorder);
      const LayerWeights& weights = model_->weights().layers[static_cast<size_t>(layer)];
      const at::Tensor z = recorder.before[static_cast<size_t>(layer)];
      const at::Tensor lost = ProjectHeads(weights, z) -
                              ProjectHeads(weights, recorder.after[static_cast<size_t>(layer)]);
      const int64_t dim = config_.head_dim;
      const at::Tensor part =
          at::linear(z.select(1, head), weights.output.narrow(1, head * dim, dim));
      const auto scale = part.abs().max().item<double>();
      ASSERT_GT(scale, 0);
      EXPECT_LE((lost - part).abs().max().item<double>(), 1e-5 * scale)
          << "layer " << layer << " head " << head;
    }
  }
}

TEST_P(Projection, GramMatricesGiveTheNormOfAHeadsPart) {
  const auto prompt = TinyPrompts(GetParam())[3];
  const Rule rule;
  const Row row;
  const Row* const pointers[] = {&row};
  Instrument instrument(*model_, {&rule, 1}, pointers, {});
  Recorder recorder(instrument);
  Run(prompt, recorder);
  for (int layer = 0; layer < config_.layers; ++layer) {
    AttentionOutput attended;
    attended.z = recorder.before[static_cast<size_t>(layer)];
    const Packing packing = Pack(OneRow(prompt), cpu_);
    const at::Tensor projected =
        MeasureProjected({packing, attended.z, attended, model_->Gram(layer)});
    const at::Tensor& output = model_->weights().layers[static_cast<size_t>(layer)].output;
    for (int64_t head = 0; head < config_.heads; ++head) {
      const at::Tensor part = at::linear(
          attended.z.select(1, head), output.narrow(1, head * config_.head_dim, config_.head_dim));
      const auto expected = Norms(part).mean().item<double>();
      EXPECT_NEAR(projected.select(1, head).item<double>(), expected, 1e-5 * expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Projection, ::testing::ValuesIn(kTinyModels),
                         [](const auto& info) { return info.param.substr(5); });

}  // namespace
}  // namespace headcount::engine
