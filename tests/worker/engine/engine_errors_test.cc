// What the engine refuses: bad checkpoints and bad units, each with a status that says what is
// wrong, before any work.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "common/base/files.h"
#include "engine_testing.h"
#include "gmock/gmock.h"
#include "golden_data.h"
#include "gtest/gtest.h"

namespace headcount::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// A copy of tiny-llama in a folder of its own, to be damaged.
class BadCheckpoint : public ::testing::Test {
 protected:
  BadCheckpoint() {
    folder_ = fs::path(::testing::TempDir()) /
              ("headcount_" + std::to_string(::getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy_file(fs::path(TinyModel("tiny-llama")) / file, folder_ / file,
                    fs::copy_options::overwrite_existing);
    }
  }
  ~BadCheckpoint() override { fs::remove_all(folder_); }

  std::string Path(const char* file) const { return (folder_ / file).string(); }

  void Write(const char* file, const std::string& bytes) {
    std::ofstream(folder_ / file, std::ios::binary | std::ios::trunc) << bytes;
  }

  // Rewrites the header of model.safetensors; data stays as it is.
  void EditHeader(const std::function<void(Json&)>& edit) {
    const std::string bytes = ReadFile(Path("model.safetensors")).value();
    uint64_t length;
    std::memcpy(&length, bytes.data(), 8);
    Json header = Json::parse(bytes.substr(8, length));
    edit(header);
    const std::string text = header.dump();
    uint64_t size = text.size();
    std::string out(8, 0);
    std::memcpy(out.data(), &size, 8);
    Write("model.safetensors", out + text + bytes.substr(8 + length));
  }

  void EditConfig(const Json& patch) {
    Json config = Json::parse(ReadFile(Path("config.json")).value());
    config.merge_patch(patch);
    Write("config.json", config.dump());
  }

  void ExpectRefused(absl::StatusCode code, const std::vector<std::string>& parts) {
    const auto engine = Engine::Load(folder_.string(), DType::kFloat32, {});
    EXPECT_EQ(engine.status().code(), code) << engine.status();
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(engine.status().message()), HasSubstr(part));
    }
  }

  fs::path folder_;
};

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

TEST_F(BadCheckpoint, TheCopyItselfLoads) {
  EXPECT_TRUE(Engine::Load(folder_.string(), DType::kFloat32, {}).ok());
}

