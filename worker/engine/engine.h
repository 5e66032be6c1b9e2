// The engine: one unit in, rows out.
//
// A unit is a set of rows that share a token prefix, and the rules (which heads to switch off,
// decided how) that the rows name. The engine runs the model over each row, layer by layer: it
// measures every query head, decides the row's inactive heads from those measurements, changes
// their outputs before W_O (to zero, unless the rule says otherwise), goes on to the next layer,
// and returns log-likelihoods, measurements and masks in the order in which the rows were given.
// What rows have in common, tokens and what became of their heads so far, is computed once.
//
// Called by worker/agent and by tests. Knows neither gRPC nor protobuf: it links libtorch and
// Abseil only.
//
// Guarantees: results of a row depend on the unit alone, and up to rounding (semantics: 2e-5
// relative) on the row alone; padding never changes a score; nothing is allocated that grows with
// the square of the length (the dense reference attention of the tests excepted). Thread-safety: an
// Engine is used by one thread at a time; CancelFlag may be set from any thread. Errors:
// absl::Status only; libtorch's exceptions stop here. Out of memory is RESOURCE_EXHAUSTED after
// backing off to batches of one row; a token id outside the vocabulary or a row over the context
// length is INVALID_ARGUMENT.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/catalog/model_config.h"
#include "common/catalog/scores.h"

namespace headcount::engine {

enum class DType { kFloat32, kBFloat16 };

// Where the model runs. `index` counts accelerators from 0 and is ignored for the CPU.
struct Device {
  enum class Kind { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int index = 0;
};

// A query head; both numbers count from 0.
struct Head {
  int layer = 0;
  int head = 0;
};

// Mean head outputs, [layer][query head][head_dim].
struct HeadMeans {
  std::vector<float> rest;   // over tokens i >= 1
  std::vector<float> first;  // at position 0
};

// What takes the place of an inactive head's output z, at every position i of the input.
struct Intervention {
  enum class Kind {
    kZero,        // z_i = 0
    kScale,       // z_i = scale * z_i; a scale of 0 is kZero
    kFirstValue,  // z_i = v_0: the head attends to token 0 alone
    kMean,        // z_i = `means`' rest, z_0 = its first
  };
  Kind kind = Kind::kZero;
  float scale = 0;                         // kScale, finite
  std::shared_ptr<const HeadMeans> means;  // kMean

