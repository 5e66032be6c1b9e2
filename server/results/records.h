// From the rows of a chunk to documents: the samples of a document are put together, its choice is
// decided or its text judged, its share of zeroed heads averaged. Unit counts, curves and sample
// records all stand on these outcomes, so they cannot disagree. Pure functions, thread-safe.
//
// Errors: INVALID_ARGUMENT naming the field, its value and what was expected; INTERNAL where a
// block splits a document.

#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "headcount/v1/storage.pb.h"
#include "server/results/decide.h"

namespace headcount::results {

// A document under one rule.
struct DocumentOutcome {
  Decision decision;
  double share_zeroed = 0;         // mean over its samples, layers and query heads, [0, 1]
  double gold_log_likelihood = 0;  // nats; NaN where there is no gold or it is not finite
};

// The share of `heads` (layers x query heads) that a mask zeroes, [0, 1]; an empty mask zeroes
// none.
double ShareZeroed(const std::string& mask, int64_t heads);
// Of a row: of its mask, or where a prompt was continued the mean over the steps.
double ShareZeroed(const v1::Manifest& manifest, const v1::SampleResult& row, int64_t heads);

// One outcome a document of samples [first_sample, first_sample + samples), in order.
// `result(i)` is the result of sample first_sample + i; `heads` is layers x query heads.
absl::Status ForEachDocument(
    const v1::Manifest& manifest, int64_t first_sample, int samples, int64_t heads,
    const std::function<const v1::SampleResult&(int)>& result,
    const std::function<void(int64_t document, const DocumentOutcome&)>& visit);

// Checks one row against its sample: as many log-likelihoods as the sample scores choices, a mask
// of the right size (none in score chunks) without bits beyond its end.
absl::Status CheckRow(const v1::ManifestSample& sample, const v1::SampleResult& result,
                      int64_t heads, bool with_mask);

// Checks what a row says of the text that it generated.
absl::Status CheckGenerated(const v1::Generation& generation, const v1::ManifestSample& sample,
                            const v1::SampleResult& result);

// Checks that the block lies in the manifest and holds whole documents.
absl::Status CheckBlock(const v1::Manifest& manifest, int64_t first_sample, int samples);

}  // namespace headcount::results
