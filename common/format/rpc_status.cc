// See rpc_status.h.

#include "common/format/rpc_status.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "common/base/errors.h"
#include "google/rpc/error_details.pb.h"

namespace headcount::format {
namespace {

// gRPC refuses trailers over 8 KiB; the message stands in them twice, percent-encoded once (three
// bytes for one), and once more inside BadRequest.
constexpr size_t kLongestMessage = 1200;
constexpr size_t kLongestField = 200;

// Length of the UTF-8 sequence at the start of `text`, or 0 if that is no valid one.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond the last code point.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
      (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) {
    return 0;
  }
  return length;
}

std::string Fit(std::string_view text, size_t longest) {
  std::string out;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (out.size() + std::max<size_t>(length, 1) > longest) return out + "...";
    if (length == 0) {
      out.push_back('?');
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string CodeName(absl::StatusCode code) {
  const std::string name = absl::StatusCodeToString(code);
  return name.empty() ? "UNKNOWN" : name;
}

}  // namespace

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status out;
  if (status.ok()) return out;
  out.set_code(static_cast<int>(status.code()));
  out.set_message(Fit({status.message().data(), status.message().size()}, kLongestMessage));

  google::rpc::ErrorInfo info;
  info.set_reason(Fit(ReasonOf(status).value_or(CodeName(status.code())), 63));
  info.set_domain(kErrorDomain);
  out.add_details()->PackFrom(info);

  if (const auto field = FieldOf(status); field.has_value()) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field(Fit(*field, kLongestField));
    violation->set_description(out.message());
    out.add_details()->PackFrom(bad);
  }
  if (info.reason() == "QUEUE_FULL") {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(10);
    out.add_details()->PackFrom(retry);
  }
  return out;
}

absl::Status FromRpcStatus(const google::rpc::Status& status) {
  if (status.code() == 0) return absl::OkStatus();
  const auto code = status.code() >= 1 && status.code() <= 16
                        ? static_cast<absl::StatusCode>(status.code())
                        : absl::StatusCode::kUnknown;
  absl::Status out(code, status.message());
  for (const auto& detail : status.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad;
    if (detail.UnpackTo(&info) && info.domain() == kErrorDomain) {
      out = WithReason(std::move(out), info.reason());
    } else if (detail.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      out = WithField(std::move(out), bad.field_violations(0).field());
    }
  }
  return out;
}

}  // namespace headcount::format
