// Decisions out: a step of the scheduler places what is ready, then leases what has credit.
#include <algorithm>

#include "placement/finish.h"
#include "scheduler/scheduler.h"

namespace laxity {

Status Scheduler::placeAll(Nanos t) {
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  placementFailed_ = false;
  fireTimers();
  if (!homeless_.empty() && homelessRevision_ != cluster_.revision()) {
    ready_.insert(ready_.begin(), homeless_.begin(), homeless_.end());
    homeless_.clear();
  }
  for (std::size_t i = 0; i < dirty_.size(); ++i) refreshWorkflow(dirty_[i]);
  dirty_.clear();
  // A rejection ends a call, which may make others ready or change keys: until nothing is left to do.
  constexpr std::size_t kWorthAnIndex = 4;
  indexesAhead_ = ready_.size() >= kWorthAnIndex && ageing_ == 0 && shareSlack_ == 0;
  ++aheadStamp_;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const Ref c = ready_[i];
    if (!ok(graph_.findCall(c)) || graph_.call(c.slot).state != CallState::kReady) continue;
    placeCall(c.slot);
    if (!placementFailed_) continue;
    indexesAhead_ = false;
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(i));
    return Status::kPlacementFailed;
  }
  ready_.clear();
  indexesAhead_ = false;
  for (std::size_t i = 0; i < dirty_.size(); ++i) refreshWorkflow(dirty_[i]);
  dirty_.clear();
  return Status::kOk;
}

void Scheduler::decideAll() {
  placementFailed_ = false;
  if (!rejected_.empty()) decisions_.swap(rejected_);
  if (pairs_ != nullptr) return decidePairs();
  if (touched_.empty()) return;
  if (config_.binding == Binding::kAtReveal)
    leaseFromOwnQueues();
  else
    leaseFromSharedQueues();
}

void Scheduler::logDecisions(Nanos t) const {
  log_->add(t, EventKind::kDecide).header.count = static_cast<std::uint32_t>(decisions_.size());
  for (const Decision& d : decisions_) log_->add(t, EventKind::kDecision).decision = d;
}

// --- leases

void Scheduler::leaseFromOwnQueues() {
  openInstances_.clear();
  collectOpen();  // by tie, whatever touched them in which order: leases are numbered
  serve(openInstances_);
  if (migrates_) migrate();
}

/// Leases from each instance's own queue as long as it has credit for the most urgent call.
void Scheduler::serve(std::span<const std::uint32_t> instances) {
  for (const std::uint32_t instance : instances) {
    IndexedHeap& queue = queues_[instance];
    Instance& m = cluster_.at(instance);
    while (!queue.empty()) {
      // Whoever has no room for the smallest call has none for the most urgent one.
      if (!anyRevocable_ && !hasCredit(instance, 1, 1, 1)) break;
      const std::uint32_t slot = pick(queue);
      const Call& c = graph_.call(slot);
      // Strict head of line: a call that does not fit holds back the less urgent ones.
      if (!hasCredit(instance, c.cost.kv, c.cost.sequences, c.cost.prefillTokens)) {
        if (anyRevocable_ && revokeFor(slot, {&instance, 1}) != kNoSlot) continue;
        break;
      }
      const LeaseReason reason = looksAhead(m) ? LeaseReason::kLookahead : LeaseReason::kBestScore;
      dequeue(slot);
      grant(slot, reason);
    }
    m.touched = false;
  }
}

/// Moves touched instances with an open gate to the candidates, by tie.
void Scheduler::collectOpen() {
  std::size_t kept = 0;
  for (const std::uint32_t instance : touched_) {
    if (gateOpen(instance))
      openInstances_.push_back(instance);
    else
      touched_[kept++] = instance;
  }
  if (kept == touched_.size()) return;
  touched_.resize(kept);
  if (openInstances_.size() < 2) return;
  std::sort(openInstances_.begin(), openInstances_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return cluster_.at(a).tie < cluster_.at(b).tie; });
}

void Scheduler::leaseFromSharedQueues() {
  openInstances_.clear();
  collectOpen();
  // Models in the order of their first open instance by tie; leases of one do not touch the credit of
  // another.
  for (std::size_t i = 0; i < openInstances_.size(); ++i) {
    const std::uint16_t model = cluster_.at(openInstances_[i]).spec.model;
    while (leaseFromShared(model)) {
    }
    if (placementFailed_) {  // considered again by the next decide
      touched_.insert(touched_.end(), openInstances_.begin(), openInstances_.end());
      return;
    }
  }
  for (const std::uint32_t instance : openInstances_) cluster_.at(instance).touched = false;
}

/// Leases the head of a shared queue, if any candidate has credit for it. Strict head of line.
bool Scheduler::leaseFromShared(std::uint16_t model) {
  IndexedHeap& queue = shared_[model];
  if (queue.empty()) return false;
  const std::uint32_t slot = pick(queue);
  Call& c = graph_.call(slot);
  const std::int64_t need = kvNeed(c);
  withCredit_.clear();
  for (const std::uint32_t m : openInstances_) {
    const Instance& candidate = cluster_.at(m);
    if (candidate.spec.model != model || estimates(slot)[candidate.hardwareClass].exec == kNever) continue;
    if (!candidate.accepts()) continue;
    if (hasCredit(m, need, c.sequences, laxity::newTokens(c, m))) withCredit_.push_back(m);
  }
  if (withCredit_.empty()) return anyRevocable_ && revokeFor(slot, openInstances_) != kNoSlot;
  std::uint32_t chosen = rules_.any ? probeFor(slot) : kNoSlot;
  if (chosen == kNoSlot || std::find(withCredit_.begin(), withCredit_.end(), chosen) == withCredit_.end()) {
    if (rules_.any && withCredit_.size() > 1) std::erase(withCredit_, live_.calls[slot].avoid);
    PlacementView view = placementView(c, slot);
    view.withCredit = &withCredit_;
    chosen = choose(view);
    if (chosen == kNoSlot) return false;
  }
  queue.removeAt(c.heapPosition,
                 [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  const bool ahead = looksAhead(cluster_.at(chosen));
  assign(slot, chosen);
  grant(slot, ahead ? LeaseReason::kLookahead : LeaseReason::kBestScore);
  // The queue has another head: whoever had no room for the old one is a candidate again.
  touchSharers(model);
  collectOpen();
  return true;
}

}  // namespace laxity
