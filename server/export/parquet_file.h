// A Parquet file written batch by batch, the same bytes for the same rows: the border to Arrow,
// whose statuses become absl's here. Not thread-safe. Errors: RESOURCE_EXHAUSTED for a full disk,
// INTERNAL with Arrow's message otherwise.

#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/io/type_fwd.h"
#include "arrow/type_fwd.h"

namespace parquet::arrow {
class FileWriter;
}

namespace headcount::exports {

absl::Status FromArrow(const ::arrow::Status& status);

class ParquetFile {
 public:
  static absl::StatusOr<std::unique_ptr<ParquetFile>> Create(
      const std::string& path, std::shared_ptr<::arrow::Schema> schema);
  ~ParquetFile();

  // One row group.
  absl::Status Write(const ::arrow::RecordBatch& batch);
  // The file is whole after this alone.
  absl::Status Close();

 private:
  ParquetFile();

  std::shared_ptr<::arrow::io::FileOutputStream> sink_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace headcount::exports
