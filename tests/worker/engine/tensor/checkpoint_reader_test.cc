// Tensor data from a file: the bits of the file in every type, whatever the address, and an error
// for a file that is no longer what it was when it was opened.

#include "worker/engine/tensor/checkpoint_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "ATen/ops/arange.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "absl/strings/str_cat.h"
#include "c10/core/InferenceMode.h"
#include "tests/common/base/temp_folder.h"

namespace headcount::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CheckpointReaderTest : public ::testing::Test {
 protected:
  // One tensor "w" of `values`' type. `shift` bytes of header padding move the data.
  void Write(const at::Tensor& values, const std::string& type, int shift = 0) {
    const std::string header =
        absl::StrCat(R"({"w":{"dtype":")", type, R"(","shape":[)", values.numel(),
                     R"(],"data_offsets":[0,)", values.nbytes(), "]}}", std::string(shift, ' '));
    std::ofstream out(Path(), std::ios::binary | std::ios::trunc);
    const uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header;
    out.write(static_cast<const char*>(values.data_ptr()),
              static_cast<std::streamsize>(values.nbytes()));
  }
  std::string Path() const { return folder_.File("model.safetensors"); }
  CheckpointReader Open() const {
    return CheckpointReader::Open(catalog::ListCheckpoint(folder_.path()).value()).value();
  }

  c10::InferenceMode inference_;
  TempFolder folder_;
};

// More than one piece, the last one a part.
at::Tensor Numbers(c10::ScalarType type) {
  return at::arange(2'500'001, at::kFloat).sub(7.25).div(1024).to(type);
}

TEST_F(CheckpointReaderTest, EveryTypeBecomesEveryOther) {
  const std::pair<c10::ScalarType, std::string> types[] = {
      {at::kFloat, "F32"}, {at::kBFloat16, "BF16"}, {at::kHalf, "F16"}};
  for (const auto& [type, name] : types) {
    const at::Tensor values = Numbers(type);
    Write(values, name);
    for (const c10::ScalarType wanted : {at::kFloat, at::kBFloat16}) {
      at::Tensor read = at::empty(values.sizes(), wanted);
      ASSERT_TRUE(Open().Read("w", read).ok());
      EXPECT_TRUE(at::equal(read, values.to(wanted))) << name;
    }
  }
}

TEST_F(CheckpointReaderTest, DataMayBeginAtAnyByte) {
  const at::Tensor values = Numbers(at::kFloat);
  for (int shift = 0; shift < 4; ++shift) {
    Write(values, "F32", shift);
    at::Tensor read = at::empty(values.sizes(), at::kFloat);
    ASSERT_TRUE(Open().Read("w", read).ok());
    EXPECT_TRUE(at::equal(read, values)) << shift;
  }
}

TEST_F(CheckpointReaderTest, AFileThatWasCutShortIsDataLoss) {
  const at::Tensor values = Numbers(at::kFloat);
  // Within its last page a mapped file that is too short reads as zeros; beyond it is a signal.
  for (const uintmax_t missing : {uintmax_t{1}, uintmax_t{6'000'000}}) {
    Write(values, "F32");
    const CheckpointReader reader = Open();
    fs::resize_file(Path(), fs::file_size(Path()) - missing);
    at::Tensor read = at::empty(values.sizes(), at::kFloat);
    const absl::Status status = reader.Read("w", read);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors was cut short"));
  }
}

TEST_F(CheckpointReaderTest, AFileThatWasShorterWhenItWasOpenedIsDataLoss) {
  const at::Tensor values = Numbers(at::kFloat);
  Write(values, "F32");
  const catalog::Checkpoint listed = catalog::ListCheckpoint(folder_.path()).value();
  fs::resize_file(Path(), fs::file_size(Path()) - 1);
  at::Tensor read = at::empty(values.sizes(), at::kFloat);
  const absl::Status status = CheckpointReader::Open(listed)->Read("w", read);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("before its header says"));
}

TEST_F(CheckpointReaderTest, AFileThatIsWrittenOverIsDataLoss) {
  const at::Tensor values = Numbers(at::kFloat);
  Write(values, "F32");
  fs::last_write_time(Path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  const CheckpointReader reader = Open();
  Write(at::full(values.sizes(), 3.0, at::kFloat), "F32");
  at::Tensor read = at::empty(values.sizes(), at::kFloat);
  const absl::Status status = reader.Read("w", read);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("was changed"));
}

TEST_F(CheckpointReaderTest, AFileThatIsReplacedKeepsWhatWasOpened) {
  const at::Tensor values = Numbers(at::kFloat);
  Write(values, "F32");
  const CheckpointReader reader = Open();
  fs::remove(Path());
  Write(at::full(values.sizes(), 3.0, at::kFloat), "F32");
  at::Tensor read = at::empty(values.sizes(), at::kFloat);
  ASSERT_TRUE(reader.Read("w", read).ok());
  EXPECT_TRUE(at::equal(read, values));
}

}  // namespace
}  // namespace headcount::engine
