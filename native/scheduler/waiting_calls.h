// The calls that wait in one queue, as an order sees them before it compares their keys (order/order.h).
#pragma once

#include <algorithm>

#include "order/ageing.h"
#include "scheduler/call_key.h"
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

template <class Type>
bool Scheduler::goesBefore(const Type& order, const HeapEntry& a, const HeapEntry& b) const {
  return goesBefore(order, a, b, [&](const Call& c) { return orderView(c, c.instance); });
}

/// `viewOf`: what the order sees of a call.
template <class Type, class ViewOf>
bool Scheduler::goesBefore(const Type& order, const HeapEntry& a, const HeapEntry& b,
                           const ViewOf& viewOf) const {
  const Call& first = graph_.call(a.slot);
  const Call& second = graph_.call(b.slot);
  if (ageing_ > 0) {
    const bool late = overdue(first, now_, ageing_);
    if (late != overdue(second, now_, ageing_)) return late;
    if (late) return older(first, second);
  }
  if (shareSlack_ > 0) {
    const bool over = overShare(first);
    if (over != overShare(second)) return !over;
  }
  if constexpr (Type::kDynamic) {
    const auto key = callKey(order, viewOf(first));
    const auto other = callKey(order, viewOf(second));
    return key == other ? a.rank < b.rank : key > other;
  } else {
    return before(a, b);
  }
}

}  // namespace laxity
