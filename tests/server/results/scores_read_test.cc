// Thresholds and head scores: of a made-up job against sorting, and of the golden measurements of
// the authors' code against the thresholds it printed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/catalog/safetensors.h"
#include "common/catalog/scores.h"
#include "nlohmann/json.hpp"
#include "server/results/head_scores.h"
#include "server/results/kv_groups.h"
#include "server/results/thresholds.h"
#include "tests/server/results/sample_job.h"

namespace headcount::results {
namespace {

const catalog::Score& Find(const char* name) { return **catalog::FindScore(name); }

// A raw measurement of the whole job, by sample, layer and head.
std::vector<float> ValuesOf(const SampleJob& job, const char* measurement) {
  std::vector<float> values;
  for (const v1::ScoreChunk& chunk : job.score_chunks) {
    for (const v1::Slab& slab : chunk.slabs()) {
      if (slab.measurement() != measurement) continue;
      const size_t at = values.size();
      values.resize(at + slab.values().size() / sizeof(float));
      std::memcpy(values.data() + at, slab.values().data(), slab.values().size());
    }
  }
  return values;
}

// Interpolation of (y, x) by walking the sorted values.
double ThresholdBySorting(std::vector<float> x, double y) {
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  if (y <= 1 / n) return x.front();
  for (size_t i = 1; i < x.size(); ++i) {
    const double left = static_cast<double>(i) / n;
    const double right = static_cast<double>(i + 1) / n;
    if (y <= right) return x[i - 1] + (y - left) / (right - left) * (double{x[i]} - x[i - 1]);
  }
  return x.back();
}

TEST(Thresholds, LikeSorting) {
  const auto job = SampleJobMaker::Sweep();
  const double fractions[] = {0, .05, .1, .5, .3, 1};
  const catalog::Score* scores[] = {&Find("output_norm"), &Find("random"),
                                    &Find("first_token_weight")};
  const auto thresholds = ThresholdsAtFractions(job->store, job->store.artifacts(), FakeJob::kName,
                                                scores, fractions, {});
  ASSERT_TRUE(thresholds.ok()) << thresholds.status();
  const std::vector<float> output = ValuesOf(*job, "output");
  const std::vector<float> weight = ValuesOf(*job, "first_weight");
  ASSERT_EQ(output.size(), 40 * kLayers * kHeads);
  for (size_t f = 0; f < std::size(fractions); ++f) {
    EXPECT_NEAR((*thresholds)[0][f], ThresholdBySorting(output, fractions[f]), 1e-6);
    EXPECT_EQ((*thresholds)[1][f], fractions[f]);
    EXPECT_NEAR((*thresholds)[2][f], ThresholdBySorting(weight, 1 - fractions[f]), 1e-6);
  }
  // Fraction 0 makes no head inactive, strictly.
  EXPECT_EQ((*thresholds)[0][0], *std::min_element(output.begin(), output.end()));
  EXPECT_EQ((*thresholds)[2][0], *std::max_element(weight.begin(), weight.end()));
}

TEST(Thresholds, PoolTheIncludedLayers) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<float> all = ValuesOf(*job, "output");
  std::vector<float> pooled;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i / kHeads % kLayers != 1) pooled.push_back(all[i]);
  }
  const double fractions[] = {.2};
  const ScorePool layers{.layers = {1, 0, 1}};
  const auto thresholds = ThresholdsAtFractions(job->store, job->store.artifacts(), FakeJob::kName,
                                                Find("output_norm"), fractions, layers);
  ASSERT_TRUE(thresholds.ok()) << thresholds.status();
  EXPECT_NEAR((*thresholds)[0], ThresholdBySorting(pooled, .2), 1e-6);

  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  request.add_scores("HONOR");
  request.add_scores("output_norm");
  request.add_fractions(.2);
  request.add_values((*thresholds)[0]);
  request.mutable_layers()->add_exclude(1);
  const auto answer = QueryThresholds(job->store, job->store.artifacts(), request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->tables_size(), 2);
  EXPECT_EQ(answer->tables(0).score(), "output_norm_ln");
  EXPECT_EQ(answer->tables(1).pooled(), static_cast<int64_t>(pooled.size()));
  EXPECT_EQ(answer->tables(1).points(0).value(), (*thresholds)[0]);
  // The 64th of 320 values is the threshold itself and not inactive.
  EXPECT_EQ(answer->tables(1).points(1).fraction(), 63.0 / 320);
}

