// Earliest deadline first, workflow form (policies 2.3).
// Assumes a deadline D; without one D = arrival + k H(t) (CONTRACT 9), so the key moves with H.
// Procedure: key = -D. All calls of a workflow have one key. Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Edf {
  static constexpr const char* kName = "edf";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return -v.workflow.deadline; }
};

}  // namespace laxity
