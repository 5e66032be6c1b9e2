// Implementation of safetensors.h. All arithmetic on numbers from a file is checked; the JSON
// parser's exceptions end here.

#include "common/catalog/safetensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace headcount::catalog {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct DTypeEntry {
  DType dtype;
  std::string_view name;
  int bytes;
};

constexpr std::array<DTypeEntry, 15> kDTypes = {{
    {DType::kBool, "BOOL", 1},
    {DType::kU8, "U8", 1},
    {DType::kI8, "I8", 1},
    {DType::kF8E5M2, "F8_E5M2", 1},
    {DType::kF8E4M3, "F8_E4M3", 1},
    {DType::kU16, "U16", 2},
    {DType::kI16, "I16", 2},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kU32, "U32", 4},
    {DType::kI32, "I32", 4},
    {DType::kF32, "F32", 4},
    {DType::kU64, "U64", 8},
    {DType::kI64, "I64", 8},
    {DType::kF64, "F64", 8},
}};

const DTypeEntry& Entry(DType dtype) {
  return *std::find_if(kDTypes.begin(), kDTypes.end(),
                       [&](const DTypeEntry& e) { return e.dtype == dtype; });
}

// The packaged Abseil does not know std::string_view.
template <typename T>
const T& Piece(const T& part) {
  return part;
}
absl::string_view Piece(std::string_view part) { return {part.data(), part.size()}; }

template <typename... Parts>
absl::Status Bad(const std::string& path, const Parts&... parts) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(path, ": ", Piece(parts)...)),
                    "BAD_SAFETENSORS");
}

// Names come from the file: short and printable in messages, whatever they hold.
std::string Quoted(std::string_view text, size_t limit = 120) {
  std::string shown =
      json(std::string(text.substr(0, limit))).dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > limit) absl::StrAppend(&shown, "...");
  return shown;
}

std::string Shown(const json& value) {
  return Quoted(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

// Builds a JSON value while it is parsed and stops at the first key that is said twice in one
// object or at nesting deeper than the format has. (The library's own parser keeps the last of two
// equal keys.)
class StrictBuilder : public json::json_sax_t {
 public:
  static constexpr int kMaxDepth = 3;

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t&) override { return Put(value); }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(size_t) override { return Open(json::object()); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    if (!open_.back()->contains(key_)) return true;
    return Fail(absl::StrCat("key ", Quoted(key_), " appears twice in one JSON object"));
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return Fail(absl::StrCat("its JSON is not valid: ", Quoted(error.what(), 300)));
  }

  json& root() { return root_; }
  const std::string& problem() const { return problem_; }

 private:
  bool Fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  json* Add(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &((*open_.back())[key_] = std::move(value));
  }
  bool Put(json value) {
    Add(std::move(value));
    return true;
  }
  bool Open(json value) {
    if (open_.size() == kMaxDepth)
      return Fail(absl::StrCat("its JSON is nested deeper than ", kMaxDepth, " levels"));
    open_.push_back(Add(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;
  std::string key_;
  std::string problem_;
};

absl::StatusOr<json> ParseStrictJson(const std::string& path, const std::string& text) {
  StrictBuilder builder;
  try {
    if (!json::sax_parse(text, &builder)) return Bad(path, builder.problem());
  } catch (const json::exception& e) {
    return Bad(path, "its JSON is not valid: ", Quoted(e.what(), 300));
  }
  if (!builder.root().is_object()) return Bad(path, "its JSON is not an object");
  return std::move(builder.root());
}

absl::StatusOr<uint64_t> NonNegative(const std::string& path, const std::string& tensor,
                                     std::string_view field, const json& value) {
  // The parser reads integers over 2^64 as floating point, so they are refused here too.
  if (!value.is_number_unsigned()) {
    return Bad(path, "tensor ", tensor, ": ", field, " has ", Shown(value),
               ", which is not an integer in [0, 2^64)");
  }
  return value.get<uint64_t>();
}

// Element count times element size, or nothing when it does not fit in 64 bits.
std::optional<uint64_t> ByteCount(const std::vector<int64_t>& shape, int element_bytes) {
  uint64_t bytes = static_cast<uint64_t>(element_bytes);
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

absl::StatusOr<TensorInfo> ParseTensor(const std::string& path, const std::string& name,
                                       const json& value, uint64_t data_begin,
                                       uint64_t data_bytes) {
  if (!value.is_object())
    return Bad(path, "tensor ", name, ": its entry is not a JSON object: ", Shown(value));
  for (const auto& item : value.items()) {
    if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets") {
      return Bad(path, "tensor ", name, ": unknown key ", Quoted(item.key()));
    }
  }
  for (std::string_view key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) return Bad(path, "tensor ", name, ": no ", key);
  }
  TensorInfo info;

  const json& dtype = value.at("dtype");
  auto entry = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeEntry& e) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == e.name;
  });
  if (entry == kDTypes.end()) return Bad(path, "tensor ", name, ": unknown dtype ", Shown(dtype));
  info.dtype = entry->dtype;

  const json& shape = value.at("shape");
  if (!shape.is_array()) return Bad(path, "tensor ", name, ": shape is not a list: ", Shown(shape));
  for (const json& extent : shape) {
    HC_ASSIGN_OR_RETURN(const uint64_t n, NonNegative(path, name, "shape", extent));
    if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Bad(path, "tensor ", name, ": shape has ", n, ", over the limit of 2^63 - 1");
    }
    info.shape.push_back(static_cast<int64_t>(n));
  }

  const json& offsets = value.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) {
    return Bad(path, "tensor ", name,
               ": data_offsets is not a list of two integers: ", Shown(offsets));
  }
  HC_ASSIGN_OR_RETURN(const uint64_t begin, NonNegative(path, name, "data_offsets", offsets[0]));
  HC_ASSIGN_OR_RETURN(const uint64_t end, NonNegative(path, name, "data_offsets", offsets[1]));
  if (begin > end)
    return Bad(path, "tensor ", name, ": data_offsets [", begin, ", ", end, "] run backwards");
  if (end > data_bytes) {
    return Bad(path, "tensor ", name, ": data_offsets [", begin, ", ", end,
               "] end past the file, which holds ", data_bytes, " bytes of data (truncated?)");
  }
  const std::optional<uint64_t> bytes = ByteCount(info.shape, entry->bytes);
  if (!bytes.has_value() || *bytes != end - begin) {
    return Bad(path, "tensor ", name, ": data_offsets [", begin, ", ", end, "] hold ", end - begin,
               " bytes, but ", entry->name, " of shape [", absl::StrJoin(info.shape, ", "),
               "] needs ", bytes.has_value() ? absl::StrCat(*bytes) : "more than 2^64");
  }
  info.begin = data_begin + begin;
  info.end = data_begin + end;
  return info;
}

