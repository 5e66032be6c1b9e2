// The engine: checks a unit, cuts it into batches, runs each through the model and puts the results
// in order. See engine.h. The border of libtorch's exceptions: every call into it below runs inside
// GuardTorch.

#include "worker/engine/engine.h"

#include <utility>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/safetensors.h"
#include "worker/engine/batch.h"
#include "worker/engine/head_sums.h"
#include "worker/engine/instrument.h"
#include "worker/engine/model/transformer.h"
#include "worker/engine/readout.h"
#include "worker/engine/tensor/checkpoint_reader.h"
#include "worker/engine/tensor/device.h"
#include "worker/engine/tensor/torch_guard.h"
#include "worker/engine/validate.h"

namespace headcount::engine {
namespace {

// Enough for full matrix products; small enough that a cancel is seen within seconds.
constexpr int64_t kBatchTokensCpu = 2048;
constexpr int64_t kBatchTokensAccelerator = 16384;

// The rows of one batch, side by side.
struct BatchRows {
  std::vector<const Row*> rows;
  std::vector<RowResult*> results;
  std::vector<std::span<const int32_t>> suffixes;

  BatchRows(const Unit& unit, const Batch& batch, UnitResult& result) {
    for (int i : batch) {
      const auto row = static_cast<size_t>(i);
      rows.push_back(&unit.rows[row]);
      result.rows[row] = {};  // also after a batch that ran out of memory half way
      results.push_back(&result.rows[row]);
      suffixes.push_back(unit.rows[row].suffix);
    }
  }
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(Transformer model, const EngineOptions& options)
      : model_(std::move(model)), max_batch_tokens_(options.max_batch_tokens) {
    if (max_batch_tokens_ <= 0) {
      max_batch_tokens_ = model_.device().is_cpu() ? kBatchTokensCpu : kBatchTokensAccelerator;
    }
  }

  const catalog::ModelConfig& config() const override { return model_.config(); }
  int64_t weight_bytes() const override { return model_.weights().bytes; }

  absl::StatusOr<UnitResult> Run(const Unit& unit, const CancelFlag& cancel,
                                 BatchObserver* observer) override {
    HC_RETURN_IF_ERROR(ValidateUnit(config(), unit));
    HeadSumsBuilder sums;
    HC_ASSIGN_OR_RETURN(
        UnitResult result, RunAll(unit, cancel, observer, [&](const BatchRows& batch) {
          const Packing packing = Pack(unit.prefix, batch.suffixes, model_.device());
          Instrument instrument(model_, unit.rules, batch.rows, unit.record);
          const at::Tensor wanted = ScoredTokens(packing, batch.rows, model_.device());
          const at::Tensor hidden = model_.Forward(packing, wanted, &instrument);
          instrument.Collect(batch.results);
          if (hidden.defined()) ScoreContinuations(model_, hidden, batch.rows, batch.results);
          if (unit.record.head_sums) {
            sums.Add(instrument.CollectHeadSums(), packing.lengths, batch.results);
          }
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
    return RunAll(unit, cancel, nullptr, [&](const BatchRows& batch) {
      const Packing packing = Pack(unit.prefix, batch.suffixes, model_.device());
      const at::Tensor wanted = ScoredTokens(packing, batch.rows, model_.device());
      const at::Tensor hidden = model_.Forward(packing, wanted, nullptr);
      if (hidden.defined()) ScoreContinuations(model_, hidden, batch.rows, batch.results);
    });
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
      const std::span<const int32_t> suffixes[] = {tokens};
      const Row* const rows[] = {&unit.rows[0]};
      const Packing packing = Pack({}, suffixes, model_.device());
      Instrument instrument(model_, unit.rules, rows, {});
      std::vector<int64_t> wanted;
      for (int64_t i = length - positions; i < length; ++i) wanted.push_back(i);
      const at::Tensor hidden =
          model_.Forward(packing, ToDevice(wanted, model_.device()), &instrument);
      const at::Tensor logits = model_.Logits(hidden).to(at::kCPU).contiguous();
      const float* values = logits.const_data_ptr<float>();
      return std::vector<float>(values, values + logits.numel());
    });
  }

 private:
  template <typename RunBatch>
  absl::StatusOr<UnitResult> RunAll(const Unit& unit, const CancelFlag& cancel,
                                    BatchObserver* observer, const RunBatch& run_batch) {
    UnitResult result;
    result.rows.resize(unit.rows.size());
    std::vector<int64_t> lengths;
    for (const Row& row : unit.rows) {
      lengths.push_back(static_cast<int64_t>(unit.prefix.size() + row.suffix.size()));
      result.tokens += lengths.back();
    }
    const auto run = [&](const Batch& batch) {
      const absl::Status status = GuardTorch("forward pass", [&] {
        run_batch(BatchRows(unit, batch, result));
        return absl::OkStatus();
      });
      if (status.ok() && observer != nullptr) {
        int64_t tokens = 0;
        for (int row : batch) tokens += lengths[static_cast<size_t>(row)];
        observer->OnBatch(static_cast<int>(batch.size()), tokens);
      }
      return status;
    };
    const auto release = [&] { ReleaseCachedMemory(model_.device()); };
    HC_RETURN_IF_ERROR(RunBatches(PlanBatches(lengths, max_batch_tokens_), cancel, run, release,
                                  result.oom_backoffs));
    return result;
  }

  Transformer model_;
  int64_t max_batch_tokens_;
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
    auto attention = options.dense_attention ? MakeDenseAttention() : MakeFlashAttention();
    Transformer model(std::move(config), *std::move(weights), std::move(attention), torch_device);
    return std::make_unique<EngineImpl>(std::move(model), options);
  });
}

}  // namespace headcount::engine
