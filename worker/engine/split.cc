// See split.h.

#include "worker/engine/split.h"

#include <algorithm>
#include <string_view>

namespace headcount::engine {
namespace {

// Rows of one old branch under one mask.
struct Part {
  std::string_view mask;
  int from = 0;
  Layout::Branch branch;
};

// The parts of a trunk (or of a branch without one) under one mask: they stay together.
struct Family {
  std::string_view mask;
  int trunk_from = Layout::kNoTrunk;
  int64_t trunk_length = 0;
  std::vector<Part> parts;

  int64_t tokens() const {
    int64_t sum = trunk_length;
    for (const Part& part : parts) sum += part.branch.length;
    return sum;
  }
};

// One old branch by the masks of its rows, in the order in which they first occur.
std::vector<Part> PartsOf(const Layout::Branch& branch, int from, const uint8_t* masks,
                          size_t heads) {
  std::vector<Part> parts;
  for (int row : branch.rows) {
    const std::string_view mask(reinterpret_cast<const char*>(masks), heads);
    masks += heads;
    auto part =
        std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.mask == mask; });
    if (part == parts.end()) {
      part = parts.insert(parts.end(), {mask, from, {branch.length, branch.trunk, {}}});
    }
    part->branch.rows.push_back(row);
  }
  return parts;
}

// All parts of the new layout, by trunk and mask.
std::vector<Family> Families(const Layout& layout, std::span<const uint8_t> masks, size_t heads) {
  std::vector<Family> families;
  size_t first = 0;  // of the families of the trunk of the moment
  int trunk = Layout::kNoTrunk;
  const uint8_t* mask = masks.data();
  for (size_t b = 0; b < layout.branches.size(); ++b) {
    const Layout::Branch& branch = layout.branches[b];
    if (branch.trunk == Layout::kNoTrunk || branch.trunk != trunk) first = families.size();
    trunk = branch.trunk;
    for (Part& part : PartsOf(branch, static_cast<int>(b), mask, heads)) {
      auto family = families.end();
      if (trunk != Layout::kNoTrunk) {
        family = std::find_if(families.begin() + static_cast<std::ptrdiff_t>(first), families.end(),
                              [&](const Family& f) { return f.mask == part.mask; });
      }
      if (family == families.end()) {
        const int64_t length =
            trunk == Layout::kNoTrunk ? 0 : layout.trunks[static_cast<size_t>(trunk)];
        family = families.insert(families.end(), {part.mask, trunk, length, {}});
      }
      family->parts.push_back(std::move(part));
    }
    mask += heads * branch.rows.size();
  }
  return families;
}

void Append(Family family, Piece& piece) {
  int trunk = Layout::kNoTrunk;
  if (family.trunk_from != Layout::kNoTrunk) {
    trunk = static_cast<int>(piece.layout.trunks.size());
    piece.layout.trunks.push_back(family.trunk_length);
    piece.trunk_from.push_back(family.trunk_from);
  }
  for (Part& part : family.parts) {
    part.branch.trunk = trunk;
    piece.layout.branches.push_back(std::move(part.branch));
    piece.branch_from.push_back(part.from);
  }
}

}  // namespace

bool IsShared(const Layout& layout) {
  std::vector<bool> used(layout.trunks.size());
  for (const Layout::Branch& branch : layout.branches) {
    if (branch.rows.size() > 1) return true;
    if (branch.trunk == Layout::kNoTrunk) continue;
    if (used[static_cast<size_t>(branch.trunk)]) return true;
    used[static_cast<size_t>(branch.trunk)] = true;
  }
  return false;
}

std::vector<Piece> Split(const Layout& layout, std::span<const uint8_t> masks, int64_t heads,
                         int64_t max_tokens) {
  std::vector<Family> families = Families(layout, masks, static_cast<size_t>(heads));
  int64_t total = 0;
  for (const Family& family : families) total += family.tokens();
  // Pieces of about equal size, not full ones and a small rest.
  const int64_t pieces_wanted = std::max<int64_t>(1, (total + max_tokens - 1) / max_tokens);
  const int64_t target = (total + pieces_wanted - 1) / pieces_wanted;
  std::vector<Piece> pieces(1);
  int64_t tokens = 0;
  for (Family& family : families) {
    const int64_t more = family.tokens();
    if (tokens > 0 && (tokens >= target || tokens + more > max_tokens)) {
      pieces.emplace_back();
      tokens = 0;
    }
    tokens += more;
    Append(std::move(family), pieces.back());
  }
  return pieces;
}

}  // namespace headcount::engine
