// Adaptive thread-level attained service (Autellix / Agentix; policies 2.7), not preemptive: `plas` for
// programs whose calls run in parallel. Needs no length.
// Procedure: a program has attained the longest path of served calls seen so far: max(attained, p + model
// time) with every served call, p what the program had attained when that call began to wait. Parallel calls
// so count once, the longest of them. See attained_service.h.
#pragma once

#include <algorithm>

#include "order/attained_service.h"

namespace laxity {

constexpr Nanos longestService(Nanos program, Nanos p, Nanos time) { return std::max(program, p + time); }

struct Atlas : AttainedService<longestService> {
  static constexpr const char* kName = "atlas";
};

}  // namespace laxity
