// Least laxity first, call level: on the call's own budget (policies 2.4).
// Assumes a budget t_SLO per call (workflow/budget.h).
// Procedure: key = -((r + t_SLO) - t_comp). The same order as `urgency`, of which it is the other notation.
// Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct LlfCall {
  static constexpr const char* kName = "llf-call";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return -((v.call.readyAt + v.call.budget) - v.exec); }
};

}  // namespace laxity