absl::Status ParseMetadata(const std::string& path, const json& value, SafetensorsHeader& header) {
  if (!value.is_object()) return Bad(path, "__metadata__ is not a JSON object");
  for (const auto& item : value.items()) {
    if (!item.value().is_string()) {
      return Bad(path, "__metadata__ key ", Quoted(item.key()),
                 " is not a string: ", Shown(item.value()));
    }
    header.metadata.emplace(item.key(), item.value().get<std::string>());
  }
  return absl::OkStatus();
}

// The tensors, in file order, must follow each other without overlap or hole and end with the file.
absl::Status CheckCoverage(const std::string& path, const SafetensorsHeader& header,
                           uint64_t data_begin) {
  std::vector<std::pair<const TensorInfo*, const std::string*>> order;
  order.reserve(header.tensors.size());
  for (const auto& [name, info] : header.tensors) order.emplace_back(&info, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
  });
  uint64_t position = data_begin;
  std::string before = "the header";
  for (const auto& [info, name] : order) {
    if (info->begin < position) {
      return Bad(path, "tensor ", Quoted(*name), " begins at byte ", info->begin, ", inside ",
                 before, ", which ends at byte ", position);
    }
    if (info->begin > position) {
      return Bad(path, "tensor ", Quoted(*name), " begins at byte ", info->begin, ", leaving ",
                 info->begin - position, " unused bytes after ", before);
    }
    position = info->end;
    before = absl::StrCat("tensor ", Quoted(*name));
  }
  if (position != header.file_bytes) {
    return Bad(path, "its tensors end at byte ", position, " but the file has ", header.file_bytes,
               " bytes");
  }
  return absl::OkStatus();
}

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && name.find('\0') == std::string::npos;
}

