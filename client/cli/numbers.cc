// See numbers.h.

#include "client/cli/numbers.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace headcount::cli {

std::string Percent(double fraction, int decimals) { return Number(100 * fraction, decimals); }

std::string Number(double value, int decimals) {
  return std::isfinite(value) ? absl::StrFormat("%.*f", decimals, value) : "-";
}

double MeanOfFinite(const google::protobuf::RepeatedField<double>& values) {
  double sum = 0;
  int n = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++n;
  }
  return n > 0 ? sum / n : std::nan("");
}

}  // namespace headcount::cli
