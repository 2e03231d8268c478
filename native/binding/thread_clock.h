// The CPU time of this thread, for benchmarks.
#pragma once

#include <ctime>

namespace laxity::binding {

inline double threadCpuNs() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
#else
  return static_cast<double>(std::clock()) * (1e9 / CLOCKS_PER_SEC);
#endif
}

}  // namespace laxity::binding
