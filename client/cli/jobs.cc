// `headcount jobs | show | cancel | pause | resume | delete`.

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/event_printer.h"
#include "client/cli/table.h"
#include "common/base/errors.h"
#include "common/format/job_kind.h"

namespace headcount::cli {
namespace {

std::string SourceOf(const v1::Workload& workload) {
  if (workload.has_task()) return workload.task().task();
  return absl::StrCat(workload.requests().requests_size(), " requests");
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0) return "";
  std::string text = google::protobuf::util::TimeUtil::ToString(time);
  return text.substr(0, std::min<size_t>(text.size(), 19)) + "Z";
}

std::string PercentDone(const v1::Progress& progress) {
  if (progress.total_rows() == 0) return "";
  return absl::StrFormat("%.0f %%", 100.0 * progress.done_rows() / progress.total_rows());
}

void ListJobs(Context& context, v1::ListJobsRequest request, int most) {
  Table table({{"job"},
               {"kind"},
               {"model"},
               {"source"},
               {"state"},
               {"done", Table::Align::kRight},
               {"owner"},
               {"created"}});
  int shown = 0;
  do {
    request.set_page_size(std::min(most - shown, 1000));
    v1::ListJobsResponse page;
    const absl::Status status =
        context.Call(context.jobs(), &v1::JobService::Stub::ListJobs, request, &page);
    if (!status.ok()) return context.Fail(status);
    for (const v1::Job& job : page.jobs()) {
      ++shown;
      if (context.json) {
        context.PrintJson(job);
        continue;
      }
      table.AddRow({Context::ShortName(job.name()), format::JobKind(job),
                    format::WorkloadOf(job).model(), SourceOf(format::WorkloadOf(job)),
                    StateText(job.state()), PercentDone(job.progress()), job.owner(),
                    TimeText(job.create_time())});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && shown < most);
  if (context.json) return;
  if (table.empty()) {
    std::printf("no jobs\n");
  } else {
    std::printf("%s", table.Render(context.style()).c_str());
  }
}

void PrintJob(Context& context, const v1::Job& job) {
  if (context.json) return context.PrintJson(job);
  const v1::Workload& workload = format::WorkloadOf(job);
  auto line = [&](const char* key, const std::string& value) {
    if (!value.empty())
      std::printf("%s %s\n", Bold(context.style(), absl::StrFormat("%-12s", key)).c_str(),
                  Printable(value).c_str());
  };
  line("job", job.name());
  line("kind", format::JobKind(job));
  line("state", absl::StrCat(StateText(job.state()), job.state_reason().empty() ? "" : "  ",
                             job.state_reason()));
  if (job.has_error()) line("error", job.error().message());
  line("model", workload.model());
  line("source", SourceOf(workload));
  if (job.has_sweep()) {
    std::vector<std::string> tasks;
    for (const v1::TaskSource& task : job.sweep().tasks()) tasks.push_back(task.task());
    line("and models", absl::StrJoin(job.sweep().models(), ", "));
    line("and tasks", absl::StrJoin(tasks, ", "));
    line("thresholds",
         job.sweep().calibrate_on().empty() ? "" : "of " + job.sweep().calibrate_on());
  }
  if (job.has_ablate()) line("rules", absl::StrCat(job.ablate().rules_size()));
  if (job.has_sweep()) line("scores", absl::StrJoin(job.sweep().scores(), ", "));
  line("owner", job.owner());
  std::vector<std::string> labels;
  for (const auto& [key, value] : job.labels()) labels.push_back(key + "=" + value);
  std::sort(labels.begin(), labels.end());
  line("labels", absl::StrJoin(labels, ", "));
  line("priority", absl::StrCat(job.priority()));
  line("created", TimeText(job.create_time()));
  line("started", TimeText(job.start_time()));
  line("ended", TimeText(job.end_time()));
  const v1::Progress& progress = job.progress();
  if (progress.jobs() > 0) {
    line("made of",
         absl::StrFormat("%d jobs, %s-1 to -%d, of which %d are done", progress.jobs(),
                         Context::ShortName(job.name()), progress.jobs(), progress.done_jobs()));
  }
  if (progress.total_rows() > 0) {
    line("progress", absl::StrFormat("%s%d of %d units, %d of %d rows",
                                     progress.stage().empty() ? "" : progress.stage() + ": ",
                                     progress.done_units(), progress.total_units(),
                                     progress.done_rows(), progress.total_rows()));
  }
  line("leases", absl::StrCat(job.attempt()));
  const v1::Provenance& from = job.provenance();
  for (const v1::ReusedUnits& reused : from.reused()) {
    line("reused", absl::StrFormat("%s: %d units computed by %s", reused.stage(), reused.units(),
                                   Context::ShortName(reused.job())));
  }
  line("device", absl::StrCat(from.device_kind(), from.dtype().empty() ? "" : ", ", from.dtype()));
  line("model digest", from.model_digest());
  line("manifest", from.manifest_digest());
  if (!from.manifest_digest().empty()) {
    line("first token", absl::StrCat("\"", from.first_token(), "\"",
                                     from.first_token_is_bos() ? " (BOS)" : " (no BOS)"));
  }
}

// The commands that take a job's name and answer with the job.
template <typename Request>
void AddSteering(CLI::App& app, Context& context, const char* name, const char* help,
                 grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                              v1::Job*)) {
  CLI::App* command = app.add_subcommand(name, help);
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "job")->required();
  command->footer(absl::StrCat("Example: headcount ", name, " k3v9x2m4qp"));
  command->callback([&context, job, method, name = std::string(name)] {
    Request request;
    request.set_name(context.JobName(*job));
    v1::Job answer;
    const absl::Status status = context.Call(context.jobs(), method, request, &answer);
    if (!status.ok()) return context.Fail(status);
    if (name == "show" || context.json) return PrintJob(context, answer);
    std::printf("%s: %s\n", Context::ShortName(answer.name()).c_str(),
                StateText(answer.state()).c_str());
  });
}

}  // namespace

