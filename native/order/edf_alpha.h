// The static surrogate of `ratio` (policies 2.11).
// Assumes the horizon H of the revealed part.
// Procedure: key = -(a + alpha* H): the time at which the workflow's ratio reaches alpha*, since R >= alpha*
// where t + Delta >= a + alpha* H. Static until H or alpha* changes.
//   alpha* is the upper empirical 95th percentile of (finish - a) / H over the last 200 finished workflows,
//   taken anew after every 200th and frozen in between (CONTRACT 12); 2 before the first, the default of
//   horizonFactor, with which the order starts as `edf` without deadlines. A workflow counts when it is
//   closed and every call of it is done; H is then its final horizon (at least 1 ns).
// Ties: rank.
#pragma once

#include <array>
#include <cstdint>

#include "base/statistics.h"
#include "order/order.h"

namespace laxity {

class EdfAlpha {
 public:
  static constexpr const char* kName = "edf-alpha";
  static constexpr bool kDynamic = false;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = true;
  static constexpr bool kNeedsDelta = false;
  static constexpr std::uint32_t kWindow = 200;
  static constexpr double kStart = 2;

  Nanos key(const OrderView& v) const {
    const double allowed = alpha_ * static_cast<double>(v.workflow.horizon);
    const Nanos limit = kMaxTime - v.workflow.arrival;
    const Nanos after = allowed < static_cast<double>(limit) ? static_cast<Nanos>(allowed + 0.5) : limit;
    return -(v.workflow.arrival + after);
  }

  bool workflowFinished(const Workflow& w, Nanos finishedAt) {
    const auto horizon = static_cast<double>(w.horizon > 0 ? w.horizon : 1);
    ratios_[count_++] = static_cast<double>(finishedAt - w.arrival) / horizon;
    if (count_ < kWindow) return false;
    count_ = 0;
    alpha_ = upperQuantile(ratios_, 0.95);
    return true;
  }

  double alpha() const { return alpha_; }

 private:
  double alpha_ = kStart;
  std::uint32_t count_ = 0;  ///< since alpha* was taken; the window is as long as the period
  std::array<double, kWindow> ratios_{};
};

}  // namespace laxity
