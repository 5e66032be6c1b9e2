// `headcount submit score | ablate | sweep | paper | frontier | compare | knockout | probe`: makes
// the spec from flags, creates the job, and may watch it.

#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/rule_text.h"
#include "client/cli/watch.h"
#include "client/cli/workload_flags.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/catalog/scores.h"

namespace headcount::cli {
namespace {

struct SubmitFlags {
  WorkloadFlags workload;
  LayerFlags layers;
  std::string request_id;
  std::vector<std::string> labels;
  int priority = 0;
  bool validate_only = false;
  bool watch = false;
  // ablate and sweep
  std::string intervention;
  std::string unit;
  std::string group_score;
  std::vector<std::string> user_scores;
  // ablate
  std::vector<std::string> rules;
  std::string score_job;
  // sweep
  std::vector<std::string> scores;
  std::vector<double> fractions;
  uint64_t random_seed = 0;
  // frontier
  double margin_points = 1;
  double alpha = .05;
  bool any_order = false;
  bool population = false;
  uint64_t seed = 0;
  // compare
  std::vector<std::string> models;
  std::vector<std::string> tasks;
  bool consecutive = false;
  // a sweep over several models and tasks; models and tasks are those of compare
  std::string calibrate_on;
  std::string calibrate_on_job;
  bool transfer = false;
  std::string mask_update;            // ablate and sweep
  std::vector<std::string> controls;  // sweep
  uint64_t control_seed = 0;
  int next_tokens = 0;  // probe
};

v1::MaskUpdate MaskUpdateOf(const std::string& text) {
  if (text == "every-step") return v1::MASK_UPDATE_EVERY_STEP;
  if (text == "prompt-once") return v1::MASK_UPDATE_PROMPT_ONCE;
  return v1::MASK_UPDATE_UNSPECIFIED;
}

void AddMaskUpdate(CLI::App* command, SubmitFlags& flags) {
  command
      ->add_option("--mask-update", flags.mask_update,
                   "of a task that generates: decide anew at every step (the default), or once on "
                   "the prompt")
      ->check(CLI::IsMember({"every-step", "prompt-once"}));
}

void AddCommonFlags(CLI::App* command, SubmitFlags& flags) {
  flags.workload.AddTo(command);
  command->add_option("--label", flags.labels, "key=value, may be repeated");
  command->add_option("--priority", flags.priority, "-100 to 100, higher first")
      ->capture_default_str();
  command->add_option("--request-id", flags.request_id,
                      "the same id and flags give the same job (default: a new one)");
  command->add_flag("--validate-only", flags.validate_only, "check everything, store nothing");
  command->add_flag("--watch", flags.watch, "stay and follow the job");
}

// What says which heads a rule may change, and to what.
void AddRuleFlags(CLI::App* command, SubmitFlags& flags) {
  flags.layers.AddTo(command);
  command->add_option("--intervention", flags.intervention,
                      "what inactive heads become: zero (default), first_value, scale=A or "
                      "mean=JOB, of that score job (in a sweep mean, of its own)");
  command
      ->add_option("--unit", flags.unit,
                   "what is decided about: query_head (default), or kv_group: all query heads of "
                   "a KV head together")
      ->check(CLI::IsMember({"query_head", "kv_group"}));
  command
      ->add_option("--group-score", flags.group_score,
                   "score of a KV group: mean (default), max or min of its query heads'")
      ->check(CLI::IsMember({"mean", "max", "min"}));
  command->add_option("--user-score", flags.user_scores, kUserScoreHelp);
}

CLI::Option* AddRuleList(CLI::App* command, SubmitFlags& flags) {
  command->add_option("--score-job", flags.score_job, "job whose scores fractions are taken from");
  return command->add_option(
      "--rule", flags.rules,
      "SCORE<VALUE, SCORE>VALUE, SCORE@FRACTION, SCORE:top=K, heads=L.H,L.H, heads=@FILE, "
      "random=P[,seed=N]; NAME := any of these, and over names \"A and B\", \"A or "
      "B\", \"A and not B\", random_in_layer(A)[,seed=N]; of another job "
      "static_heads(JOB:RULE), shuffled(JOB:RULE)[,seed=N]; may be repeated "
      "(docs/rules.md)");
}

absl::Status AddLabels(const SubmitFlags& flags, v1::Job* job) {
  for (const std::string& label : flags.labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos) return InvalidField("--label", label, "must be key=value");
    (*job->mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return absl::OkStatus();
}

void Submit(Context& context, const SubmitFlags& flags, v1::Job job) {
  job.set_priority(flags.priority);
  if (const absl::Status status = AddLabels(flags, &job); !status.ok()) return context.Fail(status);
  v1::CreateJobRequest request;
  request.set_parent(absl::StrCat("projects/", context.project));
  *request.mutable_job() = std::move(job);
  request.set_request_id(flags.request_id.empty() ? IdGenerator::System().Uuid()
                                                  : flags.request_id);
  request.set_validate_only(flags.validate_only);
  v1::Job created;
  const absl::Status status =
      context.Call(context.jobs(), &v1::JobService::Stub::CreateJob, request, &created);
  if (!status.ok()) return context.Fail(status);
  if (context.json) {
    context.PrintJson(created);
  } else if (flags.validate_only) {
    std::printf("valid; nothing was stored\n");
  } else {
    const std::string name = Context::ShortName(created.name());
    std::printf("%s\n", name.c_str());
    if (!flags.watch) std::fprintf(stderr, "follow it with: headcount watch %s\n", name.c_str());
    std::fflush(stdout);
  }
  if (flags.watch && !flags.validate_only) Watch(context, created.name(), {});
}

// Nothing is set where the flag is not.
absl::StatusOr<v1::Intervention> InterventionOf(const Context& context, const SubmitFlags& flags) {
  if (flags.intervention.empty()) return v1::Intervention();
  return ParseIntervention(flags.intervention,
                           [&](const std::string& job) { return context.JobName(job); });
}

v1::Unit UnitOf(const SubmitFlags& flags) {
  return flags.unit == "kv_group" ? v1::UNIT_KV_GROUP : v1::UNIT_UNSPECIFIED;
}

v1::GroupScore GroupScoreOf(const SubmitFlags& flags) {
  if (flags.group_score == "mean") return v1::GROUP_SCORE_MEAN;
  if (flags.group_score == "max") return v1::GROUP_SCORE_MAX;
  if (flags.group_score == "min") return v1::GROUP_SCORE_MIN;
  return v1::GROUP_SCORE_UNSPECIFIED;
}

absl::StatusOr<v1::Job> ScoreJob(const SubmitFlags& flags) {
  v1::Job job;
  HC_ASSIGN_OR_RETURN(*job.mutable_score()->mutable_workload(), flags.workload.ToWorkload());
  return job;
}

// Of an AblateSpec or a ProbeSpec.
template <typename Spec>
absl::Status AddRules(const Context& context, const SubmitFlags& flags, Spec* spec) {
  HC_ASSIGN_OR_RETURN(const v1::LayerSelection layers, flags.layers.ToLayers());
  HC_ASSIGN_OR_RETURN(const v1::Intervention intervention, InterventionOf(context, flags));
  for (const std::string& text : flags.user_scores) {
    HC_ASSIGN_OR_RETURN(*spec->add_user_scores(), ParseUserScore(text));
  }
  const std::vector<v1::UserScore> user_scores(spec->user_scores().begin(),
                                               spec->user_scores().end());
  for (const std::string& text : flags.rules) {
    HC_ASSIGN_OR_RETURN(
        v1::Rule rule,
        ParseRule(
            text, flags.score_job.empty() ? "" : context.JobName(flags.score_job),
            [&](const std::string& job) { return context.JobName(job); }, user_scores));
    const bool takes_layers = !rule.has_shuffled() && !rule.has_static_heads();
    if (takes_layers && layers.include_size() + layers.exclude_size() > 0) {
      *rule.mutable_layers() = layers;
    }
    if (intervention.ByteSizeLong() > 0) *rule.mutable_intervention() = intervention;
    // Expressions have the units of their rules.
    const bool takes_unit = rule.select_case() != v1::Rule::kExpression && !rule.has_shuffled() &&
                            !rule.has_static_heads();
    if (takes_unit) rule.set_unit(UnitOf(flags));
    if (rule.has_threshold()) rule.set_group_score(GroupScoreOf(flags));
    rule.set_mask_update(MaskUpdateOf(flags.mask_update));
    *spec->add_rules() = std::move(rule);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> AblateJob(const Context& context, const SubmitFlags& flags) {
  v1::Job job;
  HC_ASSIGN_OR_RETURN(*job.mutable_ablate()->mutable_workload(), flags.workload.ToWorkload());
  HC_RETURN_IF_ERROR(AddRules(context, flags, job.mutable_ablate()));
  return job;
}

absl::StatusOr<v1::Job> ProbeJob(const Context& context, const SubmitFlags& flags) {
  v1::Job job;
  HC_ASSIGN_OR_RETURN(*job.mutable_probe()->mutable_workload(), flags.workload.ToWorkload());
  job.mutable_probe()->set_next_tokens(flags.next_tokens);
  HC_RETURN_IF_ERROR(AddRules(context, flags, job.mutable_probe()));
  return job;
}

template <typename Spec>
void AddScores(const SubmitFlags& flags, Spec* spec) {
  for (const std::string& score : flags.scores) {
    if (score == "all") {
      for (const catalog::Score& each : catalog::Scores()) spec->add_scores(each.id);
    } else {
      spec->add_scores(score);
    }
  }
}

// The tasks beside the workload's own, in its form. A limit of new tokens is then for those that
// generate.
absl::Status AddTasks(Context& context, const std::vector<std::string>& tasks,
                      v1::Workload* workload,
                      google::protobuf::RepeatedPtrField<v1::TaskSource>* out) {
  if (tasks.empty()) return absl::OkStatus();
  std::set<std::string> generating;
  if (workload->task().max_new_tokens() != 0) {
    v1::ListTasksResponse known;
    HC_RETURN_IF_ERROR(context.Call(context.catalog(), &v1::CatalogService::Stub::ListTasks,
                                    v1::ListTasksRequest(), &known));
    for (const auto& task : known.tasks()) {
      if (task.output_type() == "generate_until") generating.insert(task.task());
    }
  }
  for (const std::string& task : tasks) {
    v1::TaskSource* source = out->Add();
    *source = workload->task();
    source->set_task(task);
    source->clear_subtasks();
    if (!generating.contains(task)) source->clear_max_new_tokens();
  }
  if (!generating.contains(workload->task().task())) {
    workload->mutable_task()->clear_max_new_tokens();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> SweepJob(Context& context, const SubmitFlags& flags) {
  v1::Job job;
  v1::SweepSpec* sweep = job.mutable_sweep();
  HC_ASSIGN_OR_RETURN(*sweep->mutable_workload(), flags.workload.ToWorkload());
  AddScores(flags, sweep);
  for (const std::string& text : flags.user_scores) {
    HC_ASSIGN_OR_RETURN(*sweep->add_user_scores(), ParseUserScore(text));
  }
  for (double fraction : flags.fractions) sweep->add_fractions(fraction);
  sweep->set_random_seed(flags.random_seed);
  sweep->set_mask_update(MaskUpdateOf(flags.mask_update));
  for (const std::string& control : flags.controls) {
    sweep->add_controls(control == "shuffled"       ? v1::CONTROL_SHUFFLED
                        : control == "static_heads" ? v1::CONTROL_STATIC_HEADS
                                                    : v1::CONTROL_RANDOM_IN_LAYER);
  }
  sweep->set_control_seed(flags.control_seed);
  HC_ASSIGN_OR_RETURN(const v1::LayerSelection layers, flags.layers.ToLayers());
  if (layers.include_size() + layers.exclude_size() > 0) *sweep->mutable_layers() = layers;
  HC_ASSIGN_OR_RETURN(const v1::Intervention intervention, InterventionOf(context, flags));
  if (intervention.ByteSizeLong() > 0) *sweep->mutable_intervention() = intervention;
  sweep->set_unit(UnitOf(flags));
  sweep->set_group_score(GroupScoreOf(flags));
  for (const std::string& model : flags.models) sweep->add_models(model);
  HC_RETURN_IF_ERROR(
      AddTasks(context, flags.tasks, sweep->mutable_workload(), sweep->mutable_tasks()));
  sweep->set_calibrate_on(flags.calibrate_on_job.empty() ? flags.calibrate_on
                                                         : context.JobName(flags.calibrate_on_job));
  sweep->set_transfer(flags.transfer);
  return job;
}

// The paper's grid: every score and share, on its four tasks.
absl::StatusOr<v1::Job> PaperJob(Context& context, SubmitFlags flags) {
  if (flags.workload.task.empty() && flags.workload.requests.empty()) {
    flags.workload.task = "mmlu";
    flags.tasks = {"piqa", "winogrande", "gsm8k"};
  }
  flags.scores = {"all"};
  return SweepJob(context, flags);
}

// Which parts of the grid the paper has values for.
void TellPublished(Context& context, const std::string& model) {
  v1::GetPublishedRequest request;
  request.set_model(model);
  v1::Published answer;
  const absl::Status status =
      context.Call(context.results(), &v1::ResultService::Stub::GetPublished, request, &answer);
  if (ReasonOf(status) == "MODEL_NOT_PUBLISHED") {
    std::fprintf(stderr, "the paper has published nothing of %s\n", model.c_str());
    return;
  }
  if (!status.ok() || answer.models_size() != 1) return;  // beside the point, so no error
  const v1::PublishedModel& published = answer.models(0);
  std::set<std::string> thresholds;
  for (const v1::PublishedThresholds& each : published.thresholds()) {
    thresholds.insert(each.task());
  }
  std::fprintf(stderr,
               "the paper's %s: curves of %d scores on MMLU (headcount curves shows them beside "
               "yours), thresholds on %s; nothing of other tasks\n",
               published.model().c_str(), published.curves_size(),
               absl::StrJoin(thresholds, ", ").c_str());
}

absl::StatusOr<v1::Job> FrontierJob(const SubmitFlags& flags) {
  v1::Job job;
  v1::FrontierSpec* frontier = job.mutable_frontier();
  HC_ASSIGN_OR_RETURN(*frontier->mutable_workload(), flags.workload.ToWorkload());
  AddScores(flags, frontier);
  for (double fraction : flags.fractions) frontier->add_fractions(fraction);
  frontier->set_margin(flags.margin_points / 100);
  frontier->set_alpha(flags.alpha);
  if (flags.any_order) frontier->set_order(v1::FrontierSpec::ANY);
  if (flags.population) frontier->set_claim(v1::FrontierSpec::POPULATION);
  frontier->set_seed(flags.seed);
  frontier->set_random_seed(flags.random_seed);
  HC_ASSIGN_OR_RETURN(const v1::LayerSelection layers, flags.layers.ToLayers());
  if (layers.include_size() + layers.exclude_size() > 0) *frontier->mutable_layers() = layers;
  return job;
}

void AddScoreFlags(CLI::App* command, SubmitFlags& flags) {
  command
      ->add_option("--scores", flags.scores,
                   "score ids with commas between them, or all (headcount scores)")
      ->delimiter(',')
      ->required();
  command
      ->add_option("--fractions", flags.fractions,
                   "fractions of heads to zero (default .05 to .30 in steps of .05)")
      ->delimiter(',');
  command->add_option("--random-seed", flags.random_seed, "seed of the random baseline")
      ->capture_default_str();
}

// Several models and tasks in one job, and where thresholds come from.
void AddSideFlags(CLI::App* command, SubmitFlags& flags) {
  command->add_option("--with-model", flags.models,
                      "a further model, on every task; may be repeated (headcount table)");
  command->add_option("--with-task", flags.tasks,
                      "a further task, in the same form, on every model; may be repeated");
  CLI::Option* task = command->add_option(
      "--calibrate-on", flags.calibrate_on,
      "thresholds from another task's documents, TASK or TASK:SPLIT, scored first");
  CLI::Option* job = command
                         ->add_option("--calibrate-on-job", flags.calibrate_on_job,
                                      "thresholds from the scores of a job that has succeeded")
                         ->excludes(task);
  command
      ->add_flag("--transfer", flags.transfer,
                 "also the thresholds of each task on every other task")
      ->excludes(task)
      ->excludes(job);
}

void AddFrontierFlags(CLI::App* command, SubmitFlags& flags) {
  AddScoreFlags(command, flags);
  command
      ->add_option("--margin", flags.margin_points,
                   "percentage points below the baseline that may be lost")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--alpha", flags.alpha, "chance of a wrong certificate that is accepted")
      ->capture_default_str();
  command->add_flag("--any-order", flags.any_order,
                    "test all shares, at alpha over their number, instead of ascending until one "
                    "fails");
  command->add_flag("--population", flags.population,
                    "claim it about questions like these, not about these documents alone");
  command->add_option("--seed", flags.seed, "seed of the order of the documents")
      ->capture_default_str();
}

absl::StatusOr<v1::Job> CompareJob(Context& context, const SubmitFlags& flags) {
  v1::Job job;
  v1::CompareSpec* compare = job.mutable_compare();
  HC_ASSIGN_OR_RETURN(*compare->mutable_workload(), flags.workload.ToWorkload());
  AddScores(flags, compare);
  for (const std::string& model : flags.models) compare->add_models(model);
  HC_RETURN_IF_ERROR(
      AddTasks(context, flags.tasks, compare->mutable_workload(), compare->mutable_tasks()));
  compare->set_consecutive(flags.consecutive);
  return job;
}

absl::StatusOr<v1::Job> KnockoutJob(const Context& context, const SubmitFlags& flags) {
  v1::Job job;
  v1::KnockoutSpec* knockout = job.mutable_knockout();
  HC_ASSIGN_OR_RETURN(*knockout->mutable_workload(), flags.workload.ToWorkload());
  HC_ASSIGN_OR_RETURN(const v1::LayerSelection layers, flags.layers.ToLayers());
  if (layers.include_size() + layers.exclude_size() > 0) *knockout->mutable_layers() = layers;
  if (!flags.score_job.empty()) knockout->set_score_job(context.JobName(flags.score_job));
  return job;
}

}  // namespace

void AddSubmit(CLI::App& app, Context& context) {
  CLI::App* submit = app.add_subcommand("submit", "create a job; prints its name");
  submit->require_subcommand(1);
  submit->fallthrough();
  auto flags = std::make_shared<SubmitFlags>();
  auto run = [&context, flags](absl::StatusOr<v1::Job> job) {
    if (!job.ok()) {
      context.Fail(job.status());
      context.exit_code =
          job.status().code() == absl::StatusCode::kInvalidArgument ? kUsage : context.exit_code;
      return;
    }
    Submit(context, *flags, *std::move(job));
  };

  CLI::App* score = submit->add_subcommand("score", "measure every head on every sample");
  AddCommonFlags(score, *flags);
  score->footer(
      "Example: headcount submit score --model SmolLM2-135M-Instruct --task piqa --limit 100 "
      "--watch");
  score->callback([run, flags] { run(ScoreJob(*flags)); });

  CLI::App* ablate = submit->add_subcommand("ablate", "run every sample under each rule");
  AddCommonFlags(ablate, *flags);
  AddMaskUpdate(ablate, *flags);
  AddRuleFlags(ablate, *flags);
  AddRuleList(ablate, *flags)->required();
  ablate->footer(
      "Example: headcount submit ablate --model SmolLM2-135M-Instruct --task piqa --rule "
      "'output_norm_ln<0.7' --rule "
      "heads=0.3,4.7");
  ablate->callback([run, flags, &context] { run(AblateJob(context, *flags)); });

  CLI::App* sweep =
      submit->add_subcommand("sweep", "the paper's experiment: scores x fractions, with curves");
  AddCommonFlags(sweep, *flags);
  AddScoreFlags(sweep, *flags);
  AddMaskUpdate(sweep, *flags);
  AddRuleFlags(sweep, *flags);
  sweep
      ->add_option("--controls", flags->controls,
                   "beside each score's rules as many heads chosen otherwise: random_in_layer, "
                   "shuffled, static_heads; commas between them (docs/rules.md)")
      ->delimiter(',')
      ->check(CLI::IsMember({"random_in_layer", "shuffled", "static_heads"}));
  sweep->add_option("--control-seed", flags->control_seed, "seed of the controls")
      ->capture_default_str();
  AddSideFlags(sweep, *flags);
  sweep->footer(
      "Example: headcount submit sweep --model SmolLM2-135M-Instruct --task piqa --limit 40 "
      "--scores "
      "output_norm_ln,random --watch");
  sweep->callback([run, flags, &context] { run(SweepJob(context, *flags)); });

  CLI::App* paper = submit->add_subcommand(
      "paper", "the grid of arXiv 2504.03889 on a model: 15 scores and random, 7 shares, 4 tasks");
  AddCommonFlags(paper, *flags);
  paper->add_option("--with-model", flags->models, "a further model; may be repeated");
  paper->footer(
      "Example: headcount submit paper --model Llama-3.1-8B --limit 100 --max-new-tokens 256\n"
      "--task has it run on one task alone; --max-new-tokens is for gsm8k.");
  paper->callback([run, flags, &context] {
    run(PaperJob(context, *flags));
    if (context.exit_code == 0 && !context.json) TellPublished(context, flags->workload.model);
  });

  CLI::App* frontier = submit->add_subcommand(
      "frontier",
      "the largest share that may be zeroed within a margin, from as few runs as needed");
  AddCommonFlags(frontier, *flags);
  flags->layers.AddTo(frontier);
  AddFrontierFlags(frontier, *flags);
  frontier->footer(
      "Example: headcount submit frontier --model SmolLM2-135M-Instruct --task mmlu --scores "
      "output_norm_ln --margin 1 --watch");
  frontier->callback([run, flags] { run(FrontierJob(*flags)); });

  CLI::App* compare = submit->add_subcommand(
      "compare", "a score job for each of several models or tasks, held against each other");
  AddCommonFlags(compare, *flags);
  compare->add_option("--scores", flags->scores, "score ids with commas between them")
      ->delimiter(',')
      ->required();
  compare->add_option("--with-model", flags->models,
                      "compared on the same samples; may be repeated");
  compare->add_option("--with-task", flags->tasks,
                      "compared on the same model, with the same limit and form; may be repeated");
  compare->add_flag("--consecutive", flags->consecutive,
                    "each against the one before it, not against the first");
  compare->footer(
      "Example: headcount submit compare --model Qwen2.5-0.5B --with-model Qwen2.5-0.5B-Instruct "
      "--task piqa --limit 100 --scores output_norm_ln --watch");
  compare->callback([run, flags, &context] { run(CompareJob(context, *flags)); });

  CLI::App* knockout =
      submit->add_subcommand("knockout", "zero each head alone: what is it worth?");
  AddCommonFlags(knockout, *flags);
  flags->layers.AddTo(knockout);
  knockout->add_option("--score-job", flags->score_job,
                       "job whose scores are held against the knockouts");
  knockout->footer(
      "Example: headcount submit knockout --model SmolLM2-135M-Instruct --task piqa --limit 200 "
      "--layers 0-3 --watch");
  knockout->callback([run, flags, &context] { run(KnockoutJob(context, *flags)); });

  CLI::App* probe = submit->add_subcommand(
      "probe", "a few prompts closely: every score, and the next token under each rule");
  AddCommonFlags(probe, *flags);
  flags->workload.AddPromptsTo(probe);
  AddRuleFlags(probe, *flags);
  AddRuleList(probe, *flags);
  probe->add_option("--next-tokens", flags->next_tokens,
                    "how many of the most likely next tokens are kept (default 10)");
  probe->footer(
      "Example: headcount submit probe --model SmolLM2-135M-Instruct --prompt 'The capital of "
      "France is' --rule 'output_norm_ln<0.7' --watch");
  probe->callback([run, flags, &context] { run(ProbeJob(context, *flags)); });
}

}  // namespace headcount::cli
