// Exported files of made-up jobs: read back with Arrow and a small npy reader, the same bytes every
// time, and computed again by reference_curves.py where the Python with pyarrow is there.

#include "server/export/artifacts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "nlohmann/json.hpp"
#include "parquet/arrow/reader.h"
#include "server/results/bootstrap.h"
#include "server/results/curves.h"
#include "server/results/samples.h"
#include "tests/common/base/temp_folder.h"
#include "tests/server/results/sample_job.h"

namespace headcount::exports {
namespace {

namespace fs = std::filesystem;
using results::FakeJob;
using results::SampleJob;
using results::SampleJobMaker;

class Artifacts : public testing::Test {
 protected:
  absl::StatusOr<std::string> Make(FakeJob& job, const std::string& artifact,
                                   const std::string& score = "",
                                   const std::string& subfolder = "a") {
    v1::DownloadArtifactRequest request;
    request.set_job(FakeJob::kName);
    request.set_artifact(artifact);
    request.set_score(score);
    return MakeArtifact(job, job.artifacts(), request, folder_.File(subfolder));
  }

  TempFolder folder_;
};

std::shared_ptr<arrow::Table> ReadParquet(const std::string& path) {
  auto file = arrow::io::ReadableFile::Open(path).ValueOrDie();
  auto reader = parquet::arrow::OpenFile(file, arrow::default_memory_pool()).ValueOrDie();
  return reader->ReadTable().ValueOrDie()->CombineChunks().ValueOrDie();
}

template <typename Array>
const Array& ColumnOf(const arrow::Table& table, const std::string& name) {
  const auto column = table.GetColumnByName(name);
  EXPECT_NE(column, nullptr) << name;
  return dynamic_cast<const Array&>(*column->chunk(0));
}

struct Npy {
  std::string header;
  std::vector<float> values;
};

Npy ReadNpy(const std::string& path) {
  const std::string bytes = ReadFile(path).value();
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t length =
      static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + length) % 64, 0u);
  EXPECT_EQ(bytes[10 + length - 1], '\n');
  Npy npy;
  npy.header = bytes.substr(10, length);
  npy.values.resize((bytes.size() - 10 - length) / sizeof(float));
  std::memcpy(npy.values.data(), bytes.data() + 10 + length, bytes.size() - 10 - length);
  return npy;
}

TEST_F(Artifacts, ScoresAsNpy) {
  const auto job = SampleJobMaker::Sweep();
  const Npy raw = ReadNpy(Make(job->store, "scores.npy", "measurement:output").value());
  EXPECT_NE(raw.header.find("'shape': (40, 3, 4)"), std::string::npos) << raw.header;
  EXPECT_NE(raw.header.find("'descr': '<f4', 'fortran_order': False"), std::string::npos);
  ASSERT_EQ(raw.values.size(), 40 * 12);
  size_t at = 0;
  for (const v1::ScoreChunk& chunk : job->score_chunks) {
    for (const v1::Slab& slab : chunk.slabs()) {
      if (slab.measurement() != "output") continue;
      EXPECT_EQ(std::memcmp(raw.values.data() + at, slab.values().data(), slab.values().size()), 0);
      at += slab.values().size() / sizeof(float);
    }
  }
  const Npy normalised = ReadNpy(Make(job->store, "scores.npy", "HONOR").value());
  ASSERT_EQ(normalised.values.size(), raw.values.size());
  for (size_t layer = 0; layer < raw.values.size(); layer += 4) {
    double mean = 0;
    for (size_t h = layer; h < layer + 4; ++h) mean += raw.values[h] / 4.0;
    for (size_t h = layer; h < layer + 4; ++h) {
      EXPECT_NEAR(normalised.values[h], raw.values[h] / mean, 1e-5);
    }
  }
}

TEST_F(Artifacts, MissingSamplesAreNaN) {
  const auto whole = SampleJobMaker::Sweep();
  FakeJob job;
  job.job().mutable_score();
  job.Plan(store::Stage::kScore, whole->score_plan, whole->manifest);
  job.Store(1, whole->score_chunks[1]);  // samples 8 to 15
  const Npy npy = ReadNpy(Make(job, "scores.npy", "entropy").value());
  ASSERT_EQ(npy.values.size(), 40 * 12);
  for (size_t i = 0; i < npy.values.size(); ++i) {
    EXPECT_EQ(std::isnan(npy.values[i]), i / 12 < 8 || i / 12 >= 16) << i;
  }
}

