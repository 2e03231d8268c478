// The projected finish of a call on an instance, in seconds from now (policies 4.9): what eft, eftx and the
// migration of waiting calls compare.
//   wait    = prefill in progress + prefills ahead / (1 - share); what is leased is projected beside decode
//   already kv      = kvWeight * ex/KV * mean t_comp of the assigned calls / (1 - min(0.9, u))   where ex > 0
//   ex      = reserved KV + KV of the calls ahead + need - KV
//   score   = wait + kv + prefill + output * d * stretch + gamma * prefill * others
//   d       = time of one iteration at batch + the call's sequences, context + need
//   stretch = 1 / (1 - min(0.85, u)), with a decode share s 1 / (1 - min(1 - s, u))
// share is the guaranteed decode share (0: prefill-first), u the utilisation by prefills, need the prompt and
// the predicted output of every sequence. Who is ahead, and who the others are, is the caller's definition.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "placement/placement.h"

namespace laxity {

/// The part of an instance's state that depends on who asks.
struct FinishTerms {
  Nanos prefillAhead = 0;      ///< of waiting calls
  std::int64_t kvAhead = 0;    ///< their KV
  Nanos work = 0;              ///< summed t_comp of the assigned calls
  std::uint32_t assigned = 0;  ///< their number
  double others = 0;           ///< calls delayed by this one's prefill; 0 = leave the externality out
};

inline std::int64_t kvNeedOf(const Call& c) {
  return std::int64_t{c.promptTokens} + std::int64_t{c.predictedTokens} * c.sequences;
}

inline double utilisationOf(const Instance& i, Nanos now, const PolicyParameters& parameters) {
  if (i.utilisation == 0) return 0;
  const double age = toMs(now - i.utilisationAt) / parameters[Parameter::kUtilisationMs];
  return i.utilisation * detExp(-age);
}
inline double utilisationOf(const Instance& i, const PlacementView& view) {
  return utilisationOf(i, view.now, view.parameters);
}

inline double decodeShareOf(const Instance& i) {
  return i.spec.mode == EngineMode::kDecodeShare ? i.spec.decodeShare * 1e-3 : 0;
}

inline double finishStretch(const Instance& i, double utilisation) {
  const double share = decodeShareOf(i);
  return 1 / (1 - std::min(share > 0 ? 1 - share : 0.85, utilisation));
}

/// Of the leased prefills, which are projected beside decode already.
inline double secondsInProgress(const Instance& i, Nanos now) {
  return toSeconds(std::max<Nanos>(0, i.ledger.prefillsEnd - now));
}

/// `u`: what utilisationOf says.
inline double projectedFinish(const PlacementView& view, const Instance& i, const Estimate& e,
                              const FinishTerms& terms, double u) {
  const Ledger& ledger = i.ledger;
  const std::int64_t need = kvNeedOf(view.call);
  const double share = decodeShareOf(i);
  const double wait = secondsInProgress(i, view.now) + toSeconds(terms.prefillAhead) / (1 - share);
  const std::int64_t excess = ledger.reservedKv + terms.kvAhead + need - i.spec.kvTokens;
  double kv = 0;
  if (excess > 0 && terms.assigned > 0) {
    kv = view.parameters[Parameter::kKvWeight] * static_cast<double>(excess) /
         static_cast<double>(i.spec.kvTokens) * (toSeconds(terms.work) / terms.assigned) /
         (1 - std::min(0.9, u));
  }
  const double prefill = toSeconds(e.prefill);
  const std::int64_t context = ledger.context + need;
  const std::uint32_t batch = ledger.leased + view.call.sequences;
  const double perToken = toSeconds(roundFine(view.cluster.latency(i).piece(batch, context).at(context)));
  return wait + kv + prefill + view.call.timedTokens * perToken * finishStretch(i, u) +
         view.parameters[Parameter::kGamma] * prefill * terms.others;
}
inline double projectedFinish(const PlacementView& view, const Instance& i, const Estimate& e,
                              const FinishTerms& terms) {
  return projectedFinish(view, i, e, terms, utilisationOf(i, view));
}

/// A call on instances of one class: its projected finish is not below `at` where prefills in progress take
/// `wait` and decode is stretched by `stretch`, or more. Without the instances' load, and with the whole
/// prompt cached where the call says that some of it is, no term is larger, and rounding keeps that order.
struct FinishFloor {
  double prefill = 0;
  double decode = 0;
  double at(double wait, double stretch) const { return wait + prefill + decode * stretch; }
};

inline FinishFloor finishFloor(const PlacementView& view, const Instance& i) {
  const double prefill = view.call.hasCached ? 0 : toSeconds(view.estimates[i.hardwareClass].prefill);
  const LatencyModel& latency = view.cluster.latency(i);
  if (!latency.risesWithLoad()) return {prefill, 0};
  const std::int64_t need = kvNeedOf(view.call);
  const double perToken = toSeconds(roundFine(latency.piece(view.call.sequences, need).at(need)));
  return {prefill, view.call.timedTokens * perToken};
}

}  // namespace laxity
