// See fake_engine.h.

#include "tests/fault/fake_engine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "absl/status/status.h"
#include "common/base/digest.h"
#include "common/catalog/measurements.h"

namespace headcount::fault {
namespace {

// splitmix64: well mixed, and the same everywhere.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

float Uniform(uint64_t x) { return static_cast<float>(Mix(x) >> 40) * 0x1p-24f; }

uint64_t Hash(std::span<const int32_t> tokens, uint64_t seed) {
  for (const int32_t token : tokens) seed = Mix(seed ^ static_cast<uint32_t>(token));
  return seed;
}

bool Acts(const engine::Rule& rule, int layer) {
  return rule.layers.empty() || rule.layers[layer] != 0;
}

std::optional<uint64_t> KeyFromEnvironment(const char* name) {
  const char* sample = std::getenv(name);
  if (sample == nullptr) return std::nullopt;
  return RandomKey(0, sample);
}

}  // namespace

FakeEngineOptions FakeEngineOptions::FromEnvironment() {
  FakeEngineOptions options;
  if (const char* ms = std::getenv("HEADCOUNT_FAKE_ROW_MS"); ms != nullptr) {
    options.per_row = std::chrono::microseconds(static_cast<int64_t>(std::atof(ms) * 1000));
  }
  options.abort_key = KeyFromEnvironment("HEADCOUNT_FAKE_ABORT_SAMPLE");
  options.non_finite_key = KeyFromEnvironment("HEADCOUNT_FAKE_NON_FINITE_SAMPLE");
  return options;
}

absl::StatusOr<engine::UnitResult> FakeEngine::Run(const engine::Unit& unit,
                                                   const engine::CancelFlag& cancel,
                                                   engine::BatchObserver* observer) {
  engine::UnitResult result;
  for (const engine::Row& row : unit.rows) {
    if (cancel.load()) return absl::CancelledError("stopped");
    if (options_.abort_key == RandomKey(0, row.sample)) std::abort();
    if (options_.per_row.count() > 0) std::this_thread::sleep_for(options_.per_row);
    result.rows.push_back(RunRow(unit, row));
    const auto tokens = static_cast<int64_t>(unit.prefix.size() + row.suffix.size());
    result.tokens += tokens;
    if (observer != nullptr) observer->OnBatch(1, tokens);
  }
  if (unit.record.head_sums) {
    engine::HeadSums sums;
    const size_t size = static_cast<size_t>(config_.layers) * config_.heads * config_.head_dim;
    sums.rest.assign(size, 0);
    sums.first.assign(size, 0);
    sums.first_count = static_cast<int64_t>(unit.rows.size());
    sums.rest_count = result.tokens - sums.first_count;
    result.head_sums = std::move(sums);
  }
  return result;
}

std::vector<float> FakeEngine::Measure(uint64_t tokens_hash, int tokens) const {
  const int heads = config_.layers * config_.heads;
  std::vector<float> out(static_cast<size_t>(catalog::kMeasurementCount) * heads);
  for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
    const auto m = static_cast<uint64_t>(info.measurement);
    for (int h = 0; h < heads; ++h) {
      // Mostly the head's own value, a little the sample's: as real scores are.
      float value = 0.8f * Uniform((m << 32) | h) + 0.2f * Uniform(tokens_hash ^ (m << 40) ^ h);
      if (info.measurement == catalog::Measurement::kEntropy) {
        value *= std::log(static_cast<float>(std::max(tokens, 2)));
      } else if (info.measurement != catalog::Measurement::kFirstWeight) {
        value *= 10;
      }
      out[m * heads + h] = value;
    }
  }
  return out;
}

