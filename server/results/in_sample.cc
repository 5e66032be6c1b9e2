// See in_sample.h.

#include "server/results/in_sample.h"

#include <algorithm>
#include <set>
#include <string>

#include "server/results/job_results.h"

namespace headcount::results {

bool InSample(store::JobStore& jobs, store::ArtifactStore& artifacts, const v1::Job& job,
              const v1::Manifest& manifest) {
  if (!job.has_sweep()) return false;
  if (job.sweep().calibrate_on().empty()) return true;
  const auto calibration = OpenResults(jobs, job.sweep().calibrate_on());
  if (!calibration.ok() || calibration->manifest_digest.empty()) return false;
  const auto other = ReadManifest(artifacts, calibration->manifest_digest);
  if (!other.ok()) return false;
  std::set<std::string> inputs;  // by the digests of their token ids
  for (const v1::ManifestSample& sample : (*other)->samples()) inputs.insert(sample.digest());
  return std::any_of(
      manifest.samples().begin(), manifest.samples().end(),
      [&](const v1::ManifestSample& sample) { return inputs.contains(sample.digest()); });
}

}  // namespace headcount::results
