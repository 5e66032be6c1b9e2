// Who calls, and what they may do. Injected into every service, so that a server for several
// tenants replaces this one class. Thread-safe.
//
// Errors: INVALID_ARGUMENT for a user name that is none; NOT_FOUND for a job that belongs to
// somebody the caller may not see.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headcount::server {

enum class Action { kRead, kSteer };

class Authoriser {
 public:
  virtual ~Authoriser() = default;

  // The caller's user name. `claimed` is what the client says in its metadata; empty: nothing.
  virtual absl::StatusOr<std::string> Identify(const std::string& claimed) const = 0;
  virtual absl::Status Check(const std::string& user, Action action, const std::string& job,
                             const std::string& owner) const = 0;
};

// One tenant: a claimed name is believed, without one it is the user that runs the server, and all
// see and steer all jobs. For loopback listeners, which is the default.
class SingleTenantAuthoriser final : public Authoriser {
 public:
  SingleTenantAuthoriser();

  absl::StatusOr<std::string> Identify(const std::string& claimed) const override;
  absl::Status Check(const std::string& user, Action action, const std::string& job,
                     const std::string& owner) const override;

 private:
  std::string local_user_;
};

}  // namespace headcount::server
