// What becomes of inactive heads: turns the masks of a batch's rows into codes, one a head, that
// say by which intervention its output is replaced, and replaces the outputs. A code is part of a
// row's history: where two rows' codes differ, histories part (see layout.h).
//
// Made once a batch or generation, used by one thread. Throws libtorch's exceptions (see
// tensor/torch_guard.h). Rules are valid (validate.h).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "common/catalog/model_config.h"
#include "worker/engine/engine.h"

namespace headcount::engine {

// Codes are bytes, and 0 is a head that keeps its output.
inline constexpr int kMostInterventions = 255;

class Interventions {
 public:
  // Nothing is replaced.
  Interventions() = default;
  // Tokens of z in Apply, one each: the row that they belong to, and their position in its input.
  struct Tokens {
    at::Tensor rows;       // [n] int64, indices into the rows of `codes`
    at::Tensor positions;  // [n] int64
  };

  // `rows` in the order of the batch. At most kMostInterventions different ones are among `rules`.
  Interventions(const catalog::ModelConfig& config, std::span<const Rule> rules,
                std::span<const Row* const> rows, c10::Device device);

  // Of `mask` [rows, heads] bool, true where the head is inactive, for the rows `row_ids` [rows]
  // int64 of the batch: [rows, heads] uint8.
  at::Tensor CodesOf(const at::Tensor& mask, const at::Tensor& row_ids) const;

  // Whether Apply needs `first_values`.
  bool needs_first_values() const { return needs_first_values_; }

  // Replaces outputs of a layer in z [n, heads, head_dim], in place. `codes` [rows, heads];
  // `first_values` [rows, kv_heads, head_dim] are the rows' values at position 0.
  void Apply(int layer, const at::Tensor& codes, const Tokens& tokens,
             const at::Tensor& first_values, at::Tensor& z) const;

 private:
  struct Means {
    at::Tensor rest;  // [layers, heads, head_dim] float32
    at::Tensor first;
  };

  std::vector<Intervention> kinds_;  // code - 1 -> what it means
  std::vector<Means> means_;         // likewise; undefined where it is not kMean
  at::Tensor code_of_row_;           // [rows, 1] uint8; undefined where all rows have code 1
  bool needs_first_values_ = false;
};

}  // namespace headcount::engine
