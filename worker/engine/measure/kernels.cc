// The list of kernels. See kernels.h.

#include "worker/engine/measure/kernels.h"

namespace headcount::engine {
namespace {

using catalog::Measurement;

constexpr AttentionExtras kNothing = {};
constexpr AttentionExtras kFirstWeight = {.first_weight = true};
constexpr AttentionExtras kEntropy = {.entropy = true};

constexpr MeasureKernel kKernels[] = {
    {Measurement::kFirstWeight, MeasureFirstWeight, kFirstWeight, false, Over::kMean,
     /*of_first_key=*/true},
    {Measurement::kEntropy, MeasureEntropy, kEntropy, false, Over::kMean},
    {Measurement::kFirstValue, MeasureFirstValue, kNothing, false, Over::kFirst},
    {Measurement::kValue, MeasureValue, kNothing, false, Over::kMean},
    {Measurement::kOutput, MeasureOutput, kNothing, false, Over::kMean},
    {Measurement::kLastOutput, MeasureLastOutput, kNothing, false, Over::kLast},
    {Measurement::kProjected, MeasureProjected, kNothing, true, Over::kMean},
};

bool Has(unsigned measurements, Measurement m) {
  return (measurements >> static_cast<int>(m) & 1u) != 0;
}

}  // namespace

std::span<const MeasureKernel> MeasureKernels() { return kKernels; }

AttentionExtras ExtrasFor(unsigned measurements) {
  AttentionExtras extras;
  for (const MeasureKernel& kernel : kKernels) {
    if (!Has(measurements, kernel.measurement)) continue;
    extras.first_weight |= kernel.extras.first_weight;
    extras.entropy |= kernel.extras.entropy;
  }
  return extras;
}

bool NeedsGram(unsigned measurements) {
  for (const MeasureKernel& kernel : kKernels) {
    if (Has(measurements, kernel.measurement) && kernel.needs_gram) return true;
  }
  return false;
}

}  // namespace headcount::engine
