// First come, first served, per workflow (policies 2.2).
// Assumes nothing. Procedure: key = -a, a the workflow's arrival; a workflow's ready calls stay contiguous.
// Ties: rank, so inside a workflow the earlier revealed call goes first.
#pragma once

#include "order/order.h"

namespace laxity {

struct WorkflowFcfs {
  static constexpr const char* kName = "workflow-fcfs";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static Nanos key(const OrderView& v) { return -v.workflow.arrival; }
};

}  // namespace laxity
