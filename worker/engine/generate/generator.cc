// See generator.h.

#include "worker/engine/generate/generator.h"

#include <algorithm>

#include "ATen/ops/argmax.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/stack.h"
#include "ATen/ops/zeros.h"
#include "worker/engine/measure/kernels.h"
#include "worker/engine/walk.h"

namespace headcount::engine {
namespace {

std::vector<Row> DeciderRows(const GenerateUnit& unit, std::span<const int> rows) {
  std::vector<Row> out;
  for (int row : rows) {
    const GenerateRow& from = unit.rows[static_cast<size_t>(row)];
    out.push_back({.rule = from.rule, .sample = from.sample});
  }
  return out;
}

std::vector<const Row*> Pointers(const std::vector<Row>& rows) {
  std::vector<const Row*> out;
  for (const Row& row : rows) out.push_back(&row);
  return out;
}

std::vector<uint8_t> PackBits(const std::vector<std::string>& codes, size_t heads) {
  std::vector<uint8_t> bits((codes.size() * heads + 7) / 8);
  for (size_t layer = 0; layer < codes.size(); ++layer) {
    for (size_t head = 0; head < heads; ++head) {
      const size_t bit = layer * heads + head;
      if (codes[layer][head] != 0) bits[bit / 8] |= static_cast<uint8_t>(1u << (bit % 8));
    }
  }
  return bits;
}

// The last token of each of a packing's branches.
at::Tensor LastOf(const at::Tensor& values, const Packing& packing) {
  return values.index_select(0, packing.last_tokens);
}

}  // namespace

int64_t RowsAbreast(const GenerateUnit& unit, const catalog::ModelConfig& config,
                    int64_t element_bytes, int64_t max_cache_bytes) {
  size_t longest = 1;
  for (const GenerateRow& row : unit.rows) longest = std::max(longest, row.prompt.size());
  const int64_t numbers =  // of a token in a layer: x, z, k and v
      config.hidden_size + int64_t{config.heads + 2 * config.kv_heads} * config.head_dim;
  const int64_t history = (static_cast<int64_t>(longest) + unit.max_new_tokens) * config.layers *
                          numbers * element_bytes;
  return std::clamp<int64_t>(max_cache_bytes / (2 * history), 1, kMostRowsAbreast);
}

Generator::Generator(Transformer& model, const GenerateUnit& unit, std::span<const int> rows,
                     const GeneratorLimits& limits)
    : model_(model),
      unit_(unit),
      limits_(limits),
      states_(rows.size()),
      decider_rows_(DeciderRows(unit, rows)),
      decider_(model.config(), unit.rules, Pointers(decider_rows_), model.device()),
      interventions_(model.config(), unit.rules, Pointers(decider_rows_), model.device()) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const int32_t> prompt = unit.rows[static_cast<size_t>(rows[i])].prompt;
    states_[i].tokens.assign(prompt.begin(), prompt.end());
    states_[i].prompt = prompt.size();
    states_[i].codes.resize(static_cast<size_t>(model.config().layers));
    states_[i].unit_row = static_cast<size_t>(rows[i]);
  }
}

absl::Status Generator::Run(std::span<GeneratedRow* const> results, const CancelFlag& cancel) {
  for (;; ++step_) {
    std::vector<int> active;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].ended) active.push_back(static_cast<int>(i));
    }
    if (active.empty()) return absl::OkStatus();
    while (!active.empty()) {
      if (cancel.load()) return absl::CancelledError("cancelled between two steps");
      const std::vector<int> group = NextGroup(active);
      active.erase(active.begin(), active.begin() + static_cast<std::ptrdiff_t>(group.size()));
      Advance(group, results);
    }
  }
}

// The decision on the prompt stands. Rows of one step have generated equally much.
bool Generator::Frozen() const { return unit_.mask_update == MaskUpdate::kPromptOnce && step_ > 0; }

// As many of the active rows as the token budget allows: whole prompts at first, then a token each.
std::vector<int> Generator::NextGroup(std::span<const int> active) const {
  std::vector<int> group;
  int64_t tokens = 0;
  for (int row : active) {
    const State& state = states_[static_cast<size_t>(row)];
    const int64_t more = static_cast<int64_t>(state.tokens.size()) - state.root.tokens;
    if (!group.empty() && tokens + more > limits_.max_tokens) break;
    group.push_back(row);
    tokens += more;
  }
  return group;
}

