// What the scheduler keeps beyond ledger and queues on a prefill-decode cluster: the second leg of each call,
// and the planner's flat view of instances, links and waiting calls.
//
// A call has two legs. Leg p: from its assignment to p until its KV has left p. Leg d: from its lease to its
// end. Both are sums in the ledgers of their instances. Of d the planner's pools know two quantities
// (CONTRACT 5): `committed`, every call leased to d, and `admitted`, those with room on d.
//
// Everything here is a function of the calls and of the cluster, updated by events. `rebuild` derives all of
// it again, whenever the cluster changes: classes are the cluster's, slots of the pools count prefill and
// decode instances separately.
//
// Links at present load: with n transfers under way at the instances of a class that has k present members,
// each end counts as slowed by 1 + n / k; frozen during a plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cluster/cluster.h"
#include "cluster/pair_options.h"
#include "order/finished_ratios.h"
#include "placement/pair_registry.h"
#include "planner/decode_planner.h"
#include "planner/pair_planner.h"
#include "planner/pools.h"
#include "planner/waiting_calls.h"
#include "scheduler/kv_pressure.h"
#include "scheduler/most_urgent.h"
#include "scheduler/sacrifice.h"
#include "workflow/graph.h"
#include "workflow/horizon.h"
#include "workflow/pair_estimate.h"

namespace laxity {

/// The legs of one call.
struct PairCall {
  std::uint32_t decode = kNoSlot;            ///< d, from the lease on
  CallCost cost;                             ///< on d: decode alone, KV, context, sequences
  bool onPrefill = false;                    ///< assigned to p, or its KV is still there
  bool prefilled = false;                    ///< first token seen
  bool waits = false;                        ///< in the decode queue of d
  bool admitted = false;                     ///< has room on d
  bool moving = false;                       ///< its transfer is under way
  bool running = false;                      ///< decodes on d
  bool unasked = false;                      ///< its KV came before the scheduler had given it room
  std::int64_t context = 0;                  ///< while running: counted in the clock of d
  Nanos kvReady = 0;                         ///< projected: its KV is on d
  Nanos finish = 0;                          ///< projected at the lease or at the first token
  std::uint32_t previousOnDecode = kNoSlot;  ///< the calls committed to d
  std::uint32_t nextOnDecode = kNoSlot;
};

/// What d holds beside the calls committed to it, as its telemetry says.
struct ForeignLoad {
  std::int64_t kv = 0;
  std::uint32_t sequences = 0;
  Nanos until = 0;  ///< plans count on its KV from then on
};

/// A plan looks at so many waiting calls (CONTRACT 12).
inline constexpr std::uint32_t kPlanLimit = 1024;

/// An asynchronous plan between the decide that made it and its arrival.
struct PlanInFlight {
  struct Entry {
    Ref call;
    std::uint32_t epoch;
    std::uint32_t prefill;  ///< instances
    std::uint32_t decode;
    std::uint32_t revision;  ///< of p: leases given there by anybody else since make the entry void
  };
  bool pending = false;
  bool arrived = false;
  std::vector<Entry> entries;
};

class Pairs {
 public:
  Pairs(PairPlacement placementOf, const PairOptions& optionsOf, const PairTerms& termsOf)
      : placement(placementOf), options(optionsOf), terms(termsOf) {}

  PairPlacement placement;
  PairOptions options;
  PairTerms terms;

  PairCall& call(std::uint32_t slot) { return calls_[slot]; }
  const PairCall& call(std::uint32_t slot) const { return calls_[slot]; }
  std::size_t calls() const { return calls_.size(); }
  /// Makes room for the records of a revealed call; `stride` = hardware classes.
  void grow(std::size_t calls, std::size_t stride);
  Nanos* decodeAlone(std::uint32_t slot) { return decodeAlone_.data() + slot * stride_; }
  const Nanos* decodeAlone(std::uint32_t slot) const { return decodeAlone_.data() + slot * stride_; }
  /// The decode class that the call's horizon was computed with.
  std::uint32_t& isolatedDecode(std::uint32_t slot) { return isolatedDecode_[slot]; }

  /// kUnsupported where the classes are more than the planner takes.
  static Status check(const Cluster& cluster, const InstanceSpec& another);
  /// Derives pools, clocks and links again from the cluster and the calls. Waiting calls are entered anew by
  /// the scheduler. O(everything).
  void rebuild(const Cluster& cluster, const Graph& graph, Nanos t);

