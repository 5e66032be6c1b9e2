// What two runs of one job differ in: what they depend on (provenance), and their stored rows. For
// `headcount rerun`. Pure; not thread-safe.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headcount/v1/job.pb.h"
#include "headcount/v1/result_service.pb.h"

namespace headcount::cli {

struct FieldDifference {
  std::string field;  // of v1::Provenance
  std::string then;
  std::string now;
};

// Every field of the provenance that is not the same, in the contract's order; `reused` is left
// out: it says who computed the rows, not what they depend on.
std::vector<FieldDifference> DifferencesOf(const v1::Provenance& then, const v1::Provenance& now);

// Counts over pairs of rows of the same rule and sample.
class RowDifferences {
 public:
  void Add(const v1::SampleRecord& then, const v1::SampleRecord& now);

  int64_t rows() const { return rows_; }
  int64_t identical() const { return identical_; }  // to the last bit
  int64_t masks() const { return masks_; }          // rows whose zeroed heads differ
  int64_t answers() const { return answers_; }      // rows right in one run and wrong in the other
  int64_t texts() const { return texts_; }          // rows whose generated tokens differ
  // Of the log-likelihoods, in nats; infinity where one is not finite or one is missing.
  double largest_difference() const { return largest_difference_; }
  // The row of the largest difference, or else the first that is not identical; empty: none.
  const std::string& where() const { return where_; }

 private:
  int64_t rows_ = 0;
  int64_t identical_ = 0;
  int64_t masks_ = 0;
  int64_t answers_ = 0;
  int64_t texts_ = 0;
  double largest_difference_ = 0;
  std::string where_;
};

}  // namespace headcount::cli
