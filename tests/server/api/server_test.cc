// The server as a whole: health, reflection, limits, malformed input, metrics, catalogue, restart.

#include <gmock/gmock.h>

#include <random>

#include "google/protobuf/descriptor.h"
#include "tests/server/api/harness.h"
#include "tests/server/api/http_get.h"
#include "tests/server/api/raw_call.h"
#include "tests/server/api/scripted_worker.h"

namespace headcount::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ServerTest : public ApiTest {
 protected:
  // The bytes of grpc.health.v1's answer: 08 01 is SERVING.
  RawResult Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
    std::string request;
    if (!service.empty()) {
      request = std::string("\x0a") + static_cast<char>(service.size()) + service;
    }
    return RawCall(channel, "/grpc.health.v1.Health/Check", request);
  }
  // list_services: field 7, "*".
  RawResult Reflection(const std::shared_ptr<grpc::Channel>& channel) {
    return RawCall(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                   "\x3a\x01*");
  }
};

TEST_F(ServerTest, HealthIsReportedByServiceOnBothListeners) {
  for (const char* service : {"", "headcount.v1.JobService", "headcount.v1.ResultService",
                              "headcount.v1.CatalogService"}) {
    EXPECT_EQ(Health(channel_, service).bytes, "\x08\x01") << service;
  }
  EXPECT_EQ(Health(worker_channel_, "headcount.v1.WorkerService").bytes, "\x08\x01");
  EXPECT_EQ(Health(channel_, "headcount.v1.Nonsense").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, ReflectionListsTheServicesWhereItIsConfigured) {
  const RawResult on = Reflection(channel_);
  EXPECT_THAT(on.bytes, HasSubstr("headcount.v1.JobService"));
  EXPECT_THAT(on.bytes, HasSubstr("headcount.v1.ResultService"));
  EXPECT_THAT(on.bytes, Not(HasSubstr("headcount.v1.WorkerService")));
  EXPECT_THAT(Reflection(worker_channel_).bytes, HasSubstr("headcount.v1.WorkerService"));
  server_.reset();
  config_.reflection = false;
  StartServer();
  EXPECT_EQ(Reflection(channel_).status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(ServerTest, ReflectionIsForLoopbackUnlessItIsAllowedElsewhere) {
  server_.reset();
  config_.listen = "0.0.0.0:0";
  StartServer();
  EXPECT_EQ(Reflection(channel_).status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  server_.reset();
  config_.reflection_everywhere = true;
  StartServer();
  EXPECT_THAT(Reflection(channel_).bytes, HasSubstr("headcount.v1.JobService"));
}

TEST_F(ServerTest, AMessageOverTheLimitIsRefusedByTheLibrary) {
  v1::CreateJobRequest request;
  request.set_parent(std::string((4 << 20) + 1, 'p'));
  // Past the client's own limit, to meet the server's.
  const auto channel =
      grpc::CreateChannel(server_->endpoints().listen, grpc::InsecureChannelCredentials());
  const RawResult result =
      RawCall(channel, "/headcount.v1.JobService/CreateJob", request.SerializeAsString());
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, ACompressedMessageIsMeasuredAfterItIsUnpacked) {
  const auto channel =
      grpc::CreateChannel(server_->endpoints().listen, grpc::InsecureChannelCredentials());
  auto stub = v1::JobService::NewStub(channel);
  Call call;
  call.context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::GetJobRequest request;
  request.set_name(std::string(32 << 20, 'a'));
  v1::Job job;
  EXPECT_EQ(Checked(stub->GetJob(&call.context, request, &job)).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(ServerTest, ManyItemsUnderTheByteLimitAreRefusedByCount) {
  auto request = Parse<v1::CreateJobRequest>(SweepJob());
  for (int i = 0; i < 100'000; ++i) request.mutable_job()->mutable_sweep()->add_scores("x");
  EXPECT_EQ(Create(request).status().code(), absl::StatusCode::kInvalidArgument);
  request = Parse<v1::CreateJobRequest>(SweepJob());
  for (int i = 0; i < 100'000; ++i) request.mutable_job()->mutable_sweep()->add_fractions(.5);
  EXPECT_EQ(Create(request).status().code(), absl::StatusCode::kInvalidArgument);
}

// Random bytes, truncated and mutated requests, to every method there is: never UNKNOWN, and the
// server still works afterwards.
TEST_F(ServerTest, MalformedRequestsToEveryMethodNeverEscape) {
  std::mt19937 random(11);
  const auto check = [](const std::string& method, const RawResult& result) {
    EXPECT_NE(result.status.error_code(), grpc::StatusCode::UNKNOWN)
        << method << ": " << result.status.error_message();
    EXPECT_NE(result.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << method;
  };
  const std::vector<std::string> seeds = {
      Parse<v1::CreateJobRequest>(ScoreJob()).SerializeAsString(),
      Parse<v1::CreateJobRequest>(SweepJob()).SerializeAsString(),
      std::string(10'000, '\x0b'),  // groups, 10,000 deep
      std::string("\x0a\xff\xff\xff\xff\x0f"), std::string("\x0a\x02\xff\xfe")};
  int methods = 0;
  for (const char* name : {"JobService", "ResultService", "CatalogService", "ArtifactService",
                           "WorkerService", "AdminService"}) {
    const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        std::string("headcount.v1.") + name);
    ASSERT_NE(service, nullptr) << name;
    const bool workers =
        std::string(name) == "WorkerService" || std::string(name) == "AdminService";
    for (int m = 0; m < service->method_count(); ++m) {
      ++methods;
      const std::string method = "/" + service->full_name() + "/" + service->method(m)->name();
      for (int i = 0; i < 25; ++i) {
        std::string bytes = seeds[static_cast<size_t>(i) % seeds.size()];
        if (i >= 5 && i < 15) {
          bytes.resize(random() % 200);
          for (char& c : bytes) c = static_cast<char>(random());
        } else if (i >= 15) {
          for (int flips = 0; flips < 3; ++flips) {
            bytes[random() % bytes.size()] = static_cast<char>(random());
          }
          bytes.resize(random() % (bytes.size() + 1));
        }
        check(method, RawCall(workers ? worker_channel_ : channel_, method, bytes));
      }
    }
  }
  EXPECT_GE(methods, 20);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = seeds[static_cast<size_t>(i) % 2];
    bytes[random() % bytes.size()] = static_cast<char>(random());
    check("CreateJob", RawCall(channel_, "/headcount.v1.JobService/CreateJob", bytes));
  }
  EXPECT_TRUE(Create(ScoreJob()).ok());
}

TEST_F(ServerTest, UploadsAreDefinedButNotServed) {
  Call call;
  v1::Artifact artifact;
  auto writer = artifacts_->Upload(&call.context, &artifact);
  v1::UploadRequest request;
  request.set_data(std::string(1000, 'x'));
  writer->Write(request);
  writer->WritesDone();
  const absl::Status status = Checked(writer->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FieldOf(status), "ArtifactService.Upload");
}

TEST_F(ServerTest, TheCatalogueSaysWhatCanBeNamed) {
  using Catalog = v1::CatalogService::Stub;
  v1::ListModelsResponse models;
  ASSERT_TRUE(Unary(*catalog_, &Catalog::ListModels, v1::ListModelsRequest(), &models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).name(), "tiny");
  EXPECT_EQ(models.models(0).problem(), "");
  v1::ListScoresResponse scores;
  ASSERT_TRUE(Unary(*catalog_, &Catalog::ListScores, v1::ListScoresRequest(), &scores).ok());
  EXPECT_EQ(scores.scores_size(), 16);  // the paper's 15 and `random`
  EXPECT_EQ(scores.scores(15).id(), "random");
  v1::ListTasksResponse tasks;
  ASSERT_TRUE(Unary(*catalog_, &Catalog::ListTasks, v1::ListTasksRequest(), &tasks).ok());
  ASSERT_EQ(tasks.tasks_size(), 1);
  EXPECT_EQ(tasks.tasks(0).documents(), 12);
  v1::ServerInfo info;
  ASSERT_TRUE(Unary(*catalog_, &Catalog::GetServerInfo, v1::GetServerInfoRequest(), &info).ok());
  EXPECT_EQ(info.numerics_version(), catalog::kNumericsVersion);
  EXPECT_GE(info.schema_version(), 1);
  EXPECT_EQ(info.max_rules(), 6000);
  EXPECT_EQ(info.samples_per_unit(), 4);
}

TEST_F(ServerTest, MetricsTellWhatHappenedAndNameNobody) {
  server_.reset();
  config_.metrics_listen = "127.0.0.1:0";
  StartServer();
  const std::string metrics = server_->endpoints().metrics_listen;
  std::string name;
  {
    ScriptedWorker worker(server_->endpoints().worker_listen);
    worker.Run();
    Call call;
    call.context.AddMetadata(rpc::kUserMetadata, "secret-user");
    v1::Job job;
    ASSERT_TRUE(
        Checked(jobs_->CreateJob(&call.context, Parse<v1::CreateJobRequest>(SweepJob()), &job))
            .ok());
    name = job.name();
    ASSERT_TRUE(Eventually([&] { return Get(name).state() == v1::Job::SUCCEEDED; }));
  }
  Create("").IgnoreError();
  std::string text;
  ASSERT_TRUE(Eventually([&] {
    text = HttpGet(metrics, "/metrics");
    return text.find("headcount_jobs_finished_total") != std::string::npos;
  }));
  for (const char* line :
       {"headcount_jobs_submitted_total{kind=\"sweep\"} 1",
        "headcount_jobs_finished_total{kind=\"sweep\",state=\"SUCCEEDED\"} 1",
        "headcount_queue_jobs 0", "headcount_worker_up{worker=\"scripted\"} 1",
        "headcount_samples_processed_total{model=\"tiny\"} 120",  // (1 + 2 x 2) x 24
        "headcount_tokens_processed_total{model=\"tiny\"}", "headcount_store_bytes ",
        "headcount_watch_streams 0", "headcount_lease_expirations_total 0",
        "headcount_build_info{version=", "process_resident_memory_bytes ",
        "grpc_server_handled_total{grpc_code=\"INVALID_ARGUMENT\",grpc_method=\"CreateJob\"",
        "headcount_queue_oldest_age_seconds 0"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("secret-user")));
  EXPECT_THAT(text, Not(HasSubstr(name)));
  EXPECT_LT(text.size(), size_t{256} << 10);
}

TEST_F(ServerTest, AnAddressInUseIsNamed) {
  Config second = config_;
  second.listen = server_->endpoints().listen;
  ServerParts parts;
  parts.jobs = *store::SqliteJobStore::Open(":memory:", Clock::System());
  parts.artifacts = store::ArtifactStore::InMemory();
  parts.authoriser = std::make_unique<SingleTenantAuthoriser>();
  const absl::Status status = HeadcountServer::Start(second, std::move(parts)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(FieldOf(status), "listen");
  EXPECT_THAT(std::string(status.message()), HasSubstr(second.listen));
}

TEST_F(ServerTest, ARestartedServerGoesOnWithItsJobs) {
  server_.reset();
  database_ = folder_.File("headcount.db");
  StartServer();
  const v1::Job job = *Create(SweepJob() + " request_id: \"6ba7b810-9dad-41d1-80b4-00c04fd430c8\"");
  server_->Stop(std::chrono::seconds(20));
  server_.reset();
  StartServer();
  // The same request after the restart is the same job.
  EXPECT_EQ(Create(SweepJob() + " request_id: \"6ba7b810-9dad-41d1-80b4-00c04fd430c8\"")->name(),
            job.name());
  ScriptedWorker worker(server_->endpoints().worker_listen);
  worker.Run();
  EXPECT_TRUE(Eventually([&] { return Get(job.name()).state() == v1::Job::SUCCEEDED; }));
}

}  // namespace
}  // namespace headcount::server
