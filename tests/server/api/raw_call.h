// Calls by name with bytes, for what no generated stub can send: malformed requests, health and
// reflection (whose generated code the packages do not ship).

#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

namespace headcount::server {

struct RawResult {
  grpc::Status status;
  std::string bytes;
};

inline RawResult RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                         const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const grpc::Slice slice(request);
  grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &sent, &received,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  RawResult result;
  result.status = done.get_future().get();
  grpc::Slice flat;
  if (received.Valid() && received.DumpToSingleSlice(&flat).ok()) {
    result.bytes.assign(reinterpret_cast<const char*>(flat.begin()), flat.size());
  }
  return result;
}

}  // namespace headcount::server
