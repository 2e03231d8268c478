// The policy and its parameters: what events read of them, and what has to follow when they change.
#include <algorithm>

#include "scheduler/scheduler.h"
#include "workflow/budget.h"

namespace laxity {

void Scheduler::policyChanged() {
  std::visit(
      [&](const auto& order) {
        using Type = std::decay_t<decltype(order)>;
        dynamic_ = Type::kDynamic;
        drawsLines_ = hasLine<Type>() && config_.binding == Binding::kAtReveal && pairs_ == nullptr;
        needsBudget_ = Type::kNeedsBudget;
        needsHorizon_ = Type::kNeedsHorizon;
        needsDelta_ = Type::kNeedsDelta;
        needsWholePath_ = needsWholePath<Type>();
        observes_ = observes<Type>();
        countsWorkflows_ = countsWorkflows<Type>();
      },
      config_.order);
  reissues_ = needsBudget_ || countsWorkflows_ || (needsHorizon_ && !dynamic_);
  cacheParameters();
  migrates_ = config_.migrate && config_.binding == Binding::kAtReveal && pairs_ == nullptr;
  std::visit(
      [&](auto& placement) {
        using Type = std::decay_t<decltype(placement)>;
        tracksUtilisation_ = kNeedsUtilisation<Type> || migrates_;
        tracksBacklog_ = kNeedsBacklog<Type> || migrates_;
        cluster_.balance(kBalancesCalls<Type> ? Load::kCalls : Load::kWork);
        if constexpr (requires { placement.seed(config_.placementSeed); })
          placement.seed(config_.placementSeed);
      },
      config_.placement);
  if (pairs_ == nullptr) return;
  tracksBacklog_ =
      std::visit([](const auto& p) { return kNeedsBacklog<std::decay_t<decltype(p)>>; }, pairs_->placement);
  tracksUtilisation_ = false;
  countsWorkflows_ = countsWorkflows_ || pairs_->plans();
}

/// Parameters in the form in which events read them.
void Scheduler::cacheParameters() {
  ageing_ = fromMs(config_.parameters[Parameter::kAgeingMs]);
  budgetMargin_ = config_.parameters[Parameter::kBudgetMargin];
  horizonRules_ = {config_.parameters[Parameter::kStructuralMinimum] > 0,
                   config_.parameters[Parameter::kPredictHorizons] > 0,
                   config_.parameters[Parameter::kHorizonQuantile]};
  const double slack = config_.parameters[Parameter::kTenantSlack];
  shareSlack_ = slack > 0 ? std::max<std::int64_t>(1, FairShares::slack(slack)) : 0;
  sacrifices_ =
      config_.parameters[Parameter::kSacrifice] > 0 &&
      (std::holds_alternative<Ratio>(config_.order) || std::holds_alternative<LevelRatio>(config_.order));
  if (pairs_ != nullptr)
    pairs_->usePrice(config_.binding == Binding::kAtCredit ? config_.parameters[Parameter::kKvPrice] : 0,
                     config_.parameters[Parameter::kKvPriceMs]);
}

Status Scheduler::setParameter(Nanos t, const SetParameter& e) {
  PolicyParameters changed = config_.parameters;
  if (e.parameter > 0xffff || !changed.set(static_cast<std::uint16_t>(e.parameter), e.value))
    return Status::kBadValue;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kSetParameter)) r->setParameter = e;
  config_.parameters = changed;
  const std::int64_t slack = shareSlack_;
  cacheParameters();
  sharesChanged(slack);
  for (std::uint32_t w = 0; drawsLines_ && w < graph_.workflowSlots(); ++w) redrawLines(graph_.workflow(w));
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kAgeingMs)) {
    for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
      if (cluster_.known(m)) touch(m);
    }
  }
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kBudgetMargin)) {
    for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
      if (graph_.workflow(w).live) markDirty(w);
    }
  }
  if (e.parameter >= static_cast<std::uint32_t>(Parameter::kQueueLimit)) liveRulesChanged();
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kOvercommit)) limitsChanged();
  if (e.parameter == static_cast<std::uint32_t>(Parameter::kHorizonFactor)) {
    for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
      if (graph_.workflow(w).live && !graph_.workflow(w).hasDeadline) markDirty(w);
    }
  }
  return Status::kOk;
}

