// The calls that wait in one queue, as an order sees them before it compares their keys (order/order.h).
#pragma once

#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

struct Scheduler::WaitingCalls {
  const Scheduler& scheduler;
  const IndexedHeap& queue;

  template <class Visit>
  void each(Visit&& visit) const {
    for (const HeapEntry& entry : queue.entries()) {
      const Call& c = scheduler.graph_.call(entry.slot);
      visit(scheduler.orderView(c, c.instance));
    }
  }
  Nanos now() const { return scheduler.now_; }
  /// Sequences that the instances of the queue run at once. The queue must not be empty.
  std::int64_t slots() const {
    const Call& first = scheduler.graph_.call(queue.top().slot);
    if (first.instance != kNoSlot) return scheduler.cluster_.at(first.instance).spec.maxSequences;
    std::int64_t sum = 0;
    for (const Instance& m : scheduler.cluster_.instances()) {
      if (m.accepts() && m.spec.model == first.model) sum += m.spec.maxSequences;
    }
    return std::max<std::int64_t>(1, sum);
  }
};

}  // namespace laxity
