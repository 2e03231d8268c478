// HexAGenT's projected ratio (papers.md eq. 2; CONTRACT 10).
// Assumes the horizon H of the revealed part, the projection Delta, and a lower estimate F of what lies
// beyond: declared with the call or the workflow, or learnt (workflow/horizon_learner.h); 0 is the paper.
// Procedure: R = (t - a + Delta + F) / (H + F), times the parameter sacrificeSoft where the workflow is
// sacrificed (scheduler/sacrifice.h). Slopes differ between workflows, so R is evaluated at every pick. Ties:
// rank.
#pragma once

#include "order/order.h"

namespace laxity {

struct Ratio {
  static constexpr const char* kName = "ratio";
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = true;
  static constexpr bool kNeedsDelta = true;

  static double key(const OrderView& v) {
    return (static_cast<double>(v.now - v.workflow.arrival + v.delta) + beyond(v)) / whole(v) * factor(v);
  }
  static ProjectedKey projected(const OrderView& v) { return {factor(v) / whole(v), v.beyond}; }
  /// Only calls that wait for a plan are ever sacrificed, and those have no lines.
  static KeyLine line(const OrderView& v) { return {v.workflow.arrival, beyond(v), whole(v)}; }

 private:
  static double beyond(const OrderView& v) { return static_cast<double>(v.beyond); }
  /// H + F
  static double whole(const OrderView& v) {
    return static_cast<double>((v.workflow.horizon > 0 ? v.workflow.horizon : 1) + v.beyond);
  }
  static double factor(const OrderView& v) {
    return v.workflow.sacrificed ? v.parameters[Parameter::kSacrificeSoft] : 1;
  }
};

}  // namespace laxity
