// What engines report of their leases, and callers who want a call no more.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {
namespace {

constexpr std::uint8_t kMaxRetries = 2;  // CONTRACT 3

}  // namespace

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
  if (sumsAttained_) attained(c, e.outputTokens);
  if (rules_.any) {
    outcomeOk(slot);
    if (e.outputTokens > 0) learnFrom(slot, e.outputTokens);
  }
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

}  // namespace laxity
