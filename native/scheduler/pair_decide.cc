// Decisions on a prefill-decode cluster: who gets which pair, and who gets room on d (CONTRACT 5, 8).
//
// One decide: leases of prefill instances with credit, then room on the decode instances that were touched.
// With a planning placement order and pair come from one plan; only its entries whose p has credit become
// leases, and it is made again while that gives leases and some p is still open (a plan that goes on after
// its commits is the same as a new one after the leases). Otherwise the order picks and the placement chooses
// p, then d.
#include <algorithm>

#include "scheduler/call_key.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"

namespace laxity {

PairView Scheduler::pairView(const Call& c, std::uint32_t slot) const {
  return PairView{.call = c,
                  .workflow = workflowOf(c),
                  .cluster = cluster_,
                  .parameters = config_.parameters,
                  .estimates = slot == kNoSlot ? previewed_.data() : estimates(slot),
                  .decodeAlone = slot == kNoSlot ? previewedDecode_.data() : pairs_->decodeAlone(slot),
                  .now = now_,
                  .withCredit = nullptr};
}

/// Whether some p and some d that accept calls can serve it.
bool Scheduler::pairCandidate(std::uint32_t slot) const {
  const auto& classes = cluster_.classes();
  bool prefill = false;
  bool decode = false;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].up == 0) continue;
    prefill = prefill || estimates(slot)[k].exec != kNever;
    decode = decode || pairs_->decodeAlone(slot)[k] != kNever;
  }
  return prefill && decode;
}

void Scheduler::placePair(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (config_.binding == Binding::kAtReveal) {
    std::uint32_t chosen = rules_.any ? probeFor(slot) : kNoSlot;
    if (chosen == kNoSlot) {
      PairView view = pairView(c, slot);
      view.avoid = avoided(slot, Role::kPrefill);
      chosen = std::visit([&](auto& placement) { return placement.choosePrefill(view); }, pairs_->placement);
    }
    assignPrefill(slot, chosen);
    enqueue(slot);
    touchQueue(chosen);
    return;
  }
  c.instance = kNoSlot;
  enqueue(slot);
  touchSharers(c.model);
}

/// Where the call failed last, if that has this role and another such instance could take it.
std::uint32_t Scheduler::avoided(std::uint32_t slot, Role role) const {
  if (!rules_.any) return kNoSlot;
  const std::uint32_t avoid = live_.calls[slot].avoid;
  if (avoid == kNoSlot || cluster_.at(avoid).spec.role != role) return kNoSlot;
  const PairView view = pairView(graph_.call(slot), slot);
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    if (m != avoid && (role == Role::kPrefill ? view.isPrefill(m) : view.isDecode(m))) return avoid;
  }
  return kNoSlot;
}

std::uint32_t Scheduler::chooseDecode(std::uint32_t slot, std::uint32_t prefill) {
  if (rules_.any) {
    if (const std::uint32_t probe = probeDecodeFor(slot); probe != kNoSlot) return probe;
  }
  PairView view = pairView(graph_.call(slot), slot);
  view.avoid = avoided(slot, Role::kDecode);
  bool any = false;
  view.eachDecode([&](std::uint32_t, const Instance&) { any = true; });
  if (!any) return kNoSlot;
  return std::visit([&](auto& placement) { return placement.chooseDecode(view, prefill); },
                    pairs_->placement);
}

/// The credit of a prefill instance (CONTRACT 5); its KV holds a prompt from the lease until it has left.
/// Never more than there is, whatever the overcommit: a lease that waits for KV on p may hold the room on d
/// that those wait for whose KV it is.
bool Scheduler::hasPrefillCredit(std::uint32_t instance, const Ledger& u, const Call& c) const {
  const Instance& p = cluster_.at(instance);
  if (p.condition != Condition::kUp || p.closedUntil > now_) return false;
  const std::uint32_t ahead = config_.feedback == Feedback::kBoundary ? 0 : config_.lookahead;
  if (u.reservedKv + c.promptTokens > classTerms_[p.hardwareClass].kvRoom) return false;
  if (u.leased + c.sequences > p.spec.maxSequences + ahead) return false;
  if (config_.feedback == Feedback::kBoundary && p.exact.at != now_) return false;
  if (u.unprefilled < 1 + ahead) return true;
  return p.spec.chunkTokens > 0 &&
         u.unprefilledTokens + newTokens(c, instance) <= (std::int64_t{1} + ahead) * p.spec.chunkTokens;
}

