// Least work left (policies 4.4, with OUT as the queue measure).
// Assumes t_comp of every assigned call.
// Procedure: argmin over instances of the summed t_comp of assigned, unfinished calls. O(classes).
// Ties: (work, t_comp of the call, perm).
#pragma once

#include "placement/placement.h"

namespace laxity {

struct LeastWorkLeft {
  static constexpr const char* kName = "least-work-left";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;

  std::uint32_t choose(const PlacementView& view) {
    Choice<Nanos> best;
    view.eachLeastWork([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      best.offer(m, i.ledger.work, e.exec, i.tie);
    });
    return best.instance();
  }
};

}  // namespace laxity
