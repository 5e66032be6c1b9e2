// The safetensors header reader against files made here: what is right is read back to the byte
// offset, and each way in which a file can be wrong or lie is refused with the tensor, the value
// and the limit in the message.

#include "common/catalog/safetensors.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headcount::catalog {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string LittleEndian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// A file of this header and so many bytes of data.
std::string File(const std::string& header, size_t data_bytes) {
  return LittleEndian(header.size()) + header + std::string(data_bytes, 'x');
}

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest()
      : folder_(fs::path(::testing::TempDir()) /
                ("safetensors_" +
                 std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~SafetensorsTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  // The message with which a file of these bytes is refused.
  std::string Refusal(const std::string& bytes) {
    const std::string path = Write("bad.safetensors", bytes);
    const absl::Status status = ReadSafetensorsHeader(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ReasonOf(status), "BAD_SAFETENSORS");
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(path));
    return message;
  }

  absl::Status Checkpoint() { return ListCheckpoint(folder_.string()).status(); }

  fs::path folder_;
};

TEST_F(SafetensorsTest, ReadsNamesTypesShapesAndOffsets) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"I64","shape":[0,7],"data_offsets":[16,16]}}  )";
  auto read = ReadSafetensorsHeader(Write("good.safetensors", File(header, 16)));
  ASSERT_TRUE(read.ok()) << read.status();
  const uint64_t data = 8 + header.size();
  EXPECT_EQ(read->file_bytes, data + 16);
  EXPECT_EQ(read->metadata.at("format"), "pt");
  ASSERT_EQ(read->tensors.size(), 3);
  const TensorInfo& b = read->tensors.at("b");
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_EQ(DTypeName(b.dtype), "BF16");
  EXPECT_EQ(DTypeBytes(b.dtype), 2);
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.begin, data + 4);
  EXPECT_EQ(b.end, data + 16);
  EXPECT_THAT(read->tensors.at("a").shape, ElementsAre());
  EXPECT_THAT(read->tensors.at("e").shape, ElementsAre(0, 7));
}

