// Events in: what each one changes.
#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/math.h"
#include "workflow/budget.h"

namespace laxity {
namespace {

constexpr std::uint32_t kMaxCallTokens = 100'000'000;
constexpr std::uint8_t kMaxRetries = 2;  // CONTRACT 3
constexpr std::uint64_t kRetryStream = 7;

/// Ten hours: sums over 2^16 calls of an instance stay representable.
constexpr Nanos kMaxEstimate = kMaxTime >> 17;

bool validDuration(Nanos d) { return d >= 0 && d <= kMaxTime; }

}  // namespace

Scheduler::Scheduler(SchedulerConfig config, SchedulerMemory memory)
    : config_(std::move(config)),
      cluster_(config_.latencies, config_.tieSeed),
      graph_(std::move(memory.graph)),
      estimates_(std::move(memory.estimates)),
      queues_(std::move(memory.queues)),
      rules_(config_.parameters),
      retryRandom_(config_.tieSeed, kRetryStream) {
  graph_.clear();
  estimates_.clear();
  for (IndexedHeap& queue : queues_) queue.clear();
  policyChanged();
  for (auto& entries : config_.templates) templates_.emplace_back(entries);
}

void Scheduler::policyChanged() {
  std::visit(
      [&](const auto& order) {
        using Type = std::decay_t<decltype(order)>;
        dynamic_ = Type::kDynamic;
        drawsLines_ = hasLine<Type>() && config_.binding == Binding::kAtReveal && pairs_ == nullptr;
        needsBudget_ = Type::kNeedsBudget;
        needsHorizon_ = Type::kNeedsHorizon;
        needsDelta_ = Type::kNeedsDelta;
        needsWholePath_ = needsWholePath<Type>();
        observes_ = observes<Type>();
        countsWorkflows_ = countsWorkflows<Type>();
      },
      config_.order);
  reissues_ = needsBudget_ || countsWorkflows_ || (needsHorizon_ && !dynamic_);
  cacheParameters();
  migrates_ = config_.migrate && config_.binding == Binding::kAtReveal && pairs_ == nullptr;
  std::visit(
      [&](auto& placement) {
        using Type = std::decay_t<decltype(placement)>;
        tracksUtilisation_ = kNeedsUtilisation<Type> || migrates_;
        tracksBacklog_ = kNeedsBacklog<Type> || migrates_;
        cluster_.balance(kBalancesCalls<Type> ? Load::kCalls : Load::kWork);
        if constexpr (requires { placement.seed(config_.placementSeed); })
          placement.seed(config_.placementSeed);
      },
      config_.placement);
  if (pairs_ == nullptr) return;
  tracksBacklog_ =
      std::visit([](const auto& p) { return kNeedsBacklog<std::decay_t<decltype(p)>>; }, pairs_->placement);
  tracksUtilisation_ = false;
  countsWorkflows_ = countsWorkflows_ || pairs_->plans();
}

Status Scheduler::findAttempt(const CallAttempt& a) const {
  const Status found = graph_.findCall(a.call);
  if (!ok(found)) return found;
  const Call& c = graph_.call(a.call.slot);
  if (terminal(c.state) || a.epoch < c.epoch) return Status::kStale;
  return a.epoch == c.epoch ? Status::kOk : Status::kUnknownCall;
}

// --- parameters and time

Status Scheduler::setParameter(Nanos t, const SetParameter& e) {
  PolicyParameters changed = config_.parameters;
  if (e.parameter > 0xffff || !changed.set(static_cast<std::uint16_t>(e.parameter), e.value))
    return Status::kBadValue;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kSetParameter)) r->setParameter = e;
  config_.parameters = changed;
  const std::int64_t slack = shareSlack_;
  cacheParameters();
  sharesChanged(slack);
  for (std::uint32_t w = 0; drawsLines_ && w < graph_.workflowSlots(); ++w) redrawLines(graph_.workflow(w));
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kAgeingMs)) {
    for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
      if (cluster_.known(m)) touch(m);
    }
  }
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kBudgetMargin)) {
    for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
      if (graph_.workflow(w).live) markDirty(w);
    }
  }
  if (e.parameter >= static_cast<std::uint32_t>(Parameter::kQueueLimit)) liveRulesChanged();
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kOvercommit)) limitsChanged();
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kHorizonFactor)) {
    for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
      if (graph_.workflow(w).live && !graph_.workflow(w).hasDeadline) markDirty(w);
    }
  }
  return Status::kOk;
}

