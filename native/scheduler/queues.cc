// Calls that wait enter and leave the queues, and with them what is summed over these.
#include "scheduler/scheduler.h"

namespace laxity {

IndexedHeap& Scheduler::queueOf(const Call& c) {
  return c.instance != kNoSlot ? queues_[c.instance] : shared_[c.model];
}
const IndexedHeap& Scheduler::queueOf(const Call& c) const {
  return c.instance != kNoSlot ? queues_[c.instance] : shared_[c.model];
}

std::size_t Scheduler::waiting(std::uint32_t instance) const {
  return config_.binding == Binding::kAtReveal ? queues_[instance].size()
                                               : shared_[cluster_.at(instance).spec.model].size();
}

void Scheduler::enqueue(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  c.state = CallState::kWaiting;
  if (c.instance < ahead_.size()) ahead_[c.instance].queueChanged();
  if (drawsLines_) lines_[c.instance].add(slot, lineOf(c), &linePositions_);
  queueOf(c).push({staticKey(c, c.instance), c.rank, slot},
                  [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  if (tracksBacklog_ && c.instance != kNoSlot) {
    cluster_.at(c.instance).backlog.enter(c.cost);
    ++waitingOf_[c.model];
  }
  if (pairs_ != nullptr && c.instance == kNoSlot && pairs_->plans()) joinPlan(slot);
}

void Scheduler::dequeue(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (c.instance < ahead_.size()) ahead_[c.instance].queueChanged();
  if (pairs_ != nullptr && c.instance == kNoSlot) leavePlan(slot);
  queueOf(c).removeAt(c.heapPosition,
                      [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  if (drawsLines_) lines_[c.instance].remove(slot, &linePositions_);
  if (tracksBacklog_ && c.instance != kNoSlot) {
    cluster_.at(c.instance).backlog.leave(c.cost);
    --waitingOf_[c.model];
  }
  if (c.instance != kNoSlot)
    touchQueue(c.instance);
  else
    touchSharers(c.model);
}

}  // namespace laxity