TEST_F(Artifacts, SamplesAsParquet) {
  const auto job = SampleJobMaker::Sweep();
  const auto table = ReadParquet(Make(job->store, "samples.parquet").value());
  ASSERT_EQ(table->num_rows(), 7 * 40);
  const auto& rule = ColumnOf<arrow::Int32Array>(*table, "rule");
  const auto& label = ColumnOf<arrow::StringArray>(*table, "rule_label");
  const auto& fraction = ColumnOf<arrow::DoubleArray>(*table, "nominal_fraction");
  const auto& threshold = ColumnOf<arrow::DoubleArray>(*table, "threshold");
  const auto& sample = ColumnOf<arrow::StringArray>(*table, "sample");
  const auto& document = ColumnOf<arrow::StringArray>(*table, "document");
  const auto& subtask = ColumnOf<arrow::StringArray>(*table, "subtask");
  const auto& lls = ColumnOf<arrow::ListArray>(*table, "log_likelihoods");
  const auto& lls_values = dynamic_cast<const arrow::FloatArray&>(*lls.values());
  const auto& greedy = ColumnOf<arrow::ListArray>(*table, "greedy");
  const auto& lengths = ColumnOf<arrow::ListArray>(*table, "choice_lengths");
  const auto& prediction = ColumnOf<arrow::Int32Array>(*table, "prediction");
  const auto& prediction_norm = ColumnOf<arrow::Int32Array>(*table, "prediction_norm");
  const auto& gold = ColumnOf<arrow::Int32Array>(*table, "gold");
  const auto& correct = ColumnOf<arrow::BooleanArray>(*table, "correct");
  const auto& correct_norm = ColumnOf<arrow::BooleanArray>(*table, "correct_norm");
  const auto& share = ColumnOf<arrow::DoubleArray>(*table, "share_zeroed");
  const auto& mask = ColumnOf<arrow::BinaryArray>(*table, "mask");
  const auto& finite = ColumnOf<arrow::BooleanArray>(*table, "finite");
  const auto& tokens = ColumnOf<arrow::Int32Array>(*table, "tokens");

  v1::ListSamplesRequest request;
  request.set_job(FakeJob::kName);
  const auto stream =
      results::SampleStream::Open(job->store, job->store.artifacts(), request).value();
  for (int64_t i = 0; i < table->num_rows(); ++i) {
    const v1::SampleRecord record = stream->Next().value().value();
    EXPECT_EQ(rule.Value(i), record.rule());
    EXPECT_EQ(label.GetString(i), record.rule_label());
    EXPECT_EQ(sample.GetString(i), record.sample());
    EXPECT_EQ(document.GetString(i), record.document());
    EXPECT_EQ(record.document().rfind(subtask.GetString(i) + "/", 0), 0u);
    ASSERT_EQ(lls.value_length(i), record.log_likelihoods_size());
    EXPECT_EQ(greedy.value_length(i), record.greedy_size());
    for (int c = 0; c < record.log_likelihoods_size(); ++c) {
      EXPECT_EQ(lls_values.Value(lls.value_offset(i) + c), record.log_likelihoods(c));
    }
    EXPECT_EQ(lengths.value_length(i), subtask.GetString(i) == "letters" ? 4 : 2);
    EXPECT_EQ(prediction.Value(i), record.prediction());
    EXPECT_EQ(prediction_norm.Value(i), record.prediction_norm());
    EXPECT_EQ(gold.Value(i), record.gold());
    EXPECT_EQ(correct.Value(i), record.correct());
    EXPECT_EQ(correct_norm.Value(i), record.correct_norm());
    EXPECT_EQ(share.Value(i), record.share_zeroed());
    EXPECT_EQ(mask.GetString(i), record.mask());
    EXPECT_TRUE(finite.Value(i));
    EXPECT_EQ(tokens.Value(i), record.tokens());
    if (record.rule() < 0) {
      EXPECT_EQ(fraction.Value(i), 0);
      EXPECT_TRUE(std::isnan(threshold.Value(i)));
    } else {
      const v1::ResolvedRule& resolved = job->ablate_plan.rules(record.rule());
      EXPECT_EQ(fraction.Value(i), resolved.nominal_fraction());
      EXPECT_EQ(threshold.Value(i), results::ThresholdOf(resolved));
    }
  }
}

