// The level that finished workflows reach, and how long they are alone.
//
//   alpha = max(1.2, 1.05 q90), q90 the upper empirical 90 % quantile of (finish - a) / H over the last 40
//           finished workflows, H final and at least 1 ns; 1.2 before the first
//   scale = mean of those H, 0 before the first
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/statistics.h"
#include "workflow/graph.h"

namespace laxity {

class FinishedLevel {
 public:
  static constexpr std::uint32_t kWindow = 40;
  static constexpr double kLeast = 1.2;
  static constexpr double kAbove = 1.05;

  void add(const Workflow& w, Nanos finishedAt) {
    const auto horizon = static_cast<double>(w.horizon > 0 ? w.horizon : 1);
    horizons_[count_ % kWindow] = horizon;
    ratios_[count_++ % kWindow] = static_cast<double>(finishedAt - w.arrival) / horizon;
    const std::uint32_t n = std::min(count_, kWindow);
    std::array<double, kWindow> scratch = ratios_;
    alpha_ = std::max(kLeast, kAbove * upperQuantile(std::span(scratch.data(), n), 0.9));
    double sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) sum += horizons_[i];
    scale_ = sum / n;
    if (count_ == 2 * kWindow) count_ = kWindow;
  }
  double alpha() const { return alpha_; }
  double scale() const { return scale_; }

 private:
  double alpha_ = kLeast;
  double scale_ = 0;
  std::uint32_t count_ = 0;  ///< until the window is full; from then on window + position
  std::array<double, kWindow> ratios_{};
  std::array<double, kWindow> horizons_{};
};

}  // namespace laxity
