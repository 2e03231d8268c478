// Instances that come, go and change, and what that means for the calls that wait or run there.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

Status Scheduler::instance(Nanos t, const InstanceEvent& e) {
  if (const Status time = timeStatus(t); !ok(time)) return time;
  if (e.change > InstanceChange::kRemove) return Status::kBadValue;
  if (e.revocable > 1) return Status::kBadValue;
  if (e.change == InstanceChange::kAdd) {
    if (e.spec.role != Role::kUnified) {
      if (const Status fits = Pairs::check(cluster_, e.spec); !ok(fits)) return fits;
    }
    const Status added = cluster_.add(e.instance, e.spec);
    if (!ok(added)) return added;
    if (queues_.size() < cluster_.size()) queues_.resize(cluster_.size());
    if (waitingSums_.size() < cluster_.size()) waitingSums_.resize(cluster_.size());
    if (shared_.size() <= e.spec.model) shared_.resize(std::size_t{e.spec.model} + 1);
    if (waitingOf_.size() < shared_.size()) waitingOf_.resize(shared_.size(), 0);
  } else {
    if (!cluster_.known(e.instance)) return Status::kUnknownInstance;
    // Only an add brings a removed instance back; but its orphaned leases may still be lost with it.
    const bool removed = cluster_.at(e.instance).condition == Condition::kRemoved;
    if (removed && e.change != InstanceChange::kDown) return Status::kBadState;
  }
  advance(t);
  if (EventRecord* r = tap(t, EventKind::kInstance)) r->instance = e;
  if (e.change == InstanceChange::kAdd) {
    setShape(e.spec.role);
    if (live_.revocable.size() < cluster_.size()) live_.revocable.resize(cluster_.size(), 0);
    live_.revocable[e.instance] = static_cast<std::uint8_t>(e.revocable);
    anyRevocable_ = anyRevocable_ || e.revocable != 0;
  }

  const Instance& m = cluster_.at(e.instance);
  switch (e.change) {
    case InstanceChange::kAdd:
      break;
    case InstanceChange::kUp:
      cluster_.setCondition(e.instance, Condition::kUp);
      break;
    case InstanceChange::kDrain:
      cluster_.setCondition(e.instance, Condition::kDraining);
      break;
    case InstanceChange::kDown:
      if (m.condition != Condition::kRemoved) cluster_.setCondition(e.instance, Condition::kDown);
      pairsChanged();
      if (m.spec.role == Role::kDecode)
        loseDecode(e.instance);
      else
        loseLeases(e.instance);
      break;
    case InstanceChange::kRemove:
      cluster_.setCondition(e.instance, Condition::kRemoved);
      break;
  }
  if (e.change == InstanceChange::kAdd && e.instance < live_.breakers.size())
    live_.breakers[e.instance] = Breaker{};
  updateMasks();
  if (e.change == InstanceChange::kAdd || e.change == InstanceChange::kRemove) instancesChanged();
  pairsChanged();
  if (!m.accepts()) {
    if (m.spec.role != Role::kDecode) requeueAll(e.instance);
    revokeAll(e.instance);
  }
  if (e.change == InstanceChange::kRemove) rejectStranded(m.spec.model);
  touch(e.instance);
  if (m.spec.role == Role::kDecode) touchSharers(m.spec.model);
  return Status::kOk;
}

/// The first instance makes the cluster unified or prefill-decode.
void Scheduler::setShape(Role role) {
  if ((role != Role::kUnified) == (pairs_ != nullptr)) return;
  if (role == Role::kUnified) {
    pairs_.reset();
  } else {
    const PairTerms terms{config_.firstToken, config_.parameters[Parameter::kOvercommit],
                          config_.pairs.overlap};
    pairs_ = std::make_unique<Pairs>(config_.pairPlacement, config_.pairs, terms);
  }
  policyChanged();
}

/// Their KV is lost: they are placed again, most urgent rank first.
void Scheduler::loseLeases(std::uint32_t instance) {
  std::vector<Ref> lost;
  for (std::uint32_t c = cluster_.at(instance).firstLease; c != kNoSlot; c = graph_.call(c).nextLease) {
    lost.push_back(graph_.ref(c));
  }
  std::sort(lost.begin(), lost.end(),
            [&](const Ref& a, const Ref& b) { return graph_.call(a.slot).rank < graph_.call(b.slot).rank; });
  for (const Ref& c : lost) backToReady(c.slot);
}