void AddJobs(CLI::App& app, Context& context) {
  struct Flags {
    std::vector<std::string> states;
    std::vector<std::string> labels;
    std::string owner;
    int most = 50;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* jobs = app.add_subcommand("jobs", "list jobs, newest first");
  jobs->add_option("--state", flags->states, "only these states, e.g. running,queued")
      ->delimiter(',');
  jobs->add_option("--owner", flags->owner, "only this user's");
  jobs->add_option("--label", flags->labels, "key=value, may be repeated; all must hold");
  jobs->add_option("--limit", flags->most, "at most this many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  jobs->footer("Example: headcount jobs --state running");
  jobs->callback([&context, flags] {
    v1::ListJobsRequest request;
    request.set_parent(absl::StrCat("projects/", context.project));
    request.mutable_filter()->set_owner(flags->owner);
    for (const std::string& text : flags->states) {
      v1::Job::State state;
      if (!v1::Job::State_Parse(absl::AsciiStrToUpper(text), &state)) {
        return context.Fail(InvalidField("--state", text,
                                         "must be queued, starting, running, paused, cancelling, "
                                         "succeeded, failed or cancelled"));
      }
      request.mutable_filter()->add_states(state);
    }
    for (const std::string& label : flags->labels) {
      const size_t equals = label.find('=');
      if (equals == std::string::npos)
        return context.Fail(InvalidField("--label", label, "must be key=value"));
      (*request.mutable_filter()->mutable_labels())[label.substr(0, equals)] =
          label.substr(equals + 1);
    }
    ListJobs(context, request, flags->most);
  });

  AddSteering<v1::GetJobRequest>(app, context, "show", "all about one job",
                                 &v1::JobService::Stub::GetJob);
  AddSteering<v1::CancelJobRequest>(app, context, "cancel",
                                    "stop a job at the next batch; stored results stay",
                                    &v1::JobService::Stub::CancelJob);
  AddSteering<v1::PauseJobRequest>(app, context, "pause",
                                   "give its work to no worker until resumed",
                                   &v1::JobService::Stub::PauseJob);
  AddSteering<v1::ResumeJobRequest>(app, context, "resume", "go on with a paused job",
                                    &v1::JobService::Stub::ResumeJob);

  CLI::App* remove = app.add_subcommand("delete", "remove an ended job and its results");
  auto job = std::make_shared<std::string>();
  remove->add_option("job", *job, "job")->required();
  remove->footer("Example: headcount delete k3v9x2m4qp");
  remove->callback([&context, job] {
    v1::DeleteJobRequest request;
    request.set_name(context.JobName(*job));
    v1::DeleteJobResponse answer;
    const absl::Status status =
        context.Call(context.jobs(), &v1::JobService::Stub::DeleteJob, request, &answer);
    if (!status.ok()) return context.Fail(status);
    if (context.json) return context.PrintJson(answer);
    std::printf("%s: deleted\n", job->c_str());
  });
}

}  // namespace headcount::cli
