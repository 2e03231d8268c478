// Lookahead leases that are taken back, on instances that declare it (CONTRACT 5); a lease of a pair where
// both declare it.
//
// A lease of m can be taken back while the engine has not begun with it, as far as events tell, and while its
// call has lost fewer than kMaxRevokes leases this way:
//   prefill-first, decode-share   an older lease of m has no first token either, so it waits behind that one
//   chunked                       the tokens of older leases without a first token, and what runs, fill the
//                                 budget of an iteration
//   prefill instances             an older lease of m has no first token either; where prompts run as
//   batches,
//                                 it does not fit into the batch of those
// It is taken back
//   - for the head of the queue that m draws from, if the head has no credit on m, would have it without this
//     lease, and goes before it in the present order (ties by rank; fair shares play no part). Of
//     several the one that goes last; in a shared queue over all instances considered at this instant that
//     can run the head. A lease of a pair is compared as the whole call that it still is, with its projected
//     finish; where a planner chooses, the head is the first by the order alone, and gets p and the d of its
//     earliest finish, outside the plan;
//   - when m closes: drained, removed, its breaker opens, or the engine has asked for a pause; of a pair,
//   when
//     p or d does. The call whose failure closes m still counts as older then.
// Its call is ready again with the next epoch, its arrival and ready time unchanged, no retry counted, and is
// placed in the same instant. kRevoke stands in front of the lease that it makes room for.
#include <algorithm>

#include "scheduler/call_key.h"
#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"

