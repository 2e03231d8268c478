// The scheduler core: events in, decisions out (CONTRACT). One object for the live scheduler and the
// simulator.
//
// It reads no clock, keeps no true length and no unrevealed call. `decide(t)` is called once after all events
// of one instant: it issues keys again for workflows that changed, places the calls that became ready in
// event order, then lets the order pick for every instance that was touched and has credit. A lease is
// reserved in the same step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/heap.h"
#include "base/random.h"
#include "cluster/cluster.h"
#include "cluster/pair_options.h"
#include "order/registry.h"
#include "placement/pair_registry.h"
#include "placement/registry.h"
#include "scheduler/ahead_index.h"
#include "scheduler/events.h"
#include "scheduler/fair_shares.h"
#include "scheduler/key_lines.h"
#include "scheduler/live.h"
#include "scheduler/log.h"
#include "scheduler/migrate.h"
#include "scheduler/pairs.h"
#include "workflow/graph.h"
#include "workflow/horizon.h"
#include "workflow/horizon_learner.h"
#include "workflow/parameters.h"
#include "workflow/template.h"
#include "workflow/template_learner.h"

namespace laxity {

enum class Binding : std::uint8_t { kAtReveal, kAtCredit };

/// Who admits at batch boundaries (CONTRACT 6). kBoundary: only an exact capacity, or an empty ledger, gives
/// credit.
enum class Feedback : std::uint8_t { kBoundary, kLease };

/// How much KV a call needs. kPrompt16: HexGen-Flow's simulator, the prompt in 16-token blocks, output never
/// charged.
enum class KvNeed : std::uint8_t { kPromptAndOutput, kPrompt16 };

/// The tail of every tie between calls. kRevealOrder: HexGen-Flow's simulator, whose queues append in list
/// order.
enum class CallTies : std::uint8_t { kWorkflowThenReveal, kRevealOrder };

struct SchedulerConfig {
  Order order;
  Placement placement;
  Binding binding = Binding::kAtReveal;
  Feedback feedback = Feedback::kLease;
  std::uint32_t lookahead = 1;  ///< L
  bool useTemplates = true;     ///< knowledge `template`
  bool templateSlo = true;      ///< deadlines are multiples of the template's time, where there is one
  FirstToken firstToken = FirstToken::kFromPrefill;
  KvNeed kvNeed = KvNeed::kPromptAndOutput;
  CallTies callTies = CallTies::kWorkflowThenReveal;
  std::uint64_t tieSeed = 0;
  std::uint64_t placementSeed = 1;  ///< of placements that draw
  PairPlacement pairPlacement;      ///< prefill-decode clusters: in place of `placement`
  PairOptions pairs;
  bool migrate = false;  ///< waiting calls may move to another queue (migrate.h); at-reveal only
  PolicyParameters parameters;
  std::vector<LatencyModel> latencies;
  std::vector<std::vector<TemplateEntry>> templates;
};

/// The memory of a scheduler, handed from one run to the next: growing it costs more than a short run.
struct SchedulerMemory {
  Graph graph;
  std::vector<Estimate> estimates;
  std::vector<IndexedHeap> queues;
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerConfig config, SchedulerMemory memory = {});

  /// Ends this scheduler's life.
  SchedulerMemory takeMemory() { return {std::move(graph_), std::move(estimates_), std::move(queues_)}; }

  // --- events (CONTRACT 3). t never decreases; at equal t in the order of EventKind. A refused event changes
  // nothing.
  Status instance(Nanos t, const InstanceEvent& e);
  Status firstToken(Nanos t, const CallEvent& e);
  Status progress(Nanos t, const Progress& e);
  Status transferDone(Nanos t, const CallEvent& e);
  Status evicted(Nanos t, const Evicted& e);
  Status finished(Nanos t, const Finished& e);
  Status failed(Nanos t, const Failed& e);
  Status openWorkflow(Nanos t, const OpenWorkflow& e);
  Status updateWorkflow(Nanos t, const UpdateWorkflow& e);
  Status reveal(Nanos t, const Reveal& e, std::span<const Ref> parents);
  Status toolDone(Nanos t, const CallEvent& e);
  Status cancel(Nanos t, const CallEvent& e);
  Status closeWorkflow(Nanos t, const CloseWorkflow& e);
  Status setParameter(Nanos t, const SetParameter& e);
  Status planArrived(Nanos t);
  Status capacity(Nanos t, const Capacity& e);
  Status timer(Nanos t);
  Status setLatency(Nanos t, const SetLatency& e);
  Status telemetry(Nanos t, const Telemetry& e);
  Status setPolicy(Nanos t, const SetPolicy& e);

