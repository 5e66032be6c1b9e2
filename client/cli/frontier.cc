// `headcount frontier`: which share of heads each score may zero, certified, refuted or undecided.

#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

const char* VerdictText(v1::FrontierShare::Verdict verdict) {
  switch (verdict) {
    case v1::FrontierShare::CERTIFIED:
      return "certified";
    case v1::FrontierShare::REFUTED:
      return "refuted";
    case v1::FrontierShare::UNDECIDED:
      return "undecided";
    case v1::FrontierShare::OPEN:
      return "open";
    default:
      return "not tested";
  }
}

// One sentence a score.
std::string Answer(const v1::Frontier& frontier, const v1::ScoreFrontier& score) {
  std::string text = score.score() + ": ";
  if (score.certified_fraction() > 0) {
    text += absl::StrFormat("%s %% of the heads may be zeroed within %s points",
                            Percent(score.certified_share()), Percent(frontier.margin()));
  } else {
    text += "no tested share is certified";
  }
  if (std::isfinite(score.refuted_fraction())) {
    text += absl::StrFormat("; %s %% lose that or more", Percent(score.refuted_share()));
  }
  for (const v1::FrontierShare& share : score.shares()) {
    if (share.verdict() != v1::FrontierShare::UNDECIDED) continue;
    text += absl::StrFormat("; at %s %% the data resolve no margin below %s points",
                            Percent(share.share_zeroed()),
                            Percent(share.smallest_margin_population(), 2));
  }
  return text + absl::StrFormat(" (ran %d of %d documents of the full grid)",
                                score.documents_spent(), score.documents_of_full_grid());
}

void Print(Context& context, const v1::Frontier& frontier) {
  Table table({{"score"},
               {"nominal %", Align::kRight},
               {"zeroed %", Align::kRight},
               {"verdict"},
               {"vs. baseline", Align::kRight},
               {"documents", Align::kRight},
               {"margin", Align::kRight},
               {"beyond", Align::kRight}});
  for (const v1::ScoreFrontier& score : frontier.scores()) {
    for (const v1::FrontierShare& share : score.shares()) {
      table.AddRow({score.score(), Percent(share.nominal_fraction()), Percent(share.share_zeroed()),
                    VerdictText(share.verdict()), Percent(share.difference(), 2),
                    absl::StrFormat("%d", share.documents()), Percent(share.smallest_margin(), 2),
                    Percent(share.smallest_margin_population(), 2)});
    }
  }
  std::printf("%s", table.Render(context.style()).c_str());
  for (const v1::ScoreFrontier& score : frontier.scores()) {
    std::printf("%s\n", Answer(frontier, score).c_str());
  }
  const bool population = frontier.claim() == v1::FrontierSpec::POPULATION;
  std::printf(
      "%s\n",
      Dim(context.style(),
          absl::StrFormat("wrong certificates: at most %g %% of such jobs; claims are about %s; "
                          "margin, beyond: the smallest that is certified about these %d "
                          "documents, and about questions like them%s",
                          100 * frontier.alpha(),
                          population ? "questions like these" : "the job's documents",
                          frontier.documents(), frontier.complete() ? "" : "; the job still runs"))
          .c_str());
}

}  // namespace

void AddFrontier(CLI::App& app, Context& context) {
  auto job = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "frontier", "the largest share of heads that each score may zero within a margin");
  command->add_option("job", *job, "frontier job")->required();
  command->footer("Example: headcount frontier k3v9x2m4qp");
  command->callback([&context, job] {
    v1::GetFrontierRequest request;
    request.set_job(context.JobName(*job));
    v1::Frontier frontier;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetFrontier, request, &frontier);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(frontier);
    Print(context, frontier);
  });
}

}  // namespace headcount::cli
