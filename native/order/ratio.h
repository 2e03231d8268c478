// HexAGenT's projected ratio (papers.md eq. 2; CONTRACT 10).
// Assumes the horizon H of the revealed part and the projection Delta.
// Procedure: R = (t - a + Delta + q F) / (H + q F), F the declared remaining time after the call, q its
// weight (0 by default); times the parameter sacrificeSoft where the workflow is sacrificed. Slopes differ
// between workflows, so R is evaluated at every pick. Ties: rank.
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
    const double hint = v.call.remaining > 0
                            ? v.parameters[Parameter::kHintWeight] * static_cast<double>(v.call.remaining)
                            : 0;
    const double horizon = static_cast<double>(v.workflow.horizon > 0 ? v.workflow.horizon : 1) + hint;
    const double ratio = (static_cast<double>(v.now - v.workflow.arrival + v.delta) + hint) / horizon;
    return v.workflow.sacrificed ? ratio * v.parameters[Parameter::kSacrificeSoft] : ratio;
  }
};

}  // namespace laxity
