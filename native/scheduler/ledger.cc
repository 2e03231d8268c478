// What is believed of the instances while calls are assigned, leased and released; the credit that follows
// from it.
#include <algorithm>

#include "base/math.h"
#include "placement/finish.h"
#include "scheduler/scheduler.h"

namespace laxity {

void Scheduler::assign(std::uint32_t slot, std::uint32_t instance) {
  Call& c = graph_.call(slot);
  Instance& m = cluster_.at(instance);
  Estimate e = estimates(slot)[m.hardwareClass];
  std::uint32_t tokens = c.promptTokens;
  if (c.hasCached) {
    e = withCachedPrefix(e, c, instance, cluster_.latency(m));
    tokens = newTokens(c, instance);
  }
  c.instance = instance;
  const std::int64_t context = std::int64_t{c.promptTokens} + c.predictedTokens / 2;
  c.cost = {e.exec, e.prefill, kvNeed(c), context, c.sequences, tokens};
  m.ledger.assign(c.cost);
  cluster_.workChanged(instance);
  if (rules_.any) probeTaken(instance, slot);
}

void Scheduler::unassign(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (pairs_ != nullptr) {
    leavePrefill(slot);
    c.instance = kNoSlot;
    return;
  }
  cluster_.at(c.instance).ledger.unassign(c.cost);
  cluster_.workChanged(c.instance);
  const std::uint32_t left = c.instance;
  c.instance = kNoSlot;
  if (rules_.any) probeOver(left, slot);
}

/// Leases an assigned call that has left its queue, and reserves for it in the same step.
void Scheduler::grant(std::uint32_t slot, LeaseReason reason) {
  Call& c = graph_.call(slot);
  Instance& m = cluster_.at(c.instance);
  c.state = CallState::kPrefilling;
  observe(CallStep::kLeased, c);
  m.ledger.lease(c.cost, now_);
  if (tracksBacklog_) m.backlog.lease(c.cost);
  if (config_.feedback == Feedback::kBoundary) {
    m.exact.kvFree -= c.cost.kv;
    m.exact.sequencesFree -= c.cost.sequences;
    // Engines with a budget count it in tokens.
    m.exact.prefillFree -=
        m.spec.chunkTokens > 0 ? std::min(m.exact.prefillFree, c.cost.prefillTokens) : std::uint32_t{1};
  }
  if (m.spec.mode != EngineMode::kPrefillFirst) [[unlikely]] {
    m.ledger.prefillsEnd += cluster_.besideDecode(m, c.cost.prefill, c.cost.prefillTokens);
  }
  const double horizonMs = config_.parameters[Parameter::kUtilisationMs];
  if (tracksUtilisation_) {
    m.utilisation =
        m.utilisation * detExp(-toMs(now_ - m.utilisationAt) / horizonMs) + toMs(c.cost.prefill) / horizonMs;
    m.utilisationAt = now_;
  }
  c.previousLease = kNoSlot;
  c.nextLease = m.firstLease;
  if (m.firstLease != kNoSlot) graph_.call(m.firstLease).previousLease = slot;
  m.firstLease = slot;
  if (rules_.any) liveGranted(slot);
  if (!c.streams) startTimer(m.ledger.prefillsEnd, {slot, c.generation, c.epoch});
  decideLease(slot, kNoSlot, reason);
}

/// `decode` is kNoSlot on unified clusters.
void Scheduler::decideLease(std::uint32_t slot, std::uint32_t decode, LeaseReason reason) {
  const Call& c = graph_.call(slot);
  Decision d{};
  d.kind = DecisionKind::kLease;
  d.leaseReason = rules_.any ? liveReason(slot, reason) : reason;
  d.epoch = c.epoch;
  d.call = graph_.ref(slot);
  d.instance = c.instance;
  d.decodeInstance = decode;
  if (rules_.enginePriority) d.enginePriority = enginePriority(c);
  d.leaseNumber = leaseNumber_++;
  decisions_.push_back(d);
}

void Scheduler::release(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (pairs_ != nullptr) {
    if (rules_.any) liveReleased(slot);
    leaveDecode(slot);
    return leavePrefill(slot);
  }
  Instance& m = cluster_.at(c.instance);
  if (rules_.any) liveReleased(slot);
  if (c.state == CallState::kPrefilling) {
    m.ledger.firstToken(c.cost, now_);
    if (tracksBacklog_) m.backlog.firstToken(c.cost);
    if (m.spec.mode != EngineMode::kPrefillFirst) projectPrefills(m);
  }
  m.ledger.release(c.cost);
  if (c.previousLease != kNoSlot)
    graph_.call(c.previousLease).nextLease = c.nextLease;
  else
    m.firstLease = c.nextLease;
  if (c.nextLease != kNoSlot) graph_.call(c.nextLease).previousLease = c.previousLease;
  touch(c.instance);
}

bool Scheduler::hasCredit(std::uint32_t instance, std::int64_t kv, std::uint32_t sequences,
                          std::uint32_t tokens) const {
  const Instance& m = cluster_.at(instance);
  // A masked instance still serves the probe in its queue.
  if (m.condition != Condition::kUp || m.closedUntil > now_) return false;
  const std::int64_t limit = classTerms_[m.hardwareClass].kvLimit;
  if (m.spec.chunkTokens > 0 && m.spec.mode == EngineMode::kPrefillFirst && !joinsBatch(m, tokens))
      [[unlikely]]
    return false;
  if (config_.feedback == Feedback::kBoundary) {
    return m.exact.prefillFree > 0 && sequences <= m.exact.sequencesFree &&
           kv <= m.exact.kvFree + limit - m.spec.kvTokens;
  }
  return m.ledger.leased + sequences <= m.spec.maxSequences + config_.lookahead &&
         m.ledger.reservedKv + kv <= limit && prefillGateOpen(m);
}

/// Prefills run as batches: whether a prompt of `tokens` to compute is the first of one or keeps within its
/// budget. A larger prompt runs alone.
bool Scheduler::joinsBatch(const Instance& m, std::uint32_t tokens) const {
  if (config_.feedback == Feedback::kBoundary)
    return m.exact.prefillFree == m.spec.chunkTokens || tokens <= m.exact.prefillFree;
  const std::int64_t batches = std::int64_t{1} + config_.lookahead;
  return m.ledger.unprefilled < batches ||
         m.ledger.unprefilledTokens + tokens <= batches * m.spec.chunkTokens;
}

/// Whether the instance may be considered now. An empty ledger is an idle engine: its capacity is known
/// without a report.
bool Scheduler::gateOpen(std::uint32_t instance) {
  if (config_.feedback == Feedback::kLease) return true;
  Instance& m = cluster_.at(instance);
  if (m.exact.at == now_) return true;
  if (m.spec.role != Role::kUnified) {
    // What waits for its transfer on p, or for room on d, keeps no engine from standing at a boundary.
    if (m.spec.role == Role::kPrefill ? m.ledger.unprefilled > 0 : pairs_->admittedSequences(instance) > 0)
      return false;
  } else if (m.ledger.leased > 0) {
    return false;
  }
  const std::uint32_t prefills = m.spec.chunkTokens > 0 ? m.spec.chunkTokens : 1;
  m.exact = {now_, m.spec.kvTokens, m.spec.maxSequences, prefills};
  return true;
}

void Scheduler::touchSharers(std::uint16_t model) {
  for (std::uint32_t m : cluster_.byTie()) {
    if (cluster_.at(m).spec.model == model) touchIfRoom(m);
  }
}

/// Once for all changes of queues in an instant: nothing between them and the leases takes room away.
void Scheduler::touchDue() {
  sharersDue_ = false;
  for (std::size_t model = 0; model < dueFor_.size(); ++model) {
    if (dueFor_[model] == 0) continue;
    dueFor_[model] = 0;
    touchSharers(static_cast<std::uint16_t>(model));
  }
}

}  // namespace laxity
