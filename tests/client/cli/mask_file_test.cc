// Masks from files: what is inactive in JSON and in .npy files as NumPy writes them, and what is
// refused.

#include "client/cli/mask_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace headcount::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Heads(const absl::StatusOr<v1::FixedHeads>& mask) {
  EXPECT_TRUE(mask.ok()) << mask.status();
  std::vector<std::string> out;
  if (!mask.ok()) return out;
  for (const v1::Head& head : mask->heads()) {
    out.push_back(std::to_string(head.layer()) + "." + std::to_string(head.head()));
  }
  return out;
}

// As numpy.save writes it.
std::string Npy(const std::string& type, const std::string& shape, const std::string& data,
                const std::string& order = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() % 256);
  out += static_cast<char>(header.size() / 256);
  return out + header + data;
}

std::string Bytes(std::initializer_list<int> values) {
  std::string out;
  for (int value : values) out += static_cast<char>(value);
  return out;
}

TEST(MaskFile, JsonOfNumbersOrBooleans) {
  EXPECT_THAT(Heads(ParseMask("[[0, 1, 0], [1, 0, 1.5]]", "m")), ElementsAre("0.1", "1.0", "1.2"));
  EXPECT_THAT(Heads(ParseMask("[[false, true]]", "m")), ElementsAre("0.1"));
}

TEST(MaskFile, NpyOfEveryKind) {
  EXPECT_THAT(Heads(ParseMask(Npy("|b1", "2, 3", Bytes({0, 1, 0, 0, 0, 1})), "m")),
              ElementsAre("0.1", "1.2"));
  EXPECT_THAT(Heads(ParseMask(Npy("<i4", "1, 2", Bytes({0, 0, 0, 0, 0, 0, 0, 255})), "m")),
              ElementsAre("0.1"));
  // 0, -0 and 1 in float32.
  const std::string floats = Bytes({0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x80, 0x3f});
  EXPECT_THAT(Heads(ParseMask(Npy("<f4", "1, 3", floats), "m")), ElementsAre("0.2"));
}

TEST(MaskFile, WhatIsNoMaskIsRefusedByName) {
  const auto refused = [](const std::string& bytes) {
    const absl::Status status = ParseMask(bytes, "m.npy").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("m.npy"));
    return std::string(status.message());
  };
  EXPECT_THAT(refused(""), HasSubstr("list of lists"));
  EXPECT_THAT(refused("{}"), HasSubstr("list of lists"));
  EXPECT_THAT(refused("[[0, 1], [1]]"), HasSubstr("layer 1 must be a list as long as the first"));
  EXPECT_THAT(refused("[[0, \"x\"]]"), HasSubstr("layer 0, head 1 is not a number"));
  EXPECT_THAT(refused("[[0, 0]]"), HasSubstr("marks no head"));
  EXPECT_THAT(refused(Npy("|b1", "4,", Bytes({0, 1, 0, 0}))), HasSubstr("matrix layers x heads"));
  EXPECT_THAT(refused(Npy("|b1", "2, 2", Bytes({0, 1, 0, 0}), "True")), HasSubstr("C order"));
  EXPECT_THAT(refused(Npy("<c8", "1, 1", Bytes({0, 1, 0, 0, 0, 0, 0, 0}))), HasSubstr("<c8"));
  EXPECT_THAT(refused(Npy(">i4", "1, 1", Bytes({0, 0, 0, 1}))), HasSubstr(">i4"));
  EXPECT_THAT(refused(Npy("|b1", "2, 2", Bytes({1}))), HasSubstr("1 bytes of data"));
  EXPECT_THAT(refused(Npy("|b1", "2, 2", "").substr(0, 30)), HasSubstr("within its header"));
  EXPECT_THAT(refused("\x93NUMPY"), HasSubstr("version"));
  EXPECT_EQ(ReadMaskFile("/nowhere/m.npy").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headcount::cli
