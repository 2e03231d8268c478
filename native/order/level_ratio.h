// Laxity while a workflow is below the level that finished ones reach, HexAGenT's ratio from there on.
// Assumes what `ratio` does; F may be exact or a lower estimate.
// Procedure: W = H + F, R = (t - a + Delta + F) / W, alpha and S = scale of finished_level.h. The key is
//   alpha + (R - alpha) W / S     while t - a + e + F <= alpha W, e the call's mean time alone
//   R                             beyond it, before the first finished workflow, and where the workflow is
//                                 sacrificed (times sacrificeSoft, as in `ratio`)
// the largest first. Below the level this is laxity at the level, a + alpha W - F - (t + Delta), the least
// first. Beyond it laxity would put the longest first and let short workflows, which miss the level by the
// largest factors, wait; the ratio does not. Both sides are alpha where R is. Which side counts is decided
// without Delta, so that keys stay linear in the projected finish. Evaluated at every pick. Ties: rank.
#pragma once

#include <algorithm>

#include "order/finished_level.h"
#include "order/order.h"
#include "order/ratio.h"

namespace laxity {

class LevelRatio {
 public:
  static constexpr const char* kName = "level-ratio";
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = true;
  static constexpr bool kNeedsDelta = true;

  double key(const OrderView& v) const {
    if (!below(v)) return Ratio::key(v);
    const ProjectedKey k = projected(v);
    return static_cast<double>(v.now - v.workflow.arrival + v.delta + k.shift) * k.slope;
  }
  ProjectedKey projected(const OrderView& v) const {
    if (!below(v)) return Ratio::projected(v);
    // alpha (S - W) + F
    const double limit = static_cast<double>(kMaxTime / 4);
    const double shift = level_.alpha() * (level_.scale() - whole(v)) + static_cast<double>(v.beyond);
    return {1 / level_.scale(), static_cast<Nanos>(std::clamp(shift, -limit, limit))};
  }

  bool workflowFinished(const Workflow& w, Nanos finishedAt) {
    level_.add(w, finishedAt);
    return false;
  }

 private:
  static double whole(const OrderView& v) {
    return static_cast<double>((v.workflow.horizon > 0 ? v.workflow.horizon : 1) + v.beyond);
  }
  bool below(const OrderView& v) const {
    if (level_.scale() == 0 || v.workflow.sacrificed) return false;
    const Nanos alone = v.now - v.workflow.arrival + v.call.mean + v.beyond;
    return static_cast<double>(alone) <= level_.alpha() * whole(v);
  }

  FinishedLevel level_;
};

}  // namespace laxity