void Generator::Advance(const std::vector<int>& rows, std::span<GeneratedRow* const> results) {
  Step step{rows, {}};
  std::vector<int32_t> ids;
  for (int row : rows) {
    State& state = states_[static_cast<size_t>(row)];
    if (!limits_.keep_steps) state.root = {};
    step.caches.push_back(&state.root);
    ids.insert(ids.end(), state.tokens.begin() + state.root.tokens, state.tokens.end());
  }
  Packing packing = PackMissing(step);
  at::Tensor x = model_.Embed(ids, packing);
  const int layers = model_.config().layers;
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<PastKeys> past;
    for (const LayerCache* cache : step.caches) {
      past.push_back(cache->tokens == 0 ? PastKeys{}
                                        : PastKeys{cache->k.From(0), cache->v.From(0)});
    }
    const AttentionExtras extras =
        Frozen() ? AttentionExtras{} : ExtrasFor(decider_.Measurements(layer, rows));
    const LayerHeads heads = model_.Attend(layer, x, packing, model_.Rotary(packing), extras, past);
    computed_ += packing.tokens;
    const std::vector<std::string> codes = Decide(heads, step, results);
    for (size_t i = 0; i < rows.size(); ++i) {
      states_[static_cast<size_t>(rows[i])].codes[static_cast<size_t>(layer)] = codes[i];
    }
    Keep(heads, x, step);
    const at::Tensor first_values =
        interventions_.needs_first_values() ? FirstValues(step) : at::Tensor();
    if (layer + 1 == layers) {
      at::Tensor hidden = LastOf(x, packing), z = LastOf(heads.attended.z, packing);
      interventions_.Apply(layer, ToTensor(codes),
                           {packing.row_of_token.index_select(0, packing.last_tokens),
                            packing.positions.index_select(0, packing.last_tokens)},
                           first_values, z);
      model_.Finish(layer, z, hidden);
      Choose(hidden, step, results);
      break;
    }
    // On to the caches that hang below these decisions, with what they lack.
    std::vector<at::Tensor> inputs, outputs;
    for (size_t i = 0; i < rows.size(); ++i) {
      LayerCache& from = *step.caches[i];
      std::unique_ptr<LayerCache>& next = from.next[codes[i]];
      if (next == nullptr) next = std::make_unique<LayerCache>();
      inputs.push_back(from.x.From(next->tokens));
      outputs.push_back(from.z.From(next->tokens));
      step.caches[i] = next.get();
    }
    packing = PackMissing(step);
    x = at::cat(inputs);
    at::Tensor z = at::cat(outputs);
    interventions_.Apply(layer, ToTensor(codes), {packing.row_of_token, packing.positions},
                         first_values, z);
    model_.Finish(layer, z, x);
  }
  for (int row : rows) {
    states_[static_cast<size_t>(row)].root.Trim(limits_.max_cache_bytes, step_);
  }
}

// A branch a row: the tokens that its cache lacks, after those that it has.
Packing Generator::PackMissing(const Step& step) const {
  Layout layout;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const int row = step.rows[i];
    const auto length = static_cast<int64_t>(states_[static_cast<size_t>(row)].tokens.size());
    const int64_t past = step.caches[i]->tokens;
    layout.branches.push_back({length - past, Layout::kNoTrunk, {row}, past});
  }
  return Pack(std::move(layout), model_.device());
}

std::vector<std::string> Generator::Decide(const LayerHeads& heads, const Step& step,
                                           std::span<GeneratedRow* const> results) {
  const auto count = static_cast<size_t>(model_.config().heads);
  if (Frozen()) {
    std::vector<std::string> codes;
    for (int row : step.rows) {
      codes.push_back(states_[static_cast<size_t>(row)].codes[static_cast<size_t>(heads.layer)]);
    }
    return codes;
  }
  const Decision decision =
      decider_.Decide(heads.layer, Measure(heads, step), heads.packing->rows,
                      heads.packing->row_ids, RowsThatLoseFirst(*heads.packing, heads.window));
  std::vector<std::string> codes(step.rows.size(), std::string(count, '\0'));
  if (decision.mask.defined()) {
    const at::Tensor host =
        interventions_.CodesOf(decision.mask, heads.packing->row_ids).to(at::kCPU).contiguous();
    const char* bytes = reinterpret_cast<const char*>(host.const_data_ptr<uint8_t>());
    for (std::string& of_row : codes) {
      of_row.assign(bytes, count);
      bytes += count;
    }
  }
  if (decision.not_finite.defined()) {
    const at::Tensor bad = decision.not_finite.any(1).to(at::kCPU, at::kByte);
    for (size_t i = 0; i < step.rows.size(); ++i) {
      if (bad.const_data_ptr<uint8_t>()[i] == 0) continue;
      results[static_cast<size_t>(step.rows[i])]->finite = false;
    }
  }
  return codes;
}

