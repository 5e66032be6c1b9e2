// What gRPC and protobuf print for themselves goes into our log, one line an entry, so that a
// client that sends rubbish cannot write to it as it likes. Call once from main, after InitLogging.

#pragma once

namespace headcount::rpc {

void RouteLibraryLogs();

}  // namespace headcount::rpc
