// Outcomes of leases and what they say of an instance: breakers, penalties, retries, telemetry, learned
// speeds.
//
// A masked instance is up, but gets no new calls: its breaker is open, or half-open with a probe assigned. A
// half-open instance without a probe takes the next call that it can serve, whatever the placement would say:
// otherwise nobody would ever learn that it has recovered. Ties between several: by perm. Panic: where masks
// leave fewer than panicShare of the instances of a model that are up, they are passed over. A fault counts
// as outstanding work of max(t_comp, faultPenaltyMs) for as long, so that an instance that fails fast looks
// as busy as one that serves. A sample of telemetry adds (running + waiting - our leases, at least 0) x the
// mean t_comp to the outstanding work until the next sample or until it is stale; it never closes the gate.
//
// Prefill-decode: leg d and the link count against d, whose ok is the end of the call; leg p against p, whose
// ok is that its KV has arrived. Both roles have breakers, probes and panic of their own. A prefill of mean
// length stands for each foreign call on p. Corrections of p delay its projected ready time. Of d, foreign
// sequences, and KV in use beyond what our calls there may hold, count in what plans see of it, until the
// next sample or until it is stale; room on d is given by own accounting alone.
#include <algorithm>

#include "scheduler/scheduler.h"
#include "workflow/budget.h"

namespace laxity {

Breaker& Scheduler::breakerOf(std::uint32_t instance) {
  if (live_.breakers.size() < cluster_.size()) live_.breakers.resize(cluster_.size());
  return live_.breakers[instance];
}

bool Scheduler::wantsProbe(std::uint32_t instance) const {
  return instance < live_.breakers.size() && live_.breakers[instance].state == BreakerState::kHalfOpen &&
         live_.breakers[instance].probe == kNoSlot && cluster_.at(instance).accepts();
}

/// A call was assigned: on a half-open instance without a probe it is the probe.
void Scheduler::probeTaken(std::uint32_t instance, std::uint32_t slot) {
  if (!wantsProbe(instance)) return;
  live_.breakers[instance].probe = slot;
  updateMasks();
}

void Scheduler::probeOver(std::uint32_t instance, std::uint32_t slot) {
  if (instance >= live_.breakers.size() || live_.breakers[instance].probe != slot) return;
  live_.breakers[instance].probe = kNoSlot;
  updateMasks();
}

/// Brings every mask up to date with breakers and panic.
void Scheduler::updateMasks() {
  if (live_.breakers.empty()) return;
  live_.breakers.resize(cluster_.size());
  live_.halfOpen = std::any_of(live_.breakers.begin(), live_.breakers.end(),
                               [](const Breaker& b) { return b.state == BreakerState::kHalfOpen; });
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    const Instance& i = cluster_.at(m);
    const Breaker& b = live_.breakers[m];
    const bool closed =
        b.state == BreakerState::kOpen || (b.state == BreakerState::kHalfOpen && b.probe != kNoSlot);
    const bool mask = closed && !panics(i.spec.model, i.spec.role);
    if (i.masked == mask) continue;
    cluster_.setMask(m, mask);
    if (mask) continue;
    touch(m);
    if (i.spec.role == Role::kDecode) touchSharers(i.spec.model);  // a lease may have waited for a d
  }
  pairsChanged();
  // Only now: a queue that moves finds every mask in its place.
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    if (cluster_.at(m).masked && live_.breakers[m].state == BreakerState::kOpen) {
      if (cluster_.at(m).spec.role != Role::kDecode) requeueAll(m);
      revokeAll(m);
    }
  }
}

bool Scheduler::panics(std::uint16_t model, Role role) const {
  if (rules_.panicShare <= 0) return false;
  std::uint32_t up = 0;
  std::uint32_t open = 0;
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    const Instance& i = cluster_.at(m);
    if (i.condition != Condition::kUp || i.spec.model != model || i.spec.role != role) continue;
    ++up;
    if (m < live_.breakers.size() && live_.breakers[m].state == BreakerState::kOpen) ++open;
  }
  return up - open < rules_.panicShare * up;
}

