// Every measurement of the catalogue has a kernel, in order, and what kernels need is asked for.

#include "worker/engine/measure/kernels.h"

#include <cmath>

#include "ATen/TensorIndexing.h"
#include "ATen/ops/full.h"
#include "ATen/ops/item.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

TEST(MeasureKernels, OneForEachMeasurementAndNoMore) {
  ASSERT_EQ(MeasureKernels().size(), catalog::kMeasurements.size());
  for (size_t i = 0; i < catalog::kMeasurements.size(); ++i) {
    EXPECT_EQ(MeasureKernels()[i].measurement, catalog::kMeasurements[i].measurement);
    EXPECT_EQ(static_cast<size_t>(catalog::kMeasurements[i].measurement), i);
    EXPECT_NE(MeasureKernels()[i].run, nullptr);
  }
}

TEST(MeasureKernels, NeedsAreTheUnion) {
  const auto bit = [](catalog::Measurement m) { return 1u << static_cast<int>(m); };
  EXPECT_FALSE(ExtrasFor(0).first_weight || ExtrasFor(0).entropy);
  EXPECT_TRUE(ExtrasFor(bit(catalog::Measurement::kEntropy)).entropy);
  EXPECT_FALSE(ExtrasFor(bit(catalog::Measurement::kEntropy)).first_weight);
  EXPECT_TRUE(ExtrasFor(bit(catalog::Measurement::kFirstWeight)).first_weight);
  EXPECT_FALSE(ExtrasFor(bit(catalog::Measurement::kOutput)).entropy);
  EXPECT_TRUE(NeedsGram(bit(catalog::Measurement::kProjected)));
  EXPECT_FALSE(NeedsGram(bit(catalog::Measurement::kOutput) | bit(catalog::Measurement::kValue)));
}

// Rows of 8, 16 and 17 tokens under a window of 8: all see position 0, just half do, fewer do.
TEST(MeasureKernels, FirstWeightIsOfTheTokensThatSeeTheFirst) {
  const Packing packing =
      Pack(SingleRows(std::vector<int64_t>{8, 16, 17}), c10::Device(c10::DeviceType::CPU));
  const at::Tensor means = at::full({3, 2}, 0.25, at::kFloat);
  const at::Tensor seen = OfTokensThatSeeFirst(means, packing, 8);
  EXPECT_EQ(seen[0][1].item<float>(), 0.25f);
  EXPECT_EQ(seen[1][1].item<float>(), 0.5f);
  EXPECT_TRUE(std::isnan(seen[2][1].item<float>()));
  EXPECT_FALSE(RowsThatLoseFirst(packing, 8)[1].item<bool>());
  EXPECT_TRUE(RowsThatLoseFirst(packing, 8)[2].item<bool>());
  EXPECT_TRUE(OfTokensThatSeeFirst(means, packing, 0).is_same(means));
  EXPECT_FALSE(RowsThatLoseFirst(packing, 0).defined());
}

}  // namespace
}  // namespace headcount::engine