  /// Any of the above from its record (ring, log). kMoreParents are kept for the reveal that follows.
  Status apply(const EventRecord& record);

  // --- decisions (CONTRACT 4)

  /// First half of decide: keys and placements. Idempotent. A driver that reports boundaries calls it to
  /// learn which instances are touched; decide calls it otherwise.
  Status place(Nanos t) {
    if (ready_.empty() && dirty_.empty() && homeless_.empty() && timers_.empty() && !rules_.any)
      return advance(t);
    return placeAll(t);
  }

  /// The span stays valid until the next event.
  std::span<const Decision> decide(Nanos t) {
    decisions_.clear();
    if (!ok(place(t))) return {};
    if (!touched().empty() || !rejected_.empty() || (pairs_ != nullptr && pairsDue())) decideAll();
    if (revoked_) settleRevoked(t);
    if (rules_.any) enforceLimits(t);
    if (log_ != nullptr) logDecisions(t);
    return decisions_;
  }

  /// Whether a placement from outside failed in the last `place` or `decide`. Its call keeps its state, no
  /// call behind it was placed or leased, the decisions made before it stand; the next decide asks again.
  bool placementFailed() const { return placementFailed_; }

  /// Asynchronous planning: a plan was made and waits for its planArrived.
  bool planInFlight() const {
    return pairs_ != nullptr && pairs_->inFlight.pending && !pairs_->inFlight.arrived;
  }

  /// When the scheduler wants a timer event; kNever without one.
  Nanos nextWake() const {
    const Nanos timer = timers_.empty() ? kNever : -timers_.top().key;
    return rules_.any ? std::min(timer, liveWake()) : timer;
  }

  /// Instances whose queue or ledger changed since they were last considered with credit, in order of the
  /// change.
  const std::vector<std::uint32_t>& touched() {
    if (sharersDue_) touchDue();
    return touched_;
  }

  // --- views
  const Cluster& cluster() const { return cluster_; }
  const Graph& graph() const { return graph_; }
  Nanos now() const { return now_; }
  /// Calls waiting in the queue an instance draws from.
  std::size_t waiting(std::uint32_t instance) const;
  std::uint64_t leases() const { return leaseNumber_; }
  /// The parameter, or the square of the mean stage time of the template, else of the mean t_comp revealed so
  /// far; s^2.
  double beta(const StageTemplate* stages) const;

  /// Recomputes every ledger, queue and list from the calls and compares. O(everything); for tests and debug
  /// runs.
  bool audit() const;

  void setLog(EventLog* log) { log_ = log; }
  /// Slots of the workflows whose records were freed are appended there.
  void setFreed(std::vector<std::uint32_t>* freed) { freed_ = freed; }
  /// What tenants attain is summed from now on, for who shows it (LiveState::attained).
  void sumAttained() { sumsAttained_ = true; }
  const SchedulerConfig& config() const { return config_; }
  const LiveState& live() const { return live_; }
  /// In 1/1000; 1000 where none was told.
  std::uint32_t weightOf(std::uint16_t tenant) const;
  const std::vector<StageTemplate>& templates() const { return templates_; }
  /// Null on unified clusters.
  const Pairs* pairs() const { return pairs_.get(); }
  const Estimate* estimatesOf(std::uint32_t call) const { return estimates(call); }
  Nanos projection(std::uint32_t call) const;
  /// Waiting calls of the queue an instance draws from, in the order in which they would be picked now.
  std::vector<std::uint32_t> queueInOrder(std::uint32_t instance) const;
  /// The present order's key of a waiting call, for views: larger is more urgent. Of a key that is no number
  /// its first component; -1e300 of a demoted call. Ageing is no part of it.
  double keyOf(std::uint32_t call) const;
  struct Candidate {
    std::uint32_t instance;
    Estimate cost;
    Nanos delta;  ///< projected finish minus now, waiting calls not counted
  };
  /// What a call would meet if it were revealed and ready now. Changes nothing. The workflow may be unknown
  /// (slot kNoSlot). Returns the instance that the placement would choose, kNoSlot where nothing can serve
  /// it.
  Status preview(const Reveal& e, std::vector<Candidate>* candidates, std::uint32_t* chosen);

