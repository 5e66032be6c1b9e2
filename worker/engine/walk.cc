// See walk.h.

#include "worker/engine/walk.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "worker/engine/split.h"

namespace headcount::engine {
namespace {

struct Packed {
  Packing packing;
  RotaryTables rotary;
};

// What becomes of a layer's heads, by rows of a packing.
struct Changes {
  at::Tensor codes;  // [rows, heads]; undefined: nothing
  at::Tensor
      first_values;  // [rows, kv_heads, head_dim]; undefined where no intervention needs them
};

// A piece that waits for its turn between a layer's attention and its W_O. The tensors are those of
// the layout that it comes from, shared with its neighbours.
struct Waiting {
  int layer = 0;
  Piece piece;
  std::shared_ptr<const Packed> from;
  at::Tensor x;  // [tokens, hidden]
  at::Tensor z;  // [tokens, heads, head_dim]
  Changes changes;
};

class Walker {
 public:
  Walker(Transformer& model, const WalkInput& input, LayerWatcher* watcher,
         const CancelFlag& cancel, const WalkEnd& end)
      : model_(model), input_(input), watcher_(watcher), cancel_(cancel), end_(end) {}

  absl::StatusOr<int64_t> Run() {
    const auto packed = MakePacked(input_.layout);
    HC_RETURN_IF_ERROR(Advance(0, packed, model_.Embed(input_.token_ids, packed->packing)));
    while (!waiting_.empty()) {
      Waiting next = std::move(waiting_.back());
      waiting_.pop_back();
      HC_RETURN_IF_ERROR(Resume(std::move(next)));
    }
    return computed_;
  }

 private:
  std::shared_ptr<const Packed> MakePacked(Layout layout) {
    Packing packing = Pack(std::move(layout), model_.device());
    RotaryTables rotary = model_.Rotary(packing);
    return std::make_shared<const Packed>(Packed{std::move(packing), std::move(rotary)});
  }

  // From before layer `layer` up to where histories part, or to the end.
  absl::Status Advance(int layer, std::shared_ptr<const Packed> packed, at::Tensor x) {
    const Packing& packing = packed->packing;
    const bool shared = IsShared(packing.layout);
    for (;; ++layer) {
      if (cancel_.load()) return absl::CancelledError("cancelled between two layers");
      const AttentionExtras extras =
          watcher_ == nullptr ? AttentionExtras{} : watcher_->Extras(layer, packing);
      LayerHeads heads = model_.Attend(layer, x, packing, packed->rotary, extras);
      computed_ += packing.tokens;
      const Changes changes = watcher_ == nullptr ? Changes{} : ChangesOf(heads);
      at::Tensor z = std::move(heads.attended.z);
      heads = {};  // queries, keys and values: nothing needs them any more
      if (layer + 1 == model_.config().layers) {
        End(packing, x, z, changes);
        return absl::OkStatus();
      }
      if (shared && changes.codes.defined()) {
        std::vector<Piece> pieces = SplitBy(packing.layout, changes.codes);
        if (HasParted(pieces, packing.layout)) {
          // The first piece is taken first.
          for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
            waiting_.push_back({layer, std::move(*piece), packed, x, z, changes});
          }
          return absl::OkStatus();
        }
      }
      if (changes.codes.defined()) {
        Apply(layer, changes, {packing.row_of_token, packing.positions}, z);
      }
      model_.Finish(layer, z, x);
    }
  }

  Changes ChangesOf(const LayerHeads& heads) {
    Changes changes{watcher_->OnHeads(heads), {}};
    if (changes.codes.defined() && watcher_->interventions().needs_first_values()) {
      changes.first_values = heads.v.index_select(0, heads.packing->first_tokens);
    }
    return changes;
  }

  void Apply(int layer, const Changes& changes, const Interventions::Tokens& tokens,
             at::Tensor& z) const {
    watcher_->interventions().Apply(layer, changes.codes, tokens, changes.first_values, z);
  }

  std::vector<Piece> SplitBy(const Layout& layout, const at::Tensor& codes) const {
    const at::Tensor host = codes.to(at::kCPU).contiguous();
    return Split(layout, {host.const_data_ptr<uint8_t>(), static_cast<size_t>(host.numel())},
                 host.size(1), input_.max_tokens);
  }

