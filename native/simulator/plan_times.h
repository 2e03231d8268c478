// How long planning takes: thread CPU time of every decide that made a plan, per plan. For reports; nothing
// that is simulated depends on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace laxity {

class PlanTimes {
 public:
  void add(std::int64_t ns, std::uint64_t plans) {
    ns_.push_back(static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(ns / static_cast<std::int64_t>(plans), 0, std::int64_t{0xffff'ffff})));
    sum_ += static_cast<double>(ns);
  }
  /// ns in all.
  double sum() const { return sum_; }
  /// The ceil(share n)-th smallest, us; 0 without plans. Sorts.
  double quantileUs(double share) {
    if (ns_.empty()) return 0;
    std::sort(ns_.begin(), ns_.end());
    const auto n = static_cast<double>(ns_.size());
    auto i = static_cast<std::size_t>(share * n);
    if (static_cast<double>(i) == share * n && i > 0) --i;
    return ns_[std::min(i, ns_.size() - 1)] * 1e-3;
  }

 private:
  std::vector<std::uint32_t> ns_;
  double sum_ = 0;
};

}  // namespace laxity