TEST_F(SafetensorsTest, ReadsAFileWithoutTensors) {
  auto read = ReadSafetensorsHeader(Write("empty.safetensors", File("{}", 0)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->tensors.empty());
}

TEST_F(SafetensorsTest, MissingFileIsNotFound) {
  EXPECT_EQ(ReadSafetensorsHeader((folder_ / "no").string()).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadSafetensorsHeader(folder_.string()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(SafetensorsTest, RefusesTruncatedFiles) {
  const std::string whole = File(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16);
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    Refusal(whole.substr(0, length));
  }
  EXPECT_THAT(Refusal(""), HasSubstr("has 0 bytes"));
  EXPECT_THAT(Refusal(whole.substr(0, whole.size() - 1)),
              AllOf(HasSubstr("\"a\""), HasSubstr("15 bytes of data")));
  EXPECT_THAT(Refusal(whole + "y"), HasSubstr("but the file has"));
}

TEST_F(SafetensorsTest, RefusesALyingHeaderLength) {
  EXPECT_THAT(Refusal(LittleEndian(1000) + "{}"),
              AllOf(HasSubstr("1000"), HasSubstr("only 2 bytes")));
  EXPECT_THAT(Refusal(LittleEndian(UINT64_MAX) + "{}"), HasSubstr("18446744073709551615"));
  EXPECT_THAT(Refusal(LittleEndian(kMaxSafetensorsHeaderBytes + 1) + "{}"),
              HasSubstr("limit of 8388608 bytes"));
  EXPECT_THAT(Refusal(LittleEndian(1) + "{}"), HasSubstr("not valid"));
  EXPECT_THAT(Refusal(LittleEndian(0)), HasSubstr("does not begin with '{'"));
}

TEST_F(SafetensorsTest, RefusesMalformedJson) {
  EXPECT_THAT(Refusal(File("{", 0)), HasSubstr("not valid"));
  EXPECT_THAT(Refusal(File("[]", 0)), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(Refusal(File(" {}", 0)), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(Refusal(File("{}x", 0)), HasSubstr("not valid"));
  EXPECT_THAT(Refusal(File("{\"\xff\":1}", 0)), HasSubstr("UTF-8"));
  EXPECT_THAT(Refusal(File(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4)),
              HasSubstr("nested"));
  EXPECT_THAT(Refusal(File("{\"a\":" + std::string(200'000, '['), 0)),
              testing::Not(HasSubstr("[[[[[[[[")));
}

TEST_F(SafetensorsTest, RefusesDuplicateKeys) {
  EXPECT_THAT(Refusal(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                           1)),
              AllOf(HasSubstr("\"a\""), HasSubstr("twice")));
  EXPECT_THAT(
      Refusal(File(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1)),
      HasSubstr("\"dtype\""));
}

TEST_F(SafetensorsTest, RefusesMalformedEntries) {
  auto refuse = [&](const std::string& entry, size_t bytes) {
    return Refusal(File("{\"t\":" + entry + "}", bytes));
  };
  EXPECT_THAT(refuse("5", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[1]})", 4), HasSubstr("no data_offsets"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})", 4),
              HasSubstr("unknown key \"x\""));
  EXPECT_THAT(refuse(R"({"dtype":"Q4","shape":[1],"data_offsets":[0,4]})", 4),
              HasSubstr("unknown dtype"));
  EXPECT_THAT(refuse(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})", 4),
              HasSubstr("unknown dtype"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":3,"data_offsets":[0,4]})", 4),
              HasSubstr("shape is not a list"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4), HasSubstr("-1"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})", 4), HasSubstr("1.0"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", 4),
              HasSubstr("two integers"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[0,"4"]})", 4),
              HasSubstr("data_offsets"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4),
              HasSubstr("backwards"));
  EXPECT_THAT(refuse(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", 4),
              HasSubstr("past the file"));
}

TEST_F(SafetensorsTest, RefusesByteCountsThatDoNotMatchTheShape) {
  EXPECT_THAT(Refusal(File(R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20)),
              AllOf(HasSubstr("20 bytes"), HasSubstr("[2, 3]"), HasSubstr("24")));
  // 2^32 * 2^32 elements wrap to 0 in 64 bits.
  EXPECT_THAT(
      Refusal(
          File(R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0)),
      HasSubstr("more than 2^64"));
  EXPECT_THAT(
      Refusal(
          File(R"({"t":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0)),
      HasSubstr("more than 2^64"));
  EXPECT_THAT(Refusal(File(
                  R"({"t":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0)),
              HasSubstr("2^63 - 1"));
  EXPECT_THAT(
      Refusal(
          File(R"({"t":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})", 0)),
      HasSubstr("2^64"));
}

TEST_F(SafetensorsTest, RefusesOverlapsAndHoles) {
  auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_TRUE(ReadSafetensorsHeader(Write("ok.safetensors", File(two("[4,8]", "[0,4]"), 8))).ok());
  EXPECT_THAT(Refusal(File(two("[0,4]", "[2,6]"), 6)),
              AllOf(HasSubstr("\"b\""), HasSubstr("inside tensor \"a\"")));
  EXPECT_THAT(Refusal(File(two("[0,4]", "[0,4]"), 4)), HasSubstr("inside"));
  EXPECT_THAT(Refusal(File(two("[0,4]", "[5,9]"), 9)), HasSubstr("leaving 1 unused bytes"));
  EXPECT_THAT(Refusal(File(two("[1,5]", "[5,9]"), 9)), HasSubstr("after the header"));
  EXPECT_THAT(Refusal(File(two("[0,4]", "[4,8]"), 9)), HasSubstr("but the file has"));
}

TEST_F(SafetensorsTest, RefusesMetadataThatIsNotText) {
  EXPECT_THAT(Refusal(File(R"({"__metadata__":[]})", 0)), HasSubstr("__metadata__"));
  EXPECT_THAT(Refusal(File(R"({"__metadata__":{"format":1}})", 0)), HasSubstr("\"format\""));
}

TEST_F(SafetensorsTest, RefusesTooManyTensors) {
  std::string header = "{";
  for (uint64_t i = 0; i <= kMaxSafetensorsTensors; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_THAT(Refusal(File(header + "}", 0)), HasSubstr("limit of 100000"));
}

constexpr char kA[] = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
constexpr char kB[] = R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";

TEST_F(SafetensorsTest, ListsASingleFile) {
  const std::string path = Write("model.safetensors", File(kA, 2));
  auto checkpoint = ListCheckpoint(folder_.string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(checkpoint->files, ElementsAre(path));
  EXPECT_EQ(checkpoint->bytes, fs::file_size(path));
  EXPECT_EQ(checkpoint->tensors.at("a").file, 0);
}

TEST_F(SafetensorsTest, ListsShards) {
  const std::string first = Write("model-1.safetensors", File(kA, 2));
  const std::string second = Write("model-2.safetensors", File(kB, 3));
  Write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":5},"weight_map":{"b":"model-2.safetensors","a":"model-1.safetensors"}})");
  auto checkpoint = ListCheckpoint(folder_.string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(checkpoint->files, ElementsAre(first, second));
  EXPECT_EQ(checkpoint->tensors.at("b").file, 1);
  EXPECT_EQ(checkpoint->bytes, fs::file_size(first) + fs::file_size(second));
}

TEST_F(SafetensorsTest, RefusesABadIndex) {
  Write("model-1.safetensors", File(kA, 2));
  auto refuse = [&](const std::string& index) {
    Write("model.safetensors.index.json", index);
    const absl::Status status = Checkpoint();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refuse("{"), HasSubstr("not valid"));
  EXPECT_THAT(refuse("{}"), HasSubstr("weight_map"));
  EXPECT_THAT(refuse(R"({"weight_map":{}})"), HasSubstr("weight_map"));
  EXPECT_THAT(refuse(R"({"weight_map":{"a":1}})"), HasSubstr("plain file name"));
  for (const char* name :
       {"../model-1.safetensors", "/etc/passwd", "..", ".", "", "sub/x.safetensors", "a\\\\b"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(refuse(R"({"weight_map":{"a":")" + std::string(name) + "\"}}"),
                HasSubstr("plain file name"));
  }
  EXPECT_THAT(refuse(R"({"weight_map":{"a":"model-9.safetensors"}})"),
              AllOf(HasSubstr("model-9.safetensors"), HasSubstr("not there")));
  EXPECT_THAT(refuse(R"({"weight_map":{"a":"model-1.safetensors","z":"model-1.safetensors"}})"),
              HasSubstr("\"z\""));
  Write("model-2.safetensors", File(kA, 2));
  EXPECT_THAT(refuse(R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})"),
              HasSubstr("is also in"));
}

TEST_F(SafetensorsTest, RefusesOtherFormats) {
  EXPECT_EQ(ListCheckpoint((folder_ / "none").string()).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(Checkpoint()), "NO_WEIGHTS");
  Write("pytorch_model.bin", "x");
  const absl::Status status = Checkpoint();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "WEIGHTS_NOT_SAFETENSORS");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("only safetensors"), HasSubstr("pytorch_model.bin")));
}

}  // namespace
}  // namespace headcount::catalog
