// See batch.h.

#include "worker/engine/batch.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace headcount::engine {

std::vector<Batch> PlanBatches(std::span<const int64_t> lengths, int64_t max_tokens) {
  std::vector<int> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
  });
  std::vector<Batch> batches;
  int64_t tokens = 0;
  for (int row : order) {
    const int64_t length = lengths[static_cast<size_t>(row)];
    if (batches.empty() || tokens + length > max_tokens) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(row);
    tokens += length;
  }
  return batches;
}

absl::Status RunBatches(std::vector<Batch> batches, const CancelFlag& cancel,
                        const std::function<absl::Status(const Batch&)>& run,
                        const std::function<void()>& release, int& backoffs) {
  std::reverse(batches.begin(), batches.end());  // the next one is at the back
  while (!batches.empty()) {
    if (cancel.load()) return absl::CancelledError("cancelled between two batches");
    const Batch batch = std::move(batches.back());
    batches.pop_back();
    const absl::Status status = run(batch);
    if (status.ok()) continue;
    if (!absl::IsResourceExhausted(status) || batch.size() == 1) return status;
    release();
    ++backoffs;
    const auto middle = batch.begin() + static_cast<std::ptrdiff_t>((batch.size() + 1) / 2);
    batches.emplace_back(middle, batch.end());
    batches.emplace_back(batch.begin(), middle);
  }
  return absl::OkStatus();
}

}  // namespace headcount::engine