namespace laxity {
namespace {

constexpr std::uint8_t kMaxRevokes = 2;

}  // namespace

bool Scheduler::revocable(std::uint32_t instance) const {
  return anyRevocable_ && rules_.any && instance < live_.revocable.size() && live_.revocable[instance] != 0;
}

/// Whether the engine has to do with older leases first: so many of them, with so many tokens to prefill.
bool Scheduler::notBegun(const Instance& m, const Call& lease, std::int64_t tokens,
                         std::uint32_t older) const {
  if (m.spec.mode == EngineMode::kChunked) return tokens + m.ledger.running() >= m.spec.chunkTokens;
  if (older == 0) return false;
  return m.spec.chunkTokens == 0 || tokens + lease.cost.prefillTokens > m.spec.chunkTokens;
}

/// Visits the leases of m that can be taken back, the newest first.
template <class Visit>
void Scheduler::eachRevocable(std::uint32_t instance, Visit&& visit) const {
  const Instance& m = cluster_.at(instance);
  std::int64_t tokens = 0;   // of the leases without a first token that are as old or older
  std::uint32_t behind = 0;  // such leases
  for (std::uint32_t c = m.firstLease; c != kNoSlot; c = graph_.call(c).nextLease) {
    if (graph_.call(c).state != CallState::kPrefilling) continue;
    tokens += graph_.call(c).cost.prefillTokens;
    ++behind;
  }
  for (std::uint32_t c = m.firstLease; c != kNoSlot;) {
    const Call& call = graph_.call(c);
    const std::uint32_t next = call.nextLease;
    if (call.state == CallState::kPrefilling) {
      tokens -= call.cost.prefillTokens;
      --behind;
      const bool mayGo = c != failing_ && live_.calls[c].revokes < kMaxRevokes &&
                         (pairs_ == nullptr || revocable(pairs_->call(c).decode));
      if (mayGo && notBegun(m, call, tokens, behind) && graph_.workflow(call.workflow).open) visit(c);
    }
    c = next;
  }
}

/// Takes back the lease on `instances` that goes last, for a call that waits. The instance where there is
/// room for it now; kNoSlot where there is none.
std::uint32_t Scheduler::revokeFor(std::uint32_t slot, std::span<const std::uint32_t> instances) {
  const Call& head = graph_.call(slot);
  std::uint32_t last = kNoSlot;
  shareLimit_ = kNever;
  std::visit(
      [&](const auto& order) {
        using Type = std::decay_t<decltype(order)>;
        const auto viewOf = [&](const Call& c) {
          return &c == &head ? orderView(c, c.instance) : leaseView(c, c.instance);
        };
        const auto entryOf = [&](std::uint32_t call) {
          const Call& c = graph_.call(call);
          Nanos key = 0;
          if constexpr (!Type::kDynamic) key = c.demoted ? demotedKey(c) : order.key(viewOf(c));
          return HeapEntry{key, c.rank, call};
        };
        HeapEntry worst{};
        for (const std::uint32_t m : instances) {
          if (!revocable(m) || cluster_.at(m).spec.role == Role::kDecode) continue;
          if (estimates(slot)[cluster_.at(m).hardwareClass].exec == kNever) continue;
          if (!cluster_.at(m).accepts() && head.instance != m) continue;
          const HeapEntry mine = entryOf(slot);
          eachRevocable(m, [&](std::uint32_t c) {
            const HeapEntry entry = entryOf(c);
            if (!goesBefore(order, mine, entry, viewOf) || !creditWithout(m, head, c)) return;
            if (last != kNoSlot && goesBefore(order, entry, worst, viewOf)) return;
            last = c;
            worst = entry;
          });
        }
      },
      config_.order);
  if (last == kNoSlot) return kNoSlot;
  const std::uint32_t instance = graph_.call(last).instance;
  revoke(last, &decisions_);
  revoked_ = true;
  return instance;
}

void Scheduler::revoke(std::uint32_t slot, std::vector<Decision>* into) {
  ++live_.calls[slot].revokes;
  ++live_.revoked;
  takeBack(slot, RejectReason::kRevoked, into);
}

/// What the order sees of a lease without a first token: the whole call.
OrderView Scheduler::leaseView(const Call& c, std::uint32_t instance) const {
  if (pairs_ == nullptr) return orderView(c, instance);
  const auto slot = static_cast<std::uint32_t>(&c - &graph_.call(0));
  const bool shared = config_.binding == Binding::kAtCredit;
  const Nanos exec = shared ? c.mean : estimates(slot)[cluster_.at(instance).hardwareClass].exec;
  const Nanos delta = needsDelta_ ? pairs_->decodeFinish(c, pairs_->call(slot), now_) - now_ : 0;
  return {c, workflowOf(c), config_.parameters, now_, exec, delta};
}

bool Scheduler::creditWithout(std::uint32_t instance, const Call& head, std::uint32_t lease) const {
  const Instance& m = cluster_.at(instance);
  Ledger u = m.ledger;
  u.firstToken(graph_.call(lease).cost, now_);
  u.release(graph_.call(lease).cost);
  if (pairs_ != nullptr) return hasPrefillCredit(instance, u, head);
  if (m.condition != Condition::kUp || m.closedUntil > now_) return false;
  return u.leased + head.sequences <= m.spec.maxSequences + config_.lookahead &&
         u.reservedKv + kvNeed(head) <= classTerms_[m.hardwareClass].kvLimit && prefillGateOpen(m.spec, u);
}

/// Where a planner chooses: room for the first waiting call of each model, if no p has any for it.
void Scheduler::leaseByRevoking() {
  for (std::size_t i = 0; i < openInstances_.size(); ++i) {
    if (!revocable(openInstances_[i]) || cluster_.at(openInstances_[i]).spec.role != Role::kPrefill) continue;
    const IndexedHeap& queue = shared_[cluster_.at(openInstances_[i]).spec.model];
    while (!queue.empty()) {
      const std::uint32_t slot = pick(queue);
      const Call& head = graph_.call(slot);
      const PairView view = pairView(head, slot);
      const bool credit = std::any_of(cluster_.byTie().begin(), cluster_.byTie().end(), [&](std::uint32_t m) {
        return view.isPrefill(m) && prefillOpen(m) && hasPrefillCredit(m, head);
      });
      const auto best = [&](std::uint32_t p) {
        return pairs_->best(cluster_, head, estimates(slot), pairs_->decodeAlone(slot), p, now_);
      };
      // A d for one p is a d for any.
      if (credit || best(kNoSlot).decode == kNoSlot) break;
      const std::uint32_t p = revokeFor(slot, openInstances_);
      if (p == kNoSlot) break;
      const Pairs::Projection pair = best(p);
      leaseShared(slot, p, pair.decode, pair.ready, pair.finish);
    }
  }
}

/// The instance closes.
void Scheduler::revokeAll(std::uint32_t instance) {
  if (!revocable(instance)) return;
  std::vector<std::uint32_t> leases;
  if (cluster_.at(instance).spec.role != Role::kDecode) {
    eachRevocable(instance, [&](std::uint32_t c) { leases.push_back(c); });
  } else {
    for (const std::uint32_t p : cluster_.byTie()) {
      if (cluster_.at(p).spec.role != Role::kPrefill || !revocable(p)) continue;
      eachRevocable(p, [&](std::uint32_t c) {
        if (pairs_->call(c).decode == instance) leases.push_back(c);
      });
    }
  }
  for (const std::uint32_t c : leases) revoke(c, &rejected_);
}

/// What was taken back in a decide is placed, and maybe leased elsewhere, in the same one.
void Scheduler::settleRevoked(Nanos t) {
  while (revoked_ && !placementFailed_) {
    revoked_ = false;
    const Status placed = placeAll(t);
    decisions_.insert(decisions_.end(), rejected_.begin(), rejected_.end());
    rejected_.clear();
    if (!touched().empty() && ok(placed)) decideAll();
  }
}

}  // namespace laxity
