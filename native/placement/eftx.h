// Earliest finish with externality (policies 4.10).
// Assumes what eft does. Procedure: argmin of eft's score + gamma * prefill * n, the delay that this call's
// prefill inflicts on the n calls assigned to the instance already. O(instances).
// Ties: (score, t_comp, perm).
#pragma once

#include "placement/finish.h"

namespace laxity {

struct Eftx {
  static constexpr const char* kName = "eftx";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;
  static constexpr bool kNeedsBacklog = true;
  static constexpr bool kNeedsUtilisation = true;

  std::uint32_t choose(const PlacementView& view) {
    Choice<double> best;
    view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const FinishTerms terms{i.backlog.prefill, i.backlog.kv, i.ledger.work, i.ledger.assigned,
                              static_cast<double>(i.ledger.assigned)};
      best.offer(m, projectedFinish(view, i, e, terms), e.exec, i.tie);
    });
    return best.instance();
  }
};

}  // namespace laxity
