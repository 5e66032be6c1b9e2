// The prepare stage on a real tokenizer and chat template (the demo model), and what it refuses.

#include "worker/eval/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/status/status.h"
#include "common/format/frame.h"
#include "common/hf/tokenizer.h"
#include "headcount/v1/storage.pb.h"
#include "tests/worker/eval/shared_data.h"

namespace headcount::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PrepareDemo : public ::testing::Test {
 protected:
  void SetUp() override {
    HC_SKIP_UNLESS_EXISTS(model_ + "/tokenizer.json");
    inputs_.task_folders = {"tasks"};
    inputs_.data = {{"mmlu", SharedPath("data/mmlu")}, {"piqa", SharedPath("data/piqa")}};
    inputs_.model_directory = [this](const std::string&) { return model_; };
    inputs_.threads = 2;
    workload_.set_model("SmolLM2-135M-Instruct");
  }

  absl::StatusOr<v1::Manifest> Run() {
    auto bytes = Prepare(workload_, inputs_, {});
    if (!bytes.ok()) return bytes.status();
    v1::Manifest manifest;
    absl::Status status = format::Unframe(format::FrameKind::kManifest, *bytes, &manifest);
    if (!status.ok()) return status;
    return manifest;
  }
  std::string Text(const v1::Manifest& manifest, const v1::ManifestSample& sample) {
    const auto& prefix = manifest.groups(sample.group()).prefix();
    std::vector<int32_t> ids(prefix.begin(), prefix.end());
    ids.insert(ids.end(), sample.suffix().begin(), sample.suffix().end());
    auto tokenizer = hf::Tokenizer::Load(model_);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return *tokenizer->Decode(ids, /*skip_special=*/false);
  }

  const std::string model_ = DemoModelPath("SmolLM2-135M-Instruct");
  PrepareInputs inputs_;
  v1::Workload workload_;
};

TEST_F(PrepareDemo, TwoSolutionsAreTwoSamplesOfOneGroup) {
  workload_.mutable_task()->set_task("everyday");
  workload_.mutable_task()->set_limit(3);
  const auto manifest = Run();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->task(), "everyday");
  EXPECT_EQ(manifest->model(), "SmolLM2-135M-Instruct");
  EXPECT_THAT(manifest->metrics(), ElementsAre("acc", "acc_norm"));
  EXPECT_EQ(manifest->documents_size(), 3);
  EXPECT_EQ(manifest->groups_size(), 3);
  ASSERT_EQ(manifest->samples_size(), 6);
  EXPECT_EQ(manifest->samples(5).id(), "everyday/2/1");
  EXPECT_EQ(manifest->samples(5).request(), 1);
  EXPECT_THAT(manifest->samples(5).choices(), ElementsAre(1));
  EXPECT_EQ(manifest->samples(5).targets_size(), manifest->samples(5).scored());
  EXPECT_THAT(Text(*manifest, manifest->samples(0)), StartsWith("Question: "));
  EXPECT_EQ(manifest->first_token(), "Question");
  EXPECT_FALSE(manifest->first_token_is_bos());  // as the harness: no BOS for base prompts
  EXPECT_EQ(manifest->tokenizer_digest().size(), 64u);
}

TEST_F(PrepareDemo, TheTokenInFrontIsWhatIsAskedFor) {
  auto* task = workload_.mutable_task();
  task->set_task("everyday");
  task->set_limit(3);
  const auto plain = Run();
  ASSERT_TRUE(plain.ok()) << plain.status();
  task->set_bos(v1::BOS_FORCE);
  const auto forced = Run();
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_TRUE(forced->first_token_is_bos());
  EXPECT_EQ(forced->first_token(), "<|im_start|>");
  for (int i = 0; i < plain->samples_size(); ++i) {
    EXPECT_EQ(Text(*forced, forced->samples(i)), "<|im_start|>" + Text(*plain, plain->samples(i)));
    EXPECT_THAT(forced->samples(i).targets(), ElementsAreArray(plain->samples(i).targets()));
  }
  task->set_bos(v1::BOS_NONE);
  EXPECT_EQ(*Prepare(workload_, inputs_, {}), format::Frame(format::FrameKind::kManifest, *plain));

  // A chat template that prints one: forcing adds no second, and none takes it away.
  task->set_chat(v1::CHAT_FORMAT_MULTI_TURN);
  task->set_bos(v1::BOS_HARNESS);
  const auto chat = Run();
  ASSERT_TRUE(chat.ok()) << chat.status();
  task->set_bos(v1::BOS_FORCE);
  EXPECT_EQ(*Prepare(workload_, inputs_, {}), format::Frame(format::FrameKind::kManifest, *chat));
  task->set_bos(v1::BOS_NONE);
  const auto none = Run();
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->first_token_is_bos());
  EXPECT_EQ("<|im_start|>" + Text(*none, none->samples(0)), Text(*chat, chat->samples(0)));
}

TEST_F(PrepareDemo, EqualWorkloadsHaveEqualBytes) {
  workload_.mutable_task()->set_task("everyday");
  const auto one = Prepare(workload_, inputs_, {});
  inputs_.threads = 1;
  const auto two = Prepare(workload_, inputs_, {});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(*one, *two);
}