std::vector<uint8_t> FakeEngine::Decide(const engine::Rule& rule, const engine::Row& row,
                                        const std::vector<float>& measurements) const {
  const int layers = config_.layers;
  const int heads = config_.heads;
  std::vector<uint8_t> zeroed(static_cast<size_t>(layers) * heads, 0);
  std::vector<float> scores(zeroed.size(), 0);
  bool below = true;
  if (rule.score != nullptr) {
    std::vector<const float*> pointers;
    for (int m = 0; m < catalog::kMeasurementCount; ++m) {
      pointers.push_back(measurements.data() + static_cast<size_t>(m) * zeroed.size());
    }
    rule.score->expression.EvaluateLayers(pointers, layers, heads, scores);
    below = rule.score->inactive == catalog::Inactive::kBelow;
  }
  const uint64_t key = RandomKey(rule.seed, row.sample);
  for (int layer = 0; layer < layers; ++layer) {
    if (!Acts(rule, layer)) continue;
    const float* score = scores.data() + static_cast<size_t>(layer) * heads;
    uint8_t* out = zeroed.data() + static_cast<size_t>(layer) * heads;
    switch (rule.select) {
      case engine::Rule::Select::kNone:
        break;
      case engine::Rule::Select::kThreshold:
        for (int h = 0; h < heads; ++h) {
          out[h] = below ? score[h] < rule.threshold : score[h] > rule.threshold;
        }
        break;
      case engine::Rule::Select::kTopK: {
        std::vector<int> order(heads);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
          return below ? score[a] < score[b] : score[a] > score[b];
        });
        for (int i = 0; i < std::min(rule.top_k, heads); ++i) out[order[i]] = 1;
        break;
      }
      case engine::Rule::Select::kFixedHeads:
        for (const engine::Head& head : rule.heads) {
          if (head.layer == layer) out[head.head] = 1;
        }
        break;
      case engine::Rule::Select::kRandom:
        for (int h = 0; h < heads; ++h) {
          out[h] = Uniform(key ^ Mix((uint64_t(layer) << 16) | h)) < rule.probability;
        }
        break;
      case engine::Rule::Select::kCombined:
        break;  // no test of the service needs it
    }
  }
  return zeroed;
}

std::vector<float> FakeEngine::NextToken(uint64_t hash) const {
  std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = 5 * Uniform(hash ^ Mix(i));
    sum += std::exp(double{logits[i]});
  }
  for (float& logit : logits) logit -= static_cast<float>(std::log(sum));
  return logits;
}

engine::RowResult FakeEngine::RunRow(const engine::Unit& unit, const engine::Row& row) const {
  const uint64_t hash = Hash(row.suffix, Hash(unit.prefix, 1));
  const int tokens = static_cast<int>(unit.prefix.size() + row.suffix.size());
  engine::RowResult result;
  result.measurements = Measure(hash, tokens);
  const std::vector<uint8_t> zeroed = Decide(unit.rules[row.rule], row, result.measurements);
  result.mask.assign((zeroed.size() + 7) / 8, 0);
  uint64_t mask_hash = 0;
  for (size_t h = 0; h < zeroed.size(); ++h) {
    if (zeroed[h] == 0) continue;
    result.mask[h / 8] |= static_cast<uint8_t>(1u << (h % 8));
    mask_hash = Mix(mask_hash ^ h);
  }
  const size_t choices = row.scored > 0 ? row.targets.size() / row.scored : 0;
  for (size_t c = 0; c < choices; ++c) {
    const uint64_t target = Hash(row.targets.subspan(c * row.scored, row.scored), hash);
    const float ll = -static_cast<float>(row.scored) *
                     (3 * Uniform(target) + (mask_hash != 0 ? Uniform(target ^ mask_hash) : 0));
    result.log_likelihoods.push_back(ll);
    result.greedy.push_back(ll > -0.5f);
  }
  if (row.next_token) result.next_token = NextToken(hash ^ mask_hash);
  if (row.first_weights) {
    const int heads = config_.layers * config_.heads;
    for (int h = 0; h < heads; ++h) {
      for (int i = 0; i < tokens; ++i) {
        result.first_weights.push_back(i == 0 ? 1 : Uniform(hash ^ Mix((uint64_t(h) << 32) | i)));
      }
    }
  }
  if (!unit.record.measurements) result.measurements.clear();
  if (options_.non_finite_key == RandomKey(0, row.sample)) {
    result.finite = false;
    result.non_finite_layer = 0;
    result.non_finite_head = 0;
    for (float& ll : result.log_likelihoods) ll = std::nanf("");
    if (!result.measurements.empty()) result.measurements[0] = std::nanf("");
  }
  return result;
}

absl::StatusOr<engine::UnitResult> FakeEngine::RunPlain(const engine::Unit&,
                                                        const engine::CancelFlag&) {
  return absl::UnimplementedError("the fake engine has no plain pass");
}

absl::StatusOr<engine::GenerateResult> FakeEngine::Generate(const engine::GenerateUnit&,
                                                            const engine::CancelFlag&,
                                                            engine::BatchObserver*) {
  return absl::UnimplementedError("the fake engine does not generate");
}

absl::StatusOr<std::vector<float>> FakeEngine::Logits(std::span<const int32_t>, const engine::Rule&,
                                                      int) {
  return absl::UnimplementedError("the fake engine has no logits");
}

}  // namespace headcount::fault
