// See rope.h.

#include "worker/engine/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/mul.h"

namespace headcount::engine {
namespace {

using catalog::RopeScaling;

// Llama 3.1: long wavelengths are stretched by `factor`, short ones are kept, those between are
// blended.
float ScaleLlama3(float frequency, const catalog::Llama3Rope& rope) {
  const auto old_length = static_cast<float>(rope.original_max_position_embeddings);
  const auto factor = static_cast<float>(rope.factor);
  const auto low = static_cast<float>(rope.low_freq_factor);
  const auto high = static_cast<float>(rope.high_freq_factor);
  const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength < old_length / high) return frequency;
  if (wavelength > old_length / low) return frequency / factor;
  const float smooth = (old_length / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

std::vector<float> InverseFrequencies(const catalog::RopeSettings& rope, int dim) {
  const int pairs = dim / 2;
  std::vector<float> out(static_cast<size_t>(pairs));
  for (int i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    float frequency = 1.0f / std::pow(static_cast<float>(rope.theta), exponent);
    if (rope.scaling == RopeScaling::kLinear) {
      frequency /= static_cast<float>(rope.factor);
    } else if (rope.scaling == RopeScaling::kLlama3) {
      frequency = ScaleLlama3(frequency, rope.llama3);
    }
    out[static_cast<size_t>(i)] = frequency;
  }
  return out;
}

Rope::Rope(const catalog::RopeSettings& rope, int dim, c10::Device device)
    : inverse_frequencies_(InverseFrequencies(rope, dim)), device_(device) {}

void Rope::Grow(int64_t length) {
  if (cos_.defined() && cos_.size(0) >= length) return;
  const int64_t size = std::max<int64_t>(length, cos_.defined() ? 2 * cos_.size(0) : 512);
  const auto pairs = static_cast<int64_t>(inverse_frequencies_.size());
  std::vector<float> cos, sin;
  cos.reserve(static_cast<size_t>(size * pairs));
  sin.reserve(static_cast<size_t>(size * pairs));
  for (int64_t position = 0; position < size; ++position) {
    for (float frequency : inverse_frequencies_) {
      const float angle = static_cast<float>(position) * frequency;
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
  cos_ = at::from_blob(cos.data(), {size, pairs}, at::kFloat).clone().to(device_);
  sin_ = at::from_blob(sin.data(), {size, pairs}, at::kFloat).clone().to(device_);
}

RotaryTable Rope::At(const at::Tensor& positions, int64_t length) {
  Grow(length);
  return {cos_.index_select(0, positions).unsqueeze(1),
          sin_.index_select(0, positions).unsqueeze(1)};
}

at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table) {
  const at::Tensor in = x.to(at::kFloat);
  const int64_t half = table.cos.size(-1), rest = x.size(-1) - 2 * half;
  const at::Tensor a = in.narrow(-1, 0, half);
  const at::Tensor b = in.narrow(-1, half, half);
  const at::Tensor out = at::empty(x.sizes(), in.options());
  at::Tensor out_a = out.narrow(-1, 0, half);
  at::Tensor out_b = out.narrow(-1, half, half);
  at::mul_out(out_a, a, table.cos);
  out_a.addcmul_(b, table.sin, -1);
  at::mul_out(out_b, b, table.cos);
  out_b.addcmul_(a, table.sin);
  if (rest > 0) out.narrow(-1, 2 * half, rest).copy_(in.narrow(-1, 2 * half, rest));
  return out.to(x.scalar_type());
}

}  // namespace headcount::engine
