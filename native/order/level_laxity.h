// Laxity against the level that finished workflows reach.
// Assumes the horizon H of the revealed part, the projection Delta, and F, the time beyond it (ratio.h): made
// for an F that is declared exactly, with a lower estimate it takes long workflows for nearly done.
// Procedure: finished workflows end at about one ratio, alpha. Laxity at the level is
//   a + alpha (H + F) - F - (t + Delta)
// the least first; key = minus it. alpha = max(1.2, 1.05 q90), q90 the upper empirical 90 % quantile of
// (finish - a) / H over the last 40 finished workflows, H final and at least 1 ns; 1.2 before the first.
// Evaluated at every pick, since Delta moves. Ties: rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/statistics.h"
#include "order/order.h"

namespace laxity {

class LevelLaxity {
 public:
  static constexpr const char* kName = "level-laxity";
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = true;
  static constexpr bool kNeedsDelta = true;
  static constexpr std::uint32_t kWindow = 40;
  static constexpr double kLeastLevel = 1.2;
  static constexpr double kAbove = 1.05;

  double key(const OrderView& v) const {
    return static_cast<double>(v.now - v.workflow.arrival + v.delta + shift(v));
  }
  ProjectedKey projected(const OrderView& v) const { return {1, shift(v)}; }

  bool workflowFinished(const Workflow& w, Nanos finishedAt) {
    const auto horizon = static_cast<double>(w.horizon > 0 ? w.horizon : 1);
    ratios_[count_++ % kWindow] = static_cast<double>(finishedAt - w.arrival) / horizon;
    std::array<double, kWindow> scratch = ratios_;
    const std::span<double> seen(scratch.data(), std::min(count_, kWindow));
    alpha_ = std::max(kLeastLevel, kAbove * upperQuantile(seen, 0.9));
    if (count_ == 2 * kWindow) count_ = kWindow;
    return false;
  }
  double alpha() const { return alpha_; }

 private:
  /// F - alpha (H + F)
  Nanos shift(const OrderView& v) const {
    const double limit = static_cast<double>(kMaxTime / 4);
    const double f = static_cast<double>(v.beyond);
    const double h = static_cast<double>(v.workflow.horizon);
    return static_cast<Nanos>(std::max(-limit, f - alpha_ * (h + f)));
  }

  double alpha_ = kLeastLevel;
  std::uint32_t count_ = 0;  ///< until the window is full; from then on window + position
  std::array<double, kWindow> ratios_{};
};

}  // namespace laxity
