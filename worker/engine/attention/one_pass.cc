// Attention on a CPU in float32, with its statistics from the same pass. With s the logits of a
// query, m their maximum, L = sum exp(s - m) and W = sum exp(s - m) (s - m):
//   P v = sum exp(s - m) v / L,   P_0 = exp(s_0 - m) / L,   entropy = ln L - W / L
// so first-token weight and entropy cost a few operations a logit, where a second call with K in
// the place of V would cost as much as attention itself; and nothing cancels in the entropy.
//
// Blocks of queries go over blocks of keys, as flash attention does; memory is a block a thread.
// The query heads of a KV head go together: one matrix product with their common keys. A branch's
// queries see the keys of its trunk or past, then their own. Keys that a window has left behind for
// a whole block of queries are skipped, those for some of its rows are hidden.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/empty.h"
#include "worker/engine/attention/attention.h"
#include "worker/engine/attention/one_pass_rows.h"

namespace headcount::engine {
namespace {

// The BLAS that libtorch brings, column-major, 32-bit sizes: C = alpha op(A) op(B) + beta C. Inside
// a parallel region it runs on the calling thread.
extern "C" void sgemm_(const char* op_a, const char* op_b, const int* m, const int* n, const int* k,
                       const float* alpha, const float* a, const int* lda, const float* b,
                       const int* ldb, const float* beta, float* c, const int* ldc);

void Multiply(char op_a, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
              const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  const int sizes[] = {static_cast<int>(m),   static_cast<int>(n),   static_cast<int>(k),
                       static_cast<int>(lda), static_cast<int>(ldb), static_cast<int>(ldc)};
  const float one = 1;
  sgemm_(&op_a, "N", &sizes[0], &sizes[1], &sizes[2], &one, a, &sizes[3], b, &sizes[4], &beta, c,
         &sizes[5]);
}

// Logits of a block stay in the second-level cache: rows (queries of all heads of a KV head) x
// keys.
constexpr int64_t kBlockRows = 192;
constexpr int64_t kBlockKeys = 256;

// [tokens, heads, head_dim] float32 with its last two dimensions dense.
struct View {
  explicit View(const at::Tensor& x) : data(x.const_data_ptr<float>()), stride(x.stride(0)) {}
  const float* Token(int64_t token) const { return data + token * stride; }

  const float* data;
  int64_t stride;
};

// Keys and values of neighbouring tokens.
struct Keys {
  const float* k = nullptr;
  int64_t k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  int64_t count = 0;

  Keys From(int64_t first, int64_t most) const {
    return {k + first * k_stride, k_stride, v + first * v_stride, v_stride,
            std::min(most, count - first)};
  }
};

Keys KeysOf(const at::Tensor& k, const at::Tensor& v, int64_t begin, int64_t count) {
  const View keys(k), values(v);
  return {keys.Token(begin), keys.stride, values.Token(begin), values.stride, count};
}

// Some query tokens of one segment and the keys that they may see.
struct QueryBlock {
  int64_t begin = 0;
  int64_t count = 0;
  Keys before;  // all of them see these
  Keys own;     // of the segment, up to the last query; the last ones are the queries' own

  // Of its first query, in the input.
  int64_t position() const { return before.count + own.count - count; }
  int64_t work() const { return (before.count + own.count) * count; }
};

std::vector<QueryBlock> QueryBlocks(const AttentionInput& input, int64_t block_tokens) {
  std::vector<QueryBlock> blocks;
  const auto add = [&](int64_t segment, int64_t length, const Keys& before) {
    for (int64_t i = 0; i < length; i += block_tokens) {
      const int64_t count = std::min(block_tokens, length - i);
      blocks.push_back({segment + i, count, before, KeysOf(input.k, input.v, segment, i + count)});
    }
  };
  const Layout& layout = input.packing->layout;
  const std::vector<int64_t>& begins = input.packing->begins;
  for (size_t t = 0; t < layout.trunks.size(); ++t) add(begins[t], layout.trunks[t], {});
  for (size_t b = 0; b < layout.branches.size(); ++b) {
    const Layout::Branch& branch = layout.branches[b];
    Keys before;
    if (branch.trunk != Layout::kNoTrunk) {
      const auto t = static_cast<size_t>(branch.trunk);
      before = KeysOf(input.k, input.v, begins[t], layout.trunks[t]);
    } else if (branch.past > 0) {
      before = KeysOf(input.past[b].k, input.past[b].v, 0, branch.past);
    }
    add(begins[layout.trunks.size() + b], branch.length, before);
  }
  // The longest first, so that threads end together.
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const QueryBlock& a, const QueryBlock& b) { return a.work() > b.work(); });
  return blocks;
}

