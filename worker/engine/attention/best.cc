// Which implementation of attention runs where.

#include "worker/engine/attention/attention.h"

namespace headcount::engine {

std::unique_ptr<Attention> MakeBestAttention(c10::Device device, c10::ScalarType dtype) {
#if defined(__x86_64__)  // where libtorch is known to bring the BLAS that one-pass calls
  if (device.is_cpu() && dtype == c10::ScalarType::Float) return MakeOnePassAttention();
#endif
  return MakeFlashAttention();
}

}  // namespace headcount::engine
