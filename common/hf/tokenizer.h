// A model's tokenizer: text to token ids and back, with the ids that Hugging Face's own library
// gives. The worker's prepare stage calls it. Immutable after Load: any number of threads may use
// one.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

struct HcHfTokenizer;

namespace headcount::hf {

class Tokenizer {
 public:
  // Reads tokenizer.json of a model's folder; tokenizer_config.json, special_tokens_map.json and
  // config.json say which token begins and ends a text. FAILED_PRECONDITION, naming the file, when
  // tokenizer.json is missing or malformed.
  static absl::StatusOr<Tokenizer> Load(const std::string& directory);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids in [0, VocabSize()). Special tokens written out in the text ("<|im_start|>") become their
  // ids in any case; add_special_tokens adds what the tokenizer puts around a text, such as a BOS.
  // INVALID_ARGUMENT: not UTF-8.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool add_special_tokens) const;

  // The text of ids, which may begin or end inside a UTF-8 character (shown as U+FFFD).
  // skip_special leaves special tokens out. INVALID_ARGUMENT: an id that is not in the tokenizer.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool skip_special) const;

  // The token as the vocabulary spells it (byte-level alphabet, not text); nothing for an unknown
  // id.
  std::optional<std::string> IdToToken(int32_t id) const;
  std::optional<int32_t> TokenToId(std::string_view token) const;

  // The highest id plus one, added tokens included. A model's embedding may have more rows.
  int VocabSize() const { return vocab_size_; }

  // As tokenizer_config.json names them, else as config.json numbers them (the first, of a list),
  // else nothing.
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  // The tokens that end a generated text: eos_id, and those of generation_config.json, else of
  // config.json. Ascending.
  const std::vector<int32_t>& end_ids() const { return end_ids_; }

  // Decode for what a model generated: as transformers does, ids that the tokenizer does not have
  // are left out (a model's embedding may have more rows).
  absl::StatusOr<std::string> DecodeGenerated(std::span<const int32_t> ids,
                                              bool skip_special) const;

 private:
  struct Free {
    void operator()(HcHfTokenizer* tokenizer) const;
  };

  explicit Tokenizer(HcHfTokenizer* tokenizer);

  std::unique_ptr<HcHfTokenizer, Free> tokenizer_;
  int vocab_size_ = 0;
  std::optional<int32_t> bos_id_;
  std::optional<int32_t> eos_id_;
  std::vector<int32_t> end_ids_;
};

}  // namespace headcount::hf
