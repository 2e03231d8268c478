#include "planner/decode_planner.h"

#include <algorithm>

namespace laxity {

std::span<const DecodeEntry> DecodePlanner::plan(Nanos t, const DecodePool& admitted,
                                                 std::span<const WaitingDecode> calls, std::uint32_t limit) {
  const std::uint32_t n = static_cast<std::uint32_t>(calls.size());
  entries_.clear();
  if (n == 0 || limit == 0) return entries_;
  entries_.reserve(n);
  best_.resize(n);
  projection_.begin(admitted, t, n);
  for (std::uint32_t i = 0; i < n; ++i) {
    best_[i].done = false;
    evaluate(calls[i], t, &best_[i]);
  }
  while (entries_.size() < limit) {
    std::uint32_t pick = kNoSlot;
    for (std::uint32_t i = 0; i < n; ++i) {
      const Best& b = best_[i];
      if (b.done || b.rank < 0) continue;
      if (pick != kNoSlot) {
        const Best& other = best_[pick];
        if (b.score < other.score) continue;
        const WaitingDecode& mine = calls[i];
        const WaitingDecode& theirs = calls[pick];
        if (b.score == other.score &&
            (mine.arrival != theirs.arrival ? mine.arrival > theirs.arrival : mine.rank > theirs.rank)) {
          continue;
        }
      }
      pick = i;
    }
    if (pick == kNoSlot) break;
    const WaitingDecode& call = calls[pick];
    Best& b = best_[pick];
    const double rank = b.rank;
    const std::uint32_t d = admitted.slotOf(static_cast<std::uint32_t>(rank));
    const auto time = [&](double offset) {
      return offset < static_cast<double>(kMaxTime - t) ? t + static_cast<Nanos>(offset) : kMaxTime;
    };
    const Nanos finish = time(b.finish);
    entries_.push_back({call.slot, d, admitted.at(d).revision, time(b.ready), finish, b.score});
    b.done = true;
    projection_.commit(d, call.kv, call.sequences, finish);
    for (std::uint32_t i = 0; i < n; ++i) {
      if (!best_[i].done && best_[i].rank == rank) evaluate(calls[i], t, &best_[i]);
    }
  }
  return entries_;
}

void DecodePlanner::evaluate(const WaitingDecode& call, Nanos t, Best* best) {
  best->finish = kInfinite;
  best->rank = -1;
  for (std::uint32_t g = 0; g < projection_.classes(); ++g) {
    const DecodeCandidate* d = projection_.first(g);
    const DecodeCandidate* last = projection_.last(g);
    if (call.lock != kNoSlot) {
      if (!projection_.present(call.lock) || projection_.classOf(call.lock) != g) continue;
      d = projection_.candidate(call.lock);
      last = d + 1;
    }
    const Nanos transfer = call.transfer == nullptr ? 0 : call.transfer[g];
    if (transfer == kNever) continue;
    const double ready = static_cast<double>(transfer);
    for (; d != last; ++d) {
      const double service = call.output * d->perToken;
      if (ready + service > best->finish) break;
      const double wait = projection_.wait(d->slot, call.kv);
      const double finish = std::max(ready, wait) + service;
      if (finish < best->finish || (finish == best->finish && d->rank < best->rank)) {
        best->finish = finish;
        best->ready = ready;
        best->rank = d->rank;
      }
      if (wait <= ready) break;
    }
  }
  const double origin = static_cast<double>(call.arrival - call.hint - t);
  best->score = best->rank < 0 ? -kInfinite : (best->finish - origin) * call.inverseHorizon;
}

}  // namespace laxity
