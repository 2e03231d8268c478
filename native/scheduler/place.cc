// Where a call that became ready goes: candidates, the placement's choice, and what it may ask about queues.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "order/ageing.h"
#include "scheduler/call_key.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"

namespace laxity {

PlacementView Scheduler::placementView(const Call& c, std::uint32_t slot) const {
  const StageTemplate* stages = templateOf(workflowOf(c));
  return PlacementView{.call = c,
                       .workflow = workflowOf(c),
                       .cluster = cluster_,
                       .parameters = config_.parameters,
                       .estimates = slot == kNoSlot ? previewed_.data() : estimates(slot),
                       .stageTemplate = stages,
                       .now = now_,
                       .beta = beta(stages),
                       .withCredit = nullptr,
                       .queueAheadOf = &Scheduler::queueAhead,
                       .scheduler = this};
}

/// The placement's choice; kNoSlot, and placementFailed_, where one from outside made none.
std::uint32_t Scheduler::choose(const PlacementView& view) {
  const std::uint32_t chosen =
      std::visit([&](auto& placement) { return placement.choose(view); }, config_.placement);
  placementFailed_ = chosen == kNoSlot;
  return chosen;
}

/// A retry goes to another instance than the one that failed it, where there is one.
std::uint32_t Scheduler::chooseElsewhere(std::uint32_t slot) {
  const Call& c = graph_.call(slot);
  const std::uint32_t avoid = live_.calls[slot].avoid;
  bool other = false;
  for (std::uint32_t m = 0; m < cluster_.size() && !other; ++m) {
    const Instance& i = cluster_.at(m);
    other = m != avoid && i.accepts() && estimates(slot)[i.hardwareClass].exec != kNever;
  }
  const bool mask = other && cluster_.at(avoid).accepts();
  if (mask) cluster_.setMask(avoid, true);
  const std::uint32_t chosen = choose(placementView(c, slot));
  if (mask) cluster_.setMask(avoid, false);
  if (chosen != kNoSlot) live_.calls[slot].avoid = kNoSlot;
  return chosen;
}

void Scheduler::placeCall(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (rules_.any) liveQueued(slot);
  bool candidate = pairs_ != nullptr && pairCandidate(slot);
  const auto& classes = cluster_.classes();
  for (std::size_t k = 0; k < classes.size() && !candidate && pairs_ == nullptr; ++k) {
    candidate = classes[k].up > 0 && estimates(slot)[k].exec != kNever;
  }
  if (!candidate) {
    if (const RejectReason reason = impossible(slot); reason != RejectReason::kNone) {
      reject(slot, reason);
      return;
    }
    homeless_.push_back(graph_.ref(slot));
    homelessRevision_ = cluster_.revision();
    return;
  }
  const Workflow& w = graph_.workflow(c.workflow);
  if (needsBudget_) setBudget(c, w, restOf(w));
  if (pairs_ != nullptr) return placePair(slot);
  if (config_.binding == Binding::kAtReveal) {
    std::uint32_t chosen = rules_.any ? probeFor(slot) : kNoSlot;
    if (chosen == kNoSlot) {
      chosen = rules_.any && live_.calls[slot].avoid != kNoSlot ? chooseElsewhere(slot)
                                                                : choose(placementView(c, slot));
    }
    if (chosen == kNoSlot) return;
    assign(slot, chosen);
    enqueue(slot);
    touchQueue(c.instance);
  } else {
    enqueue(slot);
    touchSharers(c.model);
  }
}

/// Sorted once for all the calls that are placed at this instant, until the queue changes.
template <class Type>
const AheadIndex& Scheduler::aheadIndex(const Type& order, std::uint32_t instance) const {
  AheadIndex& index = ahead_[instance];
  if (index.stamp == aheadStamp_) return index;
  index.stamp = aheadStamp_;
  index.entries.clear();
  for (const HeapEntry& entry : queues_[instance].entries()) {
    const Call& c = graph_.call(entry.slot);
    index.entries.push_back({callKey(order, orderView(c, instance)), entry.rank, c.cost.prefill, c.cost.kv});
  }
  index.seal();
  return index;
}

/// What stands ahead of a key that is not demoted, by lines and sorted queues; false where only a scan can
/// tell.
template <class Type>
bool Scheduler::quickAhead(const Type& order, std::uint32_t instance, const CallKey<double>& key,
                           std::uint64_t rank, QueueAhead* sum) const {
  if (ageing_ > 0 || shareSlack_ > 0) return false;
  if (ahead_.size() < queues_.size()) ahead_.resize(queues_.size());
  const IndexedHeap& queue = queues_[instance];
  // Between an event and the refresh that follows it lines may be out of date.
  if (drawsLines_ && !key.demoted && dirty_.empty() && !learnsHorizons() && queue.size() > KeyLines::kWorth &&
      (!indexesAhead_ || ahead_[instance].leavesToLines(aheadStamp_))) {
    const KeyLines& lines = lines_[instance];
    KeyLines::Common common{now_, 0, 0};
    if (!needsDelta_ || linesHold(lines, cluster_.at(instance), &common)) {
      const KeyLines::Ahead ahead = lines.ahead(common, key.key, [&](std::uint32_t slot) {
        const Call& c = graph_.call(slot);
        return AheadIndex::goesBefore(callKey(order, orderView(c, instance)), c.rank, key, rank);
      });
      *sum = {ahead.prefill, ahead.kv, static_cast<std::uint32_t>(queue.size()) - ahead.calls,
              cluster_.at(instance).backlog.prefill};
      return true;
    }
  }
  if (!indexesAhead_) return false;
  *sum = aheadIndex(order, instance).ahead(key, rank);
  return true;
}

QueueAhead Scheduler::queueAhead(const void* self, std::uint32_t instance, const PlacementView& view) {
  const Scheduler& s = *static_cast<const Scheduler*>(self);
  const Call& c = view.call;
  QueueAhead sum;
  const Estimate e = view.estimate(instance);
  const auto add = [&](const HeapEntry& entry, bool ahead) {
    const CallCost& cost = s.graph_.call(entry.slot).cost;
    sum.prefillAll += cost.prefill;
    if (ahead) {
      sum.prefillAhead += cost.prefill;
      sum.kvAhead += cost.kv;
    } else {
      ++sum.behind;
    }
  };
  std::visit(
      [&](const auto& order) {
        // A call that waits here has its entry's key, whatever is estimated of it by now: it is not ahead of
        // itself.
        const OrderView mine = c.instance == instance
                                   ? s.orderView(c, instance)
                                   : OrderView{c,
                                               s.workflowOf(c),
                                               s.config_.parameters,
                                               s.now_,
                                               e.exec,
                                               s.needsDelta_ ? s.deltaOn(c, instance, e) : 0,
                                               s.beyond(c, s.workflowOf(c))};
        constexpr bool kDynamic = std::decay_t<decltype(order)>::kDynamic;
        const auto keyOf = [&](const OrderView& v) {
          if constexpr (kDynamic)
            return callKey(order, v);
          else
            return v.call.demoted ? demotedKey(v.call) : order.key(v);
        };
        const WaitingCalls waiting{s, s.queues_[instance]};
        if constexpr (requires { order.prepare(waiting); }) order.prepare(waiting);
        const auto key = keyOf(mine);
        [[maybe_unused]] std::optional<QueueAhead> quick;
        if constexpr (std::is_same_v<std::decay_t<decltype(key)>, CallKey<double>> &&
                      !requires { order.prepare(waiting); }) {
          if (s.quickAhead(order, instance, key, c.rank, &sum)) {
#if LAXITY_LAWS
            quick = sum;
#else
            return;
#endif
          }
        }
        sum = {};
        const bool late = s.ageing_ > 0 && overdue(c, s.now_, s.ageing_);
        s.limitShares(s.queues_[instance], &c);
        const bool over = c.workflow != kNoSlot && s.overShare(c);
        for (const HeapEntry& entry : s.queues_[instance].entries()) {
          if (s.ageing_ > 0) {
            const Call& other = s.graph_.call(entry.slot);
            const bool otherLate = overdue(other, s.now_, s.ageing_);
            if (late || otherLate) {
              add(entry, otherLate && (!late || older(other, c)));
              continue;
            }
          }
          if (s.shareSlack_ > 0) {
            const bool otherOver = s.overShare(s.graph_.call(entry.slot));
            if (otherOver != over) {
              add(entry, over);
              continue;
            }
          }
          if constexpr (kDynamic) {
            const auto other = keyOf(s.orderView(s.graph_.call(entry.slot), instance));
            add(entry, other > key || (other == key && entry.rank < c.rank));
          } else {
            add(entry, entry.key > key || (entry.key == key && entry.rank < c.rank));
          }
        }
#if LAXITY_LAWS
        if (quick && !(*quick == sum)) std::abort();
#endif
      },
      s.config_.order);
  return sum;
}

}  // namespace laxity