/// Leases a call that has left its queue. Leg p is assigned.
void Scheduler::grantPair(std::uint32_t slot, std::uint32_t decode, Nanos ready, Nanos finish,
                          LeaseReason reason) {
  Call& c = graph_.call(slot);
  Instance& p = cluster_.at(c.instance);
  c.state = CallState::kPrefilling;
  pairs_->call(slot).prefilled = false;
  observe(CallStep::kLeased, c);
  p.ledger.lease(c.cost, now_);
  if (tracksBacklog_) p.backlog.lease(c.cost);
  c.previousLease = kNoSlot;
  c.nextLease = p.firstLease;
  if (p.firstLease != kNoSlot) graph_.call(p.firstLease).previousLease = slot;
  p.firstLease = slot;
  if (ready == kNever) {
    ready = p.ledger.prefillsEnd + pairs_->transferNow(cluster_, c.instance, decode, c.promptTokens);
    finish = pairs_->finishOn(c, decode, ready, now_);
  }
  joinDecode(slot, decode, ready, finish);
  ++pairs_->leasesGiven[c.instance];
  if (rules_.any) {
    liveGranted(slot);
    live_.calls[slot].avoid = kNoSlot;
  }
  if (!c.streams) startTimer(p.ledger.prefillsEnd, {slot, c.generation, c.epoch});
  decideLease(slot, decode, reason);
  const PairOptions& options = pairs_->options;
  if (options.admission == DecodeAdmission::kScheduler && options.reserve == Reserve::kEarly &&
      options.staging == Staging::kNone) {
    askRoom(slot);
  }
}

void Scheduler::decidePairs() {
  for (const Ref& ref : rerouted_) {
    if (ok(graph_.findCall(ref)) && leased(graph_.call(ref.slot).state)) emitAdmit(ref.slot);
  }
  rerouted_.clear();
  openInstances_.clear();
  collectOpen();
  if (config_.binding == Binding::kAtReveal) {
    servePrefills();
  } else if (pairs_->plans()) {
    // Room on d, or a touched p without credit, brings no plan about: feedback modes hear of these at
    // different moments.
    const bool prefills = std::any_of(openInstances_.begin(), openInstances_.end(), [&](std::uint32_t m) {
      return cluster_.at(m).spec.role == Role::kPrefill && prefillOpen(m);
    });
    if (prefills || pairs_->inFlight.arrived) leaseByPlan();
    if (anyRevocable_) leaseByRevoking();
  } else {
    for (std::size_t i = 0; i < openInstances_.size(); ++i) {
      if (cluster_.at(openInstances_[i]).spec.role != Role::kPrefill) continue;
      while (leasePairFromShared(cluster_.at(openInstances_[i]).spec.model)) {
      }
    }
  }
  collectOpen();  // what the leases touched
  for (const std::uint32_t instance : openInstances_) {
    if (cluster_.at(instance).spec.role == Role::kDecode) serveDecode(instance);
  }
  for (const std::uint32_t instance : openInstances_) cluster_.at(instance).touched = false;
}

/// At-reveal: each p from its own queue, d at the lease. Strict head of line.
void Scheduler::servePrefills() {
  for (const std::uint32_t instance : openInstances_) {
    const Instance& p = cluster_.at(instance);
    if (p.spec.role != Role::kPrefill) continue;
    IndexedHeap& queue = queues_[instance];
    while (!queue.empty()) {
      const std::uint32_t slot = pick(queue);
      if (!hasPrefillCredit(instance, graph_.call(slot))) {
        if (anyRevocable_ && pairCandidate(slot) && revokeFor(slot, {&instance, 1}) != kNoSlot) continue;
        break;
      }
      const std::uint32_t decode = chooseDecode(slot, instance);
      if (decode == kNoSlot) break;
      const LeaseReason reason = p.ledger.unprefilled > 0 ? LeaseReason::kLookahead : LeaseReason::kBestScore;
      dequeue(slot);
      grantPair(slot, decode, kNever, kNever, reason);
    }
  }
}

