// `headcount samples`: the evidence behind a curve, one row a sample and rule.

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/table.h"

namespace headcount::cli {

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
                 {"gold", Align::kRight},
                 {"correct"},
                 {"zeroed %", Align::kRight},
                 {"tokens", Align::kRight}});
    v1::SampleRecord record;
    while (reader->Read(&record)) {
      if (context.json) {
        context.PrintJson(record);
        continue;
      }
      const std::string likelihoods =
          absl::StrJoin(record.log_likelihoods(), " ",
                        [](std::string* out, float v) { absl::StrAppendFormat(out, "%.3f", v); });
      table.AddRow({record.sample(), absl::StrCat(record.rule()), record.rule_label(), likelihoods,
                    record.prediction() < 0 ? "" : absl::StrCat(record.prediction()),
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
