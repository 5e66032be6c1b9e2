// Every decision, standard error and group mean that lm-evaluation-harness 0.4.5 was asked for
// (shared data), by the functions that curves and samples are made with. GSM8K's cases are in
// tests/common/tasks/answers_test.cc, the draws of examples in tests/worker/eval.

#include <gtest/gtest.h>

#include <vector>

#include "common/base/files.h"
#include "nlohmann/json.hpp"
#include "server/results/decide.h"
#include "server/results/statistics.h"
#include "tests/worker/eval/shared_data.h"

namespace headcount::results {
namespace {

using Json = nlohmann::json;

class HarnessScoring : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = SharedPath("data/lm_eval/scoring.json");
    HC_SKIP_UNLESS_EXISTS(path);
    scoring_ = Json::parse(*ReadFile(path));
  }

  Json scoring_;
};

TEST_F(HarnessScoring, Decisions) {
  int compared = 0;
  for (const auto& [task, cases] : scoring_.items()) {
    if (!cases.is_array() || !cases[0].contains("lls")) continue;
    for (const Json& c : cases) {
      SCOPED_TRACE(task + ": " + c.dump());
      v1::ManifestDocument document;
      document.set_gold(c.contains("gold") ? c["gold"].get<int>() : c["doc"]["label"].get<int>());
      for (size_t i = 0; i < c["lls"].size(); ++i) {
        document.add_choice_lengths(
            c.contains("choice_char_lens") ? c["choice_char_lens"][i].get<int>() : 1);
      }
      const Decision decision = Decide(document, c["lls"].get<std::vector<float>>(), true);
      EXPECT_EQ(decision.correct, c["result"]["acc"].get<double>() == 1);
      if (c["result"].contains("acc_norm")) {
        EXPECT_EQ(decision.correct_norm, c["result"]["acc_norm"].get<double>() == 1);
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, 11);
}

TEST_F(HarnessScoring, StandardErrors) {
  for (const Json& c : scoring_["stderr"]) {
    const auto values = c["values"].get<std::vector<double>>();
    EXPECT_DOUBLE_EQ(Mean(values), c["mean"].get<double>());
    EXPECT_NEAR(StandardError(values), c["stderr"].get<double>(), 1e-15);
    int64_t correct = 0;
    for (const double value : values) correct += value == 1;
    EXPECT_NEAR(StandardErrorOfShare(correct, static_cast<int64_t>(values.size())),
                c["stderr"].get<double>(), 1e-15);
  }
}

// A group is the mean over its questions, not over its subjects: right answers add up.
TEST_F(HarnessScoring, Groups) {
  const Json& group = scoring_["group"];
  std::vector<GroupPart> parts;
  std::vector<double> questions;
  for (size_t i = 0; i < group["sizes"].size(); ++i) {
    const auto size = group["sizes"][i].get<int64_t>();
    parts.push_back({size, group["stderrs"][i].get<double>()});
    questions.insert(questions.end(), static_cast<size_t>(size), group["metrics"][i].get<double>());
  }
  EXPECT_NEAR(PooledStandardError(parts), group["pooled_stderr"].get<double>(), 1e-15);
  EXPECT_NEAR(Mean(questions), group["mean"].get<double>(), 1e-12);
}

}  // namespace
}  // namespace headcount::results