struct Output {
  float* z;             // [tokens, heads, head_dim]
  float* first_weight;  // [tokens, heads], null where it is not asked for
  float* entropy;
};

// One thread's work on block after block.
class BlockKernel {
 public:
  BlockKernel(const AttentionInput& input, const Output& out, int64_t block_tokens)
      : q_(input.q),
        out_(out),
        heads_(input.q.size(1)),
        group_(input.q.size(1) / input.k.size(1)),
        dim_(input.q.size(2)),
        scale_(static_cast<float>(input.scale)),
        soft_cap_(static_cast<float>(input.soft_cap)),
        window_(input.window) {
    const auto rows = static_cast<size_t>(block_tokens * group_);
    queries_.resize(rows * static_cast<size_t>(dim_));
    outputs_.resize(queries_.size());
    logits_.resize(rows * kBlockKeys);
    states_.resize(rows);
    firsts_.resize(rows);
  }

  // The query heads of KV head `kv`.
  void Run(const QueryBlock& block, int64_t kv) {
    rows_ = block.count * group_;
    std::fill_n(states_.begin(), rows_, SoftmaxState{});
    std::fill_n(firsts_.begin(), rows_, kHidden);
    seen_any_ = false;
    CopyQueries(block, kv);
    const int64_t position = block.position(), before = block.before.count;
    // The first key that the first query sees: nobody in the block sees one before it.
    const int64_t first = window_ > 0 ? std::max<int64_t>(0, position - window_ + 1) : 0;
    for (int64_t i = first; i < before; i += kBlockKeys) {
      OverKeys(block.before.From(i, kBlockKeys), kv, {i, position, kBlockKeys});
    }
    for (int64_t i = std::max<int64_t>(0, first - before); i < block.own.count; i += kBlockKeys) {
      // The first query sees the keys up to itself.
      OverKeys(block.own.From(i, kBlockKeys), kv,
               {before + i, position, block.own.count - block.count + 1 - i});
    }
    Write(block, kv);
  }

 private:
  void CopyQueries(const QueryBlock& block, int64_t kv) {
    float* to = queries_.data();
    for (int64_t t = block.begin; t < block.begin + block.count; ++t) {
      const float* from = q_.Token(t) + kv * group_ * dim_;
      for (int64_t i = 0; i < group_ * dim_; ++i) *to++ = from[i] * scale_;
    }
  }

  // Where some keys stand.
  struct Place {
    int64_t key;      // position of the first of them
    int64_t query;    // of the block's first query
    int64_t visible;  // the first query sees so many of the keys (which may be none, or more than
                      // there are), were it not for the window; each later query another
  };

