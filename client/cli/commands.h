// The CLI's commands: each function adds its subcommands to the application. main.cc calls them in
// the order in which
// --help shows them. Callbacks run on the main thread and leave their exit code in the context.

#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/context.h"

namespace headcount::cli {

void AddSubmit(CLI::App& app, Context& context);      // submit score | ablate | sweep | ...
void AddWatch(CLI::App& app, Context& context);       // watch
void AddJobs(CLI::App& app, Context& context);        // jobs, show, cancel, pause, resume, delete
void AddCurves(CLI::App& app, Context& context);      // curves
void AddTable(CLI::App& app, Context& context);       // table
void AddPaper(CLI::App& app, Context& context);       // paper
void AddFrontier(CLI::App& app, Context& context);    // frontier
void AddKnockout(CLI::App& app, Context& context);    // knockout
void AddProbe(CLI::App& app, Context& context);       // probe
void AddCompare(CLI::App& app, Context& context);     // compare
void AddInactivity(CLI::App& app, Context& context);  // inactivity
void AddHeads(CLI::App& app, Context& context);       // heads, thresholds
void AddSamples(CLI::App& app, Context& context);     // samples
void AddDownload(CLI::App& app, Context& context);    // download
void AddRerun(CLI::App& app, Context& context);       // rerun
void AddCatalog(CLI::App& app, Context& context);     // models, scores, tasks, server

}  // namespace headcount::cli