 private:
  Status timeStatus(Nanos t) const {
    if (t < 0 || t > kMaxTime) return Status::kBadTime;
    return t < now_ ? Status::kClockBackwards : Status::kOk;
  }
  Status advance(Nanos t) {
    const Status status = timeStatus(t);
    if (ok(status)) now_ = t;
    return status;
  }
  Status placeAll(Nanos t);
  void decideAll();
  void logDecisions(Nanos t) const;
  Status findAttempt(const CallAttempt& a) const;
  Status fromEngine(Nanos t, const CallAttempt& a);
  EventRecord* tap(Nanos t, EventKind kind) { return log_ == nullptr ? nullptr : &log_->add(t, kind); }
  void logReveal(Nanos t, const Reveal& e, std::span<const Ref> parents);

  // what real engines need: admission.cc, breakers.cc, learning.cc, telemetry.cc
  void liveRulesChanged();
  void liveRevealed(std::uint32_t slot);
  void liveQueued(std::uint32_t slot);
  void liveUnqueued(std::uint32_t slot);
  void liveGranted(std::uint32_t slot);
  LeaseReason liveReason(std::uint32_t slot, LeaseReason placed) const;
  void liveSign(std::uint32_t slot);
  void livePrefilled(std::uint32_t slot);
  void liveReleased(std::uint32_t slot);
  void liveDeadline(std::uint32_t workflow);
  void liveTimers();
  Nanos liveWake() const;
  void watchHopeless(std::uint32_t slot);
  void unwatchHopeless(std::uint32_t slot);
  void demote(std::uint32_t slot, bool demoted);
  void lose(std::uint32_t slot);
  void enforceLimits(Nanos t);
  bool auditLive() const;
  Breaker& breakerOf(std::uint32_t instance);
  bool wantsProbe(std::uint32_t instance) const;
  std::uint32_t probeFor(std::uint32_t slot) const;
  void updateMasks();
  std::uint32_t probeDecodeFor(std::uint32_t slot) const;
  void probeTaken(std::uint32_t instance, std::uint32_t slot);
  void probeOver(std::uint32_t instance, std::uint32_t slot);
  bool panics(std::uint16_t model, Role role) const;
  void outcomeFault(std::uint32_t slot, std::uint32_t m);
  void legOk(std::uint32_t slot, std::uint32_t m);
  void attained(const Call& c, std::uint32_t outputTokens);
  void learnFrom(std::uint32_t slot, std::uint32_t outputTokens);
  void learnSpeed(std::uint32_t latency, Nanos prefill, std::uint32_t promptTokens, Nanos decode,
                  std::uint32_t steps);
  void watchKv(std::uint32_t slot);
  void expireKv(Ref ref, std::uint32_t epoch);
  void takeBack(std::uint32_t slot, RejectReason reason, std::vector<Decision>* into);

  // revoke.cc
  bool revocable(std::uint32_t instance) const;
  template <class Visit>
  void eachRevocable(std::uint32_t instance, Visit&& visit) const;
  bool notBegun(const Instance& m, const Call& lease, std::int64_t tokens, std::uint32_t older) const;
  std::uint32_t revokeFor(std::uint32_t slot, std::span<const std::uint32_t> instances);
  void revoke(std::uint32_t slot, std::vector<Decision>* into);
  OrderView leaseView(const Call& c, std::uint32_t instance) const;
  bool creditWithout(std::uint32_t instance, const Call& head, std::uint32_t lease) const;
  void leaseByRevoking();
  void revokeAll(std::uint32_t instance);
  void settleRevoked(Nanos t);

