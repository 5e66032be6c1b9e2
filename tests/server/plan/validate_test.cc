// Every way in which a job's spec can be wrong: the code, and the path of the field that the error
// names.

#include "server/plan/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "google/protobuf/text_format.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/plan/fake_catalog.h"

namespace headcount::plan {
namespace {

using absl::StatusCode;

struct Case {
  const char* what;
  std::string job;  // text format
  StatusCode code;
  const char* field;
};

constexpr char kTask[] = "workload { model: 'tiny' task { task: 'pairs' } }";
constexpr char kScoreJob[] = "projects/default/jobs/scored";

std::string Score(const std::string& workload) {
  return absl::StrCat("score { workload { ", workload, " } }");
}
std::string Task(const std::string& source) {
  return Score(absl::StrCat("model: 'chatty' task { ", source, " }"));
}
std::string Request(const std::string& request) {
  return Score(absl::StrCat("model: 'tiny' requests { requests { ", request, " } }"));
}
std::string Ablate(const std::string& rest) {
  return absl::StrCat("ablate { ", kTask, " ", rest, " }");
}
std::string Rule(const std::string& rule) { return Ablate(absl::StrCat("rules { ", rule, " }")); }
std::string Threshold(const std::string& threshold) {
  return Rule(absl::StrCat("threshold { ", threshold, " }"));
}
std::string Random(const std::string& rest) {
  return Rule(absl::StrCat("random { p: .5 } ", rest));
}
std::string Sweep(const std::string& rest) {
  return absl::StrCat("sweep { ", kTask, " ", rest, " }");
}
std::string Frontier(const std::string& rest) {
  return absl::StrCat("frontier { ", kTask, " ", rest, " }");
}
std::string Entropy(const std::string& rest) { return Sweep("scores: 'entropy' " + rest); }

std::string Repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

class ValidateTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = store::SqliteJobStore::Open(":memory:", clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    jobs_ = *std::move(opened);
    Add(kScoreJob, Task("task: 'pairs'"), "tiny", v1::Job::SUCCEEDED);
    Add("projects/default/jobs/waiting", Task("task: 'pairs'"), "tiny", v1::Job::QUEUED);
    Add("projects/default/jobs/other", Task("task: 'pairs'"), "chatty", v1::Job::SUCCEEDED);
    Add("projects/default/jobs/swept", Entropy(""), "tiny", v1::Job::SUCCEEDED);
    Add("projects/default/jobs/several", Entropy("models: 'chatty'"), "tiny", v1::Job::SUCCEEDED);
    Add("projects/default/jobs/ablated", Random(""), "tiny", v1::Job::SUCCEEDED);
  }

  static v1::Job Parse(const std::string& text) {
    v1::Job job;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job)) << text.substr(0, 500);
    return job;
  }

  void Add(const std::string& name, const std::string& spec, const std::string& model,
           v1::Job::State state) {
    store::NewJob job{.job = Parse(spec)};
    job.job.set_name(name);
    job.job.set_uid(name);
    if (job.job.has_score()) job.job.mutable_score()->mutable_workload()->set_model(model);
    ASSERT_TRUE(jobs_->CreateJob(job, 100).ok());
    if (state == v1::Job::QUEUED) return;
    ASSERT_TRUE(jobs_->UpdateState({.job = name, .from = {v1::Job::QUEUED}, .to = state}).ok());
  }

  absl::Status Validate(const v1::Job& job, ValidationLimits limits = {}) {
    return ValidateJob(job, {.catalog = catalog_, .jobs = *jobs_, .limits = limits});
  }

  void Expect(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      SCOPED_TRACE(c.what);
      const absl::Status status = Validate(Parse(c.job));
      EXPECT_EQ(status.code(), c.code) << status;
      if (c.code == StatusCode::kOk) continue;
      EXPECT_EQ(FieldOf(status).value_or("none"), c.field) << status;
      EXPECT_TRUE(ReasonOf(status).has_value()) << status;
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr(c.field));
    }
  }

  FakeClock clock_;
  FakeCatalog catalog_;
  std::unique_ptr<store::JobStore> jobs_;
};

constexpr auto kInvalid = StatusCode::kInvalidArgument;
constexpr auto kNotServed = StatusCode::kUnimplemented;
constexpr auto kMissing = StatusCode::kNotFound;
constexpr auto kState = StatusCode::kFailedPrecondition;
constexpr auto kRange = StatusCode::kOutOfRange;
constexpr auto kFine = StatusCode::kOk;

TEST_F(ValidateTest, Jobs) {
  Expect({
      {"no spec", "priority: 1", kInvalid, "spec"},
      {"priority too high", "priority: 101 " + Task("task: 'pairs'"), kInvalid, "priority"},
      {"priority too low", "priority: -101 " + Task("task: 'pairs'"), kInvalid, "priority"},
      {"priority at its limit", "priority: -100 " + Task("task: 'pairs'"), kFine, ""},
      {"label key", "labels { key: 'A' value: 'b' } " + Task("task: 'pairs'"), kInvalid, "labels"},
      {"empty label key", "labels { key: '' value: 'b' } " + Task("task: 'pairs'"), kInvalid,
       "labels"},
      {"label value", "labels { key: 'a' value: 'b c' } " + Task("task: 'pairs'"), kInvalid,
       "labels[a]"},
      {"label value too long",
       "labels { key: 'a' value: '" + std::string(64, 'x') + "' } " + Task("task: 'pairs'"),
       kInvalid, "labels[a]"},
      {"score", Task("task: 'pairs'"), kFine, ""},
  });
  v1::Job many = Parse(Task("task: 'pairs'"));
  for (int i = 0; i < 65; ++i) (*many.mutable_labels())[absl::StrCat("k", i)] = "v";
  EXPECT_EQ(FieldOf(Validate(many)), "labels");
}

