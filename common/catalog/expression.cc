// Parser (recursive descent to postfix) and float evaluator of score formulas. See expression.h.

#include "common/catalog/expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace headcount::catalog {
namespace {

constexpr size_t kMaxLength = 1000;
constexpr int kMaxStack = 64;

struct Function {
  std::string_view name;
  Op op;
  int arguments;
};
constexpr Function kFunctions[] = {
    {"layer_mean", Op::kLayerMean, 1},
    {"min", Op::kMin, 2},
    {"max", Op::kMax, 2},
    {"abs", Op::kAbs, 1},
    {"sqrt", Op::kSqrt, 1},
    {"log", Op::kLog, 1},
};

bool IsBinary(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kSubtract:
    case Op::kMultiply:
    case Op::kDivide:
    case Op::kDivideByLayerMean:
    case Op::kMin:
    case Op::kMax:
      return true;
    default:
      return false;
  }
}

bool IsPush(Op op) { return op == Op::kConstant || op == Op::kMeasurement; }

// sum := product (('+' | '-') product)*; product := factor (('*' | '/') factor)*;
// factor := '-' factor | primary; primary := number | name | function '(' sum (',' sum)* ')' | '('
// sum ')'.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::Status Run() {
    if (absl::Status status = Sum(); !status.ok()) return status;
    SkipSpace();
    if (at_ < text_.size()) return Unexpected("an operator or the end");
    return absl::OkStatus();
  }

  std::vector<Step> steps;
  unsigned measurements = 0;

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status ErrorAt(size_t position, std::string_view message) const {
    return absl::InvalidArgumentError(
        absl::StrCat("formula: ", std::string(message), " at position ", position));
  }

  absl::Status Unexpected(std::string_view wanted) const {
    std::string found = "the end";
    if (at_ < text_.size()) {
      size_t end = at_ + 1;
      if (IsNamePart(text_[at_])) {
        while (end < text_.size() && IsNamePart(text_[end])) ++end;
      }
      found = absl::StrCat("'", std::string(text_.substr(at_, end - at_)), "'");
    }
    return ErrorAt(at_, absl::StrCat("expected ", std::string(wanted), ", found ", found));
  }

  static bool IsNamePart(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }

  absl::Status Push(Step step) {
    depth_ += IsPush(step.op) ? 1 : (IsBinary(step.op) ? -1 : 0);
    if (depth_ > kMaxStack) {
      return ErrorAt(at_, absl::StrCat("needs more than ", kMaxStack, " values on the stack"));
    }
    steps.push_back(step);
    return absl::OkStatus();
  }

  absl::Status Sum() {
    if (absl::Status status = Product(); !status.ok()) return status;
    while (true) {
      Op op;
      if (Take('+')) {
        op = Op::kAdd;
      } else if (Take('-')) {
        op = Op::kSubtract;
      } else {
        return absl::OkStatus();
      }
      if (absl::Status status = Product(); !status.ok()) return status;
      if (absl::Status status = Push({op}); !status.ok()) return status;
    }
  }

  absl::Status Product() {
    if (absl::Status status = Factor(); !status.ok()) return status;
    while (true) {
      const bool times = Take('*');
      if (!times && !Take('/')) return absl::OkStatus();
      if (absl::Status status = Factor(); !status.ok()) return status;
      Op op = times ? Op::kMultiply : Op::kDivide;
      // The last step of a factor is its outermost one, so this sees exactly `x / layer_mean(y)`.
      if (!times && steps.back().op == Op::kLayerMean) {
        steps.pop_back();
        op = Op::kDivideByLayerMean;
      }
      if (absl::Status status = Push({op}); !status.ok()) return status;
    }
  }

  absl::Status Factor() {
    bool negative = false;
    while (Take('-')) negative = !negative;
    if (absl::Status status = Primary(); !status.ok()) return status;
    return negative ? Push({Op::kNegate}) : absl::OkStatus();
  }

  absl::Status Primary() {
    SkipSpace();
    if (at_ >= text_.size()) return Unexpected("a value");
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      if (absl::Status status = Sum(); !status.ok()) return status;
      return Take(')') ? absl::OkStatus() : Unexpected("')'");
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.') return Number();
    if (IsNamePart(c)) return Name();
    return Unexpected("a value");
  }

  absl::Status Number() {
    float value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return Unexpected("a number that float32 can hold");
    at_ += static_cast<size_t>(end - begin);
    if (at_ < text_.size() && IsNamePart(text_[at_])) return Unexpected("an operator or the end");
    return Push({Op::kConstant, value});
  }

  absl::Status Name() {
    const size_t start = at_;
    while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    for (const Function& function : kFunctions) {
      if (function.name == name) return Call(function);
    }
    if (const auto measurement = FindMeasurement(name)) {
      measurements |= 1u << static_cast<int>(*measurement);
      return Push({Op::kMeasurement, 0, *measurement});
    }
    return ErrorAt(
        start, absl::StrCat("'", std::string(name), "' is neither a measurement nor a function"));
  }

  absl::Status Call(const Function& function) {
    if (!Take('(')) return Unexpected("'('");
    for (int i = 0; i < function.arguments; ++i) {
      if (i > 0 && !Take(',')) return Unexpected("','");
      if (absl::Status status = Sum(); !status.ok()) return status;
    }
    if (!Take(')')) return Unexpected("')'");
    return Push({function.op});
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

void ApplyLayerMean(float* values, int layers, int heads) {
  for (int layer = 0; layer < layers; ++layer, values += heads) {
    float sum = 0;
    for (int h = 0; h < heads; ++h) sum += values[h];
    std::fill_n(values, heads, sum / static_cast<float>(heads));
  }
}

float ApplyUnary(Op op, float x) {
  switch (op) {
    case Op::kNegate:
      return -x;
    case Op::kAbs:
      return std::fabs(x);
    case Op::kSqrt:
      return std::sqrt(x);
    default:
      return std::log(x);
  }
}

float ApplyBinary(Op op, float a, float b) {
  switch (op) {
    case Op::kAdd:
      return a + b;
    case Op::kSubtract:
      return a - b;
    case Op::kMultiply:
      return a * b;
    case Op::kDivide:
      return a / b;
    case Op::kDivideByLayerMean:
      return b == 0 ? 1.0f : a / b;
    default:
      break;
  }
  // min and max hand a NaN on, as tensors do, so that no comparison ever sees a head as inactive
  // because of one.
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  return op == Op::kMin ? std::min(a, b) : std::max(a, b);
}

}  // namespace

