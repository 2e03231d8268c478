// Bounded sacrifice: a few large workflows that are late already are put behind the others, so that these end
// in time. Gains at Req95 and Req99 are paid for with the largest ratio, by whoever has large workflows: off
// unless the operator gives a share b (docs/simulator.md).
//
// Size of a workflow: H + F (order/ratio.h) when a call of it first waits in a plan and F is declared or
// learnt. One of which nothing is known has no size and is never put behind. A workflow of size s whose
// waiting call has R > 1.5 is, if the window has at least 30 sizes and
//   sacrificed + 1 <= b * sizes seen      and      s >= the upper empirical quantile 1 - 1.5 b of the window.
// The window holds the last 1,000 sizes. Its calls then score soft * R, for good.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace laxity {

class Sacrifice {
 public:
  static constexpr std::uint32_t kWindow = 1'000;
  static constexpr std::uint32_t kLeast = 30;
  static constexpr double kLate = 1.5;

  /// O(window).
  void see(Nanos size) {
    if (recent_.size() < kWindow) {
      recent_.push_back(size);
    } else {
      Nanos& oldest = recent_[seen_ % kWindow];
      sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), oldest));
      oldest = size;
    }
    sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), size), size);
    ++seen_;
  }

  /// Whether another workflow, of this size, may be put behind.
  bool allows(Nanos size, double share) const {
    if (sorted_.size() < kLeast) return false;
    if (static_cast<double>(sacrificed_ + 1) > share * static_cast<double>(seen_)) return false;
    const double n = static_cast<double>(sorted_.size());
    const double rank = std::ceil((1 - 1.5 * share) * n);
    return size >= sorted_[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  }
  void take() { ++sacrificed_; }

 private:
  std::vector<Nanos> recent_;  ///< a ring once it is full
  std::vector<Nanos> sorted_;
  std::uint64_t seen_ = 0;
  std::uint64_t sacrificed_ = 0;
};

}  // namespace laxity
