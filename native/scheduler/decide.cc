// Decisions out: keys, placements, credit, leases.
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "base/math.h"
#include "order/ageing.h"
#include "placement/finish.h"
#include "scheduler/call_key.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"
#include "workflow/budget.h"

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

// --- workflows

void Scheduler::horizonMoved(std::uint32_t workflow, Nanos before) {
  const Workflow& w = graph_.workflow(workflow);
  if (w.horizon != before && (!w.hasDeadline || needsHorizon_)) markDirty(workflow);
  if (w.horizon != before && pairs_ != nullptr) rekeyPlan(w);
  if (w.horizon != before && drawsLines_) redrawLines(w);
}

/// `remaining` -1, `predicted` 0: nothing new.
void Scheduler::declareHorizon(Workflow& w, Nanos remaining, bool exact, Nanos predicted) {
  if (predicted > 0) {
    w.predictedHorizon = predicted;
    predicts_ = true;
  }
  if (remaining < 0) return;
  w.remaining = remaining;
  w.declaredHorizon = std::min(kMaxTime, w.horizon + remaining);
  w.exactHorizon = exact;
}

/// F of OrderView. What is exact stands alone; a lower estimate gives way to a larger one that is learnt. A
/// call's own word goes before its workflow's.
Nanos Scheduler::beyond(const Call& c, const Workflow& w) const {
  if (!needsDelta_) return 0;
  const bool own = c.remaining >= 0;
  const Nanos declared = own ? c.remaining : std::max<Nanos>(0, w.declaredHorizon - w.horizon);
  if (own ? c.exactRemaining : w.exactHorizon) return declared;
  return std::max(declared, horizonLearner_.lower(w, c, horizonRules_) - w.horizon);
}

/// Brings deadline, tails, P and, where asked for, X up to date. Returns what is expected beyond the revealed
/// part.
Nanos Scheduler::refreshPaths(Workflow& w) {
  if (!w.hasDeadline) {
    const double k = config_.parameters[Parameter::kHorizonFactor];
    const double allowed = k * static_cast<double>(w.horizon);
    const Nanos limit = kMaxTime - w.arrival;
    w.deadline =
        w.arrival + (allowed < static_cast<double>(limit) ? static_cast<Nanos>(allowed + 0.5) : limit);
  }
  updateTails(graph_, w);
  const Nanos rest = restOf(w);
  w.criticalPath = criticalPath(graph_, w, rest);
  if (needsWholePath_) {
    w.wholePath = wholePath(graph_, w, rest);
    w.templateTime = w.stageTemplate < 0 || !config_.templateSlo
                         ? 0
                         : templates_[static_cast<std::size_t>(w.stageTemplate)].rest(0);
  }
  return rest;
}

void Scheduler::setBudget(Call& c, const Workflow& w, Nanos rest) const {
  c.below = tailOf(c, rest);
  const Nanos target = budgetMargin_ > 0 ? budgetTarget(w.arrival, w.deadline, budgetMargin_) : w.deadline;
  c.budget = budget(target, c.readyAt, c.below, w.criticalPath);
}

