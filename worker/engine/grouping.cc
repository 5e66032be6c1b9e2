// See grouping.h.

#include "worker/engine/grouping.h"

#include <algorithm>
#include <unordered_map>

namespace headcount::engine {
namespace {

// An input while groups are sought.
struct Candidate {
  int rule = 0;  // 0 for all where rules share
  std::span<const int32_t> suffix;
  InputGroup::Input input;
  int64_t most = 0;  // the longest trunk that it allows
};

bool SameInput(const Candidate& a, const Candidate& b) {
  return a.rule == b.rule &&
         std::equal(a.suffix.begin(), a.suffix.end(), b.suffix.begin(), b.suffix.end());
}

// Equal inputs are one candidate; in lexicographic order, so that whatever shares a prefix is
// neighbours.
std::vector<Candidate> SortedInputs(const Unit& unit, std::span<const int> rows, bool share_rules) {
  const auto prefix = static_cast<int64_t>(unit.prefix.size());
  std::vector<Candidate> all;
  for (int r : rows) {
    const Row& row = unit.rows[static_cast<size_t>(r)];
    const int64_t length = prefix + static_cast<int64_t>(row.suffix.size());
    const int64_t scored = row.targets.empty() ? 1 : std::max(row.scored, 1);
    all.push_back({share_rules ? 0 : row.rule, row.suffix, {{r}, length}, length - scored});
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    if (a.rule != b.rule) return a.rule < b.rule;
    return std::lexicographical_compare(a.suffix.begin(), a.suffix.end(), b.suffix.begin(),
                                        b.suffix.end());
  });
  std::vector<Candidate> distinct;
  for (Candidate& candidate : all) {
    if (distinct.empty() || !SameInput(distinct.back(), candidate)) {
      distinct.push_back(std::move(candidate));
      continue;
    }
    Candidate& same = distinct.back();
    same.input.rows.push_back(candidate.input.rows[0]);
    same.most = std::min(same.most, candidate.most);
  }
  for (Candidate& candidate : distinct)
    std::sort(candidate.input.rows.begin(), candidate.input.rows.end());
  return distinct;
}

int64_t CommonPrefix(const Candidate& a, const Candidate& b, int64_t unit_prefix) {
  if (a.rule != b.rule) return 0;
  const size_t most = std::min(a.suffix.size(), b.suffix.size());
  const auto end = std::mismatch(
      a.suffix.begin(), a.suffix.begin() + static_cast<std::ptrdiff_t>(most), b.suffix.begin());
  return unit_prefix + (end.first - a.suffix.begin());
}

// The cut of the sorted inputs that saves most: where each group begins, and its trunk.
struct Cut {
  size_t begin = 0;
  int64_t trunk = 0;
};

std::vector<Cut> BestCut(const std::vector<Candidate>& inputs, int64_t unit_prefix,
                         bool share_prefixes) {
  const size_t n = inputs.size();
  std::vector<int64_t> common(n, 0);  // with the input before
  if (share_prefixes) {
    for (size_t i = 1; i < n; ++i) common[i] = CommonPrefix(inputs[i - 1], inputs[i], unit_prefix);
  }
  // best[i]: tokens saved by the best cut of the first i inputs; last[i]: its last group.
  std::vector<int64_t> best(n + 1, 0);
  std::vector<Cut> last(n + 1);
  for (size_t end = 1; end <= n; ++end) {
    best[end] = best[end - 1];
    last[end] = {end - 1, 0};
    int64_t trunk = inputs[end - 1].most;
    for (size_t begin = end - 1; begin > 0; --begin) {  // the group is [begin - 1, end)
      trunk = std::min({trunk, common[begin], inputs[begin - 1].most});
      if (trunk < kMinTrunkTokens) break;
      const int64_t saved = best[begin - 1] + static_cast<int64_t>(end - begin) * trunk;
      if (saved > best[end]) {
        best[end] = saved;
        last[end] = {begin - 1, trunk};
      }
    }
  }
  std::vector<Cut> cuts;
  for (size_t end = n; end > 0; end = last[end].begin) cuts.push_back(last[end]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace

int64_t InputGroup::tokens() const {
  int64_t sum = trunk;
  for (const Input& input : inputs) sum += input.length - trunk;
  return sum;
}

std::vector<InputGroup> GroupRows(const Unit& unit, std::span<const int> rows,
                                  const Sharing& sharing) {
  std::vector<Candidate> inputs = SortedInputs(unit, rows, sharing.rules);
  const std::vector<Cut> cuts =
      BestCut(inputs, static_cast<int64_t>(unit.prefix.size()), sharing.prefixes);
  std::vector<InputGroup> groups;
  for (size_t c = 0; c < cuts.size(); ++c) {
    const size_t end = c + 1 < cuts.size() ? cuts[c + 1].begin : inputs.size();
    InputGroup& group = groups.emplace_back();
    group.trunk = cuts[c].trunk;
    for (size_t i = cuts[c].begin; i < end; ++i) group.inputs.push_back(std::move(inputs[i].input));
    std::stable_sort(group.inputs.begin(), group.inputs.end(),
                     [](const auto& a, const auto& b) { return a.length < b.length; });
  }
  std::stable_sort(groups.begin(), groups.end(), [](const InputGroup& a, const InputGroup& b) {
    return a.inputs.back().length < b.inputs.back().length;
  });
  return groups;
}

Layout LayOut(std::span<const InputGroup> groups, std::span<const int> rows) {
  std::unordered_map<int, int> place;
  for (size_t i = 0; i < rows.size(); ++i) place[rows[i]] = static_cast<int>(i);
  Layout layout;
  for (const InputGroup& group : groups) {
    int trunk = Layout::kNoTrunk;
    if (group.trunk > 0) {
      trunk = static_cast<int>(layout.trunks.size());
      layout.trunks.push_back(group.trunk);
    }
    for (const InputGroup::Input& input : group.inputs) {
      Layout::Branch& branch = layout.branches.emplace_back();
      branch.length = input.length - group.trunk;
      branch.trunk = trunk;
      for (int row : input.rows) branch.rows.push_back(place.at(row));
    }
  }
  return layout;
}

std::vector<int32_t> TokenIds(const Layout& layout, std::span<const Row* const> rows,
                              std::span<const int32_t> prefix) {
  std::vector<int32_t> ids;
  const auto add = [&](int row, int64_t begin, int64_t length) {
    const std::span<const int32_t> suffix = rows[static_cast<size_t>(row)]->suffix;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(begin + length); ++i) {
      ids.push_back(i < prefix.size() ? prefix[i] : suffix[i - prefix.size()]);
    }
  };
  std::vector<int> row_of_trunk(layout.trunks.size());
  for (const Layout::Branch& branch : layout.branches) {
    if (branch.trunk == Layout::kNoTrunk) continue;
    row_of_trunk[static_cast<size_t>(branch.trunk)] = branch.rows[0];
  }
  for (size_t t = 0; t < layout.trunks.size(); ++t) add(row_of_trunk[t], 0, layout.trunks[t]);
  for (const Layout::Branch& branch : layout.branches) {
    const bool has_trunk = branch.trunk != Layout::kNoTrunk;
    add(branch.rows[0], has_trunk ? layout.trunks[static_cast<size_t>(branch.trunk)] : 0,
        branch.length);
  }
  return ids;
}

}  // namespace headcount::engine
