// The inner loops of one-pass attention: softmax numerators of one query over a block of keys, with
// the sums that its normaliser and entropy need. Called by one_pass.cc alone.
//
// Written with the compiler's vector types: one text, compiled for AVX-512, for AVX2 with FMA, and
// for any machine; which one runs is chosen once, by what the processor has. Pure functions.

#pragma once

#include <cstdint>

namespace headcount::engine {

// Rows of logits are padded to a multiple of this.
inline constexpr int64_t kLanes = 16;

// Below every real logit; stands in for keys that a query does not see. Finite, so that differences
// are.
inline constexpr float kHidden = -1e30f;

// Over the keys seen so far, with s the logits and m their maximum.
struct SoftmaxState {
  float max = kHidden;  // m
  float sum = 0;        // sum of exp(s - m)
  float weighted = 0;   // sum of exp(s - m) (s - m)
};

// Replaces `count` logits (a multiple of kLanes) by exp(s - m), m being the maximum with those seen
// before; kHidden gives 0, NaN stays NaN. Returns what sums and outputs from before must be
// multiplied with, exp(old m - m); `state` itself is brought up to date.
using SoftmaxRow = float (*)(float* logits, int64_t count, SoftmaxState& state);

// Replaces `count` logits s (a multiple of kLanes) by cap tanh(s / cap), to 3e-7 of it.
using SoftCapRow = void (*)(float* logits, int64_t count, float cap);

struct RowKernels {
  const char* name;
  SoftmaxRow softmax;
  SoftCapRow soft_cap;
};

// The fastest version that this processor runs.
const RowKernels& BestRowKernels();

// Every version that this processor runs, for tests; the plain one comes first.
int RowKernelVersions(RowKernels (&versions)[3]);

}  // namespace headcount::engine
