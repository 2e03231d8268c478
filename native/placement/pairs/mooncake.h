// Mooncake's least time to first token (FAST'25; policies 5.4).
// Procedure: p with the least
//   TTFT(p) = what is left of the leased prefills + prefills that wait for p + prefill of the call there,
// the last with what the call's `cached` hints say of p (tokens that need not be computed, time to load
// them). d with the least time per output token, the call among the committed batch, among those with room
// for it, where none has among all.
// Prefixes stay where they are: an instance without the longest match does not fetch it from another (there
// is no link between prefill instances), so the paper's balancing threshold and its replication of hot
// prefixes have nothing to decide. The paper's early rejection is the parameter `hopeless`.
// Cost: O(instances). Ties: perm.
#pragma once

#include <algorithm>
#include <string_view>

#include "placement/pair.h"

namespace laxity {

struct MooncakePair {
  static constexpr std::string_view kName = "mooncake";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kPlans = false;
  static constexpr bool kNeedsBacklog = true;

  std::uint32_t choosePrefill(const PairView& v) const {
    LeastOf<Nanos> best;
    v.eachPrefill([&](std::uint32_t p, const Instance& m) {
      best.offer(p, std::max<Nanos>(0, m.ledger.prefillsEnd - v.now) + m.backlog.prefill + v.prefillTime(p));
    });
    return best.instance();
  }

  std::uint32_t chooseDecode(const PairView& v, std::uint32_t) const {
    LeastOf<Nanos> roomy;
    LeastOf<Nanos> any;
    v.eachDecode([&](std::uint32_t d, const Instance&) {
      const Nanos time = v.perToken(d);
      any.offer(d, time);
      if (v.hasRoom(d)) roomy.offer(d, time);
    });
    return roomy.instance() != kNoSlot ? roomy.instance() : any.instance();
  }
};

}  // namespace laxity
