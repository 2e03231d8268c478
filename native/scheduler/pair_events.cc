// The life of a call on a prefill-decode cluster (CONTRACT 2, 8): what its events change.
//
// State and room, by reserve and staging:
//   early, none       room is asked for at the lease; firstToken: Transferring with room, else WaitDecode
//   late, none        room is asked for at firstToken: WaitDecode until it is given, then Transferring
//   unlimited         Transferring at firstToken; room is asked for at transferDone: WaitDecode, then
//   Decoding engine admission  no room is asked for here: Transferring at firstToken, Decoding at
//   transferDone
// A later event implies the missing earlier ones.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

bool Scheduler::estimatePair(const Call& c, Estimate* out, Nanos* decodeAlone, Nanos* mean) const {
  const PairDemand demand{c.model, c.adapter, c.promptTokens, c.timedTokens, kvNeed(c), c.sequences};
  *mean = pairEstimates(cluster_, demand, pairs_->terms, out, decodeAlone);
  return *mean > 0;
}

/// Leg p: softly assigned, or about to be leased.
void Scheduler::assignPrefill(std::uint32_t slot, std::uint32_t instance) {
  Call& c = graph_.call(slot);
  Instance& p = cluster_.at(instance);
  Estimate e = estimates(slot)[p.hardwareClass];
  std::uint32_t tokens = c.promptTokens;
  if (c.hasCached) {
    e = withCachedPrefix(e, c, instance, cluster_.latency(p));
    tokens = newTokens(c, instance);
  }
  c.instance = instance;
  c.cost = {e.prefill, e.prefill, c.promptTokens, 0, c.sequences, tokens};
  pairs_->call(slot).onPrefill = true;
  p.ledger.assign(c.cost);
  cluster_.workChanged(instance);
  if (rules_.any) probeTaken(instance, slot);
}

/// The KV has left p, or was never there. The call keeps the name of p.
void Scheduler::leavePrefill(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  PairCall& pair = pairs_->call(slot);
  if (!pair.onPrefill) return;
  pair.onPrefill = false;
  Instance& p = cluster_.at(c.instance);
  if (leased(c.state)) {
    if (c.state == CallState::kPrefilling) {
      p.ledger.firstToken(c.cost, now_);
      if (tracksBacklog_) p.backlog.firstToken(c.cost);
    }
    p.ledger.release(c.cost);
    if (c.previousLease != kNoSlot)
      graph_.call(c.previousLease).nextLease = c.nextLease;
    else
      p.firstLease = c.nextLease;
    if (c.nextLease != kNoSlot) graph_.call(c.nextLease).previousLease = c.previousLease;
  }
  p.ledger.unassign(c.cost);
  cluster_.workChanged(c.instance);
  if (rules_.any) probeOver(c.instance, slot);
  touch(c.instance);
}

/// Leg d begins: reserved in the same step as the lease, or after another d was lost.
void Scheduler::joinDecode(std::uint32_t slot, std::uint32_t decode, Nanos kvReady, Nanos finish) {
  const Call& c = graph_.call(slot);
  Instance& d = cluster_.at(decode);
  const std::int64_t kv = kvNeed(c);
  const CallCost cost{pairs_->decodeAlone(slot)[d.hardwareClass], 0, kv, kv, c.sequences, 0};
  pairs_->commit(cluster_, slot, decode, cost, kvReady, finish, now_);
  d.firstLease = slot;
  d.ledger.assign(cost);
  d.ledger.commit(cost);
  cluster_.workChanged(decode);
  if (rules_.any) probeTaken(decode, slot);
}

void Scheduler::leaveDecode(std::uint32_t slot) {
  PairCall& pair = pairs_->call(slot);
  if (pair.decode == kNoSlot) return;
  const Call& c = graph_.call(slot);
  const std::uint32_t decode = pair.decode;
  if (pair.waits) withdrawRoom(slot);
  pairs_->move(cluster_, slot, c.instance, false);
  Instance& d = cluster_.at(decode);
  if (d.firstLease == slot) d.firstLease = pair.nextOnDecode;
  d.ledger.release(pair.cost);
  d.ledger.unassign(pair.cost);
  cluster_.workChanged(decode);
  pairs_->release(cluster_, slot, now_);
  if (rules_.any) probeOver(decode, slot);
  touch(decode);
}

