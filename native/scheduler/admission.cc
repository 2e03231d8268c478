// Who may wait, and for how long: queue limits, queue timeout, hopeless calls, forgotten leases.
//
// Limits count ready calls without a lease. They are enforced after the leases of an instant, on the calls
// that became ready in it: whoever was leased needs no place in a queue, whoever waited before keeps it, and
// a retry keeps the place it once got. Ties: the latest to become ready is refused first. A call is hopeless
// from the first nanosecond at which now + its t_comp on the fastest class exceeds the declared deadline of
// its workflow. Demoted calls go after all others, by (ready time, rank); ageing, where it is on, lies over
// that as over every order: what has waited longer than ageingMs goes first, demoted or not.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

LiveRules::LiveRules(const PolicyParameters& p, bool learnsSpeeds) {
  const auto ms = [&](Parameter id) { return fromMs(p[id]); };
  queueLimit = static_cast<std::uint32_t>(p[Parameter::kQueueLimit]);
  tenantQueueLimit = static_cast<std::uint32_t>(p[Parameter::kTenantQueueLimit]);
  queueTimeout = ms(Parameter::kQueueTimeoutMs);
  hopeless = static_cast<Hopeless>(p[Parameter::kHopeless]);
  leaseTtl = ms(Parameter::kLeaseTtlMs);
  breaker = {static_cast<std::uint32_t>(p[Parameter::kBreakerFaults]), ms(Parameter::kBreakerWindowMs),
             ms(Parameter::kBreakerOpenMs), static_cast<std::uint32_t>(p[Parameter::kBreakerSuccesses])};
  panicShare = p[Parameter::kPanicShare];
  faultPenalty = ms(Parameter::kFaultPenaltyMs);
  backpressure = ms(Parameter::kBackpressureMs);
  retryBudget = p[Parameter::kRetryBudget];
  telemetry = ms(Parameter::kTelemetryMs);
  predictLengths = p[Parameter::kPredictLengths] >= 1;
  keepHorizons = p[Parameter::kKeepHorizons] >= 1;
  enginePriority = p[Parameter::kEnginePriority] >= 1;
  kvPark = ms(Parameter::kKvParkMs);
  retryBackoff = ms(Parameter::kRetryBackoffMs);
  any = queueLimit > 0 || tenantQueueLimit > 0 || queueTimeout > 0 || hopeless != Hopeless::kRun ||
        leaseTtl > 0 || breaker.faults > 0 || faultPenalty > 0 || retryBudget > 0 || predictLengths ||
        kvPark > 0 || learnsSpeeds;
}

/// After a change of the rules: lists are derived again from the calls, breakers forget what they no longer
/// need.
void Scheduler::liveRulesChanged() {
  const bool was = rules_.any;
  rules_ = LiveRules(config_.parameters, live_.speeds.learnsAny());
  if (rules_.breaker.faults == 0) {
    for (std::uint32_t m = 0; m < live_.breakers.size(); ++m) live_.breakers[m] = Breaker{};
  }
  updateMasks();
  if (rules_.any && !was) {
    std::vector<std::uint32_t> byRank;
    live_.calls.resize(graph_.callSlots());
    for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
      const CallState state = graph_.call(slot).state;
      if (state == CallState::kReady || state == CallState::kWaiting || leased(state)) byRank.push_back(slot);
    }
    std::sort(byRank.begin(), byRank.end(),
              [&](std::uint32_t a, std::uint32_t b) { return graph_.call(a).rank < graph_.call(b).rank; });
    for (const std::uint32_t slot : byRank) {
      live_.calls[slot] = LiveCall{};
      live_.calls[slot].admitted = true;
      if (leased(graph_.call(slot).state)) {
        live_.calls[slot].leasedAt = now_;
        live_.calls[slot].begunUnseen = true;
        live_.leases.append(slot, now_);
      } else {
        liveQueued(slot);
      }
    }
  } else if (!rules_.any && was) {
    live_.queued.clear();
    live_.leases.clear();
    live_.hopeless.clear();
    std::fill(live_.tenantQueued.begin(), live_.tenantQueued.end(), 0);
    live_.calls.clear();
    live_.fresh.clear();
  }
  if (rules_.any && rules_.hopeless != Hopeless::kRun) {
    for (std::uint32_t slot = live_.queued.front(); slot != kNoSlot; slot = live_.queued.next(slot))
      watchHopeless(slot);
  } else {
    while (!live_.hopeless.empty()) unwatchHopeless(live_.hopeless.top().slot);
  }
}

void Scheduler::liveRevealed(std::uint32_t slot) {
  if (live_.calls.size() <= slot) live_.calls.resize(std::size_t{slot} + 1);
  live_.calls[slot] = LiveCall{};
}