/// Parameters in the form in which events read them.
void Scheduler::cacheParameters() {
  ageing_ = fromMs(config_.parameters[Parameter::kAgeingMs]);
  budgetMargin_ = config_.parameters[Parameter::kBudgetMargin];
  horizonRules_ = {config_.parameters[Parameter::kStructuralMinimum] > 0,
                   config_.parameters[Parameter::kPredictHorizons] > 0,
                   config_.parameters[Parameter::kHorizonQuantile]};
  const double slack = config_.parameters[Parameter::kTenantSlack];
  shareSlack_ = slack > 0 ? std::max<std::int64_t>(1, FairShares::slack(slack)) : 0;
  sacrifices_ =
      config_.parameters[Parameter::kSacrifice] > 0 &&
      (std::holds_alternative<Ratio>(config_.order) || std::holds_alternative<LevelRatio>(config_.order));
  if (pairs_ != nullptr)
    pairs_->usePrice(config_.binding == Binding::kAtCredit ? config_.parameters[Parameter::kKvPrice] : 0,
                     config_.parameters[Parameter::kKvPriceMs]);
}

Status Scheduler::planArrived(Nanos t) {
  if (pairs_ == nullptr || pairs_->options.planning == Planning::kSync) return Status::kUnsupported;
  if (!planInFlight()) return Status::kBadState;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  tap(t, EventKind::kPlanArrived);
  pairs_->inFlight.arrived = true;
  return Status::kOk;
}

Status Scheduler::timer(Nanos t) {
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  tap(t, EventKind::kTimer);
  fireTimers();
  return Status::kOk;
}

// --- workflows

Status Scheduler::openWorkflow(Nanos t, const OpenWorkflow& e) {
  if (e.stageTemplate >= static_cast<std::int32_t>(templates_.size())) return Status::kBadValue;
  if (e.deadline != kNever && !validDuration(e.deadline)) return Status::kBadTime;
  if (e.remaining != -1 && !validDuration(e.remaining)) return Status::kBadTime;
  if (!validDuration(e.predictedHorizon)) return Status::kBadTime;
  if (const Status time = timeStatus(t); !ok(time)) return time;
  const Status opened = graph_.open(e.workflow, e.tenant, t);
  if (!ok(opened)) return opened;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kOpenWorkflow)) r->openWorkflow = e;
  priceTemplates();
  Workflow& w = graph_.workflow(e.workflow.slot);
  w.stageTemplate = e.stageTemplate < 0 ? -1 : e.stageTemplate;
  w.hasDeadline = e.deadline != kNever;
  w.deadline = w.hasDeadline ? e.deadline : t;
  declareHorizon(w, e.remaining, e.exactRemaining != 0, e.predictedHorizon);
  weighTenant(e.tenant, e.weight);
  return Status::kOk;
}

Status Scheduler::updateWorkflow(Nanos t, const UpdateWorkflow& e) {
  const Status found = graph_.find(e.workflow);
  if (!ok(found)) return found;
  if (e.deadline != kNever && e.deadline != -1 && !validDuration(e.deadline)) return Status::kBadTime;
  if (e.remaining != -1 && !validDuration(e.remaining)) return Status::kBadTime;
  if (!validDuration(e.predictedHorizon)) return Status::kBadTime;
  Workflow& w = graph_.workflow(e.workflow.slot);
  // The horizon that stands in for a missing deadline is only kept from the start.
  if (e.deadline == kNever && w.hasDeadline && !needsHorizon_ && w.revealed > 0) return Status::kBadState;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kUpdateWorkflow)) r->updateWorkflow = e;
  if (e.deadline == kNever) {
    w.hasDeadline = false;
  } else if (e.deadline != -1) {
    w.hasDeadline = true;
    w.deadline = e.deadline;
  }
  declareHorizon(w, e.remaining, e.exactRemaining != 0, e.predictedHorizon);
  if (pairs_ != nullptr) rekeyPlan(w);
  if (rules_.any) liveDeadline(e.workflow.slot);
  markDirty(e.workflow.slot);
  return Status::kOk;
}

