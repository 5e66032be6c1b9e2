// See job_kind.h.

#include "common/format/job_kind.h"

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace headcount::format {
namespace {

// The field `workload` of a spec; null where it has none.
const google::protobuf::FieldDescriptor* WorkloadField(const google::protobuf::Message& spec) {
  const auto* field = spec.GetDescriptor()->FindFieldByName("workload");
  const bool right = field != nullptr && field->message_type() == v1::Workload::descriptor();
  return right ? field : nullptr;
}

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
  const auto* field = WorkloadField(spec);
  if (field == nullptr) return v1::Workload::default_instance();
  return static_cast<const v1::Workload&>(spec.GetReflection()->GetMessage(spec, field));
}

v1::Workload* MutableWorkloadOf(v1::Job* job) {
  const auto* arm = Arm(*job);
  if (arm == nullptr) return nullptr;
  google::protobuf::Message* spec = job->GetReflection()->MutableMessage(job, arm);
  const auto* field = WorkloadField(*spec);
  if (field == nullptr) return nullptr;
  return static_cast<v1::Workload*>(spec->GetReflection()->MutableMessage(spec, field));
}

}  // namespace headcount::format
