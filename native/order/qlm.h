// QLM's queue of request groups (policies 2.12).
// Assumes a deadline D (CONTRACT 9), t_comp, and the number of sequences that the queue's instances run at
// once.
// Procedure, at each pick, over the calls that wait in the queue: a group holds the calls of one model (a
// queue has one) whose deadlines lie in one bucket of absolute time (bucketMs, 10 s). Groups stand by the
// ready time of their first call. The waiting time after a group is the sum of t_comp of its calls and of all
// groups before it, divided by the sequences that run at once. Where now + that time is later than the
// earliest deadline of a group, an SLO would break: groups then go by bucket, earliest deadline first, else
// by the ready time of their first call. Inside a group first come, first served. No model is swapped: an
// instance serves one.
// Deterministic, in place of the paper's integer program, whose infeasible case this is.
// O(N log N + G log G) a pick, N calls and G groups of the queue.
// Ties: groups (bucket or ready time, then bucket), calls (ready time, rank).
#pragma once

#include <algorithm>
#include <compare>
#include <vector>

#include "order/order.h"

namespace laxity {

struct QlmKey {
  std::int64_t group;   ///< minus the bucket, or minus the ready time of the group's first call
  std::int64_t bucket;  ///< minus the bucket
  Nanos ready;          ///< minus the ready time
  std::int64_t leading() const { return group; }
  friend auto operator<=>(const QlmKey&, const QlmKey&) = default;
};

class Qlm {
 public:
  static constexpr const char* kName = "qlm";
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = true;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;

  template <class Queue>
  void prepare(const Queue& queue) const {
    groups_.clear();
    queue.each([&](const OrderView& v) {
      groups_.push_back({bucketOf(v), v.call.readyAt, v.workflow.deadline, v.exec});
    });
    std::sort(groups_.begin(), groups_.end(),
              [](const Group& a, const Group& b) { return a.bucket < b.bucket; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (kept == 0 || groups_[kept - 1].bucket != groups_[i].bucket) {
        groups_[kept++] = groups_[i];
        continue;
      }
      Group& g = groups_[kept - 1];
      g.firstReady = std::min(g.firstReady, groups_[i].firstReady);
      g.deadline = std::min(g.deadline, groups_[i].deadline);
      g.work += groups_[i].work;
    }
    groups_.resize(kept);
    byReady_.assign(groups_.begin(), groups_.end());
    std::sort(byReady_.begin(), byReady_.end(), [](const Group& a, const Group& b) {
      return a.firstReady != b.firstReady ? a.firstReady < b.firstReady : a.bucket < b.bucket;
    });
    breaks_ = false;
    __int128_t work = 0;
    for (const Group& g : byReady_) {
      work += g.work;
      if (work > static_cast<__int128_t>(g.deadline - queue.now()) * queue.slots()) breaks_ = true;
    }
  }

  QlmKey key(const OrderView& v) const {
    const Nanos bucket = bucketOf(v);
    if (breaks_) return {-bucket, -bucket, -v.call.readyAt};
    const auto found = std::lower_bound(groups_.begin(), groups_.end(), bucket,
                                        [](const Group& g, Nanos b) { return g.bucket < b; });
    Nanos first = v.call.readyAt;
    if (found != groups_.end() && found->bucket == bucket) first = std::min(first, found->firstReady);
    return {-first, -bucket, -v.call.readyAt};
  }

 private:
  static Nanos bucketOf(const OrderView& v) {
    return v.workflow.deadline / fromMs(v.parameters[Parameter::kBucketMs]);
  }

  struct Group {
    Nanos bucket;
    Nanos firstReady;
    Nanos deadline;  ///< the earliest
    Nanos work;
  };

  // Scratch of one comparison of a queue: functions of that queue and the time, whatever was compared before.
  mutable std::vector<Group> groups_;   ///< by bucket
  mutable std::vector<Group> byReady_;  ///< by first ready time
  mutable bool breaks_ = false;
};

}  // namespace laxity
