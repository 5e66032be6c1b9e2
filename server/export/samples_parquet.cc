// See samples_parquet.h.

#include "server/export/samples_parquet.h"

#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

#include "arrow/array/builder_binary.h"
#include "arrow/array/builder_nested.h"
#include "arrow/array/builder_primitive.h"
#include "arrow/record_batch.h"
#include "arrow/status.h"
#include "arrow/type.h"
#include "common/base/status_macros.h"
#include "server/export/parquet_file.h"
#include "server/results/curves.h"
#include "server/results/rule_index.h"
#include "server/results/samples.h"

namespace headcount::exports {
namespace {

constexpr int64_t kRowsPerGroup = 32'768;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::shared_ptr<arrow::Field> Required(const char* name, std::shared_ptr<arrow::DataType> type) {
  return arrow::field(name, std::move(type), /*nullable=*/false);
}

std::shared_ptr<arrow::Schema> SamplesSchema() {
  return arrow::schema({
      Required("rule", arrow::int32()),
      Required("rule_label", arrow::utf8()),
      Required("nominal_fraction", arrow::float64()),
      Required("threshold", arrow::float64()),
      Required("sample", arrow::utf8()),
      Required("document", arrow::utf8()),
      Required("subtask", arrow::utf8()),
      Required("choice_lengths", arrow::list(arrow::int32())),
      Required("log_likelihoods", arrow::list(arrow::float32())),
      Required("greedy", arrow::list(arrow::boolean())),
      Required("prediction", arrow::int32()),
      Required("prediction_norm", arrow::int32()),
      Required("gold", arrow::int32()),
      Required("correct", arrow::boolean()),
      Required("correct_norm", arrow::boolean()),
      Required("share_zeroed", arrow::float64()),
      Required("mask", arrow::binary()),
      Required("finite", arrow::boolean()),
      Required("tokens", arrow::int32()),
      Required("generated_tokens", arrow::list(arrow::int32())),
      Required("text", arrow::utf8()),
      Required("gold_text", arrow::utf8()),
      Required("answers", arrow::list(arrow::utf8())),
      Required("answers_correct", arrow::list(arrow::boolean())),
  });
}

// A list column of numbers.
template <typename Builder>
class ListColumn {
 public:
  ListColumn()
      : values_(std::make_shared<Builder>()), list_(arrow::default_memory_pool(), values_) {}

  template <typename Range>
  arrow::Status Append(const Range& range) {
    ARROW_RETURN_NOT_OK(list_.Append());
    for (const auto& x : range) ARROW_RETURN_NOT_OK(values_->Append(x));
    return arrow::Status::OK();
  }
  arrow::ListBuilder& builder() { return list_; }

 private:
  std::shared_ptr<Builder> values_;
  arrow::ListBuilder list_;
};

// Gathers rows and hands them out as batches.
class Rows {
 public:
  Rows() : schema_(SamplesSchema()) {}

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  int64_t size() const { return rule_.length(); }

  arrow::Status Append(const v1::SampleRecord& record, const v1::ManifestDocument& document,
                       double nominal_fraction, double threshold) {
    ARROW_RETURN_NOT_OK(rule_.Append(record.rule()));
    ARROW_RETURN_NOT_OK(rule_label_.Append(record.rule_label()));
    ARROW_RETURN_NOT_OK(nominal_fraction_.Append(nominal_fraction));
    ARROW_RETURN_NOT_OK(threshold_.Append(threshold));
    ARROW_RETURN_NOT_OK(sample_.Append(record.sample()));
    ARROW_RETURN_NOT_OK(document_.Append(record.document()));
    ARROW_RETURN_NOT_OK(subtask_.Append(document.subtask()));
    ARROW_RETURN_NOT_OK(choice_lengths_.Append(document.choice_lengths()));
    ARROW_RETURN_NOT_OK(log_likelihoods_.Append(record.log_likelihoods()));
    ARROW_RETURN_NOT_OK(greedy_.Append(record.greedy()));
    ARROW_RETURN_NOT_OK(prediction_.Append(record.prediction()));
    ARROW_RETURN_NOT_OK(prediction_norm_.Append(record.prediction_norm()));
    ARROW_RETURN_NOT_OK(gold_.Append(record.gold()));
    ARROW_RETURN_NOT_OK(correct_.Append(record.correct()));
    ARROW_RETURN_NOT_OK(correct_norm_.Append(record.correct_norm()));
    ARROW_RETURN_NOT_OK(share_zeroed_.Append(record.share_zeroed()));
    ARROW_RETURN_NOT_OK(mask_.Append(record.mask()));
    ARROW_RETURN_NOT_OK(finite_.Append(record.finite()));
    ARROW_RETURN_NOT_OK(tokens_.Append(record.tokens()));
    ARROW_RETURN_NOT_OK(generated_tokens_.Append(record.generated_tokens()));
    ARROW_RETURN_NOT_OK(text_.Append(record.text()));
    ARROW_RETURN_NOT_OK(gold_text_.Append(record.gold_text()));
    std::vector<std::string> answers;
    std::vector<bool> correct;
    for (const v1::Answer& answer : record.answers()) {
      answers.push_back(answer.text());
      correct.push_back(answer.correct());
    }
    ARROW_RETURN_NOT_OK(answers_.Append(answers));
    return answers_correct_.Append(correct);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Take() {
    arrow::ArrayBuilder* const builders[] = {&rule_,
                                             &rule_label_,
                                             &nominal_fraction_,
                                             &threshold_,
                                             &sample_,
                                             &document_,
                                             &subtask_,
                                             &choice_lengths_.builder(),
                                             &log_likelihoods_.builder(),
                                             &greedy_.builder(),
                                             &prediction_,
                                             &prediction_norm_,
                                             &gold_,
                                             &correct_,
                                             &correct_norm_,
                                             &share_zeroed_,
                                             &mask_,
                                             &finite_,
                                             &tokens_,
                                             &generated_tokens_.builder(),
                                             &text_,
                                             &gold_text_,
                                             &answers_.builder(),
                                             &answers_correct_.builder()};
    const int64_t rows = size();
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (arrow::ArrayBuilder* builder : builders) {
      ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), builder->Finish());
    }
    return arrow::RecordBatch::Make(schema_, rows, std::move(columns));
  }

