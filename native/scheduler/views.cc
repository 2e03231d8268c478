// Read-only answers for receipts, dashboards and engines.
#include <algorithm>

#include "base/math.h"
#include "scheduler/waiting_calls.h"
#include "workflow/budget.h"

namespace laxity {

/// For engines that sort by a static integer: the static key in ms, larger is more urgent; under an order
/// that moves with time, the deadline takes its place.
std::int32_t Scheduler::enginePriority(const Call& c) const {
  const Nanos key = dynamic_ ? -graph_.workflow(c.workflow).deadline : staticKey(c, c.instance);
  return static_cast<std::int32_t>(std::clamp<Nanos>(key / kMillisecond, INT32_MIN, INT32_MAX));
}

/// A half-open instance that waits for a probe and can serve the call: the first by perm.
std::uint32_t Scheduler::probeFor(std::uint32_t slot) const {
  if (!live_.halfOpen) return kNoSlot;
  for (const std::uint32_t m : cluster_.byTie()) {
    if (wantsProbe(m) && estimates(slot)[cluster_.at(m).hardwareClass].exec != kNever) return m;
  }
  return kNoSlot;
}

/// The same among decode instances.
std::uint32_t Scheduler::probeDecodeFor(std::uint32_t slot) const {
  if (!live_.halfOpen) return kNoSlot;
  for (const std::uint32_t m : cluster_.byTie()) {
    const Instance& d = cluster_.at(m);
    if (d.spec.role == Role::kDecode && wantsProbe(m) && pairs_->decodeAlone(slot)[d.hardwareClass] != kNever)
      return m;
  }
  return kNoSlot;
}

/// Delta of CONTRACT 10, on the instance the call is assigned to, else on the best. A lease's own prefill is
/// among those that end at prefillsEnd already.
Nanos Scheduler::projection(std::uint32_t slot) const {
  const Call& c = graph_.call(slot);
  if (pairs_ != nullptr) {
    if (leased(c.state)) return pairs_->decodeFinish(c, pairs_->call(slot), now_) - now_;
    return pairDelta(c, slot, c.instance);
  }
  if (c.instance != kNoSlot && leased(c.state)) {
    const Instance& m = cluster_.at(c.instance);
    const DecodePiece piece = cluster_.latency(m).piece(m.ledger.leased, m.ledger.context);
    return std::max<Nanos>(0, m.ledger.prefillsEnd - now_) +
           roundFine(piece.at(m.ledger.context) * c.timedTokens);
  }
  if (c.instance != kNoSlot) return deltaOn(c, c.instance, {c.cost.prefill, c.cost.exec});
  Nanos best = kNever;
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    const Instance& i = cluster_.at(m);
    const Estimate& e = estimates(slot)[i.hardwareClass];
    if (!i.accepts() || e.exec == kNever) continue;
    best = std::min(best, deltaOn(c, m, c.hasCached ? withCachedPrefix(e, c, m, cluster_.latency(i)) : e));
  }
  return best;
}

