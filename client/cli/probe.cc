// `headcount probe`: one prompt looked at closely: how every layer attends to the first token, what
// each rule does to the next token, and any score of every head.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/heat_map.h"
#include "client/cli/numbers.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

using Align = Table::Align;

struct ProbeFlags {
  std::string job;
  int64_t sample = 0;
  std::vector<std::string> scores;
  std::vector<int> layers;  // for --json alone
  bool tokens = false;
  int next = 5;
};

std::string Quoted(const std::string& text) { return absl::StrCat("\"", Printable(text), "\""); }

bool Fits(const v1::Probe& probe) {
  const int64_t heads = int64_t{probe.layers()} * probe.heads();
  if (probe.mean_first_weights_size() != int64_t{probe.layers()} * probe.tokens_size())
    return false;
  if (probe.runs().empty() || probe.token_texts_size() != probe.tokens_size()) return false;
  return std::all_of(probe.runs().begin(), probe.runs().end(), [&](const v1::ProbeRun& run) {
    return static_cast<int64_t>(run.mask().size()) == (heads + 7) / 8 &&
           std::all_of(run.scores().begin(), run.scores().end(),
                       [&](const auto& score) { return score.values_size() == heads; });
  });
}

// Positions side by side, several to a cell where the terminal is too narrow for all.
void PrintAttention(const Style& style, const v1::Probe& probe) {
  const int positions = probe.tokens_size();
  const int room = std::max(10, style.width - 8);
  const int per_cell = (positions + room - 1) / room;
  const int cells = (positions + per_cell - 1) / per_cell;
  std::vector<double> values;
  for (int layer = 0; layer < probe.layers(); ++layer) {
    for (int cell = 0; cell < cells; ++cell) {
      const int end = std::min(positions, (cell + 1) * per_cell);
      double sum = 0;
      for (int i = cell * per_cell; i < end; ++i) {
        sum += probe.mean_first_weights(layer * positions + i);
      }
      values.push_back(sum / (end - cell * per_cell));
    }
  }
  HeatMap map;
  map.layers = probe.layers();
  map.heads = cells;
  map.values = values;
  map.percent = true;
  const std::string title = absl::StrCat(
      "attention of each position to the first token, mean over the layer's heads",
      per_cell > 1 ? absl::StrCat("  (", per_cell, " positions a column)") : std::string());
  map.title = title;
  std::printf("%s\n", RenderHeatMap(style, map).c_str());
}

void PrintRuns(const Style& style, const v1::Probe& probe, int next) {
  Table table({{"run"},
               {"zeroed %", Align::kRight},
               {"KL nats", Align::kRight},
               {"entropy", Align::kRight},
               {"most likely next tokens"}});
  for (const v1::ProbeRun& run : probe.runs()) {
    std::string tokens;
    for (int i = 0; i < std::min(next, run.next_tokens_size()); ++i) {
      const v1::NextToken& token = run.next_tokens(i);
      absl::StrAppend(&tokens, i > 0 ? "  " : "", Quoted(token.text()), " ",
                      Percent(std::exp(token.log_likelihood())));
    }
    table.AddRow({Printable(run.label()), Percent(run.share_zeroed()),
                  absl::StrFormat("%.4f", run.divergence()),
                  absl::StrFormat("%.3f", run.next_token_entropy()),
                  run.finite() ? tokens : "not finite"});
  }
  std::printf("%s%s\n", table.Render(style).c_str(),
              Dim(style,
                  "probabilities in %; KL: of the baseline's distribution from the run's; entropy "
                  "in nats")
                  .c_str());
}

bool IsZeroed(const v1::ProbeRun& run, int head) {
  return (static_cast<unsigned char>(run.mask()[static_cast<size_t>(head) / 8]) >> (head % 8) &
          1) != 0;
}

