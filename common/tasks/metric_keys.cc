// See metric_keys.h.

#include "common/tasks/metric_keys.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::tasks {
namespace {

// The entries of metric_list; empty where there is none.
absl::StatusOr<std::vector<YAML::Node>> Metrics(const YamlReader& reader, const YAML::Node& root,
                                                const std::vector<std::string>& allowed_keys) {
  std::vector<YAML::Node> entries;
  const YAML::Node list = root["metric_list"];
  if (!list.IsDefined()) return entries;
  if (!list.IsSequence() || list.size() == 0) {
    return reader.Error("metric_list", list, "must be a list of metrics");
  }
  for (const YAML::Node& entry : list) {
    if (!entry.IsMap()) return reader.Error("metric_list", entry, "must be a list of maps");
    HC_RETURN_IF_ERROR(reader.Keys(entry, "metric_list.", allowed_keys));
    std::string aggregation = "mean";
    HC_RETURN_IF_ERROR(reader.String(entry, "aggregation", &aggregation));
    if (aggregation != "mean") {
      return reader.NotServed("metric_list.aggregation", entry["aggregation"], "allowed: mean");
    }
    entries.push_back(entry);
  }
  return entries;
}

absl::Status ParseKwargs(const YamlReader& reader, const YAML::Node& root, TaskDefinition* task) {
  // What the harness takes without the key.
  task->until = {task->fewshot_delimiter};
  const YAML::Node kwargs = root["generation_kwargs"];
  if (!kwargs.IsDefined()) return absl::OkStatus();
  if (!kwargs.IsMap()) return reader.Error("generation_kwargs", kwargs, "must be a map");
  const std::vector<std::string> allowed = {"until", "do_sample", "temperature", "max_gen_toks"};
  HC_RETURN_IF_ERROR(reader.Keys(kwargs, "generation_kwargs.", allowed));
  task->until.clear();
  if (const YAML::Node until = kwargs["until"]; until.IsDefined() && until.IsScalar()) {
    std::string text;
    HC_RETURN_IF_ERROR(reader.String(kwargs, "until", &text));
    task->until = {text};
  } else {
    HC_RETURN_IF_ERROR(reader.Strings(kwargs, "until", &task->until));
  }
  for (const std::string& stop : task->until) {
    if (stop.empty()) {
      return reader.Error("generation_kwargs.until", kwargs["until"],
                          "must not hold an empty stop");
    }
  }
  bool sample = false;
  HC_RETURN_IF_ERROR(reader.Bool(kwargs, "do_sample", &sample));
  if (sample) {
    return reader.NotServed("generation_kwargs.do_sample", kwargs["do_sample"],
                            "only greedy generation is");
  }
  const YAML::Node temperature = kwargs["temperature"];
  double degree = 0;
  if (temperature.IsDefined() &&
      (!YAML::convert<double>::decode(temperature, degree) || degree != 0)) {
    return reader.NotServed("generation_kwargs.temperature", temperature, "allowed: 0");
  }
  return reader.Integer(kwargs, "max_gen_toks", 1, kMostNewTokens, &task->max_new_tokens);
}

absl::StatusOr<std::vector<AnswerFilter>> ParseSteps(const YamlReader& reader,
                                                     const YAML::Node& steps) {
  if (!steps.IsDefined() || !steps.IsSequence() || steps.size() == 0) {
    return reader.Error("filter_list.filter", steps, "must be a list of functions");
  }
  std::vector<AnswerFilter> filters;
  const std::vector<std::string> allowed = {"function", "regex_pattern", "group_select",
                                            "fallback"};
  for (const YAML::Node& step : steps) {
    if (!step.IsMap()) return reader.Error("filter_list.filter", step, "must be a list of maps");
    HC_RETURN_IF_ERROR(reader.Keys(step, "filter_list.filter.", allowed));
    std::string function;
    HC_RETURN_IF_ERROR(reader.String(step, "function", &function));
    AnswerFilter filter;
    if (function == "take_first") {
      continue;
    } else if (function == "lowercase") {
      filter.kind = AnswerFilter::Kind::kLowercase;
    } else if (function == "uppercase") {
      filter.kind = AnswerFilter::Kind::kUppercase;
    } else if (function == "remove_whitespace") {
      filter.kind = AnswerFilter::Kind::kRemoveWhitespace;
    } else if (function != "regex") {
      return reader.NotServed(
          "filter_list.filter.function", step["function"],
          "allowed: regex, take_first, lowercase, uppercase, remove_whitespace");
    }
    if (filter.kind == AnswerFilter::Kind::kRegex) {
      filter.pattern = "#### (\\-?[0-9\\.\\,]+)";  // the harness' own default
      HC_RETURN_IF_ERROR(reader.String(step, "regex_pattern", &filter.pattern));
      HC_RETURN_IF_ERROR(reader.String(step, "fallback", &filter.fallback));
      HC_RETURN_IF_ERROR(reader.Integer(step, "group_select", -1000, 1000, &filter.group_select));
    }
    filters.push_back(std::move(filter));
  }
  return filters;
}

// name -> steps, in the file's order; one called "none" where there is no filter_list.
absl::StatusOr<std::vector<AnswerMetric>> ParseFilters(const YamlReader& reader,
                                                       const YAML::Node& root) {
  std::vector<AnswerMetric> named;
  const YAML::Node list = root["filter_list"];
  if (!list.IsDefined()) {
    named.emplace_back().name = "none";
    return named;
  }
  if (!list.IsSequence() || list.size() == 0) {
    return reader.Error("filter_list", list, "must be a list of filters");
  }
  const std::vector<std::string> allowed = {"name", "filter"};
  for (const YAML::Node& entry : list) {
    if (!entry.IsMap()) return reader.Error("filter_list", entry, "must be a list of maps");
    HC_RETURN_IF_ERROR(reader.Keys(entry, "filter_list.", allowed));
    AnswerMetric& metric = named.emplace_back();
    HC_RETURN_IF_ERROR(reader.String(entry, "name", &metric.name));
    if (metric.name.empty()) return reader.Error("filter_list.name", entry["name"], "is required");
    HC_ASSIGN_OR_RETURN(metric.filters, ParseSteps(reader, entry["filter"]));
  }
  return named;
}

std::vector<std::string> MetricsOf(OutputType type) {
  switch (type) {
    case OutputType::kLoglikelihood:
      return {"perplexity", "acc"};
    case OutputType::kLoglikelihoodRolling:
      return {"word_perplexity", "byte_perplexity", "bits_per_byte"};
    default:
      return {"acc", "acc_norm"};
  }
}

}  // namespace