// The stored values of a measurement as scores of KV groups of two query heads.
std::vector<float> GroupsOf(const std::vector<float>& heads,
                            const std::function<float(float, float)>& score) {
  std::vector<float> groups;
  for (size_t h = 0; h < heads.size(); h += 2) groups.push_back(score(heads[h], heads[h + 1]));
  return groups;
}

catalog::ModelConfig ModelOfTwoGroups() {
  catalog::ModelConfig model;
  model.layers = kLayers;
  model.heads = kHeads;
  model.kv_heads = 2;
  model.head_dim = 8;
  model.hidden_size = 32;
  return model;
}

TEST(Thresholds, PoolScoresOfKvGroups) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<float> heads = ValuesOf(*job, "output");
  const auto at = [&](v1::GroupScore how) {
    const double fractions[] = {.3};
    const auto thresholds =
        ThresholdsAtFractions(job->store, job->store.artifacts(), FakeJob::kName,
                              Find("output_norm"), fractions, {.kv_heads = 2, .group_score = how});
    EXPECT_TRUE(thresholds.ok()) << thresholds.status();
    return thresholds.ok() ? thresholds->front() : 0;
  };
  const auto mean = [](float a, float b) { return (a + b) / 2; };
  EXPECT_NEAR(at(v1::GROUP_SCORE_MEAN), ThresholdBySorting(GroupsOf(heads, mean), .3), 1e-6);
  EXPECT_NEAR(
      at(v1::GROUP_SCORE_MAX),
      ThresholdBySorting(GroupsOf(heads, [](float a, float b) { return std::max(a, b); }), .3),
      1e-6);
  EXPECT_NEAR(
      at(v1::GROUP_SCORE_MIN),
      ThresholdBySorting(GroupsOf(heads, [](float a, float b) { return std::min(a, b); }), .3),
      1e-6);
  // The same by request, which knows the KV heads from the model.
  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  request.add_scores("output_norm");
  request.add_fractions(.3);
  request.set_unit(v1::UNIT_KV_GROUP);
  const catalog::ModelConfig model = ModelOfTwoGroups();
  const auto answer = QueryThresholds(job->store, job->store.artifacts(), request, &model);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->tables(0).points(0).value(), at(v1::GROUP_SCORE_MEAN));
  EXPECT_EQ(answer->tables(0).pooled(), static_cast<int64_t>(heads.size() / 2));
}

TEST(Thresholds, KvGroupsThatAreWhollyInactiveAndTheirCost) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<float> heads = ValuesOf(*job, "first_weight");
  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  request.add_scores("random");
  request.add_scores("first_token_weight");  // inactive above
  request.add_values(.4);
  request.add_values(-1);
  request.set_kv_groups(true);
  const catalog::ModelConfig model = ModelOfTwoGroups();
  const auto answer = QueryThresholds(job->store, job->store.artifacts(), request, &model);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->tables(0).points(0).has_kv_groups()) << "draws are independent";
  const v1::ThresholdTable& table = answer->tables(1);

  constexpr size_t kGroups = kLayers * 2;
  const std::vector<float> least = GroupsOf(heads, [](float a, float b) { return std::min(a, b); });
  std::vector<int> inactive(kGroups);
  for (size_t i = 0; i < least.size(); ++i) inactive[i % kGroups] += least[i] > .4f;
  const double samples = static_cast<double>(least.size() / kGroups);
  double mean = 0;
  int always = 0;
  for (int count : inactive) {
    mean += count / samples;
    always += count >= .95 * samples;
  }
  EXPECT_NEAR(table.points(0).kv_groups().per_sample().groups(), mean, 1e-9);
  EXPECT_EQ(table.points(0).kv_groups().always().groups(), always);
  EXPECT_EQ(table.points(0).kv_groups().always_groups_size(), always);
  // Above -1 is everything.
  const v1::KvGroups& all = table.points(1).kv_groups();
  EXPECT_EQ(all.always_groups_size(), static_cast<int>(kGroups));
  EXPECT_EQ(all.always_groups(3).layer(), 1);
  EXPECT_EQ(all.always_groups(3).head(), 1);
  EXPECT_EQ(all.per_sample().groups(), 6);
  EXPECT_EQ(all.all().kv_bytes_per_token(), all.always().kv_bytes_per_token());
  EXPECT_EQ(all.all().kv_bytes_per_token(), 6 * 2 * 8 * 2);  // the fake's type has 16 bits
  const double keys = MeanKeys(job->manifest);
  // q and W_O of two heads, k and v once; then two products over the keys.
  EXPECT_NEAR(all.all().flops_per_token(), 6 * (6 * 2 * 32 * 8 + 2 * 4 * 8 * keys), 1e-6);

  request.set_unit(v1::UNIT_KV_GROUP);
  EXPECT_EQ(FieldOf(QueryThresholds(job->store, job->store.artifacts(), request, &model).status()),
            "kv_groups");
  request.clear_unit();
  const auto no_model = QueryThresholds(job->store, job->store.artifacts(), request).status();
  EXPECT_EQ(no_model.code(), absl::StatusCode::kFailedPrecondition) << no_model;
  EXPECT_EQ(ReasonOf(no_model), "MODEL_NOT_FOUND");
  request.set_kv_groups(false);
  request.set_group_score(v1::GROUP_SCORE_MAX);
  EXPECT_EQ(FieldOf(QueryThresholds(job->store, job->store.artifacts(), request, &model).status()),
            "group_score");
}

