// Outcomes of leases and what they say of an instance: breakers, penalties, retries.
//
// A masked instance is up, but gets no new calls: its breaker is open, or half-open with a probe assigned. A
// half-open instance without a probe takes the next call that it can serve, whatever the placement would say:
// otherwise nobody would ever learn that it has recovered. Ties between several: by perm. Panic: where masks
// leave fewer than panicShare of the instances of a model that are up, they are passed over. A fault counts
// as outstanding work of max(t_comp, faultPenaltyMs) for as long, so that an instance that fails fast looks
// as busy as one that serves.
//
// Prefill-decode: leg d and the link count against d, whose ok is the end of the call; leg p against p, whose
// ok is that its KV has arrived. Both roles have breakers, probes and panic of their own.
#include <algorithm>

#include "scheduler/scheduler.h"

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

/// The call was served.
void Scheduler::outcomeOk(std::uint32_t slot) {
  if (pairs_ == nullptr) {
    legOk(slot, graph_.call(slot).instance);
  } else {
    if (pairs_->call(slot).onPrefill) legOk(slot, graph_.call(slot).instance);
    legOk(slot, pairs_->call(slot).decode);
  }
  if (rules_.retryBudget > 0)
    live_.retryTokens = std::min(LiveState::kRetryReserve, live_.retryTokens + rules_.retryBudget);
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

}  // namespace laxity
