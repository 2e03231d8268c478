// What an order needs of a workflow, brought up to date: horizons, paths, budgets, and the keys that follow
// from them.
#include <algorithm>
#include <type_traits>

#include "scheduler/scheduler.h"
#include "workflow/budget.h"

namespace laxity {

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
  if (!learnsHorizons() || (own ? c.exactRemaining : w.exactHorizon)) return declared;
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
  return c.cost.prefill + std::min(kMaxEstimate, decode);
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

}  // namespace laxity
