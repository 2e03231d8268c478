// Earliest finish with externality, position-aware (policies 4.11).
// Assumes t_comp, the present order's keys, the ledger (reserved KV, leases, expected context), the engine
// mode and the utilisation. Procedure: minimise, in seconds,
//   score = wait + kv + prefill + output * d * stretch + gamma * prefill * others
//   ex    = reserved KV + KV of waiting calls ahead + need - KV
//   share = the decode share s, 0 in other modes
//   rr    = chunked: min(1, d0 / prefill of b tokens), d0 = an iteration of one sequence without context;
//   else 0 contended = ex > 0, or decode-share, or chunked wait  = leased prefills, as projected + (contended
//   ? prefills ahead / (1 - share) : all waiting prefills) kv    = ex > 0 and something runs ? kvWeight *
//   ex/KV * mean t_comp of the assigned calls * stretch : 0 d     = time per token at batch + 1 stretch = 1 /
//   max(0.001, 1 - u * (1 - rr)), u = min(cap, utilisation by prefills),
//             cap = 0.85 (prefill-first), 1 - share (decode-share), 1 (chunked)
//   others = contended ? running * (1 - rr) + waiting behind : all assigned
// (prefill-first engines drain every waiting prefill before they decode, unless KV blocks). The leased
// prefills are projected with the decode that runs beside them (Cluster::besideDecode), so they are not
// divided by 1 - share once more. O(instances * queue). Ties: (score, t_comp, perm).
#pragma once

#include <algorithm>
#include <vector>

#include "placement/finish.h"

namespace laxity {

struct Eftxp {
  static constexpr const char* kName = "eftxp";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = true;
  static constexpr bool kNeedsBacklog = true;

  std::uint32_t choose(const PlacementView& view) {
    const double gamma = view.parameters[Parameter::kGamma];
    const double kvWeight = view.parameters[Parameter::kKvWeight];
    const double horizonMs = view.parameters[Parameter::kUtilisationMs];
    const std::int64_t need = std::int64_t{view.call.promptTokens} + view.call.predictedTokens;
    if (stretches_.size() < view.cluster.size()) stretches_.resize(view.cluster.size());
    Choice<double> best;
    view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const Ledger& ledger = i.ledger;
      QueueAhead queue;
      if (i.spec.mode == EngineMode::kPrefillFirst &&
          ledger.reservedKv + i.backlog.kv + need <= i.spec.kvTokens) {
        // While all that waits fits beside the leases, no position in the queue holds anything back, whatever the
        // order says: the calls ahead are a part of all that waits.
        queue.prefillAll = i.backlog.prefill;
      } else {
        queue = view.queueAhead(m);
      }
      const std::int64_t excess = ledger.reservedKv + queue.kvAhead + need - i.spec.kvTokens;
      const bool blocked = excess > 0 && ledger.leased > 0;
      const bool contended = excess > 0 || i.spec.mode != EngineMode::kPrefillFirst;
      ModeTerms mode;
      if (i.spec.mode != EngineMode::kPrefillFirst) mode = termsOf(i.spec, view.cluster.latency(i));

      const double stretch = i.spec.mode == EngineMode::kPrefillFirst
                                 ? stretches_[m].at(i, view, horizonMs)
                                 : stretchOf(mode, utilisationOf(i, view));
      const double prefill = toSeconds(e.prefill);
      const double inProgress = toSeconds(std::max<Nanos>(0, ledger.prefillsEnd - view.now));
      const double ahead =
          contended ? toSeconds(queue.prefillAhead) / (1 - mode.share) : toSeconds(queue.prefillAll);
      const double kv = blocked
                            ? kvWeight * static_cast<double>(excess) / static_cast<double>(i.spec.kvTokens) *
                                  toSeconds(ledger.work) / std::max(1u, ledger.assigned) * stretch
                            : 0;
      const std::int64_t context = ledger.context + need;
      const double perToken =
          toSeconds(roundFine(view.cluster.latency(i).piece(ledger.leased + 1, context).at(context)));
      const double others = contended ? ledger.leased * (1 - mode.rides) + queue.behind : ledger.assigned;
      const double score = inProgress + ahead + kv + prefill + view.call.timedTokens * perToken * stretch +
                           gamma * prefill * others;
      best.offer(m, score, e.exec, i.tie);
    });
    return best.instance();
  }

 private:
  struct ModeTerms {
    double cap = 0.85;
    double share = 0;  ///< of decode beside a prefill
    double rides = 0;  ///< rr: how much of an iteration full of chunks a decode would need anyway
  };
  static ModeTerms termsOf(const InstanceSpec& spec, const LatencyModel& latency) {
    ModeTerms terms;
    if (spec.mode == EngineMode::kDecodeShare) {
      terms.share = static_cast<double>(spec.decodeShare) / kDecodeShareUnit;
      terms.cap = 1 - terms.share;
    } else if (spec.mode == EngineMode::kChunked) {
      const Nanos decode = roundFine(latency.piece(1, 0).base);
      terms.rides = std::min(1.0, toSeconds(decode) / toSeconds(latency.prefill(spec.chunkTokens, 0)));
      terms.cap = 1;
    }
    return terms;
  }
  static double stretchOf(const ModeTerms& mode, double utilisation) {
    const double u = std::min(mode.cap, utilisation);
    return 1 / std::max(0.001, 1 - u * (1 - mode.rides));
  }

  /// The last stretch of a prefill-first instance: many calls are placed at one instant.
  class Stretch {
   public:
    double at(const Instance& i, const PlacementView& view, double horizonMs) {
      if (now_ != view.now || since_ != i.utilisationAt || utilisation_ != i.utilisation ||
          horizonMs_ != horizonMs) {
        now_ = view.now;
        since_ = i.utilisationAt;
        utilisation_ = i.utilisation;
        horizonMs_ = horizonMs;
        stretch_ = stretchOf({}, utilisationOf(i, view));
      }
      return stretch_;
    }

   private:
    Nanos now_ = -1;
    Nanos since_ = 0;
    double utilisation_ = 0;
    double horizonMs_ = 0;
    double stretch_ = 1;
  };
  std::vector<Stretch> stretches_;  ///< by instance
};

}  // namespace laxity