Status Scheduler::closeWorkflow(Nanos t, const CloseWorkflow& e) {
  const Status found = graph_.find(e.workflow);
  if (!ok(found)) return found;
  if (!graph_.workflow(e.workflow.slot).open) return Status::kWorkflowClosed;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kCloseWorkflow)) r->closeWorkflow = e;
  Workflow& w = graph_.workflow(e.workflow.slot);
  w.open = false;
  // What has not been leased will not be needed; what has been leased still ends on its own.
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot;) {
    const std::uint32_t next = graph_.call(slot).next;
    if (!leased(graph_.call(slot).state)) end(slot, CallState::kCancelled);
    slot = next;
  }
  settle(e.workflow.slot);
  return Status::kOk;
}

// --- calls

Status Scheduler::reveal(Nanos t, const Reveal& e, std::span<const Ref> parents) {
  const Status found = graph_.find(e.workflow);
  if (!ok(found)) return found;
  if (e.predictedTokens == 0 && rules_.predictLengths) {
    // A high given with it is a cap: the caller's max_tokens.
    const LengthPrediction p = live_.lengths.predict(graph_.workflow(e.workflow.slot).stageTemplate, e.stage);
    const std::uint32_t cap =
        e.predictedHigh > 0 ? e.predictedHigh : kMaxCallTokens / std::max<std::uint32_t>(1, e.sequences);
    Reveal filled = e;
    filled.predictedTokens = std::max(1u, std::min(p.mean, cap));
    filled.predictedHigh = std::max(filled.predictedTokens, std::min(p.high, cap));
    return reveal(t, filled, parents);
  }
  if (e.adapter > kMaxAdapters) return Status::kBadValue;
  if (e.promptTokens < 1 || e.promptTokens > kMaxCallTokens || e.predictedTokens < 1 ||
      e.predictedTokens > kMaxCallTokens || e.predictedHigh > kMaxCallTokens || e.sequences < 1) {
    return Status::kBadTokens;
  }
  if (e.sequences > 1 && std::uint64_t{e.sequences} * e.predictedTokens > kMaxCallTokens)
    return Status::kBadTokens;
  for (const CachedPrefix& cached : e.cached) {
    if (cached.instance != kNoSlot && (cached.tokens >= e.promptTokens || !cluster_.known(cached.instance))) {
      return Status::kBadTokens;
    }
  }
  if (e.remaining != -1 && !validDuration(e.remaining)) return Status::kBadTime;
  if (e.frontier != 0 && !parents.empty()) return Status::kBadValue;
  if (const Status time = timeStatus(t); !ok(time)) return time;
  const Status revealed = graph_.reveal(e.call, e.workflow, parents, e.frontier != 0, t);
  if (!ok(revealed)) return revealed;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (log_ != nullptr) logReveal(t, e, parents);

  const std::uint32_t slot = e.call.slot;
  Call& c = graph_.call(slot);
  Workflow& w = graph_.workflow(c.workflow);
  if (config_.callTies == CallTies::kRevealOrder) c.rank = revealNumber_++;
  c.stage = e.stage;
  c.model = e.model;
  c.adapter = static_cast<std::uint8_t>(e.adapter);
  c.sequences = e.sequences;
  c.toolPending = e.toolPending != 0;
  c.streams = e.silent == 0;
  c.promptTokens = e.promptTokens;
  c.predictedTokens = e.predictedTokens;
  c.predictedHigh = std::max(e.predictedHigh, e.predictedTokens);
  c.timedTokens = timedTokens(c);
  c.cached[0] = e.cached[0];
  c.cached[1] = e.cached[1];
  c.hasCached = e.cached[0].instance != kNoSlot || e.cached[1].instance != kNoSlot;
  c.remaining = e.remaining;
  c.exactRemaining = e.exactRemaining != 0;
  if (w.revealed == 1) w.kind = horizonLearner_.kind(w.stageTemplate, c.stage, c.promptTokens);
  if (rules_.any) liveRevealed(slot);
  if (pairs_ != nullptr) pairs_->grow(graph_.callSlots(), stride_);
  const bool feasible = estimateCall(slot);
  meanSum_ += c.mean;
  promptSum_ += c.promptTokens;
  ++meanCount_;

  if (tracksHorizon(w)) {
    Nanos lastFinish = -1;
    graph_.eachParent(c,
                      [&](std::uint32_t p) { lastFinish = std::max(lastFinish, graph_.call(p).finishedAt); });
    const Nanos gap = c.pendingParents == 0 && lastFinish >= 0 ? t - lastFinish : 0;
    const Nanos before = w.horizon;
    horizons_.reveal(graph_, cluster_, slot, estimates(slot), gap);
    if (pairs_ != nullptr && c.isolatedEnd > 0) {
      pairs_->isolatedDecode(slot) =
          decodeClassOf(cluster_, c.isolatedClass, c.promptTokens, pairs_->terms, pairs_->decodeAlone(slot));
    }
    horizonLearner_.revealed(w, c, horizonRules_);
    horizonMoved(c.workflow, before);
  }
  const StageTemplate* stages = templateOf(w);
  if (stages != nullptr && (w.revealed == 1 || c.depth > w.stageDepth)) {
    w.cursor = stages->advance(w.cursor, c.stage);
    w.stageDepth = c.depth;
  }
  if (c.pendingParents > 0) w.tailsStale = true;
  markDirty(c.workflow);

  if (!feasible) {
    reject(slot, impossible(slot));
    return Status::kOk;
  }
  if (c.pendingParents == 0 && !c.toolPending) becomeReady(slot);
  return Status::kOk;
}