TEST(Thresholds, UserScoresAreReadLikeOthers) {
  const auto job = SampleJobMaker::Sweep();
  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  v1::UserScore* mine = request.add_user_scores();
  mine->set_name("mine");
  mine->set_expression("2 * output");
  mine->set_inactive(v1::UserScore::BELOW);
  request.add_fractions(.25);
  const auto answer = QueryThresholds(job->store, job->store.artifacts(), request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->tables_size(), 1);
  EXPECT_EQ(answer->tables(0).score(), "mine");
  EXPECT_NEAR(answer->tables(0).points(0).value(),
              2 * ThresholdBySorting(ValuesOf(*job, "output"), .25), 1e-5);
  v1::GetHeadScoresRequest heads;
  heads.set_job(FakeJob::kName);
  *heads.mutable_user_score() = *mine;
  const auto scores = GetHeadScores(job->store, job->store.artifacts(), heads);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(scores->score(), "mine");
  heads.set_score("entropy");
  EXPECT_EQ(FieldOf(GetHeadScores(job->store, job->store.artifacts(), heads).status()), "score");
  mine->set_expression("2 *");
  const absl::Status bad = QueryThresholds(job->store, job->store.artifacts(), request).status();
  EXPECT_EQ(FieldOf(bad), "user_scores[0].expression");
  EXPECT_NE(std::string(bad.message()).find("position 3"), std::string::npos) << bad;
}

TEST(Thresholds, MeanKeysCountWhatEachTokenSees) {
  v1::Manifest manifest;
  manifest.add_groups()->add_prefix(1);
  manifest.mutable_groups(0)->add_prefix(2);
  manifest.add_samples()->add_suffix(3);
  v1::ManifestSample* longer = manifest.add_samples();
  for (int i = 0; i < 3; ++i) longer->add_suffix(i);
  // Three tokens see 1, 2, 3 keys; five see 1 to 5.
  EXPECT_DOUBLE_EQ(MeanKeys(manifest), (6.0 + 15.0) / 8);
}

TEST(Thresholds, FractionsAreStrictlyInactive) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<float> weight = ValuesOf(*job, "first_weight");
  const float at = weight[5];
  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  request.add_scores("Dormant");
  request.add_values(double{at});
  const auto answer = QueryThresholds(job->store, job->store.artifacts(), request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto above = std::count_if(weight.begin(), weight.end(), [&](float x) { return x > at; });
  EXPECT_EQ(answer->tables(0).inactive_side(), ">");
  EXPECT_EQ(answer->tables(0).points(0).fraction(),
            static_cast<double>(above) / static_cast<double>(weight.size()));
  EXPECT_TRUE(answer->complete());
}

TEST(Thresholds, AllScoresByDefault) {
  const auto job = SampleJobMaker::Sweep();
  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  request.add_fractions(.1);
  const auto answer = QueryThresholds(job->store, job->store.artifacts(), request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->tables_size(), static_cast<int>(catalog::Scores().size()));
  EXPECT_EQ(answer->tables(15).score(), "random");
  EXPECT_EQ(answer->tables(15).points(0).value(), .1);
}

