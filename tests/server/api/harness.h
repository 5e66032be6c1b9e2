// A whole headcountd in this process, over loopback: in-memory SQLite, a folder with one tiny model
// and one task, and clients for every service. Every status that a test sees goes through
// Checked(): UNKNOWN is never one of ours.

#pragma once

#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/errors.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "headcount/v1/admin_service.grpc.pb.h"
#include "headcount/v1/artifact_service.grpc.pb.h"
#include "headcount/v1/catalog_service.grpc.pb.h"
#include "headcount/v1/job_service.grpc.pb.h"
#include "headcount/v1/result_service.grpc.pb.h"
#include "headcount/v1/worker_service.grpc.pb.h"
#include "server/api/server.h"
#include "server/store/sqlite_job_store.h"
#include "spdlog/spdlog.h"
#include "tests/common/base/temp_folder.h"
#include "tests/server/catalog/model_folder.h"

namespace headcount::server {

inline constexpr auto kDeadline = std::chrono::seconds(60);

// The only task of the tests: 12 two-choice questions.
inline constexpr char kPairsTask[] = R"(
task: pairs
test_split: test
doc_to_text: "{{q}}"
doc_to_choice: ["yes", "no"]
doc_to_target: "{{gold}}"
metric_list: [{metric: acc}]
headcount: {data: pairs, format: jsonl, splits: {test: questions.jsonl}}
)";

inline absl::Status Checked(const grpc::Status& status) {
  EXPECT_NE(status.error_code(), grpc::StatusCode::UNKNOWN) << status.error_message();
  const absl::Status out = rpc::FromGrpc(status);
  // Codes that gRPC itself never makes are ours and carry a reason.
  switch (out.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
      EXPECT_TRUE(ReasonOf(out).has_value()) << out;
      break;
    default:
      break;
  }
  return out;
}

template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = Clock::System().Monotonic() + kDeadline;
  while (!condition()) {
    if (Clock::System().Monotonic() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    spdlog::set_level(spdlog::level::off);
    namespace fs = std::filesystem;
    const fs::path base = folder_.path();
    MakeTinyModel(base / "models/tiny");
    fs::create_directories(base / "tasks");
    WriteText(base / "tasks/pairs.yaml", kPairsTask);
    fs::create_directories(base / "tasks/data/pairs");
    std::string rows;
    for (int i = 0; i < 12; ++i) {
      rows += "{\"q\": \"question " + std::to_string(i) + "\", \"gold\": " + std::to_string(i % 2) +
              "}\n";
    }
    WriteText(base / "tasks/data/pairs/questions.jsonl", rows);
    config_.state_dir = folder_.File("state");
    config_.listen = "127.0.0.1:0";
    config_.worker_listen = "127.0.0.1:0";
    config_.metrics_listen = "";
    config_.model_roots = {(base / "models").string()};
    config_.workers_set = true;
    config_.samples_per_unit = 4;
    config_.rules_per_unit = 2;
  }

  void SetUp() override { StartServer(); }

  void StartServer() {
    ServerParts parts;
    auto jobs = store::SqliteJobStore::Open(database_, Clock::System());
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    parts.jobs = *std::move(jobs);
    parts.artifacts = store::ArtifactStore::InMemory();
    parts.authoriser = std::make_unique<SingleTenantAuthoriser>();
    parts.shipped_tasks = folder_.File("tasks");
    auto server = HeadcountServer::Start(config_, std::move(parts));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = rpc::MakeChannel(server_->endpoints().listen);
    worker_channel_ = rpc::MakeChannel(server_->endpoints().worker_listen);
    jobs_ = v1::JobService::NewStub(channel_);
    results_ = v1::ResultService::NewStub(channel_);
    catalog_ = v1::CatalogService::NewStub(channel_);
    artifacts_ = v1::ArtifactService::NewStub(channel_);
    workers_ = v1::WorkerService::NewStub(worker_channel_);
    admin_ = v1::AdminService::NewStub(worker_channel_);
  }

  // A context that ends in time.
  struct Call {
    Call() { context.set_deadline(std::chrono::system_clock::now() + kDeadline); }
    grpc::ClientContext context;
  };

  // One unary call: Unary(*jobs_, &JobService::Stub::GetJob, request, &job).
  template <typename Stub, typename Request, typename Response>
  absl::Status Unary(Stub& stub,
                     grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request, Response* response) {
    Call call;
    return Checked((stub.*method)(&call.context, request, response));
  }

  template <typename Message>
  static Message Parse(const std::string& text) {
    Message message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    return message;
  }

  absl::StatusOr<v1::Job> Create(const v1::CreateJobRequest& request) {
    v1::Job job;
    const absl::Status status = Unary(*jobs_, &v1::JobService::Stub::CreateJob, request, &job);
    if (!status.ok()) return status;
    return job;
  }
  absl::StatusOr<v1::Job> Create(const std::string& request) {
    return Create(Parse<v1::CreateJobRequest>(request));
  }

  static std::string ScoreJob() {
    return R"(job { score { workload { model: "tiny" task { task: "pairs" } } } })";
  }
  static std::string SweepJob() {
    return R"(job { sweep { workload { model: "tiny" task { task: "pairs" } }
                            scores: "output_norm_ln" scores: "random"
                            fractions: 0.2 fractions: 0.5 random_seed: 7 } })";
  }

  v1::Job Get(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    EXPECT_TRUE(Unary(*jobs_, &v1::JobService::Stub::GetJob, request, &job).ok());
    return job;
  }

  // All events until the stream ends or `most` are there; its status in `*status`.
  std::vector<v1::JobEvent> Watch(const std::string& name, const std::string& token,
                                  absl::Status* status, size_t most = 1 << 20, bool quiet = false) {
    Call call;
    v1::WatchJobRequest request;
    request.set_name(name);
    request.set_resume_token(token);
    request.set_quiet(quiet);
    auto reader = jobs_->WatchJob(&call.context, request);
    std::vector<v1::JobEvent> events;
    v1::JobEvent event;
    while (events.size() < most && reader->Read(&event)) events.push_back(event);
    if (events.size() == most) call.context.TryCancel();
    *status = Checked(reader->Finish());
    return events;
  }

  TempFolder folder_;
  Config config_;
  std::string database_ = ":memory:";
  std::unique_ptr<HeadcountServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<grpc::Channel> worker_channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ResultService::Stub> results_;
  std::unique_ptr<v1::CatalogService::Stub> catalog_;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

}  // namespace headcount::server
