#include "scheduler/migrate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "placement/finish.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"

namespace laxity {

void Scheduler::migrate() {
  Move move;
  while (bestMove(&move)) {
    const std::uint32_t from = graph_.call(move.call).instance;
    dequeue(move.call);
    unassign(move.call);
    assign(move.call, move.instance);
    enqueue(move.call);
    serve({&move.instance, 1});
    if (gateOpen(from)) serve({&from, 1});
  }
  // Every instance with an open gate has had its chance at this instant; leases may have touched some again.
  std::size_t kept = 0;
  for (const std::uint32_t instance : touched_) {
    if (gateOpen(instance))
      cluster_.at(instance).touched = false;
    else
      touched_[kept++] = instance;
  }
  touched_.resize(kept);
  if (sharersDue_) std::fill(dueFor_.begin(), dueFor_.end(), 0);
  sharersDue_ = false;
}

void Scheduler::findTakers() {
  takers_.clear();
  takerClasses_.clear();
  for (const std::uint32_t m : cluster_.byTie()) {
    const Instance& i = cluster_.at(m);
    if (!queues_[m].empty() || waitingOf_[i.spec.model] == 0) continue;
    // Whoever has no room for the smallest call has none for any.
    if (!gateOpen(m) || !hasCredit(m, 1, 1, 1)) continue;
    const double u = utilisationOf(i, now_, config_.parameters);
    Taker taker{m, 0, secondsInProgress(i, now_), u, finishStretch(i, u)};
    while (taker.classIndex < takerClasses_.size() &&
           cluster_.at(takerClasses_[taker.classIndex].instance).hardwareClass != i.hardwareClass)
      ++taker.classIndex;
    if (taker.classIndex == takerClasses_.size()) takerClasses_.push_back({m, taker.wait, taker.stretch, {}});
    TakerClass& k = takerClasses_[taker.classIndex];
    k.wait = std::min(k.wait, taker.wait);
    k.stretch = std::min(k.stretch, taker.stretch);
    takers_.push_back(taker);
  }
}

bool Scheduler::bestMove(Move* best) {
  findTakers();
  if (takers_.empty()) return false;

  const double threshold = config_.parameters[Parameter::kMigrateMs] * 1e-3;
  const auto count = static_cast<std::size_t>(config_.parameters[Parameter::kMigrateCandidates]);
  bool found = false;
  const auto tooLittle = [&](double most) { return !(most > threshold) || (found && most < best->gain); };
  for (const std::uint32_t source : cluster_.byTie()) {
    if (queues_[source].empty()) continue;
    const double utilisation = utilisationOf(cluster_.at(source), now_, config_.parameters);
    // Where KV is not short, a finish is cheaper to tell than a rank: nobody is ranked where nobody can gain.
    const IndexedHeap& queue = queues_[source];
    const Instance& from = cluster_.at(source);
    const bool futile = queue.size() > count &&
                        from.ledger.reservedKv + from.backlog.kv <= from.spec.kvTokens &&
                        std::all_of(queue.entries().begin(), queue.entries().end(), [&](const HeapEntry& e) {
                          const PlacementView view = placementView(graph_.call(e.slot), e.slot);
                          return tooLittle(projectedOn(view, source, utilisation) - leastOnTakers(view));
                        });
#if !LAXITY_LAWS
    if (futile) continue;
#endif
    mostUrgent(source, count);
    for (const HeapEntry& urgent : urgent_) {
      const std::uint32_t slot = urgent.slot;
      const Call& c = graph_.call(slot);
      if (source < live_.breakers.size() && live_.breakers[source].probe == slot) continue;
      const PlacementView view = placementView(c, slot);
      const double there = projectedOn(view, source, utilisation);
      // Most calls cannot gain enough on the best of instances: nothing is asked of the takers about them.
      const double most = there - leastOnTakers(view);
#if !LAXITY_LAWS
      if (tooLittle(most)) continue;
#endif
      for (const Taker& t : takers_) {
        const std::uint32_t m = t.instance;
        if (!view.eligible(m)) continue;
        const double atMost = there - takerClasses_[t.classIndex].floor.at(t.wait, t.stretch);
#if !LAXITY_LAWS
        if (tooLittle(atMost)) continue;
#endif
        if (!hasCredit(m, kvNeed(c), c.sequences, laxity::newTokens(c, m))) continue;
        const Move move{there - projectedOn(view, m, t.utilisation),
                        c.rank,
                        view.estimate(m).exec,
                        cluster_.at(m).tie,
                        slot,
                        m};
        if (!(move.gain > threshold) || (found && !move.better(*best))) continue;
#if LAXITY_LAWS
        if (futile || tooLittle(most) || tooLittle(atMost)) std::abort();
#endif
        *best = move;
        found = true;
      }
    }
  }
  return found;
}

/// Not above the projected finish of a call on any of the takers. Leaves the floor of each class.
double Scheduler::leastOnTakers(const PlacementView& view) {
  double least = HUGE_VAL;
  for (TakerClass& k : takerClasses_) {
    const Instance& taker = cluster_.at(k.instance);
    if (view.estimates[taker.hardwareClass].exec == kNever) continue;
    k.floor = finishFloor(view, taker);
    least = std::min(least, k.floor.at(k.wait, k.stretch));
  }
  return least;
}

double Scheduler::projectedOn(const PlacementView& view, std::uint32_t instance, double utilisation) const {
  const Call& c = view.call;
  const Instance& m = cluster_.at(instance);
  const bool own = c.instance == instance;
  const Nanos work = m.ledger.work - (own ? c.cost.exec : 0);
  const std::uint32_t assigned = m.ledger.assigned - (own ? 1 : 0);
  const Nanos prefillAll = m.backlog.prefill - (own ? c.cost.prefill : 0);
  const std::int64_t others = m.backlog.kv - (own ? c.cost.kv : 0);
  // Positions matter only where KV is short.
  if (m.ledger.reservedKv + others + kvNeedOf(c) <= m.spec.kvTokens)
    return projectedFinish(view, m, view.estimate(instance),
                           {prefillAll, 0, work, assigned, static_cast<double>(assigned)}, utilisation);
  QueueAhead queue = queueAhead(this, instance, view);
#if LAXITY_LAWS
  if (own && queue.behind == 0) std::abort();
#endif
  if (own) --queue.behind;  // its own entry has its own key and rank: it counts as behind
  const bool contended = m.ledger.reservedKv + queue.kvAhead + kvNeedOf(c) > m.spec.kvTokens;
  const FinishTerms terms{contended ? queue.prefillAhead : prefillAll, queue.kvAhead, work, assigned,
                          static_cast<double>(contended ? m.ledger.leased + queue.behind : assigned)};
  return projectedFinish(view, m, view.estimate(instance), terms, utilisation);
}

/// Into urgent_, in no particular order. Keys of a type of their own, and whatever is laid over keys, are
/// computed again for every comparison.
void Scheduler::mostUrgent(std::uint32_t instance, std::size_t count) {
  const IndexedHeap& queue = queues_[instance];
  urgent_.assign(queue.entries().begin(), queue.entries().end());
  if (urgent_.size() <= count) return;
  const auto end = urgent_.begin() + static_cast<std::ptrdiff_t>(count);
  limitShares(queue, nullptr);
  std::visit(
      [&](const auto& order) {
        if constexpr (std::decay_t<decltype(order)>::kDynamic) {
          const WaitingCalls waiting{*this, queue};
          if constexpr (requires { order.prepare(waiting); }) order.prepare(waiting);
          using Key = decltype(callKey(order, std::declval<const OrderView&>()));
          if constexpr (std::is_same_v<Key, CallKey<double>>) {
            if (ageing_ == 0 && shareSlack_ == 0) {
              keyed_.clear();
              for (const HeapEntry& e : urgent_)
                keyed_.push_back({callKey(order, orderView(graph_.call(e.slot), instance)), e});
              std::nth_element(keyed_.begin(), keyed_.begin() + (end - urgent_.begin()), keyed_.end(),
                               [](const KeyedEntry& a, const KeyedEntry& b) {
                                 return AheadIndex::goesBefore(a.key, a.entry.rank, b.key, b.entry.rank);
                               });
              for (std::size_t i = 0; i < count; ++i) urgent_[i] = keyed_[i].entry;
              return;
            }
          }
        }
        std::nth_element(urgent_.begin(), end, urgent_.end(),
                         [&](const HeapEntry& a, const HeapEntry& b) { return goesBefore(order, a, b); });
      },
      config_.order);
  urgent_.resize(count);
}

}  // namespace laxity
