#include "client/cli/job_difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace headcount::cli {
namespace {

v1::SampleRecord Row(std::vector<float> log_likelihoods) {
  v1::SampleRecord row;
  row.set_sample("piqa/7/0");
  row.set_rule_label("entropy<0.5");
  row.set_mask("\x05");
  row.set_correct(true);
  for (float value : log_likelihoods) row.add_log_likelihoods(value);
  return row;
}

TEST(JobDifference, ProvenanceDiffersByFieldAndNotByWhoComputed) {
  v1::Provenance then;
  then.set_model_digest("aa");
  then.set_threads(2);
  then.set_first_token_is_bos(true);
  then.add_reused()->set_job("projects/default/jobs/x");
  v1::Provenance now = then;
  EXPECT_TRUE(DifferencesOf(then, now).empty());
  now.clear_reused();
  EXPECT_TRUE(DifferencesOf(then, now).empty());
  now.set_model_digest("bb");
  now.set_threads(4);
  const auto differences = DifferencesOf(then, now);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].field, "model_digest");
  EXPECT_EQ(differences[0].then, "\"aa\"");
  EXPECT_EQ(differences[1].field, "threads");
  EXPECT_EQ(differences[1].now, "4");
}

TEST(JobDifference, EqualRowsAreIdenticalEvenWhereTheyOverflowed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  RowDifferences rows;
  rows.Add(Row({-1, -2}), Row({-1, -2}));
  rows.Add(Row({nan}), Row({nan}));
  rows.Add(Row({-INFINITY}), Row({-INFINITY}));
  EXPECT_EQ(rows.rows(), 3);
  EXPECT_EQ(rows.identical(), 3);
  EXPECT_EQ(rows.largest_difference(), 0);
  EXPECT_EQ(rows.where(), "");
}

TEST(JobDifference, EachKindOfDifferenceIsCounted) {
  RowDifferences rows;
  v1::SampleRecord other = Row({-1, -2.25});
  rows.Add(Row({-1, -2}), other);
  EXPECT_EQ(rows.largest_difference(), .25);
  other = Row({-1, -2});
  other.set_mask("\x04");
  other.set_sample("piqa/8/0");
  rows.Add(Row({-1, -2}), other);
  other.set_correct(false);
  rows.Add(Row({-1, -2}), other);
  other.add_generated_tokens(3);
  rows.Add(Row({-1, -2}), other);
  EXPECT_EQ(rows.identical(), 0);
  EXPECT_EQ(rows.masks(), 3);
  EXPECT_EQ(rows.answers(), 2);
  EXPECT_EQ(rows.texts(), 1);
  EXPECT_EQ(rows.where(), "piqa/7/0 under entropy<0.5");
  rows.Add(Row({-1}), Row({}));
  EXPECT_TRUE(std::isinf(rows.largest_difference()));
}

}  // namespace
}  // namespace headcount::cli
