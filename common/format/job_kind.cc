// See job_kind.h.

#include "common/format/job_kind.h"

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace headcount::format {
namespace {

const google::protobuf::FieldDescriptor* Arm(const v1::Job& job) {
  return v1::Job::descriptor()->FindFieldByNumber(static_cast<int>(job.spec_case()));
}

}  // namespace

std::string JobKind(const v1::Job& job) {
  const auto* arm = Arm(job);
  return arm == nullptr ? "" : arm->name();
}

const v1::Workload& WorkloadOf(const v1::Job& job) {
  const auto* arm = Arm(job);
  if (arm == nullptr) return v1::Workload::default_instance();
  const google::protobuf::Message& spec = job.GetReflection()->GetMessage(job, arm);
  const auto* field = spec.GetDescriptor()->FindFieldByName("workload");
  if (field == nullptr || field->message_type() != v1::Workload::descriptor()) {
    return v1::Workload::default_instance();
  }
  return static_cast<const v1::Workload&>(spec.GetReflection()->GetMessage(spec, field));
}

}  // namespace headcount::format