TEST_F(ValidateTest, Probes) {
  const std::string asked = "workload { model: 'tiny' requests { requests { context: 'x' } } } ";
  const std::string random = "rules { random { p: .5 } } ";
  const auto probe = [&](const std::string& more) {
    return absl::StrCat("probe { ", asked, more, " }");
  };
  const auto prompts = [](int count) {
    return absl::StrCat("probe { workload { model: 'tiny' requests { ",
                        Repeat("requests { context: 'x' } ", count), "} } }");
  };
  Expect({
      {"nothing", "probe {}", kInvalid, "probe.workload.model"},
      {"prompts alone", probe(""), kFine, ""},
      {"with rules", probe(Repeat(random, 15)), kFine, ""},
      {"too many rules", probe(Repeat(random, 16)), kInvalid, "probe.rules"},
      {"a rule that is none", probe(random + "rules {}"), kInvalid, "probe.rules[1].select"},
      {"64 prompts", prompts(64), kFine, ""},
      {"65 prompts", prompts(65), kInvalid, "probe.workload.requests"},
      {"no prompts", prompts(0), kInvalid, "probe.workload.requests"},
      {"next tokens", probe("next_tokens: 100"), kFine, ""},
      {"too many next tokens", probe("next_tokens: 101"), kInvalid, "probe.next_tokens"},
      {"negative next tokens", probe("next_tokens: -1"), kInvalid, "probe.next_tokens"},
      {"a task", "probe { workload { model: 'tiny' task { task: 'pairs' limit: 3 } } }", kFine, ""},
      {"a generating task", "probe { workload { model: 'tiny' task { task: 'sums' } } }", kInvalid,
       "probe.workload.task"},
      {"its own score",
       probe("user_scores { name: 'twice' expression: 'entropy * 2' inactive: BELOW } rules { "
             "threshold { score: 'twice' value: 1 } }"),
       kFine, ""},
      {"its own score, wrong",
       probe("user_scores { name: 'twice' expression: 'entropi * 2' inactive: BELOW }"), kInvalid,
       "probe.user_scores[0].expression"},
  });
}

TEST_F(ValidateTest, Workloads) {
  Expect({
      {"no model", Score("task { task: 'pairs' }"), kInvalid, "score.workload.model"},
      {"model outside", Score("model: '../etc' task { task: 'pairs' }"), kInvalid,
       "score.workload.model"},
      {"model path", Score("model: '/etc/passwd' task { task: 'pairs' }"), kInvalid,
       "score.workload.model"},
      {"model with blanks", Score("model: ' ..' task { task: 'pairs' }"), kInvalid,
       "score.workload.model"},
      {"model percent", Score("model: '%2e%2e' task { task: 'pairs' }"), kInvalid,
       "score.workload.model"},
      {"model with NUL", Score("model: 'a\\000b' task { task: 'pairs' }"), kInvalid,
       "score.workload.model"},
      {"model long", Score("model: '" + std::string(1 << 20, 'm') + "' task { task: 'pairs' }"),
       kInvalid, "score.workload.model"},
      {"model right to left", Score("model: '\\342\\200\\256x' task { task: 'pairs' }"), kInvalid,
       "score.workload.model"},
      {"unknown model", Score("model: 'model.v1' task { task: 'pairs' }"), kMissing,
       "score.workload.model"},
      {"model that cannot be run", Score("model: 'broken' task { task: 'pairs' }"), kState,
       "score.workload.model"},
      {"float16", Score("model: 'tiny' dtype: DTYPE_FLOAT16 task { task: 'pairs' }"), kNotServed,
       "score.workload.dtype"},
      {"bfloat16", Score("model: 'tiny' dtype: DTYPE_BFLOAT16 task { task: 'pairs' }"), kFine, ""},
      {"no source", Score("model: 'tiny'"), kInvalid, "score.workload.source"},
      {"upload", Score("model: 'tiny' upload: 'x'"), kNotServed, "score.workload.upload"},
      {"no task", Task(""), kInvalid, "score.workload.task.task"},
      {"task outside", Task("task: 'a/../b'"), kInvalid, "score.workload.task.task"},
      {"unknown task", Task("task: 'arc'"), kMissing, "score.workload.task.task"},
      {"task without data", Task("task: 'unread'"), kState, "score.workload.task.task"},
      {"subtasks of none", Task("task: 'pairs' subtasks: 'algebra'"), kInvalid,
       "score.workload.task.subtasks"},
      {"unknown subtask", Task("task: 'subjects' subtasks: 'algebra' subtasks: 'law'"), kMissing,
       "score.workload.task.subtasks[1]"},
      {"subtask outside", Task("task: 'subjects' subtasks: '../x'"), kInvalid,
       "score.workload.task.subtasks[0]"},
      {"subtask twice", Task("task: 'subjects' subtasks: 'algebra' subtasks: 'subjects_algebra'"),
       kInvalid, "score.workload.task.subtasks[1]"},
      {"subtask with prefix", Task("task: 'subjects' subtasks: 'subjects_chess'"), kFine, ""},
      {"negative limit", Task("task: 'pairs' limit: -1"), kInvalid, "score.workload.task.limit"},
      {"large limit", Task("task: 'pairs' limit: 2147483647"), kFine, ""},
      {"negative shots", Task("task: 'subjects' num_fewshot: -1"), kInvalid,
       "score.workload.task.num_fewshot"},
      {"too many shots", Task("task: 'subjects' num_fewshot: 101"), kInvalid,
       "score.workload.task.num_fewshot"},
      {"shots without a split", Task("task: 'pairs' num_fewshot: 1"), kInvalid,
       "score.workload.task.num_fewshot"},
      {"no shots", Task("task: 'pairs' num_fewshot: 0"), kFine, ""},
      {"shots from a file that is missing", Task("task: 'poolless' num_fewshot: 2"), kState,
       "score.workload.task.num_fewshot"},
      {"no shots from it", Task("task: 'poolless'"), kFine, ""},
      {"generating", Task("task: 'sums'"), kFine, ""},
      {"fewer new tokens", Task("task: 'sums' max_new_tokens: 5"), kFine, ""},
      {"more new tokens", Task("task: 'sums' max_new_tokens: 257"), kInvalid,
       "score.workload.task.max_new_tokens"},
      {"negative new tokens", Task("task: 'sums' max_new_tokens: -1"), kInvalid,
       "score.workload.task.max_new_tokens"},
      {"new tokens of choices", Task("task: 'pairs' max_new_tokens: 5"), kInvalid,
       "score.workload.task.max_new_tokens"},
      {"long system instruction",
       Task("task: 'pairs' system_instruction: '" + std::string((64 << 10) + 1, 'x') + "'"),
       kInvalid, "score.workload.task.system_instruction"},
      {"system instruction without chat", Task("task: 'pairs' system_instruction: 'Be brief.'"),
       kFine, ""},
      {"chat", Task("task: 'subjects' chat: CHAT_FORMAT_MULTI_TURN"), kFine, ""},
      {"chat without a template",
       Score("model: 'tiny' task { task: 'pairs' chat: CHAT_FORMAT_SINGLE_TURN }"), kState,
       "score.workload.task.chat"},
      {"unknown chat", Task("task: 'pairs' chat: 9"), kInvalid, "score.workload.task.chat"},
      {"forced BOS", Task("task: 'pairs' bos: BOS_FORCE"), kFine, ""},
      {"no BOS", Task("task: 'pairs' bos: BOS_NONE"), kFine, ""},
      {"unknown BOS", Task("task: 'pairs' bos: 9"), kInvalid, "score.workload.task.bos"},
      {"split", Task("task: 'pairs' split: 'train'"), kFine, ""},
      {"unknown split", Task("task: 'pairs' split: 'tests'"), kInvalid,
       "score.workload.task.split"},
      {"score over some tokens",
       "score { workload { model: 'tiny' task { task: 'pairs' } } tokens { last: 3 } }", kNotServed,
       "score.tokens.last"},
      {"score over all tokens",
       "score { workload { model: 'tiny' task { task: 'pairs' } } tokens { all: true } }", kFine,
       ""},
      {"score over the document's tokens",
       "score { workload { model: 'tiny' task { task: 'pairs' } } tokens { after_prefix: true } }",
       kNotServed, "score.tokens.after_prefix"},
  });
}

