// Reading rows: CSV with everything RFC 4180 allows and real files do, JSON lines, and the white
// space that Python knows.

#include "worker/eval/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "common/base/files.h"
#include "tests/worker/eval/shared_data.h"
#include "worker/eval/csv.h"
#include "worker/eval/unicode.h"

namespace headcount::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Fields = std::vector<std::string>;

TEST(Csv, FieldsMayHoldCommasQuotesAndLineBreaks) {
  const auto rows = ParseCsv("a,\"b,c\",\"say \"\"x\"\"\"\n\"one\ntwo\r\nthree\",,\"\"\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(*rows,
              ElementsAre(Fields{"a", "b,c", "say \"x\""}, Fields{"one\ntwo\r\nthree", "", ""}));
}

TEST(Csv, RowsEndWithAnyLineBreakOrTheFile) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    for (const char* last : {"", end}) {
      const auto rows = ParseCsv(std::string("a,\"b\"") + end + "c, d " + last);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_THAT(*rows, ElementsAre(Fields{"a", "b"}, Fields{"c", " d "}));
    }
  }
}

TEST(Csv, SkipsBlankLinesAndByteOrderMarkAndKeepsAnEmptyLastField) {
  EXPECT_THAT(*ParseCsv("\xef\xbb\xbf"
                        "a,b\n\n\r\nc,\n"),
              ElementsAre(Fields{"a", "b"}, Fields{"c", ""}));
  EXPECT_THAT(*ParseCsv("a,"), ElementsAre(Fields{"a", ""}));
  EXPECT_THAT(*ParseCsv("6\" pipe,b"), ElementsAre(Fields{"6\" pipe", "b"}));
  EXPECT_THAT(*ParseCsv(""), IsEmpty());
}

TEST(Csv, RefusesWhatIsAmbiguousAndNamesTheLine) {
  EXPECT_THAT(std::string(ParseCsv("a\n\"b\nc").status().message()), HasSubstr("line 2"));
  EXPECT_THAT(std::string(ParseCsv("\"x\ny\"z,b").status().message()), HasSubstr("line 2"));
}

TEST(Rows, NameFileAndRowOfAWrongColumnCount) {
  const auto rows = ParseRows("a,b\nc\n", "x.csv", tasks::FileFormat::kCsv, {"q", "r"});
  EXPECT_TRUE(absl::IsInvalidArgument(rows.status()));
  EXPECT_THAT(std::string(rows.status().message()), HasSubstr("x.csv: row 1 has 1 columns"));
}

TEST(Rows, ReadsJsonLinesAsObjects) {
  const auto rows = ParseRows("{\"a\": \"x\\u0085\", \"n\": 1}\r\n\n{\"a\": \"y\"}", "x.jsonl",
                              tasks::FileFormat::kJsonl, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0]["a"], "x\u0085");
  EXPECT_EQ((*rows)[0]["n"], 1);
  for (const char* bad : {"[1]", "{\"a\": }", "{} {}"}) {
    const auto wrong =
        ParseRows(std::string("{}\n") + bad, "x.jsonl", tasks::FileFormat::kJsonl, {});
    EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("x.jsonl: line 2"));
  }
}

TEST(Rows, StopAtTheLimitAndRefuseWhatIsNotUtf8) {
  EXPECT_EQ(ParseRows("{}\n{}\n{}\n", "x", tasks::FileFormat::kJsonl, {}, 2)->size(), 2u);
  EXPECT_EQ(ParseRows("a\nb\nc\n", "x", tasks::FileFormat::kCsv, {"q"}, 2)->size(), 2u);
  EXPECT_THAT(
      std::string(ParseRows("ab\xff", "x", tasks::FileFormat::kCsv, {"q"}).status().message()),
      HasSubstr("x: byte 2 is not UTF-8"));
}

