// See checkpoint_check.h.

#include "server/catalog/checkpoint_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace headcount::server {
namespace {

absl::Status Refuse(const std::string& message) {
  return WithReason(absl::FailedPreconditionError(message), "CHECKPOINT_MISMATCH");
}

absl::Status CheckTensor(const catalog::Checkpoint& checkpoint, const std::string& name,
                         const std::vector<int64_t>& shape) {
  const auto found = checkpoint.tensors.find(name);
  const std::string expected = absl::StrJoin(shape, " x ");
  if (found == checkpoint.tensors.end()) {
    return Refuse(absl::StrCat("tensor ", name, " is missing; config.json makes it ", expected));
  }
  const catalog::TensorInfo& info = found->second.info;
  if (info.shape != shape) {
    return Refuse(absl::StrCat("tensor ", name, " is ", absl::StrJoin(info.shape, " x "),
                               "; config.json makes it ", expected));
  }
  switch (info.dtype) {
    case catalog::DType::kF32:
    case catalog::DType::kBF16:
    case catalog::DType::kF16:
      return absl::OkStatus();
    default: {
      const std::string_view type = catalog::DTypeName(info.dtype);
      return Refuse(absl::StrCat("tensor ", name, " has type ",
                                 absl::string_view(type.data(), type.size()),
                                 "; F32, BF16 and F16 can be run"));
    }
  }
}

}  // namespace

absl::Status CheckCheckpoint(const catalog::ModelConfig& config,
                             const catalog::Checkpoint& checkpoint) {
  const int64_t hidden = config.hidden_size;
  const int64_t query = int64_t{config.heads} * config.head_dim;
  const int64_t kv = int64_t{config.kv_heads} * config.head_dim;
  HC_RETURN_IF_ERROR(
      CheckTensor(checkpoint, "model.embed_tokens.weight", {config.vocab_size, hidden}));
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".self_attn.");
    HC_RETURN_IF_ERROR(CheckTensor(checkpoint, prefix + "q_proj.weight", {query, hidden}));
    HC_RETURN_IF_ERROR(CheckTensor(checkpoint, prefix + "k_proj.weight", {kv, hidden}));
    HC_RETURN_IF_ERROR(CheckTensor(checkpoint, prefix + "v_proj.weight", {kv, hidden}));
    HC_RETURN_IF_ERROR(CheckTensor(checkpoint, prefix + "o_proj.weight", {hidden, query}));
  }
  return absl::OkStatus();
}

}  // namespace headcount::server