void Scheduler::logReveal(Nanos t, const Reveal& e, std::span<const Ref> parents) {
  while (parents.size() > kInlineParents) {
    const std::size_t n = std::min(kMoreParents, parents.size() - kInlineParents);
    MoreParents more{};
    more.count = static_cast<std::uint32_t>(n);
    std::copy_n(parents.begin(), n, more.parents);
    log_->add(t, EventKind::kMoreParents).moreParents = more;
    parents = parents.subspan(n);
  }
  Reveal record = e;
  record.parentCount = static_cast<std::uint8_t>(parents.size());
  std::fill(std::begin(record.parents), std::end(record.parents), Ref{});
  std::copy(parents.begin(), parents.end(), record.parents);
  log_->add(t, EventKind::kReveal).reveal = record;
}

Status Scheduler::toolDone(Nanos t, const CallEvent& e) {
  const Status found = findAttempt(e.attempt);
  if (!ok(found)) return found;
  Call& c = graph_.call(e.attempt.call.slot);
  if (!c.toolPending) return Status::kBadState;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kToolDone)) r->call = e;
  c.toolPending = false;
  if (c.pendingParents > 0) return Status::kOk;
  if (tracksHorizon(graph_.workflow(c.workflow))) {
    Nanos parentsEnd = c.revealedAt;
    graph_.eachParent(c,
                      [&](std::uint32_t p) { parentsEnd = std::max(parentsEnd, graph_.call(p).finishedAt); });
    const Nanos before = graph_.workflow(c.workflow).horizon;
    horizons_.delay(graph_, e.attempt.call.slot, t - parentsEnd);
    horizonMoved(c.workflow, before);
  }
  becomeReady(e.attempt.call.slot);
  return Status::kOk;
}

/// What every event of an engine needs: a live attempt that is leased, and a time. Changes only the time.
Status Scheduler::fromEngine(Nanos t, const CallAttempt& a) {
  const Status found = findAttempt(a);
  if (!ok(found)) return found;
  return leased(graph_.call(a.call.slot).state) ? advance(t) : Status::kBadState;
}

Status Scheduler::firstToken(Nanos t, const CallEvent& e) {
  if (const Status status = fromEngine(t, e.attempt); !ok(status)) return status;
  if (EventRecord* r = tap(t, EventKind::kFirstToken)) r->call = e;
  if (graph_.call(e.attempt.call.slot).state == CallState::kPrefilling) {
    if (rules_.any) livePrefilled(e.attempt.call.slot);
    prefilled(e.attempt.call.slot);
  }
  if (rules_.any) liveSign(e.attempt.call.slot);
  return Status::kOk;
}

