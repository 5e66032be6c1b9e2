// Short ways to run the engine in tests. Failures of the engine are test failures with its status
// in the text.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/catalog/scores.h"
#include "worker/engine/engine.h"

namespace headcount::engine {

// With two threads unless `options` says otherwise; tiny models run on one, which suits them. On
// the first GPU with HEADCOUNT_TEST_DEVICE=cuda, else on the CPU.
std::unique_ptr<Engine> LoadOrDie(const std::string& directory, DType dtype = DType::kFloat32,
                                  const EngineOptions& options = {});

UnitResult RunOrDie(Engine& engine, const Unit& unit);

// A unit of one row a prompt, each under each of the rules: rows [rule][prompt]. Keeps a copy of
// the tokens.
Unit MakeUnit(const std::vector<std::vector<int32_t>>& prompts, std::vector<Rule> rules,
              bool measurements);

// A row's scores [layer][head] from its recorded measurements.
std::vector<float> ScoresOf(const RowResult& row, const catalog::ModelConfig& config,
                            const catalog::Score& score);

// A row's zeroed heads [layer][head], 0 or 1.
std::vector<float> MaskOf(const RowResult& row, const catalog::ModelConfig& config);

const catalog::Score& ScoreOrDie(const std::string& id_or_alias);

Rule ThresholdRule(const std::string& score, float threshold);
Rule FixedRule(std::vector<Head> heads);
// Names for rows that draw at random; they live for ever.
std::string_view SampleName(size_t i);

Rule RandomRule(double probability);
Rule TopKRule(const std::string& score, int k);
// `rule`, with heads that are not lost but scaled, or made to see the first token alone.
Rule Scaled(Rule rule, float scale);
Rule ToFirstValue(Rule rule);
Rule ToMean(Rule rule, std::shared_ptr<const HeadMeans> means);
// Made-up means: any numbers, the same in every test.
std::shared_ptr<const HeadMeans> SomeMeans(const catalog::ModelConfig& config);
// From a mask [layer][head].
Rule FixedRule(const catalog::ModelConfig& config, const float* mask);

}  // namespace headcount::engine
