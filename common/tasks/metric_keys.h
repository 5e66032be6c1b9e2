// The keys of a task file that say how a document is judged: metric_list, and for generate_until
// generation_kwargs and filter_list. Used by task_definition.cc. Errors as in yaml_reader.h.

#pragma once

#include <yaml-cpp/yaml.h>

#include "absl/status/status.h"
#include "common/tasks/task_definition.h"
#include "common/tasks/yaml_reader.h"

namespace headcount::tasks {

// Of what is judged by log-likelihoods: acc, acc_norm, perplexities.
absl::Status ParseLikelihoodMetrics(const YamlReader& reader, const YAML::Node& root,
                                    TaskDefinition* task);

// Of generate_until: exact_match by each filter, the stops and the number of new tokens.
absl::Status ParseGeneration(const YamlReader& reader, const YAML::Node& root,
                             TaskDefinition* task);

}  // namespace headcount::tasks