/// Brings what the order needs of the workflow up to date and issues the keys of its waiting calls again
/// where they changed.
void Scheduler::refreshWorkflow(std::uint32_t workflow) {
  Workflow& w = graph_.workflow(workflow);
  w.dirty = false;
  if (!w.live || w.unfinished == 0) return;
  const Nanos rest = needsBudget_ ? refreshPaths(w) : 0;
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot; slot = graph_.call(slot).next) {
    Call& c = graph_.call(slot);
    const bool forRoom = pairs_ != nullptr && leased(c.state) && pairs_->call(slot).waits;
    if (c.state != CallState::kWaiting && !forRoom) continue;
    if (needsBudget_) setBudget(c, w, rest);
    redrawLine(slot);
    IndexedHeap& queue = forRoom ? queues_[pairs_->call(slot).decode] : queueOf(c);
    const Nanos key = staticKey(c, c.instance);
    if (queue.entries()[c.heapPosition].key == key) continue;
    queue.rekeyAt(c.heapPosition, key,
                  [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
    if (pairs_ != nullptr && !forRoom && c.instance == kNoSlot) rekeyPlan(w);
    if (forRoom)
      touch(pairs_->call(slot).decode);
    else if (c.instance != kNoSlot)
      touchQueue(c.instance);
    else
      touchSharers(c.model);
  }
}

/// Keys of shared queues that no refresh issues again, after the means over the instances changed.
void Scheduler::reissueShared() {
  if (dynamic_ || reissues_) return;
  for (IndexedHeap& queue : shared_) {
    const std::vector<HeapEntry> waiting = queue.entries();
    for (const HeapEntry& entry : waiting) {
      const Call& c = graph_.call(entry.slot);
      queue.rekeyAt(c.heapPosition, staticKey(c, kNoSlot),
                    [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
    }
  }
}

/// What is learnt from a closed workflow whose calls are all done.
void Scheduler::workflowFinished(const Workflow& w) {
  if (w.revealed == 0) return;
  Nanos last = 0;
  for (std::uint32_t slot = w.firstRevealed; slot != kNoSlot; slot = graph_.call(slot).nextRevealed) {
    if (graph_.call(slot).state != CallState::kDone) return;
    last = std::max(last, graph_.call(slot).finishedAt);
  }
  const bool reissue = std::visit(
      [&](auto& order) {
        if constexpr (countsWorkflows<std::decay_t<decltype(order)>>())
          return order.workflowFinished(w, last);
        else
          return false;
      },
      config_.order);
  if (tracksHorizon(w)) horizonLearner_.finished(graph_, w);
  const bool again = pairs_ != nullptr && pairs_->ratios.add(w, last);
  for (std::uint32_t other = 0; again && other < graph_.workflowSlots(); ++other) {
    if (graph_.workflow(other).live) rekeyPlan(graph_.workflow(other));
  }
  if (!reissue) return;
  for (std::uint32_t other = 0; other < graph_.workflowSlots(); ++other) {
    if (graph_.workflow(other).live) markDirty(other);
  }
}

void Scheduler::observeAll(CallStep step, Call& c, std::uint32_t tokens) {
  std::visit(
      [&](auto& order) {
        using Type = std::decay_t<decltype(order)>;
        if constexpr (observes<Type>()) {
          Nanos served = 0;
          if constexpr (observesService<Type>()) {
            if (step == CallStep::kServed) served = modelTime(c, tokens);
          }
          order.observe({step, now_, tokens, served}, c, graph_.workflow(c.workflow), config_.parameters);
        }
      },
      config_.order);
}

/// Predicted prefill plus decode of `tokens` alone, of a leased call where it is.
Nanos Scheduler::modelTime(const Call& c, std::uint32_t tokens) const {
  const auto slot = static_cast<std::uint32_t>(&c - &graph_.call(0));
  const Instance& decodes = cluster_.at(pairs_ == nullptr ? c.instance : pairs_->call(slot).decode);
  if (tokens == 0) return c.cost.prefill;
  const Nanos decode = decodeTime(cluster_.latency(decodes), config_.firstToken, c.promptTokens, tokens);
  return c.cost.prefill + std::min(kMaxTime >> 17, decode);
}

const StageTemplate* Scheduler::templateOf(const Workflow& w) const {
  return config_.useTemplates && w.stageTemplate >= 0 ? &templates_[static_cast<std::size_t>(w.stageTemplate)]
                                                      : nullptr;
}

Nanos Scheduler::restOf(const Workflow& w) const {
  if (w.remaining >= 0) return w.remaining;
  const StageTemplate* stages = templateOf(w);
  return stages == nullptr ? 0 : stages->rest(w.cursor);
}

void Scheduler::priceTemplates() {
  if (pricedRevision_ == cluster_.revision()) return;
  pricedRevision_ = cluster_.revision();
  for (StageTemplate& stages : templates_) stages.price(cluster_, config_.firstToken);
}

double Scheduler::beta(const StageTemplate* stages) const {
  if (const double given = config_.parameters[Parameter::kBeta]; given > 0) return given;
  double mean = 1;
  if (stages != nullptr && stages->size() > 0) {
    mean = toSeconds(stages->rest(0)) / stages->size();
  } else if (meanCount_ > 0) {
    mean = toSeconds(static_cast<Nanos>(meanSum_ / meanCount_));
  }
  return mean * mean;
}

// --- placement

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
    c.instance = kNoSlot;
    enqueue(slot);
    touchSharers(c.model);
  }
}

/// Sorted once for all the calls that are placed at this instant, until the queue changes.
template <class Type>
const AheadIndex& Scheduler::aheadIndex(const Type& order, std::uint32_t instance) const {
  if (ahead_.size() < queues_.size()) ahead_.resize(queues_.size());
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
        const OrderView mine{c,
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
        if constexpr (std::is_same_v<std::decay_t<decltype(key)>, CallKey<double>> &&
                      !requires { order.prepare(waiting); }) {
          if (s.indexesAhead_) {
            sum = s.aheadIndex(order, instance).ahead(key, c.rank);
#if !LAXITY_LAWS
            return;
#endif
          }
        }
        [[maybe_unused]] const QueueAhead indexed = sum;
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
        if constexpr (std::is_same_v<std::decay_t<decltype(key)>, CallKey<double>> &&
                      !requires { order.prepare(waiting); }) {
          if (s.indexesAhead_ && !(indexed == sum)) std::abort();
        }
#endif
      },
      s.config_.order);
  return sum;
}

