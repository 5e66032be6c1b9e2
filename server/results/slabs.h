// Scores of one row of a chunk, from the slabs of base measurements that it holds. Slabs that the
// scores do not need are skipped, known or not.
//
// Not thread-safe. Errors of Open: FAILED_PRECONDITION (MEASUREMENT_NOT_STORED) where a slab that a
// score needs is missing, DATA_LOSS where one has the wrong size; `where` names the chunk in both.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/expression.h"
#include "common/catalog/measurements.h"
#include "headcount/v1/storage.pb.h"

namespace headcount::results {

using Slabs = google::protobuf::RepeatedPtrField<v1::Slab>;

class SlabRows {
 public:
  // Of `rows` x `layers` x `heads` values each. `slabs` and `expressions` must outlive it.
  static absl::StatusOr<SlabRows> Open(const Slabs& slabs, int64_t rows, int layers, int heads,
                                       const std::vector<const catalog::Expression*>& expressions,
                                       const std::string& where);

  // One a requested expression, [layer][head]; valid until the next call.
  const std::vector<std::vector<float>>& ScoresOf(int64_t row);

 private:
  SlabRows() = default;

  const std::vector<const catalog::Expression*>* expressions_ = nullptr;
  int layers_ = 0;
  int heads_ = 0;
  std::array<const v1::Slab*, catalog::kMeasurementCount> slabs_{};    // null where none is needed
  std::array<std::vector<float>, catalog::kMeasurementCount> values_;  // of one row, aligned
  std::vector<std::vector<float>> scores_;
};

}  // namespace headcount::results
