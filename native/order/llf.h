// Least laxity first, workflow level (policies 2.4).
// Assumes a deadline D (CONTRACT 9) and rem, the mean time of the longest path from the call on (mean of the
// call + tail).
// Procedure: laxity at t = (D - t) - rem; all calls lose it at the same rate, so key = rem - D. Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Llf {
  static constexpr const char* kName = "llf";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return remainingFrom(v) - v.workflow.deadline; }
};

}  // namespace laxity
