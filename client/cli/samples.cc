// `headcount samples`: the evidence behind a curve, one row a sample and rule.

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/table.h"

namespace headcount::cli {
namespace {

// The beginning of a text, at most `most` code points of it.
std::string Beginning(const std::string& text, size_t most) {
  size_t end = 0;
  for (size_t shown = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (starts && shown++ == most) return text.substr(0, end) + "...";
  }
  return text;
}

// Generated texts: what each filter took out of them, and how they begin. --json has the whole.
Table GeneratedTable(const v1::SampleRecord& first) {
  using Align = Table::Align;
  std::vector<Table::Column> columns = {{"sample"}, {"rule", Align::kRight}, {"label"}};
  for (const v1::Answer& answer : first.answers()) columns.push_back({answer.metric()});
  columns.push_back({"zeroed %", Align::kRight});
  columns.push_back({"new tokens", Align::kRight});
  columns.push_back({"text"});
  return Table(std::move(columns));
}

std::vector<std::string> GeneratedRow(const v1::SampleRecord& record) {
  constexpr size_t kShown = 40;
  std::vector<std::string> row = {record.sample(), absl::StrCat(record.rule()),
                                  record.rule_label()};
  for (const v1::Answer& answer : record.answers()) {
    row.push_back(
        absl::StrCat(answer.correct() ? "+ " : "- ", Beginning(answer.text(), kShown / 2)));
  }
  row.push_back(absl::StrFormat("%.1f", 100 * record.share_zeroed()));
  row.push_back(absl::StrCat(record.generated_tokens_size()));
  row.push_back(Beginning(record.text(), kShown));
  return row;
}

}  // namespace

void AddSamples(CLI::App& app, Context& context) {
  struct Flags {
    std::string job;
    std::vector<int> rules;
    int64_t first = 0;
    int64_t most = 20;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("samples", "per-sample log-likelihoods, answers and heads zeroed");
  command->add_option("job", flags->job, "job")->required();
  command
      ->add_option("--rule", flags->rules,
                   "rule indices with commas between them, -1 the baseline (default: all)")
      ->delimiter(',');
  command->add_option("--first", flags->first, "first sample, from 0")->capture_default_str();
  command->add_option("--limit", flags->most, "samples per rule; 0: all")->capture_default_str();
  command->footer("Example: headcount samples k3v9x2m4qp --rule -1,3 --limit 10");
  command->callback([&context, flags] {
    v1::ListSamplesRequest request;
    request.set_job(context.JobName(flags->job));
    for (int rule : flags->rules) request.add_rules(rule);
    request.set_first_sample(flags->first);
    request.set_max_samples(flags->most);
    grpc::ClientContext call;
    context.Prepare(&call, std::chrono::seconds(0));
    auto reader = context.results().ListSamples(&call, request);
    using Align = Table::Align;
    Table table({{"sample"},
                 {"rule", Align::kRight},
                 {"label"},
                 {"log-likelihoods"},
                 {"answer", Align::kRight},
                 {"norm", Align::kRight},
                 {"gold", Align::kRight},
                 {"correct"},
                 {"zeroed %", Align::kRight},
                 {"tokens", Align::kRight}});
    v1::SampleRecord record;
    bool generated = false;
    while (reader->Read(&record)) {
      if (context.json) {
        context.PrintJson(record);
        continue;
      }
      if (!record.answers().empty()) {
        if (!generated) table = GeneratedTable(record);
        generated = true;
        table.AddRow(GeneratedRow(record));
        continue;
      }
      const std::string likelihoods =
          absl::StrJoin(record.log_likelihoods(), " ",
                        [](std::string* out, float v) { absl::StrAppendFormat(out, "%.3f", v); });
      table.AddRow({record.sample(), absl::StrCat(record.rule()), record.rule_label(), likelihoods,
                    record.prediction() < 0 ? "" : absl::StrCat(record.prediction()),
                    record.prediction_norm() < 0 ? "" : absl::StrCat(record.prediction_norm()),
                    record.gold() < 0 ? "" : absl::StrCat(record.gold()),
                    record.prediction() < 0 ? ""
                    : record.correct()      ? "yes"
                                            : "no",
                    absl::StrFormat("%.1f", 100 * record.share_zeroed()),
                    absl::StrCat(record.tokens())});
    }
    if (!context.json && !table.empty()) std::printf("%s", table.Render(context.style()).c_str());
    const absl::Status status = context.FromCall(reader->Finish());
    if (!status.ok()) context.Fail(status);
  });
}

}  // namespace headcount::cli