TEST_F(Artifacts, CurvesAsParquet) {
  const auto job = SampleJobMaker::Sweep();
  const auto table = ReadParquet(Make(job->store, "curves.parquet").value());
  v1::GetCurvesRequest request;
  request.set_job(FakeJob::kName);
  request.set_bootstrap_draws(results::kDefaultDraws);
  const v1::Curves curves = results::GetCurves(job->store, job->store.artifacts(), request).value();
  ASSERT_EQ(table->num_rows(), 2 * 4);
  int64_t row = 0;
  for (const v1::Curve& curve : curves.curves()) {
    for (const v1::CurvePoint& point : curve.points()) {
      EXPECT_EQ(ColumnOf<arrow::StringArray>(*table, "curve").GetString(row), curve.id());
      EXPECT_EQ(ColumnOf<arrow::Int64Array>(*table, "rule").Value(row), point.rule());
      EXPECT_EQ(ColumnOf<arrow::DoubleArray>(*table, "accuracy").Value(row), point.accuracy());
      EXPECT_EQ(ColumnOf<arrow::DoubleArray>(*table, "share_zeroed").Value(row),
                point.share_zeroed());
      EXPECT_EQ(ColumnOf<arrow::DoubleArray>(*table, "mcnemar_p").Value(row), point.mcnemar_p());
      EXPECT_EQ(ColumnOf<arrow::DoubleArray>(*table, "mcnemar_p_holm").Value(row),
                point.mcnemar_p_holm());
      EXPECT_EQ(ColumnOf<arrow::DoubleArray>(*table, "auc").Value(row), curve.auc());
      EXPECT_EQ(ColumnOf<arrow::DoubleArray>(*table, "auc_low").Value(row),
                curve.estimates(0).interval().low());
      EXPECT_EQ(ColumnOf<arrow::DoubleArray>(*table, "largest_share_high").Value(row),
                curve.estimates(3).interval().high());
      EXPECT_EQ(ColumnOf<arrow::BooleanArray>(*table, "complete").Value(row), point.complete());
      ++row;
    }
  }
}

TEST_F(Artifacts, AScoreJobHasTheBaselineAlone) {
  const auto sweep = SampleJobMaker::Sweep();
  FakeJob job;
  job.job().mutable_score();
  job.Plan(store::Stage::kScore, sweep->score_plan, sweep->manifest);
  for (size_t u = 0; u < sweep->score_chunks.size(); ++u) {
    job.Store(static_cast<int64_t>(u), sweep->score_chunks[u]);
  }
  const auto curves = ReadParquet(Make(job, "curves.parquet").value());
  ASSERT_EQ(curves->num_rows(), 1);
  EXPECT_EQ(ColumnOf<arrow::StringArray>(*curves, "curve").GetString(0), "baseline");
  EXPECT_TRUE(std::isnan(ColumnOf<arrow::DoubleArray>(*curves, "auc").Value(0)));
  EXPECT_EQ(ReadParquet(Make(job, "samples.parquet").value())->num_rows(), 40);
}

TEST_F(Artifacts, JobAsJson) {
  const auto job = SampleJobMaker::Ablate();
  job->store.job().mutable_provenance()->set_model_digest("abc");
  (*job->store.job().mutable_labels())["b"] = "2";
  (*job->store.job().mutable_labels())["a"] = "1";
  const auto json = nlohmann::json::parse(ReadFile(Make(job->store, "job.json").value()).value());
  EXPECT_EQ(json["job"]["name"], FakeJob::kName);
  EXPECT_EQ(json["job"]["provenance"]["model_digest"], "abc");
  EXPECT_EQ(json["job"]["labels"]["a"], "1");
  EXPECT_EQ(json["complete"], true);
  ASSERT_EQ(json["rules"].size(), 2u) << "the baseline in front is not the user's";
  EXPECT_EQ(json["rules"][0]["index"], 0);
  EXPECT_EQ(json["rules"][0]["label"], "output_norm_ln");
  EXPECT_FLOAT_EQ(json["rules"][0]["resolved_threshold"], .6f);
  EXPECT_EQ(json["rules"][1]["nominal_fraction"], "NaN");
  EXPECT_EQ(json["stages"][0]["name"], "ablate");
  EXPECT_EQ(json["versions"]["numerics"], 1);
}

