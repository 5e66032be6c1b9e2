// The engine: checks a unit, cuts it into batches, runs each through the model and puts the results
// in order. See engine.h. The border of libtorch's exceptions: every call into it below runs inside
// GuardTorch.

#include "worker/engine/engine.h"

#include <algorithm>
#include <utility>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/safetensors.h"
#include "worker/engine/batch.h"
#include "worker/engine/generate/generator.h"
#include "worker/engine/grouping.h"
#include "worker/engine/head_sums.h"
#include "worker/engine/instrument.h"
#include "worker/engine/model/transformer.h"
#include "worker/engine/readout.h"
#include "worker/engine/tensor/checkpoint_reader.h"
#include "worker/engine/tensor/device.h"
#include "worker/engine/tensor/torch_guard.h"
#include "worker/engine/validate.h"
#include "worker/engine/walk.h"

namespace headcount::engine {
namespace {

// Enough for full matrix products; small enough that a cancel is seen within seconds.
constexpr int64_t kBatchTokensCpu = 4096;
constexpr int64_t kBatchTokensAccelerator = 16384;

// What generation keeps.
constexpr int64_t kCacheBytesCpu = int64_t{2} << 30;
constexpr int64_t kCacheBytesAccelerator = int64_t{8} << 30;

// The rows of one batch, and where their results go.
struct BatchRows {
  std::vector<const Row*> rows;
  std::vector<RowResult*> results;
  Layout layout;
  std::vector<int32_t> token_ids;
  std::vector<int> wanted;  // hidden states of a row's last tokens

  BatchRows(const Unit& unit, const Batch& batch, const Sharing& sharing, UnitResult& result)
      : layout(LayOut(GroupRows(unit, batch, sharing), batch)) {
    for (int i : batch) {
      const auto row = static_cast<size_t>(i);
      rows.push_back(&unit.rows[row]);
      result.rows[row] = {};  // also after a batch that ran out of memory half way
      results.push_back(&result.rows[row]);
      wanted.push_back(ScoredTokens(unit.rows[row]));
    }
    token_ids = TokenIds(layout, rows, unit.prefix);
  }