  // shares.cc
  [[gnu::cold, gnu::noinline]] void observeShares(CallStep step, const Call& c, std::uint32_t tokens);
  void sharesChanged(std::int64_t before);
  void weighTenant(std::uint16_t tenant, std::uint32_t weight);
  void limitShares(const IndexedHeap& queue, const Call* another) const;
  [[gnu::cold, gnu::noinline]] std::uint32_t pickShared(const IndexedHeap& queue) const;
  bool overShare(const Call& c) const {
    return shareSlack_ > 0 && shares_.of(graph_.workflow(c.workflow).tenant) > shareLimit_;
  }
  void outcomeOk(std::uint32_t slot);
  bool takeRetry();
  void backOff(std::uint32_t slot);
  void correct(std::uint32_t instance, Nanos work, Nanos until);
  void addCorrection(std::uint32_t instance, Nanos work);
  void policyChanged();
  void rederive();

  // calls
  bool estimateCall(std::uint32_t slot);
  bool estimateInto(Call& c, Estimate* out) const;
  const Workflow& workflowOf(const Call& c) const {
    return c.workflow == kNoSlot ? previewWorkflow_ : graph_.workflow(c.workflow);
  }
  void reestimateAll();
  void loseLeases(std::uint32_t instance);
  void instancesChanged();
  void limitsChanged();
  void cacheClasses();
  const Estimate* estimates(std::uint32_t slot) const { return estimates_.data() + slot * stride_; }
  std::int64_t kvNeed(const Call& c) const;
  std::uint32_t timedTokens(const Call& c) const;
  std::int64_t kvLimit(const InstanceSpec& spec) const;
  std::int64_t kvRoom(const InstanceSpec& spec) const;
  RejectReason impossible(std::uint32_t slot) const;
  void becomeReady(std::uint32_t slot);
  bool backToReady(std::uint32_t slot);
  void end(std::uint32_t slot, CallState state);
  void settle(std::uint32_t workflow);
  void reject(std::uint32_t slot, RejectReason reason);
  void rejectStranded(std::uint16_t model);
  void prefilled(std::uint32_t slot);

  // prefill-decode clusters: pair_events.cc, pair_decide.cc
  bool estimatePair(const Call& c, Estimate* out, Nanos* decodeAlone, Nanos* mean) const;
  void assignPrefill(std::uint32_t slot, std::uint32_t instance);
  void leavePrefill(std::uint32_t slot);
  void joinDecode(std::uint32_t slot, std::uint32_t decode, Nanos kvReady, Nanos finish);
  void leaveDecode(std::uint32_t slot);
  void askRoom(std::uint32_t slot);
  void withdrawRoom(std::uint32_t slot);
  void pairPrefilled(std::uint32_t slot);
  void kvArrived(std::uint32_t slot);
  void startDecode(std::uint32_t slot);
  void admitDecode(std::uint32_t slot);
  void emitAdmit(std::uint32_t slot);
  bool chooseDecodeAgain(std::uint32_t slot);
  void loseDecode(std::uint32_t instance);
  void rescue(std::uint32_t slot);
  void pairsChanged();
  void setShape(Role role);
  bool auditPairs(std::vector<Ledger>* derived, std::vector<Backlog>* backlogs,
                  std::vector<std::size_t>* waitingOn) const;
  PairView pairView(const Call& c, std::uint32_t slot) const;
  bool pairCandidate(std::uint32_t slot) const;
  void placePair(std::uint32_t slot);
  std::uint32_t chooseDecode(std::uint32_t slot, std::uint32_t prefill);
  bool hasPrefillCredit(std::uint32_t instance, const Call& c) const {
    return hasPrefillCredit(instance, cluster_.at(instance).ledger, c);
  }
  bool hasPrefillCredit(std::uint32_t instance, const Ledger& u, const Call& c) const;
  void grantPair(std::uint32_t slot, std::uint32_t decode, Nanos ready, Nanos finish, LeaseReason reason);
  void decidePairs();
  void servePrefills();
  bool leasePairFromShared(std::uint16_t model);
  void leaseShared(std::uint32_t slot, std::uint32_t prefill, std::uint32_t decode, Nanos ready, Nanos finish,
                   LeaseReason reason = LeaseReason::kNone);
  void leaveShared(std::uint32_t slot);
  void joinPlan(std::uint32_t slot);
  void leavePlan(std::uint32_t slot);
  void rekeyPlan(const Workflow& w);
  Nanos planKey(const Call& c) const;
  void requestPlan();
  void applyPlan();
  void leaseFallback();
  bool prefillOpen(std::uint32_t instance);
  bool pairsDue() const { return !rerouted_.empty() || pairs_->inFlight.arrived; }
  void leaseByPlan();
  bool redirect(std::uint32_t slot, std::uint32_t* prefill, std::uint32_t* decode);
  std::uint32_t avoided(std::uint32_t slot, Role role) const;
  bool keyWaiting();
  void chooseSacrifices();
  void serveDecode(std::uint32_t instance);
  OrderView pairOrderView(const Call& c, std::uint32_t instance) const;
  Nanos pairDelta(const Call& c, std::uint32_t slot, std::uint32_t prefill) const;