/// `m`: the instance that the fault counts against.
void Scheduler::outcomeFault(std::uint32_t slot, std::uint32_t m) {
  const Nanos leasedAt = live_.calls[slot].leasedAt;
  if (rules_.faultPenalty > 0) {
    const bool decodes = cluster_.at(m).spec.role == Role::kDecode;
    const Nanos exec = decodes ? pairs_->call(slot).cost.exec : graph_.call(slot).cost.exec;
    const Nanos cost = std::max(exec, rules_.faultPenalty);
    correct(m, cost, now_ + std::max<Nanos>(1, cost - (now_ - leasedAt)));
  }
  if (breakerOf(m).fault(now_, leasedAt, rules_.breaker)) {
    startTimer(now_ + rules_.breaker.pause, {m, 0, 0, TimerKind::kBreaker});
    updateMasks();
  }
}

/// What the call did on `m` is over and was well.
void Scheduler::legOk(std::uint32_t slot, std::uint32_t m) {
  if (breakerOf(m).success(now_, live_.calls[slot].leasedAt, rules_.breaker)) updateMasks();
}

void Scheduler::attained(const Call& c, std::uint32_t outputTokens) {
  const std::uint16_t tenant = graph_.workflow(c.workflow).tenant;
  if (live_.attained.size() <= tenant) live_.attained.resize(std::size_t{tenant} + 1);
  const PolicyParameters& p = config_.parameters;
  const std::uint32_t output = outputTokens > 0 ? outputTokens : c.predictedTokens;
  live_.attained[tenant] +=
      p[Parameter::kInputWeight] * c.promptTokens + p[Parameter::kOutputWeight] * output * c.sequences;
}

void Scheduler::outcomeOk(std::uint32_t slot, std::uint32_t outputTokens) {
  const Call& c = graph_.call(slot);
  attained(c, outputTokens);
  if (pairs_ == nullptr) {
    legOk(slot, c.instance);
  } else {
    if (pairs_->call(slot).onPrefill) legOk(slot, c.instance);
    legOk(slot, pairs_->call(slot).decode);
  }
  if (rules_.retryBudget > 0)
    live_.retryTokens = std::min(LiveState::kRetryReserve, live_.retryTokens + rules_.retryBudget);
  if (outputTokens > 0 && rules_.predictLengths && c.epoch == 0) {
    live_.lengths.observe(graph_.workflow(c.workflow).stageTemplate, c.stage, outputTokens,
                          {c.predictedTokens, c.predictedHigh});
  }
  if (outputTokens == 0) return;
  const LiveCall& l = live_.calls[slot];
  Nanos prefill = 0;
  Nanos decode = 0;
  std::uint32_t steps = outputTokens > 1 ? outputTokens - 1 : 0;
  if (pairs_ != nullptr) {
    if (!c.streams || l.firstTokenAt == 0) return;
    const PairCall& pair = pairs_->call(slot);
    const std::uint32_t d = cluster_.at(pair.decode).spec.latency;
    learnSpeed(cluster_.at(c.instance).spec.latency, l.firstTokenAt - l.prefillStart, c.promptTokens, 0, 0);
    learnSpeed(d, 0, c.promptTokens, now_ - (pair.onPrefill ? l.firstTokenAt : pair.kvReady), steps);
    return;
  }
  const std::uint32_t latency = cluster_.at(c.instance).spec.latency;
  if (!live_.speeds.learns(latency)) return;
  if (c.streams && l.firstTokenAt > 0) {
    prefill = l.firstTokenAt - l.prefillStart;
    decode = now_ - l.firstTokenAt;
  } else {
    steps = outputTokens;
    decode = std::max<Nanos>(0, now_ - l.leasedAt - c.cost.prefill);
  }
  learnSpeed(latency, prefill, c.promptTokens, decode, steps);
}

void Scheduler::learnSpeed(std::uint32_t latency, Nanos prefill, std::uint32_t promptTokens, Nanos decode,
                           std::uint32_t steps) {
  if (!live_.speeds.learns(latency)) return;
  if (!live_.speeds.observe(latency, prefill, promptTokens, decode, steps)) return;
  LatencyModel model;
  if (!ok(LatencyModel::constants(live_.speeds.inUse(latency), &model))) return;
  cluster_.setLatency(latency, model);
  instancesChanged();
}

