// See job_store.h.

#include "server/store/job_store.h"

#include "common/base/errors.h"

namespace headcount::store {

std::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kPrepare:
      return "prepare";
    case Stage::kScore:
      return "score";
    case Stage::kAblate:
      return "ablate";
  }
  return "unknown";
}

absl::StatusOr<Stage> ParseStage(std::string_view name) {
  for (Stage stage : {Stage::kPrepare, Stage::kScore, Stage::kAblate}) {
    if (StageName(stage) == name) return stage;
  }
  return InvalidField("stage", name, "must be prepare, score or ablate");
}

}  // namespace headcount::store
