// Decisions out: keys, placements, credit, leases.
#include <algorithm>

#include "base/math.h"
#include "scheduler/scheduler.h"
#include "workflow/budget.h"

namespace laxity {
namespace {

/// Below every key of a call that is not hopeless; among themselves by ready time.
constexpr double kDemotedKey = -1e300;
Nanos demotedKey(const Call& c) { return -kMaxTime - c.readyAt; }

}  // namespace

Status Scheduler::placeAll(Nanos t) {
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  fireTimers();
  if (!homeless_.empty() && homelessRevision_ != cluster_.revision()) {
    ready_.insert(ready_.begin(), homeless_.begin(), homeless_.end());
    homeless_.clear();
  }
  for (std::size_t i = 0; i < dirty_.size(); ++i) refreshWorkflow(dirty_[i]);
  dirty_.clear();
  // A rejection ends a call, which may make others ready or change keys: until nothing is left to do.
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const Ref c = ready_[i];
    if (ok(graph_.findCall(c)) && graph_.call(c.slot).state == CallState::kReady) placeCall(c.slot);
  }
  ready_.clear();
  for (std::size_t i = 0; i < dirty_.size(); ++i) refreshWorkflow(dirty_[i]);
  dirty_.clear();
  return Status::kOk;
}

void Scheduler::decideAll() {
  if (!rejected_.empty()) decisions_.swap(rejected_);
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
  if (w.horizon != before && !w.hasDeadline) markDirty(workflow);
}

