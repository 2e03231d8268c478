// Lower empirical quantiles of the latest observations.
//
// A ring of the last `capacity`, kept in order beside it. The q-quantile of n observations is the k-th
// smallest, k = max(1, floor(q (n + 1))): the conformal lower bound, below which the next exchangeable
// observation falls with probability at most q, wherever q (n + 1) >= 1; with fewer the smallest one stands
// in for it. Add O(capacity) moves of 8 bytes, quantile O(1).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace laxity {

class LowerQuantile {
 public:
  explicit LowerQuantile(std::uint32_t capacity) : capacity_(capacity) {}

  /// Not a NaN.
  void add(double value) {
    if (ring_.size() < capacity_) {
      ring_.push_back(value);
    } else {
      sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), ring_[next_]));
      ring_[next_] = value;
      next_ = (next_ + 1) % capacity_;
    }
    sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), value), value);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(ring_.size()); }

  /// Of at least one observation; q in [0, 1].
  double at(double q) const {
    const auto k = static_cast<std::size_t>(q * static_cast<double>(sorted_.size() + 1));
    return sorted_[std::min(std::max<std::size_t>(k, 1), sorted_.size()) - 1];
  }

 private:
  std::uint32_t capacity_;
  std::uint32_t next_ = 0;
  std::vector<double> ring_;
  std::vector<double> sorted_;
};

}  // namespace laxity
