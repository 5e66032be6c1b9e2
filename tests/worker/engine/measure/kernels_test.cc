// Every measurement of the catalogue has a kernel, in order, and what kernels need is asked for.

#include "worker/engine/measure/kernels.h"

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

}  // namespace
}  // namespace headcount::engine
