// Shortest remaining processing time of the workflow, not preemptive (policies 2.6).
// Assumes rem, the mean time of the longest path from the call on. Starves long workflows; see ageing.h.
// Procedure: key = -rem. Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Srpt {
  static constexpr const char* kName = "srpt";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return -remainingFrom(v); }
};

}  // namespace laxity
