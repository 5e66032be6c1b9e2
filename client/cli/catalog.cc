// `headcount models | scores | tasks | server`: what can be named in a job, and what the server is.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

void Models(Context& context) {
  v1::ListModelsResponse answer;
  const absl::Status status = context.Call(context.catalog(), &v1::CatalogService::Stub::ListModels,
                                           v1::ListModelsRequest(), &answer);
  if (!status.ok()) return context.Fail(status);
  if (context.json) return context.PrintJson(answer);
  Table table({{"model"},
               {"type"},
               {"layers", Align::kRight},
               {"heads", Align::kRight},
               {"KV", Align::kRight},
               {"parameters", Align::kRight},
               {"dtype"},
               {"context", Align::kRight},
               {"chat"},
               {"problem"}});
  for (const v1::Model& model : answer.models()) {
    table.AddRow({model.name(), model.model_type(), absl::StrCat(model.layers()),
                  absl::StrCat(model.heads()), absl::StrCat(model.kv_heads()),
                  absl::StrFormat("%.1f M", model.parameters() / 1e6), model.dtype(),
                  absl::StrCat(model.context_length()), model.has_chat_template() ? "yes" : "no",
                  model.problem()});
  }
  if (table.empty()) {
    std::printf(
        "no models: name a folder of Hugging Face directories in the server's config "
        "(model_roots)\n");
  } else {
    std::printf("%s", table.Render(context.style()).c_str());
  }
}

void Scores(Context& context) {
  v1::ListScoresResponse answer;
  const absl::Status status = context.Call(context.catalog(), &v1::CatalogService::Stub::ListScores,
                                           v1::ListScoresRequest(), &answer);
  if (!status.ok()) return context.Fail(status);
  if (context.json) return context.PrintJson(answer);
  Table table({{"score"}, {"inactive"}, {"formula"}, {"unit"}, {"paper"}, {"authors' code"}});
  for (const v1::ScoreInfo& score : answer.scores()) {
    table.AddRow({score.id(), score.inactive_side() + " t", score.formula(), score.unit(),
                  score.paper_name(), score.alias()});
  }
  std::printf("%s", table.Render(context.style()).c_str());
}

void Tasks(Context& context) {
  v1::ListTasksResponse answer;
  const absl::Status status = context.Call(context.catalog(), &v1::CatalogService::Stub::ListTasks,
                                           v1::ListTasksRequest(), &answer);
  if (!status.ok()) return context.Fail(status);
  if (context.json) return context.PrintJson(answer);
  Table table({{"task"},
               {"type"},
               {"subtasks", Align::kRight},
               {"documents", Align::kRight},
               {"few-shot", Align::kRight},
               {"metrics"},
               {"description"},
               {"problem"}});
  for (const v1::TaskInfo& task : answer.tasks()) {
    table.AddRow({task.task(), task.output_type(),
                  task.subtasks_size() > 0 ? absl::StrCat(task.subtasks_size()) : "",
                  task.documents() > 0 ? absl::StrCat(task.documents()) : "",
                  absl::StrCat(task.num_fewshot()), absl::StrJoin(task.metrics(), ", "),
                  task.description(), task.problem()});
  }
  std::printf("%s", table.Render(context.style()).c_str());
}

void Server(Context& context) {
  v1::ServerInfo info;
  const absl::Status status =
      context.Call(context.catalog(), &v1::CatalogService::Stub::GetServerInfo,
                   v1::GetServerInfoRequest(), &info);
  if (!status.ok()) return context.Fail(status);
  if (context.json) return context.PrintJson(info);
  std::printf("headcountd %s at %s, numerics %d, schema %d, units of %d samples x %d rules\n",
              info.version().c_str(), context.server.c_str(), info.numerics_version(),
              info.schema_version(), info.samples_per_unit(), info.rules_per_unit());
  Table table({{"worker"}, {"device"}, {"state"}, {"model"}, {"job"}, {"tokens/s", Align::kRight}});
  for (const v1::WorkerInfo& worker : info.workers()) {
    table.AddRow({worker.worker(), worker.device(), worker.state(), worker.loaded_model(),
                  Context::ShortName(worker.job()),
                  worker.tokens_per_second() > 0
                      ? absl::StrFormat("%.0f", worker.tokens_per_second())
                      : ""});
  }
  std::printf("%s", table.empty() ? "no workers\n" : table.Render(context.style()).c_str());
}

void Add(CLI::App& app, Context& context, const char* name, const char* help,
         void (*run)(Context&)) {
  CLI::App* command = app.add_subcommand(name, help);
  command->footer(absl::StrCat("Example: headcount ", name, " --json"));
  command->callback([&context, run] { run(context); });
}

}  // namespace

void AddCatalog(CLI::App& app, Context& context) {
  Add(app, context, "models", "models that can be named, with their shapes", &Models);
  Add(app, context, "scores", "the scores: formula, direction, source", &Scores);
  Add(app, context, "tasks", "tasks that can be named", &Tasks);
  Add(app, context, "server", "version, limits and workers", &Server);
}

}  // namespace headcount::cli
