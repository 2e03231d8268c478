// A scheduler begins; its timers.
#include "scheduler/scheduler.h"

namespace laxity {
namespace {

constexpr std::uint64_t kRetryStream = 7;

}  // namespace

Scheduler::Scheduler(SchedulerConfig config, SchedulerMemory memory)
    : config_(std::move(config)),
      cluster_(config_.latencies, config_.tieSeed),
      graph_(std::move(memory.graph)),
      estimates_(std::move(memory.estimates)),
      queues_(std::move(memory.queues)),
      rules_(config_.parameters, false),
      retryRandom_(config_.tieSeed, kRetryStream) {
  graph_.clear();
  estimates_.clear();
  for (IndexedHeap& queue : queues_) queue.clear();
  policyChanged();
  for (auto& entries : config_.templates) templates_.emplace_back(entries);
}

Status Scheduler::findAttempt(const CallAttempt& a) const {
  const Status found = graph_.findCall(a.call);
  if (!ok(found)) return found;
  const Call& c = graph_.call(a.call.slot);
  if (terminal(c.state) || a.epoch < c.epoch) return Status::kStale;
  return a.epoch == c.epoch ? Status::kOk : Status::kUnknownCall;
}

Status Scheduler::timer(Nanos t) {
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  tap(t, EventKind::kTimer);
  fireTimers();
  return Status::kOk;
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