TEST(Thresholds, LeaveOutWhatIsNotFinite) {
  const auto job = SampleJobMaker::Sweep();
  v1::ScoreChunk chunk = job->score_chunks[0];
  chunk.mutable_results(2)->set_non_finite(true);  // the whole sample leaves the pool
  const float infinity = HUGE_VALF;
  for (v1::Slab& slab : *chunk.mutable_slabs()) {
    if (slab.measurement() == "output") {
      std::memcpy(slab.mutable_values()->data(), &infinity, sizeof(float));  // of sample 0
    }
  }
  job->store.Store(0, chunk);
  std::vector<float> pooled = ValuesOf(*job, "output");
  constexpr int64_t kSample = kLayers * kHeads;
  pooled.erase(pooled.begin() + 2 * kSample, pooled.begin() + 3 * kSample);
  pooled.erase(pooled.begin());
  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  request.add_scores("output_norm");
  request.add_fractions(.25);
  const auto answer = QueryThresholds(job->store, job->store.artifacts(), request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->tables(0).non_finite(), kSample + 1);
  EXPECT_EQ(answer->tables(0).pooled(), static_cast<int64_t>(pooled.size()));
  EXPECT_NEAR(answer->tables(0).points(0).value(), ThresholdBySorting(pooled, .25), 1e-6);
}

TEST(Thresholds, Errors) {
  const auto job = SampleJobMaker::Sweep();
  const auto reason = [](const absl::Status& status) { return ReasonOf(status).value_or("none"); };
  const double fraction[] = {.1};
  const auto resolve = [&](FakeJob& store, const char* score, std::span<const double> fractions,
                           const ScorePool& layers = {}) {
    return ThresholdsAtFractions(store, store.artifacts(), FakeJob::kName, Find(score), fractions,
                                 layers)
        .status();
  };
  FakeJob incomplete;
  incomplete.job().mutable_score();
  EXPECT_EQ(reason(resolve(incomplete, "entropy", fraction)), "RESULTS_NOT_READY");
  incomplete.Plan(store::Stage::kScore, job->score_plan, job->manifest);
  incomplete.Store(0, job->score_chunks[0]);
  EXPECT_EQ(reason(resolve(incomplete, "entropy", fraction)), "RESULTS_NOT_READY");
  v1::QueryThresholdsRequest request;
  request.set_job(FakeJob::kName);
  const auto partly = QueryThresholds(incomplete, incomplete.artifacts(), request);
  ASSERT_TRUE(partly.ok()) << partly.status();
  EXPECT_FALSE(partly->complete());

  const auto ablate = SampleJobMaker::Ablate();
  EXPECT_EQ(reason(resolve(ablate->store, "entropy", fraction)), "NO_SCORES");
  const double too_large[] = {.1, 1.5};
  absl::Status status = resolve(job->store, "entropy", too_large);
  EXPECT_EQ(FieldOf(status), "fractions[1]") << status;
  const ScorePool two_layers{.layers = {1, 1}};
  EXPECT_EQ(FieldOf(resolve(job->store, "entropy", fraction, two_layers)), "layers");
  request.add_values(std::nan(""));
  EXPECT_EQ(FieldOf(QueryThresholds(job->store, job->store.artifacts(), request).status()),
            "values[0]");
  request.clear_values();
  request.mutable_layers()->add_include(3);
  EXPECT_EQ(FieldOf(QueryThresholds(job->store, job->store.artifacts(), request).status()),
            "layers.include");

  v1::ScoreChunk lacking = job->score_chunks[1];
  for (v1::Slab& slab : *lacking.mutable_slabs()) {
    if (slab.measurement() == "projected") slab.set_measurement("renamed");
  }
  job->store.Store(1, lacking);
  EXPECT_TRUE(resolve(job->store, "entropy", fraction).ok());
  status = resolve(job->store, "projected_norm_ln", fraction);
  EXPECT_EQ(reason(status), "MEASUREMENT_NOT_STORED");
  EXPECT_NE(status.message().find("projected"), std::string_view::npos) << status;
}