  // --- leg d
  void commit(const Cluster& cluster, std::uint32_t slot, std::uint32_t decode, const CallCost& cost,
              Nanos kvReady, Nanos finish, Nanos t);
  void admit(std::uint32_t slot, Nanos finish);
  void expect(std::uint32_t slot, Nanos kvReady, Nanos finish);
  /// Its KV is on d and it has room: it decodes from the next iteration on.
  void run(const Cluster& cluster, const Call& c, std::uint32_t slot, Nanos t);
  void release(const Cluster& cluster, std::uint32_t slot, Nanos t);
  /// In place of what was said of `decode` before. Plans and projections see it; room is given without it.
  void setForeign(std::uint32_t decode, const ForeignLoad& load);
  const ForeignLoad& foreign(std::uint32_t decode) const { return foreign_[decode]; }
  /// A transfer between the classes of p and d begins or ends.
  void move(const Cluster& cluster, std::uint32_t slot, std::uint32_t prefill, bool begins);

  // --- what orders and placements are told
  struct Projection {
    std::uint32_t prefill = kNoSlot;  ///< instances
    std::uint32_t decode = kNoSlot;
    Nanos ready = kNever;  ///< the KV is on d
    Nanos finish = kNever;
  };
  /// The best pair of a call (planner.md 2), with its prefill on `prefill`, kNoSlot = on any instance.
  /// Waiting calls are not counted. O(prefill instances + classes^2 + decode instances visited * log
  /// releases).
  Projection best(const Cluster& cluster, const Call& c, const Estimate* estimates, const Nanos* decodeAlone,
                  std::uint32_t prefill, Nanos t) const;
  /// When a call whose KV is on d at `ready` would end there beside all that is committed.
  Nanos finishOn(const Call& c, std::uint32_t decode, Nanos ready, Nanos t) const;
  /// Projected finish of a leased call that has only its d: when its KV is there and there is room, then
  /// decode with the admitted batch (R_decode's Delta plus t).
  Nanos decodeFinish(const Call& c, const PairCall& pair, Nanos t) const;
  /// Of the classes of two instances, at the present load of the links.
  Nanos transferNow(const Cluster& cluster, std::uint32_t prefill, std::uint32_t decode,
                    std::uint32_t prompt) const;
  /// A free decode call's d: the least (finish, perm) by the decode planner; kNoSlot without any. `avoid`
  /// only where it is the only one.
  std::uint32_t freeChoice(const Cluster& cluster, const Call& c, std::uint32_t slot, std::uint32_t prefill,
                           std::uint32_t avoid, Nanos t);

  // --- the planner
  bool plans() const {
    return std::visit([](const auto& p) { return std::decay_t<decltype(p)>::kPlans; }, placement);
  }
  void addWaiting(const Cluster& cluster, const Call& c, const Workflow& w, std::uint32_t slot,
                  const Estimate* estimates);
  void removeWaiting(std::uint32_t slot);
  /// Calls that wait beyond those a plan looks at. Kept only while there are more than kPlanLimit.
  MostUrgent crowd{kPlanLimit};
  FinishedRatios ratios;
  Sacrifice sacrifice;
  std::uint32_t waiting() const { return waiting_.size(); }
  bool isWaiting(std::uint32_t slot) const { return waiting_.holds(slot); }
  const std::vector<WaitingCalls::ByKv>& waitingCalls() const { return waiting_.byKv(); }
  void setHorizon(std::uint32_t slot, double inverse, Nanos hint) {
    waiting_.setHorizon(slot, inverse, hint);
  }
  /// Whether plans charge for scarce KV, and how much; 0 = they do not.
  void usePrice(double weight, double memoryMs) {
    const bool priced =
        std::visit([](const auto& p) { return kPricesKv<std::decay_t<decltype(p)>>; }, placement);
    priceWeight_ = priced ? weight : 0;
    pressure_.setMemory(memoryMs);
  }
  void setKey(std::uint32_t slot, std::int64_t key) { waiting_.setKey(slot, key); }
  /// Before a plan: prefill instances as their ledgers are, open where `open(instance)`; transfer times at
  /// the present load.
  template <class Open>
  void refresh(const Cluster& cluster, Nanos t, Open&& open) {
    for (std::uint32_t p = 0; p < prefillInstances_.size(); ++p) {
      prefill_.setReady(p, readyAt(cluster.at(prefillInstances_[p]), t));
      prefill_.setOpen(p, open(prefillInstances_[p]));
    }
    refreshLinks();
    for (std::uint32_t g = 0; g < decodeClasses_.size(); ++g) committed_.setPrice(g, kvPrice(cluster, g, t));
  }
  std::uint32_t open() const { return prefill_.open(); }
  std::span<const PlanEntry> plan(Nanos t, bool projected) {
    ++plans_;
    planned_ += waiting_.size();
    const PlanOptions options{PlanMode::kAuto, false, 0};
    return projected ? planner_.plan(t, prefill_, committed_, waiting_, options, RatioOrder{})
                     : planner_.plan(t, prefill_, committed_, waiting_, options, KeyOrder{});
  }
  std::uint32_t prefillInstance(std::uint32_t poolSlot) const { return prefillInstances_[poolSlot]; }
  std::uint32_t decodeInstance(std::uint32_t poolSlot) const { return decodeInstances_[poolSlot]; }
  PlanInFlight inFlight;
  std::vector<std::uint32_t> leasesGiven;  ///< by instance: the revision of p

