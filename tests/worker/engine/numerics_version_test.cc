// Holds the engine's results to those of the recorded numerics version. A change that moves them
// must raise catalog::kNumericsVersion, because stored results and reuse keys carry it:
//   HEADCOUNT_WRITE_NUMERICS=1 <this test>   writes tests/golden/numerics.json anew, for the
//   version of the moment.
// Rounding between kinds of CPU is allowed for; whatever moves a number further is a change.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "common/catalog/numerics_version.h"
#include "engine_testing.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr char kFile[] = "tests/golden/numerics.json";

// Measurements of a prompt under the baseline and log-likelihoods under rules of several kinds.
std::vector<float> Results(const std::string& model) {
  const auto engine = LoadOrDie(TinyModel(model));
  static const std::vector<int32_t> targets = {7, 300};
  Rule random;
  random.select = Rule::Select::kRandom;
  random.probability = 0.3;
  Unit unit =
      MakeUnit({TinyPrompts(model)[3]},
               {Rule{}, ThresholdRule("output_norm_ln", 0.8f), FixedRule({{1, 2}}), random}, true);
  for (Row& row : unit.rows) {
    row.targets = targets;
    row.scored = 1;
    row.sample = "quiz/0/0";
  }
  const UnitResult result = RunOrDie(*engine, unit);
  std::vector<float> out = result.rows[0].measurements;
  for (const RowResult& row : result.rows) {
    out.insert(out.end(), row.log_likelihoods.begin(), row.log_likelihoods.end());
  }
  return out;
}

TEST(NumericsVersion, ResultsAreThoseOfTheRecordedVersion) {
  if (std::getenv("HEADCOUNT_WRITE_NUMERICS") != nullptr) {
    nlohmann::json json = {{"numerics_version", catalog::kNumericsVersion}};
    for (const std::string& model : kTinyModels) json["results"][model] = Results(model);
    std::ofstream(kFile) << json.dump() << "\n";
  }
  const nlohmann::json json = ReadGoldenJson(kFile);
  ASSERT_EQ(json["numerics_version"], catalog::kNumericsVersion)
      << "write the results of the new version: HEADCOUNT_WRITE_NUMERICS=1";
  for (const std::string& model : kTinyModels) {
    const auto expected = json["results"][model].get<std::vector<float>>();
    const std::vector<float> actual = Results(model);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], 5e-6 * std::max(1.0f, std::fabs(expected[i])))
          << model << " [" << i << "]: results moved; raise catalog::kNumericsVersion";
    }
  }
}

}  // namespace
}  // namespace headcount::engine
