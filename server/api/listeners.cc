// See listeners.h.

#include "server/api/listeners.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/security/server_credentials.h>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/rpc/channel.h"

namespace headcount::server {
namespace {

// Linking gRPC's reflection library puts it into every server of the process. This option decides
// it for one builder.
class ReflectionOption final : public grpc::ServerBuilderOption {
 public:
  explicit ReflectionOption(bool wanted) : wanted_(wanted) {}

  void UpdateArguments(grpc::ChannelArguments* arguments) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    auto reflection = std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>();
    std::erase_if(*plugins, [&](const auto& p) { return p->name() == reflection->name(); });
    if (wanted_) plugins->push_back(std::move(reflection));
  }

 private:
  const bool wanted_;
};

}  // namespace

absl::StatusOr<Listener> Listen(const ListenerOptions& options) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  rpc::ConfigureServer(&builder);
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  builder.SetOption(std::make_unique<ReflectionOption>(options.reflection));
  Listener out;
  out.server = builder.BuildAndStart();
  if (out.server == nullptr || port == 0) {
    return WithField(
        WithReason(absl::UnavailableError(absl::StrCat(
                       options.key, ": cannot listen on ", options.listen,
                       "; the address is not this machine's, or something listens there")),
                   "CANNOT_LISTEN"),
        options.key);
  }
  out.address = absl::StrCat(options.listen.substr(0, options.listen.rfind(':')), ":", port);
  auto* health = out.server->GetHealthCheckService();
  for (const std::string& name : options.health_names) health->SetServingStatus(name, true);
  return out;
}

void ReportStopping(Listener& listener) {
  if (auto* health = listener.server->GetHealthCheckService()) health->Shutdown();
}

}  // namespace headcount::server
