// Both ends of a connection agree: a real server and client over loopback.

#include "common/rpc/channel.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/base/errors.h"
#include "common/rpc/grpc_status.h"
#include "headcount/v1/job_service.grpc.pb.h"

namespace headcount::rpc {
namespace {

class Refuses final : public v1::JobService::CallbackService {
  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const v1::CreateJobRequest* request,
                                      v1::Job* response) override {
    auto* reactor = context->DefaultReactor();
    response->set_uid(std::to_string(request->ByteSizeLong()));
    reactor->Finish(request->parent().empty()
                        ? ToGrpc(InvalidField("parent", std::string(5000, 'x'), "must be set"))
                        : grpc::Status::OK);
    return reactor;
  }
};

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    ConfigureServer(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::JobService::NewStub(MakeChannel("127.0.0.1:" + std::to_string(port_)));
  }

  absl::Status Call(const v1::CreateJobRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::Job job;
    return FromGrpc(stub_->CreateJob(&context, request, &job));
  }

  Refuses service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(ChannelTest, DetailsOfAnErrorArriveHoweverLongItsTextIs) {
  const absl::Status status = Call({});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_EQ(FieldOf(status), "parent");
}

TEST_F(ChannelTest, MessagesUpToTheLimitPassAndLargerOnesAreRefused) {
  v1::CreateJobRequest request;
  request.set_parent(std::string(kMaxMessageBytes - 100, 'p'));
  EXPECT_TRUE(Call(request).ok());
  request.set_parent(std::string(kMaxMessageBytes + 1, 'p'));
  EXPECT_EQ(Call(request).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ChannelTest, ASecondServerOnThePortDoesNotStart) {
  Refuses other;
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), grpc::InsecureServerCredentials());
  builder.RegisterService(&other);
  EXPECT_EQ(builder.BuildAndStart(), nullptr);
}

TEST_F(ChannelTest, MethodsNobodyWroteAreUnimplemented) {
  grpc::ClientContext context;
  v1::Job job;
  EXPECT_EQ(FromGrpc(stub_->GetJob(&context, {}, &job)).code(), absl::StatusCode::kUnimplemented);
}

TEST(Channel, LoopbackIsKnown) {
  for (const char* listen : {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(listen)) << listen;
  }
  for (const char* listen : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example.org:1"}) {
    EXPECT_FALSE(IsLoopback(listen)) << listen;
  }
}

}  // namespace
}  // namespace headcount::rpc
