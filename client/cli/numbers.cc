// See numbers.h.

#include "client/cli/numbers.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace headcount::cli {

std::string Percent(double fraction, int decimals) {
  return std::isfinite(fraction) ? absl::StrFormat("%.*f", decimals, 100 * fraction) : "-";
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
