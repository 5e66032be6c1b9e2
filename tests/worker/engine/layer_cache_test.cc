// Caches grow at their end and give up first what was not met lately; room for rows is counted.

#include "worker/engine/generate/layer_cache.h"

#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "gtest/gtest.h"
#include "worker/engine/generate/generator.h"

namespace headcount::engine {
namespace {

at::Tensor Rows(int64_t begin, int64_t count) {
  return at::arange(2 * begin, 2 * (begin + count), at::kFloat).view({count, 2});
}

TEST(GrowingTensor, KeepsItsRowsWhenItGrows) {
  GrowingTensor tensor;
  tensor.Append(Rows(0, 3), 4);
  EXPECT_EQ(tensor.bytes(), 4 * 2 * 4);
  tensor.Append(Rows(3, 5), 4);  // beyond the capacity that was asked for
  EXPECT_TRUE(at::equal(tensor.From(0), Rows(0, 8)));
  EXPECT_TRUE(at::equal(tensor.From(6), Rows(6, 2)));
}

class TrimTest : public ::testing::Test {
 protected:
  // A cache of 80 bytes below `parent` that step `step` came by last.
  static LayerCache& Add(LayerCache& parent, const std::string& mask, int64_t step) {
    auto& cache = parent.next[mask];
    cache = std::make_unique<LayerCache>();
    cache->k.Append(Rows(0, 10), 10);
    cache->last_step = step;
    return *cache;
  }
};

TEST_F(TrimTest, TheOldestGoFirstAndThoseOfThisStepStay) {
  LayerCache root;
  LayerCache& a = Add(root, "a", 9);
  Add(a, "aa", 9);
  Add(a, "ab", 5);
  LayerCache& b = Add(root, "b", 7);
  Add(b, "ba", 3);
  EXPECT_EQ(root.TreeBytes(), 400);
  EXPECT_EQ(root.Trim(400, 9), 400);
  EXPECT_EQ(root.Trim(399, 9), 320);
  EXPECT_TRUE(b.next.empty());
  EXPECT_EQ(root.Trim(250, 9), 240);  // ab, which is older than b
  EXPECT_EQ(a.next.count("ab"), 0u);
  EXPECT_EQ(root.next.count("b"), 1u);
  EXPECT_EQ(root.Trim(0, 9), 160);  // the step's own are never dropped
  EXPECT_EQ(root.next.count("b"), 0u);
  EXPECT_EQ(a.next.count("aa"), 1u);
}

TEST(RowsAbreast, AsManyAsHaveRoomForTwoHistories) {
  catalog::ModelConfig config;
  config.layers = 2;
  config.hidden_size = 6;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 3;  // 6 + (2 + 2) * 3 = 18 numbers a token and layer
  const std::vector<int32_t> prompt(90);
  GenerateUnit unit;
  unit.max_new_tokens = 10;
  unit.rows = {{.prompt = std::span(prompt).first(5)}, {.prompt = prompt}};
  const int64_t history = 100 * 2 * 18 * 4;
  EXPECT_EQ(RowsAbreast(unit, config, 4, 2 * history * 3 + 1), 3);
  EXPECT_EQ(RowsAbreast(unit, config, 4, 2 * history * 3 - 1), 2);
  EXPECT_EQ(RowsAbreast(unit, config, 4, 1), 1);
  EXPECT_EQ(RowsAbreast(unit, config, 4, int64_t{1} << 40), kMostRowsAbreast);
}

}  // namespace
}  // namespace headcount::engine
