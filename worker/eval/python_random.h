// Python's random.Random(seed) as far as few-shot sampling needs it: the same draws, so that a task
// shows a model the same examples as lm-evaluation-harness. MT19937 seeded by init_by_array, as
// CPython does for an integer seed (std::mt19937 has no such seeding).
//
// Used by worker/eval/examples. Not thread-safe; no errors.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headcount::eval {

class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  // The next 32-bit output: getrandbits(32).
  uint32_t Next();
  // In [0, n), n from 1 to 2^32 - 1: Random._randbelow.
  uint32_t Below(uint32_t n);
  // `count` distinct indices below `population`, in the order drawn: Random.sample(range(n), k).
  // count <= population.
  std::vector<size_t> Sample(size_t population, size_t count);

 private:
  static constexpr size_t kWords = 624;

  void Seed(uint32_t seed);  // init_genrand
  void Refill();

  std::array<uint32_t, kWords> state_;
  size_t at_ = kWords;
};

}  // namespace headcount::eval
