// The driver of prefill-decode clusters: how calls and their KV go from p to d (CONTRACT 2, 8).
//
// staging none, reserve early: room on d is asked for with the lease, late: after the first token. The
// transfer starts when the prefill has ended and room was given; KV stays on p until it is over. staging
// unlimited: the transfer starts with the first token, room is asked for when it is over, and with the room
// the call joins. `asked for` is what DecodeAdmission::kEngine does by itself and kScheduler when it says so.
// A call whose only token comes with its prefill needs no transfer, and drops its room. With lateDecode the
// scheduler chooses d again when it hears of the first token; an engine that was asked before is told that
// nobody comes.
//
// At one instant: first tokens, ends of transfers, joins, evictions, ends, all by class (CONTRACT 3). Room is
// given when engines settle, after the decision; a transfer that takes no time ends in a further round of the
// same t.
#include <algorithm>
#include <cmath>

#include "base/thread_time.h"
#include "simulator/driver.h"
#include "workflow/pair_estimate.h"

namespace laxity {

void Driver::pairStart() {
  firstTokens_ = firstTokenOf(options_.compat) == FirstToken::kFromPrefill ? 1 : 0;
  links_.reset(cluster_.instances, options_.pairs.links);
}

void Driver::dueNow(std::uint32_t m) {
  if (std::find(due_.begin(), due_.end(), m) == due_.end()) due_.push_back(m);
}

Status Driver::pairInstant(Nanos t) {
  takeDue(t);
  pairEvents(t);
  worldEvents(t);
  if (outside_) observerActs(t);
  if (planAt_ <= t) planArrives(t);
  pairDecide(t);
  while ((!ended_.empty() || pairUnasked(t)) && ok(status_)) {
    closeAll(t);
    pairDecide(t);
  }
  pairSettle(t);
  if (options_.feedback == Feedback::kBoundary && !scheduler_.touched().empty()) pairWakeTouched(t);
  if (outside_) showInstant(t);
  if (options_.laws) lawsHold();
  return status_;
}

void Driver::pairDecide(Nanos t) {
  check(scheduler_.place(t));
  if (!ok(status_)) return;
  if (options_.feedback == Feedback::kBoundary && !scheduler_.touched().empty()) pairBoundaries(t);
  if (!pairNews(t)) return;
  if (const auto decisions = timedDecide(t); !decisions.empty()) carryOut(decisions, t);
  if (scheduler_.placementFailed()) check(Status::kPlacementFailed);
}

void Driver::pairEvents(Nanos t) {
  const bool transfers = links_.next() == t;
  if (due_.empty() && !transfers) return;
  const std::size_t own = due_.size();
  for (const std::uint32_t m : due_) engines_[m].advance(t);
  for (std::size_t i = 0; i < own; ++i) {
    for (const EngineCall& c : engines_[due_[i]].prefilled()) {
      if (cluster_.instances[due_[i]].role == Role::kDecode) continue;  // again, unseen
      callPrefilled(c, due_[i], t);
      pairPrefilled(c, t);
    }
  }
  if (links_.next() == t) {
    links_.advance(t);
    for (const Transfer& transfer : links_.done()) pairTransferred(transfer, t);
  }
  // Those that joined the list by arrivals: nothing of theirs ended, and their reports are of another
  // instant.
  for (std::size_t i = own; i < due_.size(); ++i) engines_[due_[i]].advance(t);
  std::sort(due_.begin(), due_.end());
  for (const std::uint32_t m : due_) {
    if (cluster_.instances[m].role != Role::kDecode) continue;
    engines_[m].join(t);
    for (const std::uint32_t slot : engines_[m].joined()) pairJoined(slot, t);
  }
  for (const std::uint32_t m : due_) {
    for (const Engine::Evicted& e : engines_[m].evicted()) callEvicted(e, t);
  }
  for (const std::uint32_t m : due_) {
    for (const EngineCall& c : engines_[m].finished()) callFinished(c.slot, m, t);
  }
  for (const std::uint32_t m : due_) {
    for (const EngineCall& c : engines_[m].overflowed()) callOverflowed(c.slot, t);
  }
}

void Driver::pairPrefilled(const EngineCall& call, Nanos t) {
  PairLegs& c = pairs_.at(call.slot);
  if (c.kv != PairKv::kPending) check(Status::kLawBroken);
  if (c.outputTokens <= firstTokens_) {  // it ends with its prefill
    if (c.room != PairRoom::kNone) {
      engines_[c.d].dropRoom(call.slot, t);
      dueNow(c.d);
    }
    c.room = PairRoom::kNone;
    return;
  }
  c.kv = PairKv::kHeld;
  const PairOptions& o = options_.pairs;
  if (const std::uint32_t d = scheduler_.pairs()->call(call.slot).decode; d != c.d) {
    if (!o.lateDecode) check(Status::kLawBroken);  // the place is locked with the lease
    if (c.room != PairRoom::kNone) {
      engines_[c.d].dropRoom(call.slot, t);
      dueNow(c.d);
      c.room = PairRoom::kNone;
    }
    choose(call.slot, d);
  }
  if (o.staging == Staging::kUnlimited || c.room == PairRoom::kGiven) {
    startTransfer(call.slot, t);
  } else if (o.admission == DecodeAdmission::kEngine && c.room == PairRoom::kNone) {
    askRoom(call.slot);
  }
}

void Driver::askRoom(std::uint32_t slot) {
  PairLegs& c = pairs_.at(slot);
  if (c.room != PairRoom::kNone) check(Status::kLawBroken);
  c.room = PairRoom::kAsked;
  engines_[c.d].requestRoom({slot, c.promptTokens, c.outputTokens, c.expectedTokens, c.need, 0, 0});
  dueNow(c.d);
}

void Driver::choose(std::uint32_t slot, std::uint32_t d) {
  pairs_.at(slot).d = d;
  if (outputs_.decodeInstance != nullptr)
    outputs_.decodeInstance[truth_.call(slot).row] = static_cast<std::uint16_t>(d);
}

void Driver::startTransfer(std::uint32_t slot, Nanos t) {
  PairLegs& c = pairs_.at(slot);
  if (c.kv != PairKv::kHeld) check(Status::kLawBroken);
  c.kv = PairKv::kMoving;
  links_.start({slot, c.p, c.d, tokensToMove(c.promptTokens, options_.pairs.overlap)}, t);
  if (outputs_.transferStartMs != nullptr) outputs_.transferStartMs[truth_.call(slot).row] = toMs(t);
}

void Driver::pairTransferred(const Transfer& transfer, Nanos t) {
  PairLegs& c = pairs_.at(transfer.slot);
  if (c.kv != PairKv::kMoving || c.p != transfer.from || c.d != transfer.to) check(Status::kLawBroken);
  c.kv = PairKv::kThere;
  event(scheduler_.transferDone(t, {attempt(transfer.slot)}));
  if (outputs_.transferredMs != nullptr) outputs_.transferredMs[truth_.call(transfer.slot).row] = toMs(t);
  engines_[c.p].kvLeft(c.promptTokens);
  dueNow(c.p);
  if (options_.pairs.staging == Staging::kUnlimited) {
    if (options_.pairs.admission == DecodeAdmission::kEngine) askRoom(transfer.slot);
    return;
  }
  engines_[c.d].arrived(transfer.slot);
  dueNow(c.d);
}

void Driver::roomGiven(std::uint32_t slot, std::uint32_t d, Nanos t) {
  PairLegs& c = pairs_.at(slot);
  if (c.room != PairRoom::kAsked || c.d != d) check(Status::kLawBroken);
  c.room = PairRoom::kGiven;
  if (options_.pairs.staging == Staging::kUnlimited)
    pairJoined(slot, t);
  else if (c.kv == PairKv::kHeld)
    startTransfer(slot, t);
}

void Driver::pairJoined(std::uint32_t slot, Nanos t) {
  PairLegs& c = pairs_.at(slot);
  if (c.room != PairRoom::kGiven || c.kv != PairKv::kThere) check(Status::kLawBroken);
  c.room = PairRoom::kJoined;
  if (outputs_.decodeMs != nullptr) outputs_.decodeMs[truth_.call(slot).row] = toMs(t);
}

void Driver::pairEnded(std::uint32_t slot) { pairs_.end(slot); }

void Driver::pairDecision(const Decision& d, Nanos t) {
  const std::uint32_t slot = d.call.slot;
  CallTruth& truth = truth_.call(slot);
  const PairOptions& o = options_.pairs;
  if (d.kind == DecisionKind::kAdmitDecode) {
    PairLegs& c = pairs_.at(slot);
    if (c.p != d.instance || c.d != d.decodeInstance) check(Status::kLawBroken);
    askRoom(slot);
    return;
  }
  OpenTruth& w = truth_.workflow(truth.open);
  ++w.inFlight;
  const Call& call = scheduler_.graph().call(slot);
  FoundPrefix found;
  if (caching_) found = findCached(call, truth.row, w.workflow, d.instance);
  truth.cached = found.tokens;
  PairLegs& c = pairs_.lease(slot);
  c.p = d.instance;
  choose(slot, d.decodeInstance);
  c.promptTokens = call.promptTokens;
  c.outputTokens = trace_.columns().outputTokens[truth.row] - truth.generated;
  c.expectedTokens = call.predictedTokens;
  c.need = std::int64_t{c.promptTokens} + c.expectedTokens;
  engines_[c.p].lease(
      {slot, c.promptTokens, c.outputTokens, c.expectedTokens, c.promptTokens, found.tokens, found.load});
  dueNow(c.p);
  if (o.admission == DecodeAdmission::kEngine && o.staging == Staging::kNone && o.reserve == Reserve::kEarly)
    askRoom(slot);
  if (outputs_.instance != nullptr) outputs_.instance[truth.row] = static_cast<std::uint16_t>(c.p);
  if (outputs_.leasedMs != nullptr && truth.epoch == 0) outputs_.leasedMs[truth.row] = toMs(t);
}

void Driver::pairSettle(Nanos t) {
  std::sort(due_.begin(), due_.end());
  for (const std::uint32_t m : due_) {
    Engine& engine = engines_[m];
    engine.settle(t);
    engineNext_.set(m, engine.next());
    if (cluster_.instances[m].role != Role::kDecode) continue;
    for (const std::uint32_t slot : engine.roomGiven()) roomGiven(slot, m, t);
  }
}

/// Decode engines whose queue or ledger changed report at a boundary: now, or when they reach it. Of prefill
/// engines the ledger says enough, and of what holds nothing.
void Driver::pairBoundaries(Nanos t) {
  for (const std::uint32_t m : scheduler_.touched()) {
    Engine& engine = engines_[m];
    if (cluster_.instances[m].role != Role::kDecode || engine.empty() || engine.wakePending()) continue;
    if (engine.atBoundaryOrWake(t)) {
      event(scheduler_.capacity(t, {m, engine.sequencesFree(), engine.kvFree(), engine.prefillFree(), 1}));
    } else {
      engineNext_.set(m, engine.next());
    }
  }
}

/// A plan covers all prefill instances, also those that nothing touched, and time alone re-ranks nothing:
/// what an engine does unseen must not bring a decision about.
bool Driver::pairNews(Nanos t) {
  const bool news = news_ || scheduler_.nextWake() <= t;
  news_ = false;
  return news;
}

/// Whether a decision touched a decode engine that stands at a boundary and was not asked: it is considered
/// at this very instant too.
bool Driver::pairUnasked(Nanos t) {
  if (options_.feedback == Feedback::kLease) return false;
  for (const std::uint32_t m : scheduler_.touched()) {
    Engine& engine = engines_[m];
    if (cluster_.instances[m].role != Role::kDecode || engine.empty() || engine.wakePending()) continue;
    if (scheduler_.cluster().at(m).exact.at != t && engine.standsAt(t)) return true;
  }
  return false;
}

void Driver::pairWakeTouched(Nanos t) {
  for (const std::uint32_t m : scheduler_.touched()) {
    Engine& engine = engines_[m];
    if (cluster_.instances[m].role != Role::kDecode || engine.empty() || engine.wakePending()) continue;
    if (!engine.atBoundaryOrWake(t)) engineNext_.set(m, engine.next());
  }
}

/// Calls, KV and transfers, recounted by call and compared with what engines and links hold.
void Driver::pairLawsHold() {
  struct Count {
    std::size_t pending = 0, held = 0, asked = 0, rooms = 0, joined = 0;
    std::int64_t kv = 0;
  };
  std::vector<Count> counts(engines_.size());
  std::size_t leased = 0;
  std::size_t moving = 0;
  const auto& calls = pairs_.calls();
  const Graph& graph = scheduler_.graph();
  for (std::uint32_t slot = 0; slot < calls.size(); ++slot) {
    const PairLegs& c = calls[slot];
    if (c.kv == PairKv::kNone) continue;
    ++leased;
    const CallState state = graph.call(slot).state;
    if (!laxity::leased(state)) check(Status::kLawBroken);
    if ((state == CallState::kPrefilling) != (c.kv == PairKv::kPending)) check(Status::kLawBroken);
    Count& p = counts[c.p];
    Count& d = counts[c.d];
    if (c.kv == PairKv::kPending) ++p.pending;
    if (c.kv == PairKv::kHeld || c.kv == PairKv::kMoving) {
      ++p.held;
      p.kv += c.promptTokens;
    }
    if (c.kv == PairKv::kMoving) ++moving;
    if (c.room == PairRoom::kAsked) ++d.asked;
    if (c.room == PairRoom::kGiven) {
      ++d.rooms;
      d.kv += c.need;
    }
    if (c.room == PairRoom::kJoined) {
      ++d.joined;
      if (c.kv != PairKv::kThere) check(Status::kLawBroken);
    }
  }
  if (leased != pairs_.leased() || moving != links_.underWay() || !links_.consistent())
    check(Status::kLawBroken);
  for (std::uint32_t m = 0; m < engines_.size(); ++m) {
    const Engine& engine = engines_[m];
    const Count& count = counts[m];
    if (engine.neglects()) check(Status::kLawBroken);
    const std::int64_t kv = engine.kvUsed();
    if (kv < count.kv || kv > cluster_.instances[m].kvTokens) check(Status::kLawBroken);
    if (cluster_.instances[m].role == Role::kPrefill) {
      if (engine.held() != count.pending || engine.holding() != count.held) check(Status::kLawBroken);
      if (engine.idle() && kv != count.kv) check(Status::kLawBroken);
    } else {
      if (engine.held() != count.asked + count.rooms + count.joined || engine.rooms() != count.rooms)
        check(Status::kLawBroken);
    }
    if (engine.empty() && count.held == 0 && kv != 0) check(Status::kLawBroken);
    const Ledger& ledger = scheduler_.cluster().at(m).ledger;
    if (leased == 0 && (ledger.leased != 0 || ledger.reservedKv != 0 || ledger.unprefilled != 0 ||
                        ledger.unprefilledWork != 0))
      check(Status::kLawBroken);
  }
  if (leased == 0 && links_.sent() != links_.received()) check(Status::kLawBroken);
}

void Driver::planArrives(Nanos t) {
  planAt_ = kNever;
  event(scheduler_.planArrived(t));
}

/// Asynchronous plans arrive planLatency after the decide that made them.
std::span<const Decision> Driver::timedDecide(Nanos t) {
  const bool timed = options_.timePlans;
  const std::uint64_t plans = timed ? scheduler_.pairs()->planCount() : 0;
  const std::int64_t begin = timed ? threadCpuNs() : 0;
  const std::span<const Decision> decisions = scheduler_.decide(t);
  if (timed && scheduler_.pairs()->planCount() > plans)
    planTimes_.add(threadCpuNs() - begin, scheduler_.pairs()->planCount() - plans);
  if (planAt_ == kNever && scheduler_.planInFlight()) planAt_ = std::min(kMaxTime, t + options_.planLatency);
  return decisions;
}

void Driver::pairSummarise() {
  result_.plans = scheduler_.pairs()->planCount();
  result_.plannedCalls = scheduler_.pairs()->plannedCalls();
  if (result_.plans > 0) result_.planMeanUs = planTimes_.sum() * 1e-3 / static_cast<double>(result_.plans);
  result_.planP50Us = planTimes_.quantileUs(0.5);
  result_.planP99Us = planTimes_.quantileUs(0.99);
  double busy[2] = {0, 0};
  std::uint32_t count[2] = {0, 0};
  for (std::uint32_t m = 0; m < engines_.size(); ++m) {
    const std::size_t role = cluster_.instances[m].role == Role::kPrefill ? 0 : 1;
    busy[role] += static_cast<double>(engines_[m].busy());
    ++count[role];
    const double peak =
        static_cast<double>(engines_[m].kvPeak()) / static_cast<double>(cluster_.instances[m].kvTokens);
    if (role == 1) result_.decodeKvPeak = std::max(result_.decodeKvPeak, peak);
  }
  const auto makespan = static_cast<double>(result_.makespan);
  if (makespan <= 0) return;
  if (count[0] > 0) result_.prefillUtilisation = busy[0] / count[0] / makespan;
  if (count[1] > 0) result_.decodeUtilisation = busy[1] / count[1] / makespan;
}

}  // namespace laxity