  // ledger
  void assign(std::uint32_t slot, std::uint32_t instance);
  void unassign(std::uint32_t slot);
  void grant(std::uint32_t slot, LeaseReason reason);
  void decideLease(std::uint32_t slot, std::uint32_t decode, LeaseReason reason);
  void release(std::uint32_t slot);
  void projectPrefills(Instance& m);
  bool hasCredit(std::uint32_t instance, std::int64_t kv, std::uint32_t sequences,
                 std::uint32_t tokens) const;
  bool joinsBatch(const Instance& m, std::uint32_t tokens) const;
  bool gateOpen(std::uint32_t instance);
  bool nothingWaits(std::uint32_t instance) const {
    const std::uint16_t model = cluster_.at(instance).spec.model;
    if (cluster_.at(instance).spec.role == Role::kDecode) return queues_[instance].empty();
    if (config_.binding == Binding::kAtCredit) return shared_[model].empty();
    return queues_[instance].empty() && (!migrates_ || waitingOf_[model] == 0);
  }
  /// Without a waiting call there is nothing to consider; the one that comes next touches again.
  void touch(std::uint32_t instance) {
    Instance& m = cluster_.at(instance);
    if (m.touched || nothingWaits(instance)) return;
    m.touched = true;
    touched_.push_back(instance);
  }
  /// A change of the queue alone matters only where a lease is thinkable: a full or prefilling instance is
  /// touched again by the very event that makes room.
  void touchQueue(std::uint32_t instance) {
    if (!migrates_) return touchIfRoom(instance);
    const std::uint16_t model = cluster_.at(instance).spec.model;
    dueFor_[model] = 1;
    sharersDue_ = true;
  }
  void touchIfRoom(std::uint32_t instance) {
    const Instance& m = cluster_.at(instance);
    if (!anyRevocable_ || !revocable(instance)) {
      if (m.ledger.leased >= m.spec.maxSequences + config_.lookahead) return;
      if (!prefillGateOpen(m)) return;
    }
    touch(instance);
  }
  /// The prefill term of the credit (CONTRACT 5), from the ledger. Chunked engines take prompts while the
  /// tokens still to prefill leave budget for them; in lease mode a prompt counts whole until its first
  /// token, since its progress is not seen. In boundary mode the exact capacity decides, and its last value
  /// says whether a chunked engine can have budget before it reports again.
  bool prefillGateOpen(const Instance& m) const {
    if (config_.feedback == Feedback::kBoundary && m.spec.mode == EngineMode::kChunked) [[unlikely]]
      return m.ledger.leased == 0 || m.exact.prefillFree > 0;
    return prefillGateOpen(m.spec, m.ledger);
  }
  bool prefillGateOpen(const InstanceSpec& spec, const Ledger& u) const {
    if (spec.mode != EngineMode::kChunked) [[likely]]
      return u.unprefilled < 1 + config_.lookahead ||
             u.unprefilledTokens < (std::int64_t{1} + config_.lookahead) * spec.chunkTokens;
    return u.unprefilledTokens + u.running() < (std::int64_t{1} + config_.lookahead) * spec.chunkTokens;
  }
  /// Whether the next lease goes beyond what the engine starts at once.
  bool looksAhead(const Instance& m) const {
    if (m.spec.mode != EngineMode::kChunked) [[likely]]
      return m.ledger.unprefilled > 0;
    return config_.feedback == Feedback::kLease &&
           m.ledger.unprefilledTokens + m.ledger.running() >= m.spec.chunkTokens;
  }
  void touchSharers(std::uint16_t model);
  void touchDue();

