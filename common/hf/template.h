// Jinja templates that turn a task's document into prompt text, rendered as lm-evaluation-harness
// does: undefined variables are errors, the trailing newline stays, nothing is HTML-escaped,
// Python's string methods work. Rendering is bounded, so a template can neither run forever nor
// fill the memory. Immutable: any number of threads may use one.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/hf/hf.h"

namespace headcount::hf {

struct TemplateLimits {
  uint64_t source_bytes = uint64_t{1} << 20;
  uint64_t fuel = 2'000'000;  // instructions, and 64-byte pieces of data that they create
  uint64_t output_bytes = uint64_t{4} << 20;
};

namespace internal {

// A parsed template of either dialect; TextTemplate and ChatTemplate stand on it.
class Template {
 public:
  // INVALID_ARGUMENT: a syntax error, with its line, or a source over the limit.
  static absl::StatusOr<Template> Parse(std::string_view source, HcHfDialect dialect,
                                        const TemplateLimits& limits);

  // Variables are the members of the object `json`. INVALID_ARGUMENT: the template failed;
  // RESOURCE_EXHAUSTED: a limit.
  absl::StatusOr<std::string> Render(std::string_view json, std::optional<int64_t> now) const;

 private:
  struct Free {
    void operator()(HcHfTemplate* tmpl) const;
  };
  explicit Template(HcHfTemplate* tmpl) : template_(tmpl) {}

  std::unique_ptr<HcHfTemplate, Free> template_;
};

}  // namespace internal

class TextTemplate {
 public:
  // INVALID_ARGUMENT: a syntax error, with its line.
  static absl::StatusOr<TextTemplate> Parse(std::string_view source,
                                            const TemplateLimits& limits = {});

  // The text for one document, a JSON object whose members are the template's variables.
  // INVALID_ARGUMENT: not an object, an undefined variable, an unknown filter or method;
  // RESOURCE_EXHAUSTED: fuel or output limit.
  absl::StatusOr<std::string> Render(std::string_view document_json) const;

 private:
  explicit TextTemplate(internal::Template tmpl) : template_(std::move(tmpl)) {}

  internal::Template template_;
};

}  // namespace headcount::hf