TEST(Unicode, KnowsPythonsWhiteSpace) {
  // chr(c).isspace() of Python 3.11 for every code point.
  const std::vector<char32_t> spaces = {
      0x9,    0xa,    0xb,    0xc,    0xd,    0x1c,   0x1d,   0x1e,   0x1f,   0x20,
      0x85,   0xa0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
      0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
  const auto utf8 = [](char32_t c) {
    std::string out;
    if (c < 0x80) {
      out = {static_cast<char>(c)};
    } else if (c < 0x800) {
      out = {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
    } else {
      out = {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3f)),
             static_cast<char>(0x80 | (c & 0x3f))};
    }
    return out;
  };
  for (char32_t c = 1; c < 0x3100; ++c) {
    const bool space = std::find(spaces.begin(), spaces.end(), c) != spaces.end();
    const std::string text = "\u00e9 " + utf8(c);
    EXPECT_EQ(TrailingSpace(text), space ? text.size() - 2 : 0u) << static_cast<uint32_t>(c);
  }
  EXPECT_EQ(TrailingSpace(" \n"), 2u);
  EXPECT_EQ(TrailingSpace(""), 0u);
}

TEST(Rows, OfATextAreItsParagraphs) {
  const std::string text = "\n one\r\ntwo\n \t\n\nthree\n";
  const auto rows = ParseRows(text, "x.txt", tasks::FileFormat::kText, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0]["text"], " one\ntwo");
  EXPECT_EQ((*rows)[1]["text"], "three");
  EXPECT_EQ(ParseRows(text, "x.txt", tasks::FileFormat::kText, {}, 1)->size(), 1u);
}

TEST(Unicode, CountsWordsAsPythonSplitsThem) {
  // len(re.split(r"\s+", text)) of Python 3.11.
  EXPECT_EQ(CountWords(""), 1);
  EXPECT_EQ(CountWords("one"), 1);
  EXPECT_EQ(CountWords("one  two\u2003\nthree"), 3);
  EXPECT_EQ(CountWords(" one "), 3);
  EXPECT_EQ(CountWords("\u00e9t\u00e9\u00a0\u20ac"), 2);
}

TEST(Unicode, CountsCodePointsAndFindsBadBytes) {
  EXPECT_EQ(CodePoints("a\u00e9\u20ac\U0001f600"), 4u);
  EXPECT_FALSE(FindInvalidUtf8("a\u00e9\u20ac\U0001f600\U0010ffff").has_value());
  for (const char* bad : {"ab\x80", "ab\xc3", "ab\xc0\x80", "ab\xe0\x80\x80", "ab\xed\xa0\x80",
                          "ab\xf4\x90\x80\x80", "ab\xf5\x80\x80\x80", "ab\xe2\x82x"}) {
    EXPECT_EQ(FindInvalidUtf8(bad), 2u) << bad;
  }
}

TEST(MmluFiles, HoldThePublishedNumberOfRows) {
  const std::string root = SharedPath("data/mmlu");
  HC_SKIP_UNLESS_EXISTS(root);
  std::istringstream subjects(*ReadFile(root + "/subjects.tsv"));
  std::string line;
  std::getline(subjects, line);
  int count = 0;
  size_t test_rows = 0, dev_rows = 0, with_breaks = 0, with_quotes = 0, kept_crlf = 0;
  while (std::getline(subjects, line)) {
    std::istringstream fields(line);
    std::string subject, category;
    size_t dev = 0, test = 0;
    fields >> subject >> category >> dev >> test;
    for (const bool is_test : {false, true}) {
      const std::string split = is_test ? "test" : "dev";
      const auto rows =
          ReadRows(root + "/" + split + "/" + subject + "_" + split + ".csv",
                   tasks::FileFormat::kCsv, {"question", "A", "B", "C", "D", "answer"});
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(rows->size(), is_test ? test : dev) << subject;
      (is_test ? test_rows : dev_rows) += rows->size();
      for (const auto& row : *rows) {
        for (const auto& [column, value] : row.items()) {
          const std::string text = value.get<std::string>();
          with_breaks += text.find('\n') != std::string::npos;
          with_quotes += text.find('"') != std::string::npos;
          kept_crlf += text.find("\r\n") != std::string::npos;
        }
        EXPECT_THAT(row["answer"].get<std::string>(), ::testing::MatchesRegex("[ABCD]")) << subject;
      }
    }
    ++count;
  }
  EXPECT_EQ(count, 57);
  EXPECT_EQ(test_rows, 14'042u);
  EXPECT_EQ(dev_rows, 285u);
  EXPECT_EQ(with_breaks, 1'167u);  // what the data's own description counts
  EXPECT_EQ(with_quotes, 1'540u);
  EXPECT_EQ(kept_crlf, 1u);
}

}  // namespace
}  // namespace headcount::eval