  // queues
  IndexedHeap& queueOf(const Call& c);
  const IndexedHeap& queueOf(const Call& c) const;
  void enqueue(std::uint32_t slot);
  void dequeue(std::uint32_t slot);
  std::uint32_t pick(const IndexedHeap& queue) const;
  template <class Type>
  std::uint32_t pickByLines(const Type& order, const IndexedHeap& queue) const;
  template <class Type, class EachSlot>
  std::uint32_t mostUrgentOf(const Type& order, EachSlot&& each) const;
  bool linesHold(const KeyLines& lines, const Instance& m, KeyLines::Common* common) const;
  KeyLines::Line lineOf(const Call& c) const;
  /// Call whenever what the line of a waiting call is made of may have changed.
  void redrawLine(std::uint32_t slot) {
    const Call& c = graph_.call(slot);
    if (!drawsLines_ || c.state != CallState::kWaiting || c.instance == kNoSlot) return;
    lines_[c.instance].change(slot, lineOf(c), linePositions_);
  }
  void redrawLines(const Workflow& w);
  std::vector<std::uint32_t> inOrder(const IndexedHeap& queue) const;
  [[gnu::cold, gnu::noinline]] std::uint32_t oldestOverdue(const IndexedHeap& queue) const;
  struct WaitingCalls;  ///< what an order's `prepare` sees of a queue
  /// Whether `a` is picked before `b` of the same queue, the order being prepared for it (waiting_calls.h).
  template <class Type>
  bool goesBefore(const Type& order, const HeapEntry& a, const HeapEntry& b) const;
  template <class Type, class ViewOf>
  bool goesBefore(const Type& order, const HeapEntry& a, const HeapEntry& b, const ViewOf& viewOf) const;
  void reissueShared();
  void observe(CallStep step, Call& c, std::uint32_t tokens = 0) {
    if (observes_) observeAll(step, c, tokens);
    if (shareSlack_ > 0) observeShares(step, c, tokens);
  }
  // Out of the way of runs whose order does not ask.
  [[gnu::cold, gnu::noinline]] void observeAll(CallStep step, Call& c, std::uint32_t tokens);
  Nanos modelTime(const Call& c, std::uint32_t tokens) const;
  OrderView orderView(const Call& c, std::uint32_t instance) const;
  Nanos staticKey(const Call& c, std::uint32_t instance) const;
  Nanos projected(const Call& c, const Instance& m, Nanos prefill) const;
  Nanos deltaBesideDecode(const Call& c, std::uint32_t instance, Nanos prefill) const;
  Nanos deltaOn(const Call& c, std::uint32_t instance, const Estimate& e) const;
  void requeueAll(std::uint32_t instance);

