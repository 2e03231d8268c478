// Earliest deadline first, path-aware call form (policies 2.3).
// Assumes a deadline D (CONTRACT 9) and tail(c), the longest mean-time path strictly below the call with what
// is expected beyond the revealed part (CONTRACT 10).
// Procedure: key = -(D - tail): the latest finish of the call that leaves room for the rest of its path.
// Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct EdfPath {
  static constexpr const char* kName = "edf-path";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return v.call.below - v.workflow.deadline; }
};

}  // namespace laxity
