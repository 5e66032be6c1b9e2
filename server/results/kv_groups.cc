// See kv_groups.h.

#include "server/results/kv_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status_macros.h"

namespace headcount::results {
namespace {

// The last head of each group to become inactive: the group is when this one is. NaN: never.
void LastOfGroups(std::span<const float> heads, size_t group, bool below, std::span<float> out) {
  for (size_t g = 0; g < out.size(); ++g) {
    float last = heads[g * group];
    for (size_t h = 1; h < group; ++h) {
      const float x = heads[g * group + h];
      if (std::isnan(x) || std::isnan(last)) {
        last = std::numeric_limits<float>::quiet_NaN();
      } else {
        last = below ? std::max(last, x) : std::min(last, x);
      }
    }
    out[g] = last;
  }
}

// How often each group was inactive: [point][layer][KV head].
struct Counts {
  std::vector<std::vector<int64_t>> of_points;
  bool below = true;
};

}  // namespace

double MeanKeys(const v1::Manifest& manifest) {
  double tokens = 0, keys = 0;
  std::vector<int> prefixes;
  for (const v1::ManifestGroup& group : manifest.groups()) {
    prefixes.push_back(group.prefix_size());
  }
  for (const v1::ManifestSample& sample : manifest.samples()) {
    const auto group = static_cast<size_t>(sample.group());
    const double length = sample.suffix_size() + (group < prefixes.size() ? prefixes[group] : 0);
    tokens += length;
    keys += length * (length + 1) / 2;
  }
  return tokens > 0 ? keys / tokens : 0;
}

v1::KvCost CostOf(double groups, const catalog::ModelConfig& model, int element_bytes,
                  double mean_keys) {
  const double heads = model.group_size(), dim = model.head_dim, hidden = model.hidden_size;
  v1::KvCost cost;
  cost.set_groups(groups);
  cost.set_kv_bytes_per_token(groups * 2 * dim * element_bytes);
  // Projections: q and W_O for each query head, k and v once; then q.k and P v over the keys.
  const double projections = 2 * hidden * dim * (2 * heads + 2);
  const double attention = 2 * 2 * heads * dim * mean_keys;
  cost.set_flops_per_token(groups * (projections + attention));
  return cost;
}

absl::Status AddKvGroups(ScoreReader& reader, std::span<const catalog::Score* const> scores,
                         std::span<const uint8_t> layers, const catalog::ModelConfig& model,
                         double mean_keys, std::span<v1::ThresholdTable* const> tables) {
  const auto group = static_cast<size_t>(model.group_size());
  const auto kv_heads = static_cast<size_t>(model.kv_heads);
  const size_t groups = static_cast<size_t>(reader.layers()) * kv_heads;
  std::vector<Counts> counts;
  for (size_t s = 0; s < scores.size(); ++s) {
    counts.push_back(
        {std::vector<std::vector<int64_t>>(static_cast<size_t>(tables[s]->points_size()),
                                           std::vector<int64_t>(groups)),
         scores[s]->inactive == catalog::Inactive::kBelow});
  }
  std::vector<float> last(groups);
  int64_t samples = 0;
  HC_RETURN_IF_ERROR(reader.ForEachSample([&](const ScoreReader::Sample& sample) {
    if (!sample.finite) return;
    ++samples;
    for (size_t s = 0; s < scores.size(); ++s) {
      const bool below = counts[s].below;
      LastOfGroups(sample.scores[s], group, below, last);
      for (size_t p = 0; p < counts[s].of_points.size(); ++p) {
        const double threshold = tables[s]->points(static_cast<int>(p)).value();
        for (size_t g = 0; g < groups; ++g) {
          if (!layers.empty() && layers[g / kv_heads] == 0) continue;
          counts[s].of_points[p][g] += below ? last[g] < threshold : last[g] > threshold;
        }
      }
    }
  }));
  const int element_bytes = reader.dtype() == "float32" ? 4 : 2;
  const auto cost = [&](double of_groups) {
    return CostOf(of_groups, model, element_bytes, mean_keys);
  };
  for (size_t s = 0; s < scores.size(); ++s) {
    for (size_t p = 0; p < counts[s].of_points.size(); ++p) {
      v1::KvGroups* out = tables[s]->mutable_points(static_cast<int>(p))->mutable_kv_groups();
      double sum = 0;
      for (size_t g = 0; g < groups; ++g) {
        const auto inactive = static_cast<double>(counts[s].of_points[p][g]);
        sum += inactive;
        if (samples == 0 || inactive < kAlwaysShare * static_cast<double>(samples)) continue;
        v1::Head* head = out->add_always_groups();
        head->set_layer(static_cast<int>(g / kv_heads));
        head->set_head(static_cast<int>(g % kv_heads));
      }
      *out->mutable_all() = cost(static_cast<double>(groups));
      *out->mutable_per_sample() = cost(samples > 0 ? sum / static_cast<double>(samples) : 0);
      *out->mutable_always() = cost(out->always_groups_size());
    }
  }
  return absl::OkStatus();
}

}  // namespace headcount::results
