// See python_random.h. Matsumoto and Nishimura's MT19937 with init_by_array (2002).

#include "worker/eval/python_random.h"

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

namespace headcount::eval {

PythonRandom::PythonRandom(uint64_t seed) {
  // CPython's key: the seed's 32-bit words, lowest first, at least one.
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<uint32_t>(seed >> 32));
  Seed(19'650'218);
  const auto mixed = [this](size_t i, uint32_t factor) {
    return state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * factor);
  };
  const auto step = [this](size_t& i) {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  size_t i = 1, j = 0;
  for (size_t k = std::max(kWords, key.size()); k > 0; --k) {
    state_[i] = mixed(i, 1'664'525) + key[j] + static_cast<uint32_t>(j);
    step(i);
    j = (j + 1) % key.size();
  }
  for (size_t k = kWords - 1; k > 0; --k) {
    state_[i] = mixed(i, 1'566'083'941) - static_cast<uint32_t>(i);
    step(i);
  }
  state_[0] = 0x8000'0000;
}

void PythonRandom::Seed(uint32_t seed) {
  state_[0] = seed;
  for (size_t i = 1; i < kWords; ++i) {
    state_[i] = 1'812'433'253 * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<uint32_t>(i);
  }
}

void PythonRandom::Refill() {
  constexpr size_t kShift = 397;
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t y = (state_[i] & 0x8000'0000) | (state_[(i + 1) % kWords] & 0x7fff'ffff);
    state_[i] = state_[(i + kShift) % kWords] ^ (y >> 1) ^ (y % 2 != 0 ? 0x9908'b0df : 0);
  }
  at_ = 0;
}

uint32_t PythonRandom::Next() {
  if (at_ == kWords) Refill();
  uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c'5680;
  y ^= (y << 15) & 0xefc6'0000;
  return y ^ (y >> 18);
}

uint32_t PythonRandom::Below(uint32_t n) {
  const int bits = std::bit_width(n);
  uint32_t drawn = n;
  while (drawn >= n) drawn = Next() >> (32 - bits);
  return drawn;
}

std::vector<size_t> PythonRandom::Sample(size_t population, size_t count) {
  // A list of `population` costs Python less than a set of `count` up to this size; the two ways
  // draw differently.
  size_t set_size = 21;
  if (count > 5) {
    size_t table = 1;
    while (table < 3 * count) table *= 4;
    set_size += table;
  }
  std::vector<size_t> chosen;
  chosen.reserve(count);
  if (population > set_size) {
    std::unordered_set<size_t> seen;
    while (chosen.size() < count) {
      const size_t drawn = Below(static_cast<uint32_t>(population));
      if (seen.insert(drawn).second) chosen.push_back(drawn);
    }
    return chosen;
  }
  std::vector<size_t> pool(population);
  for (size_t i = 0; i < population; ++i) pool[i] = i;
  for (size_t i = 0; i < count; ++i) {
    const size_t left = population - i;
    const size_t drawn = Below(static_cast<uint32_t>(left));
    chosen.push_back(pool[drawn]);
    pool[drawn] = pool[left - 1];
  }
  return chosen;
}

}  // namespace headcount::eval
