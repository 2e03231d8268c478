// Splitwise's join-shortest-queue (ISCA'24; policies 5.2).
// Procedure: p with the fewest pending tokens, prompt tokens to compute of calls that wait for it or are
// leased to it without a first token; d with the least KV reserved among those that have room for the call,
// where none has among all.
// Roles are fixed here: a call stays in its own pools. The paper's mixed pool, which takes an instance of the
// other role when p has more than a limit of pending tokens or d is at capacity, does not exist, so the limit
// has nothing to decide.
// Cost: O(instances). Ties: perm.
#pragma once

#include <cstdint>
#include <string_view>

#include "placement/pairs/halves.h"

namespace laxity {

struct SplitwisePair : FewestPendingTokens {
  static constexpr std::string_view kName = "splitwise";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kPlans = false;

  std::uint32_t chooseDecode(const PairView& v, std::uint32_t) const {
    LeastOf<std::int64_t> roomy;
    LeastOf<std::int64_t> any;
    v.eachDecode([&](std::uint32_t d, const Instance& m) {
      any.offer(d, m.ledger.reservedKv);
      if (v.hasRoom(d)) roomy.offer(d, m.ledger.reservedKv);
    });
    return roomy.instance() != kNoSlot ? roomy.instance() : any.instance();
  }
};

}  // namespace laxity
