// The contract of a placement: which instance runs a ready call.
//
// A placement is a type with
//   kName             its registered name
//   kSharedQueue      true: its default binding is at-credit (one shared queue), else at-reveal
//   kNeedsQueueAhead  true: it asks for `queueAhead`
//   choose(view)      an instance slot among the view's candidates; the view has at least one
// and may have
//   kNeedsBacklog      true: it reads the instances' backlog
//   kNeedsUtilisation  true: it reads their utilisation
//   kBalancesCalls     true: its load is the number of assigned calls, not their work (eachLeastWork)
//   seed(n)            takes its own seed (the configuration's placementSeed) before the first choice
// It may keep state of its own (a counter); it sees the cluster only through the view.
//
// Ties: equal choices go by (score, service time, perm[m]) (CONTRACT 7). Scores that fall with the
// outstanding work are compared by that work inside a hardware class, where everything else is equal; so one
// representative a class is enough and rounding of the score cannot reorder a class.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cluster/cluster.h"
#include "workflow/graph.h"
#include "workflow/horizon.h"
#include "workflow/parameters.h"
#include "workflow/template.h"

namespace laxity {

template <class P>
inline constexpr bool kNeedsBacklog = requires { requires P::kNeedsBacklog; };
template <class P>
inline constexpr bool kNeedsUtilisation = P::kNeedsQueueAhead || requires { requires P::kNeedsUtilisation; };
template <class P>
inline constexpr bool kBalancesCalls = requires { requires P::kBalancesCalls; };

/// What waits on an instance, seen from one candidate call under the present order.
struct QueueAhead {
  Nanos prefillAhead = 0;    ///< of calls at least as urgent
  std::int64_t kvAhead = 0;  ///< their KV need, tokens
  std::uint32_t behind = 0;  ///< number of the others
  Nanos prefillAll = 0;
  friend bool operator==(const QueueAhead&, const QueueAhead&) = default;
};

/// The smallest (score, service time, perm[m]) offered so far.
template <class Score>
class Choice {
 public:
  void offer(std::uint32_t instance, Score score, Nanos exec, std::uint64_t tie) {
    if (instance_ != kNoSlot &&
        !(score < score_ || (score == score_ && (exec < exec_ || (exec == exec_ && tie < tie_))))) {
      return;
    }
    instance_ = instance;
    score_ = score;
    exec_ = exec;
    tie_ = tie;
  }
  std::uint32_t instance() const { return instance_; }

 private:
  std::uint32_t instance_ = kNoSlot;
  Score score_{};
  Nanos exec_ = 0;
  std::uint64_t tie_ = 0;
};

/// All that a placement may know, about one call at one instant.
class PlacementView {
 public:
  const Call& call;
  const Workflow& workflow;
  const Cluster& cluster;
  const PolicyParameters& parameters;
  const Estimate* estimates;           ///< per hardware class; exec = kNever where the call cannot run
  const StageTemplate* stageTemplate;  ///< null without one
  Nanos now;
  double beta;  ///< s^2, resolved
  /// At-credit: only these have credit now (CONTRACT 7). Null at reveal: every instance that accepts calls.
  const std::vector<std::uint32_t>* withCredit;
  QueueAhead (*queueAheadOf)(const void* scheduler, std::uint32_t instance, const PlacementView& view);
  const void* scheduler;

  bool eligible(std::uint32_t m) const {
    const Instance& i = cluster.at(m);
    return i.accepts() && estimates[i.hardwareClass].exec != kNever;
  }

  /// The call's cost on an instance: that of its class, less what a cached prefix saves there.
  Estimate estimate(std::uint32_t m) const {
    const Instance& i = cluster.at(m);
    const Estimate& e = estimates[i.hardwareClass];
    return call.hasCached ? withCachedPrefix(e, call, m, cluster.latency(i)) : e;
  }

  QueueAhead queueAhead(std::uint32_t m) const { return queueAheadOf(scheduler, m, *this); }

  /// visit(instance slot, instance, the call's estimate there) for every candidate in ascending perm.
  template <class Visit>
  void eachCandidate(Visit&& visit) const {
    for (std::uint32_t m : withCredit ? *withCredit : cluster.byTie()) {
      if (eligible(m)) visit(m, cluster.at(m), estimate(m));
    }
  }

  /// Prompt tokens that the call would have to compute on an instance.
  std::uint32_t newTokens(std::uint32_t m) const {
    return call.hasCached ? laxity::newTokens(call, m) : call.promptTokens;
  }

  bool isCandidate(std::uint32_t m) const {
    if (m >= cluster.size() || !eligible(m)) return false;
    return withCredit == nullptr || std::find(withCredit->begin(), withCredit->end(), m) != withCredit->end();
  }

  /// Number of candidates: O(classes) at reveal.
  std::uint32_t candidates() const {
    std::uint32_t count = 0;
    if (withCredit) {
      for (const std::uint32_t m : *withCredit) count += eligible(m) ? 1 : 0;
      return count;
    }
    const auto& classes = cluster.classes();
    for (std::size_t k = 0; k < classes.size(); ++k) {
      if (estimates[k].exec != kNever) count += classes[k].up;
    }
    return count;
  }

  /// The r-th candidate (from 0) in ascending perm, of the `count` there are.
  std::uint32_t candidate(std::uint32_t r, std::uint32_t count) const {
    const std::vector<std::uint32_t>& all = withCredit ? *withCredit : cluster.byTie();
    if (count == all.size()) return all[r];
    for (const std::uint32_t m : all) {
      if (eligible(m) && r-- == 0) return m;
    }
    return kNoSlot;
  }

  /// Per class the candidate with the smallest (load, perm), then the holders of a cached prefix.
  template <class Visit>
  void eachLeastWork(Visit&& visit) const {
    if (withCredit) {
      eachCandidate(visit);
      return;
    }
    const auto& classes = cluster.classes();
    for (std::size_t k = 0; k < classes.size(); ++k) {
      if (classes[k].up > 0 && estimates[k].exec != kNever)
        offer(classes[k].members[classes[k].work.minIndex()], k, visit);
    }
    eachHolder(visit);
  }

  /// Per class the first candidate by perm, then the holders of a cached prefix.
  template <class Visit>
  void eachFirst(Visit&& visit) const {
    if (withCredit) {
      eachCandidate(visit);
      return;
    }
    const auto& classes = cluster.classes();
    for (std::size_t k = 0; k < classes.size(); ++k) {
      if (classes[k].up == 0 || estimates[k].exec == kNever) continue;
      std::size_t first = 0;
      while (!cluster.at(classes[k].members[first]).accepts()) ++first;
      offer(classes[k].members[first], k, visit);
    }
    eachHolder(visit);
  }

 private:
  template <class Visit>
  void offer(std::uint32_t m, std::size_t k, Visit&& visit) const {
    visit(m, cluster.at(m), call.hasCached ? estimate(m) : estimates[k]);
  }

  template <class Visit>
  void eachHolder(Visit&& visit) const {
    if (!call.hasCached) return;
    for (const CachedPrefix& cached : call.cached) {
      if (cached.tokens > 0 && cached.instance < cluster.size() && eligible(cached.instance)) {
        visit(cached.instance, cluster.at(cached.instance), estimate(cached.instance));
      }
    }
  }
};

}  // namespace laxity
