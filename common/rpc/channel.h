// How clients, workers and the server speak gRPC: message limits, keepalive and reconnection, said
// once so that both ends agree. A host that vanishes is noticed within 40 s. Thread-safe.

#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

namespace headcount::rpc {

// Of one message, both ways. What is larger is streamed in pieces of at most kPieceBytes.
inline constexpr int kMaxMessageBytes = 4 << 20;
inline constexpr int kPieceBytes = 1 << 20;

// Metadata in which a client names its user in the single-user mode, in which the server believes
// it. Lower-case letters, digits, '.', '_', '-'; anything else is refused.
inline constexpr char kUserMetadata[] = "x-headcount-user";

// A channel to "host:port" without TLS. Connects on first use, reconnects with backoff from 0.2 s
// to 5 s, pings after 20 s of silence, also between calls.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target);

// The server's side of the same: limits, permission for those pings, one process a port.
void ConfigureServer(grpc::ServerBuilder* builder);

// Whether "host:port" can only be reached from this machine.
bool IsLoopback(const std::string& listen);

}  // namespace headcount::rpc
