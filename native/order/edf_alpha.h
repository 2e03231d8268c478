// The static surrogate of `ratio` (policies 2.11).
// Assumes the horizon H of the revealed part.
// Procedure: key = -(a + alpha* H): the time at which the workflow's ratio reaches alpha*, since R >= alpha*
// where t + Delta >= a + alpha* H. Static until H or alpha* changes (finished_ratios.h); it starts as `edf`
// without deadlines. A workflow counts when it is closed and every call of it is done.
// Ties: rank.
#pragma once

#include "order/finished_ratios.h"
#include "order/order.h"

namespace laxity {

class EdfAlpha {
 public:
  static constexpr const char* kName = "edf-alpha";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = true;
  static constexpr bool kNeedsDelta = false;
  static constexpr std::uint32_t kWindow = FinishedRatios::kWindow;

  Nanos key(const OrderView& v) const { return ratios_.key(v.workflow); }
  bool workflowFinished(const Workflow& w, Nanos finishedAt) { return ratios_.add(w, finishedAt); }
  double alpha() const { return ratios_.alpha(); }

 private:
  FinishedRatios ratios_;
};

}  // namespace laxity
