// See job_difference.h.

#include "client/cli/job_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace headcount::cli {
namespace {

std::string ValueOf(const v1::Provenance& from, const google::protobuf::FieldDescriptor* field) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(from, field, -1, &text);
  return text;
}

// Equal values differ by 0, not finite ones included: two runs may both have overflowed.
double LargestDifference(const v1::SampleRecord& then, const v1::SampleRecord& now) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (then.log_likelihoods_size() != now.log_likelihoods_size()) return kInfinity;
  double largest = 0;
  for (int i = 0; i < then.log_likelihoods_size(); ++i) {
    const double a = then.log_likelihoods(i), b = now.log_likelihoods(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double difference = std::abs(a - b);
    largest = std::max(largest, std::isfinite(difference) ? difference : kInfinity);
  }
  return largest;
}

}  // namespace

std::vector<FieldDifference> DifferencesOf(const v1::Provenance& then, const v1::Provenance& now) {
  std::vector<FieldDifference> differences;
  const auto* descriptor = v1::Provenance::descriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->is_repeated()) continue;  // `reused`
    FieldDifference difference{field->name(), ValueOf(then, field), ValueOf(now, field)};
    if (difference.then != difference.now) differences.push_back(std::move(difference));
  }
  return differences;
}

void RowDifferences::Add(const v1::SampleRecord& then, const v1::SampleRecord& now) {
  ++rows_;
  const bool mask = then.mask() != now.mask();
  const bool answer = then.correct() != now.correct();
  const bool text = !std::equal(then.generated_tokens().begin(), then.generated_tokens().end(),
                                now.generated_tokens().begin(), now.generated_tokens().end());
  const double difference = LargestDifference(then, now);
  masks_ += mask;
  answers_ += answer;
  texts_ += text;
  if (!mask && !answer && !text && difference == 0) {
    ++identical_;
    return;
  }
  if (where_.empty() || difference > largest_difference_) {
    where_ = absl::StrCat(now.sample(), " under ", now.rule_label());
  }
  largest_difference_ = std::max(largest_difference_, difference);
}

}  // namespace headcount::cli