/// Brings P, tails and deadline up to date and issues the keys of waiting calls again where they changed.
void Scheduler::refreshWorkflow(std::uint32_t workflow) {
  Workflow& w = graph_.workflow(workflow);
  w.dirty = false;
  if (!w.live || w.unfinished == 0) return;
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
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot; slot = graph_.call(slot).next) {
    Call& c = graph_.call(slot);
    if (c.state != CallState::kWaiting) continue;
    c.budget = budget(w.deadline, c.readyAt, tailOf(c, rest), w.criticalPath);
    IndexedHeap& queue = queueOf(c);
    const Nanos key = staticKey(c, c.instance);
    if (queue.entries()[c.heapPosition].key == key) continue;
    queue.rekeyAt(c.heapPosition, key,
                  [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
    if (c.instance != kNoSlot)
      touchQueue(c.instance);
    else
      touchSharers(c.model);
  }
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

std::uint32_t Scheduler::choose(const Call& c, std::uint32_t slot,
                                const std::vector<std::uint32_t>* withCredit) {
  PlacementView view = placementView(c, slot);
  view.withCredit = withCredit;
  return std::visit([&](auto& placement) { return placement.choose(view); }, config_.placement);
}

/// A retry goes to another instance than the one that failed it, where there is one.
std::uint32_t Scheduler::chooseElsewhere(std::uint32_t slot) {
  const Call& c = graph_.call(slot);
  const std::uint32_t avoid = live_.calls[slot].avoid;
  live_.calls[slot].avoid = kNoSlot;
  bool other = false;
  for (std::uint32_t m = 0; m < cluster_.size() && !other; ++m) {
    const Instance& i = cluster_.at(m);
    other = m != avoid && i.accepts() && estimates(slot)[i.hardwareClass].exec != kNever;
  }
  if (!other || !cluster_.at(avoid).accepts()) return choose(c, slot, nullptr);
  cluster_.setMask(avoid, true);
  const std::uint32_t chosen = choose(c, slot, nullptr);
  cluster_.setMask(avoid, false);
  return chosen;
}

void Scheduler::placeCall(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  if (rules_.any) liveQueued(slot);
  bool candidate = false;
  const auto& classes = cluster_.classes();
  for (std::size_t k = 0; k < classes.size() && !candidate; ++k) {
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
  if (needsBudget_) c.budget = budget(w.deadline, c.readyAt, tailOf(c, restOf(w)), w.criticalPath);
  if (config_.binding == Binding::kAtReveal) {
    const std::uint32_t probe = rules_.any ? probeFor(slot) : kNoSlot;
    if (probe != kNoSlot)
      assign(slot, probe);
    else if (rules_.any && live_.calls[slot].avoid != kNoSlot)
      assign(slot, chooseElsewhere(slot));
    else
      assign(slot, choose(c, slot, nullptr));
    enqueue(slot);
    touchQueue(c.instance);
  } else {
    c.instance = kNoSlot;
    enqueue(slot);
    touchSharers(c.model);
  }
}

QueueAhead Scheduler::queueAhead(const void* self, std::uint32_t instance, const PlacementView& view) {
  const Scheduler& s = *static_cast<const Scheduler*>(self);
  const Call& c = view.call;
  QueueAhead sum;
  const Instance& m = s.cluster_.at(instance);
  if (s.aheadIfContended_ && m.spec.mode == EngineMode::kPrefillFirst) {
    // While all that waits fits beside the leases, no position in the queue holds anything back.
    const WaitingSums& waiting = s.waitingSums_[instance];
    const std::int64_t need = std::int64_t{c.promptTokens} + c.predictedTokens;
    if (m.ledger.reservedKv + waiting.kv + need <= m.spec.kvTokens) {
      sum.prefillAll = waiting.prefill;
      return sum;
    }
  }
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
        const OrderView mine{c,      s.workflowOf(c), s.config_.parameters,
                             s.now_, e.exec,          s.needsDelta_ ? s.deltaOn(c, instance, e) : 0};
        const auto keyOf = [&](const OrderView& v) {
          using Key = decltype(order.key(v));
          if constexpr (std::is_same_v<Key, double>)
            return v.call.demoted ? kDemotedKey : order.key(v);
          else
            return v.call.demoted ? demotedKey(v.call) : order.key(v);
        };
        const auto key = keyOf(mine);
        for (const HeapEntry& entry : s.queues_[instance].entries()) {
          if constexpr (std::decay_t<decltype(order)>::kDynamic) {
            const double other = keyOf(s.orderView(s.graph_.call(entry.slot), instance));
            add(entry, other > key || (other == key && entry.rank < c.rank));
          } else {
            add(entry, entry.key > key || (entry.key == key && entry.rank < c.rank));
          }
        }
      },
      s.config_.order);
  return sum;
}

// --- order

Nanos Scheduler::deltaOn(const Call& c, std::uint32_t instance, const Estimate& e) const {
  const Instance& m = cluster_.at(instance);
  const std::int64_t context = m.ledger.context + c.promptTokens + c.predictedTokens / 2;
  const DecodePiece piece = cluster_.latency(m).piece(m.ledger.leased + 1, context);
  return std::max<Nanos>(0, m.ledger.prefillsEnd - now_) + e.prefill +
         roundFine(piece.at(context) * c.predictedTokens);
}

OrderView Scheduler::orderView(const Call& c, std::uint32_t instance) const {
  const Workflow& w = graph_.workflow(c.workflow);
  if (instance != kNoSlot) {
    const Nanos delta = needsDelta_ ? deltaOn(c, instance, {c.cost.prefill, c.cost.exec}) : 0;
    return {c, w, config_.parameters, now_, c.cost.exec, delta};
  }
  Nanos best = 0;
  if (needsDelta_) {
    best = kNever;
    const Estimate* e = estimates(static_cast<std::uint32_t>(&c - &graph_.call(0)));
    for (std::uint32_t m : cluster_.byTie()) {
      const Instance& candidate = cluster_.at(m);
      if (!candidate.accepts() || e[candidate.hardwareClass].exec == kNever) continue;
      best = std::min(best, deltaOn(c, m, e[candidate.hardwareClass]));
    }
    if (best == kNever) best = c.mean;
  }
  return {c, w, config_.parameters, now_, c.mean, best};
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
  if (!dynamic_) return queue.top().slot;
  return std::visit(
      [&](const auto& order) -> std::uint32_t {
        if constexpr (!std::decay_t<decltype(order)>::kDynamic) {
          return queue.top().slot;
        } else {
          const HeapEntry* best = nullptr;
          double bestKey = 0;
          for (const HeapEntry& entry : queue.entries()) {
            const Call& c = graph_.call(entry.slot);
            const double key = c.demoted ? kDemotedKey : order.key(orderView(c, c.instance));
            if (best == nullptr || key > bestKey || (key == bestKey && entry.rank < best->rank)) {
              best = &entry;
              bestKey = key;
            }
          }
          return best->slot;
        }
      },
      config_.order);
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
  if (aheadIfContended_ && c.instance != kNoSlot) {
    waitingSums_[c.instance].prefill += c.cost.prefill;
    waitingSums_[c.instance].kv += c.cost.kv;
  }
  queueOf(c).push({staticKey(c, c.instance), c.rank, slot},
                  [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
}

void Scheduler::dequeue(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  queueOf(c).removeAt(c.heapPosition,
                      [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  if (aheadIfContended_ && c.instance != kNoSlot) {
    waitingSums_[c.instance].prefill -= c.cost.prefill;
    waitingSums_[c.instance].kv -= c.cost.kv;
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
  for (const CachedPrefix& cached : c.cached) {
    if (!c.hasCached) break;
    if (cached.instance != instance || cached.tokens == 0 || cached.tokens >= c.promptTokens) continue;
    const Nanos whole = e.prefill;
    e.prefill = cluster_.latency(m).prefill(c.promptTokens - cached.tokens, cached.tokens);
    e.exec += e.prefill - whole;
  }
  c.instance = instance;
  c.cost = {e.exec, e.prefill, kvNeed(c), std::int64_t{c.promptTokens} + c.predictedTokens / 2, c.sequences};
  m.ledger.assign(c.cost);
  cluster_.workChanged(instance);
  if (rules_.any && wantsProbe(instance)) {
    live_.breakers[instance].probe = slot;
    updateMasks();
  }
}

void Scheduler::unassign(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  cluster_.at(c.instance).ledger.unassign(c.cost);
  cluster_.workChanged(c.instance);
  const std::uint32_t left = c.instance;
  c.instance = kNoSlot;
  if (rules_.any && left < live_.breakers.size() && live_.breakers[left].probe == slot) {
    live_.breakers[left].probe = kNoSlot;
    updateMasks();
  }
}

/// Leases an assigned call that has left its queue, and reserves for it in the same step.
void Scheduler::grant(std::uint32_t slot, LeaseReason reason) {
  Call& c = graph_.call(slot);
  Instance& m = cluster_.at(c.instance);
  c.state = CallState::kPrefilling;
  m.ledger.lease(c.cost, now_);
  if (config_.feedback == Feedback::kBoundary) {
    m.exact.kvFree -= c.cost.kv;
    m.exact.sequencesFree -= c.cost.sequences;
    --m.exact.prefillFree;
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
  Instance& m = cluster_.at(c.instance);
  if (rules_.any) liveReleased(slot);
  if (c.state == CallState::kPrefilling) m.ledger.firstToken(c.cost, now_);
  m.ledger.release(c.cost);
  if (c.previousLease != kNoSlot)
    graph_.call(c.previousLease).nextLease = c.nextLease;
  else
    m.firstLease = c.nextLease;
  if (c.nextLease != kNoSlot) graph_.call(c.nextLease).previousLease = c.previousLease;
  touch(c.instance);
}

bool Scheduler::hasCredit(std::uint32_t instance, std::int64_t kv, std::uint32_t sequences) const {
  const Instance& m = cluster_.at(instance);
  // A masked instance still serves the probe in its queue.
  if (m.condition != Condition::kUp || m.closedUntil > now_) return false;
  const std::int64_t limit = classTerms_[m.hardwareClass].kvLimit;
  if (config_.feedback == Feedback::kBoundary) {
    return m.exact.prefillFree > 0 && sequences <= m.exact.sequencesFree &&
           kv <= m.exact.kvFree + limit - m.spec.kvTokens;
  }
  return m.ledger.leased + sequences <= m.spec.maxSequences + config_.lookahead &&
         m.ledger.reservedKv + kv <= limit && m.ledger.unprefilled < 1 + config_.lookahead;
}

/// Whether the instance may be considered now. An empty ledger is an idle engine: its capacity is known
/// without a report.
bool Scheduler::gateOpen(std::uint32_t instance) {
  if (config_.feedback == Feedback::kLease) return true;
  Instance& m = cluster_.at(instance);
  if (m.exact.at == now_) return true;
  if (m.ledger.leased > 0) return false;
  m.exact = {now_, m.spec.kvTokens, m.spec.maxSequences, 1};
  return true;
}

void Scheduler::touchSharers(std::uint16_t model) {
  for (std::uint32_t m : cluster_.byTie()) {
    if (cluster_.at(m).spec.model == model) touchQueue(m);
  }
}

// --- leases

void Scheduler::leaseFromOwnQueues() {
  openInstances_.clear();
  collectOpen();  // by tie, whatever touched them in which order: leases are numbered
  for (const std::uint32_t instance : openInstances_) {
    IndexedHeap& queue = queues_[instance];
    Instance& m = cluster_.at(instance);
    while (!queue.empty()) {
      const std::uint32_t slot = pick(queue);
      const Call& c = graph_.call(slot);
      // Strict head of line: a call that does not fit holds back the less urgent ones.
      if (!hasCredit(instance, c.cost.kv, c.cost.sequences)) break;
      const LeaseReason reason = m.ledger.unprefilled > 0 ? LeaseReason::kLookahead : LeaseReason::kBestScore;
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
    if (hasCredit(m, need, c.sequences)) withCredit_.push_back(m);
  }
  if (withCredit_.empty()) return false;
  std::uint32_t chosen = rules_.any ? probeFor(slot) : kNoSlot;
  if (chosen == kNoSlot || std::find(withCredit_.begin(), withCredit_.end(), chosen) == withCredit_.end()) {
    if (rules_.any && withCredit_.size() > 1) std::erase(withCredit_, live_.calls[slot].avoid);
    chosen = choose(c, slot, &withCredit_);
  }
  queue.removeAt(c.heapPosition,
                 [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  const bool ahead = cluster_.at(chosen).ledger.unprefilled > 0;
  assign(slot, chosen);
  grant(slot, ahead ? LeaseReason::kLookahead : LeaseReason::kBestScore);
  // The queue has another head: whoever had no room for the old one is a candidate again.
  touchSharers(model);
  collectOpen();
  return true;
}

}  // namespace laxity
