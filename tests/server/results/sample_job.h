// A small job with results drawn at random from a fixed seed, for the tests of readers; the drawn
// rows stay reachable, so that tests compute by themselves what they expect.
//
// 24 documents of 3 subtasks: those of "quiz_a" and "quiz_b" score two choices as two samples
// (PIQA's form), those of "letters" four choices in one sample (MMLU's). 3 layers x 4 heads, 4
// documents a sample block, 2 rules a unit.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "common/catalog/measurements.h"
#include "tests/server/results/fake_job.h"

namespace headcount::results {

inline constexpr int kLayers = 3;
inline constexpr int kHeads = 4;

struct SampleJob {
  FakeJob store;
  v1::Manifest manifest;
  v1::StagePlan score_plan;
  v1::StagePlan ablate_plan;
  std::vector<v1::ScoreChunk> score_chunks;    // by unit
  std::vector<v1::AblateChunk> ablate_chunks;  // by unit

  // The rows of a stage rule by sample; of the score stage for rule -1.
  std::vector<v1::SampleResult> RowsOf(int stage_rule) const {
    std::vector<v1::SampleResult> rows;
    if (stage_rule < 0) {
      for (const v1::ScoreChunk& chunk : score_chunks) {
        rows.insert(rows.end(), chunk.results().begin(), chunk.results().end());
      }
      return rows;
    }
    for (const v1::AblateChunk& chunk : ablate_chunks) {
      const int r = stage_rule - chunk.first_rule();
      if (r < 0 || r >= chunk.rules()) continue;
      rows.insert(rows.end(), chunk.results().begin() + r * chunk.samples(),
                  chunk.results().begin() + (r + 1) * chunk.samples());
    }
    return rows;
  }
};

class SampleJobMaker {
 public:
  // A sweep: score stage, then rules of two curves at three fractions each.
  static std::unique_ptr<SampleJob> Sweep() {
    auto made = std::make_unique<SampleJob>();
    SampleJobMaker maker(*made);
    made->store.job().mutable_sweep()->mutable_workload()->set_model("tiny");
    maker.MakeScores();
    for (const char* label : {"output_norm_ln", "random"}) {
      for (const double fraction : {.1, .2, .3}) maker.AddRule(label, fraction);
    }
    maker.MakeAblations();
    return made;
  }

  // A frontier of one score and two shares: six blocks, drawn in reverse; units as they were asked
  // for, of which the last is not stored.
  static std::unique_ptr<SampleJob> Frontier() {
    auto made = std::make_unique<SampleJob>();
    SampleJobMaker maker(*made);
    v1::FrontierSpec* spec = made->store.job().mutable_frontier();
    spec->mutable_workload()->set_model("tiny");
    spec->add_scores("output_norm_ln");
    spec->set_margin(.3);
    spec->set_alpha(1e-9);  // so that nothing is decided before the last block
    maker.MakeScores();
    for (const double fraction : {.1, .3}) maker.AddRule("output_norm_ln", fraction);
    v1::StagePlan& plan = made->ablate_plan;
    plan.set_rules_per_unit(1);
    const int blocks = plan.sample_blocks_size();
    for (int b = blocks - 1; b >= 0; --b) plan.add_block_order(b);
    for (int rule = 0; rule < 2; ++rule) {
      for (const int b : plan.block_order()) {
        v1::UnitRange* unit = plan.add_units();
        unit->set_unit(plan.units_size() - 1);
        unit->set_first_sample(plan.sample_blocks(b).first_sample());
        unit->set_samples(plan.sample_blocks(b).samples());
        unit->set_first_rule(rule);
        unit->set_rules(1);
      }
    }
    maker.MakeListedAblations();
    return made;
  }