Status Scheduler::preview(const Reveal& e, std::vector<Candidate>* candidates, std::uint32_t* chosen) {
  candidates->clear();
  *chosen = kNoSlot;
  const bool known = e.workflow.slot != kNoSlot;
  if (known) {
    if (const Status found = graph_.find(e.workflow); !ok(found)) return found;
  }
  Call c;
  c.stage = e.stage;
  c.model = e.model;
  c.adapter = static_cast<std::uint8_t>(e.adapter);
  c.sequences = std::max<std::uint16_t>(1, e.sequences);
  c.workflow = e.workflow.slot;
  c.promptTokens = e.promptTokens;
  c.predictedTokens = e.predictedTokens;
  if (c.predictedTokens == 0) {
    const std::int32_t stages = known ? graph_.workflow(e.workflow.slot).stageTemplate : -1;
    c.predictedTokens = std::max(1u, live_.lengths.predict(stages, e.stage).mean);
    if (e.predictedHigh > 0) c.predictedTokens = std::min(c.predictedTokens, e.predictedHigh);
  }
  c.predictedHigh = std::max(e.predictedHigh, c.predictedTokens);
  c.timedTokens = timedTokens(c);
  c.cached[0] = e.cached[0];
  c.cached[1] = e.cached[1];
  c.hasCached = e.cached[0].instance != kNoSlot || e.cached[1].instance != kNoSlot;
  c.readyAt = c.revealedAt = now_;
  c.rank = ~std::uint64_t{0};
  previewed_.assign(stride_ + 1, {});
  previewedDecode_.assign(stride_ + 1, kNever);
  if (!estimateInto(c, previewed_.data())) return Status::kOk;
  previewWorkflow_ = Workflow{};
  previewWorkflow_.arrival = now_;
  previewWorkflow_.horizon = previewWorkflow_.criticalPath = previewWorkflow_.wholePath = c.mean;
  previewWorkflow_.deadline =
      now_ + static_cast<Nanos>(config_.parameters[Parameter::kHorizonFactor] * static_cast<double>(c.mean));
  if (needsBudget_) {
    const Workflow& w = workflowOf(c);
    const Nanos target = budgetMargin_ > 0 ? budgetTarget(w.arrival, w.deadline, budgetMargin_) : w.deadline;
    c.budget = budget(target, c.readyAt, 0, std::max<Nanos>(w.criticalPath, c.mean));
  }
  if (pairs_ != nullptr) {
    const PairView view = pairView(c, kNoSlot);
    view.eachPrefill([&](std::uint32_t m, const Instance& p) {
      const auto best = pairs_->best(cluster_, c, previewed_.data(), previewedDecode_.data(), m, now_);
      if (best.decode != kNoSlot) candidates->push_back({m, previewed_[p.hardwareClass], best.finish - now_});
    });
    if (candidates->empty()) return Status::kOk;
    PairPlacement copy = pairs_->placement;
    *chosen = std::visit([&](auto& placement) { return placement.choosePrefill(view); }, copy);
    return Status::kOk;
  }
  const PlacementView view = placementView(c, kNoSlot);
  view.eachCandidate([&](std::uint32_t m, const Instance&, const Estimate& cost) {
    candidates->push_back({m, cost, deltaOn(c, m, cost)});
  });
  if (candidates->empty()) return Status::kOk;
  Placement copy = config_.placement;  // a placement may count its choices
  *chosen = std::visit([&](auto& placement) { return placement.choose(view); }, copy);
  return Status::kOk;
}

double Scheduler::keyOf(std::uint32_t slot) const {
  const Call& c = graph_.call(slot);
  if (c.demoted) return -1e300;
  return std::visit(
      [&](const auto& order) {
        const WaitingCalls waiting{*this, queueOf(c)};
        if constexpr (requires { order.prepare(waiting); }) order.prepare(waiting);
        const auto key = order.key(orderView(c, c.instance));
        if constexpr (requires { key.leading(); })
          return static_cast<double>(key.leading());
        else
          return static_cast<double>(key);
      },
      config_.order);
}

std::vector<std::uint32_t> Scheduler::queueInOrder(std::uint32_t instance) const {
  const Instance& m = cluster_.at(instance);
  const bool own = config_.binding == Binding::kAtReveal || m.spec.role == Role::kDecode;
  return inOrder(own ? queues_[instance] : shared_[m.spec.model]);
}

std::vector<std::uint32_t> Scheduler::inOrder(const IndexedHeap& queue) const {
  std::vector<HeapEntry> entries = queue.entries();
  limitShares(queue, nullptr);
  std::visit(
      [&](const auto& order) {
        const WaitingCalls waiting{*this, queue};
        if constexpr (requires { order.prepare(waiting); }) order.prepare(waiting);
        std::sort(entries.begin(), entries.end(),
                  [&](const HeapEntry& a, const HeapEntry& b) { return goesBefore(order, a, b); });
      },
      config_.order);
  std::vector<std::uint32_t> slots;
  for (const HeapEntry& e : entries) slots.push_back(e.slot);
  return slots;
}

}  // namespace laxity
