// See library_logs.h.

#include "common/rpc/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace headcount::rpc {
namespace {

constexpr size_t kLongestLine = 500;

std::string OneLine(std::string_view text) {
  std::string out(text.substr(0, kLongestLine));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return out;
}

// Requests that do not parse are the client's doing, and the call says so: not our error.
void FromProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& text) {
  spdlog::log(level >= google::protobuf::LOGLEVEL_FATAL ? spdlog::level::err : spdlog::level::debug,
              "protobuf: {}", OneLine(text));
}

void FromGrpc(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR  ? spdlog::level::warn
                     : args->severity == GPR_LOG_SEVERITY_INFO ? spdlog::level::info
                                                               : spdlog::level::debug;
  spdlog::log(level, "grpc: {}", OneLine(args->message));
}

}  // namespace

void RouteLibraryLogs() {
  google::protobuf::SetLogHandler(&FromProtobuf);
  gpr_set_log_function(&FromGrpc);
}

}  // namespace headcount::rpc