/// Every mean over the instances is another one now.
void Scheduler::instancesChanged() {
  cacheClasses();
  if (pairs_ != nullptr) pairs_->terms.overcommit = config_.parameters[Parameter::kOvercommit];
  priceTemplates();
  reestimateAll();
  reissueShared();
  pairsChanged();
}

/// Another share of the KV may be reserved: some waiting calls may no longer fit where they wait, others do
/// now.
void Scheduler::limitsChanged() {
  homelessRevision_ = ~cluster_.revision();
  pairsRevision_ = ~cluster_.revision();
  instancesChanged();
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    const std::vector<HeapEntry> waiting = queues_[m].entries();
    for (const HeapEntry& entry : waiting) {
      Call& c = graph_.call(entry.slot);
      if (c.state != CallState::kWaiting || c.instance != m) continue;
      if (c.cost.kv <= kvRoom(cluster_.at(m).spec)) continue;
      dequeue(entry.slot);
      unassign(entry.slot);
      c.state = CallState::kReady;
      ready_.push_back(graph_.ref(entry.slot));
    }
    touch(m);
  }
  for (std::size_t model = 0; model < shared_.size(); ++model)
    rejectStranded(static_cast<std::uint16_t>(model));
}

/// Waiting calls of an instance that no longer accepts any are placed again, most urgent rank first.
void Scheduler::requeueAll(std::uint32_t instance) {
  IndexedHeap& queue = queues_[instance];
  std::vector<HeapEntry> waiting = queue.entries();
  std::sort(waiting.begin(), waiting.end(),
            [](const HeapEntry& a, const HeapEntry& b) { return a.rank < b.rank; });
  for (const HeapEntry& entry : waiting) {
    // A probe that leaves changes masks, which may empty this queue in between.
    if (graph_.call(entry.slot).state != CallState::kWaiting) continue;
    dequeue(entry.slot);
    unassign(entry.slot);
    graph_.call(entry.slot).state = CallState::kReady;
    ready_.push_back(graph_.ref(entry.slot));
  }
}

/// Calls of the shared queue that nobody can serve any more. (Calls of own queues are checked when placed
/// again.)
void Scheduler::rejectStranded(std::uint16_t model) {
  std::vector<HeapEntry> waiting = shared_[model].entries();
  std::sort(waiting.begin(), waiting.end(),
            [](const HeapEntry& a, const HeapEntry& b) { return a.rank < b.rank; });
  for (const HeapEntry& entry : waiting) {
    if (const RejectReason reason = impossible(entry.slot); reason != RejectReason::kNone)
      reject(entry.slot, reason);
  }
  if (pairs_ == nullptr) return;
  // Without its last d a call can do nothing with the p in whose queue it waits.
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    if (cluster_.at(m).spec.role != Role::kPrefill || cluster_.at(m).spec.model != model) continue;
    const std::vector<HeapEntry> own = queues_[m].entries();
    for (const HeapEntry& entry : own) {
      if (graph_.call(entry.slot).state != CallState::kWaiting) continue;
      if (const RejectReason reason = impossible(entry.slot); reason != RejectReason::kNone)
        reject(entry.slot, reason);
    }
  }
}

Status Scheduler::capacity(Nanos t, const Capacity& e) {
  if (!cluster_.known(e.instance)) return Status::kUnknownInstance;
  if (e.kvFree < 0 || e.kvFree > kMaxKvTokens) return Status::kBadValue;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kCapacity)) r->capacity = e;
  // A sample never closes the gate: the ledger's own accounting comes first (CONTRACT 6).
  if (e.exact == 0) return Status::kOk;
  Instance& m = cluster_.at(e.instance);
  // A prefill in progress leaves budget at last: no other event tells. It stays open until the next lease.
  const bool opens = m.spec.mode == EngineMode::kChunked && m.exact.prefillFree == 0 && e.prefillFree > 0;
  m.exact = {t, e.kvFree, e.sequencesFree, e.prefillFree};
  if (opens) touch(e.instance);
  return Status::kOk;
}

}  // namespace laxity