void PrintScores(const Style& style, const v1::Probe& probe) {
  for (const v1::ProbeRun& run : probe.runs()) {
    std::vector<double> zeroed;
    for (int head = 0; head < probe.layers() * probe.heads(); ++head) {
      zeroed.push_back(IsZeroed(run, head) ? 1 : 0);
    }
    for (const v1::ProbeScore& score : run.scores()) {
      const std::vector<double> values(score.values().begin(), score.values().end());
      HeatMap map;
      map.layers = probe.layers();
      map.heads = probe.heads();
      map.kv_heads = probe.kv_heads();
      map.values = values;
      map.inactive = zeroed;
      map.inactive_note = "x: zeroed by the rule";
      map.unit = score.unit();
      const std::string title =
          absl::StrCat(score.score(), " under ", run.label(), "  (inactive where ",
                       score.inactive_side(), " a threshold)");
      map.title = title;
      std::printf("\n%s", RenderHeatMap(style, map).c_str());
    }
  }
}

void PrintTokens(const Style& style, const v1::Probe& probe) {
  const int positions = probe.tokens_size();
  Table table({{"position", Align::kRight},
               {"id", Align::kRight},
               {"token"},
               {"to the first token %", Align::kRight}});
  for (int i = 0; i < positions; ++i) {
    double sum = 0;
    for (int layer = 0; layer < probe.layers(); ++layer) {
      sum += probe.mean_first_weights(layer * positions + i);
    }
    table.AddRow({absl::StrCat(i), absl::StrCat(probe.tokens(i)), Quoted(probe.token_texts(i)),
                  Percent(sum / probe.layers())});
  }
  std::printf("%s%s\n\n", table.Render(style).c_str(),
              Dim(style, "mean over all heads, without any rule").c_str());
}

void Print(Context& context, const v1::Probe& probe, const ProbeFlags& flags) {
  if (!Fits(probe)) {
    return context.Fail(absl::InternalError("the server's arrays do not fit its layers x heads"));
  }
  const Style& style = context.style();
  std::printf("%s\n\n", Bold(style, absl::StrCat("prompt ", flags.sample + 1, " of ",
                                                 probe.samples(), "  (", Printable(probe.sample()),
                                                 ", ", probe.tokens_size(), " tokens)"))
                            .c_str());
  if (flags.tokens) PrintTokens(style, probe);
  PrintAttention(style, probe);
  PrintRuns(style, probe, flags.next);
  if (!flags.scores.empty()) PrintScores(style, probe);
}

}  // namespace

void AddProbe(CLI::App& app, Context& context) {
  auto flags = std::make_shared<ProbeFlags>();
  CLI::App* command = app.add_subcommand(
      "probe", "one prompt closely: attention to its first token, next tokens under each rule");
  command->add_option("job", flags->job, "probe job")->required();
  command->add_option("--sample", flags->sample, "which prompt, from 0")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--scores", flags->scores,
                   "draw these scores of every head, commas between them; all with --json")
      ->delimiter(',');
  command->add_option("--next", flags->next, "how many next tokens are shown")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--tokens", flags->tokens, "list the prompt's tokens");
  command
      ->add_option("--layers", flags->layers,
                   "with --json: first_weights of every head of these layers, commas between them")
      ->delimiter(',');
  command->footer("Example: headcount probe p4n8c1w7ye --scores output_norm_ln");
  command->callback([&context, flags] {
    v1::GetProbeRequest request;
    request.set_job(context.JobName(flags->job));
    request.set_sample(flags->sample);
    for (const std::string& score : flags->scores) request.add_scores(score);
    // None is asked for: one is the least that the call takes.
    if (flags->scores.empty() && !context.json) request.add_scores("output_norm");
    request.mutable_layers()->Add(flags->layers.begin(), flags->layers.end());
    v1::Probe probe;
    const absl::Status status =
        context.Call(context.results(), &v1::ResultService::Stub::GetProbe, request, &probe);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(probe);
    Print(context, probe, *flags);
  });
}

}  // namespace headcount::cli
