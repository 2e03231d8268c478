// Shortest job first (policies 2.6).
// Assumes t_comp. Starves long calls; see ageing.h.
// Procedure: key = -t_comp, on the instance whose queue it is, in a shared queue the mean over the instances.
// Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Sjf {
  static constexpr const char* kName = "sjf";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return -v.exec; }
};

}  // namespace laxity
