// HexGen-Flow's workload-balanced dispatch (papers.md eq. 3; policies 4.6).
// Assumes t_comp of the call on every class and OUT as t_queue.
// Procedure: argmax of (1 - alpha) beta / (t_queue + eps) - alpha t_comp, times in seconds, eps =
// queueGuardMs, so that an empty queue gives a finite score. Inside a class the score falls with t_queue
// alone: one candidate a class, O(classes). With alpha = 1 the queue has no weight and the class's first
// instance by perm stands for it. Ties: (score, t_comp, perm), inside a class (t_queue, perm).
#pragma once

#include "placement/placement.h"

namespace laxity {

struct WorkloadBalanced {
  static constexpr const char* kName = "workload-balanced";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;

  std::uint32_t choose(const PlacementView& view) {
    const double alpha = view.parameters[Parameter::kAlpha];
    const double weight = (1 - alpha) * view.beta;
    const double guard = view.parameters[Parameter::kQueueGuardMs] * 1e-3;
    Choice<double> best;
    const auto offer = [&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const double score = weight / (toSeconds(i.ledger.work) + guard) - alpha * toSeconds(e.exec);
      best.offer(m, -score, e.exec, i.tie);
    };
    if (weight > 0)
      view.eachLeastWork(offer);
    else
      view.eachFirst(offer);
    return best.instance();
  }
};

}  // namespace laxity
