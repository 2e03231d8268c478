// Earliest finish with externality, position-aware (policies 4.11).
// Assumes t_comp, the present order's keys, the ledger (reserved KV, leases, expected context), what waits on
// each instance, the engine mode and the utilisation. Procedure: minimise, in seconds,
//   score     = wait + kv + prefill + output * d * stretch + gamma * prefill * others
//   ex        = reserved KV + KV of waiting calls ahead + need - KV
//   share     = the decode share s, 0 in other modes
//   rr        = chunked: min(1, d0 / prefill of b tokens), d0 = an iteration of one sequence without context;
//   else 0 contended = ex > 0, or decode-share, or chunked wait      = leased prefills, as projected +
//   (contended ? prefills ahead / (1 - share) : all waiting prefills) kv        = ex > 0 and something runs ?
//   kvWeight * ex/KV * mean t_comp of the assigned calls * stretch : 0 d         = time per token at batch +
//   1 stretch   = 1 / max(0.001, 1 - u * (1 - rr)), u = min(cap, utilisation by prefills),
//               cap = 0.85 (prefill-first), 1 - share (decode-share), 1 (chunked)
//   others    = contended ? running * (1 - rr) + waiting behind : all assigned
// (prefill-first engines drain every waiting prefill before they decode, unless KV blocks). The leased
// prefills are projected with the decode that runs beside them (Cluster::besideDecode), so they are not
// divided by 1 - share once more. O(instances), times the queue where contended. Ties: (score, t_comp, perm).
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
    const double horizonMs = view.parameters[Parameter::kUtilisationMs];
    if (horizonMs != horizonMs_ || stretches_.size() < view.cluster.size()) {
      horizonMs_ = horizonMs;
      stretches_.assign(view.cluster.size(), {});
    }
    const std::int64_t need = std::int64_t{view.call.promptTokens} + view.call.predictedTokens;
    Choice<double> best;
    view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      double score;
      if (i.spec.mode != EngineMode::kPrefillFirst) {
        const ModeTerms mode = termsOf(i.spec, view.cluster.latency(i));
        score = scoreOn<true>(view, i, e, need, view.queueAhead(m), mode,
                              stretchOf(mode, utilisationOf(i, view)));
      } else if (i.ledger.reservedKv + i.backlog.kv + need > i.spec.kvTokens) {
        score = scoreOn<true>(view, i, e, need, view.queueAhead(m), {}, stretches_[m].at(i, view));
      } else {
        // While all that waits fits beside the leases, no position in the queue holds anything back, whatever
        // the order says: the calls ahead are a part of all that waits.
        QueueAhead queue;
        queue.prefillAll = i.backlog.prefill;
        score = scoreOn<false>(view, i, e, need, queue, {}, stretches_[m].at(i, view));
      }
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

  /// kShort: ex may be above 0, or the mode is not prefill-first.
  template <bool kShort>
  static double scoreOn(const PlacementView& view, const Instance& i, const Estimate& e, std::int64_t need,
                        const QueueAhead& queue, const ModeTerms& mode, double stretch) {
    const Ledger& ledger = i.ledger;
    const std::int64_t excess =
        kShort ? ledger.reservedKv + queue.kvAhead + need - i.spec.kvTokens : std::int64_t{0};
    const bool blocked = excess > 0 && ledger.leased > 0;
    const bool contended = kShort && (excess > 0 || i.spec.mode != EngineMode::kPrefillFirst);
    const double prefill = toSeconds(e.prefill);
    const double inProgress = toSeconds(std::max<Nanos>(0, ledger.prefillsEnd - view.now));
    const double ahead =
        contended ? toSeconds(queue.prefillAhead) / (1 - mode.share) : toSeconds(queue.prefillAll);
    const double kv = blocked ? view.parameters[Parameter::kKvWeight] * static_cast<double>(excess) /
                                    static_cast<double>(i.spec.kvTokens) * toSeconds(ledger.work) /
                                    std::max(1u, ledger.assigned) * stretch
                              : 0;
    const std::int64_t context = ledger.context + need;
    const double perToken =
        toSeconds(roundFine(view.cluster.latency(i).piece(ledger.leased + 1, context).at(context)));
    const double others = contended ? ledger.leased * (1 - mode.rides) + queue.behind : ledger.assigned;
    return inProgress + ahead + kv + prefill + view.call.timedTokens * perToken * stretch +
           view.parameters[Parameter::kGamma] * prefill * others;
  }

  static double stretchOf(const ModeTerms& mode, double utilisation) {
    const double u = std::min(mode.cap, utilisation);
    return 1 / std::max(0.001, 1 - u * (1 - mode.rides));
  }

  /// The last stretch of a prefill-first instance: many calls are placed at one instant.
  class Stretch {
   public:
    double at(const Instance& i, const PlacementView& view) {
      if (now_ != view.now || since_ != i.utilisationAt || utilisation_ != i.utilisation) {
        now_ = view.now;
        since_ = i.utilisationAt;
        utilisation_ = i.utilisation;
        stretch_ = stretchOf({}, utilisationOf(i, view));
      }
      return stretch_;
    }

   private:
    Nanos now_ = -1;
    Nanos since_ = 0;
    double utilisation_ = 0;
    double stretch_ = 1;
  };
  std::vector<Stretch> stretches_;  ///< by instance
  double horizonMs_ = 0;            ///< that they were computed with
};

}  // namespace laxity
