// See slabs.h.

#include "server/results/slabs.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"

namespace headcount::results {

namespace {

// The measurements that `expressions` are made of: bit m is measurement m.
unsigned MeasurementsOf(const std::vector<const catalog::Expression*>& expressions) {
  unsigned needed = 0;
  for (const catalog::Expression* expression : expressions) needed |= expression->measurements();
  return needed;
}

}  // namespace

absl::StatusOr<SlabRows> SlabRows::Open(const Slabs& slabs, int64_t rows, int layers, int heads,
                                        const std::vector<const catalog::Expression*>& expressions,
                                        const std::string& where) {
  SlabRows out;
  out.expressions_ = &expressions;
  out.layers_ = layers;
  out.heads_ = heads;
  const unsigned needed = MeasurementsOf(expressions);
  for (const v1::Slab& slab : slabs) {
    const auto measurement = catalog::FindMeasurement(slab.measurement());
    if (!measurement) continue;
    const auto m = static_cast<size_t>(*measurement);
    if ((needed >> m & 1) != 0) out.slabs_[m] = &slab;
  }
  const size_t per_row = static_cast<size_t>(layers) * static_cast<size_t>(heads);
  const size_t bytes = sizeof(float) * static_cast<size_t>(rows) * per_row;
  for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
    const auto m = static_cast<size_t>(info.measurement);
    if ((needed >> m & 1) == 0) continue;
    if (out.slabs_[m] == nullptr) {
      return WithReason(absl::FailedPreconditionError(
                            absl::StrCat(where, " holds no measurement '", std::string(info.id),
                                         "', which the score is made of")),
                        "MEASUREMENT_NOT_STORED");
    }
    if (out.slabs_[m]->values().size() != bytes) {
      return absl::DataLossError(absl::StrCat(where, ": slab '", std::string(info.id), "' has ",
                                              out.slabs_[m]->values().size(), " bytes, expected ",
                                              bytes));
    }
    out.values_[m].resize(per_row);
  }
  out.scores_.assign(expressions.size(), std::vector<float>(per_row));
  return out;
}

const std::vector<std::vector<float>>& SlabRows::ScoresOf(int64_t row) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(layers_) * static_cast<size_t>(heads_);
  std::array<const float*, catalog::kMeasurementCount> pointers{};
  for (size_t m = 0; m < slabs_.size(); ++m) {
    if (slabs_[m] == nullptr) continue;
    std::memcpy(values_[m].data(), slabs_[m]->values().data() + static_cast<size_t>(row) * bytes,
                bytes);
    pointers[m] = values_[m].data();
  }
  for (size_t e = 0; e < scores_.size(); ++e) {
    (*expressions_)[e]->EvaluateLayers(pointers, layers_, heads_, scores_[e]);
  }
  return scores_;
}

}  // namespace headcount::results