// --- order

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
          constexpr std::size_t kWorthLines = 4;
          if constexpr (hasLine<Type>()) {
            if (drawsLines_ && !learnsHorizons() && queue.size() > kWorthLines)
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

// --- queues

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
  if (c.instance < ahead_.size()) ahead_[c.instance].stamp = 0;
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
  if (c.instance < ahead_.size()) ahead_[c.instance].stamp = 0;
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

// --- ledger

void Scheduler::assign(std::uint32_t slot, std::uint32_t instance) {
  Call& c = graph_.call(slot);
  Instance& m = cluster_.at(instance);
  Estimate e = estimates(slot)[m.hardwareClass];
  std::uint32_t tokens = c.promptTokens;
  if (c.hasCached) {
    e = withCachedPrefix(e, c, instance, cluster_.latency(m));
    tokens = newTokens(c, instance);
  }
  c.instance = instance;
  const std::int64_t context = std::int64_t{c.promptTokens} + c.predictedTokens / 2;
  c.cost = {e.exec, e.prefill, kvNeed(c), context, c.sequences, tokens};
  m.ledger.assign(c.cost);
  cluster_.workChanged(instance);
  if (rules_.any) probeTaken(instance, slot);
}

void Scheduler::unassign(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (pairs_ != nullptr) {
    leavePrefill(slot);
    c.instance = kNoSlot;
    return;
  }
  cluster_.at(c.instance).ledger.unassign(c.cost);
  cluster_.workChanged(c.instance);
  const std::uint32_t left = c.instance;
  c.instance = kNoSlot;
  if (rules_.any) probeOver(left, slot);
}

/// Leases an assigned call that has left its queue, and reserves for it in the same step.
void Scheduler::grant(std::uint32_t slot, LeaseReason reason) {
  Call& c = graph_.call(slot);
  Instance& m = cluster_.at(c.instance);
  c.state = CallState::kPrefilling;
  observe(CallStep::kLeased, c);
  m.ledger.lease(c.cost, now_);
  if (tracksBacklog_) m.backlog.lease(c.cost);
  if (config_.feedback == Feedback::kBoundary) {
    m.exact.kvFree -= c.cost.kv;
    m.exact.sequencesFree -= c.cost.sequences;
    // Engines with a budget count it in tokens.
    m.exact.prefillFree -=
        m.spec.chunkTokens > 0 ? std::min(m.exact.prefillFree, c.cost.prefillTokens) : std::uint32_t{1};
  }
  if (m.spec.mode != EngineMode::kPrefillFirst) [[unlikely]] {
    m.ledger.prefillsEnd += cluster_.besideDecode(m, c.cost.prefill, c.cost.prefillTokens);
  }
  const double horizonMs = config_.parameters[Parameter::kUtilisationMs];
  if (tracksUtilisation_) {
    m.utilisation =
        m.utilisation * detExp(-toMs(now_ - m.utilisationAt) / horizonMs) + toMs(c.cost.prefill) / horizonMs;
    m.utilisationAt = now_;
  }
  c.previousLease = kNoSlot;
  c.nextLease = m.firstLease;
  if (m.firstLease != kNoSlot) graph_.call(m.firstLease).previousLease = slot;
  m.firstLease = slot;
  if (rules_.any) liveGranted(slot);
  if (!c.streams) startTimer(m.ledger.prefillsEnd, {slot, c.generation, c.epoch});

  Decision d{};
  d.kind = DecisionKind::kLease;
  d.leaseReason = reason;
  d.epoch = c.epoch;
  d.call = graph_.ref(slot);
  d.instance = c.instance;
  d.decodeInstance = kNoSlot;
  if (rules_.enginePriority) d.enginePriority = enginePriority(c);
  d.leaseNumber = leaseNumber_++;
  decisions_.push_back(d);
}

void Scheduler::release(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (pairs_ != nullptr) {
    if (rules_.any) liveReleased(slot);
    leaveDecode(slot);
    return leavePrefill(slot);
  }
  Instance& m = cluster_.at(c.instance);
  if (rules_.any) liveReleased(slot);
  if (c.state == CallState::kPrefilling) {
    m.ledger.firstToken(c.cost, now_);
    if (tracksBacklog_) m.backlog.firstToken(c.cost);
    if (m.spec.mode != EngineMode::kPrefillFirst) projectPrefills(m);
  }
  m.ledger.release(c.cost);
  if (c.previousLease != kNoSlot)
    graph_.call(c.previousLease).nextLease = c.nextLease;
  else
    m.firstLease = c.nextLease;
  if (c.nextLease != kNoSlot) graph_.call(c.nextLease).previousLease = c.previousLease;
  touch(c.instance);
}

bool Scheduler::hasCredit(std::uint32_t instance, std::int64_t kv, std::uint32_t sequences,
                          std::uint32_t tokens) const {
  const Instance& m = cluster_.at(instance);
  // A masked instance still serves the probe in its queue.
  if (m.condition != Condition::kUp || m.closedUntil > now_) return false;
  const std::int64_t limit = classTerms_[m.hardwareClass].kvLimit;
  if (m.spec.chunkTokens > 0 && m.spec.mode == EngineMode::kPrefillFirst && !joinsBatch(m, tokens))
      [[unlikely]]
    return false;
  if (config_.feedback == Feedback::kBoundary) {
    return m.exact.prefillFree > 0 && sequences <= m.exact.sequencesFree &&
           kv <= m.exact.kvFree + limit - m.spec.kvTokens;
  }
  return m.ledger.leased + sequences <= m.spec.maxSequences + config_.lookahead &&
         m.ledger.reservedKv + kv <= limit && prefillGateOpen(m);
}

/// Prefills run as batches: whether a prompt of `tokens` to compute is the first of one or keeps within its
/// budget. A larger prompt runs alone.
bool Scheduler::joinsBatch(const Instance& m, std::uint32_t tokens) const {
  if (config_.feedback == Feedback::kBoundary)
    return m.exact.prefillFree == m.spec.chunkTokens || tokens <= m.exact.prefillFree;
  const std::int64_t batches = std::int64_t{1} + config_.lookahead;
  return m.ledger.unprefilled < batches ||
         m.ledger.unprefilledTokens + tokens <= batches * m.spec.chunkTokens;
}

/// Whether the instance may be considered now. An empty ledger is an idle engine: its capacity is known
/// without a report.
bool Scheduler::gateOpen(std::uint32_t instance) {
  if (config_.feedback == Feedback::kLease) return true;
  Instance& m = cluster_.at(instance);
  if (m.exact.at == now_) return true;
  if (m.spec.role != Role::kUnified) {
    // What waits for its transfer on p, or for room on d, keeps no engine from standing at a boundary.
    if (m.spec.role == Role::kPrefill ? m.ledger.unprefilled > 0 : pairs_->admittedSequences(instance) > 0)
      return false;
  } else if (m.ledger.leased > 0) {
    return false;
  }
  const std::uint32_t prefills = m.spec.chunkTokens > 0 ? m.spec.chunkTokens : 1;
  m.exact = {now_, m.spec.kvTokens, m.spec.maxSequences, prefills};
  return true;
}

void Scheduler::touchSharers(std::uint16_t model) {
  for (std::uint32_t m : cluster_.byTie()) {
    if (cluster_.at(m).spec.model == model) touchIfRoom(m);
  }
}

/// Once for all changes of queues in an instant: nothing between them and the leases takes room away.
void Scheduler::touchDue() {
  sharersDue_ = false;
  for (std::size_t model = 0; model < dueFor_.size(); ++model) {
    if (dueFor_[model] == 0) continue;
    dueFor_[model] = 0;
    touchSharers(static_cast<std::uint16_t>(model));
  }
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
