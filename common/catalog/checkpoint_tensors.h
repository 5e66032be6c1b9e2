// Which tensors a checkpoint of each family holds, by name and shape, and where they go: the one
// place that knows. The server checks a checkpoint's header against it when a job is created, the
// engine loads by it. Pure functions.
//
// Errors: FAILED_PRECONDITION, reason CHECKPOINT_MISMATCH, naming the tensor, for one that is
// missing, unexpected, of another shape than config.json asks for, or of a type that cannot be run.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/catalog/model_config.h"
#include "common/catalog/safetensors.h"

namespace headcount::catalog {

// What a tensor of the engine is for. Those from kAttentionNorm on exist once a layer.
enum class Part {
  kEmbedding,
  kPositions,
  kFinalNorm,
  kHead,
  kAttentionNorm,
  kAttentionOutputNorm,
  kMlpNorm,
  kMlpOutputNorm,
  kQNorm,
  kKNorm,
  kQkv,     // q, k and v, one below the other
  kOutput,  // W_O
  kGateUp,  // gate and up, one below the other; up alone where there is no gate
  kDown,
};

// How the engine's tensor lies in the file.
enum class Stored {
  kAsIs,
  kTransposed,
  kByHead,  // for each head its rows of q, k and v
};

// One tensor of the engine: the file's tensors `names`, which are put one below the other
// (dimension 0).
struct TensorSource {
  Part part = Part::kEmbedding;
  int layer = 0;
  bool bias = false;  // else the weight
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;  // one a name, as in the file
  Stored stored = Stored::kAsIs;
};

// All of them. The head is absent where it is tied to the embedding. `checkpoint` says whether
// names start with the family's prefix ("model.") or without, as files of the bare model do.
std::vector<TensorSource> TensorSources(const ModelConfig& config, const Checkpoint& checkpoint);

// That the checkpoint holds `sources` and nothing else but tables that files carry and no engine
// needs: rotary tables and causal masks of old files, a copy of a tied head.
absl::Status CheckTensors(const ModelConfig& config, const Checkpoint& checkpoint,
                          const std::vector<TensorSource>& sources);

}  // namespace headcount::catalog
