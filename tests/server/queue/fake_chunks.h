// Chunks as a worker would send them, with numbers drawn from hashes of what they belong to: the
// same unit has the same bytes whoever computes it, and other rules or samples have others.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/catalog/measurements.h"
#include "common/catalog/numerics_version.h"
#include "common/format/frame.h"
#include "headcount/v1/storage.pb.h"
#include "tests/server/plan/fake_catalog.h"

namespace headcount::queue {

// In [0, 1): FNV-1a, then the finaliser of splitmix64.
inline float Draw(const std::string& what) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : what) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return static_cast<float>((hash ^ (hash >> 31)) >> 40) / static_cast<float>(1 << 24);
}

inline void FillRun(v1::RunInfo* run) {
  run->set_numerics_version(catalog::kNumericsVersion);
  run->set_dtype("float32");
  run->set_device_kind("cpu");
  run->set_threads(1);
}

inline void AppendFloat(float value, std::string* bytes) {
  char raw[4];
  std::memcpy(raw, &value, 4);
  bytes->append(raw, 4);
}

inline v1::SampleResult FakeResult(const v1::ManifestSample& sample, const std::string& salt) {
  v1::SampleResult result;
  for (int c = 0; c < sample.choices_size(); ++c) {
    result.add_log_likelihoods(-Draw(absl::StrCat(sample.id(), salt, "ll", c)));
    result.add_greedy(false);
  }
  return result;
}

inline v1::ScoreChunk FakeScoreChunk(const v1::Manifest& manifest, const v1::UnitRange& range) {
  constexpr int kHeads = plan::FakeCatalog::kLayers * plan::FakeCatalog::kHeads;
  v1::ScoreChunk chunk;
  chunk.set_first_sample(range.first_sample());
  chunk.set_samples(range.samples());
  chunk.set_layers(plan::FakeCatalog::kLayers);
  chunk.set_heads(plan::FakeCatalog::kHeads);
  chunk.set_head_dim(plan::FakeCatalog::kHeadDim);
  for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
    v1::Slab* slab = chunk.add_slabs();
    slab->set_measurement(std::string(info.id));
    for (int i = 0; i < range.samples(); ++i) {
      const std::string& id = manifest.samples(static_cast<int>(range.first_sample()) + i).id();
      for (int h = 0; h < kHeads; ++h) {
        AppendFloat(.5f + Draw(absl::StrCat(id, slab->measurement(), h)), slab->mutable_values());
      }
    }
  }
  for (int i = 0; i < range.samples(); ++i) {
    *chunk.add_results() =
        FakeResult(manifest.samples(static_cast<int>(range.first_sample()) + i), "base");
  }
  const std::string sums(kHeads * plan::FakeCatalog::kHeadDim * 4, '\0');
  chunk.mutable_head_sums()->set_rest(sums);
  chunk.mutable_head_sums()->set_first(sums);
  FillRun(chunk.mutable_run());
  return chunk;
}

// `rules` are those of the range, in order.
inline v1::AblateChunk FakeAblateChunk(const v1::Manifest& manifest, const v1::UnitRange& range,
                                       const std::vector<v1::ResolvedRule>& rules) {
  constexpr int kHeads = plan::FakeCatalog::kLayers * plan::FakeCatalog::kHeads;
  v1::AblateChunk chunk;
  chunk.set_first_sample(range.first_sample());
  chunk.set_samples(range.samples());
  chunk.set_first_rule(range.first_rule());
  chunk.set_rules(range.rules());
  chunk.set_layers(plan::FakeCatalog::kLayers);
  chunk.set_heads(plan::FakeCatalog::kHeads);
  for (const v1::ResolvedRule& rule : rules) {
    const std::string salt = rule.SerializeAsString();
    std::vector<uint32_t> zeroed(kHeads, 0);
    for (int i = 0; i < range.samples(); ++i) {
      const v1::ManifestSample& sample =
          manifest.samples(static_cast<int>(range.first_sample()) + i);
      v1::SampleResult result = FakeResult(sample, salt);
      char mask = 0;
      for (int h = 0; h < kHeads; ++h) {
        if (rule.none() || Draw(absl::StrCat(sample.id(), salt, "mask", h)) >= .3f) continue;
        mask = static_cast<char>(mask | (1 << h));
        ++zeroed[h];
      }
      result.set_mask(std::string(1, mask));
      *chunk.add_results() = std::move(result);
    }
    for (uint32_t count : zeroed) {
      AppendFloat(std::bit_cast<float>(count), chunk.mutable_zeroed());
    }
  }
  FillRun(chunk.mutable_run());
  return chunk;
}

}  // namespace headcount::queue
