// Lookahead leases that are taken back, on instances that declare it (CONTRACT 5); unified clusters.
//
// A lease of m can be taken back while the engine has not begun with it, as far as events tell, and while its
// call has lost fewer than kMaxRevokes leases this way:
//   prefill-first, decode-share   an older lease of m has no first token either, so it waits behind that one
//   chunked                       the tokens of older leases without a first token, and what runs, fill the
//                                 budget of an iteration
// It is taken back
//   - for the head of the queue that m draws from, if the head has no credit on m, would have it without this
//     lease, and goes before it in the present order (ties by rank; fair shares play no part). Of
//     several the one that goes last; in a shared queue over all instances considered at this instant that
//     can run the head;
//   - when m closes: drained, removed, its breaker opens, or the engine has asked for a pause. The call whose
//     failure closes m still counts as older then.
// Its call is ready again with the next epoch, its arrival and ready time unchanged, no retry counted, and is
// placed in the same instant. kRevoke stands in front of the lease that it makes room for.
#include <algorithm>

#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"

namespace laxity {
namespace {

constexpr std::uint8_t kMaxRevokes = 2;

}  // namespace

bool Scheduler::revocable(std::uint32_t instance) const {
  return anyRevocable_ && rules_.any && instance < live_.revocable.size() && live_.revocable[instance] != 0;
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
      const bool waits = m.spec.mode == EngineMode::kChunked
                             ? tokens + m.ledger.running() >= m.spec.chunkTokens
                             : behind > 0;
      const bool mayGo = c != failing_ && live_.calls[c].revokes < kMaxRevokes;
      if (waits && mayGo && graph_.workflow(call.workflow).open) visit(c);
    }
    c = next;
  }
}

/// Takes back the lease on `instances` that goes last, for a call that waits. False where there is none.
bool Scheduler::revokeFor(std::uint32_t slot, std::span<const std::uint32_t> instances) {
  const Call& head = graph_.call(slot);
  std::uint32_t last = kNoSlot;
  shareLimit_ = kNever;
  std::visit(
      [&](const auto& order) {
        const auto entryOf = [&](std::uint32_t call, std::uint32_t instance) {
          return HeapEntry{staticKey(graph_.call(call), instance), graph_.call(call).rank, call};
        };
        HeapEntry worst{};
        for (const std::uint32_t m : instances) {
          if (!revocable(m) || estimates(slot)[cluster_.at(m).hardwareClass].exec == kNever) continue;
          if (!cluster_.at(m).accepts() && head.instance != m) continue;
          const HeapEntry mine = entryOf(slot, head.instance);
          eachRevocable(m, [&](std::uint32_t c) {
            const HeapEntry entry = entryOf(c, m);
            if (!goesBefore(order, mine, entry) || !creditWithout(m, kvNeed(head), head.sequences, c)) return;
            if (last != kNoSlot && goesBefore(order, entry, worst)) return;
            last = c;
            worst = entry;
          });
        }
      },
      config_.order);
  if (last == kNoSlot) return false;
  ++live_.calls[last].revokes;
  ++live_.revoked;
  takeBack(last, RejectReason::kRevoked, &decisions_);
  revoked_ = true;
  return true;
}

bool Scheduler::creditWithout(std::uint32_t instance, std::int64_t kv, std::uint32_t sequences,
                              std::uint32_t lease) const {
  const Instance& m = cluster_.at(instance);
  if (m.condition != Condition::kUp || m.closedUntil > now_) return false;
  Ledger u = m.ledger;
  u.firstToken(graph_.call(lease).cost, now_);
  u.release(graph_.call(lease).cost);
  return u.leased + sequences <= m.spec.maxSequences + config_.lookahead &&
         u.reservedKv + kv <= classTerms_[m.hardwareClass].kvLimit && prefillGateOpen(m.spec, u);
}

/// The instance closes.
void Scheduler::revokeAll(std::uint32_t instance) {
  if (!revocable(instance)) return;
  std::vector<std::uint32_t> leases;
  eachRevocable(instance, [&](std::uint32_t c) { leases.push_back(c); });
  for (const std::uint32_t c : leases) {
    ++live_.calls[c].revokes;
    ++live_.revoked;
    takeBack(c, RejectReason::kRevoked, &rejected_);
  }
}

/// What was taken back in a decide is placed, and maybe leased elsewhere, in the same one.
void Scheduler::settleRevoked(Nanos t) {
  while (revoked_ && !placementFailed_) {
    revoked_ = false;
    const Status placed = placeAll(t);
    decisions_.insert(decisions_.end(), rejected_.begin(), rejected_.end());
    rejected_.clear();
    if (anyTouched() && ok(placed)) decideAll();
  }
}

}  // namespace laxity
