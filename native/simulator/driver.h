// Virtual time around the scheduler: arrivals, truth, engines, the transport between them. It makes no
// decision.
//
// At every instant t: engines that are due move to t; their events go in by class (first tokens, evictions,
// finishes), then arrivals, reveals, tool ends and closes; `place`; exact capacities of touched engines that
// stand at a boundary (boundary mode); one `decide`; leases go to the engines; engines at a boundary start
// what comes next. At equal t, events of one class go by instance, then by the order in which the calls
// joined.
//
// Prefix caches (prefix_cache.h) and prediction errors (prediction_error.h) are truth, so they live here. The
// caches change with prefill ends and finishes, in the order of these events. A reveal hints at the two best
// holders of the call's prefix as of that instant, which a router knows no better: until the lease, where the
// cache is asked, both holders may have lost it and others may have got it. A call revealed with its workflow
// (declared, oracle) never has a hint.
//
// What is particular to prefill-decode clusters stands in pair_driver.cc.
#pragma once

#include <memory>
#include <vector>

#include "base/tournament.h"
#include "scheduler/scheduler.h"
#include "simulator/alone_times.h"
#include "simulator/engine.h"
#include "simulator/links.h"
#include "simulator/metrics.h"
#include "simulator/pair_truth.h"
#include "simulator/plan_times.h"
#include "simulator/simulation.h"
#include "simulator/truth.h"

namespace laxity {

/// Deadline and SLO base of workflows: from the trace, the template, or the exclusive time or final horizon
/// of each.
class SloRule {
 public:
  SloRule(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options)
      : trace_(trace), spec_(cluster), options_(options) {}

  /// Call when the cluster is complete; `alone` must outlive this.
  void price(const Cluster& cluster, AloneTimes& alone);

  Nanos base(std::uint32_t workflow) const;
  Nanos deadline(std::uint32_t workflow, Nanos arrival) const;
  /// What the scheduler is told: the deadline, or kNever.
  Nanos told(std::uint32_t workflow, Nanos arrival) const {
    return options_.deadlines || trace_.declaresSlo(workflow) ? deadline(workflow, arrival) : kNever;
  }
  /// From arrival to deadline, where the arrival is early enough.
  Nanos allowed(std::uint32_t workflow) const { return deadline(workflow, 0); }

 private:
  double scale(std::uint32_t workflow) const;
  Nanos declared(std::uint32_t workflow) const { return fromMs(trace_.columns().sloMs[workflow]); }

  const Trace& trace_;
  const ClusterSpec& spec_;
  const RunOptions& options_;
  Nanos templateTime_ = 0;  ///< 0 = not the base
  const std::vector<Nanos>* alone_ = nullptr;
};

/// What one run leaves to the next.
struct WorkspaceMemory {
  SchedulerMemory scheduler;
  TruthMemory truth;
  std::vector<Engine> engines;
  PrefixCache prefixCache;
  AloneTimes aloneTimes;
};

class Driver {
 public:
  Driver(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options, const RunOutputs& outputs,
         WorkspaceMemory& memory);
  ~Driver();

  Status run(RunResult* result);

 private:
  struct Gap {  ///< a tool that runs between a call and its parents
    std::uint32_t index;
    std::uint32_t generation;  ///< of the workflow's record, which may have another owner when the tool ends
    std::uint32_t row;
  };

  Status start();
  void priceSlo();
  Status instant(Nanos t);
  void takeDue(Nanos t) {
    due_.clear();
    reveals_.clear();
    while (engineNext_.min() == t) {
      const auto m = static_cast<std::uint32_t>(engineNext_.minIndex());
      engineNext_.set(m, kNever);
      due_.push_back(m);
    }
  }
  /// What comes after the events of the engines.
  void worldEvents(Nanos t) {
    if (nextArrival_ <= t) {
      arrive(t);
      arrivalEvents(t);
    }
    if (!gaps_.empty()) toolsDone(t);
    for (const Gap& g : reveals_) revealCall(g.index, g.row, t, false);
    if (!ended_.empty()) closeAll(t);
  }
  void decide(Nanos t);
  void engineEvents(Nanos t);
  bool over(std::uint32_t slot) const;
  void callPrefilled(const EngineCall& call, std::uint32_t instance, Nanos t);
  void callEvicted(const Engine::Evicted& e, Nanos t);
  void callFinished(std::uint32_t slot, std::uint32_t instance, Nanos t);
  void callOverflowed(std::uint32_t slot, Nanos t);
  void arrive(Nanos t);
  void arrivalEvents(Nanos t);
  void revealAll(std::uint32_t index, Nanos t);
  void revealCall(std::uint32_t index, std::uint32_t row, Nanos t, bool early);
  void becomeReady(std::uint32_t index, std::uint32_t row, Nanos t);
  void toolsDone(Nanos t);
  void callEnded(std::uint32_t slot, Nanos t);
  void workflowEnded(std::uint32_t index, Nanos t);
  void closeAll(Nanos t);
  void reportBudgets(Nanos t);
  void reportBoundaries(Nanos t);
  void wakeTouched(Nanos t);
  void carryOut(std::span<const Decision> decisions, Nanos t);
  void mistakeLengths(std::uint32_t workflow, std::uint32_t row);
  void hintCached(std::uint32_t workflow, std::uint32_t row);
  void correctBudgets(Nanos t);
  FoundPrefix findCached(const Call& call, std::uint32_t row, std::uint32_t workflow, std::uint32_t instance);
  void lawsHold();

