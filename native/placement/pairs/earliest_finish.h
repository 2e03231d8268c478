// Joint earliest finish (HexAGenT; policies 5.6): the planner chooses order and pair together. Without a plan
// (binding at-reveal): p by the earliest end of the prefill behind all that is assigned, d by the earliest
// end of the output.
#pragma once

#include <algorithm>
#include <string_view>

#include "placement/pair.h"

namespace laxity {

struct EarliestFinishPair {
  static constexpr std::string_view kName = "earliest-finish";
  static constexpr bool kSharedQueue = true;
  static constexpr bool kPlans = true;
  static constexpr bool kNeedsBacklog = true;

  std::uint32_t choosePrefill(const PairView& v) const {
    LeastOf<Nanos> best;
    v.eachPrefill([&](std::uint32_t p, const Instance& m) {
      best.offer(p, std::max(m.ledger.prefillsEnd, v.now) + m.backlog.prefill + v.prefillTime(p));
    });
    return best.instance();
  }

  std::uint32_t chooseDecode(const PairView& v, std::uint32_t p) const {
    LeastOf<Nanos> best;
    v.eachDecode([&](std::uint32_t d, const Instance&) {
      best.offer(d, v.transferAlone(p, d) + v.perToken(d) * v.call.timedTokens);
    });
    return best.instance();
  }
};

}  // namespace laxity
