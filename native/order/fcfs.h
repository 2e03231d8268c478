// First come, first served, per call (policies 2.1).
// Assumes nothing. Procedure: key = -r, r the time the call became ready. Ties: rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Fcfs {
  static constexpr const char* kName = "fcfs";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return -v.call.readyAt; }
};

}  // namespace laxity
