// From the rules of a spec to rules as the engine runs them: layers resolved, thresholds looked up.
// Shared by the planners that have an ablate stage. Pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headcount/v1/spec.pb.h"
#include "headcount/v1/worker_service.pb.h"

namespace headcount::plan {

// 0/1 a layer; empty where nothing is left out. The selection has passed CheckLayers.
std::vector<uint8_t> LayerFlags(const v1::LayerSelection& layers, int model_layers);

// A rule with label, nominal fraction (NaN: it names none) and layers set, and nothing selected.
v1::ResolvedRule NewRule(const std::string& label, double nominal_fraction,
                         const std::vector<uint8_t>& layers);

// The threshold of a fraction. Fraction 0 zeroes nothing by definition, so it selects nothing
// instead of relying on the smallest score not being undercut.
void SelectFraction(const std::string& score, double fraction, double threshold,
                    v1::ResolvedRule* rule);

}  // namespace headcount::plan