// Over each row's whole input: what this step gave, joined with what the cache has.
MeasurementTensors Generator::Measure(const LayerHeads& heads, const Step& step) {
  const Packing& packing = *heads.packing;
  const unsigned needed = decider_.Measurements(heads.layer, packing.rows);
  MeasurementTensors measured;
  if (needed == 0) return measured;
  const at::Tensor gram = NeedsGram(needed) ? model_.Gram(heads.layer) : at::Tensor();
  const MeasureInput input{packing, heads.v, heads.attended, gram};
  std::vector<at::Tensor> sums;
  for (LayerCache* cache : step.caches) {
    if (!cache->sums.defined()) {
      cache->sums = at::zeros({catalog::kMeasurementCount, model_.config().heads},
                              at::TensorOptions(at::kFloat).device(model_.device()));
    }
    sums.push_back(cache->sums);
  }
  const at::Tensor before = at::stack(sums);  // [rows, measurements, heads]
  std::vector<int64_t> has_past;
  for (const LayerCache* cache : step.caches) has_past.push_back(cache->tokens > 0 ? 1 : 0);
  const at::Tensor continued = ToDevice(has_past, model_.device()).to(at::kBool).unsqueeze(1);
  for (const MeasureKernel& kernel : MeasureKernels()) {
    const auto m = static_cast<int64_t>(kernel.measurement);
    if ((needed >> m & 1u) == 0) continue;
    at::Tensor value = kernel.run(input);
    if (kernel.over != Over::kLast) {
      const at::Tensor kept = before.select(1, m);
      const at::Tensor sum = kernel.over == Over::kMean ? kept.add(value.mul(packing.row_lengths))
                                                        : kept.where(continued, value);
      for (size_t i = 0; i < step.caches.size(); ++i) {
        step.caches[i]->sums.select(0, m).copy_(sum.select(0, static_cast<int64_t>(i)));
      }
      value = kernel.over == Over::kMean ? sum.div(packing.row_lengths) : sum;
    }
    if (kernel.of_first_key) value = OfTokensThatSeeFirst(value, packing, heads.window);
    measured[static_cast<size_t>(m)] = value;
  }
  return measured;
}

void Generator::Keep(const LayerHeads& heads, const at::Tensor& x, const Step& step) {
  const Packing& packing = *heads.packing;
  const bool last = heads.layer + 1 == model_.config().layers;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const State& state = states_[static_cast<size_t>(step.rows[i])];
    const auto most = static_cast<int64_t>(state.prompt) + unit_.max_new_tokens;
    LayerCache& cache = *step.caches[i];
    const int64_t length = packing.layout.branches[i].length;
    const auto append = [&](const at::Tensor& values, GrowingTensor& to) {
      to.Append(values.narrow(0, packing.begins[i], length), most);
    };
    append(heads.k, cache.k);
    append(heads.v, cache.v);
    if (!last) {
      append(x, cache.x);
      append(heads.attended.z, cache.z);
    }
    cache.tokens += length;
    cache.last_step = step_;
  }
}

// Of the layer whose caches these are: [rows, kv_heads, head_dim].
at::Tensor Generator::FirstValues(const Step& step) const {
  std::vector<at::Tensor> values;
  for (const LayerCache* cache : step.caches) values.push_back(cache->v.From(0).select(0, 0));
  return at::stack(values);
}

at::Tensor Generator::ToTensor(const std::vector<std::string>& codes) const {
  std::string all;
  for (const std::string& of_row : codes) all += of_row;
  return at::from_blob(all.data(), {static_cast<int64_t>(codes.size()), model_.config().heads},
                       at::kByte)
      .clone()
      .to(model_.device());
}

void Generator::Choose(const at::Tensor& hidden, const Step& step,
                       std::span<GeneratedRow* const> results) {
  const at::Tensor logits = model_.Logits(hidden);
  const at::Tensor best = logits.argmax(-1).to(at::kCPU);
  const at::Tensor finite = logits.isfinite().all(1).to(at::kCPU, at::kByte);
  for (size_t i = 0; i < step.rows.size(); ++i) {
    State& state = states_[static_cast<size_t>(step.rows[i])];
    GeneratedRow& result = *results[static_cast<size_t>(step.rows[i])];
    if (finite.const_data_ptr<uint8_t>()[i] == 0) result.finite = false;
    if (!result.finite) {
      state.ended = true;
      state.root = {};
      continue;
    }
    const auto token = static_cast<int32_t>(best.const_data_ptr<int64_t>()[i]);
    state.tokens.push_back(token);
    result.tokens.push_back(token);
    result.masks.push_back(PackBits(state.codes, static_cast<size_t>(model_.config().heads)));
    const auto& stops = unit_.stop_tokens;
    state.ended = static_cast<int>(result.tokens.size()) == unit_.max_new_tokens ||
                  std::find(stops.begin(), stops.end(), token) != stops.end() ||
                  (unit_.ended && unit_.ended(state.unit_row, result.tokens));
    if (state.ended) state.root = {};
  }
}

}  // namespace headcount::engine