  std::uint64_t planCount() const { return plans_; }
  std::uint64_t plannedCalls() const { return planned_; }

  std::int64_t admittedKv(std::uint32_t decode) const { return admitted_.at(poolSlot_[decode]).used; }
  std::int64_t admittedSequences(std::uint32_t decode) const { return admitted_.at(poolSlot_[decode]).batch; }
  std::int64_t committedKv(std::uint32_t decode) const {
    return committed_.at(poolSlot_[decode]).used - foreign_[decode].kv;
  }

 private:
  /// Iterations of d as far as the scheduler can tell: elapsed time over the present time of one.
  struct DecodeClock {
    Nanos at = 0;
    std::int64_t iteration = 0;
    Nanos perIteration = 1;
    std::uint32_t batch = 0;
    std::int64_t context = 0;
  };

  /// When p could begin another prefill; work that no call stands for comes first.
  static Nanos readyAt(const Instance& p, Nanos t) {
    if (p.correction == 0) return p.ledger.prefillsEnd;
    return std::min(kMaxTime, std::max(p.ledger.prefillsEnd, t) + p.correction);
  }
  void retime(const Cluster& cluster, std::uint32_t decode, Nanos t, std::int64_t sequences,
              std::int64_t context);
  void refreshLinks();
  /// Of a token on a class of the pool, at the present pressure.
  double kvPrice(const Cluster& cluster, std::uint32_t decodeClass, Nanos t) const;
  void slow(const Cluster& cluster, std::uint32_t hardwareClass);

  std::size_t stride_ = 0;
  std::vector<PairCall> calls_;
  std::vector<Nanos> decodeAlone_;  ///< [call slot][class]
  std::vector<std::uint32_t> isolatedDecode_;

  std::vector<std::uint32_t> poolSlot_;          ///< by instance
  std::vector<std::uint32_t> prefillInstances_;  ///< by slot of the pool
  std::vector<std::uint32_t> decodeInstances_;
  std::vector<std::uint32_t> poolClass_;       ///< by hardware class
  std::vector<std::uint32_t> prefillClasses_;  ///< hardware class by class of the pool
  std::vector<std::uint32_t> decodeClasses_;
  std::vector<DecodeClock> clocks_;    ///< by instance
  std::vector<ForeignLoad> foreign_;   ///< by instance
  std::vector<Fine> slowed_;           ///< per token at the present load, by hardware class
  std::vector<std::uint32_t> moving_;  ///< transfers under way, by hardware class
  KvPressure pressure_;                ///< by hardware class
  double priceWeight_ = 0;

  PrefillPool prefill_;
  DecodePool committed_;
  DecodePool admitted_;
  WaitingCalls waiting_;
  PairPlanner planner_;
  DecodePlanner decodePlanner_;
  std::uint64_t plans_ = 0;
  std::uint64_t planned_ = 0;

  bool linksKnown_ = false;
  std::vector<Nanos> prefillRow_;   ///< scratch
  std::vector<Nanos> transferRow_;  ///< scratch
};

}  // namespace laxity
