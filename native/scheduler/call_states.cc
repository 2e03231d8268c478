// A call becomes ready, goes back to ready for another attempt, or ends.
#include "scheduler/scheduler.h"
#include "workflow/budget.h"

namespace laxity {

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

}  // namespace laxity
