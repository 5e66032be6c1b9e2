// What a layer's decisions do to a layout: rows whose decisions differ part, each history goes on
// by itself. Called by walk.cc after every layer that decided something. A pure function without
// libtorch.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/engine/layout.h"

namespace headcount::engine {

// A part of a layout that goes on by itself. Histories never meet again, so pieces can be run one
// after the other without losing anything that they share.
struct Piece {
  Layout layout;
  std::vector<int> trunk_from;   // a trunk: the one of the old layout that it continues
  std::vector<int> branch_from;  // likewise
};

// True where some two rows still have one history, so that a decision may part them.
bool IsShared(const Layout& layout);

// `masks` holds `heads` bytes a row, one a head that says what becomes of it, rows in the order in
// which the branches list them. Pieces have at most `max_tokens` tokens, but for a single trunk
// with its branches, which stays together. One piece, and every index its own: nothing has parted.
std::vector<Piece> Split(const Layout& layout, std::span<const uint8_t> masks, int64_t heads,
                         int64_t max_tokens);

}  // namespace headcount::engine
