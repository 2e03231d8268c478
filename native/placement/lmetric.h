// LMetric (arXiv 2603.15202; policies 4.13): one product, no constant.
// Assumes cached prefixes, and what each instance has yet to prefill.
// Procedure: argmin of P * (B + 1), P the new prefill tokens of the instance if the call goes there (those of
// its waiting calls, of its leases without a first token, and of the call, each without its cached prefix),
// B its batch, waiting sequences included: a router that forwards at once has them in the engine. The one
// keeps an idle instance from a product of zero. Exact, in integers. Two sums vary inside a class, so every
// candidate is scored. O(instances). Ties: (product, t_comp, perm).
#pragma once

#include "placement/placement.h"

namespace laxity {

struct Lmetric {
  static constexpr const char* kName = "lmetric";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;
  static constexpr bool kNeedsBacklog = true;

  std::uint32_t choose(const PlacementView& view) {
    Choice<__int128_t> best;
    view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const std::int64_t tokens = i.backlog.tokens + view.newTokens(m);
      const std::int64_t batch = std::int64_t{i.ledger.leased} + i.backlog.waiting + 1;
      best.offer(m, __int128_t{tokens} * batch, e.exec, i.tie);
    });
    return best.instance();
  }
};

}  // namespace laxity