Status Scheduler::progress(Nanos t, const Progress& e) {
  if (const Status status = fromEngine(t, e.attempt); !ok(status)) return status;
  if (EventRecord* r = tap(t, EventKind::kProgress)) r->progress = e;
  const std::uint32_t slot = e.attempt.call.slot;
  // Without a token it is a sign of life and no more.
  if (e.tokens > 0 && graph_.call(slot).state == CallState::kPrefilling) prefilled(slot);
  if (e.tokens > 0 && pairs_ != nullptr && pairs_->call(slot).onPrefill) kvArrived(slot);
  if (rules_.any) liveSign(slot);
  return Status::kOk;
}

Status Scheduler::finished(Nanos t, const Finished& e) {
  if (e.outputTokens > kMaxCallTokens) return Status::kBadTokens;
  if (const Status status = fromEngine(t, e.attempt); !ok(status)) return status;
  const std::uint32_t slot = e.attempt.call.slot;
  Call& c = graph_.call(slot);
  if (EventRecord* r = tap(t, EventKind::kFinished)) r->finished = e;

  const std::uint32_t workflow = c.workflow;
  Workflow& w = graph_.workflow(workflow);
  const std::uint32_t isolatedClass = pairs_ == nullptr ? c.isolatedClass : pairs_->isolatedDecode(slot);
  const std::uint32_t prompt = c.promptTokens;
  const std::uint32_t predicted = c.timedTokens;
  if (c.state == CallState::kPrefilling) prefilled(slot);
  observe(CallStep::kServed, c, e.outputTokens > 0 ? e.outputTokens : c.predictedTokens);
  if (rules_.any) outcomeOk(slot, e.outputTokens);
  end(slot, CallState::kDone);
  if (w.live && tracksHorizon(w)) {
    Nanos correction = 0;
    if (e.outputTokens > 0 && e.outputTokens != predicted && c.isolatedEnd > 0 && isolatedClass != kNoSlot) {
      const LatencyModel& latency = cluster_.latency(cluster_.classes()[isolatedClass]);
      correction = decodeTime(latency, config_.firstToken, prompt, e.outputTokens) -
                   decodeTime(latency, config_.firstToken, prompt, predicted);
    }
    const Nanos before = w.horizon;
    horizons_.finish(graph_, slot, correction);
    horizonMoved(workflow, before);
  }
  settle(workflow);
  return Status::kOk;
}

Status Scheduler::evicted(Nanos t, const Evicted& e) {
  const Status found = findAttempt(e.attempt);
  if (!ok(found)) return found;
  const std::uint32_t slot = e.attempt.call.slot;
  Call& c = graph_.call(slot);
  if (e.generated > kMaxCallTokens - std::min(kMaxCallTokens, c.promptTokens)) return Status::kBadTokens;
  if (const Status status = fromEngine(t, e.attempt); !ok(status)) return status;
  if (EventRecord* r = tap(t, EventKind::kEvicted)) r->evicted = e;
  // The second prefill covers what was generated. An overrun doubles the expectation, so that a call that
  // keeps outgrowing it is evicted O(log) times; the expectation never makes a feasible call infeasible.
  observe(CallStep::kServed, c, e.generated);
  c.promptTokens += e.generated;
  const std::uint32_t left =
      c.predictedTokens > e.generated ? c.predictedTokens - e.generated : std::max(1u, e.generated);
  const std::int64_t high = c.predictedHigh > e.generated ? c.predictedHigh - e.generated : left;
  std::int64_t room = 1;
  for (const HardwareClass& k : cluster_.classes()) {
    if (k.present > 0 && k.spec.model == c.model && k.spec.role != Role::kPrefill) {
      room = std::max(room, (kvRoom(k.spec) - c.promptTokens) / c.sequences);
    }
  }
  c.predictedTokens = static_cast<std::uint32_t>(std::min<std::int64_t>(left, room));
  c.predictedHigh = static_cast<std::uint32_t>(std::max<std::int64_t>(high, c.predictedTokens));
  c.timedTokens = timedTokens(c);
  if (backToReady(slot) && !estimateCall(slot)) reject(slot, impossible(slot));
  return Status::kOk;
}

