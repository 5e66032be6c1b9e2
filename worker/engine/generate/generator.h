// Continues the prompts of one batch side by side, token by token, until each has ended. Every step
// measures and decides over prompt and generated tokens, exactly as if all of it were computed
// again; what is computed is what the rows' caches lack (see layer_cache.h).
//
// Called by engine.cc. One thread; made once a batch. Throws libtorch's exceptions (see
// tensor/torch_guard.h).

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/engine.h"
#include "worker/engine/generate/layer_cache.h"
#include "worker/engine/intervene/decider.h"
#include "worker/engine/intervene/interventions.h"
#include "worker/engine/model/transformer.h"

namespace headcount::engine {

// Rows that may generate side by side: with room in `max_cache_bytes` for two histories of the
// longest one each, from 1 to kMostRowsAbreast. `element_bytes` is the size of a number of the
// model's type.
inline constexpr int64_t kMostRowsAbreast = 64;
int64_t RowsAbreast(const GenerateUnit& unit, const catalog::ModelConfig& config,
                    int64_t element_bytes, int64_t max_cache_bytes);

struct GeneratorLimits {
  int64_t max_tokens = 0;       // computed side by side, while prompts are read
  int64_t max_cache_bytes = 0;  // of one row
  bool keep_steps = true;       // false: every step computes everything
};

class Generator {
 public:
  // `rows` of the unit, both of which outlive the generator.
  Generator(Transformer& model, const GenerateUnit& unit, std::span<const int> rows,
            const GeneratorLimits& limits);

  // Fills results[i] for the i-th row. CANCELLED when `cancel` is set between two steps.
  absl::Status Run(std::span<GeneratedRow* const> results, const CancelFlag& cancel);

  // Tokens computed, summed over the layers.
  int64_t computed() const { return computed_; }

 private:
  struct State {
    std::vector<int32_t> tokens;  // prompt, then what was generated
    size_t prompt = 0;
    size_t unit_row = 0;  // which row of the unit this is
    LayerCache root;
    std::vector<std::string> codes;  // of the layers, at the last step
    bool ended = false;
  };

  // The rows of one step, and where each of them is in its tree.
  struct Step {
    std::vector<int> rows;
    std::vector<LayerCache*> caches;
  };

  bool Frozen() const;
  std::vector<int> NextGroup(std::span<const int> active) const;
  void Advance(const std::vector<int>& rows, std::span<GeneratedRow* const> results);
  Packing PackMissing(const Step& step) const;
  // What becomes of the rows' heads: a code a head, see intervene/interventions.h.
  std::vector<std::string> Decide(const LayerHeads& heads, const Step& step,
                                  std::span<GeneratedRow* const> results);
  MeasurementTensors Measure(const LayerHeads& heads, const Step& step);
  void Keep(const LayerHeads& heads, const at::Tensor& x, const Step& step);
  at::Tensor FirstValues(const Step& step) const;
  at::Tensor ToTensor(const std::vector<std::string>& codes) const;
  void Choose(const at::Tensor& hidden, const Step& step, std::span<GeneratedRow* const> results);

  Transformer& model_;
  const GenerateUnit& unit_;
  GeneratorLimits limits_;
  std::vector<State> states_;
  std::vector<Row> decider_rows_;
  Decider decider_;
  Interventions interventions_;
  int64_t step_ = 0;
  int64_t computed_ = 0;
};

}  // namespace headcount::engine