/// At-credit without a plan: the head of the shared queue, if any p has credit for it. Strict.
bool Scheduler::leasePairFromShared(std::uint16_t model) {
  IndexedHeap& queue = shared_[model];
  if (queue.empty()) return false;
  const std::uint32_t slot = pick(queue);
  const Call& c = graph_.call(slot);
  PairView view = pairView(c, slot);
  withCredit_.clear();
  for (const std::uint32_t m : openInstances_) {
    if (view.isPrefill(m) && hasPrefillCredit(m, c)) withCredit_.push_back(m);
  }
  if (withCredit_.empty()) {
    return anyRevocable_ && pairCandidate(slot) && revokeFor(slot, openInstances_) != kNoSlot;
  }
  std::uint32_t prefill = rules_.any ? probeFor(slot) : kNoSlot;
  if (std::find(withCredit_.begin(), withCredit_.end(), prefill) == withCredit_.end()) {
    if (rules_.any && withCredit_.size() > 1) std::erase(withCredit_, live_.calls[slot].avoid);
    view.withCredit = &withCredit_;
    prefill = std::visit([&](auto& placement) { return placement.choosePrefill(view); }, pairs_->placement);
  }
  const std::uint32_t decode = chooseDecode(slot, prefill);
  if (decode == kNoSlot) return false;
  leaseShared(slot, prefill, decode, kNever, kNever);
  touchSharers(model);  // another head
  collectOpen();
  return true;
}

void Scheduler::leaseShared(std::uint32_t slot, std::uint32_t prefill, std::uint32_t decode, Nanos ready,
                            Nanos finish, LeaseReason reason) {
  if (reason == LeaseReason::kNone) {
    reason = cluster_.at(prefill).ledger.unprefilled > 0 ? LeaseReason::kLookahead : LeaseReason::kBestScore;
  }
  leaveShared(slot);
  assignPrefill(slot, prefill);
  grantPair(slot, decode, ready, finish, reason);
}