  // The sweep with the same rows in listed units, as a stage that has grown has them: rules 0 to 2
  // in units of two and one, then the same of the others.
  static std::unique_ptr<SampleJob> GrownSweep() {
    auto made = Sweep();
    v1::StagePlan& plan = made->ablate_plan;
    made->ablate_chunks.clear();
    for (const auto& [first, end] : {std::pair{0, 3}, {3, 6}}) {
      for (int rule = first; rule < end; rule += 2) {
        for (const v1::SampleBlock& block : plan.sample_blocks()) {
          v1::UnitRange& unit = *plan.add_units();
          unit.set_unit(plan.units_size() - 1);
          unit.set_first_sample(block.first_sample());
          unit.set_samples(block.samples());
          unit.set_first_rule(rule);
          unit.set_rules(std::min(2, end - rule));
        }
      }
    }
    const auto grid = Sweep();
    for (const v1::UnitRange& unit : plan.units()) {
      v1::AblateChunk& chunk = made->ablate_chunks.emplace_back();
      chunk.set_first_sample(unit.first_sample());
      chunk.set_samples(unit.samples());
      chunk.set_first_rule(unit.first_rule());
      chunk.set_rules(unit.rules());
      chunk.set_layers(kLayers);
      chunk.set_heads(kHeads);
      for (int r = 0; r < unit.rules(); ++r) {
        const std::vector<v1::SampleResult> rows = grid->RowsOf(unit.first_rule() + r);
        for (int i = 0; i < unit.samples(); ++i) {
          *chunk.add_results() = rows[static_cast<size_t>(unit.first_sample() + i)];
        }
      }
      chunk.set_zeroed(std::string(static_cast<size_t>(unit.rules() * kLayers * kHeads * 4), '\0'));
    }
    SampleJobMaker(*made, Again()).StoreAblations();
    return made;
  }

  // A knockout of layers 0 and 2: the baseline, then eight heads.
  static std::unique_ptr<SampleJob> Knockout() {
    auto made = std::make_unique<SampleJob>();
    SampleJobMaker maker(*made);
    made->store.job().mutable_knockout()->mutable_workload()->set_model("tiny");
    maker.AddBaseline();
    for (const int layer : {0, 2}) {
      for (int head = 0; head < kHeads; ++head) {
        v1::ResolvedRule* rule = made->ablate_plan.add_rules();
        rule->set_index(made->ablate_plan.rules_size() - 1);
        rule->set_label("knockout");
        v1::Head* out = rule->mutable_fixed_heads()->add_heads();
        out->set_layer(layer);
        out->set_head(head);
      }
    }
    maker.MakeAblations();
    return made;
  }

  // A probe of every document under one rule, everything recorded.
  static std::unique_ptr<SampleJob> Probe() {
    auto made = std::make_unique<SampleJob>();
    SampleJobMaker maker(*made);
    made->store.job().mutable_probe()->mutable_workload()->set_model("tiny");
    maker.AddBaseline();
    maker.AddRule("output_norm_ln", .2);
    v1::RowRecord& record = *made->ablate_plan.mutable_record();
    record.set_measurements(true);
    record.set_first_weights(true);
    record.set_next_tokens(2);
    maker.MakeAblations();
    return made;
  }

  // An ablate job: the rule `none` in front, then two rules of the user's.
  static std::unique_ptr<SampleJob> Ablate() {
    auto made = std::make_unique<SampleJob>();
    SampleJobMaker maker(*made);
    made->store.job().mutable_ablate()->mutable_workload()->set_model("tiny");
    maker.AddBaseline();
    maker.AddRule("output_norm_ln", .2);
    maker.AddRule("fixed", std::numeric_limits<double>::quiet_NaN());
    maker.MakeAblations();
    return made;
  }

 private:
  struct Again {};
  SampleJobMaker(SampleJob& job, Again) : job_(job) {}  // whose manifest and blocks are there

  explicit SampleJobMaker(SampleJob& job) : job_(job) {
    MakeManifest();
    CutBlocks();
  }

