// What a piece of work cost: wall time, and processor time of all threads beside it, which says the
// same on a machine whose cores are shared. Used by engine_bench. Thread-safe.

#pragma once

#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <cstdint>

namespace headcount::bench {

struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;
};

inline double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Work>
Cost Measure(Work&& work) {
  const double cpu = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), CpuSeconds() - cpu};
}

// The most this process has held in memory so far; it never falls.
inline int64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace headcount::bench