/// A ready call enters the queues, for the first time or again.
void Scheduler::liveQueued(std::uint32_t slot) {
  LiveCall& l = live_.calls[slot];
  if (l.queued) return;
  const std::uint16_t tenant = graph_.workflow(graph_.call(slot).workflow).tenant;
  if (live_.tenantQueued.size() <= tenant) live_.tenantQueued.resize(std::size_t{tenant} + 1);
  ++live_.tenantQueued[tenant];
  l.queued = true;
  live_.queued.append(slot, now_);
  if (!l.admitted) live_.fresh.push_back(graph_.ref(slot));
  l.admitted = true;
  if (rules_.hopeless != Hopeless::kRun) watchHopeless(slot);
}

void Scheduler::liveUnqueued(std::uint32_t slot) {
  LiveCall& l = live_.calls[slot];
  if (!l.queued) return;
  --live_.tenantQueued[graph_.workflow(graph_.call(slot).workflow).tenant];
  l.queued = false;
  live_.queued.remove(slot);
  unwatchHopeless(slot);
}

void Scheduler::liveGranted(std::uint32_t slot) {
  liveUnqueued(slot);
  LiveCall& l = live_.calls[slot];
  l.leasedAt = l.prefillStart = now_;
  l.begunUnseen = false;
  l.firstTokenAt = 0;
  l.firstTokenDue = cluster_.at(graph_.call(slot).instance).ledger.prefillsEnd;
  live_.leases.append(slot, now_);
}

/// What breakers say of its instance, or of its d, goes before what the placement saw in them.
LeaseReason Scheduler::liveReason(std::uint32_t slot, LeaseReason placed) const {
  const Call& c = graph_.call(slot);
  bool panic = false;
  const std::uint32_t legs[] = {c.instance, pairs_ == nullptr ? kNoSlot : pairs_->call(slot).decode};
  for (const std::uint32_t m : legs) {
    if (m >= live_.breakers.size()) continue;
    const Breaker& b = live_.breakers[m];
    if (b.state == BreakerState::kHalfOpen && b.probe == slot) return LeaseReason::kProbe;
    panic |= b.state == BreakerState::kOpen;
  }
  if (panic) return LeaseReason::kPanic;
  if (placed != LeaseReason::kBestScore) return placed;
  if (pairs_ == nullptr) {
    std::uint32_t others = cluster_.at(c.instance).accepts() ? ~0u : 0u;
    const auto& classes = cluster_.classes();
    for (std::size_t k = 0; k < classes.size(); ++k) {
      if (estimates(slot)[k].exec != kNever) others += classes[k].up;
    }
    if (others == 0) return LeaseReason::kOnlyFeasible;
  }
  return c.hasCached && newTokens(c, c.instance) < c.promptTokens ? LeaseReason::kAffinity : placed;
}

void Scheduler::liveSign(std::uint32_t slot) {
  if (live_.leases.contains(slot)) {
    live_.leases.remove(slot);
    live_.leases.append(slot, now_);
  }
}

void Scheduler::livePrefilled(std::uint32_t slot) {
  LiveCall& l = live_.calls[slot];
  if (live_.lastFirstToken.size() < cluster_.size()) live_.lastFirstToken.resize(cluster_.size());
  Nanos& last = live_.lastFirstToken[graph_.call(slot).instance];
  l.prefillStart = std::max(l.leasedAt, last);
  l.firstTokenAt = last = now_;
}

void Scheduler::liveReleased(std::uint32_t slot) {
  if (live_.leases.contains(slot)) live_.leases.remove(slot);
}

void Scheduler::watchHopeless(std::uint32_t slot) {
  unwatchHopeless(slot);
  Call& c = graph_.call(slot);
  const Workflow& w = graph_.workflow(c.workflow);
  if (!w.hasDeadline) return;
  Nanos best = kNever;
  for (std::size_t k = 0; k < stride_; ++k) {
    if (classTerms_[k].present > 0) best = std::min(best, estimates(slot)[k].exec);
  }
  if (best == kNever) return;
  LiveCall& l = live_.calls[slot];
  l.hopelessAt = w.deadline - best;
  live_.hopeless.push({-l.hopelessAt, c.rank, slot},
                      [&](std::uint32_t s, std::uint32_t at) { live_.calls[s].hopelessPosition = at; });
}

void Scheduler::unwatchHopeless(std::uint32_t slot) {
  const std::uint32_t position = live_.calls[slot].hopelessPosition;
  if (position == kNoSlot) return;
  live_.hopeless.removeAt(position,
                          [&](std::uint32_t s, std::uint32_t at) { live_.calls[s].hopelessPosition = at; });
  live_.calls[slot].hopelessPosition = kNoSlot;
}

/// Its deadline changed.
void Scheduler::liveDeadline(std::uint32_t workflow) {
  if (rules_.hopeless == Hopeless::kRun) return;
  for (std::uint32_t s = graph_.workflow(workflow).firstUnfinished; s != kNoSlot; s = graph_.call(s).next) {
    if (!live_.calls[s].queued) continue;
    if (graph_.call(s).demoted) demote(s, false);
    watchHopeless(s);
  }
}

