// Parquet files, written here with Arrow, as the rows that templates see.

#include "common/parquet/parquet_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "parquet/arrow/writer.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::parquet_rows {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ParquetRowsTest : public testing::Test {
 protected:
  // Rows of one group each, so that a file has several.
  std::string Write(const std::shared_ptr<arrow::Table>& table) {
    const std::string path = folder_.File("rows.parquet");
    auto sink = arrow::io::FileOutputStream::Open(path).ValueOrDie();
    EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 1).ok());
    EXPECT_TRUE(sink->Close().ok());
    return path;
  }

  static std::shared_ptr<arrow::Array> Texts(const std::vector<std::string>& values) {
    arrow::StringBuilder builder;
    EXPECT_TRUE(builder.AppendValues(values).ok());
    return builder.Finish().ValueOrDie();
  }

  static std::shared_ptr<arrow::Array> Integers(const std::vector<int64_t>& values,
                                                const std::vector<bool>& valid) {
    arrow::Int64Builder builder;
    EXPECT_TRUE(builder.AppendValues(values, valid).ok());
    return builder.Finish().ValueOrDie();
  }

  // Two rows: ["a", "b"] and [].
  static std::shared_ptr<arrow::Array> Lists() {
    auto texts = std::make_shared<arrow::StringBuilder>();
    arrow::ListBuilder builder(arrow::default_memory_pool(), texts);
    EXPECT_TRUE(builder.Append().ok());
    EXPECT_TRUE(texts->AppendValues({"a", "b"}).ok());
    EXPECT_TRUE(builder.Append().ok());
    return builder.Finish().ValueOrDie();
  }

  TempFolder folder_;
};

TEST_F(ParquetRowsTest, AreWhatTheirColumnsHold) {
  const auto lists = Lists();
  const auto choices = arrow::StructArray::Make({Texts({"x", "y"}), lists},
                                                std::vector<std::string>{"label", "text"})
                           .ValueOrDie();
  const auto encoded =
      arrow::DictionaryArray::FromArrays(arrow::dictionary(arrow::int64(), arrow::utf8()),
                                         Integers({1, 0}, {true, true}), Texts({"no", "yes"}))
          .ValueOrDie();
  const auto table = arrow::Table::Make(
      arrow::schema(arrow::FieldVector{
          arrow::field("q", arrow::utf8()), arrow::field("n", arrow::int64()),
          arrow::field("choices", choices->type()), arrow::field("passage", encoded->type())}),
      {Texts({"Gr\u00fc\u00df", "b"}), Integers({7, 0}, {true, false}), choices, encoded});
  const std::string path = Write(table);
  const auto rows = Read(path);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0], json::parse(R"({"q": "Gr\u00fc\u00df", "n": 7, "passage": "yes",
                                        "choices": {"label": "x", "text": ["a", "b"]}})"));
  EXPECT_EQ((*rows)[1], json::parse(R"({"q": "b", "n": null, "passage": "no",
                                        "choices": {"label": "y", "text": []}})"));
  EXPECT_EQ(Read(path, 1)->size(), 1u);
  EXPECT_EQ(*Count(path), 2);
}

TEST_F(ParquetRowsTest, KeepNumbersApart) {
  arrow::DoubleBuilder doubles;
  arrow::BooleanBuilder truths;
  ASSERT_TRUE(doubles.Append(.5).ok());
  ASSERT_TRUE(truths.Append(true).ok());
  const auto table =
      arrow::Table::Make(arrow::schema(arrow::FieldVector{arrow::field("d", arrow::float64()),
                                                          arrow::field("b", arrow::boolean())}),
                         {doubles.Finish().ValueOrDie(), truths.Finish().ValueOrDie()});
  EXPECT_EQ(Read(Write(table))->front(), json::parse(R"({"d": 0.5, "b": true})"));
}

TEST_F(ParquetRowsTest, SayWhichFileIsWrong) {
  EXPECT_TRUE(absl::IsNotFound(Read(folder_.File("none.parquet")).status()));
  const std::string path = folder_.File("text.parquet");
  std::ofstream(path) << "this is no Parquet file, whatever its name says";
  for (const absl::Status& status : {Read(path).status(), Count(path).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("text.parquet"));
  }
  // Cut off in the middle.
  const std::string whole =
      Write(arrow::Table::Make(arrow::schema(arrow::FieldVector{arrow::field("q", arrow::utf8())}),
                               {Texts({"a", "b", "c"})}));
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) / 2);
  EXPECT_TRUE(absl::IsInvalidArgument(Read(whole).status()));
}

}  // namespace
}  // namespace headcount::parquet_rows
