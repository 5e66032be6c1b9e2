// See one_pass_rows.h.

#include "worker/engine/attention/one_pass_rows.h"

#include <cmath>
#include <cstring>

namespace headcount::engine {
namespace {

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

// Below this exp is 0 in float32 for all that follows from it.
constexpr float kLowest = -87.0f;

#define HC_INLINE inline __attribute__((always_inline))

HC_INLINE void Load(const float* from, Floats& to) { std::memcpy(&to, from, sizeof to); }
HC_INLINE void Store(const Floats& from, float* to) { std::memcpy(to, &from, sizeof from); }

// exp(x) for x in [kLowest, 0], to 2 units in the last place: 2^n by the exponent's bits, the rest,
// in
// [-ln 2 / 2, ln 2 / 2], by its Taylor polynomial.
HC_INLINE void Exp(const Floats& x, Floats& out) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  // Adding it leaves the nearest whole number in the low bits of the sum.
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23
  const Floats shifted = x * kLog2E + kRound;
  const Floats n = shifted - kRound;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  Floats p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + (127 << 23);
  Floats power;
  std::memcpy(&power, &bits, sizeof power);
  out = p * power;
}

HC_INLINE float Run(float* logits, int64_t count, SoftmaxState& state) {
  Floats most;
  Load(logits, most);
  Floats s;
  for (int64_t i = kLanes; i < count; i += kLanes) {
    Load(logits + i, s);
    most = s > most ? s : most;
  }
  float max = state.max;
  for (int64_t i = 0; i < kLanes; ++i) max = most[i] > max ? most[i] : max;

  Floats sum = {}, weighted = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    Load(logits + i, s);
    Floats x = s - max;
    x = x < kLowest ? Floats{} + kLowest : x;
    Floats e;
    Exp(x, e);
    e = x <= kLowest ? Floats{} : e;  // false for NaN, which stays
    sum += e;
    weighted += e * x;
    Store(e, logits + i);
  }
  const float change = state.max - max;
  const float correction = std::exp(change);
  state.weighted = correction * (state.weighted + change * state.sum);
  state.sum *= correction;
  state.max = max;
  for (int64_t i = 0; i < kLanes; ++i) {
    state.sum += sum[i];
    state.weighted += weighted[i];
  }
  return correction;
}

// tanh x = (1 - e) / (1 + e) with e = exp(-2 |x|), and near 0, where that cancels, its Taylor
// polynomial.
HC_INLINE void Cap(float* logits, int64_t count, float cap) {
  constexpr float kNearZero = 0.3f;
  for (int64_t i = 0; i < count; i += kLanes) {
    Floats s;
    Load(logits + i, s);
    const Floats x = s / cap;
    const Floats size = x < 0.0f ? -x : x;
    Floats power = size * -2.0f, e;
    power = power < kLowest ? Floats{} + kLowest : power;
    Exp(power, e);
    const Floats far = (1.0f - e) / (1.0f + e);
    const Floats square = x * x;
    Floats near = square * (-1382.0f / 155925) + 62.0f / 2835;
    near = near * square - 17.0f / 315;
    near = near * square + 2.0f / 15;
    near = near * square - 1.0f / 3;
    near = near * square * x + x;
    const Floats out = size < kNearZero ? near : (x < 0.0f ? -far : far);
    Store(out * cap, logits + i);
  }
}

float SoftmaxPlain(float* logits, int64_t count, SoftmaxState& state) {
  return Run(logits, count, state);
}
void CapPlain(float* logits, int64_t count, float cap) { Cap(logits, count, cap); }

#if defined(__x86_64__)
#define HC_AVX2 __attribute__((target("avx2,fma")))
#define HC_AVX512 __attribute__((target("avx512f")))
HC_AVX2 float SoftmaxAvx2(float* logits, int64_t count, SoftmaxState& state) {
  return Run(logits, count, state);
}
HC_AVX2 void CapAvx2(float* logits, int64_t count, float cap) { Cap(logits, count, cap); }
HC_AVX512 float SoftmaxAvx512(float* logits, int64_t count, SoftmaxState& state) {
  return Run(logits, count, state);
}
HC_AVX512 void CapAvx512(float* logits, int64_t count, float cap) { Cap(logits, count, cap); }
#endif

}  // namespace

int RowKernelVersions(RowKernels (&versions)[3]) {
  int count = 0;
  versions[count++] = {"plain", SoftmaxPlain, CapPlain};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    versions[count++] = {"avx2", SoftmaxAvx2, CapAvx2};
  }
  if (__builtin_cpu_supports("avx512f")) versions[count++] = {"avx512", SoftmaxAvx512, CapAvx512};
#endif
  return count;
}

const RowKernels& BestRowKernels() {
  static const RowKernels best = [] {
    RowKernels versions[3];
    return versions[RowKernelVersions(versions) - 1];
  }();
  return best;
}

}  // namespace headcount::engine