  // What a script does, and who watches: scripted.cc.
  Status checkScript() const;
  void scriptEvents(Nanos t);
  void instanceLost(std::uint32_t m, Nanos t);
  void retimeDue(Nanos t);
  Nanos outsideNext() const;
  void observerActs(Nanos t);
  void showInstant(Nanos t);

  // Prefill-decode clusters: pair_driver.cc.
  void pairStart();
  Status pairInstant(Nanos t);
  void pairDecide(Nanos t);
  void pairEvents(Nanos t);
  void pairPrefilled(const EngineCall& call, Nanos t);
  void pairTransferred(const Transfer& transfer, Nanos t);
  void pairDecision(const Decision& d, Nanos t);
  void pairSettle(Nanos t);
  void pairBoundaries(Nanos t);
  bool pairNews(Nanos t);
  bool pairUnasked(Nanos t);
  void pairWakeTouched(Nanos t);
  void askRoom(std::uint32_t slot);
  void choose(std::uint32_t slot, std::uint32_t d);
  void startTransfer(std::uint32_t slot, Nanos t);
  void roomGiven(std::uint32_t slot, std::uint32_t d, Nanos t);
  void pairJoined(std::uint32_t slot, Nanos t);
  void pairEnded(std::uint32_t slot);
  void pairLawsHold();
  void pairSummarise();
  std::span<const Decision> timedDecide(Nanos t);
  void planArrives(Nanos t);
  void dueNow(std::uint32_t m);

  bool early() const {
    return options_.knowledge == Knowledge::kDeclared || options_.knowledge == Knowledge::kOracle;
  }
  Nanos gapOf(std::uint32_t row) const;
  CallAttempt attempt(std::uint32_t slot) {
    return {{slot, truth_.call(slot).generation}, truth_.call(slot).epoch};
  }
  /// What an event of the scheduler returned.
  void event(Status s) {
    news_ = true;
    check(s);
  }
  void check(Status s) {
    if (!ok(s) && ok(status_)) status_ = s;
  }

  const Trace& trace_;
  const ClusterSpec& cluster_;
  const RunOptions& options_;
  const RunOutputs& outputs_;
  WorkspaceMemory& memory_;
  Scheduler scheduler_;
  SloRule slo_;
  std::unique_ptr<Cluster> trueCluster_;  ///< with time errors, for the SLO's base
  Truth truth_;
  Metrics metrics_;
  Arrivals arrivals_;
  PrefixCache cache_;
  bool caching_ = false;  ///< some instance has a prefix cache
  std::unique_ptr<RemainingHint> remaining_;
  std::unique_ptr<PredictedHorizon> predicted_;
  bool wrong_;  ///< predicted lengths have an error
  LengthErrors lengthErrors_;
  std::vector<std::int64_t> mostKv_;  ///< with wrong_, by model: the most one call may need on some instance
  std::int64_t promptTokens_ = 0;     ///< of all prefills that ended; these two for the laws
  std::int64_t cachedTokens_ = 0;
  std::vector<Engine> engines_;
  TournamentTree engineNext_;
  bool chunked_ = false;           ///< some engine is
  bool paired_ = false;            ///< a prefill-decode cluster
  bool outside_ = false;           ///< there is a script or an observer
  std::uint32_t firstTokens_ = 1;  ///< that a prefill emits
  bool news_ = false;              ///< the scheduler was told something since it last decided
  PairTruth pairs_;
  LinkNetwork links_;
  Nanos planAt_ = kNever;                               ///< when the plan in flight arrives
  std::size_t scripted_ = 0;                            ///< steps done
  std::vector<std::unique_ptr<LatencyModel>> retimed_;  ///< engines keep pointers to them
  std::vector<const LatencyModel*> retime_;             ///< by instance: what its engine takes next, or null
  std::int64_t lostPrefilled_ = 0;
  EventLog shown_;             ///< where the run has an observer and no log
  std::size_t shownUpTo_ = 0;  ///< records that the observer has seen
  std::vector<SetParameter> toSet_;
  PlanTimes planTimes_;

  Status status_ = Status::kOk;
  Nanos nextArrival_ = kNever;
  std::uint32_t arrived_ = 0;
  std::uint32_t endedWorkflows_ = 0;
  RunResult result_;

  IndexedHeap gaps_;  ///< key = -time, slot = index into gapCalls_
  std::vector<Gap> gapCalls_;
  std::vector<std::uint32_t> freeGaps_;
  std::uint64_t gapSequence_ = 0;

  // Scratch of one instant.
  std::vector<std::uint32_t> due_;
  std::vector<std::uint32_t> opened_;
  std::vector<Gap> reveals_;
  std::vector<std::uint32_t> ended_;
  std::vector<std::uint32_t> misjudged_;  ///< engines whose leases found another prefix than hinted
  std::vector<Ref> parents_;
  Reveal reveal_{};  ///< the fields that never change stay filled in
};

SchedulerConfig schedulerConfig(const ClusterSpec& cluster, const RunOptions& options);
EngineOptions engineOptions(const RunOptions& options);

}  // namespace laxity
