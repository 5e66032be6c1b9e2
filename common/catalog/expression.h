// Score formulas: parsed once into a postfix program, evaluated by whoever holds the numbers.
//
// Grammar: + - * / and unary minus, parentheses, numbers, measurement ids (measurements.h), and the
// functions layer_mean(x) (mean over the query heads of x's layer), min(a, b), max(a, b), abs(x),
// sqrt(x), log(x) (natural). The one rule that is not plain arithmetic: x / layer_mean(y) is 1 for
// every head of a layer where layer_mean(y) is 0 (entropy of a one-token prompt).
//
// EvaluateLayers runs it over float spans (server); worker/engine/intervene runs the same program
// over tensors; one test compares the two. Immutable after Parse, safe to share between threads.
// Errors: INVALID_ARGUMENT with the position (from 0) and the offending token.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/catalog/measurements.h"

namespace headcount::catalog {

enum class Op {
  kConstant,     // pushes `constant`
  kMeasurement,  // pushes `measurement`
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kDivideByLayerMean,  // a / layer_mean(b): pops b then a; 1 where the mean is 0
  kNegate,
  kLayerMean,
  kMin,
  kMax,
  kAbs,
  kSqrt,
  kLog,
};

struct Step {
  Op op;
  float constant = 0;
  Measurement measurement = Measurement::kFirstWeight;
};

class Expression {
 public:
  // At most 1,000 characters and 64 steps on the stack.
  static absl::StatusOr<Expression> Parse(std::string_view text);

  std::span<const Step> steps() const { return steps_; }
  const std::string& text() const { return text_; }
  // One bit a measurement: bit m is set when measurement m is used.
  unsigned measurements() const { return measurements_; }

  // Evaluates for `layers` x `heads` values: measurements[m] points at layers x heads floats
  // (row-major) and may be null for a measurement that is not used; `out` has layers x heads
  // places. Float32 arithmetic throughout.
  void EvaluateLayers(std::span<const float* const> measurements, int layers, int heads,
                      std::span<float> out) const;

 private:
  std::string text_;
  std::vector<Step> steps_;
  unsigned measurements_ = 0;
};

}  // namespace headcount::catalog
