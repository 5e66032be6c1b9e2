// See examples.h.

#include "worker/eval/examples.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::eval {
namespace {

constexpr uint64_t kSeed = 1234;  // the harness' default

size_t RowsDrawn(const tasks::TaskDefinition& task, int shots) {
  return shots == 0 ? 0 : static_cast<size_t>(shots) + (task.spare_example ? 1 : 0);
}

}  // namespace

Examples::Examples(const tasks::TaskDefinition& task, const RowTemplates& templates,
                   std::vector<nlohmann::json> pool, int shots)
    : templates_(&templates),
      pool_(std::move(pool)),
      shots_(static_cast<size_t>(shots)),
      drawn_(RowsDrawn(task, shots)),
      sampler_(task.sampler),
      random_(kSeed) {}

absl::StatusOr<Examples> Examples::Make(const tasks::TaskDefinition& task,
                                        const RowTemplates& templates, const std::string& name,
                                        std::vector<nlohmann::json> pool, int shots) {
  const size_t rows = pool.size();
  Examples examples(task, templates, std::move(pool), shots);
  if (examples.drawn_ > rows) {
    return InvalidField(
        "num_fewshot", std::to_string(shots),
        absl::StrCat(name, " has only ", rows, " rows in split ", task.fewshot_split,
                     task.spare_example ? ", and one more than asked for is drawn" : ""));
  }
  return examples;
}

int64_t Examples::PoolRows(const tasks::TaskDefinition& task, int shots) {
  return task.sampler == tasks::Sampler::kFirstN ? static_cast<int64_t>(RowsDrawn(task, shots)) : 0;
}

absl::StatusOr<std::vector<const RowText*>> Examples::Draw(const nlohmann::json& row) {
  std::vector<size_t> indices(drawn_);
  if (sampler_ == tasks::Sampler::kFirstN) {
    std::iota(indices.begin(), indices.end(), size_t{0});
  } else if (drawn_ > 0) {
    indices = random_.Sample(pool_.size(), drawn_);
  }
  std::vector<const RowText*> chosen;
  for (const size_t index : indices) {
    if (chosen.size() == shots_) break;
    if (pool_[index] == row) continue;
    HC_ASSIGN_OR_RETURN(const RowText* example, At(index));
    chosen.push_back(example);
  }
  return chosen;
}

absl::StatusOr<const RowText*> Examples::At(size_t index) {
  const auto known = rendered_.find(index);
  if (known != rendered_.end()) return &known->second;
  HC_ASSIGN_OR_RETURN(RowText text,
                      templates_->Render(pool_[index], absl::StrCat("few-shot row ", index)));
  return &rendered_.emplace(index, std::move(text)).first->second;
}

}  // namespace headcount::eval
