// The program `headcount`: submits jobs to a headcountd, watches them and shows their results.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "client/cli/commands.h"
#include "client/cli/context.h"

#ifndef HEADCOUNT_VERSION
#error "HEADCOUNT_VERSION is set by the build"
#endif

namespace {

constexpr char kFooter[] = R"(Example, from nothing to a picture:
  headcount submit sweep --model SmolLM2-135M-Instruct --task everyday --limit 20 --scores output_norm_ln --watch
  headcount curves JOB
  headcount heads JOB --score output_norm_ln

Exit codes: 0 done, 1 the watched job failed, 2 wrong command line, 3 refused by the server, 4 not found,
5 no server, 6 the watched job was cancelled, 7 a bug or damaged data on the server,
8 rerun found other results.)";

}  // namespace

int main(int argc, char** argv) {
  headcount::cli::Context context;
  CLI::App app("Which attention heads of a language model do nothing? Asks a headcountd.");
  app.footer(kFooter);
  app.set_version_flag("--version", "headcount " HEADCOUNT_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--server", context.server, "address of headcountd")
      ->envname("HEADCOUNT_SERVER")
      ->capture_default_str();
  app.add_option("--project", context.project, "project of job names given in short")
      ->capture_default_str();
  app.add_option("--user", context.user, "who asks (default: the login name)")
      ->envname("HEADCOUNT_USER");
  app.add_flag("--json", context.json,
               "print JSON, one object a line, field names as in proto/headcount/v1");
  app.add_option("--color", context.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();

  headcount::cli::AddSubmit(app, context);
  headcount::cli::AddWatch(app, context);
  headcount::cli::AddJobs(app, context);
  headcount::cli::AddCurves(app, context);
  headcount::cli::AddTable(app, context);
  headcount::cli::AddPaper(app, context);
  headcount::cli::AddFrontier(app, context);
  headcount::cli::AddKnockout(app, context);
  headcount::cli::AddProbe(app, context);
  headcount::cli::AddHeads(app, context);
  headcount::cli::AddInactivity(app, context);
  headcount::cli::AddCompare(app, context);
  headcount::cli::AddSamples(app, context);
  headcount::cli::AddDownload(app, context);
  headcount::cli::AddRerun(app, context);
  headcount::cli::AddCatalog(app, context);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return headcount::cli::kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "headcount: %s\n", error.what());
    return headcount::cli::kInternal;
  }
  return context.exit_code;
}