TEST(HeadScores, OfEveryHead) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<float> all = ValuesOf(*job, "value");
  v1::GetHeadScoresRequest request;
  request.set_job(FakeJob::kName);
  request.set_score("ValueVectorAvgMagnitude");
  request.set_threshold(1.0);
  // In one pass, and one head at a time.
  for (const int64_t memory : {kHeadScoresMemory, int64_t{1}}) {
    const auto answer = GetHeadScores(job->store, job->store.artifacts(), request, memory);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->score(), "value_norm");
    EXPECT_EQ(answer->layers(), kLayers);
    EXPECT_EQ(answer->heads(), kHeads);
    EXPECT_EQ(answer->samples(), 40);
    EXPECT_TRUE(answer->per_kv_head());
    EXPECT_TRUE(answer->complete());
    ASSERT_EQ(answer->quantiles_size(), 5);
    ASSERT_EQ(answer->quantile_values_size(), 5 * kLayers * kHeads);
    for (int h = 0; h < kLayers * kHeads; ++h) {
      std::vector<float> column;
      for (size_t i = static_cast<size_t>(h); i < all.size(); i += kLayers * kHeads) {
        column.push_back(all[i]);
      }
      double mean = 0;
      for (const float x : column) mean += x / 40.0;
      double squares = 0;
      for (const float x : column) squares += (x - mean) * (x - mean);
      EXPECT_NEAR(answer->mean(h), mean, 1e-9);
      EXPECT_NEAR(answer->standard_deviation(h), std::sqrt(squares / 39), 1e-9);
      const auto inactive =
          std::count_if(column.begin(), column.end(), [](float x) { return x < 1; });
      EXPECT_EQ(answer->inactive_fraction(h), static_cast<double>(inactive) / 40);
      std::sort(column.begin(), column.end());
      // numpy: position .25 * 39 = 9.75
      EXPECT_NEAR(answer->quantile_values(1 * kLayers * kHeads + h),
                  column[9] + .75 * (column[10] - column[9]), 1e-6);
      EXPECT_NEAR(answer->quantile_values(2 * kLayers * kHeads + h),
                  (double{column[19]} + column[20]) / 2, 1e-6);
    }
  }
  request.set_score("output_norm_ln");
  EXPECT_FALSE(GetHeadScores(job->store, job->store.artifacts(), request)->per_kv_head());
}

TEST(HeadScores, OfOneSubtask) {
  const auto job = SampleJobMaker::Sweep();
  const std::vector<float> all = ValuesOf(*job, "value");
  v1::GetHeadScoresRequest request;
  request.set_job(FakeJob::kName);
  request.set_score("value_norm");
  request.set_subtask("quiz_b");  // samples 16 to 31
  for (const int64_t memory : {kHeadScoresMemory, int64_t{1}}) {
    const auto answer = GetHeadScores(job->store, job->store.artifacts(), request, memory);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->samples(), 16);
    for (int h = 0; h < kLayers * kHeads; ++h) {
      double mean = 0;
      float largest = 0;
      for (int i = 16; i < 32; ++i) {
        const float x = all[static_cast<size_t>(i * kLayers * kHeads + h)];
        mean += x / 16.0;
        largest = std::max(largest, x);
      }
      EXPECT_NEAR(answer->mean(h), mean, 1e-9);
      EXPECT_LE(answer->quantile_values(4 * kLayers * kHeads + h), largest);
    }
  }
  request.set_subtask("quiz_c");
  EXPECT_EQ(FieldOf(GetHeadScores(job->store, job->store.artifacts(), request).status()),
            "subtask");
}

TEST(HeadScores, Errors) {
  const auto job = SampleJobMaker::Sweep();
  v1::GetHeadScoresRequest request;
  request.set_job(FakeJob::kName);
  const auto field = [&] {
    return FieldOf(GetHeadScores(job->store, job->store.artifacts(), request).status());
  };
  request.set_score("HONOUR");
  EXPECT_EQ(field(), "score");
  request.set_score("random");
  EXPECT_EQ(field(), "score");
  request.set_score("entropy");
  request.add_quantiles(1.01);
  EXPECT_EQ(field(), "quantiles[0]");
  request.clear_quantiles();
  request.set_threshold(std::nan(""));
  EXPECT_EQ(field(), "threshold");
}

// --- golden ------------------------------------------------------------------------------------

