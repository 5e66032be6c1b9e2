// See parquet_rows.h.

#include "common/parquet/parquet_rows.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/io/file.h"
#include "arrow/memory_pool.h"
#include "arrow/record_batch.h"
#include "arrow/scalar.h"
#include "common/base/status_macros.h"
#include "parquet/arrow/reader.h"
#include "parquet/file_reader.h"

namespace headcount::parquet_rows {
namespace {

using nlohmann::json;

absl::Status Bad(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

json ToJson(const arrow::Array& array, int64_t i);

json Items(const arrow::Array& values, int64_t first, int64_t count) {
  json items = json::array();
  for (int64_t i = first; i < first + count; ++i) items.push_back(ToJson(values, i));
  return items;
}

template <typename ArrayType>
json Of(const arrow::Array& array, int64_t i) {
  return static_cast<const ArrayType&>(array).Value(i);
}

template <typename ArrayType>
json TextOf(const arrow::Array& array, int64_t i) {
  return std::string(static_cast<const ArrayType&>(array).GetView(i));
}

template <typename ArrayType>
json ListOf(const arrow::Array& array, int64_t i) {
  const auto& list = static_cast<const ArrayType&>(array);
  return Items(*list.values(), list.value_offset(i), list.value_length(i));
}

json ToJson(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return Of<arrow::BooleanArray>(array, i);
    case arrow::Type::INT8:
      return Of<arrow::Int8Array>(array, i);
    case arrow::Type::UINT8:
      return Of<arrow::UInt8Array>(array, i);
    case arrow::Type::INT16:
      return Of<arrow::Int16Array>(array, i);
    case arrow::Type::UINT16:
      return Of<arrow::UInt16Array>(array, i);
    case arrow::Type::INT32:
      return Of<arrow::Int32Array>(array, i);
    case arrow::Type::UINT32:
      return Of<arrow::UInt32Array>(array, i);
    case arrow::Type::INT64:
      return Of<arrow::Int64Array>(array, i);
    case arrow::Type::UINT64:
      return Of<arrow::UInt64Array>(array, i);
    case arrow::Type::FLOAT:
      return Of<arrow::FloatArray>(array, i);
    case arrow::Type::DOUBLE:
      return Of<arrow::DoubleArray>(array, i);
    case arrow::Type::STRING:
      return TextOf<arrow::StringArray>(array, i);
    case arrow::Type::LARGE_STRING:
      return TextOf<arrow::LargeStringArray>(array, i);
    case arrow::Type::LIST:
      return ListOf<arrow::ListArray>(array, i);
    case arrow::Type::LARGE_LIST:
      return ListOf<arrow::LargeListArray>(array, i);
    case arrow::Type::FIXED_SIZE_LIST:
      return ListOf<arrow::FixedSizeListArray>(array, i);
    case arrow::Type::STRUCT: {
      const auto& fields = static_cast<const arrow::StructArray&>(array);
      json object = json::object();
      for (int f = 0; f < fields.num_fields(); ++f) {
        object[fields.struct_type()->field(f)->name()] = ToJson(*fields.field(f), i);
      }
      return object;
    }
    case arrow::Type::DICTIONARY: {
      const auto& encoded = static_cast<const arrow::DictionaryArray&>(array);
      return ToJson(*encoded.dictionary(), encoded.GetValueIndex(i));
    }
    default: {
      const auto scalar = array.GetScalar(i);
      return scalar.ok() ? (*scalar)->ToString() : scalar.status().ToString();
    }
  }
}

absl::StatusOr<std::vector<json>> ReadOrThrow(const std::string& path, int64_t limit) {
  const auto file = arrow::io::ReadableFile::Open(path);
  if (!file.ok()) return Bad(path, file.status().ToString());
  auto reader = parquet::arrow::OpenFile(*file, arrow::default_memory_pool());
  if (!reader.ok()) return Bad(path, reader.status().message());
  auto batches = (*reader)->GetRecordBatchReader();
  if (!batches.ok()) return Bad(path, batches.status().message());
  std::vector<json> rows;
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    if (const arrow::Status read = (*batches)->ReadNext(&batch); !read.ok()) {
      return Bad(path, read.message());
    }
    if (batch == nullptr) return rows;
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      if (limit > 0 && static_cast<int64_t>(rows.size()) == limit) return rows;
      json row = json::object();
      for (int c = 0; c < batch->num_columns(); ++c) {
        row[batch->column_name(c)] = ToJson(*batch->column(c), i);
      }
      rows.push_back(std::move(row));
    }
  }
}

// Parquet throws at what is damaged.
template <typename Fn>
auto Guarded(const std::string& path, const Fn& fn) -> decltype(fn()) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  try {
    return fn();
  } catch (const std::exception& damage) {
    return Bad(path, damage.what());
  }
}

}  // namespace

absl::StatusOr<std::vector<json>> Read(const std::string& path, int64_t limit) {
  return Guarded(path, [&] { return ReadOrThrow(path, limit); });
}

absl::StatusOr<int64_t> Count(const std::string& path) {
  return Guarded(path, [&]() -> absl::StatusOr<int64_t> {
    return parquet::ParquetFileReader::OpenFile(path)->metadata()->num_rows();
  });
}

}  // namespace headcount::parquet_rows
