// `headcount rerun`: computes a job anew, from its stored spec, and says what came out differently:
// in what it depends on, and row by row.

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/event_printer.h"
#include "client/cli/job_difference.h"
#include "client/cli/table.h"
#include "client/cli/watch.h"
#include "common/base/errors.h"
#include "common/base/ids.h"
#include "common/base/status_macros.h"
#include "common/format/job_kind.h"

namespace headcount::cli {
namespace {

struct RerunFlags {
  std::string job;
  std::string against;
  int priority = 0;
};

absl::StatusOr<v1::Job> GetJob(Context& context, const std::string& name) {
  v1::GetJobRequest request;
  request.set_name(name);
  v1::Job job;
  HC_RETURN_IF_ERROR(context.Call(context.jobs(), &v1::JobService::Stub::GetJob, request, &job));
  return job;
}

absl::StatusOr<v1::Job> CreateAnew(Context& context, const v1::Job& job, int priority) {
  v1::CreateJobRequest request;
  request.set_parent(job.name().substr(0, job.name().find("/jobs/")));
  v1::Job& anew = *request.mutable_job();
  anew = job;
  anew.set_priority(priority);
  format::MutableWorkloadOf(&anew)->set_fresh(true);
  request.set_request_id(IdGenerator::System().Uuid());
  v1::Job created;
  HC_RETURN_IF_ERROR(
      context.Call(context.jobs(), &v1::JobService::Stub::CreateJob, request, &created));
  return created;
}

// Rows come by rule, then by sample, from both. What one has and the other has not ends the
// pairing: it is other work then, and `*unpaired` says where.
absl::Status CompareRows(Context& context, const v1::Job& then, const v1::Job& now,
                         RowDifferences* rows, std::string* unpaired) {
  grpc::ClientContext then_call, now_call;
  auto open = [&](grpc::ClientContext* call, const v1::Job& job) {
    context.Prepare(call, std::chrono::seconds(0));
    v1::ListSamplesRequest request;
    request.set_job(job.name());
    return context.results().ListSamples(call, request);
  };
  auto then_rows = open(&then_call, then);
  auto now_rows = open(&now_call, now);
  v1::SampleRecord a, b;
  while (true) {
    const bool more_then = then_rows->Read(&a);
    const bool more_now = now_rows->Read(&b);
    if (!more_then && !more_now) break;
    if (more_then != more_now || a.sample() != b.sample() || a.rule() != b.rule() ||
        a.rule_label() != b.rule_label()) {
      const v1::SampleRecord& first = more_then ? a : b;
      *unpaired = absl::StrCat(first.sample(), " under ", first.rule_label());
      then_call.TryCancel();
      now_call.TryCancel();
      (void)then_rows->Finish();
      (void)now_rows->Finish();
      return absl::OkStatus();
    }
    rows->Add(a, b);
  }
  HC_RETURN_IF_ERROR(context.FromCall(then_rows->Finish()));
  return context.FromCall(now_rows->Finish());
}

void PrintJson(const v1::Job& then, const v1::Job& now, const std::vector<FieldDifference>& fields,
               const RowDifferences& rows, const std::string& unpaired, bool same) {
  nlohmann::json provenance = nlohmann::json::array();
  for (const FieldDifference& field : fields) {
    provenance.push_back({{"field", field.field}, {"then", field.then}, {"now", field.now}});
  }
  const double largest = rows.largest_difference();
  const nlohmann::json report = {
      {"job", then.name()},
      {"rerun", now.name()},
      {"same", same},
      {"provenance", provenance},
      {"rows", rows.rows()},
      {"identical_rows", rows.identical()},
      {"mask_differences", rows.masks()},
      {"answer_differences", rows.answers()},
      {"text_differences", rows.texts()},
      {"largest_log_likelihood_difference",
       std::isfinite(largest) ? nlohmann::json(largest) : nlohmann::json("Infinity")},
      {"where", rows.where()},
      {"unpaired_from", unpaired}};
  std::printf("%s\n",
              report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void Print(Context& context, const v1::Job& then, const v1::Job& now,
           const std::vector<FieldDifference>& fields, const RowDifferences& rows,
           const std::string& unpaired) {
  const std::string then_name = Context::ShortName(then.name());
  const std::string now_name = Context::ShortName(now.name());
  if (fields.empty()) {
    std::printf("model, tokenizer, prompts, dtype, device and versions are the same\n");
  } else {
    Table table({{"differs"}, {then_name}, {now_name}});
    for (const FieldDifference& field : fields) {
      table.AddRow({field.field, Printable(field.then), Printable(field.now)});
    }
    std::printf("%s", table.Render(context.style()).c_str());
  }
  if (!unpaired.empty()) {
    std::printf("the rows are not those of one job: only one of them has %s next\n",
                Printable(unpaired).c_str());
  }
  absl::PrintF("%d of %d rows are identical to the last bit\n", rows.identical(), rows.rows());
  if (rows.identical() == rows.rows()) return;
  absl::PrintF("%d differ in the heads zeroed, %d in being right", rows.masks(), rows.answers());
  if (rows.texts() > 0) absl::PrintF(", %d in the text", rows.texts());
  absl::PrintF("; log-likelihoods by up to %.3g nats, in %s\n", rows.largest_difference(),
               Printable(rows.where()).c_str());
}

void Rerun(Context& context, const RerunFlags& flags) {
  const absl::StatusOr<v1::Job> then = GetJob(context, context.JobName(flags.job));
  if (!then.ok()) return context.Fail(then.status());
  if (const int jobs = then->progress().jobs(); jobs > 0) {
    const std::string name = Context::ShortName(then->name());
    return context.Fail(InvalidField(
        "job", flags.job,
        absl::StrCat("is made of other jobs and has no rows of its own; run those again, one by "
                     "one: ",
                     name, "-1 to ", name, "-", jobs)));
  }
  if (then->state() != v1::Job::SUCCEEDED) {
    return context.Fail(absl::FailedPreconditionError(
        absl::StrCat("job ", then->name(), " is ", StateText(then->state()),
                     ": there are no whole results to compare with")));
  }
  std::string name;
  if (flags.against.empty()) {
    const absl::StatusOr<v1::Job> created = CreateAnew(context, *then, flags.priority);
    if (!created.ok()) return context.Fail(created.status());
    name = created->name();
    if (!context.json) std::printf("%s\n", Context::ShortName(name).c_str());
    std::fflush(stdout);
    if (!Watch(context, name, {})) return;
  } else {
    name = context.JobName(flags.against);
  }
  const absl::StatusOr<v1::Job> now = GetJob(context, name);
  if (!now.ok()) return context.Fail(now.status());
  RowDifferences rows;
  std::string unpaired;
  const absl::Status compared = CompareRows(context, *then, *now, &rows, &unpaired);
  if (!compared.ok()) return context.Fail(compared);
  const std::vector<FieldDifference> fields = DifferencesOf(then->provenance(), now->provenance());
  const bool same = unpaired.empty() && rows.identical() == rows.rows();
  if (context.json) {
    PrintJson(*then, *now, fields, rows, unpaired, same);
  } else {
    Print(context, *then, *now, fields, rows, unpaired);
  }
  if (!same) context.exit_code = kDiffers;
}

}  // namespace

void AddRerun(CLI::App& app, Context& context) {
  auto flags = std::make_shared<RerunFlags>();
  CLI::App* command =
      app.add_subcommand("rerun", "compute a job anew and say what came out differently");
  command->add_option("job", flags->job, "a job that succeeded")->required();
  command->add_option("--against", flags->against,
                      "compare with this job of the same spec, run nothing");
  command->add_option("--priority", flags->priority, "-100 to 100, higher first")
      ->capture_default_str();
  command->footer(
      "Exit code 8 where a row is not the same to the last bit.\n"
      "Example: headcount rerun k3v9x2m4qp");
  command->callback([&context, flags] { Rerun(context, *flags); });
}

}  // namespace headcount::cli
