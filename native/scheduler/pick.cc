// How urgent a call is, and which of a queue is the most urgent.
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "order/ageing.h"
#include "placement/finish.h"
#include "scheduler/call_key.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"

namespace laxity {

/// CONTRACT 10 on a unified instance, for the wall time of the call's prefill there.
inline Nanos Scheduler::projected(const Call& c, const Instance& m, Nanos prefill) const {
  const std::int64_t context = m.ledger.context + c.promptTokens + c.predictedTokens / 2;
  const DecodePiece piece = cluster_.latency(m).piece(m.ledger.leased + 1, context);
  return std::max<Nanos>(0, m.ledger.prefillsEnd - now_) + prefill +
         roundFine(piece.at(context) * c.timedTokens);
}

/// A function of its own: `ratio` asks for delta with every pick, and what is rare would cost all.
[[gnu::noinline]] Nanos Scheduler::deltaBesideDecode(const Call& c, std::uint32_t instance,
                                                     Nanos prefill) const {
  const Instance& m = cluster_.at(instance);
  return projected(c, m, prefill + cluster_.besideDecode(m, prefill, laxity::newTokens(c, instance)));
}

Nanos Scheduler::deltaOn(const Call& c, std::uint32_t instance, const Estimate& e) const {
  const Instance& m = cluster_.at(instance);
  if (m.spec.mode != EngineMode::kPrefillFirst) [[unlikely]]
    return deltaBesideDecode(c, instance, e.prefill);
  return projected(c, m, e.prefill);
}

OrderView Scheduler::orderView(const Call& c, std::uint32_t instance) const {
  if (pairs_ != nullptr) [[unlikely]]
    return pairOrderView(c, instance);
  const Workflow& w = graph_.workflow(c.workflow);
  if (instance != kNoSlot) {
    const Nanos delta = needsDelta_ ? deltaOn(c, instance, {c.cost.prefill, c.cost.exec}) : 0;
    return {c, w, config_.parameters, now_, c.cost.exec, delta, beyond(c, w)};
  }
  Nanos best = 0;
  if (needsDelta_) {
    best = kNever;
    const Estimate* e = estimates(static_cast<std::uint32_t>(&c - &graph_.call(0)));
    for (std::uint32_t m : cluster_.byTie()) {
      const Instance& candidate = cluster_.at(m);
      if (!candidate.accepts() || e[candidate.hardwareClass].exec == kNever) continue;
      const Estimate& there = e[candidate.hardwareClass];
      best = std::min(
          best,
          deltaOn(c, m, c.hasCached ? withCachedPrefix(there, c, m, cluster_.latency(candidate)) : there));
    }
    if (best == kNever) best = c.mean;
  }
  return {c, w, config_.parameters, now_, c.mean, best, beyond(c, w)};
}

Nanos Scheduler::staticKey(const Call& c, std::uint32_t instance) const {
  if (dynamic_) return 0;
  if (c.demoted) return demotedKey(c);
  return std::visit(
      [&](const auto& order) -> Nanos {
        if constexpr (std::decay_t<decltype(order)>::kDynamic)
          return 0;
        else
          return order.key(orderView(c, instance));
      },
      config_.order);
}

/// The most urgent call of a queue: the heap's top for static keys, an exact argmax for keys that move with
/// time.
std::uint32_t Scheduler::pick(const IndexedHeap& queue) const {
  if (ageing_ > 0) {
    if (const std::uint32_t late = oldestOverdue(queue); late != kNoSlot) return late;
  }
  if (shareSlack_ > 0) [[unlikely]]
    return pickShared(queue);
  if (!dynamic_) return queue.top().slot;
  return std::visit(
      [&](const auto& order) -> std::uint32_t {
        using Type = std::decay_t<decltype(order)>;
        if constexpr (!Type::kDynamic) {
          return queue.top().slot;
        } else {
          const WaitingCalls waiting{*this, queue};
          if constexpr (requires { order.prepare(waiting); }) order.prepare(waiting);
          if constexpr (hasLine<Type>()) {
            if (drawsLines_ && !learnsHorizons() && queue.size() > KeyLines::kWorth)
              return pickByLines(order, queue);
          }
          return mostUrgentOf(order, [&](auto&& visit) {
            for (const HeapEntry& entry : queue.entries()) visit(entry.slot);
          });
        }
      },
      config_.order);
}

/// The argmax of (key, least rank) over what `each` visits: at least one call.
template <class Type, class EachSlot>
std::uint32_t Scheduler::mostUrgentOf(const Type& order, EachSlot&& each) const {
  const Call* best = nullptr;
  std::uint32_t bestSlot = kNoSlot;
  decltype(callKey(order, std::declval<const OrderView&>())) bestKey{};
  each([&](std::uint32_t slot) {
    const Call& c = graph_.call(slot);
    const auto key = callKey(order, orderView(c, c.instance));
    if (best != nullptr && !(key > bestKey || (key == bestKey && c.rank < best->rank))) return;
    best = &c;
    bestSlot = slot;
    bestKey = key;
  });
  return bestSlot;
}

template <class Type>
std::uint32_t Scheduler::pickByLines(const Type& order, const IndexedHeap& queue) const {
  const std::uint32_t instance = graph_.call(queue.top().slot).instance;
  KeyLines& lines = lines_[instance];
  const auto all = [&](auto&& visit) {
    for (const HeapEntry& entry : queue.entries()) visit(entry.slot);
  };
  KeyLines::Common common{now_, 0, 0};
  if (needsDelta_ && !linesHold(lines, cluster_.at(instance), &common)) return mostUrgentOf(order, all);
  const std::uint32_t slot = mostUrgentOf(order, [&](auto&& visit) { lines.eachMostUrgent(common, visit); });
#if LAXITY_LAWS
  if (slot != mostUrgentOf(order, all)) std::abort();
#endif
  return slot;
}

/// Whether Delta is linear over the calls of the queue of m: one piece of the latency model holds for all of
/// them, and nothing saturates.
bool Scheduler::linesHold(const KeyLines& lines, const Instance& m, KeyLines::Common* common) const {
  if (m.spec.mode != EngineMode::kPrefillFirst) return false;
  const std::int64_t context = m.ledger.context;
  const DecodePiece piece = cluster_.latency(m).piece(m.ledger.leased + 1, context + 1);
  if (static_cast<double>(context) + lines.mostContext() >= static_cast<double>(piece.contextEnd))
    return false;
  constexpr double kFine = 1.0 / (1 << kFineBits);
  common->ready = std::max(now_, m.ledger.prefillsEnd);
  common->perContext = static_cast<double>(piece.perContext) * kFine;
  common->iteration =
      static_cast<double>(piece.base) * kFine + common->perContext * static_cast<double>(context);
  const double longest = common->iteration + common->perContext * lines.mostContext();
  return longest * lines.mostOutput() < 1e-3 * static_cast<double>(kMaxTime);
}

/// Of a call in a queue of its own, under an order that has lines.
KeyLines::Line Scheduler::lineOf(const Call& c) const {
  KeyLines::Line line;
  const Workflow& w = graph_.workflow(c.workflow);
  line.last = c.demoted;
  line.prefill = c.cost.prefill;
  line.kv = c.cost.kv;
  std::visit(
      [&](const auto& order) {
        using Type = std::decay_t<decltype(order)>;
        if constexpr (hasLine<Type>()) {
          const KeyLine key = Type::line({c, w, config_.parameters, now_, c.cost.exec, 0, beyond(c, w)});
          line.start = key.start;
          line.offset = key.offset;
          line.scale = key.scale;
          if constexpr (Type::kNeedsDelta) {
            line.offset += static_cast<double>(c.cost.prefill);
            line.output = c.timedTokens;
            line.context = static_cast<double>(std::int64_t{c.promptTokens} + c.predictedTokens / 2);
          }
        }
      },
      config_.order);
  return line;
}

void Scheduler::redrawLines(const Workflow& w) {
  if (!w.live) return;
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot; slot = graph_.call(slot).next)
    redrawLine(slot);
}

/// The first of the overdue calls of a queue, kNoSlot without any (order/ageing.h).
std::uint32_t Scheduler::oldestOverdue(const IndexedHeap& queue) const {
  const Call* oldest = nullptr;
  std::uint32_t slot = kNoSlot;
  for (const HeapEntry& entry : queue.entries()) {
    const Call& c = graph_.call(entry.slot);
    if (!overdue(c, now_, ageing_) || (oldest != nullptr && !older(c, *oldest))) continue;
    oldest = &c;
    slot = entry.slot;
  }
  return slot;
}

}  // namespace laxity
