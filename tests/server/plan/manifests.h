// Small manifests for tests.

#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "headcount/v1/storage.pb.h"

namespace headcount::plan {

// One entry a group: the sizes, in samples, of its documents. A document of two or more samples
// scores one choice in each (PIQA); one of a single sample scores two choices in it (MMLU).
inline v1::Manifest MakeManifest(const std::vector<std::vector<int>>& groups) {
  v1::Manifest manifest;
  manifest.set_task("pairs");
  manifest.set_model("tiny");
  manifest.set_tokenizer_digest("tokenizer");
  manifest.set_requests_digest("requests");
  manifest.set_first_token("The");
  manifest.add_metrics("acc");
  for (size_t g = 0; g < groups.size(); ++g) {
    v1::ManifestGroup* group = manifest.add_groups();
    group->set_group(static_cast<int64_t>(g));
    group->add_prefix(static_cast<int>(g) % 50);
    for (int samples : groups[g]) {
      const int index = manifest.documents_size();
      v1::ManifestDocument* document = manifest.add_documents();
      document->set_id(absl::StrCat("pairs/", index));
      document->set_subtask("pairs");
      document->set_gold(index % 2);
      for (int i = 0; i < std::max(2, samples); ++i) document->add_choice_lengths(3 + i);
      for (int request = 0; request < samples; ++request) {
        v1::ManifestSample* sample = manifest.add_samples();
        sample->set_id(absl::StrCat("pairs/", index, "/", request));
        sample->set_document(index);
        sample->set_request(request);
        sample->set_group(static_cast<int64_t>(g));
        sample->add_suffix(10 + index % 50);
        sample->add_suffix(60 + request);
        sample->set_scored(1);
        const int choices = samples == 1 ? 2 : 1;
        for (int c = 0; c < choices; ++c) {
          sample->add_choices(samples == 1 ? c : request);
          sample->add_targets(90 + c);
        }
      }
    }
  }
  manifest.set_longest_sample(3);
  return manifest;
}

// `documents` PIQA-like documents: two samples and one group each.
inline v1::Manifest Pairs(int documents) {
  return MakeManifest(std::vector<std::vector<int>>(documents, {2}));
}

}  // namespace headcount::plan
