// One kernel a measurement: from what a layer's heads did to one float32 number for each row and
// query head. The list below is explicit; a test fails for a measurement of the catalogue without a
// kernel.
//
// Kernels are pure functions of one layer. Means run over all tokens of a row, in float32 whatever
// the model's type. They throw libtorch's exceptions (see torch_guard.h).

#pragma once

#include <functional>
#include <span>

#include "ATen/core/Tensor.h"
#include "common/catalog/measurements.h"
#include "worker/engine/attention/attention.h"
#include "worker/engine/model/packing.h"

namespace headcount::engine {

struct MeasureInput {
  const Packing& packing;
  const at::Tensor& v;              // [tokens, kv_heads, head_dim]
  const AttentionOutput& attended;  // z before any intervention in this layer
  const at::Tensor& gram;           // Transformer::Gram of the layer; undefined unless asked for
};

// Which tokens of an input a measurement speaks of. Kernels see the tokens of this step;
// generation, which computes an input bit by bit, joins what they gave (see
// generate/layer_cache.h).
enum class Over {
  kMean,   // the mean over all: the sum over this step's tokens by the whole input's length
  kFirst,  // position 0
  kLast,
};

struct MeasureKernel {
  catalog::Measurement measurement;
  at::Tensor (*run)(const MeasureInput& input);  // [rows, heads] float32
  AttentionExtras extras;                        // what it needs from attention
  bool needs_gram;
  Over over;
  bool of_first_key = false;  // speaks of tokens that see position 0 alone (OfTokensThatSeeFirst)
};

// Each measurement once, in the order of catalog::Measurement.
std::span<const MeasureKernel> MeasureKernels();

// The union of what the kernels of `measurements` (bit m: measurement m) need.
AttentionExtras ExtrasFor(unsigned measurements);
bool NeedsGram(unsigned measurements);

// Under a window of `window` keys the first so many tokens of an input see position 0. Turns means
// over all tokens [rows, heads], in which the others are 0, into means over those; NaN, not
// applicable, where they are fewer than half. The same where `window` is 0.
at::Tensor OfTokensThatSeeFirst(const at::Tensor& means, const Packing& packing, int64_t window);
// The rows for which that is not applicable: [rows, 1] bool; undefined: it is for all.
at::Tensor RowsThatLoseFirst(const Packing& packing, int64_t window);

at::Tensor MeasureFirstWeight(const MeasureInput& input);
at::Tensor MeasureEntropy(const MeasureInput& input);
at::Tensor MeasureFirstValue(const MeasureInput& input);
at::Tensor MeasureValue(const MeasureInput& input);
at::Tensor MeasureOutput(const MeasureInput& input);
at::Tensor MeasureLastOutput(const MeasureInput& input);
at::Tensor MeasureProjected(const MeasureInput& input);

}  // namespace headcount::engine