Status Scheduler::failed(Nanos t, const Failed& e) {
  if (e.failure > FailureClass::kFault || e.leg > Leg::kLink) return Status::kBadValue;
  if ((e.leg == Leg::kUnified) != (pairs_ == nullptr)) return Status::kUnsupported;
  if (!validDuration(e.retryAfter)) return Status::kBadTime;
  if (const Status status = fromEngine(t, e.attempt); !ok(status)) return status;
  const std::uint32_t slot = e.attempt.call.slot;
  Call& c = graph_.call(slot);
  if (EventRecord* r = tap(t, EventKind::kFailed)) r->failed = e;
  const bool retryable =
      e.failure != FailureClass::kClientError && e.clientBytes == 0 && c.retries < kMaxRetries && takeRetry();
  const bool beyondPrefill = e.leg == Leg::kDecode || e.leg == Leg::kLink;
  const std::uint32_t at = beyondPrefill ? pairs_->call(slot).decode : c.instance;
  Instance& m = cluster_.at(at);
  failing_ = slot;  // what closes its instance lets go of the others there
  if (rules_.any) {
    live_.calls[slot].avoid = at;
    if (e.failure == FailureClass::kFault) outcomeFault(slot, at);
  }
  const Nanos pause =
      e.retryAfter == 0 && e.failure == FailureClass::kBackpressure ? rules_.backpressure : e.retryAfter;
  if (pause > 0) {
    m.closedUntil = std::max(m.closedUntil, t + pause);
    startTimer(m.closedUntil, {kNoSlot, at, 0});
    revokeAll(at);
  }
  failing_ = kNoSlot;
  if (retryable) {
    ++c.retries;
    if (beyondPrefill && e.kvOnPrefill != 0)
      rescue(slot);
    else
      backToReady(slot);
    backOff(slot);
    return Status::kOk;
  }
  const std::uint32_t workflow = c.workflow;
  end(slot, CallState::kFailed);
  settle(workflow);
  return Status::kOk;
}

Status Scheduler::cancel(Nanos t, const CallEvent& e) {
  const Status found = findAttempt(e.attempt);
  if (!ok(found)) return found;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kCancel)) r->call = e;
  const std::uint32_t workflow = graph_.call(e.attempt.call.slot).workflow;
  end(e.attempt.call.slot, CallState::kCancelled);
  settle(workflow);
  return Status::kOk;
}

// --- what events share

std::int64_t Scheduler::kvNeed(const Call& c) const {
  if (config_.kvNeed == KvNeed::kPrompt16) return (std::int64_t{c.promptTokens} + 15) / 16 * 16;
  return c.promptTokens + std::int64_t{c.predictedTokens} * c.sequences;
}

std::int64_t Scheduler::kvLimit(const InstanceSpec& spec) const {
  return static_cast<std::int64_t>(static_cast<double>(spec.kvTokens) *
                                   config_.parameters[Parameter::kOvercommit]);
}

/// The most one call may need there.
std::int64_t Scheduler::kvRoom(const InstanceSpec& spec) const {
  return std::min(kvLimit(spec), spec.kvTokens);
}

/// The output length that times are computed with. Fixed when the prediction is made, so that what was
/// derived from it can be taken back.
std::uint32_t Scheduler::timedTokens(const Call& c) const {
  const double share = config_.parameters[Parameter::kOutputHigh];
  if (share == 0) return c.predictedTokens;
  return c.predictedTokens + static_cast<std::uint32_t>(share * (c.predictedHigh - c.predictedTokens) + 0.5);
}

/// Fills in the call's estimates and mean; false where no present instance can ever serve it.
bool Scheduler::estimateCall(std::uint32_t slot) {
  if (estimates_.size() < (std::size_t{slot} + 1) * stride_)
    estimates_.resize((std::size_t{slot} + 1) * stride_);
  return estimateInto(graph_.call(slot), estimates_.data() + slot * stride_);
}