  // At most kBlockKeys keys.
  void OverKeys(const Keys& keys, int64_t kv, const Place& place) {
    const int64_t padded = (keys.count + kLanes - 1) / kLanes * kLanes;
    // Rows are row-major here and columns there: logits' = K Q'.
    Multiply('T', keys.count, rows_, dim_, keys.k + kv * dim_, keys.k_stride, queries_.data(), dim_,
             0, logits_.data(), padded);
    const SoftmaxRow softmax = BestRowKernels().softmax;
    const SoftCapRow soft_cap = BestRowKernels().soft_cap;
    for (int64_t row = 0; row < rows_; ++row) {
      float* logits = logits_.data() + row * padded;
      const int64_t token = row / group_;
      const int64_t seen = std::clamp<int64_t>(place.visible + token, 0, keys.count);
      // The first key that the window has not left behind.
      const int64_t from =
          window_ > 0 ? std::clamp<int64_t>(place.query + token - window_ + 1 - place.key, 0, seen)
                      : 0;
      if (window_ > 0 && from == seen) {  // nothing to be seen, as if the block were not there
        std::fill(logits, logits + padded, 0.0f);
        continue;
      }
      if (soft_cap_ > 0) soft_cap(logits, padded, soft_cap_);
      if (place.key == 0 && from == 0) firsts_[static_cast<size_t>(row)] = logits[0];
      std::fill(logits, logits + from, kHidden);
      std::fill(logits + seen, logits + padded, kHidden);
      const float correction = softmax(logits, padded, states_[static_cast<size_t>(row)]);
      if (seen_any_ && correction != 1) {
        float* output = outputs_.data() + row * dim_;
        for (int64_t i = 0; i < dim_; ++i) output[i] *= correction;
      }
    }
    Multiply('N', dim_, rows_, keys.count, keys.v + kv * dim_, keys.v_stride, logits_.data(),
             padded, seen_any_ ? 1 : 0, outputs_.data(), dim_);
    seen_any_ = true;
  }

  void Write(const QueryBlock& block, int64_t kv) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const SoftmaxState& state = states_[static_cast<size_t>(row)];
      const int64_t place = (block.begin + row / group_) * heads_ + kv * group_ + row % group_;
      const float* from = outputs_.data() + row * dim_;
      float* to = out_.z + place * dim_;
      const float scale = 1 / state.sum;
      for (int64_t i = 0; i < dim_; ++i) to[i] = from[i] * scale;
      if (out_.first_weight != nullptr) {
        out_.first_weight[place] = std::exp(firsts_[static_cast<size_t>(row)] - state.max) * scale;
      }
      if (out_.entropy != nullptr) {
        out_.entropy[place] = std::log(state.sum) - state.weighted * scale;
      }
    }
  }

  View q_;
  Output out_;
  int64_t heads_, group_, dim_;
  float scale_, soft_cap_;
  int64_t window_;
  // Of the block at hand; a row is a query token and a head of the group.
  int64_t rows_ = 0;
  bool seen_any_ = false;
  std::vector<float> queries_;  // [rows, head_dim], scaled
  std::vector<float> outputs_;  // [rows, head_dim], before division by the sums
  std::vector<float> logits_;   // [rows, padded keys]
  std::vector<SoftmaxState> states_;
  std::vector<float> firsts_;  // logits of the key at position 0
};

class OnePassAttention final : public Attention {
 public:
  AttentionOutput Run(const AttentionInput& input, AttentionExtras extras) const override {
    AttentionOutput out;
    const int64_t tokens = input.q.size(0), heads = input.q.size(1), kv_heads = input.k.size(1);
    const at::TensorOptions floats(at::kFloat);
    out.z = at::empty(input.q.sizes(), floats);
    if (extras.first_weight) out.first_weight = at::empty({tokens, heads}, floats);
    if (extras.entropy) out.entropy = at::empty({tokens, heads}, floats);
    const Output to{out.z.mutable_data_ptr<float>(),
                    extras.first_weight ? out.first_weight.mutable_data_ptr<float>() : nullptr,
                    extras.entropy ? out.entropy.mutable_data_ptr<float>() : nullptr};
    const int64_t block_tokens = std::max<int64_t>(8, kBlockRows * kv_heads / heads);
    const std::vector<QueryBlock> blocks = QueryBlocks(input, block_tokens);
    const auto tasks = static_cast<int64_t>(blocks.size()) * kv_heads;
    std::atomic<int64_t> next = 0;
    at::parallel_for(0, std::min<int64_t>(tasks, at::get_num_threads()), 1, [&](int64_t, int64_t) {
      BlockKernel kernel(input, to, block_tokens);
      for (int64_t task = next++; task < tasks; task = next++) {
        kernel.Run(blocks[static_cast<size_t>(task / kv_heads)], task % kv_heads);
      }
    });
    return out;
  }
};

}  // namespace

std::unique_ptr<Attention> MakeOnePassAttention() { return std::make_unique<OnePassAttention>(); }

}  // namespace headcount::engine
