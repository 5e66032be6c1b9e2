// See errors.h.

#include "common/base/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace headcount {
namespace {

constexpr char kReasonUrl[] = "headcount/reason";
constexpr char kFieldUrl[] = "headcount/field";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Values come from clients: control characters are escaped and length is bounded, so that a log
// stays one line.
std::string Printable(std::string_view value) {
  constexpr size_t kLongest = 200;
  std::string out;
  for (unsigned char c : value.substr(0, kLongest)) {
    if (c < 0x20 || c == 0x7f) {
      absl::StrAppend(&out, "\\x", absl::Hex(c, absl::kZeroPad2));
    } else {
      out.push_back(static_cast<char>(c));
    }
  }
  if (value.size() > kLongest) absl::StrAppend(&out, "... (", value.size(), " bytes)");
  return out;
}

absl::Status WithPayload(absl::Status status, const char* url, std::string_view text) {
  status.SetPayload(url, absl::Cord(View(text)));
  return status;
}

std::optional<std::string> Payload(const absl::Status& status, const char* url) {
  auto payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace

absl::Status InvalidField(std::string_view field, std::string_view value, std::string_view message,
                          std::string_view reason) {
  return WithField(
      WithReason(absl::InvalidArgumentError(absl::StrCat(View(field), ": ", View(message),
                                                         " (got \"", Printable(value), "\")")),
                 reason),
      field);
}

absl::Status UnimplementedField(std::string_view field) {
  return WithField(WithReason(absl::UnimplementedError(absl::StrCat(
                                  View(field), ": defined, but not served by this version")),
                              "FIELD_UNIMPLEMENTED"),
                   field);
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  return WithPayload(std::move(status), kReasonUrl, reason);
}

absl::Status WithField(absl::Status status, std::string_view field) {
  return WithPayload(std::move(status), kFieldUrl, field);
}

std::optional<std::string> ReasonOf(const absl::Status& status) {
  return Payload(status, kReasonUrl);
}
std::optional<std::string> FieldOf(const absl::Status& status) {
  return Payload(status, kFieldUrl);
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  absl::Status out(status.code(), absl::StrCat(View(context), ": ", status.message()));
  status.ForEachPayload(
      [&out](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

}  // namespace headcount