bool Scheduler::estimateInto(Call& c, Estimate* out) const {
  if (pairs_ != nullptr) {
    const bool known = c.workflow != kNoSlot && out != previewed_.data();
    Nanos* decodeAlone = known ? pairs_->decodeAlone(static_cast<std::uint32_t>(&c - &graph_.call(0)))
                               : const_cast<Nanos*>(previewedDecode_.data());
    const bool feasible = estimatePair(c, out, decodeAlone, &c.mean);
    if (c.mean < 1) c.mean = 1;
    return feasible;
  }
  const std::int64_t need = kvNeed(c);
  ClusterMean mean;
  for (const ClassTerms& k : classTerms_) {
    Estimate& e = *out++;
    if (k.model != c.model || need > k.kvRoom || c.sequences > k.maxSequences ||
        (c.adapter != 0 && (k.adapters >> (c.adapter - 1) & 1) == 0)) {
      e = {0, kNever};
      continue;
    }
    e.prefill = std::min(kMaxEstimate, k.latency->prefill(c.promptTokens, 0));
    const Nanos decode = decodeTime(*k.latency, config_.firstToken, c.promptTokens, c.timedTokens);
    e.exec = e.prefill + std::min(kMaxEstimate, decode);
    mean.add(e.exec, k.present);
  }
  const Nanos value = mean.value();
  c.mean = value > 1 ? value : 1;
  return value > 0;
}

/// Call whenever the cluster or a limit changes.
void Scheduler::cacheClasses() {
  classTerms_.clear();
  for (const HardwareClass& k : cluster_.classes()) {
    classTerms_.push_back({&cluster_.latency(k), kvLimit(k.spec), kvRoom(k.spec), k.spec.maxSequences,
                           k.present, k.spec.model, k.spec.adapters});
  }
}

void Scheduler::reestimateAll() {
  stride_ = cluster_.classes().size();
  if (pairs_ != nullptr) pairs_->grow(graph_.callSlots(), stride_);
  estimates_.assign(graph_.callSlots() * stride_, {});
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    const CallState state = graph_.call(slot).state;
    if (state != CallState::kFree && !terminal(state)) estimateCall(slot);
  }
  for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
    if (!graph_.workflow(w).live) continue;
    graph_.workflow(w).tailsStale = true;
    markDirty(w);
  }
}

/// Never feasible, as opposed to not now.
RejectReason Scheduler::impossible(std::uint32_t slot) const {
  bool served = false;
  const auto& classes = cluster_.classes();
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].present == 0 || classes[k].spec.model != graph_.call(slot).model) continue;
    if (estimates(slot)[k].exec != kNever) return RejectReason::kNone;
    served = true;
  }
  if (pairs_ != nullptr) {  // both roles must be there
    for (const Role role : {Role::kPrefill, Role::kDecode}) {
      served = served && std::any_of(classes.begin(), classes.end(), [&](const HardwareClass& k) {
                 return k.present > 0 && k.spec.role == role && k.spec.model == graph_.call(slot).model;
               });
    }
  }
  return served ? RejectReason::kNeverFits : RejectReason::kNoInstance;
}

void Scheduler::becomeReady(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  c.state = CallState::kReady;
  c.readyAt = now_;
  observe(CallStep::kReady, c);
  ready_.push_back(graph_.ref(slot));
}

/// A new attempt after a failure, an eviction or a lost KV cache: same id, original ready time, next epoch. A
/// call of a closed workflow is not wanted any more and ends instead; false then.
bool Scheduler::backToReady(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  const std::uint32_t workflow = c.workflow;
  if (!graph_.workflow(workflow).open) {
    end(slot, CallState::kCancelled);
    settle(workflow);
    return false;
  }
  release(slot);
  unassign(slot);
  ++aheadStamp_;
  ++c.epoch;
  c.state = CallState::kReady;
  if (rules_.any) liveQueued(slot);
  observe(CallStep::kReturned, c);
  observe(CallStep::kReady, c);
  ready_.push_back(graph_.ref(slot));
  markDirty(workflow);
  return true;
}

