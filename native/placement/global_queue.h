// One shared queue; whoever has credit takes its head (policies 5.1; the M/M/c discipline).
// Assumes nothing but t_comp. Procedure: among the candidates with credit the fastest for this call.
// Ties: (t_comp, perm).
#pragma once

#include "placement/placement.h"

namespace laxity {

struct GlobalQueue {
  static constexpr const char* kName = "global-queue";
  static constexpr bool kSharedQueue = true;
  static constexpr bool kNeedsQueueAhead = false;

  std::uint32_t choose(const PlacementView& view) {
    Choice<Nanos> best;
    view.eachFirst(
        [&](std::uint32_t m, const Instance& i, const Estimate& e) { best.offer(m, 0, e.exec, i.tie); });
    return best.instance();
  }
};

}  // namespace laxity