absl::StatusOr<Expression> Expression::Parse(std::string_view text) {
  if (text.size() > kMaxLength) {
    return absl::InvalidArgumentError(absl::StrCat(
        "formula: has ", text.size(), " characters, at most ", kMaxLength, " are allowed"));
  }
  Parser parser(text);
  if (absl::Status status = parser.Run(); !status.ok()) return status;
  Expression expression;
  expression.text_ = std::string(text);
  expression.steps_ = std::move(parser.steps);
  expression.measurements_ = parser.measurements;
  return expression;
}

void Expression::EvaluateLayers(std::span<const float* const> measurements, int layers, int heads,
                                std::span<float> out) const {
  if (steps_.empty()) return;
  const size_t n = static_cast<size_t>(layers) * static_cast<size_t>(heads);
  std::vector<std::vector<float>> stack;
  for (const Step& step : steps_) {
    if (step.op == Op::kConstant) {
      stack.emplace_back(n, step.constant);
    } else if (step.op == Op::kMeasurement) {
      const float* values = measurements[static_cast<size_t>(step.measurement)];
      stack.emplace_back(values, values + n);
    } else if (step.op == Op::kLayerMean) {
      ApplyLayerMean(stack.back().data(), layers, heads);
    } else if (IsBinary(step.op)) {
      std::vector<float> b = std::move(stack.back());
      stack.pop_back();
      std::vector<float>& a = stack.back();
      if (step.op == Op::kDivideByLayerMean) ApplyLayerMean(b.data(), layers, heads);
      for (size_t i = 0; i < n; ++i) a[i] = ApplyBinary(step.op, a[i], b[i]);
    } else {
      for (float& x : stack.back()) x = ApplyUnary(step.op, x);
    }
  }
  std::copy(stack.back().begin(), stack.back().end(), out.begin());
}

}  // namespace headcount::catalog