absl::Status ParseLikelihoodMetrics(const YamlReader& reader, const YAML::Node& root,
                                    TaskDefinition* task) {
  for (const char* key : {"generation_kwargs", "filter_list"}) {
    if (root[key].IsDefined()) {
      return reader.NotServed(key, root[key], "only generate_until has it; leave the key out");
    }
  }
  const std::vector<std::string> allowed = MetricsOf(task->output_type);
  HC_ASSIGN_OR_RETURN(const std::vector<YAML::Node> entries,
                      Metrics(reader, root, {"metric", "aggregation", "higher_is_better"}));
  for (const YAML::Node& entry : entries) {
    std::string metric;
    HC_RETURN_IF_ERROR(reader.String(entry, "metric", &metric));
    if (!Contains(allowed, metric)) {
      return reader.NotServed("metric_list.metric", entry["metric"],
                              "allowed: " + absl::StrJoin(allowed, ", "));
    }
    if (!Contains(task->metrics, metric)) task->metrics.push_back(metric);
  }
  if (!task->metrics.empty()) return absl::OkStatus();
  task->metrics =
      task->output_type == OutputType::kMultipleChoice ? std::vector<std::string>{"acc"} : allowed;
  return absl::OkStatus();
}

absl::Status ParseGeneration(const YamlReader& reader, const YAML::Node& root,
                             TaskDefinition* task) {
  HC_RETURN_IF_ERROR(ParseKwargs(reader, root, task));
  HC_ASSIGN_OR_RETURN(std::vector<AnswerMetric> metrics, ParseFilters(reader, root));
  HC_ASSIGN_OR_RETURN(const std::vector<YAML::Node> entries,
                      Metrics(reader, root,
                              {"metric", "aggregation", "higher_is_better", "ignore_case",
                               "ignore_punctuation", "ignore_numbers", "regexes_to_ignore"}));
  AnswerMetric rules;
  for (const YAML::Node& entry : entries) {
    std::string metric;
    HC_RETURN_IF_ERROR(reader.String(entry, "metric", &metric));
    if (metric != "exact_match" || entries.size() > 1) {
      return reader.NotServed("metric_list.metric", entry["metric"], "allowed: exact_match, once");
    }
    HC_RETURN_IF_ERROR(reader.Bool(entry, "ignore_case", &rules.ignore_case));
    HC_RETURN_IF_ERROR(reader.Bool(entry, "ignore_punctuation", &rules.ignore_punctuation));
    HC_RETURN_IF_ERROR(reader.Bool(entry, "ignore_numbers", &rules.ignore_numbers));
    HC_RETURN_IF_ERROR(reader.Strings(entry, "regexes_to_ignore", &rules.regexes_to_ignore));
  }
  for (AnswerMetric& metric : metrics) {
    metric.name = "exact_match," + metric.name;
    metric.regexes_to_ignore = rules.regexes_to_ignore;
    metric.ignore_case = rules.ignore_case;
    metric.ignore_punctuation = rules.ignore_punctuation;
    metric.ignore_numbers = rules.ignore_numbers;
    if (Contains(task->metrics, metric.name)) {
      return reader.Error("filter_list.name", root["filter_list"], "names a filter twice");
    }
    if (const auto judge = AnswerJudge::Make(metric); !judge.ok()) {
      return reader.Error("filter_list", root["filter_list"],
                          std::string(judge.status().message()));
    }
    task->metrics.push_back(metric.name);
    task->answer_metrics.push_back(std::move(metric));
  }
  return absl::OkStatus();
}

}  // namespace headcount::tasks
