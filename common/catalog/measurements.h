// The base measurements of a query head, by id. Everything a score is made of; the kernels that
// take them are in worker/engine/measure (a test fails for a measurement without a kernel and the
// reverse). Pure data, no errors.
//
// Symbols of one sample of T tokens: P the attention weights of a query head, v the values of its
// KV head, z = P v the head's output before W_O, W_h the columns of W_O that belong to it. Means
// run over all T query tokens.

#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace headcount::catalog {

enum class Measurement {
  kFirstWeight = 0,  // mean_i P_i0, a probability
  kEntropy = 1,      // mean_i -sum_j P_ij ln P_ij, nats
  kFirstValue = 2,   // norm of v_0
  kValue = 3,        // mean_i norm of v_i
  kOutput = 4,       // mean_i norm of z_i
  kLastOutput = 5,   // norm of z_{T-1}
  kProjected = 6,    // mean_i norm of W_h z_i
};

inline constexpr int kMeasurementCount = 7;

struct MeasurementInfo {
  Measurement measurement;
  std::string_view id;       // as used in score formulas
  std::string_view formula;  // for people
  std::string_view unit;
  bool per_kv_head;  // query heads of one KV group share it
};

inline constexpr std::array<MeasurementInfo, kMeasurementCount> kMeasurements = {{
    {Measurement::kFirstWeight, "first_weight", "mean_i P_i0", "probability", false},
    {Measurement::kEntropy, "entropy", "mean_i (-sum_j P_ij ln P_ij)", "nats", false},
    {Measurement::kFirstValue, "first_value", "|v_0|", "activation", true},
    {Measurement::kValue, "value", "mean_i |v_i|", "activation", true},
    {Measurement::kOutput, "output", "mean_i |z_i|", "activation", false},
    {Measurement::kLastOutput, "last_output", "|z_{T-1}|", "activation", false},
    {Measurement::kProjected, "projected", "mean_i |W_h z_i|", "activation", false},
}};

// The measurement with this id, or nothing.
constexpr std::optional<Measurement> FindMeasurement(std::string_view id) {
  for (const MeasurementInfo& info : kMeasurements) {
    if (info.id == id) return info.measurement;
  }
  return std::nullopt;
}

}  // namespace headcount::catalog
