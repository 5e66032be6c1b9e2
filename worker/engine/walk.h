// Takes a batch through all layers. Rows that share a history go together; where a layer decides
// differently for them they part, and each history goes on by itself. When the parted histories
// outgrow the token budget they are taken one piece after the other, depth first, so that memory
// stays bounded and nothing shared is computed twice.
//
// Called by engine.cc. One thread. Throws libtorch's exceptions (see tensor/torch_guard.h).

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/engine/intervene/interventions.h"
#include "worker/engine/model/transformer.h"

namespace headcount::engine {

// Reads every layer's heads and says which ones the rows lose.
class LayerWatcher {
 public:
  virtual ~LayerWatcher() = default;
  // What attention shall take along in this layer for the packing's rows.
  virtual AttentionExtras Extras(int layer, const Packing& packing) const = 0;
  // Between attention and W_O: [rows of the packing, heads] codes of interventions(); undefined:
  // every head keeps its output.
  virtual at::Tensor OnHeads(const LayerHeads& heads) = 0;
  virtual const Interventions& interventions() const = 0;
};

struct WalkInput {
  Layout layout;
  std::span<const int32_t> token_ids;  // of the trunks, then of the branches
  // A row of the batch: hidden states of so many of its last tokens are wanted.
  std::span<const int> wanted;
  int64_t max_tokens = 0;
};

// Told once for each row of which something is wanted: `hidden` [sum of wanted, hidden] holds the
// states after the last layer of `rows` (of the batch), row after row, in the order of their
// tokens.
using WalkEnd = std::function<void(std::span<const int> rows, const at::Tensor& hidden)>;

// Returns the tokens computed, summed over the layers. `watcher` may be null: the plain model.
// CANCELLED when `cancel` is set between two layers.
absl::StatusOr<int64_t> Walk(Transformer& model, const WalkInput& input, LayerWatcher* watcher,
                             const CancelFlag& cancel, const WalkEnd& end);

}  // namespace headcount::engine
