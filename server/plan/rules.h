// From the rules of a spec to rules as the engine runs them: layers resolved, thresholds looked up.
// Shared by the planners that have an ablate stage. Pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/catalog/model_config.h"
#include "headcount/v1/spec.pb.h"
#include "headcount/v1/worker_service.pb.h"
#include "server/plan/user_scores.h"
#include "server/results/score_pool.h"

namespace headcount::plan {

// 0/1 a layer; empty where nothing is left out. The selection has passed CheckLayers.
std::vector<uint8_t> LayerFlags(const v1::LayerSelection& layers, int model_layers);

// What a rule's fractions are taken of. `unit` and `group_score` have passed validation.
results::ScorePool PoolOf(const v1::LayerSelection& layers, v1::Unit unit,
                          v1::GroupScore group_score, const catalog::ModelConfig& model);

// Sets them, in their one form: nothing for query heads.
void SetUnit(v1::Unit unit, v1::GroupScore group_score, v1::ResolvedRule* rule);

// A rule with label, nominal fraction (NaN: it names none) and layers set, and nothing selected.
v1::ResolvedRule NewRule(const std::string& label, double nominal_fraction,
                         const std::vector<uint8_t>& layers);

// What inactive heads become. The label says so too where it is not zero: curves are kept apart by
// their labels.
void SetIntervention(const v1::Intervention& intervention, v1::ResolvedRule* rule);
// The baseline as a rule of its own, which zeroes nothing.
v1::ResolvedRule BaselineRule();

// The threshold of a fraction. Fraction 0 zeroes nothing by definition, so it selects nothing
// instead of relying on the smallest score not being undercut.
void SelectFraction(const UserScores& scores, const catalog::Score& score, double fraction,
                    double threshold, v1::ResolvedRule* rule);

}  // namespace headcount::plan
