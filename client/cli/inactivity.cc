// `headcount inactivity`: which heads are always, sometimes or never inactive, and what that
// depends on.

#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

const char* KindText(int kind) {
  switch (kind) {
    case v1::Inactivity::ALWAYS:
      return "#";
    case v1::Inactivity::SOMETIMES:
      return "+";
    case v1::Inactivity::NEVER:
      return ".";
    default:
      return "?";
  }
}

void PrintInactivity(Context& context, const v1::Inactivity& inactivity, bool subtasks) {
  const int heads = inactivity.heads();
  if (inactivity.kinds_size() != inactivity.layers() * heads) {
    return context.Fail(absl::InternalError("the server's arrays do not fit its layers x heads"));
  }
  std::printf("%s %s %.4g over %lld samples\n", inactivity.score().c_str(),
              inactivity.inactive_side().c_str(), inactivity.threshold(),
              static_cast<long long>(inactivity.samples()));
  for (int layer = inactivity.layers() - 1; layer >= 0; --layer) {
    std::string row = absl::StrFormat("%4d ", layer);
    for (int head = 0; head < heads; ++head) {
      row += absl::StrCat(" ", KindText(inactivity.kinds(layer * heads + head)));
    }
    std::printf("%s\n", row.c_str());
  }
  std::printf(
      "# always inactive (95 %% of samples or more): %lld   + sometimes: %lld   "
      ". never (5 %% or less): %lld\n",
      static_cast<long long>(inactivity.always()), static_cast<long long>(inactivity.sometimes()),
      static_cast<long long>(inactivity.never()));
  const v1::InactivityVariance& variance = inactivity.variance();
  std::printf(
      "variance of being inactive: %s %% between layers, %s %% between heads of a layer, "
      "%s %% between subtasks, %s %% between samples\n",
      Percent(variance.layer()).c_str(), Percent(variance.head()).c_str(),
      Percent(variance.subtask()).c_str(), Percent(variance.sample()).c_str());
  if (!subtasks) return;
  Table table({{"subtask"}, {"samples", Align::kRight}, {"% inactive", Align::kRight}});
  for (const v1::SubtaskInactivity& subtask : inactivity.subtasks()) {
    table.AddRow({subtask.subtask(), absl::StrCat(subtask.samples()),
                  Percent(MeanOfFinite(subtask.share()))});
  }
  std::printf("\n%s", table.Render(context.style()).c_str());
}

}  // namespace

void AddInactivity(CLI::App& app, Context& context) {
  struct Flags {
    std::string job;
    std::string score = "output_norm_ln";
    std::optional<double> threshold;
    std::optional<double> fraction;
    bool subtasks = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "inactivity",
      "which heads are always, sometimes or never inactive, and what that depends on");
  command->add_option("job", flags->job, "score or sweep job")->required();
  command->add_option("--score", flags->score, "score id (headcount scores)")
      ->capture_default_str();
  auto* threshold =
      command->add_option("--threshold", flags->threshold, "a head is inactive beyond this value");
  command
      ->add_option("--fraction", flags->fraction,
                   "the same at the value that makes this fraction of heads inactive (default .1)")
      ->excludes(threshold);
  command->add_flag("--subtasks", flags->subtasks, "the share inactive in every subtask");
  command->footer("Example: headcount inactivity k3v9x2m4qp --fraction .15 --subtasks");
  command->callback([&context, flags] {
    v1::GetInactivityRequest request;
    request.set_job(context.JobName(flags->job));
    request.set_score(flags->score);
    if (flags->threshold) {
      request.set_threshold(*flags->threshold);
    } else {
      request.set_fraction(flags->fraction.value_or(.1));
    }
    v1::Inactivity answer;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetInactivity, request, &answer);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(answer);
    PrintInactivity(context, answer, flags->subtasks);
  });
}

}  // namespace headcount::cli