  void MakeManifest() {
    v1::Manifest& manifest = job_.manifest;
    manifest.set_task("quiz");
    manifest.add_metrics("acc");
    manifest.add_metrics("acc_norm");
    for (const auto& [subtask, choices, samples] :
         {std::tuple{"quiz_a", 2, 2}, {"quiz_b", 2, 2}, {"letters", 4, 1}}) {
      for (int d = 0; d < 8; ++d) {
        v1::ManifestDocument* document = manifest.add_documents();
        document->set_id(std::string(subtask) + "/" + std::to_string(d));
        document->set_subtask(subtask);
        document->set_gold(static_cast<int>(random_() % static_cast<unsigned>(choices)));
        for (int c = 0; c < choices; ++c) {
          document->add_choice_lengths(1 + static_cast<int>(random_() % 40));
        }
        v1::ManifestGroup* group = manifest.add_groups();
        group->set_group(manifest.groups_size() - 1);
        for (int t = 0; t < 3; ++t) group->add_prefix(t);
        for (int s = 0; s < samples; ++s) {
          v1::ManifestSample* sample = manifest.add_samples();
          sample->set_id(document->id() + "/" + std::to_string(s));
          sample->set_document(manifest.documents_size() - 1);
          sample->set_request(s);
          sample->set_group(manifest.groups_size() - 1);
          for (int t = 0; t <= d; ++t) sample->add_suffix(t);
          const int scored = choices / samples;
          for (int c = 0; c < scored; ++c) sample->add_choices(s * scored + c);
          sample->set_scored(1);
        }
      }
    }
  }

  void CutBlocks() {
    for (int first = 0; first < job_.manifest.samples_size();) {
      int end = first;
      int documents = 0;
      while (end < job_.manifest.samples_size()) {
        const bool new_document = end == first || job_.manifest.samples(end).document() !=
                                                      job_.manifest.samples(end - 1).document();
        if (new_document && documents == 4) break;
        documents += new_document ? 1 : 0;
        ++end;
      }
      for (v1::StagePlan* plan : {&job_.score_plan, &job_.ablate_plan}) {
        v1::SampleBlock* block = plan->add_sample_blocks();
        block->set_first_sample(first);
        block->set_samples(end - first);
        block->set_documents(documents);
        plan->set_documents(job_.manifest.documents_size());
      }
      first = end;
    }
  }

  void AddBaseline() {
    v1::ResolvedRule* none = job_.ablate_plan.add_rules();
    none->set_none(true);
    none->set_label("baseline");
  }

  void AddRule(const char* label, double fraction) {
    v1::ResolvedRule* rule = job_.ablate_plan.add_rules();
    rule->set_index(job_.ablate_plan.rules_size() - 1);
    rule->set_label(label);
    rule->set_nominal_fraction(fraction);
    if (std::string(label) == "random") {
      rule->mutable_random()->set_p(fraction);
    } else if (std::string(label) == "fixed") {
      rule->mutable_fixed_heads()->add_heads();
    } else {
      rule->mutable_threshold()->set_score(label);
      rule->mutable_threshold()->set_value(static_cast<float>(fraction * 3));
    }
  }

  float Normal() { return normal_(random_); }

  void DrawRow(const v1::ManifestSample& sample, double share, bool with_mask,
               v1::SampleResult* row) {
    for (int c = 0; c < sample.choices_size(); ++c) {
      row->add_log_likelihoods(-5 + Normal());
      row->add_greedy(random_() % 2 == 0);
    }
    if (!with_mask) return;
    std::string mask((kLayers * kHeads + 7) / 8, '\0');
    for (int bit = 0; bit < kLayers * kHeads; ++bit) {
      if (std::uniform_real_distribution<double>()(random_) < share) {
        mask[static_cast<size_t>(bit / 8)] |= static_cast<char>(1 << (bit % 8));
      }
    }
    row->set_mask(mask);
  }

  std::string DrawFloats(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& x : values) x = std::exp(Normal());
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }

  void DrawSlabs(int64_t rows, google::protobuf::RepeatedPtrField<v1::Slab>* slabs) {
    v1::Slab* unknown = slabs->Add();
    unknown->set_measurement("from_the_future");
    unknown->set_values("?");
    for (const catalog::MeasurementInfo& info : catalog::kMeasurements) {
      v1::Slab* slab = slabs->Add();
      slab->set_measurement(std::string(info.id));
      slab->set_values(DrawFloats(rows * kLayers * kHeads));
    }
  }

