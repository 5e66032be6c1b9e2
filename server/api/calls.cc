// See calls.h.

#include "server/api/calls.h"

#include "common/rpc/channel.h"

namespace headcount::server {

std::string ClaimedUser(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(rpc::kUserMetadata);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

grpc::ServerUnaryReactor* RunUnary(grpc::CallbackServerContext* context, WorkPool& pool,
                                   CallStats& stats, const char* method,
                                   std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto finish = [reactor, &stats, method](const absl::Status& status) {
    stats.Handled(method, status.code());
    reactor->Finish(rpc::ToGrpc(status));
  };
  const bool queued = pool.TryRun([context, finish, work = std::move(work)] {
    // Nobody waits for the answer any more: do not begin.
    finish(context->IsCancelled() ? absl::CancelledError("the client went away") : Guarded(work));
  });
  if (!queued) finish(ServerBusy());
  return reactor;
}

}  // namespace headcount::server
