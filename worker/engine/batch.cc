// See batch.h.

#include "worker/engine/batch.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "worker/engine/grouping.h"

namespace headcount::engine {
namespace {

// The group in parts of about equal size, each within the budget as far as its trunk allows.
std::vector<InputGroup> Cut(InputGroup group, int64_t max_tokens) {
  const int64_t room = std::max({max_tokens - group.trunk, max_tokens / 2, int64_t{1}});
  const int64_t own = group.tokens() - group.trunk;
  const int64_t parts = std::max<int64_t>(1, (own + room - 1) / room);
  std::vector<InputGroup> out;
  int64_t tokens = 0, done = 0;
  for (InputGroup::Input& input : group.inputs) {
    const int64_t more = input.length - group.trunk;
    // The next part begins where this one has its share, or has no room.
    const auto share = static_cast<int64_t>(out.size()) * own / parts;
    if (out.empty() || done >= share || tokens + more > room) {
      out.push_back({group.trunk, {}});
      tokens = 0;
    }
    out.back().inputs.push_back(std::move(input));
    tokens += more;
    done += more;
  }
  return out;
}

}  // namespace

std::vector<Batch> PlanBatches(const Unit& unit, int64_t max_tokens, const Sharing& sharing) {
  std::vector<int> all(unit.rows.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<Batch> batches;
  int64_t tokens = 0;
  for (InputGroup& group : GroupRows(unit, all, sharing)) {
    for (const InputGroup& part : Cut(std::move(group), max_tokens)) {
      const int64_t more = part.tokens();
      if (batches.empty() || tokens + more > max_tokens) {
        batches.emplace_back();
        tokens = 0;
      }
      tokens += more;
      for (const InputGroup::Input& input : part.inputs) {
        batches.back().insert(batches.back().end(), input.rows.begin(), input.rows.end());
      }
    }
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
