// The engine's kernels alone, with the shapes of SmolLM2 (9 query heads, 3 KV heads, 64 a head) in
// float32 on the CPU, by Google Benchmark: what each extra of attention and each measurement costs.
// The argument is the prompt's tokens, or the trunk's where 8 branches of 50 tokens share it.
//
//   GOMP_SPINCOUNT=1000 build/release/bin/kernel_bench [--benchmark_filter=REGEX]

#include <benchmark/benchmark.h>

#include <memory>
#include <utility>

#include "ATen/Context.h"
#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/randn.h"
#include "worker/engine/attention/attention.h"
#include "worker/engine/measure/kernels.h"
#include "worker/engine/measure/row_reduce.h"
#include "worker/engine/model/packing.h"

namespace headcount::engine {
namespace {

constexpr int64_t kHeads = 9;
constexpr int64_t kKvHeads = 3;
constexpr int64_t kHeadDim = 64;
constexpr int kBranches = 8;
constexpr int64_t kBranchTokens = 50;

// One layer's queries, keys and values, and what its measurements see.
class Layer {
 public:
  explicit Layer(Layout layout)
      : packing_(Pack(std::move(layout), c10::Device(c10::kCPU))),
        q_(at::randn({packing_.tokens, kHeads, kHeadDim})),
        k_(at::randn({packing_.tokens, kKvHeads, kHeadDim})),
        v_(at::randn({packing_.tokens, kKvHeads, kHeadDim})),
        gram_(at::randn({kHeads, kHeadDim, kHeadDim})) {}

  static Layer OnePrompt(int64_t tokens) {
    Layout layout;
    layout.branches.push_back({.length = tokens, .rows = {0}});
    return Layer(std::move(layout));
  }
  static Layer SharedTrunk(int64_t tokens) {
    Layout layout;
    layout.trunks.push_back(tokens);
    for (int row = 0; row < kBranches; ++row)
      layout.branches.push_back({.length = kBranchTokens, .trunk = 0, .rows = {row}});
    return Layer(std::move(layout));
  }

  const Packing& packing() const { return packing_; }
  const at::Tensor& v() const { return v_; }
  const at::Tensor& gram() const { return gram_; }
  AttentionOutput Attend(AttentionExtras extras) const {
    return attention_->Run({.q = q_, .k = k_, .v = v_, .scale = 0.125, .packing = &packing_},
                           extras);
  }

 private:
  std::unique_ptr<Attention> attention_ = MakeFlashAttention();
  Packing packing_;
  at::Tensor q_, k_, v_, gram_;
};

void Attend(benchmark::State& state, const Layer& layer, AttentionExtras extras) {
  for (auto _ : state) benchmark::DoNotOptimize(layer.Attend(extras));
  state.SetItemsProcessed(state.iterations() * layer.packing().tokens);
}

void BM_Attention(benchmark::State& state) { Attend(state, Layer::OnePrompt(state.range(0)), {}); }
void BM_AttentionFirstWeight(benchmark::State& state) {
  Attend(state, Layer::OnePrompt(state.range(0)), {.first_weight = true});
}
void BM_AttentionAllExtras(benchmark::State& state) {
  Attend(state, Layer::OnePrompt(state.range(0)), {.first_weight = true, .entropy = true});
}
void BM_SharedAttention(benchmark::State& state) {
  Attend(state, Layer::SharedTrunk(state.range(0)), {});
}
void BM_SharedAttentionAllExtras(benchmark::State& state) {
  Attend(state, Layer::SharedTrunk(state.range(0)), {.first_weight = true, .entropy = true});
}

void BM_Measurement(benchmark::State& state) {
  const MeasureKernel& kernel = MeasureKernels()[state.range(1)];
  const Layer layer = Layer::OnePrompt(state.range(0));
  const AttentionOutput attended = layer.Attend(kernel.extras);
  const MeasureInput input{layer.packing(), layer.v(), attended, layer.gram()};
  for (auto _ : state) benchmark::DoNotOptimize(kernel.run(input));
  state.SetLabel(std::string(catalog::kMeasurements[static_cast<size_t>(kernel.measurement)].id));
  state.SetItemsProcessed(state.iterations() * layer.packing().tokens);
}

void BM_RowMeans(benchmark::State& state) {
  const Layer layer = Layer::SharedTrunk(state.range(0));
  const at::Tensor values = at::randn({layer.packing().tokens, kHeads});
  for (auto _ : state) benchmark::DoNotOptimize(RowMeans(values, layer.packing()));
  state.SetItemsProcessed(state.iterations() * layer.packing().tokens);
}

#define HC_LENGTHS Arg(200)->Arg(600)->Arg(1200)->Arg(4096)->Unit(benchmark::kMicrosecond)
BENCHMARK(BM_Attention)->HC_LENGTHS->UseRealTime();
BENCHMARK(BM_AttentionFirstWeight)->HC_LENGTHS->UseRealTime();
BENCHMARK(BM_AttentionAllExtras)->HC_LENGTHS->UseRealTime();
BENCHMARK(BM_SharedAttention)->HC_LENGTHS->UseRealTime();
BENCHMARK(BM_SharedAttentionAllExtras)->HC_LENGTHS->UseRealTime();
BENCHMARK(BM_RowMeans)->HC_LENGTHS->UseRealTime();
BENCHMARK(BM_Measurement)
    ->ArgsProduct({{600, 4096}, benchmark::CreateDenseRange(0, catalog::kMeasurementCount - 1, 1)})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
}  // namespace headcount::engine

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  at::set_num_threads(2);
  const at::NoGradGuard no_gradients;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
