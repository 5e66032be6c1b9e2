// See sample_source.h.

#include "worker/agent/sample_source.h"

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/rpc/grpc_status.h"
#include "worker/agent/call_deadline.h"

namespace headcount::agent {
namespace {

constexpr std::chrono::seconds kFetchDeadline{60};

// The digest of storage: input, then targets, each a little-endian int32.
std::string DigestOf(const std::vector<int32_t>& prefix, const v1::ManifestSample& sample) {
  std::string bytes;
  const auto append = [&bytes](const auto& ids) {
    for (const int32_t id : ids) {
      for (int i = 0; i < 4; ++i) {
        bytes.push_back(static_cast<char>(static_cast<uint32_t>(id) >> (8 * i)));
      }
    }
  };
  append(prefix);
  append(sample.suffix());
  append(sample.targets());
  const auto digest = Sha256(bytes);
  return std::string(digest.begin(), digest.end());
}

absl::Status Check(const SampleRange& range, int64_t count) {
  const auto got = static_cast<int64_t>(range.samples.size());
  if (got != count) {
    return absl::DataLossError(absl::StrCat("manifest ", range.manifest_digest, ": got ", got,
                                            " samples from ", range.first, ", asked for ", count));
  }
  for (const v1::ManifestSample& sample : range.samples) {
    const auto prefix = range.prefixes.find(sample.group());
    if (prefix == range.prefixes.end() || sample.suffix().empty() ||
        DigestOf(prefix->second, sample) != sample.digest()) {
      return absl::DataLossError(
          absl::StrCat("sample ", sample.id(), ": its tokens do not match their digest"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleRange>> SampleSource::Get(const std::string& digest,
                                                                     int64_t first, int64_t count,
                                                                     StopSignal& stop) {
  if (latest_ != nullptr && latest_->Covers(digest, first, count)) return latest_;
  Backoff backoff;
  for (;;) {
    auto fetched = Fetch(digest, first, count);
    if (fetched.ok()) {
      latest_ = *fetched;
      return fetched;
    }
    const bool away =
        absl::IsUnavailable(fetched.status()) || absl::IsDeadlineExceeded(fetched.status());
    if (!away) return fetched;
    if (stop.WaitFor(backoff.Next())) return absl::CancelledError("stopped");
  }
}

absl::StatusOr<std::shared_ptr<const SampleRange>> SampleSource::Fetch(const std::string& digest,
                                                                       int64_t first,
                                                                       int64_t count) {
  v1::GetManifestSliceRequest request;
  request.set_digest(digest);
  request.set_first_sample(first);
  request.set_samples(count);
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(kFetchDeadline));
  auto range = std::make_shared<SampleRange>();
  range->manifest_digest = digest;
  range->first = first;
  const auto reader = stub_->GetManifestSlice(&context, request);
  v1::ManifestSlice slice;
  while (reader->Read(&slice)) {
    if (slice.has_generation()) range->generation = slice.generation();
    for (const v1::ManifestGroup& group : slice.groups()) {
      range->prefixes[group.group()].assign(group.prefix().begin(), group.prefix().end());
    }
    for (v1::ManifestSample& sample : *slice.mutable_samples()) {
      range->samples.push_back(std::move(sample));
    }
  }
  HC_RETURN_IF_ERROR(rpc::FromGrpc(reader->Finish()));
  HC_RETURN_IF_ERROR(Check(*range, count));
  return std::shared_ptr<const SampleRange>(std::move(range));
}

}  // namespace headcount::agent
