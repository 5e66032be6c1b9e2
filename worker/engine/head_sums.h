// Adds up head outputs over the rows of a unit for mean ablation. Used by one thread; no errors.

#pragma once

#include <span>
#include <vector>

#include "worker/engine/engine.h"
#include "worker/engine/instrument.h"

namespace headcount::engine {

// Sums in float64, row by row, leaving out rows that are not finite: one of them would spoil every
// mean.
class HeadSumsBuilder {
 public:
  void Add(const BatchHeadSums& batch, std::span<const int64_t> lengths,
           std::span<RowResult* const> results);
  HeadSums Build() const;

 private:
  std::vector<double> rest_;
  std::vector<double> first_;
  int64_t rest_count_ = 0;
  int64_t first_count_ = 0;
};

}  // namespace headcount::engine