/// Out of the shared queue without touching whoever draws from it.
void Scheduler::leaveShared(std::uint32_t slot) {
  const Call& c = graph_.call(slot);
  shared_[c.model].removeAt(c.heapPosition,
                            [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  leavePlan(slot);
}

/// Whether p can take a call at all now. Also of p that nothing touched: a plan for the others may want them.
bool Scheduler::prefillOpen(std::uint32_t instance) {
  const Instance& p = cluster_.at(instance);
  return gateOpen(instance) && p.accepts() && p.closedUntil <= now_ && prefillGateOpen(p) &&
         p.ledger.reservedKv < classTerms_[p.hardwareClass].kvRoom;
}

void Scheduler::leaseByPlan() {
  if (pairs_->options.planning != Planning::kSync) {
    if (pairs_->inFlight.arrived) applyPlan();
    if (!pairs_->inFlight.pending) requestPlan();
    if (pairs_->options.planning == Planning::kAsyncPaper) leaseFallback();
    return;
  }
  bool any = true;
  while (any && pairs_->waiting() > 0) {
    any = false;
    pairs_->refresh(cluster_, now_, [&](std::uint32_t m) { return prefillOpen(m); });
    if (pairs_->open() == 0) return;
    const bool projected = keyWaiting();
    for (const PlanEntry& e : pairs_->plan(now_, projected)) {
      std::uint32_t prefill = pairs_->prefillInstance(e.prefill);
      std::uint32_t decode = pairs_->decodeInstance(e.decode);
      if (!prefillOpen(prefill) || !hasPrefillCredit(prefill, graph_.call(e.call))) continue;
      const bool elsewhere = rules_.any && redirect(e.call, &prefill, &decode);
      if (!cluster_.at(decode).accepts()) continue;  // it has got its probe in this very plan
      leaseShared(e.call, prefill, decode, elsewhere ? kNever : e.ready, elsewhere ? kNever : e.finish);
      any = true;
    }
  }
}

// --- asynchronous plans (CONTRACT 12): made on the state of the decide that asks for them, applied when they
// arrive. At most one is in flight.

void Scheduler::requestPlan() {
  if (pairs_->waiting() == 0) return;
  pairs_->refresh(cluster_, now_, [&](std::uint32_t m) { return prefillOpen(m); });
  if (pairs_->open() == 0) return;
  const bool projected = keyWaiting();
  PlanInFlight& flight = pairs_->inFlight;
  flight.entries.clear();
  // One that nothing could be leased by if it were here already is not sent for: it would be asked for again
  // at its arrival, without end where plans take no time.
  for (const PlanEntry& e : pairs_->plan(now_, projected)) {
    const std::uint32_t prefill = pairs_->prefillInstance(e.prefill);
    flight.pending |= prefillOpen(prefill) && hasPrefillCredit(prefill, graph_.call(e.call));
    flight.entries.push_back({graph_.ref(e.call), graph_.call(e.call).epoch, prefill,
                              pairs_->decodeInstance(e.decode), pairs_->leasesGiven[prefill]});
  }
}

/// Entries whose call is gone, whose p got another lease meanwhile or has no credit, or whose d cannot take
/// the call any more are dropped (planner.md 6): their calls wait for the next plan.
void Scheduler::applyPlan() {
  PlanInFlight& flight = pairs_->inFlight;
  flight.pending = flight.arrived = false;
  for (const PlanInFlight::Entry& e : flight.entries) {
    if (!ok(graph_.findCall(e.call))) continue;
    const Call& c = graph_.call(e.call.slot);
    if (c.state != CallState::kWaiting || c.instance != kNoSlot || c.epoch != e.epoch) continue;
    if (pairs_->leasesGiven[e.prefill] != e.revision) continue;
    const PairView view = pairView(c, e.call.slot);
    if (!view.isPrefill(e.prefill) || !view.isDecode(e.decode)) continue;
    if (!prefillOpen(e.prefill) || !hasPrefillCredit(e.prefill, c)) continue;
    leaseShared(e.call.slot, e.prefill, e.decode, kNever, kNever);
    --pairs_->leasesGiven[e.prefill];  // the plan's own lease voids none of its entries
  }
}

/// HexAGenT's fallback while a plan is in flight: each idle p takes the first call by workflow-FCFS that it
/// can serve, with the d of its earliest finish.
void Scheduler::leaseFallback() {
  if (!pairs_->inFlight.pending) return;
  for (const std::uint32_t m : cluster_.byTie()) {
    if (cluster_.at(m).spec.role != Role::kPrefill || cluster_.at(m).ledger.unprefilled > 0 ||
        !prefillOpen(m))
      continue;
    std::uint32_t first = kNoSlot;
    for (const auto& entry : pairs_->waitingCalls()) {
      const Call& c = graph_.call(entry.slot);
      if (first != kNoSlot && graph_.call(first).rank <= c.rank) continue;
      if (pairView(c, entry.slot).isPrefill(m) && hasPrefillCredit(m, c)) first = entry.slot;
    }
    if (first == kNoSlot) continue;
    const Call& c = graph_.call(first);
    const auto best = pairs_->best(cluster_, c, estimates(first), pairs_->decodeAlone(first), m, now_);
    if (best.decode != kNoSlot)
      leaseShared(first, m, best.decode, best.ready, best.finish, LeaseReason::kFallback);
  }
}

// --- which waiting calls a plan looks at

/// How urgent, when there are more than a plan looks at: the order's own key, or for an order whose keys move
/// with time -(a + alpha* (H + F) - F).
Nanos Scheduler::planKey(const Call& c) const {
  if (c.demoted) return demotedKey(c);
  const Workflow& w = workflowOf(c);
  return dynamic_ ? pairs_->ratios.key(w, beyond(c, w)) : staticKey(c, kNoSlot);
}

void Scheduler::joinPlan(std::uint32_t slot) {
  const auto enter = [&](std::uint32_t s) {
    const Call& c = graph_.call(s);
    pairs_->addWaiting(cluster_, c, graph_.workflow(c.workflow), s, estimates(s));
  };
  const auto leave = [&](std::uint32_t s) { pairs_->removeWaiting(s); };
  MostUrgent& crowd = pairs_->crowd;
  if (crowd.outside() == 0 && pairs_->waiting() < kPlanLimit) {
    enter(slot);
    return;
  }
  if (crowd.outside() == 0) {  // the first that is too many
    crowd.clear();
    const std::vector<laxity::WaitingCalls::ByKv> inside = pairs_->waitingCalls();
    for (const auto& entry : inside) {
      const Call& c = graph_.call(entry.slot);
      crowd.add(
          entry.slot, planKey(c), c.rank, [](std::uint32_t) {}, leave);
    }
  }
  const Call& c = graph_.call(slot);
  crowd.add(slot, planKey(c), c.rank, enter, leave);
}

void Scheduler::leavePlan(std::uint32_t slot) {
  MostUrgent& crowd = pairs_->crowd;
  if (crowd.outside() == 0 || !crowd.holds(slot)) {
    pairs_->removeWaiting(slot);
    return;
  }
  crowd.remove(
      slot,
      [&](std::uint32_t s) {
        const Call& c = graph_.call(s);
        pairs_->addWaiting(cluster_, c, graph_.workflow(c.workflow), s, estimates(s));
      },
      [&](std::uint32_t s) { pairs_->removeWaiting(s); });
}

/// Its horizon, its deadline or alpha* changed.
void Scheduler::rekeyPlan(const Workflow& w) {
  MostUrgent& crowd = pairs_->crowd;
  if (crowd.outside() == 0) return;
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot; slot = graph_.call(slot).next) {
    const Call& waiting = graph_.call(slot);
    if (waiting.state != CallState::kWaiting || !crowd.holds(slot)) continue;
    crowd.rekey(
        slot, planKey(waiting),
        [&](std::uint32_t s) {
          const Call& c = graph_.call(s);
          pairs_->addWaiting(cluster_, c, graph_.workflow(c.workflow), s, estimates(s));
        },
        [&](std::uint32_t s) { pairs_->removeWaiting(s); });
  }
}

/// What overrules a plan: a half-open instance that wants a probe takes the call, and a call goes elsewhere
/// than where it has just failed, if another prefill instance has credit and another d is there. The rest of
/// the plan stands; what it got wrong is planned again.
bool Scheduler::redirect(std::uint32_t slot, std::uint32_t* prefill, std::uint32_t* decode) {
  const Call& c = graph_.call(slot);
  const std::uint32_t plannedPrefill = *prefill;
  const std::uint32_t plannedDecode = *decode;
  if (const std::uint32_t probe = probeFor(slot); probe != kNoSlot && hasPrefillCredit(probe, c)) {
    *prefill = probe;
  } else if (*prefill == avoided(slot, Role::kPrefill)) {
    PairView view = pairView(c, slot);
    withCredit_.clear();
    for (const std::uint32_t m : cluster_.byTie()) {
      if (m != *prefill && view.isPrefill(m) && hasPrefillCredit(m, c)) withCredit_.push_back(m);
    }
    if (!withCredit_.empty()) {
      view.withCredit = &withCredit_;
      *prefill =
          std::visit([&](auto& placement) { return placement.choosePrefill(view); }, pairs_->placement);
    }
  }
  const std::uint32_t probe = probeDecodeFor(slot);
  if (probe != kNoSlot || *decode == avoided(slot, Role::kDecode)) *decode = chooseDecode(slot, *prefill);
  return *prefill != plannedPrefill || *decode != plannedDecode;
}

/// Which workflows that wait are put behind the others from now on (sacrifice.h), looked at in the order of
/// arrival.
void Scheduler::chooseSacrifices() {
  sacrificeCandidates_.clear();
  for (const auto& entry : pairs_->waitingCalls()) {
    const Call& c = graph_.call(entry.slot);
    const Workflow& w = graph_.workflow(c.workflow);
    const bool told = c.remaining >= 0 || w.declaredHorizon >= 0 || beyond(c, w) > 0;
    if (told && !w.sacrificed) sacrificeCandidates_.push_back(entry.slot);
  }
  std::sort(sacrificeCandidates_.begin(), sacrificeCandidates_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return graph_.call(a).rank < graph_.call(b).rank; });
  const double share = config_.parameters[Parameter::kSacrifice];
  for (const std::uint32_t slot : sacrificeCandidates_) {
    const Call& c = graph_.call(slot);
    Workflow& w = graph_.workflow(c.workflow);
    if (w.sacrificed) continue;
    if (w.size == 0) {
      w.size = std::max<Nanos>(1, w.horizon + beyond(c, w));
      pairs_->sacrifice.see(w.size);
    }
    if (!pairs_->sacrifice.allows(w.size, share)) continue;
    if (!(Ratio::key(pairOrderView(c, kNoSlot)) > Sacrifice::kLate)) continue;
    w.sacrificed = true;
    pairs_->sacrifice.take();
  }
}

