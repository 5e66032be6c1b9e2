// The engine's side of the benchmarks: one timed pass over a set of prompts, as the JSON command
// asks for it, and the scores that thresholds are taken from. Used by engine_bench, one thread.
//
// Errors: INVALID_ARGUMENT for a command that cannot be read; the engine's own otherwise.

#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "worker/engine/engine.h"

namespace headcount::bench {

// {"case": "plain" | "record" | "ablate", "prompts": [[token, ...], ...], "targets": [token, ...],
//  "rules": [{"score": id, "threshold": t} | {"random": p}, ...], "head_sums": bool}
// -> {"seconds", "cpu_seconds", "share": heads zeroed over all heads, "tokens" and, of them,
//     "computed_tokens"}.
// Every prompt is run under every rule, in one unit; targets are one-token continuations.
absl::StatusOr<nlohmann::json> TimePass(engine::Engine& engine, const nlohmann::json& command);

// {"case": "generate", "prompts": ..., "rules": ..., "new_tokens": n}
// -> {"seconds", "cpu_seconds", "generated": [[token, ...], ...], "share", "recomputed_tokens" of
//     every step's whole input and, in their place, "computed_tokens"}.
// Every prompt is continued under every rule, decided anew at every step; nothing ends it early.
absl::StatusOr<nlohmann::json> TimeGeneration(engine::Engine& engine,
                                              const nlohmann::json& command);

// {"case": "thresholds", "prompts": ..., "targets": ..., "scores": [id, ...], "fractions": [f,
// ...]}
// -> {"thresholds": {id: [one a fraction]}}: where that share of the prompts' heads is inactive.
absl::StatusOr<nlohmann::json> Thresholds(engine::Engine& engine, const nlohmann::json& command);

}  // namespace headcount::bench
