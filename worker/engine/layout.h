// Which tokens of a batch are computed once, and for which rows.
//
// A history is what a row has been through: its tokens and what became of its heads so far. Rows
// with one history are one computation. A trunk is a prefix under one history; a branch is what
// follows it, or a whole input where nothing is shared, and stands for all rows with its tokens and
// its history. Histories only ever part: where the rows of a trunk decide differently, each
// decision gets a trunk of its own (see split.h).
//
// Plain data without libtorch, made by grouping.h and split.h, laid out in memory by
// model/packing.h.

#pragma once

#include <cstdint>
#include <vector>

namespace headcount::engine {

struct Layout {
  static constexpr int kNoTrunk = -1;

  struct Branch {
    int64_t length = 0;     // its own tokens, at least one
    int trunk = kNoTrunk;   // index into `trunks`: the keys before its own
    std::vector<int> rows;  // indices into the batch's rows, at least one
    int64_t past = 0;       // without a trunk: tokens before its own that earlier steps computed
  };

  std::vector<int64_t> trunks;   // their tokens, at least one each, from position 0 on
  std::vector<Branch> branches;  // those of a trunk are neighbours, in the order of trunks

  int64_t tokens() const {
    int64_t sum = 0;
    for (int64_t length : trunks) sum += length;
    for (const Branch& branch : branches) sum += branch.length;
    return sum;
  }
};

}  // namespace headcount::engine