/// Tells the planner how the waiting calls compare. True: by keys linear in their projected finish; false: by
/// keys.
bool Scheduler::keyWaiting() {
  if (sacrifices_) chooseSacrifices();
  bool demoted = false;
  if (needsDelta_ && ageing_ == 0 && shareSlack_ == 0) {
    std::visit(
        [&](const auto& order) {
          if constexpr (std::decay_t<decltype(order)>::kNeedsDelta) {
            for (const auto& entry : pairs_->waitingCalls()) {
              const Call& c = graph_.call(entry.slot);
              const Workflow& w = graph_.workflow(c.workflow);
              const OrderView view{c, w, config_.parameters, now_, c.mean, 0, beyond(c, w)};
              const ProjectedKey key = order.projected(view);
              pairs_->setHorizon(entry.slot, key.slope, key.shift);
              demoted |= c.demoted;
            }
          }
        },
        config_.order);
    if (!demoted) return true;
  }
  if (!dynamic_ && ageing_ == 0 && shareSlack_ == 0) {
    for (const auto& entry : pairs_->waitingCalls())
      pairs_->setKey(entry.slot, staticKey(graph_.call(entry.slot), kNoSlot));
    return false;
  }
  // One sequence, from the keys as they are now: one pass of planner.md.
  std::int64_t position = 0;
  for (const IndexedHeap& queue : shared_) {
    for (const std::uint32_t slot : inOrder(queue)) {
      if (pairs_->isWaiting(slot)) pairs_->setKey(slot, --position);
    }
  }
  return false;
}

