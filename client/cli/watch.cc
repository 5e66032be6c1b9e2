// See watch.h.

#include "client/cli/watch.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/event_printer.h"
#include "common/base/clock.h"
#include "common/base/errors.h"

namespace headcount::cli {
namespace {

bool Terminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

// Worth trying again with the token: the server is away, restarting, or cut off a slow reader.
bool Retry(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || ReasonOf(status) == "WATCHER_TOO_SLOW";
}

}  // namespace

bool Watch(Context& context, const std::string& job_name, const WatchOptions& options) {
  Clock& clock = Clock::System();
  EventPrinter printer(context.style(), clock, options.quiet || context.json);
  std::string token = options.resume_token;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  std::string error;
  Clock::Duration away_since = clock.Monotonic();
  std::chrono::milliseconds backoff(200);
  bool told = false;

  while (true) {
    grpc::ClientContext call;
    context.Prepare(&call, std::chrono::seconds(0));
    v1::WatchJobRequest request;
    request.set_name(job_name);
    request.set_resume_token(token);
    request.set_quiet(options.quiet);
    std::unique_ptr<grpc::ClientReader<v1::JobEvent>> reader =
        context.jobs().WatchJob(&call, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      if (told) printer.Note("connected again");
      told = false;
      backoff = std::chrono::milliseconds(200);
      away_since = clock.Monotonic();
      if (!event.resume_token().empty()) token = event.resume_token();
      if (event.has_snapshot()) {
        state = event.snapshot().state();
        error = event.snapshot().error().message();
      }
      if (event.has_state_changed()) {
        state = event.state_changed().to();
        error = event.state_changed().error().message();
      }
      if (context.json) {
        context.PrintJson(event);
      } else {
        printer.Print(event);
      }
    }
    const absl::Status status = context.FromCall(reader->Finish());
    if (status.ok() && Terminal(state)) break;
    if (!status.ok() && !Retry(status)) {
      context.Fail(status);
      return false;
    }
    const auto away = clock.Monotonic() - away_since;
    if (away > options.patience) {
      context.Fail(status.ok() ? absl::UnavailableError("the stream ended before the job did")
                               : status);
      return false;
    }
    if (!told)
      printer.Note(absl::StrCat("lost the connection to ", context.server, "; trying again"));
    told = true;
    std::this_thread::sleep_for(backoff);
    backoff = std::min(backoff * 8 / 5, std::chrono::milliseconds(5'000));
  }
  if (state == v1::Job::FAILED) context.exit_code = kJobFailed;
  if (state == v1::Job::CANCELLED) context.exit_code = kCancelled;
  return state == v1::Job::SUCCEEDED;
}

void AddWatch(CLI::App& app, Context& context) {
  struct Flags {
    std::string job;
    std::string after;
    WatchOptions options;
    int patience = 600;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("watch", "follow a job to its end; survives a restart of the server");
  command->footer(
      "Example: headcount watch k3v9x2m4qp\nEvery event is printed once. Exit code 1: the job "
      "failed, 6: it was cancelled.");
  command->add_option("job", flags->job, "job")->required();
  command->add_flag("--quiet", flags->options.quiet, "no progress, only what happened");
  command->add_option("--after", flags->after,
                      "go on after this resume_token (as --json prints it)");
  command->add_option("--patience", flags->patience, "seconds the server may be away")
      ->capture_default_str();
  command->callback([flags, &context] {
    flags->options.patience = std::chrono::seconds(flags->patience);
    if (!flags->after.empty() &&
        !absl::Base64Unescape(flags->after, &flags->options.resume_token)) {
      context.Fail(InvalidField("--after", flags->after,
                                "is not a resume_token as printed by --json (base64)"));
      return;
    }
    Watch(context, context.JobName(flags->job), flags->options);
  });
}

}  // namespace headcount::cli
