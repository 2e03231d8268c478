// Program-level least attained service (Autellix / Agentix; policies 2.7), not preemptive. Needs no length.
// Procedure: a program has attained the sum of the model times of its served calls. See attained_service.h.
#pragma once

#include "order/attained_service.h"

namespace laxity {

constexpr Nanos sumOfService(Nanos program, Nanos, Nanos time) { return program + time; }

struct Plas : AttainedService<sumOfService> {
  static constexpr const char* kName = "plas";
};

}  // namespace laxity