TEST_F(PrepareDemo, LettersShareASampleAndSubjectsAGroup) {
  HC_SKIP_UNLESS_EXISTS(inputs_.data["mmlu"]);
  auto* task = workload_.mutable_task();
  task->set_task("mmlu");
  task->add_subtasks("mmlu_nutrition");
  task->add_subtasks("abstract_algebra");
  task->set_limit(4);
  task->set_num_fewshot(5);
  const auto manifest = Run();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->documents_size(), 8);
  EXPECT_EQ(manifest->groups_size(), 2);
  ASSERT_EQ(manifest->samples_size(), 8);
  EXPECT_EQ(manifest->samples(0).id(), "mmlu_abstract_algebra/0/0");
  EXPECT_EQ(manifest->samples(4).id(), "mmlu_nutrition/0/0");
  EXPECT_THAT(manifest->samples(4).choices(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(manifest->samples(4).scored(), 1);
  EXPECT_EQ(manifest->samples(4).targets_size(), 4);
  EXPECT_GT(manifest->groups(0).prefix_size(), 200);  // description and five examples
}

TEST_F(PrepareDemo, ChatTemplateBeginsWithBosAndItsLineBreakIsScored) {
  HC_SKIP_UNLESS_EXISTS(inputs_.data["mmlu"]);
  auto* task = workload_.mutable_task();
  task->set_task("mmlu");
  task->add_subtasks("anatomy");
  task->set_limit(1);
  task->set_num_fewshot(1);
  task->set_chat(v1::CHAT_FORMAT_MULTI_TURN);
  task->set_system_instruction("You are terse.");
  const auto manifest = Run();
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->first_token(), "<|im_start|>");
  EXPECT_TRUE(manifest->first_token_is_bos());
  ASSERT_EQ(manifest->samples_size(), 1);
  EXPECT_EQ(manifest->samples(0).scored(), 2);  // "\n" and " A"
  EXPECT_EQ(manifest->samples(0).targets_size(), 8);
  const std::string text = Text(*manifest, manifest->samples(0));
  EXPECT_THAT(text, StartsWith("<|im_start|>system\nYou are terse.\n\nThe following are"));
  EXPECT_THAT(text, HasSubstr("Answer:<|im_end|>\n<|im_start|>assistant\n"));
}

TEST_F(PrepareDemo, RefusesWhatOnlyPrepareSees) {
  auto* task = workload_.mutable_task();
  task->set_task("nonsense");
  EXPECT_TRUE(absl::IsNotFound(Run().status()));
  task->set_task("piqa");
  task->set_num_fewshot(1);
  EXPECT_TRUE(absl::IsUnimplemented(Run().status()) || absl::IsNotFound(Run().status()));
  inputs_.data.clear();
  task->set_num_fewshot(0);
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("data.piqa"));

  workload_.mutable_requests()->add_requests();
  auto* text = workload_.mutable_requests()->mutable_requests(0)->mutable_context();
  for (int i = 0; i < 9'000; ++i) text->append(" word");
  EXPECT_THAT(std::string(Run().status().message()),
              HasSubstr("sample inline/0/0: prompt has 9000 tokens, the model's context holds"));
}

// A tokenizer of five words that puts its BOS in front where it is asked to.
constexpr char kWordTokenizer[] = R"({"version": "1.0",
  "added_tokens": [{"id": 0, "content": "<bos>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "pre_tokenizer": {"type": "Whitespace"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<bos>": {"id": "<bos>", "ids": [0], "tokens": ["<bos>"]}}},
  "model": {"type": "WordLevel", "vocab": {"<bos>": 0, "<unk>": 1, "a": 2, "b": 3, "c": 4},
            "unk_token": "<unk>"}})";

// lm-evaluation-harness 0.4.5 adds a BOS for model types with "gemma" in them, and for no others.
TEST(PrepareBos, IsAddedForGemmaAlone) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("headcount_bos_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << kWordTokenizer;
  std::ofstream(folder / "tokenizer_config.json") << R"({"bos_token": "<bos>"})";
  PrepareInputs inputs;
  inputs.task_folders = {"tasks"};
  inputs.model_directory = [&](const std::string&) { return folder.string(); };
  v1::Workload workload;
  workload.set_model("m");
  workload.mutable_task()->set_task("everyday");
  workload.mutable_task()->set_limit(1);
  const auto prepare = [&] {
    v1::Manifest manifest;
    const auto bytes = Prepare(workload, inputs, {});
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(bytes.ok() &&
                format::Unframe(format::FrameKind::kManifest, *bytes, &manifest).ok());
    return manifest;
  };
  std::map<std::string, int> lengths;
  for (const auto& [golden, bos] : {std::pair{"tiny-gemma2", true},
                                    {"tiny-gemma3", true},
                                    {"tiny-llama", false},
                                    {"tiny-mistral", false}}) {
    SCOPED_TRACE(golden);
    std::filesystem::copy_file(std::string("tests/golden/") + golden + "/config.json",
                               folder / "config.json",
                               std::filesystem::copy_options::overwrite_existing);
    const v1::Manifest manifest = prepare();
    EXPECT_EQ(manifest.first_token_is_bos(), bos);
    EXPECT_EQ(manifest.first_token(), bos ? "<bos>" : "<unk>");
    lengths[golden] = manifest.groups(0).prefix_size() + manifest.samples(0).suffix_size();
    constexpr int32_t kBos = 0;
    for (const int32_t target : manifest.samples(0).targets()) EXPECT_NE(target, kBos);
  }
  EXPECT_EQ(lengths["tiny-gemma2"], lengths["tiny-llama"] + 1);
  // Requests of the user's own are tokenised as they stand.
  workload.mutable_requests()->add_requests()->set_context("a b");
  std::filesystem::copy_file("tests/golden/tiny-gemma2/config.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(prepare().first_token(), "a");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headcount::eval
