// Token ids against those of Python's tokenizers library (testdata/make.py), on a small tokenizer
// that is always there and on the demo models where they have been made, and against the ids of the
// reference runs where those are at hand.

#include "common/hf/tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/errors.h"
#include "common/hf/chat_template.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace headcount::hf {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kSmall[] = "tests/common/hf/testdata/tokenizer";

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

std::string ModelFolder(const std::string& name) {
  const char* prefix = std::getenv("HEADCOUNT_PREFIX");
  const char* home = std::getenv("HOME");
  const std::string root = prefix != nullptr && *prefix != '\0'
                               ? std::string(prefix)
                               : std::string(home == nullptr ? "" : home) + "/.cache/headcount";
  return root + "/models/" + name;
}

std::string SharedFolder() {
  const char* shared = std::getenv("HEADCOUNT_SHARED");
  return shared != nullptr && *shared != '\0' ? shared : "../shared";
}

void ExpectCases(const Tokenizer& tokenizer, const json& cases) {
  ASSERT_FALSE(cases.empty());
  for (const json& c : cases) {
    SCOPED_TRACE(c["text"].dump());
    const auto text = c["text"].get<std::string>();
    const auto ids = c["ids"].get<std::vector<int32_t>>();
    auto encoded = tokenizer.Encode(text, /*add_special_tokens=*/false);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(*encoded, ids);
    EXPECT_EQ(*tokenizer.Encode(text, true), c["ids_with_special"].get<std::vector<int32_t>>());
    EXPECT_EQ(*tokenizer.Decode(ids, /*skip_special=*/false), c["decoded"].get<std::string>());
    EXPECT_EQ(*tokenizer.Decode(ids, true), c["decoded_without_special"].get<std::string>());
  }
}

class SmallTokenizer : public ::testing::Test {
 protected:
  SmallTokenizer() : tokenizer_(*Tokenizer::Load(kSmall)) {}
  Tokenizer tokenizer_;
};

TEST_F(SmallTokenizer, AgreesWithPython) {
  ExpectCases(tokenizer_, ReadJson(std::string(kSmall) + "/expected.json"));
}

TEST_F(SmallTokenizer, KnowsItsSpecialTokens) {
  EXPECT_EQ(tokenizer_.VocabSize(), 402);
  EXPECT_EQ(tokenizer_.bos_id(), 0);
  EXPECT_EQ(tokenizer_.eos_id(), 1);  // written as an object in tokenizer_config.json
  EXPECT_EQ(tokenizer_.TokenToId("<tool>"), 401);
  EXPECT_EQ(tokenizer_.IdToToken(400), "<|turn|>");
  EXPECT_EQ(tokenizer_.IdToToken(402), std::nullopt);
  EXPECT_EQ(tokenizer_.IdToToken(-1), std::nullopt);
  EXPECT_EQ(tokenizer_.TokenToId("not a token"), std::nullopt);
}

TEST_F(SmallTokenizer, RefusesWhatItCannotRead) {
  EXPECT_EQ(tokenizer_.Encode("a\xff", false).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer_.Encode("a\xff", false).status().message()),
              HasSubstr("byte 1"));
  const std::vector<int32_t> unknown = {5, 402};
  EXPECT_THAT(std::string(tokenizer_.Decode(unknown, false).status().message()), HasSubstr("402"));
  const std::vector<int32_t> negative = {-7};
  EXPECT_THAT(std::string(tokenizer_.Decode(negative, false).status().message()), HasSubstr("-7"));
}

TEST_F(SmallTokenizer, ServesThreadsAtOnce) {
  const std::string text = "The heads of 2048 models, many times over";
  const std::vector<int32_t> expected = *tokenizer_.Encode(text, true);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& mistakes : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) mistakes += *tokenizer_.Encode(text, true) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

class TokenizerFiles : public ::testing::Test {
 protected:
  TokenizerFiles()
      : folder_(fs::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TokenizerFiles() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }

  fs::path folder_;
};

TEST_F(TokenizerFiles, MissingOrMalformedIsNamed) {
  absl::Status status = Tokenizer::Load(folder_.string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer.json"));
  Write("tokenizer.json", "{\"version\": \"1.0\"");
  status = Tokenizer::Load(folder_.string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "BAD_TOKENIZER");
  fs::copy_file(std::string(kSmall) + "/tokenizer.json", folder_ / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  Write("tokenizer_config.json", "[1, 2");
  EXPECT_THAT(std::string(Tokenizer::Load(folder_.string()).status().message()),
              HasSubstr("tokenizer_config.json"));
}

TEST_F(TokenizerFiles, SpecialIdsFallBackToConfig) {
  fs::copy_file(std::string(kSmall) + "/tokenizer.json", folder_ / "tokenizer.json");
  Write("config.json", R"({"bos_token_id": null, "eos_token_id": [400, 1]})");
  auto tokenizer = Tokenizer::Load(folder_.string());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->eos_id(), 400);
}

class DemoModel : public ::testing::TestWithParam<const char*> {};

TEST_P(DemoModel, AgreesWithPython) {
  const std::string folder = ModelFolder(GetParam());
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " has not been made (deploy/demo_model.py)";
  auto tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectCases(*tokenizer, ReadJson("tests/common/hf/testdata/models.json")[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(Models, DemoModel,
                         ::testing::Values("SmolLM2-135M-Instruct", "Qwen2.5-Coder-0.5B-Instruct"),
                         [](const auto& info) {
                           return info.index == 0 ? "SmolLM2" : "Qwen25Coder";
                         });

// The prompts of the reference runs: their texts give their ids, and the chat template gives the
// one chat text.
TEST(ReferencePrompts, GiveTheirTokenIds) {
  const std::string path = SharedFolder() + "/golden/smollm2/prompts.json";
  const std::string folder = ModelFolder("SmolLM2-135M-Instruct");
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there (HEADCOUNT_SHARED)";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " has not been made (deploy/demo_model.py)";
  auto tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  auto chat = ChatTemplate::Load(folder);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const json golden = ReadJson(path);
  int chats = 0;
  for (const json& prompt : golden["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const auto text = prompt["text"].get<std::string>();
    EXPECT_EQ(*tokenizer->Encode(text, false), prompt["token_ids"].get<std::vector<int32_t>>());
    if (!prompt["chat_template"].get<bool>()) continue;
    ++chats;
    const std::string begin = "<|im_start|>user\n";
    const size_t from = text.find(begin) + begin.size();
    const ChatMessage question{"user", text.substr(from, text.find("<|im_end|>", from) - from)};
    EXPECT_EQ(*chat->Render(std::span(&question, 1), /*add_generation_prompt=*/true), text);
  }
  EXPECT_GT(chats, 0);
  std::vector<int32_t> letters;
  for (const char* letter : {" A", " B", " C", " D"})
    letters.push_back(tokenizer->Encode(letter, false)->at(0));
  EXPECT_EQ(letters, golden["abcd_token_ids"].get<std::vector<int32_t>>());
}

}  // namespace
}  // namespace headcount::hf