/// False where the retries of late exceed their share of what was finished.
bool Scheduler::takeRetry() {
  if (rules_.retryBudget <= 0) return true;
  if (live_.retryTokens < 1) {
    ++live_.retriesRefused;
    return false;
  }
  live_.retryTokens -= 1;
  return true;
}

/// A call that has just become ready again is placed a random while later, so that what failed together is
/// not sent again together. One that goes on from its KV does not wait.
void Scheduler::backOff(std::uint32_t slot) {
  const Call& c = graph_.call(slot);
  if (rules_.retryBackoff == 0 || c.state != CallState::kReady) return;
  const double most = static_cast<double>(rules_.retryBackoff << (c.retries - 1));
  const auto delay = static_cast<Nanos>(retryRandom_.uniform() * most);
  if (delay == 0) return;
  ready_.pop_back();
  startTimer(now_ + delay, {slot, c.generation, c.epoch, TimerKind::kBackOff});
}

void Scheduler::correct(std::uint32_t instance, Nanos work, Nanos until) {
  std::uint32_t index;
  if (live_.freeCorrections.empty()) {
    index = static_cast<std::uint32_t>(live_.corrections.size());
    live_.corrections.push_back({instance, work});
  } else {
    index = live_.freeCorrections.back();
    live_.freeCorrections.pop_back();
    live_.corrections[index] = {instance, work};
  }
  addCorrection(instance, work);
  startTimer(until, {index, 0, 0, TimerKind::kCorrection});
}

void Scheduler::addCorrection(std::uint32_t instance, Nanos work) {
  Instance& m = cluster_.at(instance);
  m.correction += work;
  m.ledger.work += work;
  cluster_.workChanged(instance);
}

void Scheduler::fireLiveTimer(const Timer& timer) {
  switch (timer.kind) {
    case TimerKind::kBreaker:
      if (timer.call < live_.breakers.size() && live_.breakers[timer.call].pauseOver(now_, rules_.breaker))
        updateMasks();
      break;
    case TimerKind::kCorrection: {
      const Correction c = live_.corrections[timer.call];
      live_.freeCorrections.push_back(timer.call);
      addCorrection(c.instance, -c.work);
      break;
    }
    case TimerKind::kTelemetry: {
      TelemetryState& s = live_.telemetry[timer.call];
      if (s.version != timer.generation) break;
      addCorrection(timer.call, -s.work);
      s.work = 0;
      if (cluster_.at(timer.call).spec.role == Role::kDecode) pairs_->setForeign(timer.call, {});
      break;
    }
    case TimerKind::kKvPark:
      expireKv({timer.call, timer.generation}, timer.epoch);
      break;
    case TimerKind::kBackOff: {
      const Ref ref{timer.call, timer.generation};
      if (!ok(graph_.findCall(ref))) break;
      const Call& c = graph_.call(ref.slot);
      if (c.state == CallState::kReady && c.epoch == timer.epoch) ready_.push_back(ref);
      break;
    }
    case TimerKind::kCall:
      break;
  }
}

/// KV that has waited on p for room on d since its first token is about to be freed by p's own lease: nobody
/// may be sent to fetch it. The call is prefilled again.
void Scheduler::watchKv(std::uint32_t slot) {
  if (rules_.kvPark == 0) return;
  const Call& c = graph_.call(slot);
  startTimer(live_.calls[slot].kvSince + rules_.kvPark, {slot, c.generation, c.epoch, TimerKind::kKvPark});
}

void Scheduler::expireKv(Ref ref, std::uint32_t epoch) {
  if (!ok(graph_.findCall(ref)) || rules_.kvPark == 0) return;
  const Call& c = graph_.call(ref.slot);
  if (c.epoch != epoch || c.state != CallState::kWaitDecode || !pairs_->call(ref.slot).onPrefill) return;
  if (now_ - live_.calls[ref.slot].kvSince < rules_.kvPark) return;
  ++live_.kvExpired;
  takeBack(ref.slot, RejectReason::kKvExpired, &rejected_);
}