absl::Status AddFile(const std::string& path, const SafetensorsHeader& header,
                     Checkpoint& checkpoint) {
  const int file = static_cast<int>(checkpoint.files.size());
  checkpoint.files.push_back(path);
  checkpoint.bytes += header.file_bytes;
  for (const auto& [name, info] : header.tensors) {
    auto [it, inserted] = checkpoint.tensors.emplace(name, CheckpointTensor{file, info});
    if (!inserted) {
      return Bad(path, "tensor ", Quoted(name), " is also in ", checkpoint.files[it->second.file]);
    }
    if (checkpoint.tensors.size() > kMaxSafetensorsTensors) {
      return Bad(path, "the checkpoint has more than ", kMaxSafetensorsTensors, " tensors");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> ListShards(const fs::path& directory, const std::string& index_path) {
  HC_ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path, kMaxSafetensorsHeaderBytes));
  HC_ASSIGN_OR_RETURN(const json index, ParseStrictJson(index_path, text));
  if (!index.contains("weight_map") || !index["weight_map"].is_object() ||
      index["weight_map"].empty()) {
    return Bad(index_path, "weight_map is missing, empty or not a JSON object");
  }
  std::set<std::string> shards;
  for (const auto& item : index["weight_map"].items()) {
    if (!item.value().is_string() || !IsPlainFileName(item.value().get<std::string>())) {
      return Bad(index_path, "weight_map key ", Quoted(item.key()), " has ", Shown(item.value()),
                 ", which is not a plain file name");
    }
    shards.insert(item.value().get<std::string>());
  }
  Checkpoint checkpoint;
  for (const std::string& shard : shards) {
    const std::string path = (directory / shard).string();
    absl::StatusOr<SafetensorsHeader> header = ReadSafetensorsHeader(path);
    if (absl::IsNotFound(header.status())) {
      return Bad(index_path, "it names the shard ", Quoted(shard), ", which is not there");
    }
    if (!header.ok()) return header.status();
    HC_RETURN_IF_ERROR(AddFile(path, *header, checkpoint));
  }
  for (const auto& item : index["weight_map"].items()) {
    auto it = checkpoint.tensors.find(item.key());
    const std::string shard = item.value().get<std::string>();
    if (it == checkpoint.tensors.end() ||
        fs::path(checkpoint.files[it->second.file]).filename() != shard) {
      return Bad(index_path, "it says that tensor ", Quoted(item.key()), " is in ", Quoted(shard),
                 ", which has no such tensor");
    }
  }
  return checkpoint;
}

// Weights that other programs would load from this folder.
std::string OtherWeights(const fs::path& directory) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    for (std::string_view other : {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf"}) {
      if (extension == other) found.push_back(it->path().filename().string());
    }
  }
  std::sort(found.begin(), found.end());
  if (found.size() > 3) found.resize(3);
  return absl::StrJoin(found, ", ");
}

}  // namespace

std::string_view DTypeName(DType dtype) { return Entry(dtype).name; }
int DTypeBytes(DType dtype) { return Entry(dtype).bytes; }

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  if (status.type() != fs::file_type::regular) return Bad(path, "not a regular file");
  SafetensorsHeader header;
  header.file_bytes = fs::file_size(path, error);
  if (error) return Bad(path, error.message());
  std::ifstream file(path, std::ios::binary);
  if (!file) return Bad(path, "cannot be opened for reading");

  if (header.file_bytes < 8) {
    return Bad(path, "has ", header.file_bytes,
               " bytes; a safetensors file has at least 8 (truncated?)");
  }
  std::array<char, 8> prefix;
  file.read(prefix.data(), prefix.size());
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(prefix[i]);
  if (length > kMaxSafetensorsHeaderBytes) {
    return Bad(path, "header length is ", length, ", over the limit of ",
               kMaxSafetensorsHeaderBytes, " bytes");
  }
  if (length > header.file_bytes - 8) {
    return Bad(path, "header length is ", length, " but only ", header.file_bytes - 8,
               " bytes follow it (truncated?)");
  }
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  if (!file) return Bad(path, "reading the header failed");
  if (text.empty() || text[0] != '{') return Bad(path, "its header does not begin with '{'");

  HC_ASSIGN_OR_RETURN(const json parsed, ParseStrictJson(path, text));
  if (parsed.size() > kMaxSafetensorsTensors) {
    return Bad(path, "has ", parsed.size(), " tensors, over the limit of ", kMaxSafetensorsTensors);
  }
  const uint64_t data_begin = 8 + length;
  for (const auto& item : parsed.items()) {
    if (item.key() == "__metadata__") {
      HC_RETURN_IF_ERROR(ParseMetadata(path, item.value(), header));
      continue;
    }
    HC_ASSIGN_OR_RETURN(TensorInfo info, ParseTensor(path, Quoted(item.key()), item.value(),
                                                     data_begin, header.file_bytes - data_begin));
    header.tensors.emplace(item.key(), std::move(info));
  }
  HC_RETURN_IF_ERROR(CheckCoverage(path, header, data_begin));
  return header;
}

absl::StatusOr<Checkpoint> ListCheckpoint(const std::string& directory) {
  const fs::path folder(directory);
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return absl::NotFoundError(absl::StrCat(directory, ": no such folder"));
  const std::string single = (folder / "model.safetensors").string();
  if (fs::exists(single, error)) {
    HC_ASSIGN_OR_RETURN(const SafetensorsHeader header, ReadSafetensorsHeader(single));
    Checkpoint checkpoint;
    HC_RETURN_IF_ERROR(AddFile(single, header, checkpoint));
    return checkpoint;
  }
  const std::string index = single + ".index.json";
  if (fs::exists(index, error)) return ListShards(folder, index);
  const std::string other = OtherWeights(folder);
  if (!other.empty()) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          directory,
                          ": only safetensors is read, and there is neither model.safetensors nor "
                          "model.safetensors.index.json beside ",
                          other)),
                      "WEIGHTS_NOT_SAFETENSORS");
  }
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          directory, ": holds no weights (model.safetensors or model.safetensors.index.json)")),
      "NO_WEIGHTS");
}

}  // namespace headcount::catalog