  // workflows
  void markDirty(std::uint32_t workflow) {
    if (!reissues_) return;
    Workflow& w = graph_.workflow(workflow);
    if (w.dirty) return;
    w.dirty = true;
    dirty_.push_back(workflow);
  }
  void refreshWorkflow(std::uint32_t workflow);
  Nanos refreshPaths(Workflow& w);
  void setBudget(Call& c, const Workflow& w, Nanos rest) const;
  [[gnu::cold, gnu::noinline]] void workflowFinished(const Workflow& w);
  void cacheParameters();
  Nanos restOf(const Workflow& w) const;
  const StageTemplate* templateOf(const Workflow& w) const;
  void priceTemplates();
  [[gnu::cold, gnu::noinline]] void learnTemplate(const Workflow& w);
  void rewindTemplate(std::uint32_t workflow);
  bool tracksHorizon(const Workflow& w) const {
    return needsHorizon_ || !w.hasDeadline || rules_.keepHorizons;
  }
  void horizonMoved(std::uint32_t workflow, Nanos before);
  void declareHorizon(Workflow& w, Nanos remaining, bool exact, Nanos predicted);
  Nanos beyond(const Call& c, const Workflow& w) const;
  /// Keys then also move with what other workflows teach.
  bool learnsHorizons() const {
    return needsDelta_ && (horizonRules_.structural || horizonRules_.predictor || predicts_);
  }

  // decide
  PlacementView placementView(const Call& c, std::uint32_t slot) const;
  std::uint32_t choose(const PlacementView& view);
  void placeCall(std::uint32_t slot);
  std::uint32_t chooseElsewhere(std::uint32_t slot);
  std::int32_t enginePriority(const Call& c) const;
  void leaseFromOwnQueues();
  void serve(std::span<const std::uint32_t> instances);
  void leaseFromSharedQueues();
  void collectOpen();
  bool leaseFromShared(std::uint16_t model);

  // migration (migrate.h)
  void migrate();
  bool bestMove(Move* best);
  void findTakers();
  double projectedOn(const PlacementView& view, std::uint32_t instance, double utilisation) const;
  double leastOnTakers(const PlacementView& view);
  void mostUrgent(std::uint32_t instance, std::size_t count);

  enum class TimerKind : std::uint8_t { kCall, kBreaker, kCorrection, kTelemetry, kKvPark, kBackOff };
  /// kCall: the assumed first token of an attempt, or (call = kNoSlot) the end of an instance's closedUntil.
  /// Others: `call` is the instance or the correction.
  struct Timer {
    std::uint32_t call;
    std::uint32_t generation;  ///< of the call; the instance where there is none
    std::uint32_t epoch;
    TimerKind kind = TimerKind::kCall;
  };
  void fireLiveTimer(const Timer& timer);
  void startTimer(Nanos due, const Timer& timer);
  void fireTimers();
  template <class Type>
  const AheadIndex& aheadIndex(const Type& order, std::uint32_t instance) const;
  template <class Type>
  bool quickAhead(const Type& order, std::uint32_t instance, const CallKey<double>& key, std::uint64_t rank,
                  QueueAhead* sum) const;
  static QueueAhead queueAhead(const void* self, std::uint32_t instance, const PlacementView& view);

  SchedulerConfig config_;
  bool dynamic_;
  bool needsBudget_;
  bool needsHorizon_;
  bool needsDelta_;
  bool needsWholePath_;
  bool reissues_;  ///< keys depend on what the workflow's refresh brings up to date
  bool observes_;
  bool countsWorkflows_;
  Nanos ageing_ = 0;  ///< 0 = off
  double budgetMargin_ = 0;
  HorizonRules horizonRules_;
  bool tracksUtilisation_;
  bool tracksBacklog_;
  bool migrates_;
  bool placementFailed_ = false;
  bool drawsLines_ = false;  ///< the order's keys are lines, and calls wait in queues of their own
  bool sharersDue_ = false;  ///< some of dueFor_

  Cluster cluster_;
  std::unique_ptr<Pairs> pairs_;  ///< prefill-decode clusters
  std::uint64_t pairsRevision_ = ~std::uint64_t{0};
  std::vector<Ref> rerouted_;  ///< calls that got another d, to be told to the driver
  Graph graph_;
  Horizons horizons_;
  HorizonLearner horizonLearner_;
  bool predicts_ = false;  ///< a workflow came with a predicted horizon
  std::vector<StageTemplate> templates_;
  std::vector<TemplateLearner> learners_;  ///< of those that were declared without stages
  std::uint64_t pricedRevision_ = ~std::uint64_t{0};
  Nanos now_ = 0;

