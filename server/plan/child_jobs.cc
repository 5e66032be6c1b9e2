// See child_jobs.h.

#include "server/plan/child_jobs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/format/rpc_status.h"
#include "server/results/child_name.h"

namespace headcount::plan {
namespace {

using results::ChildName;

// A UUID of the child that depends on its parent's alone, so that creating it twice is one job.
std::string ChildUid(const std::string& parent_uid, int index) {
  const std::string hex = Sha256Hex(absl::StrCat(parent_uid, "/", index));
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-5", hex.substr(13, 3), "-8",
                      hex.substr(17, 3), "-", hex.substr(20, 12));
}

v1::Job MakeChild(const v1::Job& parent, const v1::Job& wanted, int index) {
  v1::Job child = wanted;
  child.set_name(ChildName(parent.name(), index));
  child.set_uid(ChildUid(parent.uid(), index));
  child.set_owner(parent.owner());
  child.set_parent(parent.name());
  child.set_priority(parent.priority());
  *child.mutable_labels() = parent.labels();
  return child;
}

absl::Status Failure(const v1::Job& child) {
  if (child.state() == v1::Job::CANCELLED) {
    return WithReason(absl::CancelledError(absl::StrCat(child.name(), " was cancelled")),
                      "CHILD_CANCELLED");
  }
  const absl::Status why = format::FromRpcStatus(child.error());
  return WithReason(
      absl::Status(why.ok() ? absl::StatusCode::kInternal : why.code(),
                   absl::StrCat(child.name(), " failed: ", std::string(why.message()))),
      "CHILD_FAILED");
}

}  // namespace

ChildJobs::ChildJobs(store::JobStore& jobs, std::function<void(const std::string& job)> post)
    : jobs_(jobs), post_(std::move(post)) {}

absl::StatusOr<bool> ChildJobs::Advance(const v1::Job& parent,
                                        const std::vector<ChildJob>& children,
                                        absl::Status* failure) {
  bool all = true;
  std::vector<bool> succeeded(children.size(), false);
  for (int i = 0; i < static_cast<int>(children.size()); ++i) {
    const std::string name = ChildName(parent.name(), i);
    absl::StatusOr<v1::Job> child = jobs_.GetJob(name);
    if (absl::IsNotFound(child.status())) {
      all = false;
      const ChildJob& wanted = children[static_cast<size_t>(i)];
      const bool waits = std::any_of(wanted.after.begin(), wanted.after.end(), [&](int before) {
        return !succeeded[static_cast<size_t>(before)];
      });
      if (waits) continue;
      const auto created = jobs_.CreateJob({.job = MakeChild(parent, wanted.job, i)},
                                           std::numeric_limits<int64_t>::max());
      if (absl::IsAlreadyExists(created.status())) {
        *failure =
            WithReason(absl::FailedPreconditionError(absl::StrCat(name, " has been deleted")),
                       "CHILD_DELETED");
        return false;
      }
      HC_RETURN_IF_ERROR(created.status());
      if (post_) post_(name);
      continue;
    }
    HC_RETURN_IF_ERROR(child.status());
    switch (child->state()) {
      case v1::Job::SUCCEEDED:
        succeeded[static_cast<size_t>(i)] = true;
        break;
      case v1::Job::FAILED:
      case v1::Job::CANCELLED:
        *failure = Failure(*child);
        return false;
      default:
        all = false;
    }
  }
  return all;
}

absl::Status ChildJobs::Cancel(const v1::Job& parent, size_t children) {
  for (int i = 0; i < static_cast<int>(children); ++i) {
    const std::string name = ChildName(parent.name(), i);
    const absl::StatusOr<v1::Job> changed = jobs_.UpdateState(
        {.job = name,
         .from = {v1::Job::QUEUED, v1::Job::STARTING, v1::Job::RUNNING, v1::Job::PAUSED},
         .to = v1::Job::CANCELLING,
         .reason = "PARENT_CANCELLED"});
    // Not created, or ended, or ending already.
    if (absl::IsNotFound(changed.status()) || absl::IsFailedPrecondition(changed.status()))
      continue;
    HC_RETURN_IF_ERROR(changed.status());
    if (post_) post_(name);
  }
  return absl::OkStatus();
}

}  // namespace headcount::plan