 private:
  std::shared_ptr<arrow::Schema> schema_;
  arrow::Int32Builder rule_;
  arrow::StringBuilder rule_label_;
  arrow::DoubleBuilder nominal_fraction_;
  arrow::DoubleBuilder threshold_;
  arrow::StringBuilder sample_;
  arrow::StringBuilder document_;
  arrow::StringBuilder subtask_;
  ListColumn<arrow::Int32Builder> choice_lengths_;
  ListColumn<arrow::FloatBuilder> log_likelihoods_;
  ListColumn<arrow::BooleanBuilder> greedy_;
  arrow::Int32Builder prediction_;
  arrow::Int32Builder prediction_norm_;
  arrow::Int32Builder gold_;
  arrow::BooleanBuilder correct_;
  arrow::BooleanBuilder correct_norm_;
  arrow::DoubleBuilder share_zeroed_;
  arrow::BinaryBuilder mask_;
  arrow::BooleanBuilder finite_;
  arrow::Int32Builder tokens_;
  // Of prompts that were continued; empty elsewhere. Answers are in the order of the task's
  // metrics.
  ListColumn<arrow::Int32Builder> generated_tokens_;
  arrow::StringBuilder text_;
  arrow::StringBuilder gold_text_;
  ListColumn<arrow::StringBuilder> answers_;
  ListColumn<arrow::BooleanBuilder> answers_correct_;
};

absl::Status Flush(Rows* rows, ParquetFile* file) {
  if (rows->size() == 0) return absl::OkStatus();
  auto batch = rows->Take();
  HC_RETURN_IF_ERROR(FromArrow(batch.status()));
  return file->Write(**batch);
}

}  // namespace

absl::Status WriteSamplesParquet(store::JobStore& jobs, store::ArtifactStore& artifacts,
                                 const std::string& job, const std::string& path) {
  v1::ListSamplesRequest request;
  request.set_job(job);
  HC_ASSIGN_OR_RETURN(const std::unique_ptr<results::SampleStream> stream,
                      results::SampleStream::Open(jobs, artifacts, request));
  std::unordered_map<std::string, const v1::ManifestDocument*> documents;
  for (const v1::ManifestDocument& document : stream->manifest().documents()) {
    documents.emplace(document.id(), &document);
  }
  Rows rows;
  HC_ASSIGN_OR_RETURN(const std::unique_ptr<ParquetFile> file,
                      ParquetFile::Create(path, rows.schema()));
  while (true) {
    HC_ASSIGN_OR_RETURN(const std::optional<v1::SampleRecord> record, stream->Next());
    if (!record) break;
    double nominal_fraction = 0;
    double threshold = kNaN;
    if (record->rule() != results::kBaselineRule) {
      const v1::StagePlan& plan = stream->results().ablate->plan;
      const v1::ResolvedRule& rule = plan.rules(results::StageRule(plan, record->rule()));
      nominal_fraction = rule.nominal_fraction();
      threshold = results::ThresholdOf(rule);
    }
    HC_RETURN_IF_ERROR(FromArrow(
        rows.Append(*record, *documents.at(record->document()), nominal_fraction, threshold)));
    if (rows.size() == kRowsPerGroup) HC_RETURN_IF_ERROR(Flush(&rows, file.get()));
  }
  HC_RETURN_IF_ERROR(Flush(&rows, file.get()));
  return file->Close();
}

}  // namespace headcount::exports