/// The driver is told that the lease is over; the call waits for another one.
void Scheduler::takeBack(std::uint32_t slot, RejectReason reason, std::vector<Decision>* into) {
  Decision d{};
  d.kind = DecisionKind::kRevoke;
  d.rejectReason = reason;
  d.epoch = graph_.call(slot).epoch;
  d.call = graph_.ref(slot);
  d.instance = graph_.call(slot).instance;
  d.decodeInstance = pairs_ == nullptr ? kNoSlot : pairs_->call(slot).decode;
  into->push_back(d);
  backToReady(slot);
}

Status Scheduler::telemetry(Nanos t, const Telemetry& e) {
  if (!cluster_.known(e.instance)) return Status::kUnknownInstance;
  constexpr std::uint32_t kMost = 10'000'000;
  if (e.present > 7 || e.waiting > kMost || e.running > kMost || !(e.kvUsage >= 0 && e.kvUsage <= 1))
    return Status::kBadValue;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kTelemetry)) r->telemetry = e;
  if (live_.telemetry.size() < cluster_.size()) live_.telemetry.resize(cluster_.size());
  TelemetryState& s = live_.telemetry[e.instance];
  s.at = t;
  ++s.version;
  addCorrection(e.instance, -s.work);
  s.work = 0;
  const Instance& m = cluster_.at(e.instance);
  const bool decodes = m.spec.role == Role::kDecode;
  if (decodes) pairs_->setForeign(e.instance, {});
  if (rules_.telemetry == 0) return Status::kOk;
  const std::int64_t seen =
      std::int64_t{(e.present & 2) != 0 ? e.running : 0} + std::int64_t{(e.present & 1) != 0 ? e.waiting : 0};
  // What is leased to d may still be elsewhere.
  const bool posted = !decodes || pairs_->options.admission == DecodeAdmission::kEngine;
  const std::int64_t own = posted ? m.ledger.leased : pairs_->admittedSequences(e.instance);
  const std::int64_t foreign = std::max<std::int64_t>(0, seen - own);
  if (foreign > 0 && meanCount_ > 0) {
    const Nanos mean =
        m.spec.role == Role::kPrefill
            ? cluster_.latency(m).prefill(static_cast<std::uint32_t>(promptSum_ / meanCount_), 0)
            : static_cast<Nanos>(meanSum_ / meanCount_);
    s.work = std::min<Nanos>(mean, kMaxTime / 1000 / foreign) * foreign;
    addCorrection(e.instance, s.work);
  }
  std::int64_t kv = 0;
  if (decodes && (e.present & 4) != 0) {
    const auto used = static_cast<std::int64_t>(e.kvUsage * static_cast<double>(m.spec.kvTokens));
    kv = std::max<std::int64_t>(0, used - (posted ? m.ledger.reservedKv : pairs_->admittedKv(e.instance)));
  }
  if (decodes) {
    const Nanos until = std::min(kMaxTime, t + rules_.telemetry);
    pairs_->setForeign(e.instance, {kv, static_cast<std::uint32_t>(foreign), until});
  }
  if (s.work > 0 || kv > 0 || foreign > 0)
    startTimer(t + rules_.telemetry, {e.instance, s.version, 0, TimerKind::kTelemetry});
  return Status::kOk;
}

Status Scheduler::setLatency(Nanos t, const SetLatency& e) {
  if (const Status time = timeStatus(t); !ok(time)) return time;
  if (e.latency > cluster_.latencies() || e.latency > 0xffff || e.learned > 1) return Status::kBadValue;
  const LatencyConstants constants{e.prefillBaseMs, e.prefillPerTokenMs, e.decodeBaseMs,
                                   e.decodePerSequenceMs, e.decodePerContextMs};
  LatencyModel model;
  if (const Status made = LatencyModel::constants(constants, &model); !ok(made)) return made;
  advance(t);
  if (EventRecord* r = tap(t, EventKind::kSetLatency)) r->setLatency = e;
  cluster_.setLatency(e.latency, model);
  if (e.learned != 0)
    live_.speeds.learn(e.latency, constants);
  else
    live_.speeds.fix(e.latency);
  instancesChanged();
  return Status::kOk;
}

