// Thread CPU time, for reports and benchmarks; nothing that is decided or simulated depends on it.
#pragma once

#include <cstdint>
#include <ctime>

namespace laxity {

/// ns that the calling thread has run; where the platform has no such clock, the process.
inline std::int64_t threadCpuNs() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
#else
  return static_cast<std::int64_t>(std::clock()) * (1'000'000'000 / CLOCKS_PER_SEC);
#endif
}

}  // namespace laxity