  static bool HasParted(const std::vector<Piece>& pieces, const Layout& layout) {
    return pieces.size() > 1 || pieces[0].layout.trunks.size() != layout.trunks.size() ||
           pieces[0].layout.branches.size() != layout.branches.size();
  }

  absl::Status Resume(Waiting from) {
    const Packing& old = from.from->packing;
    const at::Tensor tokens = TokensOf(from.piece, old);
    auto packed = MakePacked(std::move(from.piece.layout));
    at::Tensor x = from.x.index_select(0, tokens);
    at::Tensor z = from.z.index_select(0, tokens);
    const at::Tensor rows = RowsIn(packed->packing, old);
    Changes changes{from.changes.codes.index_select(0, rows), {}};
    if (from.changes.first_values.defined()) {
      changes.first_values = from.changes.first_values.index_select(0, rows);
    }
    const int layer = from.layer;
    Apply(layer, changes, {packed->packing.row_of_token, packed->packing.positions}, z);
    from = {};  // the parent's tensors, if this was its last piece
    model_.Finish(layer, z, x);
    z = at::Tensor();
    return Advance(layer + 1, std::move(packed), std::move(x));
  }

  // The old indices of the piece's tokens, in the new order.
  at::Tensor TokensOf(const Piece& piece, const Packing& old) const {
    std::vector<int64_t> tokens;
    const auto add = [&](size_t segment, int64_t length) {
      for (int64_t i = 0; i < length; ++i) tokens.push_back(old.begins[segment] + i);
    };
    for (size_t t = 0; t < piece.trunk_from.size(); ++t) {
      add(static_cast<size_t>(piece.trunk_from[t]), piece.layout.trunks[t]);
    }
    for (size_t b = 0; b < piece.branch_from.size(); ++b) {
      add(old.layout.trunks.size() + static_cast<size_t>(piece.branch_from[b]),
          piece.layout.branches[b].length);
    }
    return ToDevice(tokens, model_.device());
  }

  // Where the rows of `packing` are in `old`: [rows] int64.
  at::Tensor RowsIn(const Packing& packing, const Packing& old) const {
    std::vector<int64_t> place(input_.wanted.size());
    for (size_t i = 0; i < old.rows.size(); ++i) {
      place[static_cast<size_t>(old.rows[i])] = static_cast<int64_t>(i);
    }
    std::vector<int64_t> rows;
    for (int row : packing.rows) rows.push_back(place[static_cast<size_t>(row)]);
    return ToDevice(rows, model_.device());
  }

  // After the last attention tokens do not meet any more: only the wanted ones go on.
  void End(const Packing& packing, const at::Tensor& x, const at::Tensor& z,
           const Changes& changes) const {
    std::vector<int64_t> tokens, rows;
    for (size_t r = 0; r < packing.rows.size(); ++r) {
      const int wanted = input_.wanted[static_cast<size_t>(packing.rows[r])];
      for (int64_t i = packing.ends[r] - wanted; i < packing.ends[r]; ++i) {
        tokens.push_back(i);
        rows.push_back(static_cast<int64_t>(r));
      }
    }
    if (tokens.empty()) return;
    const at::Tensor index = ToDevice(tokens, model_.device());
    at::Tensor hidden = x.index_select(0, index);
    at::Tensor outputs = z.index_select(0, index);
    if (changes.codes.defined()) {
      Apply(model_.config().layers - 1, changes,
            {ToDevice(rows, model_.device()), packing.positions.index_select(0, index)}, outputs);
    }
    model_.Finish(model_.config().layers - 1, outputs, hidden);
    end_(packing.rows, hidden);
  }

  Transformer& model_;
  const WalkInput& input_;
  LayerWatcher* watcher_;
  const CancelFlag& cancel_;
  const WalkEnd& end_;
  std::vector<Waiting> waiting_;  // the next one is at the back
  int64_t computed_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> Walk(Transformer& model, const WalkInput& input, LayerWatcher* watcher,
                             const CancelFlag& cancel, const WalkEnd& end) {
  return Walker(model, input, watcher, cancel, end).Run();
}

}  // namespace headcount::engine
