// See weights.h.

#include "worker/engine/model/weights.h"

#include <numeric>
#include <set>

#include "ATen/ops/empty.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/engine/model/tensor_names.h"

namespace headcount::engine {
namespace {

// All tensors are compared with the config before any data is read.
absl::Status CheckTensors(const catalog::ModelConfig& config, const CheckpointReader& reader,
                          const std::vector<TensorSource>& sources) {
  std::set<std::string, std::less<>> expected;
  for (const TensorSource& source : sources) {
    for (size_t i = 0; i < source.names.size(); ++i) {
      HC_RETURN_IF_ERROR(reader.Check(source.names[i], source.shapes[i]));
      expected.insert(source.names[i]);
    }
  }
  constexpr size_t kNamed = 5;
  std::vector<std::string> unexpected;
  size_t count = 0;
  for (const auto& [name, tensor] : reader.checkpoint().tensors) {
    if (expected.contains(name) || IsIgnoredTensor(config, name)) continue;
    if (++count <= kNamed) unexpected.push_back(name);
  }
  if (count == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the checkpoint has ", count, " tensors that a ", config.model_type,
                   " model with this config.json does not have: ", absl::StrJoin(unexpected, ", "),
                   count > kNamed ? ", ..." : ""));
}

absl::StatusOr<at::Tensor> LoadOne(const TensorSource& source, const CheckpointReader& reader,
                                   c10::ScalarType dtype, c10::Device device) {
  std::vector<int64_t> shape = source.shapes[0];
  shape[0] = std::accumulate(source.shapes.begin(), source.shapes.end(), int64_t{0},
                             [](int64_t sum, const auto& part) { return sum + part[0]; });
  const at::Tensor whole = at::empty(shape, at::TensorOptions(dtype).device(device));
  int64_t row = 0;
  for (size_t i = 0; i < source.names.size(); ++i) {
    const int64_t rows = source.shapes[i][0];
    HC_RETURN_IF_ERROR(reader.Read(source.names[i], whole.narrow(0, row, rows)));
    row += rows;
  }
  return whole;
}

}  // namespace

absl::StatusOr<ModelWeights> LoadWeights(const catalog::ModelConfig& config,
                                         const CheckpointReader& reader, c10::ScalarType dtype,
                                         c10::Device device) {
  ModelWeights weights;
  weights.layers.resize(static_cast<size_t>(config.layers));
  const std::vector<TensorSource> sources = TensorSources(config, weights);
  HC_RETURN_IF_ERROR(CheckTensors(config, reader, sources));
  for (const TensorSource& source : sources) {
    HC_ASSIGN_OR_RETURN(*source.destination, LoadOne(source, reader, dtype, device));
    weights.bytes += static_cast<int64_t>(source.destination->nbytes());
  }
  if (config.tie_word_embeddings) weights.head = weights.embedding;
  return weights;
}

}  // namespace headcount::engine