  bool operator==(const Intervention&) const = default;
};

// What is decided about: each query head for itself, or the query heads of a KV head as one, by the
// mean (or largest, or smallest) of their scores.
enum class HeadUnit { kQueryHead, kKvGroup };
enum class GroupScore { kMean, kMax, kMin };

// A step of a combined rule, as a postfix program over masks.
struct CombineStep {
  enum class Op {
    kPart,           // pushes the mask of `part`
    kAnd,            // inactive in both of the last two
    kOr,             // in one of them
    kAndNot,         // in the first of them and not in the second
    kRandomInLayer,  // as many heads as the last one has in the layer, drawn at random: those with
                     // the smallest draws of Philox4x32-10, keyed by (seed, sample)
  };
  Op op = Op::kPart;
  int part = 0;                          // kPart: index into Rule::parts
  uint64_t seed = 0;                     // kRandomInLayer
  HeadUnit unit = HeadUnit::kQueryHead;  // kRandomInLayer: kKvGroup draws KV heads
};

// Which heads a row loses, and to what. Decided per row and layer inside the forward pass: layer
// l's decision is taken from the run in which the rule already acted on the layers below.
struct Rule {
  enum class Select {
    kNone,       // nothing is zeroed: the baseline
    kThreshold,  // heads whose score is on the inactive side of `threshold` (strict)
    kTopK,  // in each included layer the `top_k` most inactive heads (or KV heads) of the row; ties
            // go to the lower one
    kFixedHeads,  // `heads`, for every row
    kRandom,    // heads whose draw u < `probability`, u from Philox4x32-10 keyed by (seed, sample)
    kCombined,  // `parts`, put together by `steps`
  };
  Select select = Select::kNone;
  const catalog::Score* score = nullptr;             // kThreshold and kTopK; outlives the call
  std::shared_ptr<const catalog::Score> user_score;  // keeps `score` where it is not of the table
  float threshold = 0;                               // kThreshold, in the score's unit
  std::vector<float> layer_thresholds;  // kThreshold: one a layer in its place, or empty
  int top_k = 0;                        // kTopK, 0..heads of the unit
  double probability = 0;               // kRandom, 0..1
  uint64_t seed = 0;                    // kRandom
  std::vector<Head> heads;              // kFixedHeads
  // kThreshold, kTopK and kRandom. A draw of a KV head is that of the query head of its number.
  HeadUnit unit = HeadUnit::kQueryHead;
  GroupScore group_score = GroupScore::kMean;
  // kCombined: simple rules, whose interventions are not looked at; and the program, which leaves
  // one mask.
  std::vector<Rule> parts;
  std::vector<CombineStep> steps;
  std::vector<uint8_t>
      layers;  // 1 = the rule may act in this layer; empty = in all; else one entry a layer
  Intervention intervention;
};

// One row: a sample under a rule. Its T input tokens are Unit::prefix then `suffix`.
struct Row {
  std::span<const int32_t> suffix;
  // Continuations to score. All of a row have the same number of tokens, `scored`, and share all
  // but the last of them with the input: continuation c's token j is predicted at input position T
  // - scored + j. `targets` holds them one after the other (choices x scored). Empty: nothing is
  // scored.
  std::span<const int32_t> targets;
  int scored = 0;
  int rule = 0;             // index into Unit::rules
  std::string_view sample;  // its id: with a rule's seed the key of random draws
  // Kept of this row alone, because they are large.
  bool next_token = false;     // RowResult::next_token
  bool first_weights = false;  // RowResult::first_weights
};

// What is kept beside the log-likelihoods.
struct Record {
  bool measurements = false;  // RowResult::measurements
  bool head_sums = false;     // UnitResult::head_sums
};

struct Unit {
  std::span<const int32_t> prefix;  // may be empty
  std::vector<Row> rows;
  std::vector<Rule> rules;
  Record record;
};

struct RowResult {
  // One a continuation: sum over its tokens of log softmax(logits)[token], natural logarithm,
  // computed in float32.
  std::vector<float> log_likelihoods;
  // One a continuation: 1 when every token of it is the argmax of its position.
  std::vector<uint8_t> greedy;
  // [measurement][layer][query head] in the order of catalog::Measurement; empty unless recorded.
  // Taken before the layer's own intervention.
  std::vector<float> measurements;
  // [vocabulary]: log softmax of the logits after the last input token; empty unless asked for.
  std::vector<float> next_token;
  // [layer][query head][position]: how much each input token attends to the one at position 0, in
  // [0, 1]; 0 where a window hides it. Empty unless asked for.
  std::vector<float> first_weights;
  // Heads that the rule changed, bit layer * heads + head, least significant bit first;
  // ceil(layers * heads / 8) bytes.
  std::vector<uint8_t> mask;
  // False when a recorded measurement, a score that decided for this row, or a log-likelihood of it
  // was NaN or infinite. `non_finite_layer` and `non_finite_head` name the first place (-1: in the
  // logits).
  bool finite = true;
  int non_finite_layer = -1;
  int non_finite_head = -1;
};

// Sums of head outputs z over the rows of a unit, for mean ablation: [layer][query head][head_dim].
struct HeadSums {
  std::vector<float> rest;  // over tokens i >= 1
  int64_t rest_count = 0;
  std::vector<float> first;  // at position 0
  int64_t first_count = 0;
};

struct UnitResult {
  std::vector<RowResult> rows;
  std::optional<HeadSums> head_sums;
  int64_t tokens = 0;  // input tokens of all rows, prefix included
  // Tokens that were computed, as a mean over the layers, rounded up: fewer than `tokens` where
  // rows share. Nothing is padded.
  int64_t computed_tokens = 0;
  int oom_backoffs = 0;  // times a batch was halved
};

// When a generated token changes the heads that a row loses.
enum class MaskUpdate {
  kEveryStep,  // decided anew from prompt and generated tokens, and applied to all positions: as if
               // everything were computed again
  kPromptOnce,  // decided on the prompt, then kept
};

struct GenerateRow {
  std::span<const int32_t> prompt;  // at least one token
  int rule = 0;                     // index into GenerateUnit::rules
  std::string_view sample;          // as Row::sample
};

// Prompts to continue greedily: the next token is the argmax, of equals the lower id.
struct GenerateUnit {
  std::vector<GenerateRow> rows;
  std::vector<Rule> rules;
  int max_new_tokens = 0;            // 1 up to what the context leaves
  std::vector<int32_t> stop_tokens;  // the first of these ends a row and is its last token
  // Told of a row's new tokens after each of them; true ends the row there. May be empty. Depends
  // on its arguments alone, because a batch that ran out of memory is run again.
  std::function<bool(size_t row, std::span<const int32_t> tokens)> ended;
  MaskUpdate mask_update = MaskUpdate::kEveryStep;
};

struct GeneratedRow {
  std::vector<int32_t> tokens;
  // For each token, the heads that were changed when it was chosen, as RowResult::mask.
  std::vector<std::vector<uint8_t>> masks;
  // False when a deciding score or a logit was NaN or infinite; the row ends there, without a
  // token.
  bool finite = true;
};

struct GenerateResult {
  std::vector<GeneratedRow> rows;
  // Tokens computed, as a mean over the layers, and what computing every step's whole input would
  // have taken.
  int64_t computed_tokens = 0;
  int64_t recomputed_tokens = 0;
  int oom_backoffs = 0;  // times a batch was halved
};

// Set from another thread to stop between two batches; Run then returns CANCELLED.
using CancelFlag = std::atomic<bool>;

// Told after each batch, from the thread that runs. For progress and for tests.
class BatchObserver {
 public:
  virtual ~BatchObserver() = default;
  virtual void OnBatch(int rows, int64_t tokens) = 0;
};

// What rows of a batch may have in common. Results do not depend on it: tests and benchmarks switch
// it off to compare.
struct Sharing {
  bool prefixes = true;  // a common prefix is computed once for each history of masks
  bool rules = true;     // likewise what is common to rows with different rules
  bool steps = true;     // generation takes up what earlier steps computed
};

// How attention is computed. Results agree within the tolerances; all but the first are for tests
// and benchmarks.
enum class AttentionKernel {
  kBest,   // the fastest for the device and type
  kFlash,  // libtorch's fused kernels
  kDense,  // by the definition: memory grows with the square of the length
};

struct EngineOptions {
  // Upper bound of the tokens that are computed side by side; a single longer row still runs alone.
  // 0: chosen for the device.
  int64_t max_batch_tokens = 0;
  // Threads for CPU work inside one operation; 0 leaves libtorch's setting.
  int threads = 0;
  AttentionKernel attention = AttentionKernel::kBest;
  // Bounds what generation keeps beside the weights: fewer rows go side by side, and histories that
  // were not met lately are dropped. 0: chosen for the device.
  int64_t max_cache_bytes = 0;
  Sharing sharing;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Loads the checkpoint in `directory` (config.json; model.safetensors or
  // model.safetensors.index.json with its shards).
  // FAILED_PRECONDITION: an unsupported family or setting, a safetensors header that is damaged or
  // does not fit the config, each named, or a device that cannot be used. DATA_LOSS: a file with
  // fewer bytes than its header said when it was read. NOT_FOUND: no such directory.
  static absl::StatusOr<std::unique_ptr<Engine>> Load(const std::string& directory, DType dtype,
                                                      Device device,
                                                      const EngineOptions& options = {});

  virtual const catalog::ModelConfig& config() const = 0;

  // `observer` may be null.
  virtual absl::StatusOr<UnitResult> Run(const Unit& unit, const CancelFlag& cancel,
                                         BatchObserver* observer) = 0;

  // The plain forward pass of the same model without any instrumentation: log-likelihoods only,
  // rules must be kNone. The reference of the benchmarks.
  virtual absl::StatusOr<UnitResult> RunPlain(const Unit& unit, const CancelFlag& cancel) = 0;

  // Exact under MaskUpdate::kEveryStep: what a layer computed is kept by the masks below it, and
  // taken up again where those masks come back. CANCELLED takes effect between two steps;
  // `observer` (may be null) is told of batches as they end.
  virtual absl::StatusOr<GenerateResult> Generate(const GenerateUnit& unit,
                                                  const CancelFlag& cancel,
                                                  BatchObserver* observer) = 0;

  // Logits at the last `positions` input positions of one token sequence under one rule,
  // [positions][vocabulary]. For parity tests and probes.
  virtual absl::StatusOr<std::vector<float>> Logits(std::span<const int32_t> tokens,
                                                    const Rule& rule, int positions) = 0;

  // Bytes of the model's weights on the device.
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace headcount::engine
