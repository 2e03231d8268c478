// Laxity against the level that finished workflows reach.
// Assumes the horizon H of the revealed part, the projection Delta, and F, the time beyond it (ratio.h): made
// for an F that is declared exactly, with a lower estimate it takes long workflows for nearly done.
// Procedure: finished workflows end at about one ratio, alpha (finished_level.h). Laxity at the level is
//   a + alpha (H + F) - F - (t + Delta)
// the least first; key = minus it. Evaluated at every pick, since Delta moves. Ties: rank.
#pragma once

#include <algorithm>

#include "order/finished_level.h"
#include "order/order.h"

namespace laxity {

class LevelLaxity {
 public:
  static constexpr const char* kName = "level-laxity";
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = true;
  static constexpr bool kNeedsDelta = true;

  double key(const OrderView& v) const {
    return static_cast<double>(v.now - v.workflow.arrival + v.delta + shift(v));
  }
  ProjectedKey projected(const OrderView& v) const { return {1, shift(v)}; }

  bool workflowFinished(const Workflow& w, Nanos finishedAt) {
    level_.add(w, finishedAt);
    return false;
  }
  double alpha() const { return level_.alpha(); }

 private:
  /// F - alpha (H + F)
  Nanos shift(const OrderView& v) const {
    const double limit = static_cast<double>(kMaxTime / 4);
    const double f = static_cast<double>(v.beyond);
    const double h = static_cast<double>(v.workflow.horizon);
    return static_cast<Nanos>(std::max(-limit, f - level_.alpha() * (h + f)));
  }

  FinishedLevel level_;
};

}  // namespace laxity
