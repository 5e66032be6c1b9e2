// A sweep, over one model and task or over several. See spec_checks.h.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"
#include "server/plan/spec_checks.h"
#include "server/results/sweep_children.h"

namespace headcount::plan {
namespace {

constexpr int kMostChildren = 64;

absl::Status CheckControls(const v1::SweepSpec& spec, bool generates) {
  std::set<int> seen;
  for (int i = 0; i < spec.controls_size(); ++i) {
    const std::string at = absl::StrCat("sweep.controls[", i, "]");
    const int control = spec.controls(i);
    if (!v1::Control_IsValid(control) || control == v1::CONTROL_UNSPECIFIED) {
      return InvalidField(at, absl::StrCat(control), "is not a control");
    }
    if (!seen.insert(control).second) {
      return InvalidField(at, v1::Control_Name(spec.controls(i)), "is in the list already");
    }
    // Generated texts differ in length, and their masks by token.
    if (control == v1::CONTROL_SHUFFLED && generates) return UnimplementedField(at);
  }
  return absl::OkStatus();
}

// The split that is read, by name.
absl::StatusOr<std::string> SplitOf(const v1::TaskSource& task, const ValidationContext& context) {
  if (!task.split().empty()) return task.split();
  HC_ASSIGN_OR_RETURN(const TaskFacts facts, context.catalog.FindTask(task.task(), ""));
  return facts.definition->test_split;
}

// A path in the place of a workload's own.
absl::Status At(const absl::Status& status, const std::string& path) {
  return status.ok() ? status : WithField(Annotate(status, path), path);
}

// Where the thresholds come from, on a model of the sweep.
absl::Status CheckCalibration(const v1::SweepSpec& spec, const std::string& model,
                              const ValidationContext& context) {
  constexpr char kPath[] = "sweep.calibrate_on";
  if (results::NamesJob(spec.calibrate_on())) {
    return CheckNamedScoreJob(spec.calibrate_on(), kPath, model, context);
  }
  v1::Workload calibration = results::CalibrationWorkload(spec.workload(), spec.calibrate_on());
  calibration.set_model(model);
  HC_RETURN_IF_ERROR(
      At(CheckWorkload(calibration, "sweep.workload", /*answers=*/false, context).status(), kPath));
  HC_ASSIGN_OR_RETURN(const std::string split, SplitOf(calibration.task(), context));
  std::vector<v1::TaskSource> evaluated(spec.tasks().begin(), spec.tasks().end());
  if (spec.workload().has_task()) evaluated.push_back(spec.workload().task());
  for (const v1::TaskSource& task : evaluated) {
    if (task.task() != calibration.task().task()) continue;
    HC_ASSIGN_OR_RETURN(const std::string other, SplitOf(task, context));
    if (other == split) {
      return InvalidField(kPath, spec.calibrate_on(),
                          "must not be what the sweep itself evaluates; with transfer each task "
                          "gets the thresholds of every other");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTransfer(const v1::SweepSpec& spec, const UserScores& scores) {
  if (!spec.transfer()) return absl::OkStatus();
  if (spec.tasks().empty()) {
    return InvalidField("sweep.transfer", "true", "must have `tasks` to transfer between");
  }
  if (!spec.calibrate_on().empty()) {
    return InvalidField("sweep.transfer", "true",
                        "must not stand beside calibrate_on: each task calibrates the others");
  }
  for (int i = 0; i < spec.scores_size(); ++i) {
    HC_ASSIGN_OR_RETURN(const catalog::Score* score,
                        scores.Find(spec.scores(i), absl::StrCat("sweep.scores[", i, "]")));
    if (!score->is_random()) return absl::OkStatus();
  }
  return InvalidField("sweep.transfer", "true", "must have a score with thresholds to transfer");
}

absl::Status CheckModels(const v1::SweepSpec& spec) {
  std::set<std::string> seen = {spec.workload().model()};
  for (int i = 0; i < spec.models_size(); ++i) {
    if (!seen.insert(spec.models(i)).second) {
      return InvalidField(absl::StrCat("sweep.models[", i, "]"), spec.models(i),
                          "names a model that the sweep has already");
    }
  }
  return absl::OkStatus();
}

// Every model on every task: what their shapes and tasks allow.
absl::Status CheckSides(const v1::SweepSpec& spec, const ValidationContext& context) {
  bool generates = false;
  for (int m = -1; m < spec.models_size(); ++m) {
    for (int t = -1; t < spec.tasks_size(); ++t) {
      v1::Workload side = spec.workload();
      std::string path = "sweep.workload";
      if (t >= 0) {
        *side.mutable_task() = spec.tasks(t);
        path = absl::StrCat("sweep.tasks[", t, "]");
      }
      if (m >= 0) {
        side.set_model(spec.models(m));
        path = absl::StrCat("sweep.models[", m, "]");
      }
      const absl::StatusOr<ModelShape> shape =
          CheckWorkload(side, "sweep.workload", /*answers=*/true, context);
      const bool first = m < 0 && t < 0;
      if (!shape.ok()) return first ? shape.status() : At(shape.status(), path);
      if (shape->reads_its_answer) return OnlineRule(first ? path + ".task" : path);
      HC_RETURN_IF_ERROR(CheckLayers(spec.layers(), "sweep.layers", *shape));
      generates = generates || shape->generates;
    }
    if (!spec.calibrate_on().empty()) {
      HC_RETURN_IF_ERROR(
          CheckCalibration(spec, m < 0 ? spec.workload().model() : spec.models(m), context));
    }
  }
  ModelShape any;
  any.generates = generates;
  HC_RETURN_IF_ERROR(CheckControls(spec, generates));
  return CheckMaskUpdate(spec.mask_update(), "sweep.mask_update", any);
}

}  // namespace

absl::Status CheckSweepJob(const v1::SweepSpec& spec, const ValidationContext& context) {
  HC_RETURN_IF_ERROR(CheckIntervention(spec.intervention(), "sweep.intervention"));
  if (!spec.intervention().mean().empty()) {
    return InvalidField("sweep.intervention.mean", spec.intervention().mean(),
                        "must be empty: a sweep takes the means of its own score stage");
  }
  HC_RETURN_IF_ERROR(CheckUnit(spec.unit(), "sweep.unit"));
  HC_RETURN_IF_ERROR(
      CheckGroupScore(spec.group_score(), spec.unit(), /*scored=*/true, "sweep.group_score"));
  HC_RETURN_IF_ERROR(CheckDecideOn(spec.decide_on(), "sweep.decide_on"));
  HC_RETURN_IF_ERROR(CheckTokens(spec.tokens(), "sweep.tokens"));

  HC_ASSIGN_OR_RETURN(const UserScores scores,
                      UserScores::Make(spec.user_scores(), "sweep.user_scores"));
  HC_RETURN_IF_ERROR(CheckScores(spec.scores(), "sweep.scores", scores));
  HC_ASSIGN_OR_RETURN(const int fractions, CheckFractions(spec.fractions(), "sweep.fractions"));
  if (const int rules = fractions * spec.scores_size() * (1 + spec.controls_size());
      rules > context.limits.max_rules) {
    return InvalidField("sweep.fractions", absl::StrCat(rules, " rules"),
                        absl::StrCat("scores x fractions, and as many again for each control, must "
                                     "be at most ",
                                     context.limits.max_rules, " rules"));
  }
  if (const int64_t children = results::CountChildren(spec); children > kMostChildren) {
    return InvalidField(
        spec.models().empty() ? "sweep.tasks" : "sweep.models", absl::StrCat(children, " jobs"),
        absl::StrCat("models x tasks, with those of calibrate_on and transfer, must "
                     "be at most ",
                     kMostChildren, " jobs"));
  }
  HC_RETURN_IF_ERROR(CheckModels(spec));
  HC_RETURN_IF_ERROR(CheckTransfer(spec, scores));
  return CheckSides(spec, context);
}

}  // namespace headcount::plan
