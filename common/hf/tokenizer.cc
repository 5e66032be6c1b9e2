// Implementation of tokenizer.h over the Rust crate.

#include "common/hf/tokenizer.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/hf/ffi.h"
#include "common/hf/hf.h"
#include "common/hf/model_files.h"

namespace headcount::hf {
namespace {

constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;

absl::Status BadTokenizer(const std::string& path, std::string_view message) {
  return WithReason(absl::FailedPreconditionError(path + ": " + std::string(message)),
                    "BAD_TOKENIZER");
}

}  // namespace

void Tokenizer::Free::operator()(HcHfTokenizer* tokenizer) const {
  hc_hf_tokenizer_free(tokenizer);
}

Tokenizer::Tokenizer(HcHfTokenizer* tokenizer)
    : tokenizer_(tokenizer), vocab_size_(static_cast<int>(hc_hf_tokenizer_vocab_size(tokenizer))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

absl::StatusOr<Tokenizer> Tokenizer::Load(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  const absl::StatusOr<std::string> json = ReadFile(path, kMaxTokenizerBytes);
  if (absl::IsNotFound(json.status()))
    return BadTokenizer(path, "no such file; a fast tokenizer is needed");
  if (!json.ok()) return json.status();
  HcHfTokenizer* raw = nullptr;
  HcHfBytes error{};
  const HcHfCode code = hc_hf_tokenizer_new(internal::Data(*json), json->size(), &raw, &error);
  if (code != HC_HF_OK)
    return BadTokenizer(path, internal::TakeError(code, error).message().data());
  Tokenizer tokenizer(raw);

  HC_ASSIGN_OR_RETURN(const auto special, internal::ReadSpecialTokens(directory));
  auto find = [&](const char* token_key,
                  const char* id_key) -> absl::StatusOr<std::optional<int32_t>> {
    if (auto it = special.find(token_key); it != special.end()) {
      if (std::optional<int32_t> id = tokenizer.TokenToId(it->second); id.has_value()) return id;
    }
    HC_ASSIGN_OR_RETURN(const std::optional<int64_t> id,
                        internal::ReadConfigTokenId(directory, id_key));
    if (!id.has_value() || *id < 0 || *id >= tokenizer.VocabSize()) return std::nullopt;
    return static_cast<int32_t>(*id);
  };
  HC_ASSIGN_OR_RETURN(tokenizer.bos_id_, find("bos_token", "bos_token_id"));
  HC_ASSIGN_OR_RETURN(tokenizer.eos_id_, find("eos_token", "eos_token_id"));
  std::set<int32_t> ends;
  if (tokenizer.eos_id_.has_value()) ends.insert(*tokenizer.eos_id_);
  HC_ASSIGN_OR_RETURN(const std::vector<int64_t> configured, internal::ReadEndTokenIds(directory));
  for (const int64_t id : configured) {
    if (id >= 0 && id < tokenizer.VocabSize()) ends.insert(static_cast<int32_t>(id));
  }
  tokenizer.end_ids_.assign(ends.begin(), ends.end());
  return tokenizer;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                                       bool add_special_tokens) const {
  HcHfIds out{};
  HcHfBytes error{};
  const HcHfCode code = hc_hf_tokenizer_encode(tokenizer_.get(), internal::Data(text), text.size(),
                                               add_special_tokens, &out, &error);
  if (code != HC_HF_OK) return internal::TakeError(code, error);
  std::vector<int32_t> ids(out.data, out.data + out.size);
  hc_hf_ids_free(out);
  return ids;
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const int32_t> ids,
                                              bool skip_special) const {
  std::vector<uint32_t> unsigned_ids;
  unsigned_ids.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0) return absl::InvalidArgumentError(absl::StrCat("token id ", id, " is negative"));
    unsigned_ids.push_back(static_cast<uint32_t>(id));
  }
  HcHfBytes out{};
  HcHfBytes error{};
  const HcHfCode code = hc_hf_tokenizer_decode(tokenizer_.get(), unsigned_ids.data(),
                                               unsigned_ids.size(), skip_special, &out, &error);
  if (code != HC_HF_OK) return internal::TakeError(code, error);
  return internal::Take(out);
}

absl::StatusOr<std::string> Tokenizer::DecodeGenerated(std::span<const int32_t> ids,
                                                       bool skip_special) const {
  std::vector<int32_t> known;
  for (const int32_t id : ids) {
    if (IdToToken(id).has_value()) known.push_back(id);
  }
  return Decode(known, skip_special);
}

std::optional<std::string> Tokenizer::IdToToken(int32_t id) const {
  HcHfBytes out{};
  if (id < 0 || !hc_hf_tokenizer_id_to_token(tokenizer_.get(), static_cast<uint32_t>(id), &out))
    return std::nullopt;
  return internal::Take(out);
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  uint32_t id = 0;
  if (!hc_hf_tokenizer_token_to_id(tokenizer_.get(), internal::Data(token), token.size(), &id))
    return std::nullopt;
  return static_cast<int32_t>(id);
}

}  // namespace headcount::hf
