// HexGen-Flow's urgency (papers.md eq. 7; policies 2.5).
// Assumes a budget t_SLO per call (workflow/budget.h).
// Procedure: U(t) = t_comp - (t_SLO - (t - r)). All waiting calls of a queue age at the same rate, so U
// orders them as the static key t_comp - t_SLO - r does. Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Urgency {
  static constexpr const char* kName = "urgency";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return v.exec - v.call.budget - v.call.readyAt; }
};

}  // namespace laxity
