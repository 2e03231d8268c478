// The contract of a pair placement: which prefill instance p and which decode instance d run a ready call
// (policies 5).
//
// A pair placement is a type with
//   kName             its registered name
//   kSharedQueue      true: its default binding is at-credit (one shared queue), else at-reveal: p when
//                     the call becomes ready, d at the lease
//   kPlans            true: order and pair are chosen together by the planner (planner/pair_planner.h);
//                     the two functions below then serve only bindings and moments without a plan
//   choosePrefill(view)    a prefill instance among eachPrefill, which has at least one
//   chooseDecode(view, p)  a decode instance among eachDecode, which has at least one
// and may have
//   kNeedsBacklog     true: it reads the prefill instances' backlog
//   kPricesKv         true: its plans charge for scarce KV (kv_price.h)
//
// It may keep state of its own (a counter); it sees the cluster only through the view. On a prefill instance
// the ledger counts the calls from their assignment until their KV has left, on a decode instance from the
// lease to the end: sequences in `leased`, KV in `reservedKv` (it may exceed the capacity), `context`.
//
// Ties: the first by perm, which the visits follow.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/link.h"
#include "placement/placement.h"
#include "workflow/graph.h"
#include "workflow/horizon.h"
#include "workflow/parameters.h"

namespace laxity {

template <class P>
inline constexpr bool kPricesKv = requires { requires P::kPricesKv; };

class PairView {
 public:
  const Call& call;
  const Workflow& workflow;
  const Cluster& cluster;
  const PolicyParameters& parameters;
  const Estimate* estimates;  ///< by hardware class: of prefill classes, exec = kNever where it cannot run
  const Nanos* decodeAlone;   ///< by hardware class: of decode classes, time of the whole output at batch 1;
                              ///< kNever where it cannot run
  Nanos now;
  /// At-credit: only these prefill instances have credit now. Null: every one that accepts calls.
  const std::vector<std::uint32_t>* withCredit;
  /// The instance whose failure the call has just seen, where there is another of its role; else kNoSlot.
  std::uint32_t avoid = kNoSlot;

  bool isPrefill(std::uint32_t m) const {
    const Instance& i = cluster.at(m);
    return i.spec.role == Role::kPrefill && m != avoid && i.accepts() &&
           estimates[i.hardwareClass].exec != kNever;
  }
  bool isDecode(std::uint32_t m) const {
    const Instance& i = cluster.at(m);
    return i.spec.role == Role::kDecode && m != avoid && i.accepts() &&
           decodeAlone[i.hardwareClass] != kNever;
  }

  /// ns of the call's prefill there, less what a cached prefix saves.
  Nanos prefillTime(std::uint32_t p) const {
    const Instance& i = cluster.at(p);
    const Estimate& e = estimates[i.hardwareClass];
    return (call.hasCached ? withCachedPrefix(e, call, p, cluster.latency(i)) : e).prefill;
  }
  Nanos transferAlone(std::uint32_t p, std::uint32_t d) const {
    return transferTime(cluster.at(p).spec, cluster.at(d).spec, call.promptTokens);
  }
  /// Tokens that the call will hold on d.
  std::int64_t kvNeed() const {
    return std::int64_t{call.promptTokens} + std::int64_t{call.predictedTokens} * call.sequences;
  }
  /// Whether d has room for the call beside all that is committed to it.
  bool hasRoom(std::uint32_t d) const {
    const Instance& i = cluster.at(d);
    return i.ledger.reservedKv + kvNeed() <= i.spec.kvTokens &&
           i.ledger.leased + call.sequences <= i.spec.maxSequences;
  }
  /// ns per output token on d with the committed batch and this call.
  Nanos perToken(std::uint32_t d) const {
    const Instance& i = cluster.at(d);
    const std::int64_t context = i.ledger.context + kvNeed();
    return roundFine(cluster.latency(i).piece(i.ledger.leased + call.sequences, context).at(context));
  }

  /// visit(slot, instance) by ascending perm.
  template <class Visit>
  void eachPrefill(Visit&& visit) const {
    for (std::uint32_t m : withCredit ? *withCredit : cluster.byTie()) {
      if (isPrefill(m)) visit(m, cluster.at(m));
    }
  }
  template <class Visit>
  void eachDecode(Visit&& visit) const {
    for (std::uint32_t m : cluster.byTie()) {
      if (isDecode(m)) visit(m, cluster.at(m));
    }
  }
};

/// The first instance with the smallest score.
template <class Score>
class LeastOf {
 public:
  void offer(std::uint32_t instance, Score score) {
    if (instance_ != kNoSlot && !(score < score_)) return;
    instance_ = instance;
    score_ = score;
  }
  std::uint32_t instance() const { return instance_; }

 private:
  std::uint32_t instance_ = kNoSlot;
  Score score_{};
};

}  // namespace laxity
