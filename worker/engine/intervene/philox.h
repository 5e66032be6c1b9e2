// Philox4x32-10 (Salmon et al., SC 2011): counter-based random numbers, so that a draw depends on
// its coordinates alone. Pure functions, no errors.

#pragma once

#include <array>
#include <cstdint>

namespace headcount::engine {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The uniform draw u in [0, 1) of a head for a row: the first word of counter (layer, head, 0, 0)
// times 2^-32. Exact.
double RandomDraw(uint64_t key, int layer, int head);

}  // namespace headcount::engine
