// See npy.h.

#include "server/export/npy.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/catalog/expression.h"
#include "common/catalog/scores.h"
#include "server/results/score_reader.h"

namespace headcount::exports {
namespace {

constexpr std::string_view kMeasurementPrefix = "measurement:";

absl::StatusOr<catalog::Expression> ExpressionOf(std::string_view score) {
  if (score.empty()) {
    return InvalidField("score", score, "scores.npy needs a score id or \"measurement:<id>\"");
  }
  if (score.starts_with(kMeasurementPrefix)) {
    const std::string_view id = score.substr(kMeasurementPrefix.size());
    if (!catalog::FindMeasurement(id)) {
      std::string known;
      for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(info.id));
      }
      return InvalidField("score", score.substr(0, 100),
                          absl::StrCat("is no measurement; known are ", known),
                          "UNKNOWN_MEASUREMENT");
    }
    return catalog::Expression::Parse(id);
  }
  HC_ASSIGN_OR_RETURN(const catalog::Score* found, catalog::FindScore(score));
  if (found->is_random()) {
    return InvalidField("score", score, "is drawn, not measured, and not stored");
  }
  return found->expression;
}

std::string Header(int64_t samples, int layers, int heads) {
  std::string dictionary = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                        samples, ", ", layers, ", ", heads, "), }");
  // Magic, version and length take 10 bytes; the data begin at a multiple of 64.
  dictionary.append(63 - (10 + dictionary.size()) % 64, ' ');
  dictionary.push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(dictionary.size() & 0xff));
  header.push_back(static_cast<char>(dictionary.size() >> 8));
  return header + dictionary;
}

absl::Status WriteError(const std::string& path) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(errno));
  return errno == ENOSPC ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
}

}  // namespace

absl::Status WriteScoresNpy(store::JobStore& jobs, store::ArtifactStore& artifacts,
                            const results::JobResults& results, std::string_view score,
                            const std::string& path) {
  HC_ASSIGN_OR_RETURN(const catalog::Expression expression, ExpressionOf(score));
  HC_ASSIGN_OR_RETURN(results::ScoreReader reader,
                      results::ScoreReader::Open(jobs, artifacts, results, {&expression}));
  int64_t samples = 0;
  for (const v1::SampleBlock& block : results.score->plan.sample_blocks()) {
    samples += block.samples();
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << Header(samples, reader.layers(), reader.heads());
  const std::vector<float> missing(
      static_cast<size_t>(reader.layers()) * static_cast<size_t>(reader.heads()),
      std::numeric_limits<float>::quiet_NaN());
  const auto write = [&file](const std::vector<float>& values) {
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  };
  int64_t next = 0;
  HC_RETURN_IF_ERROR(reader.ForEachSample([&](const results::ScoreReader::Sample& sample) {
    for (; next < sample.index; ++next) write(missing);
    write(sample.scores[0]);
    ++next;
  }));
  for (; next < samples; ++next) write(missing);
  file.close();
  return file.fail() ? WriteError(path) : absl::OkStatus();
}

}  // namespace headcount::exports
