// DistServe's dispatch (OSDI'24; policies 5.3).
// Procedure: p with the shortest prefill queue, in prompt tokens to compute of calls that wait for it or are
// leased to it without a first token; d with the least load, its sequences.
// The rest of DistServe is not the placement's: batches of prefills up to a number of tokens are the prefill
// instance's prefillBatchTokens, first come, first served is the order `fcfs`, and decode that pulls KV when
// there is room for it is `reserve: late` with admission by the engine.
// Cost: O(instances). Ties: perm.
#pragma once

#include <string_view>

#include "placement/pairs/halves.h"

namespace laxity {

struct DistServePair : FewestPendingTokens, FewestSequences {
  static constexpr std::string_view kName = "distserve";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kPlans = false;
};

}  // namespace laxity