std::vector<float> ReadTensor(const std::string& path, const catalog::SafetensorsHeader& header,
                              const std::string& name) {
  const catalog::TensorInfo& info = header.tensors.at(name);
  std::vector<float> values((info.end - info.begin) / sizeof(float));
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(info.begin));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(info.end - info.begin));
  return values;
}

// The authors' scores are base measurements under other names.
constexpr struct {
  const char* measurement;
  const char* alias;
} kGoldenMeasurements[] = {
    {"first_weight", "Dormant"},
    {"entropy", "Entropy"},
    {"first_value", "ValueVectorMagnitudeFirstToken"},
    {"value", "ValueVectorAvgMagnitude"},
    {"output", "UnnormalizedHONOR"},
    {"last_output", "HeadOutputMagnitudeLastToken"},
    {"projected", "FullHeadOutput"},
};

// Stores the golden measurements as a score job, one prompt a unit, and compares all thresholds.
void ExpectGoldenThresholds(const std::string& tensors, const std::string& prefix,
                            const nlohmann::json& thresholds,
                            const std::vector<double>& fractions) {
  const auto header = catalog::ReadSafetensorsHeader(tensors);
  ASSERT_TRUE(header.ok()) << header.status();
  const std::vector<int64_t> shape = header->tensors.at(prefix + "Dormant").shape;
  const auto per_prompt = static_cast<size_t>(shape[1] * shape[2]);
  FakeJob job;
  job.job().mutable_score();
  v1::Manifest manifest;
  v1::StagePlan plan;
  for (int64_t p = 0; p < shape[0]; ++p) {
    v1::SampleBlock* block = plan.add_sample_blocks();
    block->set_first_sample(p);
    block->set_samples(1);
  }
  job.Plan(store::Stage::kScore, plan, manifest);
  for (int64_t p = 0; p < shape[0]; ++p) {
    v1::ScoreChunk chunk;
    chunk.set_first_sample(p);
    chunk.set_samples(1);
    chunk.set_layers(static_cast<int>(shape[1]));
    chunk.set_heads(static_cast<int>(shape[2]));
    for (const auto& golden : kGoldenMeasurements) {
      const std::vector<float> values = ReadTensor(tensors, *header, prefix + golden.alias);
      v1::Slab* slab = chunk.add_slabs();
      slab->set_measurement(golden.measurement);
      slab->set_values(std::string(
          reinterpret_cast<const char*>(values.data() + static_cast<size_t>(p) * per_prompt),
          per_prompt * sizeof(float)));
    }
    job.Store(p, chunk);
  }
  int compared = 0;
  for (const auto& [alias, expected] : thresholds.items()) {
    const auto computed = ThresholdsAtFractions(job, job.artifacts(), FakeJob::kName,
                                                Find(alias.c_str()), fractions, {});
    ASSERT_TRUE(computed.ok()) << computed.status();
    for (size_t f = 0; f < fractions.size(); ++f) {
      const double golden = expected[f];
      EXPECT_NEAR((*computed)[f], golden, std::max(1e-5, 1e-4 * std::fabs(golden)))
          << alias << " at " << fractions[f];
      ++compared;
    }
  }
  EXPECT_EQ(compared, 15 * 7);
}

class GoldenThresholds : public testing::TestWithParam<const char*> {};

TEST_P(GoldenThresholds, LikeTheAuthorsCode) {
  const std::string folder = std::string("tests/golden/") + GetParam();
  const auto text = ReadFile(folder + "/golden.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json golden = nlohmann::json::parse(*text);
  ExpectGoldenThresholds(folder + "/golden.safetensors", "scores/", golden["thresholds"],
                         golden["shares"]);
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenThresholds,
                         testing::Values("tiny-llama", "tiny-llama3", "tiny-qwen2", "tiny-olmo2"));

TEST(GoldenThresholdsShared, SmolLm2) {
  const char* shared = std::getenv("HEADCOUNT_SHARED");
  const std::string folder =
      std::string(shared != nullptr ? shared : "../shared") + "/golden/smollm2";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no golden values of SmolLM2 in " << folder << " (HEADCOUNT_SHARED)";
  }
  const auto text = ReadFile(folder + "/thresholds.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const nlohmann::json golden = nlohmann::json::parse(*text);
  ExpectGoldenThresholds(folder + "/scores.safetensors", "", golden["thresholds"],
                         golden["percent"]);
}

}  // namespace
}  // namespace headcount::results