  void DrawRecorded(v1::AblateChunk& chunk) {
    DrawSlabs(chunk.results_size(), chunk.mutable_slabs());
    for (int row = 0; row < chunk.results_size(); ++row) {
      v1::SampleResult& result = *chunk.mutable_results(row);
      v1::NextTokens& next = *result.mutable_next_tokens();
      for (const int token : {7, 8}) {
        next.add_tokens(token + row);
        next.add_texts("<" + std::to_string(token + row) + ">");
        next.add_log_likelihoods(-Normal() * Normal());
      }
      next.set_entropy(row + .5);
      next.set_divergence(row + .25);
      if (row >= chunk.samples()) continue;
      const v1::ManifestSample& sample =
          job_.manifest.samples(static_cast<int>(chunk.first_sample()) + row);
      const int tokens = 3 + sample.suffix_size();
      for (int t = 0; t < tokens; ++t) result.add_input_texts("t" + std::to_string(t));
      result.set_first_weights(DrawFloats(int64_t{kLayers} * kHeads * tokens));
    }
  }

  void MakeScores() {
    for (const v1::SampleBlock& block : job_.score_plan.sample_blocks()) {
      v1::ScoreChunk& chunk = job_.score_chunks.emplace_back();
      chunk.set_first_sample(block.first_sample());
      chunk.set_samples(block.samples());
      chunk.set_layers(kLayers);
      chunk.set_heads(kHeads);
      DrawSlabs(block.samples(), chunk.mutable_slabs());
      for (int i = 0; i < block.samples(); ++i) {
        DrawRow(job_.manifest.samples(static_cast<int>(block.first_sample()) + i), 0, false,
                chunk.add_results());
      }
    }
    job_.store.Plan(store::Stage::kScore, job_.score_plan, job_.manifest);
    for (size_t u = 0; u < job_.score_chunks.size(); ++u) {
      job_.store.Store(static_cast<int64_t>(u), job_.score_chunks[u]);
    }
  }

  void MakeAblations() {
    v1::StagePlan& plan = job_.ablate_plan;
    plan.set_rules_per_unit(2);
    for (int first = 0; first < plan.rules_size(); first += 2) {
      const int rules = std::min(2, plan.rules_size() - first);
      for (const v1::SampleBlock& block : plan.sample_blocks()) {
        MakeChunk(block.first_sample(), block.samples(), first, rules);
      }
    }
    StoreAblations();
  }

  void MakeListedAblations() {
    for (const v1::UnitRange& unit : job_.ablate_plan.units()) {
      MakeChunk(unit.first_sample(), unit.samples(), unit.first_rule(), unit.rules());
    }
    StoreAblations();
  }

  void MakeChunk(int64_t first_sample, int samples, int first_rule, int rules) {
    v1::AblateChunk& chunk = job_.ablate_chunks.emplace_back();
    chunk.set_first_sample(first_sample);
    chunk.set_samples(samples);
    chunk.set_first_rule(first_rule);
    chunk.set_rules(rules);
    chunk.set_layers(kLayers);
    chunk.set_heads(kHeads);
    for (int r = first_rule; r < first_rule + rules; ++r) {
      const double share = job_.ablate_plan.rules(r).none() ? 0 : .05 + .1 * (r % 3);
      for (int i = 0; i < samples; ++i) {
        DrawRow(job_.manifest.samples(static_cast<int>(first_sample) + i), share, true,
                chunk.add_results());
      }
    }
    chunk.set_zeroed(std::string(static_cast<size_t>(rules * kLayers * kHeads * 4), '\0'));
    if (job_.ablate_plan.has_record()) DrawRecorded(chunk);
  }

  void StoreAblations() {
    job_.store.Plan(store::Stage::kAblate, job_.ablate_plan, job_.manifest);
    for (size_t u = 0; u < job_.ablate_chunks.size(); ++u) {
      job_.store.Store(static_cast<int64_t>(u), job_.ablate_chunks[u]);
    }
  }

  SampleJob& job_;
  std::mt19937 random_{42};
  std::normal_distribution<float> normal_;
};

}  // namespace headcount::results
