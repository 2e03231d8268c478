// Earliest finish (policies 4.9).
// Assumes t_comp, the ledger, what waits on each instance, and the utilisation by prefills.
// Procedure: argmin of the projected finish (finish.h), every waiting call of the instance counted as ahead.
// Prefix, batch and context vary inside a class, so every candidate is scored. O(instances).
// Ties: (score, t_comp, perm).
#pragma once

#include "placement/finish.h"

namespace laxity {

struct Eft {
  static constexpr const char* kName = "eft";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;
  static constexpr bool kNeedsBacklog = true;
  static constexpr bool kNeedsUtilisation = true;

  std::uint32_t choose(const PlacementView& view) {
    Choice<double> best;
    view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const FinishTerms terms{i.backlog.prefill, i.backlog.kv, i.ledger.work, i.ledger.assigned, 0};
      best.offer(m, projectedFinish(view, i, e, terms), e.exec, i.tie);
    });
    return best.instance();
  }
};

}  // namespace laxity
