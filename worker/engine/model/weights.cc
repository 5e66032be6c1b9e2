// See weights.h.

#include "worker/engine/model/weights.h"

#include <numeric>

#include "ATen/ops/empty.h"
#include "common/base/status_macros.h"
#include "common/catalog/checkpoint_tensors.h"

namespace headcount::engine {
namespace {

using catalog::Part;
using catalog::Stored;
using catalog::TensorSource;

at::Tensor& Of(NormWeights& norm, bool bias) { return bias ? norm.bias : norm.weight; }

// Where a tensor goes; null for none.
at::Tensor& Destination(const TensorSource& source, ModelWeights& weights) {
  const bool bias = source.bias;
  LayerWeights& layer =
      weights.layers[static_cast<size_t>(source.part < Part::kAttentionNorm ? 0 : source.layer)];
  switch (source.part) {
    case Part::kEmbedding:
      return weights.embedding;
    case Part::kPositions:
      return weights.positions;
    case Part::kFinalNorm:
      return Of(weights.final_norm, bias);
    case Part::kHead:
      return weights.head;
    case Part::kAttentionNorm:
      return Of(layer.attention_norm, bias);
    case Part::kAttentionOutputNorm:
      return Of(layer.attention_output_norm, bias);
    case Part::kMlpNorm:
      return Of(layer.mlp_norm, bias);
    case Part::kMlpOutputNorm:
      return Of(layer.mlp_output_norm, bias);
    case Part::kQNorm:
      return Of(layer.q_norm, bias);
    case Part::kKNorm:
      return Of(layer.k_norm, bias);
    case Part::kQkv:
      return bias ? layer.qkv_bias : layer.qkv;
    case Part::kOutput:
      return bias ? layer.output_bias : layer.output;
    case Part::kGateUp:
      return bias ? layer.gate_up_bias : layer.gate_up;
    case Part::kDown:
      return bias ? layer.down_bias : layer.down;
  }
  return weights.embedding;  // not reached: the switch is complete
}

bool IsNorm(Part part) {
  return part == Part::kFinalNorm || (part >= Part::kAttentionNorm && part <= Part::kKNorm);
}

// As the engine uses it.
at::Tensor Arranged(const at::Tensor& whole, Stored stored, int64_t heads) {
  switch (stored) {
    case Stored::kAsIs:
      return whole;
    case Stored::kTransposed:
      return whole.t().contiguous();
    case Stored::kByHead:
      return whole.unflatten(0, {heads, 3, whole.size(0) / (3 * heads)})
          .transpose(0, 1)
          .flatten(0, 2)
          .contiguous();
  }
  return whole;
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
  const std::vector<TensorSource> sources = catalog::TensorSources(config, reader.checkpoint());
  HC_RETURN_IF_ERROR(catalog::CheckTensors(config, reader.checkpoint(), sources));
  const bool plus_one = config.family->norm_kind == catalog::NormKind::kRmsPlusOne;
  for (const TensorSource& source : sources) {
    const bool norm = IsNorm(source.part);
    HC_ASSIGN_OR_RETURN(at::Tensor tensor,
                        LoadOne(source, reader, norm ? at::kFloat : dtype, device));
    if (norm && plus_one) tensor.add_(1);
    tensor = Arranged(tensor, source.stored, config.heads);
    weights.bytes += static_cast<int64_t>(tensor.nbytes());
    Destination(source, weights) = std::move(tensor);
  }
  if (config.tie_word_embeddings) weights.head = weights.embedding;
  return weights;
}

}  // namespace headcount::engine