/// Waiting calls are placed and keyed again under the new policy; leases stay. An order that keeps state
/// starts anew: it is told of every call that waits, and a lease of before is charged to nobody until it is
/// over.
Status Scheduler::setPolicy(Nanos t, const SetPolicy& e) {
  const auto orders = orderNames();
  const auto placements = pairs_ == nullptr ? placementNames() : pairPlacementNames();
  if (e.order >= orders.size() || e.placement >= placements.size() || e.binding > 1 || e.migrate > 2)
    return Status::kUnknownPolicy;
  Order order;
  Placement placement;
  makeOrder(orders[e.order], &order);
  if (pairs_ == nullptr) makePlacement(placements[e.placement], &placement);
  const bool horizons =
      std::visit([](const auto& o) { return std::decay_t<decltype(o)>::kNeedsHorizon; }, order);
  if (horizons && !needsHorizon_ && !rules_.keepHorizons) {
    for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
      if (graph_.workflow(w).live && graph_.workflow(w).hasDeadline) return Status::kBadState;
    }
  }
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kSetPolicy)) r->setPolicy = e;

  std::vector<Ref> waiting;
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    Call& c = graph_.call(slot);
    if (c.state != CallState::kWaiting) continue;
    waiting.push_back(graph_.ref(slot));
    dequeue(slot);
    if (c.instance != kNoSlot) unassign(slot);
    c.state = CallState::kReady;
  }
  std::sort(waiting.begin(), waiting.end(),
            [&](Ref a, Ref b) { return graph_.call(a.slot).rank < graph_.call(b.slot).rank; });
  ready_.insert(ready_.begin(), waiting.begin(), waiting.end());
  config_.order = order;
  if (pairs_ == nullptr)
    config_.placement = placement;
  else
    makePairPlacement(placements[e.placement], &pairs_->placement);
  config_.binding = static_cast<Binding>(e.binding);
  if (e.migrate != 0) config_.migrate = e.migrate == 2;
  policyChanged();
  rederive();
  for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
    if (!graph_.workflow(w).live) continue;
    graph_.workflow(w).tailsStale = true;
    markDirty(w);
  }
  return Status::kOk;
}

/// What is only kept where a policy asks for it, from the calls. No call is in a queue.
void Scheduler::rederive() {
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) cluster_.at(m).backlog = Backlog{};
  std::fill(waitingOf_.begin(), waitingOf_.end(), 0);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    Call& c = graph_.call(slot);
    c.charged = 0;
    c.attained = {};
    if (c.state == CallState::kReady) ready.push_back(slot);
    if (c.state == CallState::kPrefilling && tracksBacklog_) cluster_.at(c.instance).backlog.lease(c.cost);
  }
  std::sort(ready.begin(), ready.end(), [&](std::uint32_t a, std::uint32_t b) {
    return graph_.call(a).readyAt != graph_.call(b).readyAt ? graph_.call(a).readyAt < graph_.call(b).readyAt
                                                            : graph_.call(a).rank < graph_.call(b).rank;
  });
  if (observes_)
    for (const std::uint32_t slot : ready) observeAll(CallStep::kReady, graph_.call(slot), 0);
  if (!needsWholePath_) return;
  for (std::uint32_t workflow = 0; workflow < graph_.workflowSlots(); ++workflow) {
    Workflow& w = graph_.workflow(workflow);
    w.finishedHead = 0;
    if (!w.live || w.revealed == 0) continue;
    for (std::uint32_t slot = w.firstRevealed; slot != kNoSlot; slot = graph_.call(slot).nextRevealed) {
      Call& c = graph_.call(slot);
      if (c.state != CallState::kDone) continue;
      c.head = headOf(graph_, c);
      w.finishedHead = std::max(w.finishedHead, c.head);
    }
  }
}

}  // namespace laxity