void Scheduler::demote(std::uint32_t slot, bool demoted) {
  Call& c = graph_.call(slot);
  c.demoted = demoted;
  if (c.state != CallState::kWaiting) return;
  if (pairs_ != nullptr) rekeyPlan(graph_.workflow(c.workflow));
  queueOf(c).rekeyAt(c.heapPosition, staticKey(c, c.instance),
                     [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  redrawLine(slot);
  if (c.instance != kNoSlot)
    touchQueue(c.instance);
  else
    touchSharers(c.model);
}

/// What is due at `now_`.
void Scheduler::liveTimers() {
  if (rules_.hopeless != Hopeless::kRun) {
    while (!live_.hopeless.empty() && -live_.hopeless.top().key < now_) {
      const std::uint32_t slot = live_.hopeless.top().slot;
      unwatchHopeless(slot);
      if (rules_.hopeless == Hopeless::kReject)
        reject(slot, RejectReason::kDeadline);
      else
        demote(slot, true);
    }
  }
  if (rules_.queueTimeout > 0) {
    while (!live_.queued.empty() && now_ - live_.queued.since(live_.queued.front()) >= rules_.queueTimeout)
      reject(live_.queued.front(), RejectReason::kQueueTimeout);
  }
  if (rules_.leaseTtl > 0) {
    while (!live_.leases.empty() && now_ - live_.leases.since(live_.leases.front()) >= rules_.leaseTtl)
      lose(live_.leases.front());
  }
}

Nanos Scheduler::liveWake() const {
  Nanos wake = kNever;
  if (!live_.hopeless.empty()) wake = std::min(wake, -live_.hopeless.top().key + 1);
  if (rules_.queueTimeout > 0 && !live_.queued.empty())
    wake = std::min(wake, live_.queued.since(live_.queued.front()) + rules_.queueTimeout);
  if (rules_.leaseTtl > 0 && !live_.leases.empty())
    wake = std::min(wake, live_.leases.since(live_.leases.front()) + rules_.leaseTtl);
  return wake;
}

/// A lease without a sign of life: over for good, neutral for its instance, finished for its children.
void Scheduler::lose(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  Decision d{};
  d.kind = DecisionKind::kRevoke;
  d.rejectReason = RejectReason::kLost;
  d.epoch = c.epoch;
  d.call = graph_.ref(slot);
  d.instance = c.instance;
  d.decodeInstance = kNoSlot;
  rejected_.push_back(d);
  const std::uint32_t workflow = c.workflow;
  if (c.state == CallState::kPrefilling) prefilled(slot);
  end(slot, CallState::kDone);
  Workflow& w = graph_.workflow(workflow);
  if (tracksHorizon(w)) {
    const Nanos before = w.horizon;
    horizons_.finish(graph_, slot, 0);
    horizonMoved(workflow, before);
  }
  settle(workflow);
}

/// Refuses what became ready in this instant, got no lease and does not fit into the queues. A refused call
/// may have been the head of a queue: then there is more to lease.
///
/// Where a placement from outside fails, what is left is enforced by the next decide.
void Scheduler::enforceLimits(Nanos t) {
  if (placementFailed_) return;
  if (rules_.queueLimit > 0 || rules_.tenantQueueLimit > 0) {
    for (std::size_t i = live_.fresh.size(); i-- > 0;) {
      const Ref ref = live_.fresh[i];
      if (!ok(graph_.findCall(ref)) || !live_.calls[ref.slot].queued) continue;
      const std::uint16_t tenant = graph_.workflow(graph_.call(ref.slot).workflow).tenant;
      const bool full = rules_.queueLimit > 0 && live_.queued.size() > rules_.queueLimit;
      const bool tenantFull =
          rules_.tenantQueueLimit > 0 && live_.tenantQueued[tenant] > rules_.tenantQueueLimit;
      if (!full && !tenantFull) continue;
      reject(ref.slot, RejectReason::kQueueFull);
      // Whatever the refusal made leasable goes first: the next one may need no place any more.
      const Status placed = placeAll(t);
      decisions_.insert(decisions_.end(), rejected_.begin(), rejected_.end());
      rejected_.clear();
      if (!touched().empty() && ok(placed)) decideAll();
      if (placementFailed_) {
        live_.fresh.resize(i);
        return;
      }
    }
  }
  live_.fresh.clear();
}

bool Scheduler::auditLive() const {
  if (!rules_.any) return true;
  std::vector<std::uint32_t> tenants(live_.tenantQueued.size());
  std::size_t queued = 0;
  std::size_t leases = 0;
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    const Call& c = graph_.call(slot);
    const bool waits =
        c.state == CallState::kWaiting ||
        (c.state == CallState::kReady && slot < live_.calls.size() && live_.calls[slot].admitted);
    if (c.state == CallState::kFree) continue;
    if (live_.calls[slot].queued != waits || live_.queued.contains(slot) != waits) return false;
    if (live_.leases.contains(slot) != leased(c.state)) return false;
    leases += leased(c.state) ? 1 : 0;
    if (!waits) continue;
    ++queued;
    const std::uint16_t tenant = graph_.workflow(c.workflow).tenant;
    if (tenant >= tenants.size()) return false;
    ++tenants[tenant];
  }
  return queued == live_.queued.size() && leases == live_.leases.size() && tenants == live_.tenantQueued;
}

}  // namespace laxity
