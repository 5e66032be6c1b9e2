// See readout.h.

#include "worker/engine/readout.h"

#include <algorithm>
#include <cmath>

#include "ATen/ops/argmax.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/logsumexp.h"

namespace headcount::engine {
namespace {

// Bounds the logits that exist at one time: elements of [positions, vocabulary].
constexpr int64_t kLogitElementsCpu = 16 << 20;
constexpr int64_t kLogitElementsAccelerator = 256 << 20;

// Every continuation token of a batch with the scored position that predicts it, in the order of
// rows, continuations and tokens.
struct Targets {
  std::vector<int64_t> position;  // index into the scored tokens
  std::vector<int64_t> token;
};

Targets ListTargets(std::span<const Row* const> rows) {
  Targets targets;
  int64_t first = 0;
  for (const Row* row : rows) {
    for (size_t i = 0; i < row->targets.size(); ++i) {
      targets.position.push_back(first + static_cast<int64_t>(i) % row->scored);
      targets.token.push_back(row->targets[i]);
    }
    first += ScoredTokens(*row);
  }
  return targets;
}

// One value a target.
struct Scored {
  at::Tensor log_likelihood;  // float32
  at::Tensor greedy;          // uint8
};

// Targets [begin, end) all belong to positions [first, first + hidden.size(0)).
Scored ScoreChunk(const Transformer& model, const at::Tensor& hidden, int64_t first,
                  const at::Tensor& position, const at::Tensor& token) {
  const at::Tensor logits = model.Logits(hidden);
  const at::Tensor at_position = position.sub(first);
  const at::Tensor normaliser = at::logsumexp(logits, -1);
  const at::Tensor best = at::argmax(logits, -1);
  const at::Tensor value =
      logits.flatten().index_select(0, at_position.mul(logits.size(1)).add_(token));
  return {value.sub(normaliser.index_select(0, at_position)),
          best.index_select(0, at_position).eq(token).to(at::kByte)};
}

// Walks over the positions in bounded chunks.
Scored ScoreAll(const Transformer& model, const at::Tensor& hidden, const Targets& targets) {
  const int64_t elements = hidden.is_cpu() ? kLogitElementsCpu : kLogitElementsAccelerator;
  const int64_t chunk = std::max<int64_t>(1, elements / model.config().vocab_size);
  // A row's continuations go over its positions again and again, so targets are taken in the order
  // of positions.
  std::vector<int64_t> order(targets.position.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return targets.position[static_cast<size_t>(a)] < targets.position[static_cast<size_t>(b)];
  });
  std::vector<int64_t> position, token;
  for (int64_t i : order) {
    position.push_back(targets.position[static_cast<size_t>(i)]);
    token.push_back(targets.token[static_cast<size_t>(i)]);
  }
  const at::Tensor all_positions = ToDevice(position, model.device());
  const at::Tensor all_tokens = ToDevice(token, model.device());
  std::vector<at::Tensor> log_likelihoods, greedy;
  for (int64_t first = 0; first < hidden.size(0); first += chunk) {
    const int64_t count = std::min(chunk, hidden.size(0) - first);
    const auto begin = std::lower_bound(position.begin(), position.end(), first);
    const auto end = std::lower_bound(begin, position.end(), first + count);
    const Scored scored = ScoreChunk(model, hidden.narrow(0, first, count), first,
                                     all_positions.narrow(0, begin - position.begin(), end - begin),
                                     all_tokens.narrow(0, begin - position.begin(), end - begin));
    log_likelihoods.push_back(scored.log_likelihood);
    greedy.push_back(scored.greedy);
  }
  const at::Tensor places = ToDevice(order, model.device());
  const at::Tensor sorted = at::cat(log_likelihoods);
  const at::Tensor sorted_greedy = at::cat(greedy);
  return {sorted.new_empty(sorted.sizes()).scatter_(0, places, sorted).to(at::kCPU),
          sorted_greedy.new_empty(sorted.sizes()).scatter_(0, places, sorted_greedy).to(at::kCPU)};
}

void ReadNextTokens(const Transformer& model, const at::Tensor& hidden,
                    std::span<const Row* const> rows, std::span<RowResult* const> results) {
  int64_t end = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    end += ScoredTokens(*rows[r]);
    if (!rows[r]->next_token) continue;
    const at::Tensor logits = model.Logits(hidden.narrow(0, end - 1, 1)).flatten();
    const at::Tensor all = at::log_softmax(logits, -1).to(at::kCPU).contiguous();
    const float* values = all.const_data_ptr<float>();
    results[r]->next_token.assign(values, values + all.numel());
    if (!all.isfinite().all().item<bool>()) results[r]->finite = false;
  }
}

}  // namespace

void ScoreContinuations(const Transformer& model, const at::Tensor& hidden,
                        std::span<const Row* const> rows, std::span<RowResult* const> results) {
  ReadNextTokens(model, hidden, rows, results);
  const Targets targets = ListTargets(rows);
  if (targets.token.empty()) return;
  const Scored all = ScoreAll(model, hidden, targets);
  const float* log_likelihood = all.log_likelihood.const_data_ptr<float>();
  const uint8_t* greedy = all.greedy.const_data_ptr<uint8_t>();
  for (size_t r = 0; r < rows.size(); ++r) {
    RowResult& result = *results[r];
    const auto scored = static_cast<size_t>(rows[r]->scored);
    const size_t continuations = rows[r]->targets.empty() ? 0 : rows[r]->targets.size() / scored;
    for (size_t c = 0; c < continuations; ++c) {
      float sum = 0;
      bool all_best = true;
      for (size_t i = 0; i < scored; ++i) {
        sum += *log_likelihood++;
        all_best &= *greedy++ != 0;
      }
      result.log_likelihoods.push_back(sum);
      result.greedy.push_back(all_best ? 1 : 0);
      if (!std::isfinite(sum)) result.finite = false;
    }
  }
}

}  // namespace headcount::engine
