// Choices of one half of a pair that more than one placement makes. Cost: O(instances). Ties: perm.
#pragma once

#include <cstdint>

#include "placement/pair.h"

namespace laxity {

/// p with the fewest pending tokens: prompt tokens to compute of calls that wait for it or are leased to it
/// without a first token.
struct FewestPendingTokens {
  static constexpr bool kNeedsBacklog = true;

  std::uint32_t choosePrefill(const PairView& v) const {
    LeastOf<std::int64_t> best;
    v.eachPrefill([&](std::uint32_t p, const Instance& m) { best.offer(p, m.backlog.tokens); });
    return best.instance();
  }
};

/// d with the fewest sequences, at the lease.
struct FewestSequences {
  std::uint32_t chooseDecode(const PairView& v, std::uint32_t) const {
    LeastOf<std::uint32_t> best;
    v.eachDecode([&](std::uint32_t d, const Instance& m) { best.offer(d, m.ledger.leased); });
    return best.instance();
  }
};

}  // namespace laxity