/// Waiting calls are placed and keyed again under the new policy; leases stay. An order that keeps state
/// starts anew: it is told of every call that waits, and a lease of before is charged to nobody until it is
/// over.
Status Scheduler::setPolicy(Nanos t, const SetPolicy& e) {
  const auto orders = orderNames();
  const auto placements = pairs_ == nullptr ? placementNames() : pairPlacementNames();
  if (e.order >= orders.size() || e.placement >= placements.size() || e.binding > 1 || e.migrate > 2)
    return Status::kUnknownPolicy;
  Order order;
  Placement placement;
  makeOrder(orders[e.order], &order);
  if (pairs_ == nullptr) makePlacement(placements[e.placement], &placement);
  const bool horizons =
      std::visit([](const auto& o) { return std::decay_t<decltype(o)>::kNeedsHorizon; }, order);
  if (horizons && !needsHorizon_ && !rules_.keepHorizons) {
    for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
      if (graph_.workflow(w).live && graph_.workflow(w).hasDeadline) return Status::kBadState;
    }
  }
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kSetPolicy)) r->setPolicy = e;

  std::vector<Ref> waiting;
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    Call& c = graph_.call(slot);
    if (c.state != CallState::kWaiting) continue;
    waiting.push_back(graph_.ref(slot));
    dequeue(slot);
    if (c.instance != kNoSlot) unassign(slot);
    c.state = CallState::kReady;
  }
  std::sort(waiting.begin(), waiting.end(),
            [&](Ref a, Ref b) { return graph_.call(a.slot).rank < graph_.call(b.slot).rank; });
  ready_.insert(ready_.begin(), waiting.begin(), waiting.end());
  config_.order = order;
  if (pairs_ == nullptr)
    config_.placement = placement;
  else
    makePairPlacement(placements[e.placement], &pairs_->placement);
  config_.binding = static_cast<Binding>(e.binding);
  if (e.migrate != 0) config_.migrate = e.migrate == 2;
  policyChanged();
  rederive();
  for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
    if (!graph_.workflow(w).live) continue;
    graph_.workflow(w).tailsStale = true;
    markDirty(w);
  }
  return Status::kOk;
}

/// What is only kept where a policy asks for it, from the calls. No call is in a queue.
void Scheduler::rederive() {
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) cluster_.at(m).backlog = Backlog{};
  std::fill(waitingOf_.begin(), waitingOf_.end(), 0);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    Call& c = graph_.call(slot);
    c.charged = 0;
    c.attained = {};
    if (c.state == CallState::kReady) ready.push_back(slot);
    if (c.state == CallState::kPrefilling && tracksBacklog_) cluster_.at(c.instance).backlog.lease(c.cost);
  }
  std::sort(ready.begin(), ready.end(), [&](std::uint32_t a, std::uint32_t b) {
    return graph_.call(a).readyAt != graph_.call(b).readyAt ? graph_.call(a).readyAt < graph_.call(b).readyAt
                                                            : graph_.call(a).rank < graph_.call(b).rank;
  });
  if (observes_)
    for (const std::uint32_t slot : ready) observeAll(CallStep::kReady, graph_.call(slot), 0);
  if (!needsWholePath_) return;
  for (std::uint32_t workflow = 0; workflow < graph_.workflowSlots(); ++workflow) {
    Workflow& w = graph_.workflow(workflow);
    w.finishedHead = 0;
    if (!w.live || w.revealed == 0) continue;
    for (std::uint32_t slot = w.firstRevealed; slot != kNoSlot; slot = graph_.call(slot).nextRevealed) {
      Call& c = graph_.call(slot);
      if (c.state != CallState::kDone) continue;
      c.head = headOf(graph_, c);
      w.finishedHead = std::max(w.finishedHead, c.head);
    }
  }
}

}  // namespace laxity
