// See parquet_file.h.

#include "server/export/parquet_file.h"

#include <cerrno>

#include "arrow/io/file.h"
#include "arrow/memory_pool.h"
#include "arrow/record_batch.h"
#include "arrow/result.h"
#include "arrow/status.h"
#include "arrow/util/io_util.h"
#include "common/base/status_macros.h"
#include "parquet/arrow/writer.h"
#include "parquet/properties.h"

namespace headcount::exports {

absl::Status FromArrow(const ::arrow::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.IsOutOfMemory() || ::arrow::internal::ErrnoFromStatus(status) == ENOSPC) {
    return absl::ResourceExhaustedError(status.ToString());
  }
  return absl::InternalError(status.ToString());
}

ParquetFile::ParquetFile() = default;
ParquetFile::~ParquetFile() = default;

absl::StatusOr<std::unique_ptr<ParquetFile>> ParquetFile::Create(
    const std::string& path, std::shared_ptr<::arrow::Schema> schema) {
  std::unique_ptr<ParquetFile> file(new ParquetFile());
  auto sink = ::arrow::io::FileOutputStream::Open(path);
  HC_RETURN_IF_ERROR(FromArrow(sink.status()));
  file->sink_ = *sink;
  parquet::WriterProperties::Builder properties;
  properties.compression(parquet::Compression::ZSTD);
  parquet::ArrowWriterProperties::Builder arrow_properties;
  arrow_properties.store_schema();
  auto writer =
      parquet::arrow::FileWriter::Open(*schema, ::arrow::default_memory_pool(), file->sink_,
                                       properties.build(), arrow_properties.build());
  HC_RETURN_IF_ERROR(FromArrow(writer.status()));
  file->writer_ = *std::move(writer);
  return file;
}

absl::Status ParquetFile::Write(const ::arrow::RecordBatch& batch) {
  HC_RETURN_IF_ERROR(FromArrow(writer_->NewBufferedRowGroup()));
  return FromArrow(writer_->WriteRecordBatch(batch));
}

absl::Status ParquetFile::Close() {
  HC_RETURN_IF_ERROR(FromArrow(writer_->Close()));
  return FromArrow(sink_->Close());
}

}  // namespace headcount::exports
