// See cutter.h.

#include "server/plan/cutter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::plan {
namespace {

// Collects consecutive samples into blocks.
class Packer {
 public:
  explicit Packer(int limit) : limit_(limit) {}

  // Appends `samples` of `documents` whole documents, which stay together.
  void Add(int samples, int documents) {
    if (open_.samples() + samples > limit_) Close();
    open_.set_samples(open_.samples() + samples);
    open_.set_documents(open_.documents() + documents);
  }

  void Close() {
    if (open_.samples() == 0) return;
    const int64_t next = open_.first_sample() + open_.samples();
    blocks_.push_back(open_);
    open_.Clear();
    open_.set_first_sample(next);
  }

  std::vector<v1::SampleBlock> Take() {
    Close();
    return std::move(blocks_);
  }

 private:
  const int limit_;
  v1::SampleBlock open_;
  std::vector<v1::SampleBlock> blocks_;
};

// Sizes of a group's documents, in samples.
std::vector<int> DocumentSizes(const v1::Manifest& manifest, int first, int end) {
  std::vector<int> sizes;
  for (int i = first; i < end; ++i) {
    const bool same =
        i > first && manifest.samples(i).document() == manifest.samples(i - 1).document();
    if (same) {
      ++sizes.back();
    } else {
      sizes.push_back(1);
    }
  }
  return sizes;
}

absl::Status TooLarge(const v1::Manifest& manifest, int64_t document, int samples, int limit) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "document ", manifest.documents(static_cast<int>(document)).id(), " has ",
                        samples, " samples; a unit holds at most ", limit,
                        " (samples_per_unit of the server's configuration)")),
                    "DOCUMENT_TOO_LARGE");
}

int64_t RuleBlocks(const v1::StagePlan& plan) {
  if (plan.rules_per_unit() == 0) return 1;
  return (plan.rules_size() + plan.rules_per_unit() - 1) / plan.rules_per_unit();
}

}  // namespace

absl::StatusOr<std::vector<v1::SampleBlock>> CutSamples(const v1::Manifest& manifest,
                                                        int samples_per_unit) {
  if (manifest.samples().empty()) {
    return WithReason(absl::FailedPreconditionError("the task has no documents to run"),
                      "NO_SAMPLES");
  }
  Packer packer(samples_per_unit);
  for (int first = 0; first < manifest.samples_size();) {
    int end = first + 1;
    while (end < manifest.samples_size() &&
           manifest.samples(end).group() == manifest.samples(first).group()) {
      ++end;
    }
    const std::vector<int> documents = DocumentSizes(manifest, first, end);
    if (end - first <= samples_per_unit) {
      packer.Add(end - first, static_cast<int>(documents.size()));
    } else {
      packer.Close();
      int sample = first;
      for (int size : documents) {
        if (size > samples_per_unit) {
          return TooLarge(manifest, manifest.samples(sample).document(), size, samples_per_unit);
        }
        packer.Add(size, 1);
        sample += size;
      }
      packer.Close();
    }
    first = end;
  }
  return packer.Take();
}

absl::StatusOr<v1::StagePlan> CutStage(const v1::Manifest& manifest, int samples_per_unit,
                                       std::vector<v1::ResolvedRule> rules, int rules_per_unit) {
  HC_ASSIGN_OR_RETURN(std::vector<v1::SampleBlock> blocks, CutSamples(manifest, samples_per_unit));
  v1::StagePlan plan;
  plan.set_samples_per_unit(samples_per_unit);
  plan.set_documents(manifest.documents_size());
  for (v1::SampleBlock& block : blocks) *plan.add_sample_blocks() = std::move(block);
  if (!rules.empty()) plan.set_rules_per_unit(rules_per_unit);
  for (size_t i = 0; i < rules.size(); ++i) {
    rules[i].set_index(static_cast<int>(i));
    *plan.add_rules() = std::move(rules[i]);
  }
  return plan;
}

void ListUnits(int first, int end, v1::StagePlan* plan) {
  for (int rule = first; rule < end; rule += plan->rules_per_unit()) {
    for (const v1::SampleBlock& block : plan->sample_blocks()) {
      v1::UnitRange& unit = *plan->add_units();
      unit.set_unit(plan->units_size() - 1);
      unit.set_first_sample(block.first_sample());
      unit.set_samples(block.samples());
      unit.set_first_rule(rule);
      unit.set_rules(std::min(plan->rules_per_unit(), end - rule));
    }
  }
}

int LargestDocument(const v1::Manifest& manifest) {
  std::vector<int> samples(static_cast<size_t>(manifest.documents_size()), 0);
  int largest = 1;
  for (const v1::ManifestSample& sample : manifest.samples()) {
    largest = std::max(largest, ++samples[static_cast<size_t>(sample.document())]);
  }
  return largest;
}

v1::StagePlan PreparePlan() {
  v1::StagePlan plan;
  plan.add_sample_blocks();
  return plan;
}

int64_t UnitCount(const v1::StagePlan& plan) {
  if (!plan.units().empty()) return plan.units_size();
  return plan.sample_blocks_size() * RuleBlocks(plan);
}

int64_t RowCount(const v1::StagePlan& plan) {
  int64_t samples = 0;
  if (!plan.units().empty()) {
    for (const v1::UnitRange& unit : plan.units())
      samples += int64_t{unit.samples()} * unit.rules();
    return samples;
  }
  for (const v1::SampleBlock& block : plan.sample_blocks()) samples += block.samples();
  return samples * std::max(1, plan.rules_size());
}

absl::StatusOr<v1::UnitRange> RangeOfUnit(const v1::StagePlan& plan, int64_t unit) {
  const int64_t units = UnitCount(plan);
  if (unit < 0 || unit >= units) {
    return WithReason(
        absl::OutOfRangeError(absl::StrCat("unit ", unit, ": the stage has ", units, " units")),
        "OUT_OF_RANGE");
  }
  if (!plan.units().empty()) return plan.units(static_cast<int>(unit));
  const int64_t blocks = plan.sample_blocks_size();
  const v1::SampleBlock& block = plan.sample_blocks(static_cast<int>(unit % blocks));
  v1::UnitRange range;
  range.set_unit(unit);
  range.set_first_sample(block.first_sample());
  range.set_samples(block.samples());
  if (plan.rules_per_unit() > 0) {
    const int first_rule = static_cast<int>(unit / blocks) * plan.rules_per_unit();
    range.set_first_rule(first_rule);
    range.set_rules(std::min(plan.rules_per_unit(), plan.rules_size() - first_rule));
  }
  return range;
}

}  // namespace headcount::plan