  int64_t Length(size_t row, std::span<const int32_t> prefix) const {
    return static_cast<int64_t>(prefix.size() + rows[row]->suffix.size());
  }
};

// Batches of `size` rows as they come.
std::vector<Batch> InOrder(size_t rows, int64_t size) {
  std::vector<Batch> batches;
  for (size_t row = 0; row < rows; ++row) {
    if (row % static_cast<size_t>(size) == 0) batches.emplace_back();
    batches.back().push_back(static_cast<int>(row));
  }
  return batches;
}

std::unique_ptr<Attention> MakeAttention(AttentionKernel kernel, c10::Device device,
                                         c10::ScalarType dtype) {
  switch (kernel) {
    case AttentionKernel::kBest:
      return MakeBestAttention(device, dtype);
    case AttentionKernel::kFlash:
      return MakeFlashAttention();
    case AttentionKernel::kDense:
      return MakeDenseAttention();
  }
  return nullptr;
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(Transformer model, const EngineOptions& options)
      : model_(std::move(model)),
        max_batch_tokens_(options.max_batch_tokens),
        max_cache_bytes_(options.max_cache_bytes),
        sharing_(options.sharing) {
    const bool cpu = model_.device().is_cpu();
    if (max_batch_tokens_ <= 0) max_batch_tokens_ = cpu ? kBatchTokensCpu : kBatchTokensAccelerator;
    if (max_cache_bytes_ <= 0) max_cache_bytes_ = cpu ? kCacheBytesCpu : kCacheBytesAccelerator;
  }

  const catalog::ModelConfig& config() const override { return model_.config(); }
  int64_t weight_bytes() const override { return model_.weights().bytes; }

  absl::StatusOr<UnitResult> Run(const Unit& unit, const CancelFlag& cancel,
                                 BatchObserver* observer) override {
    HC_RETURN_IF_ERROR(ValidateUnit(config(), unit));
    HeadSumsBuilder sums;
    HC_ASSIGN_OR_RETURN(
        UnitResult result,
        RunAll(unit, cancel, observer, [&](const BatchRows& batch) -> absl::StatusOr<int64_t> {
          Instrument instrument(model_, unit.rules, batch.rows, unit.record);
          HC_ASSIGN_OR_RETURN(const int64_t computed, Score(batch, &instrument, cancel));
          instrument.Collect(batch.results);
          if (unit.record.head_sums) {
            std::vector<int64_t> lengths;
            for (size_t i = 0; i < batch.rows.size(); ++i) {
              lengths.push_back(batch.Length(i, unit.prefix));
            }
            sums.Add(instrument.CollectHeadSums(), lengths, batch.results);
          }
          return computed;
        }));
    if (unit.record.head_sums) result.head_sums = sums.Build();
    return result;
  }

  absl::StatusOr<UnitResult> RunPlain(const Unit& unit, const CancelFlag& cancel) override {
    HC_RETURN_IF_ERROR(ValidateUnit(config(), unit));
    for (size_t i = 0; i < unit.rules.size(); ++i) {
      if (unit.rules[i].select != Rule::Select::kNone) {
        return InvalidField(absl::StrCat("rules[", i, "].select"), "a selection",
                            "the plain forward pass takes no rules");
      }
    }
    return RunAll(unit, cancel, nullptr,
                  [&](const BatchRows& batch) { return Score(batch, nullptr, cancel); });
  }

  absl::StatusOr<GenerateResult> Generate(const GenerateUnit& unit, const CancelFlag& cancel,
                                          BatchObserver* observer) override {
    HC_RETURN_IF_ERROR(ValidateUnit(config(), unit));
    GenerateResult result;
    result.rows.resize(unit.rows.size());
    int64_t computed = 0;
    const int64_t abreast =
        RowsAbreast(unit, config(), static_cast<int64_t>(model_.weights().embedding.itemsize()),
                    max_cache_bytes_);
    const GeneratorLimits limits{max_batch_tokens_, max_cache_bytes_ / abreast, sharing_.steps};
    const auto run = [&](const Batch& batch) {
      std::vector<GeneratedRow*> rows;
      for (int row : batch) {
        rows.push_back(&result.rows[static_cast<size_t>(row)]);
        *rows.back() = {};  // also after a batch that ran out of memory half way
      }
      const absl::Status status = GuardTorch("generation", [&]() -> absl::Status {
        Generator generator(model_, unit, batch, limits);
        HC_RETURN_IF_ERROR(generator.Run(rows, cancel));
        computed += generator.computed();
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
      int64_t tokens = 0;
      for (size_t i = 0; i < batch.size(); ++i) {
        const auto prompt =
            static_cast<int64_t>(unit.rows[static_cast<size_t>(batch[i])].prompt.size());
        const auto steps = static_cast<int64_t>(rows[i]->tokens.size());
        tokens += prompt + steps;
        result.recomputed_tokens += steps * prompt + steps * (steps - 1) / 2;
      }
      if (observer != nullptr) observer->OnBatch(static_cast<int>(batch.size()), tokens);
      return status;
    };
    const auto release = [&] { ReleaseCachedMemory(model_.device()); };
    HC_RETURN_IF_ERROR(
        RunBatches(InOrder(unit.rows.size(), abreast), cancel, run, release, result.oom_backoffs));
    result.computed_tokens = (computed + config().layers - 1) / config().layers;
    return result;
  }

  absl::StatusOr<std::vector<float>> Logits(std::span<const int32_t> tokens, const Rule& rule,
                                            int positions) override {
    Unit unit;
    unit.rows.push_back({.suffix = tokens});
    unit.rules.push_back(rule);
    HC_RETURN_IF_ERROR(ValidateUnit(config(), unit));
    const auto length = static_cast<int64_t>(tokens.size());
    if (positions < 1 || positions > length) {
      return InvalidField("positions", absl::StrCat(positions),
                          absl::StrCat("must be from 1 to ", length));
    }
    return GuardTorch("logits", [&]() -> absl::StatusOr<std::vector<float>> {
      const Row* const rows[] = {&unit.rows[0]};
      Instrument instrument(model_, unit.rules, rows, {});
      std::vector<float> out;
      const WalkEnd end = [&](std::span<const int>, const at::Tensor& hidden) {
        const at::Tensor logits = model_.Logits(hidden).to(at::kCPU).contiguous();
        const float* values = logits.const_data_ptr<float>();
        out.assign(values, values + logits.numel());
      };
      const CancelFlag never = false;
      const WalkInput input{SingleRows({{length}}), tokens, {&positions, 1}, max_batch_tokens_};
      HC_RETURN_IF_ERROR(Walk(model_, input, &instrument, never, end).status());
      return out;
    });
  }

 private:
  // Takes a batch through the model and scores its continuations; returns the tokens computed,
  // summed over the layers.
  absl::StatusOr<int64_t> Score(const BatchRows& batch, LayerWatcher* watcher,
                                const CancelFlag& cancel) {
    const WalkEnd end = [&](std::span<const int> ids, const at::Tensor& hidden) {
      std::vector<const Row*> rows;
      std::vector<RowResult*> results;
      for (int id : ids) {
        rows.push_back(batch.rows[static_cast<size_t>(id)]);
        results.push_back(batch.results[static_cast<size_t>(id)]);
      }
      ScoreContinuations(model_, hidden, rows, results);
    };
    const WalkInput input{batch.layout, batch.token_ids, batch.wanted, max_batch_tokens_};
    return Walk(model_, input, watcher, cancel, end);
  }

  template <typename RunBatch>
  absl::StatusOr<UnitResult> RunAll(const Unit& unit, const CancelFlag& cancel,
                                    BatchObserver* observer, const RunBatch& run_batch) {
    UnitResult result;
    result.rows.resize(unit.rows.size());
    const auto length = [&](int row) {
      return static_cast<int64_t>(unit.prefix.size() +
                                  unit.rows[static_cast<size_t>(row)].suffix.size());
    };
    int64_t computed = 0;
    const auto run = [&](const Batch& batch) {
      const absl::Status status = GuardTorch("forward pass", [&]() -> absl::Status {
        HC_ASSIGN_OR_RETURN(const int64_t tokens,
                            run_batch(BatchRows(unit, batch, sharing_, result)));
        computed += tokens;
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
      int64_t tokens = 0;
      for (int row : batch) tokens += length(row);
      result.tokens += tokens;
      if (observer != nullptr) observer->OnBatch(static_cast<int>(batch.size()), tokens);
      return status;
    };
    const auto release = [&] { ReleaseCachedMemory(model_.device()); };
    HC_RETURN_IF_ERROR(RunBatches(PlanBatches(unit, max_batch_tokens_, sharing_), cancel, run,
                                  release, result.oom_backoffs));
    const int64_t layers = config().layers;
    result.computed_tokens = (computed + layers - 1) / layers;
    return result;
  }

  Transformer model_;
  int64_t max_batch_tokens_;
  int64_t max_cache_bytes_;
  Sharing sharing_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(const std::string& directory, DType dtype,
                                                     Device device, const EngineOptions& options) {
  HC_ASSIGN_OR_RETURN(catalog::ModelConfig config, catalog::ReadModelConfig(directory));
  HC_ASSIGN_OR_RETURN(catalog::Checkpoint checkpoint, catalog::ListCheckpoint(directory));
  HC_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(std::move(checkpoint)));
  HC_ASSIGN_OR_RETURN(const c10::Device torch_device, OpenDevice(device));
  return GuardTorch("load " + directory, [&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    if (options.threads > 0) at::set_num_threads(options.threads);
    absl::StatusOr<ModelWeights> weights =
        LoadWeights(config, reader, ToScalarType(dtype), torch_device);
    if (!weights.ok()) return Annotate(weights.status(), directory);
    Transformer model(std::move(config), *std::move(weights),
                      MakeAttention(options.attention, torch_device, ToScalarType(dtype)),
                      torch_device);
    return std::make_unique<EngineImpl>(std::move(model), options);
  });
}

}  // namespace headcount::engine