/// Room on d in the policy's order; strict unless backfill is on.
void Scheduler::serveDecode(std::uint32_t instance) {
  IndexedHeap& queue = queues_[instance];
  const Instance& d = cluster_.at(instance);
  if (d.condition == Condition::kDown) return;
  const auto fits = [&](std::uint32_t slot) {
    const CallCost& cost = pairs_->call(slot).cost;
    if (config_.feedback == Feedback::kBoundary)
      return cost.kv <= d.exact.kvFree && cost.sequences <= d.exact.sequencesFree;
    return pairs_->admittedKv(instance) + cost.kv <= d.spec.kvTokens &&
           pairs_->admittedSequences(instance) + cost.sequences <= d.spec.maxSequences;
  };
  while (!queue.empty()) {
    const std::uint32_t slot = pick(queue);
    if (!fits(slot)) break;
    admitDecode(slot);
  }
  if (!pairs_->options.backfill || queue.empty()) return;
  for (const std::uint32_t slot : inOrder(queue)) {
    if (fits(slot)) admitDecode(slot);
  }
}

/// What the order sees of a call: before its lease the whole call on its p or on the best pair, after it the
/// decode stage on its d.
OrderView Scheduler::pairOrderView(const Call& c, std::uint32_t instance) const {
  const Workflow& w = workflowOf(c);
  const auto slot = static_cast<std::uint32_t>(&c - &graph_.call(0));
  if (leased(c.state)) {
    const PairCall& pair = pairs_->call(slot);
    const Nanos delta = needsDelta_ ? pairs_->decodeFinish(c, pair, now_) - now_ : 0;
    return {c, w, config_.parameters, now_, pair.cost.exec, delta, beyond(c, w)};
  }
  const Nanos exec = instance == kNoSlot ? c.mean : estimates(slot)[cluster_.at(instance).hardwareClass].exec;
  return {c, w, config_.parameters, now_, exec, needsDelta_ ? pairDelta(c, slot, instance) : 0, beyond(c, w)};
}

/// Delta of CONTRACT 10: the best pair, with p given or not; the call's own mean where there is none now.
Nanos Scheduler::pairDelta(const Call& c, std::uint32_t slot, std::uint32_t prefill) const {
  const Pairs::Projection best =
      pairs_->best(cluster_, c, estimates(slot), pairs_->decodeAlone(slot), prefill, now_);
  return best.decode == kNoSlot ? c.mean : best.finish - now_;
}

}  // namespace laxity