void Scheduler::end(std::uint32_t slot, CallState state) {
  Call& c = graph_.call(slot);
  if (c.state == CallState::kReady || c.state == CallState::kWaiting) observe(CallStep::kWithdrawn, c);
  if (c.state == CallState::kWaiting) {
    dequeue(slot);
    if (c.instance != kNoSlot) unassign(slot);
  } else if (leased(c.state)) {
    release(slot);
    unassign(slot);
  }
  if (rules_.any) liveUnqueued(slot);
  ++aheadStamp_;  // keys may depend on anything that ends
  // A call in ready_ or homeless_ stays listed there and is passed over: its state says that it is over.
  released_.clear();
  graph_.finish(slot, state, now_, &released_);
  if (needsWholePath_ && state == CallState::kDone) {
    Workflow& w = graph_.workflow(c.workflow);
    c.head = headOf(graph_, c);
    w.finishedHead = std::max(w.finishedHead, c.head);
  }
  if (state != CallState::kDone) {
    Workflow& w = graph_.workflow(c.workflow);
    w.tailsStale = true;
    const Nanos before = w.horizon;
    if (tracksHorizon(w)) horizons_.abandon(graph_, w);
    horizonMoved(c.workflow, before);
  }
  markDirty(c.workflow);
  for (std::uint32_t child : released_) {
    if (!graph_.call(child).toolPending && graph_.call(child).state == CallState::kRevealed)
      becomeReady(child);
  }
}

/// Frees a closed workflow with its last call.
void Scheduler::settle(std::uint32_t workflow) {
  Workflow& w = graph_.workflow(workflow);
  if (!w.live || w.open || w.unfinished > 0) return;
  if (countsWorkflows_ || horizonRules_.structural || horizonRules_.predictor || w.predictedHorizon > 0)
    workflowFinished(w);
  if (w.stageTemplate >= 0 && config_.templates[static_cast<std::size_t>(w.stageTemplate)].empty())
    learnTemplate(w);
  horizons_.close(w);
  if (graph_.freeIfOver(workflow) && freed_ != nullptr) freed_->push_back(workflow);
}

void Scheduler::reject(std::uint32_t slot, RejectReason reason) {
  Decision d{};
  d.kind = DecisionKind::kReject;
  d.rejectReason = reason;
  d.epoch = graph_.call(slot).epoch;
  d.call = graph_.ref(slot);
  d.instance = d.decodeInstance = kNoSlot;
  rejected_.push_back(d);
  const std::uint32_t workflow = graph_.call(slot).workflow;
  end(slot, CallState::kRejected);
  settle(workflow);
}

void Scheduler::prefilled(std::uint32_t slot) {
  if (pairs_ != nullptr) return pairPrefilled(slot);
  Call& c = graph_.call(slot);
  c.state = CallState::kDecoding;
  Instance& m = cluster_.at(c.instance);
  m.ledger.firstToken(c.cost, now_);
  if (tracksBacklog_) m.backlog.firstToken(c.cost);
  if (m.spec.mode != EngineMode::kPrefillFirst) projectPrefills(m);
  touch(c.instance);
}

/// After a first token: the prefills that are left go on beside decode.
void Scheduler::projectPrefills(Instance& m) {
  m.ledger.prefillsEnd += cluster_.besideDecode(m, m.ledger.unprefilledWork, m.ledger.unprefilledTokens);
}

void Scheduler::startTimer(Nanos due, const Timer& timer) {
  std::uint32_t index;
  if (freeTimers_.empty()) {
    index = static_cast<std::uint32_t>(timerCalls_.size());
    timerCalls_.push_back(timer);
  } else {
    index = freeTimers_.back();
    freeTimers_.pop_back();
    timerCalls_[index] = timer;
  }
  timers_.push({-due, timerSequence_++, index}, [](std::uint32_t, std::uint32_t) {});
}

void Scheduler::fireTimers() {
  while (!timers_.empty() && -timers_.top().key <= now_) {
    const std::uint32_t index = timers_.top().slot;
    timers_.removeAt(0, [](std::uint32_t, std::uint32_t) {});
    const Timer timer = timerCalls_[index];
    freeTimers_.push_back(index);
    if (timer.kind != TimerKind::kCall) {
      fireLiveTimer(timer);
      continue;
    }
    if (timer.call == kNoSlot) {
      touch(timer.generation);
      continue;
    }
    if (!ok(graph_.findCall({timer.call, timer.generation}))) continue;
    const Call& c = graph_.call(timer.call);
    if (c.epoch == timer.epoch && c.state == CallState::kPrefilling) prefilled(timer.call);
  }
  if (rules_.any) liveTimers();
}

}  // namespace laxity