TEST_F(Artifacts, TheSameBytesAlways) {
  // Two jobs of equal results, made apart.
  const auto one = SampleJobMaker::Sweep();
  const auto two = SampleJobMaker::Sweep();
  for (const auto& [artifact, score] : {std::pair{"scores.npy", "entropy_ln"},
                                        {"samples.parquet", ""},
                                        {"curves.parquet", ""},
                                        {"job.json", ""}}) {
    const std::string first = Make(one->store, artifact, score, "one").value();
    const std::string second = Make(two->store, artifact, score, "two").value();
    EXPECT_NE(first, second);
    EXPECT_EQ(ReadFile(first).value(), ReadFile(second).value()) << artifact;
  }
}

TEST_F(Artifacts, AreKeptUntilMoreIsStored) {
  const auto whole = SampleJobMaker::Sweep();
  FakeJob job;
  job.job().mutable_score();
  job.Plan(store::Stage::kScore, whole->score_plan, whole->manifest);
  job.Store(0, whole->score_chunks[0]);
  const std::string first = Make(job, "scores.npy", "entropy").value();
  const fs::file_time_type long_ago = fs::file_time_type::clock::now() - std::chrono::hours(5);
  fs::last_write_time(first, long_ago);
  EXPECT_EQ(Make(job, "scores.npy", "entropy").value(), first);
  EXPECT_GT(fs::last_write_time(first), long_ago) << "using a file keeps it";
  EXPECT_NE(Make(job, "scores.npy", "entropy_ln").value(), first);
  job.Store(1, whole->score_chunks[1]);
  const std::string second = Make(job, "scores.npy", "entropy").value();
  EXPECT_NE(second, first);
  EXPECT_TRUE(fs::exists(first)) << "a download may still be reading it";

  // With room for nothing, everything but the newest goes.
  v1::DownloadArtifactRequest request;
  request.set_job(FakeJob::kName);
  request.set_artifact("job.json");
  const auto last = MakeArtifact(job, job.artifacts(), request, folder_.File("a"), 0);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(fs::exists(*last));
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(second));
}

TEST_F(Artifacts, Errors) {
  const auto job = SampleJobMaker::Sweep();
  const auto field = [&](const std::string& artifact, const std::string& score) {
    return FieldOf(Make(job->store, artifact, score).status()).value_or("none");
  };
  EXPECT_EQ(field("scores.csv", ""), "artifact");
  EXPECT_EQ(field("../../etc/passwd", ""), "artifact");
  EXPECT_EQ(field("scores.npy", ""), "score");
  EXPECT_EQ(field("scores.npy", "HONOUR"), "score");
  EXPECT_EQ(field("scores.npy", "random"), "score");
  EXPECT_EQ(field("scores.npy", "measurement:speed"), "score");
  EXPECT_EQ(field("curves.parquet", "entropy"), "score");
  FakeJob fresh;
  fresh.job().mutable_sweep();
  for (const char* artifact : {"samples.parquet", "curves.parquet"}) {
    EXPECT_EQ(ReasonOf(Make(fresh, artifact).status()), "RESULTS_NOT_READY") << artifact;
  }
  EXPECT_EQ(ReasonOf(Make(fresh, "scores.npy", "entropy").status()), "RESULTS_NOT_READY");
  // Nothing half made is left behind.
  for (const auto& entry : fs::directory_iterator(folder_.File("a"))) {
    ADD_FAILURE() << entry.path();
  }
}

TEST_F(Artifacts, PythonComputesTheSameCurves) {
  if (!fs::exists(HEADCOUNT_PYTHON)) {
    GTEST_SKIP() << "no Python with pyarrow at " << HEADCOUNT_PYTHON
                 << "; deploy/setup.sh makes it";
  }
  for (const bool sweep : {true, false}) {
    const auto job = sweep ? SampleJobMaker::Sweep() : SampleJobMaker::Ablate();
    // One document breaks under rule 0 of the stage.
    v1::AblateChunk broken = job->ablate_chunks[1];
    broken.mutable_results(3)->set_non_finite(true);
    job->store.Store(1, broken);
    const std::string command = std::string(HEADCOUNT_PYTHON) +
                                " tests/server/results/reference_curves.py " +
                                Make(job->store, "samples.parquet", "", "py").value() + " " +
                                Make(job->store, "curves.parquet", "", "py").value();
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    fs::remove_all(folder_.File("py"));
  }
}

}  // namespace
}  // namespace headcount::exports
