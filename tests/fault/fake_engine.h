// An engine without a model, for tests of everything around it: leases, kills, planning, curves.
// Its measurements, and so decisions and log-likelihoods, are a pure function of a row's tokens,
// random key and rule; thresholds act on them as in the real engine, score by score. Needs of the
// checkpoint only its config.json and no libtorch.
//
// Thread-safety and errors as engine::Engine. RunPlain, Generate and Logits are UNIMPLEMENTED.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/engine/engine.h"

namespace headcount::fault {

struct FakeEngineOptions {
  std::chrono::microseconds per_row{0};  // time that a row takes
  // The process aborts when it meets the sample with this key (RandomKey(0, id)), so that tests can
  // poison a task.
  std::optional<uint64_t> abort_key;
  // Rows of the sample with this key are reported as non-finite in layer 0, head 0.
  std::optional<uint64_t> non_finite_key;

  // From HEADCOUNT_FAKE_ROW_MS, HEADCOUNT_FAKE_ABORT_SAMPLE and HEADCOUNT_FAKE_NON_FINITE_SAMPLE
  // (sample ids).
  static FakeEngineOptions FromEnvironment();
};

class FakeEngine : public engine::Engine {
 public:
  FakeEngine(catalog::ModelConfig config, FakeEngineOptions options)
      : config_(std::move(config)), options_(options) {}

  const catalog::ModelConfig& config() const override { return config_; }
  absl::StatusOr<engine::UnitResult> Run(const engine::Unit& unit, const engine::CancelFlag& cancel,
                                         engine::BatchObserver* observer) override;
  absl::StatusOr<engine::UnitResult> RunPlain(const engine::Unit& unit,
                                              const engine::CancelFlag& cancel) override;
  absl::StatusOr<engine::GenerateResult> Generate(const engine::GenerateUnit& unit,
                                                  const engine::CancelFlag& cancel,
                                                  engine::BatchObserver* observer) override;
  absl::StatusOr<std::vector<float>> Logits(std::span<const int32_t> tokens,
                                            const engine::Rule& rule, int positions) override;
  int64_t weight_bytes() const override { return 0; }

 private:
  engine::RowResult RunRow(const engine::Unit& unit, const engine::Row& row) const;
  std::vector<float> Measure(uint64_t tokens_hash, int tokens) const;
  std::vector<float> NextToken(uint64_t hash) const;
  std::vector<uint8_t> Decide(const engine::Rule& rule, const engine::Row& row,
                              const std::vector<float>& measurements) const;

  const catalog::ModelConfig config_;
  const FakeEngineOptions options_;
};

}  // namespace headcount::fault