  /// What an estimate needs of a hardware class, in one place.
  struct ClassTerms {
    const LatencyModel* latency;
    std::int64_t kvLimit;  ///< what may be reserved
    std::int64_t kvRoom;   ///< what one call may need
    std::uint32_t maxSequences;
    std::uint32_t present;
    std::uint16_t model;
    std::uint64_t adapters;
  };
  std::vector<ClassTerms> classTerms_;

  std::size_t stride_ = 0;
  std::vector<Estimate> estimates_;  ///< [call slot][class]
  __int128_t meanSum_ = 0;           ///< of the calls revealed so far, for beta
  std::int64_t meanCount_ = 0;
  std::int64_t promptSum_ = 0;

  std::vector<IndexedHeap> queues_;           ///< at-reveal: one per instance
  mutable std::vector<KeyLines> lines_;       ///< per own queue
  std::vector<std::uint32_t> linePositions_;  ///< by call, in its queue's lines
  mutable std::vector<AheadIndex> ahead_;     ///< per own queue
  std::uint64_t aheadStamp_ = 0;              ///< grows whenever every index is out of date
  bool indexesAhead_ = false;                 ///< several calls are placed at one instant
  std::vector<IndexedHeap> shared_;           ///< at-credit: one per model
  std::vector<std::uint32_t> waitingOf_;      ///< by model: calls in own queues; kept with the backlogs
  std::vector<Ref> ready_;                    ///< to be placed, in event order
  std::vector<Ref> homeless_;                 ///< feasible, but no instance accepts calls now
  std::uint64_t homelessRevision_ = 0;
  std::vector<std::uint32_t> dirty_;
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint8_t> dueFor_;       ///< by model: a queue changed, whoever has room is to be touched
  std::vector<std::uint32_t> released_;    ///< scratch: children of a finished call
  std::vector<std::uint32_t> withCredit_;  ///< scratch: at-credit candidates
  std::vector<std::uint32_t> openInstances_;  ///< scratch: considered for the shared queues, by tie
  std::vector<Taker> takers_;                 ///< scratch: instances that could take a call, by tie
  std::vector<TakerClass> takerClasses_;      ///< scratch: their hardware classes
  std::vector<HeapEntry> urgent_;             ///< scratch: waiting calls of one queue
  struct KeyedEntry {
    CallKey<double> key;
    HeapEntry entry;
  };
  std::vector<KeyedEntry> keyed_;  ///< scratch: the same, with their keys
  std::vector<Ref> moreParents_;
  std::vector<Decision> decisions_;
  std::vector<Decision> rejected_;  ///< since the last decide
  std::uint64_t leaseNumber_ = 0;
  std::uint64_t revealNumber_ = 0;

  IndexedHeap timers_;  ///< key = -due time, slot = index into timerCalls_
  std::vector<Timer> timerCalls_;
  std::vector<std::uint32_t> freeTimers_;
  std::uint64_t timerSequence_ = 0;
  EventLog* log_ = nullptr;

  Workflow previewWorkflow_;            ///< scratch of preview: stands for a workflow that is not open
  std::vector<Estimate> previewed_;     ///< scratch of preview
  std::vector<Nanos> previewedDecode_;  ///< the same, of decode classes
  FairShares shares_;
  std::int64_t shareSlack_ = 0;  ///< 0 = off
  bool sacrifices_ = false;
  std::vector<std::uint32_t> sacrificeCandidates_;  ///< scratch
  mutable std::int64_t shareLimit_ = kNever;  ///< of the queue that is looked at: who is above goes behind
  std::vector<std::int64_t> shareCharged_;    ///< [call slot] for the present attempt
  std::vector<std::pair<std::uint16_t, std::uint32_t>> shareWeights_;
  bool anyRevocable_ = false;
  std::uint32_t failing_ = kNoSlot;  ///< the call whose failure is being applied
  bool sumsAttained_ = false;
  bool revoked_ = false;  ///< in this decide: calls are to be placed again
  LiveRules rules_;
  LiveState live_;
  Random retryRandom_;  ///< from tieSeed
  std::vector<std::uint32_t>* freed_ = nullptr;
};

}  // namespace laxity
