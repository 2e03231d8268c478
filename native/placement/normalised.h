// The workload-balanced score made dimensionless (policies 4.8, WBN): one alpha fits all loads and scales.
// Assumes t_comp of the call on every class, OUT as t_queue, and that a cached prefix never makes a prefill
// longer. Procedure: argmax of (1 - alpha) (q0 + T) / (t_queue + T) - alpha t_comp / T, with T the smallest
// t_comp and q0 the smallest t_queue among the candidates.
// One candidate a class is exact: inside a class and without a prefix t_comp is constant, so the score falls
// with t_queue alone; both minima are reached by a class's least loaded member or by a holder, since a holder
// has the smaller t_comp of its class. With alpha = 1 the queue has no weight and the class's first instance
// by perm stands for it. Sums are integers; each ratio is rounded once. O(classes).
// Ties: (score, t_comp, perm), inside a class (t_queue, perm).
#pragma once

#include <algorithm>

#include "placement/placement.h"

namespace laxity {

struct Normalised {
  static constexpr const char* kName = "normalised";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;

  std::uint32_t choose(const PlacementView& view) {
    const double alpha = view.parameters[Parameter::kAlpha];
    Nanos shortest = kNever;  // T
    Nanos least = kNever;     // q0
    const auto measure = [&](std::uint32_t, const Instance& i, const Estimate& e) {
      shortest = std::min(shortest, e.exec);
      least = std::min(least, i.ledger.work);
    };
    Choice<double> best;
    const auto offer = [&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const double balance =
          static_cast<double>(least + shortest) / static_cast<double>(i.ledger.work + shortest);
      const double speed = static_cast<double>(e.exec) / static_cast<double>(shortest);
      best.offer(m, alpha * speed - (1 - alpha) * balance, e.exec, i.tie);
    };
    if (alpha < 1) {
      view.eachLeastWork(measure);
      view.eachLeastWork(offer);
    } else {
      view.eachFirst(measure);
      view.eachFirst(offer);
    }
    return best.instance();
  }
};

}  // namespace laxity
