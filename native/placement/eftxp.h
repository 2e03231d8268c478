// Earliest finish with externality, position-aware (policies 4.11).
// Assumes t_comp, the present order's keys, the ledger (reserved KV, leases, expected context) and the
// utilisation. Procedure: minimise, in seconds,
//   score = wait + kv + prefill + output * d * stretch + gamma * prefill * others
//   ex    = reserved KV + KV of waiting calls ahead + need - KV;  contended = ex > 0
//   wait  = contended ? prefill in progress + prefills ahead : prefill in progress + all waiting prefills
//   kv    = contended and something runs ? kvWeight * ex/KV * mean t_comp of the assigned calls * stretch : 0
//   d     = time per token at batch + 1;  stretch = 1 / (1 - min(0.85, utilisation by prefills))
//   others = contended ? running + waiting behind : all assigned
// (prefill-first engines drain every waiting prefill before they decode, unless KV blocks). O(instances *
// queue). Ties: (score, t_comp, perm).
#pragma once

#include <algorithm>

#include "base/math.h"
#include "placement/placement.h"

namespace laxity {

struct Eftxp {
  static constexpr const char* kName = "eftxp";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = true;
  static constexpr bool kAheadIfContended = true;

  std::uint32_t choose(const PlacementView& view) {
    const double gamma = view.parameters[Parameter::kGamma];
    const double kvWeight = view.parameters[Parameter::kKvWeight];
    Choice<double> best;
    view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const Ledger& ledger = i.ledger;
      const QueueAhead queue = view.queueAhead(m);
      const std::int64_t need = std::int64_t{view.call.promptTokens} + view.call.predictedTokens;
      const std::int64_t excess = ledger.reservedKv + queue.kvAhead + need - i.spec.kvTokens;
      const bool contended = excess > 0;
      const bool blocked = contended && ledger.leased > 0;

      const double u = std::min(0.85, utilisation(i, view));
      const double stretch = 1 / (1 - u);
      const double prefill = toSeconds(e.prefill);
      const double inProgress = toSeconds(std::max<Nanos>(0, ledger.prefillsEnd - view.now));
      const double ahead = contended ? toSeconds(queue.prefillAhead) : toSeconds(queue.prefillAll);
      const double kv = blocked
                            ? kvWeight * static_cast<double>(excess) / static_cast<double>(i.spec.kvTokens) *
                                  toSeconds(ledger.work) / std::max(1u, ledger.assigned) * stretch
                            : 0;
      const std::int64_t context = ledger.context + need;
      const double perToken =
          toSeconds(roundFine(view.cluster.latency(i).piece(ledger.leased + 1, context).at(context)));
      const double others = contended ? ledger.leased + queue.behind : ledger.assigned;
      const double score = inProgress + ahead + kv + prefill +
                           view.call.predictedTokens * perToken * stretch + gamma * prefill * others;
      best.offer(m, score, e.exec, i.tie);
    });
    return best.instance();
  }

 private:
  static double utilisation(const Instance& i, const PlacementView& view) {
    if (i.utilisation == 0) return 0;
    const double age = toMs(view.now - i.utilisationAt) / view.parameters[Parameter::kUtilisationMs];
    return i.utilisation * detExp(-age);
  }
};

}  // namespace laxity
