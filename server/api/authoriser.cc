// See authoriser.h.

#include "server/api/authoriser.h"

#include <pwd.h>
#include <unistd.h>

#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"

namespace headcount::server {

SingleTenantAuthoriser::SingleTenantAuthoriser() {
  const passwd* entry = getpwuid(getuid());
  local_user_ =
      entry != nullptr && CheckResourceId("user", entry->pw_name).ok() ? entry->pw_name : "local";
}

absl::StatusOr<std::string> SingleTenantAuthoriser::Identify(const std::string& claimed) const {
  if (claimed.empty()) return local_user_;
  HC_RETURN_IF_ERROR(CheckResourceId(rpc::kUserMetadata, claimed));
  return claimed;
}

absl::Status SingleTenantAuthoriser::Check(const std::string& user, Action action,
                                           const std::string& job, const std::string& owner) const {
  return absl::OkStatus();
}

}  // namespace headcount::server