TEST_F(BadCheckpoint, AMissingFolder) {
  EXPECT_EQ(Engine::Load("/nonexistent", DType::kFloat32, {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(BadCheckpoint, ATruncatedFile) {
  fs::resize_file(folder_ / "model.safetensors",
                  fs::file_size(folder_ / "model.safetensors") - 100);
  ExpectRefused(kPrecondition, {"model.safetensors"});
  fs::resize_file(folder_ / "model.safetensors", 5);
  ExpectRefused(kPrecondition, {"model.safetensors"});
}

TEST_F(BadCheckpoint, ATensorThatIsMissing) {
  EditHeader([](Json& header) {  // under another name, so that the data stays covered
    header["model.layers.1.mlp.other.weight"] = header["model.layers.1.mlp.up_proj.weight"];
    header.erase("model.layers.1.mlp.up_proj.weight");
  });
  ExpectRefused(kPrecondition, {"model.layers.1.mlp.up_proj.weight", "missing"});
}

TEST_F(BadCheckpoint, ATensorThatNobodyExpects) {
  EditConfig({{"num_hidden_layers", 2}});
  ExpectRefused(kPrecondition, {"model.layers.2.", "9 tensors"});
}

TEST_F(BadCheckpoint, AWrongShape) {
  EditHeader(
      [](Json& header) { header["model.layers.2.mlp.up_proj.weight"]["shape"] = {64, 160}; });
  ExpectRefused(kPrecondition, {"model.layers.2.mlp.up_proj.weight", "64 x 160", "160 x 64"});
}

TEST_F(BadCheckpoint, AConfigThatDoesNotFitTheTensors) {
  EditConfig({{"num_key_value_heads", 4}});
  ExpectRefused(kPrecondition, {"self_attn.k_proj.weight", "32 x 64", "64 x 64"});
}

TEST_F(BadCheckpoint, ATypeThatIsNotFloatingPoint) {
  EditHeader([](Json& header) { header["model.norm.weight"]["dtype"] = "I16"; });
  ExpectRefused(kPrecondition, {"model.norm.weight", "I16"});
}

TEST_F(BadCheckpoint, SlidingWindows) {
  EditConfig({{"use_sliding_window", true}});
  ExpectRefused(kPrecondition, {"use_sliding_window"});
}

TEST_F(BadCheckpoint, AnUntiedHeadThatIsNotThere) {
  EditConfig({{"tie_word_embeddings", false}});
  ExpectRefused(kPrecondition, {"lm_head.weight", "missing"});
}

TEST_F(BadCheckpoint, Float16AndShardsLoadLikeTheRest) {
  // The same numbers in two shards with an index: the engine reads them as one checkpoint.
  const auto whole = LoadOrDie(folder_.string());
  const std::string bytes = ReadFile(Path("model.safetensors")).value();
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  const Json header = Json::parse(bytes.substr(8, length));
  Json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", Json::object()}};
  Json headers[2] = {Json::object(), Json::object()};
  std::string data[2];
  int which = 0;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = info["data_offsets"][0].get<size_t>();
    const auto end = info["data_offsets"][1].get<size_t>();
    headers[which][name] = {
        {"dtype", info["dtype"]},
        {"shape", info["shape"]},
        {"data_offsets", {data[which].size(), data[which].size() + end - begin}}};
    data[which] += bytes.substr(8 + length + begin, end - begin);
    index["weight_map"][name] = "part-" + std::to_string(which) + ".safetensors";
    which = 1 - which;
  }
  fs::remove(folder_ / "model.safetensors");
  for (int i = 0; i < 2; ++i) {
    const std::string text = headers[i].dump();
    uint64_t size = text.size();
    std::string out(8, 0);
    std::memcpy(out.data(), &size, 8);
    Write(("part-" + std::to_string(i) + ".safetensors").c_str(), out + text + data[i]);
  }
  Write("model.safetensors.index.json", index.dump());
  const auto sharded = LoadOrDie(folder_.string());
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  EXPECT_EQ(*sharded->Logits(tokens, Rule{}, 2), *whole->Logits(tokens, Rule{}, 2));
}

class BadUnit : public ::testing::Test {
 protected:
  BadUnit()
      : engine_(LoadOrDie(TinyModel("tiny-llama"))), unit_(MakeUnit({tokens_}, {Rule{}}, true)) {}

  void ExpectRefused(const std::vector<std::string>& parts) {
    const CancelFlag cancel = false;
    const auto result = engine_->Run(unit_, cancel, nullptr);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(result.status().message()), HasSubstr(part));
    }
  }

  std::vector<int32_t> tokens_ = {1, 2, 3, 4};
  std::vector<int32_t> targets_ = {4, 9};
  std::unique_ptr<Engine> engine_;
  Unit unit_;
};

TEST_F(BadUnit, InterventionsThatSayTooLittle) {
  unit_.rules[0] = Scaled(FixedRule({{0, 0}}), std::numeric_limits<float>::infinity());
  ExpectRefused({"rules[0].intervention.scale", "inf", "finite"});
  unit_.rules[0] = ToMean(FixedRule({{0, 0}}), nullptr);
  ExpectRefused({"rules[0].intervention.means", "none"});
  unit_.rules[0] = ToMean(FixedRule({{0, 0}}), std::make_shared<HeadMeans>());
  ExpectRefused({"rules[0].intervention.means", "0 numbers", "must be 192"});
}

TEST_F(BadUnit, CombinedRulesThatDoNotAddUp) {
  using Op = CombineStep::Op;
  Rule& rule = unit_.rules[0];
  rule.select = Rule::Select::kCombined;
  rule.parts = {FixedRule({{0, 0}})};
  ExpectRefused({"rules[0].steps", "must leave one mask"});
  rule.steps = {{Op::kPart, 1}};
  ExpectRefused({"rules[0].steps[0].part", "has 1 parts"});
  rule.steps = {{Op::kPart, 0}, {Op::kAnd}};
  ExpectRefused({"rules[0].steps[1]", "too few masks"});
  rule.steps = {{Op::kPart, 0}, {Op::kPart, 0}};
  ExpectRefused({"rules[0].steps", "2 masks"});
  rule.steps = {{Op::kPart, 0}};
  rule.parts[0].select = Rule::Select::kCombined;
  ExpectRefused({"rules[0].parts[0].select", "simple"});
  rule.parts[0] = ThresholdRule("entropy", 1);
  rule.parts[0].layer_thresholds = {1};
  ExpectRefused({"rules[0].parts[0].layer_thresholds", "one a layer"});
}

TEST_F(BadUnit, TokensOutsideTheVocabulary) {
  tokens_[2] = 512;
  unit_.rows[0].suffix = tokens_;
  ExpectRefused({"rows[0].suffix[2]", "512", "0 to 511"});
  tokens_[2] = -1;
  ExpectRefused({"-1"});
  tokens_[2] = 3;
  unit_.prefix = targets_;
  targets_[1] = 100000;
  ExpectRefused({"prefix[1]", "100000"});
}

TEST_F(BadUnit, RowsThatAreTooLongOrEmpty) {
  const std::vector<int32_t> long_row(513, 1);
  unit_.rows[0].suffix = long_row;
  ExpectRefused({"rows[0]", "513 tokens", "512"});
  unit_.rows[0].suffix = {};
  ExpectRefused({"rows[0]", "0 tokens"});
  unit_.rows[0].suffix = std::span(long_row).first(512);
  EXPECT_EQ(RunOrDie(*engine_, unit_).tokens, 512);
}

TEST_F(BadUnit, TargetsThatDoNotFitTheInput) {
  unit_.rows[0].targets = targets_;
  unit_.rows[0].scored = 2;
  EXPECT_EQ(RunOrDie(*engine_, unit_).rows[0].log_likelihoods.size(), 1u);
  targets_[0] = 5;  // the input has 4 there
  ExpectRefused({"rows[0].targets[0]", "which is 4"});
  unit_.rows[0].scored = 5;
  ExpectRefused({"rows[0].scored", "4 tokens"});
  unit_.rows[0].scored = 0;
  ExpectRefused({"rows[0].scored"});
  const std::vector<int32_t> three = {4, 9, 4};
  unit_.rows[0].targets = three;
  unit_.rows[0].scored = 2;
  ExpectRefused({"rows[0].targets", "multiple"});
}

TEST_F(BadUnit, Rules) {
  unit_.rows[0].rule = 1;
  ExpectRefused({"rows[0].rule", "1 rules"});
  unit_.rows[0].rule = 0;
  Rule& rule = unit_.rules[0];
  rule = ThresholdRule("entropy", std::numeric_limits<float>::quiet_NaN());
  ExpectRefused({"rules[0].threshold", "nan"});
  rule = ThresholdRule("random", 0.5f);
  ExpectRefused({"rules[0].score", "random"});
  rule.score = nullptr;
  ExpectRefused({"rules[0].score"});
  rule = ThresholdRule("entropy", 1);
  rule.layers = {1, 1};
  ExpectRefused({"rules[0].layers", "2 entries", "3"});
  rule = FixedRule({{0, 0}, {3, 0}});
  ExpectRefused({"rules[0].heads[1]", "3:0"});
  rule = FixedRule({{0, -1}});
  ExpectRefused({"rules[0].heads[0]"});
  rule = {};
  rule.select = Rule::Select::kTopK;
  rule.score = &ScoreOrDie("entropy");
  rule.top_k = 5;
  ExpectRefused({"rules[0].top_k", "0 to 4"});
  rule = {};
  rule.select = Rule::Select::kRandom;
  rule.probability = 1.5;
  ExpectRefused({"rules[0].probability", "1.5"});
}

TEST_F(BadUnit, LogitsChecksItsArguments) {
  EXPECT_EQ(engine_->Logits(tokens_, Rule{}, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->Logits(tokens_, Rule{}, 5).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_->Logits({}, Rule{}, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BadUnit, ACancelStopsBetweenBatches) {
  struct Cancelling final : BatchObserver {
    explicit Cancelling(CancelFlag& flag) : flag(flag) {}
    void OnBatch(int rows, int64_t tokens) override {
      ++batches;
      EXPECT_EQ(rows, 1);
      EXPECT_EQ(tokens, 4);
      flag = true;
    }
    CancelFlag& flag;
    int batches = 0;
  };
  auto engine = LoadOrDie(TinyModel("tiny-llama"), DType::kFloat32, {.max_batch_tokens = 4});
  CancelFlag cancel = false;
  Cancelling observer(cancel);
  const Unit unit = MakeUnit({{1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}, {Rule{}}, false);
  EXPECT_EQ(engine->Run(unit, cancel, &observer).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(observer.batches, 1);
}

// A model whose weights are not finite in one head: rows say where, and rows under a rule that
// zeroes it go on.
TEST_F(BadCheckpoint, ValuesThatAreNotFiniteAreReportedByLayerAndHead) {
  const std::string bytes = ReadFile(Path("model.safetensors")).value();
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  const Json header = Json::parse(bytes.substr(8, length));
  const auto begin =
      header["model.layers.1.self_attn.q_proj.weight"]["data_offsets"][0].get<size_t>();
  std::string damaged = bytes;
  const uint16_t nan = 0x7fc0;  // bfloat16; the first row of q_proj of head 2, layer 1
  std::memcpy(damaged.data() + 8 + length + begin + size_t{2} * 16 * 64 * 2, &nan, 2);
  Write("model.safetensors", damaged);
  auto engine = LoadOrDie(folder_.string());
  const std::vector<int32_t> targets = {7};
  Unit unit = MakeUnit({{5, 6, 7, 8}},
                       {Rule{}, FixedRule({{1, 2}}), ThresholdRule("output_norm", 1)}, false);
  for (Row& row : unit.rows) {
    row.targets = targets;
    row.scored = 1;
  }
  UnitResult result = RunOrDie(*engine, unit);
  EXPECT_FALSE(result.rows[0].finite);  // nothing was measured: seen in the logits
  EXPECT_EQ(result.rows[0].non_finite_layer, -1);
  EXPECT_TRUE(result.rows[1].finite);  // the head is zeroed before W_O
  EXPECT_FALSE(result.rows[2].finite);
  EXPECT_EQ(result.rows[2].non_finite_layer, 1);
  EXPECT_EQ(result.rows[2].non_finite_head, 2);
  unit.record.measurements = true;
  unit.record.head_sums = true;
  result = RunOrDie(*engine, unit);
  for (const RowResult& row : result.rows) {
    EXPECT_FALSE(row.finite);
    EXPECT_EQ(row.non_finite_layer, 1);
    EXPECT_EQ(row.non_finite_head, 2);
  }
  EXPECT_EQ(result.head_sums->first_count, 0);  // rows that are not finite leave the sums
}

}  // namespace
}  // namespace headcount::engine