TEST_F(ValidateTest, InlineRequests) {
  const std::string two = "choices: ' a' choices: ' b' ";
  auto ablate = [](const std::string& request) {
    return absl::StrCat("ablate { workload { model: 'tiny' requests { requests { ", request,
                        " } } } rules { random { p: .5 } } }");
  };
  Expect({
      {"prompt alone", Request("context: 'x'"), kFine, ""},
      {"choices without gold", Request("context: 'x' " + two), kFine, ""},
      {"no requests", Score("model: 'tiny' requests {}"), kInvalid, "score.workload.requests"},
      {"empty context", Request(two), kInvalid, "score.workload.requests.requests[0].context"},
      {"one choice", Request("context: 'x' choices: 'a'"), kInvalid,
       "score.workload.requests.requests[0].choices"},
      {"33 choices", Request("context: 'x' " + Repeat("choices: 'a' ", 33)), kInvalid,
       "score.workload.requests.requests[0].choices"},
      {"empty choice", Request("context: 'x' choices: 'a' choices: ''"), kInvalid,
       "score.workload.requests.requests[0].choices[1]"},
      {"gold too high", Request("context: 'x' gold: 2 " + two), kInvalid,
       "score.workload.requests.requests[0].gold"},
      {"gold negative", Request("context: 'x' gold: -1 " + two), kInvalid,
       "score.workload.requests.requests[0].gold"},
      {"gold without choices", Request("context: 'x' gold: 0"), kInvalid,
       "score.workload.requests.requests[0].gold"},
      {"ablate without choices", ablate("context: 'x'"), kInvalid,
       "ablate.workload.requests.requests[0].choices"},
      {"ablate without gold", ablate("context: 'x' " + two), kInvalid,
       "ablate.workload.requests.requests[0].gold"},
      {"ablate", ablate("context: 'x' gold: 1 " + two), kFine, ""},
      {"too many bytes", Request("context: '" + std::string((2 << 20) + 1, 'x') + "'"), kInvalid,
       "score.workload.requests"},
  });
  v1::Job many = Parse(Request("context: 'x'"));
  auto* requests = many.mutable_score()->mutable_workload()->mutable_requests();
  for (int i = 0; i < 100'000; ++i) requests->add_requests()->set_context("x");
  EXPECT_EQ(FieldOf(Validate(many)), "score.workload.requests");
}

TEST_F(ValidateTest, Rules) {
  const std::string scored = absl::StrCat("score_job: '", kScoreJob, "'");
  const std::string fraction = "score: 'entropy' fraction: .1 ";
  Expect({
      {"no rules", Ablate(""), kInvalid, "ablate.rules"},
      {"too many rules", Ablate(Repeat("rules { random { p: .5 } } ", 6001)), kInvalid,
       "ablate.rules"},
      {"6,000 rules", Ablate(Repeat("rules { random { p: .5 } } ", 6000)), kFine, ""},
      {"nothing selected", Rule(""), kInvalid, "ablate.rules[0].select"},
      {"second rule", Ablate("rules { random { p: .5 } } rules {}"), kInvalid,
       "ablate.rules[1].select"},
      {"keep scores", Ablate("keep_scores: true rules { random { p: .5 } }"), kNotServed,
       "ablate.keep_scores"},

      {"value", Threshold("score: 'HONOR' value: -0.0"), kFine, ""},
      {"value NaN", Threshold("score: 'entropy' value: nan"), kInvalid,
       "ablate.rules[0].threshold.value"},
      {"value infinite", Threshold("score: 'entropy' value: inf"), kInvalid,
       "ablate.rules[0].threshold.value"},
      {"value beyond float32", Threshold("score: 'entropy' value: 1e308"), kInvalid,
       "ablate.rules[0].threshold.value"},
      {"no score", Threshold("value: 1"), kInvalid, "ablate.rules[0].threshold.score"},
      {"unknown score", Threshold("score: 'entropi' value: 1"), kInvalid,
       "ablate.rules[0].threshold.score"},
      {"score outside", Threshold("score: '../etc' value: 1"), kInvalid,
       "ablate.rules[0].threshold.score"},
      {"threshold of random", Threshold("score: 'random' value: .5"), kInvalid,
       "ablate.rules[0].threshold.score"},
      {"no value", Threshold("score: 'entropy'"), kInvalid, "ablate.rules[0].threshold.by"},
      {"value with a score job", Threshold("score: 'entropy' value: 1 " + scored), kInvalid,
       "ablate.rules[0].threshold.score_job"},

      {"fraction", Threshold(fraction + scored), kFine, ""},
      {"fraction of a sweep", Threshold(fraction + "score_job: 'projects/default/jobs/swept'"),
       kFine, ""},
      {"fraction without a score job", Threshold(fraction), kInvalid,
       "ablate.rules[0].threshold.score_job"},
      {"fraction too high", Threshold("score: 'entropy' fraction: 1.01 " + scored), kInvalid,
       "ablate.rules[0].threshold.fraction"},
      {"fraction negative", Threshold("score: 'entropy' fraction: -.1 " + scored), kInvalid,
       "ablate.rules[0].threshold.fraction"},
      {"fraction NaN", Threshold("score: 'entropy' fraction: nan " + scored), kInvalid,
       "ablate.rules[0].threshold.fraction"},
      {"malformed score job", Threshold(fraction + "score_job: '../../etc'"), kInvalid,
       "ablate.rules[0].threshold.score_job"},
      {"no such score job", Threshold(fraction + "score_job: 'projects/default/jobs/none'"),
       kMissing, "ablate.rules[0].threshold.score_job"},
      {"score job waits", Threshold(fraction + "score_job: 'projects/default/jobs/waiting'"),
       kState, "ablate.rules[0].threshold.score_job"},
      {"score job of another model",
       Threshold(fraction + "score_job: 'projects/default/jobs/other'"), kInvalid,
       "ablate.rules[0].threshold.score_job"},
      {"score job without scores",
       Threshold(fraction + "score_job: 'projects/default/jobs/ablated'"), kInvalid,
       "ablate.rules[0].threshold.score_job"},

      {"layer values", Threshold("score: 'entropy' layer_values { values: 1 values: 2 }"), kFine,
       ""},
      {"too few layer values", Threshold("score: 'entropy' layer_values { values: 1 }"), kInvalid,
       "ablate.rules[0].threshold.layer_values.values"},
      {"layer value NaN", Threshold("score: 'entropy' layer_values { values: 1 values: nan }"),
       kInvalid, "ablate.rules[0].threshold.layer_values.values[1]"},

      {"top 0", Threshold("score: 'entropy' top_k: 0"), kFine, ""},
      {"top all", Threshold("score: 'entropy' top_k: 3"), kFine, ""},
      {"top negative", Threshold("score: 'entropy' top_k: -1"), kInvalid,
       "ablate.rules[0].threshold.top_k"},
      {"top too many", Threshold("score: 'entropy' top_k: 4"), kRange,
       "ablate.rules[0].threshold.top_k"},

      {"heads", Rule("fixed_heads { heads { layer: 1 head: 2 } heads {} }"), kFine, ""},
      {"no heads", Rule("fixed_heads {}"), kInvalid, "ablate.rules[0].fixed_heads.heads"},
      {"head twice", Rule("fixed_heads { heads { head: 1 } heads { head: 1 } }"), kInvalid,
       "ablate.rules[0].fixed_heads.heads[1]"},
      {"layer too high", Rule("fixed_heads { heads { layer: 2 } }"), kRange,
       "ablate.rules[0].fixed_heads.heads[0].layer"},
      {"layer negative", Rule("fixed_heads { heads { layer: -1 } }"), kRange,
       "ablate.rules[0].fixed_heads.heads[0].layer"},
      {"head too high", Rule("fixed_heads { heads { head: 3 } }"), kRange,
       "ablate.rules[0].fixed_heads.heads[0].head"},
      {"head negative", Rule("fixed_heads { heads { head: -1 } }"), kRange,
       "ablate.rules[0].fixed_heads.heads[0].head"},
      {"head in a layer left out", Rule("fixed_heads { heads { layer: 0 } } layers { exclude: 0 }"),
       kInvalid, "ablate.rules[0].fixed_heads.heads[0]"},

      {"random p too high", Rule("random { p: 1.5 }"), kInvalid, "ablate.rules[0].random.p"},
      {"random p negative", Rule("random { p: -.5 }"), kInvalid, "ablate.rules[0].random.p"},
      {"random p NaN", Rule("random { p: nan }"), kInvalid, "ablate.rules[0].random.p"},
      {"random p 1", Rule("random { p: 1 seed: 18446744073709551615 }"), kFine, ""},

      {"expression",
       Ablate("rules { name: 'a' random { p: .5 } } rules { name: 'b' random { p: 1 "
              "} } rules { expression: 'a and not b' }"),
       kFine, ""},
      {"expression syntax", Rule("expression: 'a | b'"), kInvalid, "ablate.rules[0].expression"},
      {"expression of nothing", Rule("expression: ''"), kInvalid, "ablate.rules[0].expression"},
      {"expression of an unknown rule", Rule("expression: 'a'"), kInvalid,
       "ablate.rules[0].expression"},
      {"expression of itself", Rule("name: 'a' expression: 'a'"), kInvalid,
       "ablate.rules[0].expression"},
      {"expression with a unit", Rule("expression: 'a' unit: UNIT_KV_GROUP"), kInvalid,
       "ablate.rules[0].unit"},
      {"name", Rule("name: 'no blanks' random { p: .5 }"), kInvalid, "ablate.rules[0].name"},
      {"name of an operator", Rule("name: 'and' random { p: .5 }"), kInvalid,
       "ablate.rules[0].name"},
      {"name twice", Ablate(Repeat("rules { name: 'a' random { p: .5 } } ", 2)), kInvalid,
       "ablate.rules[1].name"},
      {"random in layer",
       Ablate("rules { name: 'a' random { p: .5 } } rules { random_in_layer { rule: 'a' } }"),
       kFine, ""},
      {"random in layer of nothing", Rule("random_in_layer {}"), kInvalid,
       "ablate.rules[0].random_in_layer.rule"},
      {"random in layer of an unknown rule", Rule("random_in_layer { rule: 'b' }"), kInvalid,
       "ablate.rules[0].random_in_layer.rule"},
      {"shuffled", Rule("shuffled { job: 'projects/default/jobs/ablated' seed: 3 }"), kFine, ""},
      {"shuffled of a sweep", Rule("shuffled { job: 'projects/default/jobs/swept' rule: 5 }"),
       kFine, ""},
      {"shuffled of nothing", Rule("shuffled {}"), kInvalid, "ablate.rules[0].shuffled.job"},
      {"shuffled of scores", Rule(absl::StrCat("shuffled { job: '", kScoreJob, "' }")), kInvalid,
       "ablate.rules[0].shuffled.job"},
      {"shuffled of a rule too many",
       Rule("shuffled { job: 'projects/default/jobs/ablated' rule: 1 }"), kRange,
       "ablate.rules[0].shuffled.rule"},
      {"shuffled of the baseline",
       Rule("shuffled { job: 'projects/default/jobs/ablated' rule: -1 }"), kRange,
       "ablate.rules[0].shuffled.rule"},
      {"shuffled in some layers",
       Rule("shuffled { job: 'projects/default/jobs/ablated' } layers { include: 0 }"), kInvalid,
       "ablate.rules[0].layers"},
      {"static heads", Rule("static_heads { job: 'projects/default/jobs/ablated' }"), kFine, ""},
      {"static heads of no job", Rule("static_heads { job: 'projects/default/jobs/none' }"),
       kMissing, "ablate.rules[0].static_heads.job"},
      {"static groups",
       Rule("static_heads { job: 'projects/default/jobs/ablated' } unit: UNIT_KV_GROUP"), kInvalid,
       "ablate.rules[0].unit"},
      {"user score",
       Ablate("user_scores { name: 'mine' expression: 'output / value' inactive: ABOVE } rules { "
              "threshold { score: 'mine' value: 1 } }"),
       kFine, ""},
      {"user score without a side",
       Ablate("user_scores { name: 'mine' expression: 'output' } rules { random { p: .5 } }"),
       kInvalid, "ablate.user_scores[0].inactive"},
      {"user score that does not parse",
       Ablate(
           "user_scores { name: 'mine' expression: 'output +' inactive: ABOVE } rules { random { "
           "p: .5 } }"),
       kInvalid, "ablate.user_scores[0].expression"},
      {"user score twice",
       Ablate(Repeat("user_scores { name: 'mine' expression: 'output' inactive: BELOW } ", 2) +
              "rules { random { p: .5 } }"),
       kInvalid, "ablate.user_scores[1].name"},
      {"user scores without end",
       Ablate(Repeat("user_scores { name: 'mine' expression: 'output' inactive: BELOW } ", 33) +
              "rules { random { p: .5 } }"),
       kInvalid, "ablate.user_scores"},
      {"gradient", Threshold("score: 'gradient' value: 1"), kInvalid,
       "ablate.rules[0].threshold.score"},
      {"mean", Random(absl::StrCat("intervention { mean: '", kScoreJob, "' }")), kFine, ""},
      {"mean of no job", Random("intervention { mean: 'j' }"), kInvalid,
       "ablate.rules[0].intervention.mean"},
      {"mean of a job that waits", Random("intervention { mean: 'projects/default/jobs/waiting' }"),
       kState, "ablate.rules[0].intervention.mean"},
      {"mean of a job without scores",
       Random("intervention { mean: 'projects/default/jobs/ablated' }"), kInvalid,
       "ablate.rules[0].intervention.mean"},
      {"first value", Random("intervention { first_value: true }"), kFine, ""},
      {"not the first value", Random("intervention { first_value: false }"), kInvalid,
       "ablate.rules[0].intervention.first_value"},
      {"scale", Random("intervention { scale: -.5 }"), kFine, ""},
      {"scale by NaN", Random("intervention { scale: nan }"), kInvalid,
       "ablate.rules[0].intervention.scale"},
      {"scale without end", Random("intervention { scale: -inf }"), kInvalid,
       "ablate.rules[0].intervention.scale"},
      {"scale beyond float32", Random("intervention { scale: 1e39 }"), kInvalid,
       "ablate.rules[0].intervention.scale"},
      {"resample", Random("intervention { resample: 1 }"), kNotServed,
       "ablate.rules[0].intervention.resample"},
      {"zero", Random("intervention { zero: true }"), kFine, ""},
      {"not zero", Random("intervention { zero: false }"), kInvalid,
       "ablate.rules[0].intervention.zero"},
      {"KV groups", Random("unit: UNIT_KV_GROUP"), kFine, ""},
      {"score of KV groups",
       Rule("threshold { score: 'entropy' value: 1 } unit: UNIT_KV_GROUP group_score: "
            "GROUP_SCORE_MAX"),
       kFine, ""},
      {"score of no KV groups",
       Rule("threshold { score: 'entropy' value: 1 } group_score: GROUP_SCORE_MAX"), kInvalid,
       "ablate.rules[0].group_score"},
      {"score of drawn KV groups", Random("unit: UNIT_KV_GROUP group_score: GROUP_SCORE_MIN"),
       kInvalid, "ablate.rules[0].group_score"},
      {"unknown group score",
       Rule("threshold { score: 'entropy' value: 1 } unit: UNIT_KV_GROUP group_score: 9"), kInvalid,
       "ablate.rules[0].group_score"},
      {"top of KV groups", Rule("threshold { score: 'entropy' top_k: 2 } unit: UNIT_KV_GROUP"),
       kRange, "ablate.rules[0].threshold.top_k"},
      {"KV head too high", Rule("fixed_heads { heads { head: 1 } } unit: UNIT_KV_GROUP"), kRange,
       "ablate.rules[0].fixed_heads.heads[0].head"},
      {"unknown unit", Random("unit: 7"), kInvalid, "ablate.rules[0].unit"},
      {"context", Random("decide_on: DECIDE_ON_CONTEXT"), kNotServed, "ablate.rules[0].decide_on"},
      {"tokens", Random("tokens { generated: true }"), kNotServed,
       "ablate.rules[0].tokens.generated"},
      {"not all tokens", Random("tokens { all: false }"), kInvalid, "ablate.rules[0].tokens.all"},
      {"mask update", Random("mask_update: MASK_UPDATE_EVERY_STEP"), kInvalid,
       "ablate.rules[0].mask_update"},
      {"unknown mask update", Random("mask_update: 7"), kInvalid, "ablate.rules[0].mask_update"},
      {"apply", Random("apply: APPLY_PROMPT"), kNotServed, "ablate.rules[0].apply"},
      {"apply to both", Random("apply: APPLY_BOTH"), kFine, ""},
      {"layers both ways", Random("layers { include: 0 exclude: 1 }"), kInvalid,
       "ablate.rules[0].layers"},
      {"layer out of range", Random("layers { include: 0 include: 2 }"), kRange,
       "ablate.rules[0].layers.include[1]"},
      {"layer left out out of range", Random("layers { exclude: -1 }"), kRange,
       "ablate.rules[0].layers.exclude[0]"},
      {"layer twice", Random("layers { include: 1 include: 1 }"), kInvalid,
       "ablate.rules[0].layers.include[1]"},
      {"no layer left", Random("layers { exclude: 0 exclude: 1 }"), kInvalid,
       "ablate.rules[0].layers.exclude"},
  });
}

TEST_F(ValidateTest, Frontiers) {
  Expect({
      {"frontier", Frontier("scores: 'entropy' scores: 'random'"), kFine, ""},
      {"all fields",
       Frontier("scores: 'HONOR' margin: .02 alpha: .1 fractions: .5 order: ANY claim: POPULATION "
                "seed: 1 random_seed: 2 layers { include: 1 }"),
       kFine, ""},
      {"no scores", Frontier(""), kInvalid, "frontier.scores"},
      {"unknown score", Frontier("scores: 'x'"), kInvalid, "frontier.scores[0]"},
      {"score twice", Frontier("scores: 'HONOR' scores: 'output_norm_ln'"), kInvalid,
       "frontier.scores[1]"},
      {"fraction 0", Frontier("scores: 'entropy' fractions: 0 fractions: .1"), kInvalid,
       "frontier.fractions[0]"},
      {"fractions descend", Frontier("scores: 'entropy' fractions: .2 fractions: .1"), kInvalid,
       "frontier.fractions[1]"},
      {"margin 1", Frontier("scores: 'entropy' margin: 1"), kInvalid, "frontier.margin"},
      {"margin negative", Frontier("scores: 'entropy' margin: -.01"), kInvalid, "frontier.margin"},
      {"margin NaN", Frontier("scores: 'entropy' margin: nan"), kInvalid, "frontier.margin"},
      {"alpha", Frontier("scores: 'entropy' alpha: .6"), kInvalid, "frontier.alpha"},
      {"layer", Frontier("scores: 'entropy' layers { include: 2 }"), StatusCode::kOutOfRange,
       "frontier.layers.include[0]"},
      {"no workload", "frontier { scores: 'entropy' }", kInvalid, "frontier.workload.model"},
  });
}

TEST_F(ValidateTest, Knockouts) {
  const auto knockout = [](const std::string& rest) {
    return absl::StrCat("knockout { ", kTask, " ", rest, " }");
  };
  Expect({
      {"knockout", knockout(""), kFine, ""},
      {"one layer", knockout("layers { include: 1 }"), kFine, ""},
      {"layer", knockout("layers { exclude: 2 }"), StatusCode::kOutOfRange,
       "knockout.layers.exclude[0]"},
      {"score job's name", knockout("score_job: 'scored'"), kInvalid, "knockout.score_job"},
      {"no such score job", knockout("score_job: 'projects/default/jobs/none'"),
       StatusCode::kNotFound, "knockout.score_job"},
      {"no right answers",
       "knockout { workload { model: 'tiny' requests { requests { context: 'a' } } } }", kInvalid,
       "knockout.workload.requests.requests[0].choices"},
  });
  const ValidationLimits limits{.max_rules = 5, .max_inline_bytes = 100};
  EXPECT_TRUE(Validate(Parse(knockout("layers { include: 0 }")), limits).ok());
  EXPECT_EQ(FieldOf(Validate(Parse(knockout("")), limits)), "knockout.layers") << "2 x 3 heads";
}

TEST_F(ValidateTest, Comparisons) {
  const auto compare = [](const std::string& rest) {
    return absl::StrCat("compare { ", kTask, " ", rest, " }");
  };
  Expect({
      {"two models", compare("scores: 'entropy' models: 'chatty'"), kFine, ""},
      {"two tasks", compare("scores: 'entropy' tasks { task: 'pairs' limit: 3 }"), kFine, ""},
      {"one side", compare("scores: 'entropy'"), kInvalid, "compare.models"},
      {"too many sides", compare("scores: 'entropy' " + Repeat("models: 'chatty' ", 16)), kInvalid,
       "compare.models"},
      {"no scores", compare("models: 'chatty'"), kInvalid, "compare.scores"},
      {"random", compare("models: 'chatty' scores: 'random'"), kInvalid, "compare.scores[0]"},
      {"fraction", compare("models: 'chatty' scores: 'entropy' fraction: 1"), kInvalid,
       "compare.fraction"},
      {"no such model", compare("models: 'none' scores: 'entropy'"), StatusCode::kNotFound,
       "compare.models[0]"},
      {"no such task", compare("tasks { task: 'none' } scores: 'entropy'"), StatusCode::kNotFound,
       "compare.tasks[0]"},
      {"first side", "compare { scores: 'entropy' models: 'chatty' }", kInvalid,
       "compare.workload.model"},
  });
}

TEST_F(ValidateTest, MasksOfTextsThatAreScoredDoNotDependOnThem) {
  const std::string prose = "workload { model: 'tiny' task { task: 'prose' } } ";
  const auto ablate = [&](const std::string& rules) {
    return absl::StrCat("ablate { ", prose, rules, " }");
  };
  const auto text = [](const std::string& rest) {
    return Score("model: 'chatty' task { task: 'prose' " + rest + " }");
  };
  Expect({
      {"scores", text(""), kFine, ""},
      {"fixed heads", ablate("rules { fixed_heads { heads { layer: 1 head: 2 } } }"), kFine, ""},
      {"another job's heads",
       ablate("rules { static_heads { job: 'projects/default/jobs/swept' rule: 0 } }"), kFine, ""},
      {"of both",
       ablate("rules { name: 'a' fixed_heads { heads { layer: 1 } } } rules { name: 'b' "
              "fixed_heads { heads { layer: 0 } } } rules { expression: 'a or b' }"),
       kFine, ""},
      {"threshold", ablate("rules { threshold { score: 'entropy' value: 1 } }"), kInvalid,
       "ablate.rules[0].threshold"},
      {"random", ablate("rules { random { p: .5 } }"), kInvalid, "ablate.rules[0].random"},
      {"random in layer",
       ablate("rules { name: 'a' fixed_heads { heads { layer: 1 } } } rules { random_in_layer { "
              "rule: 'a' } }"),
       kInvalid, "ablate.rules[1].random_in_layer"},
      {"shuffled", ablate("rules { shuffled { job: 'projects/default/jobs/swept' rule: 0 } }"),
       kInvalid, "ablate.rules[0].shuffled"},
      {"sweep", absl::StrCat("sweep { ", prose, "scores: 'entropy' }"), kInvalid,
       "sweep.workload.task"},
      {"sweep of several", Entropy("tasks { task: 'prose' }"), kInvalid, "sweep.tasks[0]"},
      {"frontier", absl::StrCat("frontier { ", prose, "scores: 'entropy' }"), kInvalid,
       "frontier.workload.task"},
      {"knockout", absl::StrCat("knockout { ", prose, "}"), kFine, ""},
      {"calibration", Entropy("calibrate_on: 'prose'"), kFine, ""},
      {"chat", text("chat: CHAT_FORMAT_SINGLE_TURN"), kInvalid, "score.workload.task.chat"},
      {"BOS", text("bos: BOS_FORCE"), kInvalid, "score.workload.task.bos"},
      {"system", text("system_instruction: 'x'"), kInvalid,
       "score.workload.task.system_instruction"},
  });
}

TEST_F(ValidateTest, SweepsOfSeveralModelsAndTasks) {
  const std::string subjects = "tasks { task: 'subjects' } ";
  Expect({
      {"models and tasks", Entropy("models: 'chatty' " + subjects + "tasks { task: 'sums' }"),
       kFine, ""},
      {"unknown model", Entropy("models: 'none'"), StatusCode::kNotFound, "sweep.models[0]"},
      {"model twice", Entropy("models: 'chatty' models: 'tiny'"), kInvalid, "sweep.models[1]"},
      {"unknown task", Entropy("tasks { task: 'none' }"), StatusCode::kNotFound, "sweep.tasks[0]"},
      {"a model that cannot run a task",
       Entropy("models: 'chatty' tasks { task: 'subjects' chat: CHAT_FORMAT_SINGLE_TURN }"),
       StatusCode::kFailedPrecondition, "sweep.tasks[0]"},
      {"too many", Entropy(Repeat(subjects, 64)), kInvalid, "sweep.tasks"},
      {"too many with a transfer", Entropy("transfer: true " + Repeat(subjects, 8)), kInvalid,
       "sweep.tasks"},
      {"mask update of one task",
       Entropy("tasks { task: 'sums' } mask_update: "
               "MASK_UPDATE_PROMPT_ONCE"),
       kFine, ""},
      {"mask update of none", Entropy(subjects + "mask_update: MASK_UPDATE_PROMPT_ONCE"), kInvalid,
       "sweep.mask_update"},
      {"shuffled texts", Entropy("tasks { task: 'sums' } controls: CONTROL_SHUFFLED"), kNotServed,
       "sweep.controls[0]"},
      {"calibrated by a task", Entropy("calibrate_on: 'subjects'"), kFine, ""},
      {"by another split", Entropy("calibrate_on: 'pairs:train'"), kFine, ""},
      {"by what it evaluates", Entropy("calibrate_on: 'pairs:test'"), kInvalid,
       "sweep.calibrate_on"},
      {"by another of its tasks", Entropy(subjects + "calibrate_on: 'subjects'"), kInvalid,
       "sweep.calibrate_on"},
      {"by no task", Entropy("calibrate_on: 'none'"), StatusCode::kNotFound, "sweep.calibrate_on"},
      {"by no split", Entropy("calibrate_on: 'pairs:dev'"), kInvalid, "sweep.calibrate_on"},
      {"by a job", Entropy(absl::StrCat("calibrate_on: '", kScoreJob, "'")), kFine, ""},
      {"by another model's job",
       Entropy(absl::StrCat("models: 'chatty' calibrate_on: '", kScoreJob, "'")), kInvalid,
       "sweep.calibrate_on"},
      {"by a job that is none", Entropy("calibrate_on: 'projects/default/jobs/none'"),
       StatusCode::kNotFound, "sweep.calibrate_on"},
      {"by a job that is made of jobs", Entropy("calibrate_on: 'projects/default/jobs/several'"),
       kInvalid, "sweep.calibrate_on"},
      {"transfer", Entropy(subjects + "transfer: true"), kFine, ""},
      {"transfer between one", Entropy("transfer: true"), kInvalid, "sweep.transfer"},
      {"transfer of a calibration", Entropy(subjects + "transfer: true calibrate_on: 'sums'"),
       kInvalid, "sweep.transfer"},
      {"transfer of nothing", Sweep("scores: 'random' transfer: true " + subjects), kInvalid,
       "sweep.transfer"},
  });
}

TEST_F(ValidateTest, Sweeps) {
  Expect({
      {"sweep", Entropy("scores: 'random' fractions: 0 fractions: .5 fractions: 1"), kFine, ""},
      {"random alone", Sweep("scores: 'random'"), kFine, ""},
      {"no scores", Sweep(""), kInvalid, "sweep.scores"},
      {"empty score", Entropy("scores: ''"), kInvalid, "sweep.scores[1]"},
      {"unknown score", Entropy("scores: 'entropi'"), kInvalid, "sweep.scores[1]"},
      {"score twice", Entropy("scores: 'HONOR' scores: 'output_norm_ln'"), kInvalid,
       "sweep.scores[2]"},
      {"fractions descend", Entropy("fractions: .2 fractions: .1"), kInvalid, "sweep.fractions[1]"},
      {"fraction twice", Entropy("fractions: .2 fractions: .2"), kInvalid, "sweep.fractions[1]"},
      {"fraction too high", Entropy("fractions: 5"), kInvalid, "sweep.fractions[0]"},
      {"fraction negative", Entropy("fractions: -.1"), kInvalid, "sweep.fractions[0]"},
      {"fraction NaN", Entropy("fractions: .1 fractions: nan"), kInvalid, "sweep.fractions[1]"},
      {"fraction infinite", Entropy("fractions: inf"), kInvalid, "sweep.fractions[0]"},
      {"fraction 0 alone", Entropy("fractions: 0"), kInvalid, "sweep.fractions"},
      {"too many fractions", Entropy(Repeat("fractions: .1 ", 101)), kInvalid, "sweep.fractions"},
      {"controls",
       Entropy("controls: CONTROL_SHUFFLED controls: CONTROL_STATIC_HEADS controls: "
               "CONTROL_RANDOM_IN_LAYER"),
       kFine, ""},
      {"control twice", Entropy("controls: CONTROL_SHUFFLED controls: CONTROL_SHUFFLED"), kInvalid,
       "sweep.controls[1]"},
      {"unspecified control", Entropy("controls: CONTROL_UNSPECIFIED"), kInvalid,
       "sweep.controls[0]"},
      {"unknown control", Entropy("controls: 9"), kInvalid, "sweep.controls[0]"},
      {"shuffled texts",
       "sweep { workload { model: 'tiny' task { task: 'sums' } } scores: 'entropy' controls: "
       "CONTROL_SHUFFLED }",
       kNotServed, "sweep.controls[0]"},
      {"mean", Entropy("intervention { mean: '' }"), kFine, ""},
      {"mean of another job", Entropy(absl::StrCat("intervention { mean: '", kScoreJob, "' }")),
       kInvalid, "sweep.intervention.mean"},
      {"KV groups", Entropy("unit: UNIT_KV_GROUP group_score: GROUP_SCORE_MIN"), kFine, ""},
      {"score of no KV groups", Entropy("group_score: GROUP_SCORE_MIN"), kInvalid,
       "sweep.group_score"},
      {"unknown unit", Entropy("unit: 5"), kInvalid, "sweep.unit"},
      {"user score",
       Entropy("scores: 'mine' user_scores { name: 'mine' expression: 'value' inactive: BELOW }"),
       kFine, ""},
      {"user score of another's name",
       Entropy("user_scores { name: 'entropy_ln' expression: 'value' inactive: BELOW }"), kInvalid,
       "sweep.user_scores[0].name"},
      {"gradient", Entropy("scores: 'gradient'"), kInvalid, "sweep.scores[1]"},
      {"context", Entropy("decide_on: DECIDE_ON_CONTEXT"), kNotServed, "sweep.decide_on"},
      {"last tokens", Entropy("tokens { last: 1 }"), kNotServed, "sweep.tokens.last"},
      {"layers", Entropy("layers { exclude: 0 }"), kFine, ""},
      {"no layer left", Entropy("layers { exclude: 0 exclude: 1 }"), kInvalid,
       "sweep.layers.exclude"},
      {"layer out of range", Entropy("layers { include: 9 }"), kRange, "sweep.layers.include[0]"},
      {"prompts without answers",
       "sweep { workload { model: 'tiny' requests { requests { context: 'x' } } } scores: "
       "'entropy' }",
       kInvalid, "sweep.workload.requests.requests[0].choices"},
  });
}

TEST_F(ValidateTest, LimitsComeFromTheConfiguration) {
  const ValidationLimits limits{.max_rules = 11, .max_inline_bytes = 100};
  EXPECT_TRUE(Validate(Parse(Entropy("")), limits).ok());  // 6 rules
  EXPECT_EQ(FieldOf(Validate(Parse(Entropy("scores: 'value_norm'")), limits)), "sweep.fractions");
  EXPECT_EQ(FieldOf(Validate(Parse(Ablate(Repeat("rules { random { p: 1 } } ", 12))), limits)),
            "ablate.rules");
  EXPECT_EQ(FieldOf(Validate(Parse(Request("context: '" + std::string(101, 'x') + "'")), limits)),
            "score.workload.requests");
  Config config;
  config.max_rules = 5;
  config.max_inline_bytes = 7;
  EXPECT_EQ(LimitsOf(config).max_rules, 5);
  EXPECT_EQ(LimitsOf(config).max_inline_bytes, 7);
}

TEST_F(ValidateTest, GradientIsRefusedWithItsReason) {
  EXPECT_THAT(std::string(Validate(Parse(Entropy("scores: 'gradient'"))).message()),
              testing::HasSubstr("a backward pass: a rule decides in the forward pass"));
}

TEST_F(ValidateTest, NamesTheNearestScore) {
  const absl::Status status = Validate(Parse(Entropy("scores: 'entropy_l'")));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("entropy_ln"));
}

}  // namespace
}  // namespace headcount::plan
