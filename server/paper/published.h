// The curves that arXiv 2504.03889 published for 14 models on MMLU, and what this service's own
// analysis makes of their points: areas, shares within a margin, table 2, ranks, and how far two
// models agree. GetPublished answers with it, so that a user sees the paper's numbers beside their
// own.
//
// published.json holds numbers alone: for each model the points [threshold, % of heads zeroed,
// accuracy %] of every curve, the thresholds of three tasks, and the areas and table entries as
// published, which only tests read. It is compiled into the program.
//
// Thread-safe. Errors: NOT_FOUND (MODEL_NOT_PUBLISHED) naming the models there are,
// INVALID_ARGUMENT for a margin that is not from 0 to 100.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "headcount/v1/result_service.pb.h"

namespace headcount::paper {

absl::StatusOr<v1::Published> GetPublished(const v1::GetPublishedRequest& request);

// The published name of a model as a catalogue or the hub calls it ("meta-llama/Llama-3.1-8B",
// "Llama-3.1-8B"); empty where the paper has no curves of it.
std::string PublishedName(std::string_view model);

}  // namespace headcount::paper
