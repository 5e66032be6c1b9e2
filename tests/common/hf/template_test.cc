// Templates against Python's jinja2, set as transformers and lm-evaluation-harness set it
// (testdata/make.py), and the bounds that keep a template from running forever or filling the
// memory.

#include "common/hf/template.h"

#include <filesystem>
#include <fstream>
#include <string>
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

json ReadCases(const char* kind) {
  std::ifstream file("tests/common/hf/testdata/templates.json");
  json cases = json::parse(file).at(kind);
  EXPECT_FALSE(cases.empty());
  return cases;
}

absl::StatusOr<std::string> RenderTask(std::string_view source, std::string_view json_text = "{}",
                                       const TemplateLimits& limits = {}) {
  auto parsed = TextTemplate::Parse(source, limits);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render(json_text);
}

TEST(TextTemplate, AgreesWithJinja2) {
  for (const json& c : ReadCases("task")) {
    SCOPED_TRACE(c["template"].dump());
    auto text = RenderTask(c["template"].get<std::string>(), c["variables"].dump());
    if (c.contains("error")) {
      EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument) << text.value_or("");
    } else {
      ASSERT_TRUE(text.ok()) << text.status();
      EXPECT_EQ(*text, c["expected"].get<std::string>());
    }
  }
}

TEST(TextTemplate, NamesTheLineOfASyntaxError) {
  const absl::Status status = TextTemplate::Parse("fine\n{% if %}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 2"));
}

TEST(TextTemplate, RefusesWhatIsNoDocument) {
  EXPECT_EQ(RenderTask("x", "[1]").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RenderTask("x", "{\"a\":").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TextTemplate::Parse("\xff").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TextTemplate, CannotReachFilesOrRaise) {
  EXPECT_FALSE(RenderTask("{% include '/etc/passwd' %}").ok());
  EXPECT_FALSE(RenderTask("{{ ''.__class__ }}").ok());
  EXPECT_FALSE(RenderTask("{{ strftime_now('%Y') }}").ok());
}

TEST(TextTemplate, StopsAtItsLimits) {
  const char* loops =
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor "
      "%}{% endfor %}"
      "{% endfor %}";
  EXPECT_EQ(RenderTask(loops).status().code(), absl::StatusCode::kResourceExhausted);
  // Doubling: 2^60 bytes if nobody counted.
  const char* doubling =
      "{% set ns = namespace(x='0123456789abcdef') %}{% for i in range(60) %}{% set ns.x = ns.x ~ "
      "ns.x %}{% endfor %}"
      "{{ ns.x }}";
  EXPECT_EQ(RenderTask(doubling).status().code(), absl::StatusCode::kResourceExhausted);

  TemplateLimits limits;
  limits.output_bytes = 10;
  EXPECT_EQ(*RenderTask("{{ 'ab' * 5 }}", "{}", limits), "ababababab");
  const absl::Status over = RenderTask("{{ 'ab' * 5 }}c", "{}", limits).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(over.message()), HasSubstr("10 bytes"));
  limits.source_bytes = 3;
  EXPECT_EQ(TextTemplate::Parse("four", limits).status().code(),
            absl::StatusCode::kInvalidArgument);
}

class ChatTemplateTest : public ::testing::Test {
 protected:
  ChatTemplateTest()
      : folder_(fs::path(::testing::TempDir()) /
                ("chat_" +
                 std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ChatTemplateTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  absl::StatusOr<ChatTemplate> LoadSource(const std::string& source) {
    const json config = {
        {"chat_template", source}, {"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}};
    Write("tokenizer_config.json", config.dump());
    return ChatTemplate::Load(folder_.string());
  }

  fs::path folder_;
  const std::vector<ChatMessage> hello_ = {{"user", "hello"}};
};

TEST_F(ChatTemplateTest, AgreesWithJinja2) {
  for (const json& c : ReadCases("chat")) {
    SCOPED_TRACE(c["template"].dump());
    auto chat = LoadSource(c["template"].get<std::string>());
    ASSERT_TRUE(chat.ok()) << chat.status();
    std::vector<ChatMessage> messages;
    for (const json& m : c["variables"]["messages"]) messages.push_back({m["role"], m["content"]});
    auto text = chat->Render(messages, c["variables"]["add_generation_prompt"].get<bool>());
    if (c.contains("error")) {
      EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(text.status().message()), HasSubstr(c["error"].get<std::string>()));
    } else {
      ASSERT_TRUE(text.ok()) << text.status();
      EXPECT_EQ(*text, c["expected"].get<std::string>());
    }
  }
}

TEST_F(ChatTemplateTest, TakesTheDefaultOfNamedTemplates) {
  Write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]})");
  EXPECT_EQ(*ChatTemplate::Load(folder_.string())->Render(hello_, false), "yes");
}

TEST_F(ChatTemplateTest, PrefersTheTemplateFile) {
  Write("tokenizer_config.json", R"({"chat_template": "no"})");
  Write("chat_template.jinja", "{{ messages[0].content }}, file");
  EXPECT_EQ(*ChatTemplate::Load(folder_.string())->Render(hello_, false), "hello, file");
}

TEST_F(ChatTemplateTest, SaysWhenThereIsNone) {
  const absl::Status none = ChatTemplate::Load(folder_.string()).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(none), "NO_CHAT_TEMPLATE");
  const absl::Status bad = LoadSource("{% for %}").status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(bad), "BAD_CHAT_TEMPLATE");
}

TEST_F(ChatTemplateTest, ShowsTheDateOnlyWhenToldIt) {
  auto chat = LoadSource(
      "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}fixed{% endif %}");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render(hello_, false), "fixed");
  EXPECT_EQ(*chat->Render(hello_, false, 1'709'210'096), "29 Feb 2024");
}

TEST_F(ChatTemplateTest, RefusesMalformedText) {
  auto chat = LoadSource("{{ messages[0].content }}");
  const std::vector<ChatMessage> malformed = {{"user", "\xff"}};
  EXPECT_EQ(chat->Render(malformed, false).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace headcount::hf
