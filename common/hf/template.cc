// Implementation of template.h over the Rust crate.

#include "common/hf/template.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/hf/ffi.h"

namespace headcount::hf {
namespace internal {

void Template::Free::operator()(HcHfTemplate* tmpl) const { hc_hf_template_free(tmpl); }

absl::StatusOr<Template> Template::Parse(std::string_view source, HcHfDialect dialect,
                                         const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "template has ", source.size(), " bytes, over the limit of ", limits.source_bytes));
  }
  HcHfTemplate* raw = nullptr;
  HcHfBytes error{};
  const HcHfCode code = hc_hf_template_new(Data(source), source.size(), dialect, limits.fuel,
                                           limits.output_bytes, &raw, &error);
  if (code != HC_HF_OK) return Annotate(TakeError(code, error), "template");
  return Template(raw);
}

absl::StatusOr<std::string> Template::Render(std::string_view json,
                                             std::optional<int64_t> now) const {
  HcHfBytes out{};
  HcHfBytes error{};
  const HcHfCode code = hc_hf_template_render(template_.get(), Data(json), json.size(),
                                              now.has_value() ? &*now : nullptr, &out, &error);
  if (code != HC_HF_OK) return Annotate(TakeError(code, error), "template");
  return Take(out);
}

}  // namespace internal

absl::StatusOr<TextTemplate> TextTemplate::Parse(std::string_view source,
                                                 const TemplateLimits& limits) {
  HC_ASSIGN_OR_RETURN(internal::Template parsed,
                      internal::Template::Parse(source, HC_HF_TASK, limits));
  return TextTemplate(std::move(parsed));
}

absl::StatusOr<std::string> TextTemplate::Render(std::string_view document_json) const {
  return template_.Render(document_json, std::nullopt);
}

}  // namespace headcount::hf
