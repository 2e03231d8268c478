// DistServe's dispatch (OSDI'24; policies 5.3).
// Procedure: p with the shortest prefill queue, in prompt tokens to compute of calls that wait for it or are
// leased to it without a first token; d with the least load, its sequences.
// The rest of DistServe is not the placement's: batches of prefills up to a number of tokens are the prefill
// instance's prefillBatchTokens, first come, first served is the order `fcfs`, and decode that pulls KV when
// there is room for it is `reserve: late` with admission by the engine.
// Cost: O(instances). Ties: perm.
#pragma once

#include <cstdint>
#include <string_view>

#include "placement/pair.h"

namespace laxity {

struct DistServePair {
  static constexpr std::string_view kName = "distserve";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kPlans = false;
  static constexpr bool kNeedsBacklog = true;

  std::uint32_t choosePrefill(const PairView& v) const {
    LeastOf<std::int64_t> best;
    v.eachPrefill([&](std::uint32_t p, const Instance& m) { best.offer(p, m.backlog.tokens); });
    return best.instance();
  }

  std::uint32_t chooseDecode(const PairView& v, std::uint32_t) const {
    LeastOf<std::uint32_t> best;
    v.eachDecode([&](std::uint32_t d, const Instance& m) { best.offer(d, m.ledger.leased); });
    return best.instance();
  }
};

}  // namespace laxity
