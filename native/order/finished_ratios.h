// alpha*: the upper empirical 95th percentile of (finish - a) / H over the last 200 finished workflows, taken
// anew after every 200th and frozen in between (CONTRACT 12, policies 2.11). 2 before the first, the default
// of horizonFactor. H is the final horizon, at least 1 ns.
#pragma once

#include <array>
#include <cstdint>

#include "base/statistics.h"
#include "workflow/graph.h"

namespace laxity {

class FinishedRatios {
 public:
  static constexpr std::uint32_t kWindow = 200;
  static constexpr double kStart = 2;

  /// True where alpha* was taken anew.
  bool add(const Workflow& w, Nanos finishedAt) {
    const auto horizon = static_cast<double>(w.horizon > 0 ? w.horizon : 1);
    ratios_[count_++] = static_cast<double>(finishedAt - w.arrival) / horizon;
    if (count_ < kWindow) return false;
    count_ = 0;
    alpha_ = upperQuantile(ratios_, 0.95);
    return true;
  }
  double alpha() const { return alpha_; }

  /// -(a + alpha* (H + F) - F), F `beyond` the call: the time at which its ratio reaches alpha*.
  Nanos key(const Workflow& w, Nanos beyond = 0) const {
    const double f = static_cast<double>(beyond);
    const double allowed = alpha_ * (static_cast<double>(w.horizon) + f) - f;
    const Nanos limit = kMaxTime - w.arrival;
    const Nanos after = allowed < static_cast<double>(limit) ? static_cast<Nanos>(allowed + 0.5) : limit;
    return -(w.arrival + after);
  }

 private:
  double alpha_ = kStart;
  std::uint32_t count_ = 0;  ///< since alpha* was taken; the window is as long as the period
  std::array<double, kWindow> ratios_{};
};

}  // namespace laxity
