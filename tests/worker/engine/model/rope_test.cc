// Rotary embedding against its definition in double precision, with each kind of scaling.

#include "worker/engine/model/rope.h"

#include <cmath>

#include "ATen/ops/arange.h"
#include "ATen/ops/from_blob.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

constexpr int kDim = 8;

catalog::RopeSettings Plain() { return {.theta = 10000}; }

TEST(Rope, FrequenciesFallGeometrically) {
  const auto frequencies = InverseFrequencies(Plain(), kDim);
  ASSERT_EQ(frequencies.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(frequencies[i], std::pow(10000.0, -2.0 * static_cast<double>(i) / 8), 1e-7);
  }
}

TEST(Rope, LinearScalingStretchesAllOfThem) {
  catalog::RopeSettings rope = Plain();
  rope.scaling = catalog::RopeScaling::kLinear;
  rope.factor = 4;
  const auto plain = InverseFrequencies(Plain(), kDim), scaled = InverseFrequencies(rope, kDim);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(scaled[i], plain[i] / 4, 1e-8);
}

TEST(Rope, Llama3ScalingKeepsShortWavesAndStretchesLongOnes) {
  catalog::RopeSettings rope = Plain();
  rope.scaling = catalog::RopeScaling::kLlama3;
  rope.llama3 = {8, 1, 4, 64};
  const auto plain = InverseFrequencies(Plain(), kDim), scaled = InverseFrequencies(rope, kDim);
  // Wavelengths 6.3, 63, 628, 6283 against bounds of 16 and 64 tokens.
  EXPECT_EQ(scaled[0], plain[0]);
  const double smooth = (64 / (2 * M_PI / plain[1]) - 1) / 3;
  EXPECT_NEAR(scaled[1], (1 - smooth) * plain[1] / 8 + smooth * plain[1], 1e-7);
  EXPECT_NEAR(scaled[2], plain[2] / 8, 1e-8);
  EXPECT_NEAR(scaled[3], plain[3] / 8, 1e-8);
}

TEST(Rope, RotatesEachPairByItsAngle) {
  Rope rope(Plain(), kDim, c10::Device(c10::DeviceType::CPU));
  // Grows past its first size, and positions need not start at 0 or be in order.
  std::vector<int64_t> positions = {0, 700, 3, 3};
  const at::Tensor at_positions = at::from_blob(positions.data(), {4}, at::kLong);
  const at::Tensor x = at::arange(4 * 2 * 8, at::kFloat).view({4, 2, 8}).mul(0.1);
  const at::Tensor y = Rotate(x, rope.At(at_positions, 701));
  const float* in = x.const_data_ptr<float>();
  const float* out = y.const_data_ptr<float>();
  for (size_t t = 0; t < 4; ++t) {
    for (size_t h = 0; h < 2; ++h, in += 8, out += 8) {
      for (size_t i = 0; i < 4; ++i) {
        const double angle = static_cast<double>(positions[t]) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / 8);
        EXPECT_NEAR(out[i], in[i] * std::cos(angle) - in[i + 4] * std::sin(angle), 2e-4);
        EXPECT_NEAR(out[i + 4], in[i + 4] * std::cos(angle) + in[i] * std::sin(angle), 2e-4);
      }
    }
  }
}

}  // namespace
}  // namespace headcount::engine
