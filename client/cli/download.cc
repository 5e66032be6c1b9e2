// `headcount download`: results as files. A download that breaks off is resumed where it stopped;
// each piece's checksum is compared before it is written, and a file gets its name only when it is
// whole.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/table.h"
#include "common/base/digest.h"
#include "common/base/errors.h"

namespace headcount::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string job;
  std::vector<std::string> artifacts;
  std::vector<std::string> scores;
  std::string out;
};

// One artifact into `path`. UNAVAILABLE is tried again from where it broke off.
absl::Status Fetch(Context& context, v1::DownloadArtifactRequest request, const fs::path& path) {
  const fs::path partial = path.string() + ".part";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  if (!file) return absl::PermissionDeniedError(absl::StrCat("cannot write ", partial.string()));
  constexpr int kTries = 8;
  int64_t written = 0, total = -1;
  absl::Status status;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(200) * (1 << attempt));
    request.set_offset(written);
    grpc::ClientContext call;
    context.Prepare(&call, std::chrono::seconds(0));
    auto reader = context.results().DownloadArtifact(&call, request);
    v1::ArtifactChunk chunk;
    bool broken = false;
    while (reader->Read(&chunk)) {
      broken = chunk.offset() != written || chunk.crc32c() != Crc32c(chunk.data());
      if (broken) break;
      file.write(chunk.data().data(), static_cast<std::streamsize>(chunk.data().size()));
      written += static_cast<int64_t>(chunk.data().size());
      total = chunk.total_bytes();
    }
    if (broken) call.TryCancel();
    status = context.FromCall(reader->Finish());
    if (broken) status = absl::UnavailableError("a piece arrived damaged");
    if (status.code() != absl::StatusCode::kUnavailable) break;
  }
  file.close();
  if (status.ok() && (!file || (total >= 0 && written != total))) {
    status =
        absl::ResourceExhaustedError(absl::StrCat("could not write all of ", partial.string()));
  }
  std::error_code error;
  if (status.ok()) {
    fs::rename(partial, path, error);
    if (error)
      status = absl::PermissionDeniedError(
          absl::StrCat("cannot write ", path.string(), ": ", error.message()));
  }
  if (!status.ok()) fs::remove(partial, error);
  return status;
}

void Download(Context& context, const Flags& flags) {
  const std::string job = context.JobName(flags.job);
  const fs::path folder = flags.out.empty() ? Context::ShortName(job) : flags.out;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return context.Fail(absl::PermissionDeniedError(
        absl::StrCat("cannot make ", folder.string(), ": ", error.message())));
  }
  std::vector<std::string> artifacts = flags.artifacts;
  const bool all = artifacts.empty();
  if (all) artifacts = {"scores.npy", "samples.parquet", "curves.parquet", "job.json"};
  int fetched = 0;
  for (const std::string& artifact : artifacts) {
    std::vector<std::string> scores = {""};
    if (artifact == "scores.npy")
      scores = flags.scores.empty() ? std::vector<std::string>{"output_norm_ln"} : flags.scores;
    for (const std::string& score : scores) {
      v1::DownloadArtifactRequest request;
      request.set_job(job);
      request.set_artifact(artifact);
      request.set_score(score);
      std::string name = artifact;
      if (artifact == "scores.npy") {
        std::string safe = score;
        for (char& c : safe) c = c == ':' || c == '/' ? '-' : c;
        name = absl::StrCat("scores.", safe, ".npy");
      }
      const absl::Status status = Fetch(context, request, folder / name);
      // Asked for everything: what this kind of job does not have is left out.
      if (all && status.code() == absl::StatusCode::kFailedPrecondition) continue;
      if (!status.ok()) return context.Fail(Annotate(status, name));
      ++fetched;
      const auto size = fs::file_size(folder / name, error);
      if (context.json) {
        std::printf("{\"file\": \"%s\", \"bytes\": %llu}\n", (folder / name).c_str(),
                    static_cast<unsigned long long>(size));
      } else {
        std::printf("%s  %llu bytes\n", (folder / name).c_str(),
                    static_cast<unsigned long long>(size));
      }
    }
  }
  if (fetched == 0)
    context.Fail(absl::FailedPreconditionError("nothing to download yet: no results are stored"));
}

}  // namespace

void AddDownload(CLI::App& app, Context& context) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("download", "results as files: NumPy, Parquet, JSON");
  command->add_option("job", flags->job, "job")->required();
  command
      ->add_option("--artifact", flags->artifacts,
                   "scores.npy, samples.parquet, curves.parquet, job.json (default: all)")
      ->delimiter(',');
  command
      ->add_option("--score", flags->scores,
                   "for scores.npy: score ids, or measurement:ID, with commas between them")
      ->delimiter(',');
  command->add_option("-o,--out", flags->out, "folder (default: the job's name)");
  command->footer(
      "Example: headcount download k3v9x2m4qp -o results --score "
      "output_norm_ln,measurement:entropy");
  command->callback([&context, flags] { Download(context, *flags); });
}

}  // namespace headcount::cli
