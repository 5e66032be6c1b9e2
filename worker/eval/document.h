// A rendered document: one question as text, before it is tokenised. Plain data.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headcount::eval {

struct Document {
  std::string task;  // lm-eval's task name: "piqa", "mmlu_anatomy"
  int64_t row = 0;   // from 0 in the split's file
  std::string context;
  // One a choice, in order, delimiter included; the request i is (Context(i), continuations[i]).
  // Empty: the context is measured and nothing is scored.
  std::vector<std::string> continuations;
  // Where the choices differ in their contexts: what each one's context goes on with. Else empty.
  std::vector<std::string> context_ends;
  std::vector<int32_t> choice_lengths;  // code points of each choice without the delimiter
  int gold = -1;                        // right choice; -1: none
  // Of a document whose context is to be continued: what the new text is compared with.
  std::optional<std::string> gold_text;
  // The one continuation is a whole text, read in windows that fill the model's context; nothing
  // comes before it. Its size is for perplexities.
  bool rolling = false;
  int64_t words = 0;
  int64_t bytes = 0;

  std::string id() const { return task + "/" + std::to_string(row); }
  std::string Context(size_t request) const {
    return context_ends.empty() ? context : context + context_ends[request];
  }
};

}  // namespace headcount::eval
