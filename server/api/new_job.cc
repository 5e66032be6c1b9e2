// See new_job.h.

#include "server/api/new_job.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "common/base/digest.h"
#include "common/base/errors.h"
#include "common/format/serialize.h"
#include "server/api/resource_names.h"

namespace headcount::server {
namespace {

// What of a job a client decides.
v1::Job ClientPart(const v1::Job& given) {
  v1::Job job = given;
  v1::Job clean;
  clean.mutable_labels()->swap(*job.mutable_labels());
  clean.set_priority(job.priority());
  const auto* spec = v1::Job::descriptor()->FindOneofByName("spec");
  if (const auto* arm = given.GetReflection()->GetOneofFieldDescriptor(given, spec)) {
    clean.GetReflection()
        ->MutableMessage(&clean, arm)
        ->CopyFrom(given.GetReflection()->GetMessage(given, arm));
  }
  return clean;
}

}  // namespace

absl::Status CheckRequestId(const std::string& request_id) {
  if (request_id.empty()) return absl::OkStatus();
  bool ok = request_id.size() == 36;
  for (size_t i = 0; ok && i < request_id.size(); ++i) {
    const char c = request_id[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    ok = dash ? c == '-' : absl::ascii_isxdigit(static_cast<unsigned char>(c));
  }
  if (ok) return absl::OkStatus();
  return InvalidField("request_id", request_id, "must be a UUID, or empty");
}

std::string BodyDigest(const std::string& project, const v1::Job& job) {
  // Deterministic because labels are a map.
  return Sha256Hex(project + "\n" + format::SerializeDeterministically(ClientPart(job)));
}

store::NewJob MakeNewJob(const v1::CreateJobRequest& request, const std::string& project,
                         const std::string& owner, IdGenerator& ids) {
  store::NewJob out;
  out.request_id = request.request_id();
  std::transform(out.request_id.begin(), out.request_id.end(), out.request_id.begin(),
                 [](char c) { return absl::ascii_tolower(static_cast<unsigned char>(c)); });
  out.body_digest = BodyDigest(project, request.job());
  out.job = ClientPart(request.job());
  out.job.set_name(JobName(project, ids.ShortId()));
  out.job.set_uid(ids.Uuid());
  out.job.set_owner(owner);
  return out;
}

}  // namespace headcount::server