/// Asks for room on d through its queue, in the policy's own order.
void Scheduler::askRoom(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  PairCall& pair = pairs_->call(slot);
  pair.waits = true;
  queues_[pair.decode].push({staticKey(c, pair.decode), c.rank, slot},
                            [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  touch(pair.decode);
}

void Scheduler::withdrawRoom(std::uint32_t slot) {
  PairCall& pair = pairs_->call(slot);
  pair.waits = false;
  queues_[pair.decode].removeAt(graph_.call(slot).heapPosition,
                                [&](std::uint32_t s, std::uint32_t at) { graph_.call(s).heapPosition = at; });
  touch(pair.decode);
}

void Scheduler::pairPrefilled(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  PairCall& pair = pairs_->call(slot);
  Instance& p = cluster_.at(c.instance);
  p.ledger.firstToken(c.cost, now_);
  if (tracksBacklog_) p.backlog.firstToken(c.cost);
  touch(c.instance);
  pair.prefilled = true;
  if (rules_.any) live_.calls[slot].kvSince = now_;
  if (pairs_->options.lateDecode && !pair.admitted && c.instance != kNoSlot) chooseDecodeAgain(slot);

  const bool unlimited = pairs_->options.staging == Staging::kUnlimited;
  const bool engine = pairs_->options.admission == DecodeAdmission::kEngine;
  const Nanos ready = now_ + pairs_->transferNow(cluster_, c.instance, pair.decode, c.promptTokens);
  if (unlimited || engine || pair.admitted) {
    c.state = CallState::kTransferring;
    pairs_->expect(slot, ready, pairs_->decodeFinish(c, pair, std::max(now_, ready)));
    pairs_->move(cluster_, slot, c.instance, true);
    return;
  }
  c.state = CallState::kWaitDecode;
  pairs_->expect(slot, ready, std::max(pair.finish, pairs_->decodeFinish(c, pair, ready)));
  if (pairs_->options.reserve == Reserve::kLate) askRoom(slot);
  if (rules_.any) watchKv(slot);
}

Status Scheduler::transferDone(Nanos t, const CallEvent& e) {
  if (pairs_ == nullptr) return Status::kUnsupported;
  if (const Status status = fromEngine(t, e.attempt); !ok(status)) return status;
  const std::uint32_t slot = e.attempt.call.slot;
  Call& c = graph_.call(slot);
  if (!pairs_->call(slot).onPrefill) return Status::kBadState;  // its KV has arrived
  if (EventRecord* r = tap(t, EventKind::kTransferDone)) r->call = e;
  if (c.state == CallState::kPrefilling) {
    if (rules_.any) livePrefilled(slot);
    prefilled(slot);
  }
  if (rules_.any) liveSign(slot);
  kvArrived(slot);
  return Status::kOk;
}

void Scheduler::kvArrived(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  PairCall& pair = pairs_->call(slot);
  pairs_->move(cluster_, slot, c.instance, false);
  if (rules_.any) legOk(slot, c.instance);
  leavePrefill(slot);
  pair.kvReady = now_;
  if (pairs_->options.staging == Staging::kUnlimited &&
      pairs_->options.admission == DecodeAdmission::kScheduler && !pair.admitted) {
    c.state = CallState::kWaitDecode;
    pairs_->expect(slot, now_, std::max(pair.finish, pairs_->decodeFinish(c, pair, now_)));
    askRoom(slot);
    return;
  }
  if (pair.waits) withdrawRoom(slot);  // the engine had room before the scheduler gave it
  startDecode(slot);
}

void Scheduler::startDecode(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  PairCall& pair = pairs_->call(slot);
  c.state = CallState::kDecoding;
  if (!pair.admitted) {
    pair.unasked = true;
    pairs_->admit(slot, pair.finish);
  }
  pairs_->run(cluster_, c, slot, now_);
}

/// Room on d, given by the scheduler.
void Scheduler::admitDecode(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  PairCall& pair = pairs_->call(slot);
  Instance& d = cluster_.at(pair.decode);
  withdrawRoom(slot);
  if (config_.feedback == Feedback::kBoundary) {
    d.exact.kvFree -= pair.cost.kv;
    d.exact.sequencesFree -= std::min(d.exact.sequencesFree, pair.cost.sequences);
  }
  pairs_->admit(slot, pair.finish);
  if (c.state == CallState::kWaitDecode) {
    if (pairs_->options.staging == Staging::kUnlimited) {
      startDecode(slot);
    } else {
      c.state = CallState::kTransferring;
      const Nanos ready = now_ + pairs_->transferNow(cluster_, c.instance, pair.decode, c.promptTokens);
      pairs_->expect(slot, ready, pairs_->decodeFinish(c, pair, ready));
      pairs_->move(cluster_, slot, c.instance, true);
    }
  }
  emitAdmit(slot);
}

void Scheduler::emitAdmit(std::uint32_t slot) {
  const Call& c = graph_.call(slot);
  Decision d{};
  d.kind = DecisionKind::kAdmitDecode;
  d.epoch = c.epoch;
  d.call = graph_.ref(slot);
  d.instance = c.instance;
  d.decodeInstance = pairs_->call(slot).decode;
  decisions_.push_back(d);
}

/// A free decode call: its KV is on p, and it may go to any d (CONTRACT 8). False where there is none.
bool Scheduler::chooseDecodeAgain(std::uint32_t slot) {
  const Call& c = graph_.call(slot);
  const PairCall& pair = pairs_->call(slot);
  const std::uint32_t chosen =
      pairs_->freeChoice(cluster_, c, slot, c.instance, avoided(slot, Role::kDecode), now_);
  if (chosen == kNoSlot || chosen == pair.decode) return chosen != kNoSlot;
  const bool asked = pair.waits;
  const Nanos ready = now_ + pairs_->transferNow(cluster_, c.instance, chosen, c.promptTokens);
  leaveDecode(slot);
  joinDecode(slot, chosen, ready, pairs_->finishOn(c, chosen, ready, now_));
  if (asked) askRoom(slot);
  return true;
}

/// d is lost. Calls whose KV is still on p, or is still to be computed there, go to another d; the others are
/// prefilled again.
void Scheduler::loseDecode(std::uint32_t instance) {
  std::vector<Ref> lost;
  for (std::uint32_t c = cluster_.at(instance).firstLease; c != kNoSlot; c = pairs_->call(c).nextOnDecode)
    lost.push_back(graph_.ref(c));
  std::sort(lost.begin(), lost.end(),
            [&](const Ref& a, const Ref& b) { return graph_.call(a.slot).rank < graph_.call(b.slot).rank; });
  for (const Ref& ref : lost) rescue(ref.slot);
}

/// The call's d or the link to it failed.
void Scheduler::rescue(std::uint32_t slot) {
  Call& c = graph_.call(slot);
  PairCall& pair = pairs_->call(slot);
  const std::uint32_t before = pair.decode;
  if (!pair.onPrefill || !graph_.workflow(c.workflow).open || !chooseDecodeAgain(slot) ||
      pair.decode == before) {
    backToReady(slot);
    return;
  }
  const bool prefilled = c.state != CallState::kPrefilling;
  if (prefilled) {
    c.state = CallState::kWaitDecode;
    if (rules_.any) watchKv(slot);
  }
  if (pairs_->options.admission == DecodeAdmission::kEngine) {
    if (prefilled) {
      c.state = CallState::kTransferring;
      pairs_->move(cluster_, slot, c.instance, true);
    }
    rerouted_.push_back(graph_.ref(slot));  // nothing else tells the driver
    touch(pair.decode);
  } else if (pairs_->options.staging == Staging::kUnlimited) {
    if (prefilled) {
      c.state = CallState::kTransferring;
      pairs_->move(cluster_, slot, c.instance, true);
    }
    rerouted_.push_back(graph_.ref(slot));
  } else if (!pair.waits && (prefilled || pairs_->options.reserve == Reserve::kEarly)) {
    askRoom(slot);
  }
}

/// Call whenever an instance came, went or changed its condition: classes, slots and members are others now.
void Scheduler::pairsChanged() {
  if (pairs_ == nullptr || pairsRevision_ == cluster_.revision()) return;
  pairsRevision_ = cluster_.revision();
  pairs_->grow(graph_.callSlots(), cluster_.classes().size());
  pairs_->rebuild(cluster_, graph_, now_);
  pairs_->leasesGiven.resize(cluster_.size(), 0);
  pairs_->crowd.clear();
  if (!pairs_->plans()) return;
  for (const IndexedHeap& queue : shared_) {
    for (const HeapEntry& entry : queue.entries()) joinPlan(entry.slot);
  }
}

bool Scheduler::auditPairs(std::vector<Ledger>* derived, std::vector<Backlog>* backlogs,
                           std::vector<std::size_t>* waitingOn) const {
  std::vector<std::int64_t> given(cluster_.size());
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    const Call& c = graph_.call(slot);
    if (c.state == CallState::kFree || terminal(c.state)) continue;
    const PairCall& pair = pairs_->call(slot);
    if (!leased(c.state)) {
      if (pair.decode != kNoSlot || pair.admitted || pair.waits || pair.moving) return false;
      continue;
    }
    if (pair.onPrefill) {
      Ledger& p = (*derived)[c.instance];
      p.assign(c.cost);
      p.lease(c.cost, 0);
      if (c.state != CallState::kPrefilling) p.firstToken(c.cost, 0);
      if (c.state == CallState::kPrefilling && tracksBacklog_) (*backlogs)[c.instance].lease(c.cost);
    } else if (c.state == CallState::kPrefilling || c.state == CallState::kTransferring) {
      return false;
    }
    if (pair.decode == kNoSlot) return false;
    (*derived)[pair.decode].assign(pair.cost);
    (*derived)[pair.decode].commit(pair.cost);
    if (pair.admitted && !pair.unasked) given[pair.decode] += pair.cost.kv;
    if (pair.running != (c.state == CallState::kDecoding)) return false;
    if (pair.moving != (c.state == CallState::kTransferring)) return false;
    if (!pair.waits) continue;
    ++(*waitingOn)[pair.decode];
    const IndexedHeap& queue = queues_[pair.decode];
    if (c.heapPosition >= queue.size() || queue.entries()[c.heapPosition].slot != slot) return false;
  }
  for (std::uint32_t m = 0; m < cluster_.size(); ++m) {
    const Instance& i = cluster_.at(m);
    if (i.spec.role != Role::kDecode || i.condition == Condition::kAbsent) continue;
    if (pairs_->committedKv(m) != i.ledger.reservedKv) return false;
    if (config_.feedback == Feedback::kLease && pairs_->options.admission == DecodeAdmission::kScheduler &&
        given[m] > i.spec.kvTokens)
      return false;
  }
  return true;
}

}  // namespace laxity
