// What CreateJob refuses, over the wire: each with its code, the field, and nothing stored.

#include <gmock/gmock.h>

#include "tests/server/api/harness.h"

namespace headcount::server {
namespace {

using absl::StatusCode;

std::string Score(const std::string& workload) {
  return "job { score { workload { " + workload + " } } }";
}
std::string Task(const std::string& fields) {
  return Score("model: \"tiny\" task { task: \"pairs\" " + fields + " }");
}
std::string Ablate(const std::string& rules) {
  return "job { ablate { workload { model: \"tiny\" task { task: \"pairs\" } } " + rules + " } }";
}
std::string Sweep(const std::string& fields) {
  return "job { sweep { workload { model: \"tiny\" task { task: \"pairs\" } } " + fields + " } }";
}

struct Bad {
  std::string request;
  StatusCode code;
  std::string field;  // the end of it
};

class BadJobsTest : public ApiTest {};

// One server for the whole table: none of these may harm it.
TEST_F(BadJobsTest, EachIsRefusedWithItsFieldAndNothingIsStored) {
  const StatusCode kInvalid = StatusCode::kInvalidArgument;
  const StatusCode kUnimplemented = StatusCode::kUnimplemented;
  std::vector<Bad> table = {
      {"", kInvalid, "job"},
      {"job {}", kInvalid, ""},
      {"parent: \"projects/other\" " + Task(""), StatusCode::kNotFound, "parent"},
      {"parent: \"default\" " + Task(""), kInvalid, "parent"},
      {"parent: \"projects/../x\" " + Task(""), kInvalid, "parent"},
      {"request_id: \"one\" " + Task(""), kInvalid, "request_id"},
      {"request_id: \"6ba7b810-9dad-41d1-80b4-00c04fd430cg\" " + Task(""), kInvalid, "request_id"},
      {"job { priority: 101 score { workload { model: \"tiny\" task { task: \"pairs\" } } } }",
       kInvalid, "priority"},
      {"job { labels { key: \"A B\" value: \"x\" } score { workload { model: \"tiny\" task { task: "
       "\"pairs\" } } } }",
       kInvalid, ""},
      {Score("task { task: \"pairs\" }"), kInvalid, "model"},
      {Score("model: \"none\" task { task: \"pairs\" }"), StatusCode::kNotFound, "model"},
      {Score("model: \"tiny\""), kInvalid, ""},
      {Score("model: \"tiny\" task {}"), kInvalid, "task"},
      {Score("model: \"tiny\" task { task: \"none\" }"), StatusCode::kNotFound, "task"},
      {Score("model: \"tiny\" upload: \"x\""), kUnimplemented, "upload"},
      {Score("model: \"tiny\" dtype: DTYPE_FLOAT16 task { task: \"pairs\" }"), kUnimplemented,
       "dtype"},
      {Score("model: \"tiny\" dtype: 77 task { task: \"pairs\" }"), kInvalid, "dtype"},
      {Task("limit: -1"), kInvalid, "limit"},
      {Task("num_fewshot: -1"), kInvalid, "num_fewshot"},
      {Task("num_fewshot: 101"), kInvalid, "num_fewshot"},
      {Task("num_fewshot: 2"), StatusCode::kOk, ""},  // replaced below: this task has no examples
      {Task("split: \"train\""), kInvalid, "split"},
      {Task("subtasks: \"none\""), kInvalid, ""},
      {Score("model: \"tiny\" requests {}"), kInvalid, "requests"},
      {Score("model: \"tiny\" requests { requests { context: \"\" } }"), kInvalid, "context"},
      {Score("model: \"tiny\" requests { requests { context: \"a\" choices: \" b\" } }"), kInvalid,
       "choices"},
      {Score("model: \"tiny\" requests { requests { context: \"a\" choices: \" b\" choices: \"\" } "
             "}"),
       kInvalid, ""},
      {Ablate(""), kInvalid, "rules"},
      {Ablate("rules {}"), kInvalid, ""},
      {Ablate("rules { threshold { value: 1 } }"), kInvalid, "score"},
      {Ablate("rules { threshold { score: \"none\" value: 1 } }"), kInvalid, "score"},
      {Ablate("rules { threshold { score: \"output_norm_ln\" } }"), kInvalid, ""},
      {Ablate("rules { threshold { score: \"output_norm_ln\" value: nan } }"), kInvalid, "value"},
      {Ablate("rules { threshold { score: \"output_norm_ln\" value: inf } }"), kInvalid, "value"},
      {Ablate("rules { threshold { score: \"output_norm_ln\" value: -inf } }"), kInvalid, "value"},
      {Ablate("rules { threshold { score: \"output_norm_ln\" fraction: 1.5 score_job: "
              "\"projects/default/jobs/x\" } }"),
       kInvalid, "fraction"},
      {Ablate("rules { threshold { score: \"output_norm_ln\" fraction: 0.5 } }"), kInvalid,
       "score_job"},
      {Ablate("rules { threshold { score: \"output_norm_ln\" fraction: 0.5 score_job: "
              "\"projects/default/jobs/none\" } }"),
       StatusCode::kNotFound, "score_job"},
      {Ablate("rules { threshold { score: \"output_norm_ln\" top_k: -1 } }"), kInvalid, "top_k"},
      {Ablate("rules { fixed_heads {} }"), kInvalid, "heads"},
      {Ablate("rules { fixed_heads { heads { layer: 2 head: 0 } } }"), StatusCode::kOutOfRange,
       "layer"},
      {Ablate("rules { fixed_heads { heads { layer: 0 head: 3 } } }"), StatusCode::kOutOfRange,
       "head"},
      {Ablate("rules { fixed_heads { heads { layer: -1 head: 0 } } }"), StatusCode::kOutOfRange,
       "layer"},
      {Ablate("rules { fixed_heads { heads { layer: 1 head: 1 } heads { layer: 1 head: 1 } } }"),
       kInvalid, ""},
      {Ablate("rules { random { p: -0.1 } }"), kInvalid, "p"},
      {Ablate("rules { random { p: 1.1 } }"), kInvalid, "p"},
      {Ablate("rules { random { p: nan } }"), kInvalid, "p"},
      {Ablate("rules { random { p: 0.5 } intervention { scale: nan } }"), kInvalid, "scale"},
      {Ablate("rules { random { p: 0.5 } intervention { resample: 5 } }"), kUnimplemented,
       "resample"},
      {Ablate("rules { random { p: 0.5 } layers { include: 9 } }"), StatusCode::kOutOfRange, ""},
      {Ablate("rules { random { p: 0.5 } unit: 9 }"), kInvalid, "unit"},
      {Ablate("rules { expression: \"a or b\" }"), kInvalid, "expression"},
      {Ablate("rules { expression: \"a or\" }"), kInvalid, "expression"},
      {Ablate("keep_scores: true rules { random { p: 0.5 } }"), kUnimplemented, "keep_scores"},
      {Sweep(""), kInvalid, "scores"},
      {Sweep("scores: \"none\""), kInvalid, "scores[0]"},
      {Sweep("scores: \"output_norm_ln\" scores: \"output_norm_ln\""), kInvalid, "scores[1]"},
      {Sweep("scores: \"output_norm_ln\" fractions: 1.5"), kInvalid, "fractions[0]"},
      {Sweep("scores: \"output_norm_ln\" fractions: nan"), kInvalid, "fractions[0]"},
      {Sweep("scores: \"output_norm_ln\" fractions: 0.5 fractions: 0.2"), kInvalid, "fractions[1]"},
      {Sweep("scores: \"output_norm_ln\" models: \"none\""), StatusCode::kNotFound, "models[0]"},
      {"job { probe { workload { model: \"tiny\" task { task: \"pairs\" } } next_tokens: 101 } }",
       kInvalid, "next_tokens"},
      {"job { frontier { workload { model: \"tiny\" task { task: \"pairs\" } } } }",
       StatusCode::kInvalidArgument, "scores"},
  };
  // Names that are no names, for a model, a task and a score job.
  for (const char* raw : {"../etc", "a/../b", "/etc/passwd", "..", " ..", "%2e%2e", "a\\000b",
                          "tiny ", " ", "a\\nb"}) {
    const std::string name = raw;
    table.push_back({Score("model: \"" + name + "\" task { task: \"pairs\" }"), kInvalid, "model"});
    table.push_back({Score("model: \"tiny\" task { task: \"" + name + "\" }"), kInvalid, "task"});
  }
  table.push_back({Score("model: \"" + std::string(1 << 20, 'm') + "\" task { task: \"pairs\" }"),
                   kInvalid, "model"});

  int checked = 0;
  for (const Bad& bad : table) {
    const absl::Status status = Create(bad.request).status();
    const std::string shown = bad.request.substr(0, 200);
    if (bad.code == StatusCode::kOk) {
      EXPECT_FALSE(status.ok()) << shown;
      continue;
    }
    EXPECT_EQ(status.code(), bad.code) << shown << "\n" << status;
    EXPECT_TRUE(ReasonOf(status).has_value()) << shown;
    if (!bad.field.empty()) {
      EXPECT_TRUE(FieldOf(status).value_or("").ends_with(bad.field))
          << shown << "\n"
          << status << " has field " << FieldOf(status).value_or("none");
    }
    ++checked;
  }
  EXPECT_GE(checked, 80);
  v1::ListJobsResponse listed;
  ASSERT_TRUE(Unary(*jobs_, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest(), &listed).ok());
  EXPECT_EQ(listed.jobs_size(), 0);
}

TEST_F(BadJobsTest, TooManyRulesAreRefusedWithTheLimit) {
  v1::CreateJobRequest request = Parse<v1::CreateJobRequest>(Ablate("rules { random { p: 0.5 } }"));
  for (int i = 0; i < 6000; ++i)
    *request.mutable_job()->mutable_ablate()->add_rules() = request.job().ablate().rules(0);
  const absl::Status status = Create(request).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("6000"), absl::string_view::npos) << status;
}

TEST_F(BadJobsTest, AModelThatCannotBeRunIsRefusedBeforeAnythingIsStored) {
  WriteText(folder_.File("models/tiny/config.json"), R"({"model_type": "mamba"})");
  const absl::Status status = Create(ScoreJob()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(FieldOf(status).value_or("").ends_with("model")) << FieldOf(status).value_or("");
  EXPECT_NE(status.message().find("mamba"), absl::string_view::npos);
}

// Names of jobs, on every method that takes one.
TEST_F(BadJobsTest, NamesOfJobsThatAreNoneAreRefusedEverywhere) {
  using Jobs = v1::JobService::Stub;
  using Results = v1::ResultService::Stub;
  const std::string none = "projects/default/jobs/none";
  for (const std::string& name :
       {std::string(""), std::string("x"), std::string("projects/default/jobs/"),
        std::string("projects/default/jobs/../x"), std::string("projects/a/b/jobs/x"),
        std::string("projects/default/jobs/a b"), std::string(1 << 20, 'x'), none,
        std::string("projects/other/jobs/x")}) {
    const StatusCode expected = name == none || name == "projects/other/jobs/x"
                                    ? StatusCode::kNotFound
                                    : StatusCode::kInvalidArgument;
    std::vector<absl::Status> statuses;
    const auto steer = [&](auto method, auto request) {
      request.set_name(name);
      v1::Job job;
      statuses.push_back(Unary(*jobs_, method, request, &job));
    };
    steer(&Jobs::GetJob, v1::GetJobRequest());
    steer(&Jobs::CancelJob, v1::CancelJobRequest());
    steer(&Jobs::PauseJob, v1::PauseJobRequest());
    steer(&Jobs::ResumeJob, v1::ResumeJobRequest());
    v1::DeleteJobRequest remove;
    remove.set_name(name);
    v1::DeleteJobResponse removed;
    statuses.push_back(Unary(*jobs_, &Jobs::DeleteJob, remove, &removed));
    statuses.emplace_back();
    Watch(name, "", &statuses.back());
    const auto read = [&](auto method, auto request, auto response) {
      request.set_job(name);
      statuses.push_back(Unary(*results_, method, request, &response));
    };
    read(&Results::GetHeadScores, v1::GetHeadScoresRequest(), v1::HeadScores());
    read(&Results::QueryThresholds, v1::QueryThresholdsRequest(), v1::QueryThresholdsResponse());
    read(&Results::GetCurves, v1::GetCurvesRequest(), v1::Curves());
    {
      Call call;
      v1::ListSamplesRequest request;
      request.set_job(name);
      auto reader = results_->ListSamples(&call.context, request);
      v1::SampleRecord record;
      while (reader->Read(&record)) continue;
      statuses.push_back(Checked(reader->Finish()));
    }
    {
      Call call;
      v1::DownloadArtifactRequest request;
      request.set_job(name);
      request.set_artifact("job.json");
      auto reader = results_->DownloadArtifact(&call.context, request);
      v1::ArtifactChunk chunk;
      while (reader->Read(&chunk)) continue;
      statuses.push_back(Checked(reader->Finish()));
    }
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.code(), expected) << name.substr(0, 100) << "\n" << status;
      EXPECT_TRUE(FieldOf(status) == "name" || FieldOf(status) == "job") << status;
    }
  }
}

}  // namespace
}  // namespace headcount::server
