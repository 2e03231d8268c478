// The scratch of one plan: the waiting calls as columns, their best pairs, and the instances as planned so
// far.
//
// Calls stand in ascending KV need, four to a group (a vector of doubles). Inside a group the times of a call
// lie in a block, row by row: output tokens, then prefill + transfer per (decode class, prefill class), then
// the same for two holders per decode class. Everything that the scan for the next call reads lies in columns
// of its own.
//
// Times are offsets to t: integers below 2^53 in doubles, so that sums, products and comparisons are exact
// and the scalar and the vector evaluation agree bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/pools.h"
#include "planner/projection.h"
#include "planner/waiting_calls.h"

namespace laxity {

inline constexpr std::uint32_t kLanes = 4;

class Frame {
 public:
  /// Copies the state; O(calls * classes^2 + instances).
  void begin(Nanos t, const PrefillPool& prefill, const DecodePool& decode, const WaitingCalls& calls);

  // Calls, by lane; those beyond `size` and those planned are dead.
  std::uint32_t size = 0;
  std::uint32_t groups = 0;
  std::uint32_t live = 0;
  std::vector<std::uint32_t> slot;
  std::vector<std::int64_t> kv;
  std::vector<double> origin;  ///< score = (finish - origin) * slope
  std::vector<double> slope;
  std::vector<double> skip;  ///< all bits set: not for the vector evaluation (dead or locked)
  std::vector<std::uint8_t> alive;
  std::vector<std::uint8_t> liveIn;    ///< live lanes of a group
  std::vector<std::uint8_t> lockedIn;  ///< its locked lanes, as bits
  std::vector<std::int32_t> holder[2];

  // The best pair of each call; rank -1 without one. Score: minus infinity without one, or dead.
  std::vector<double> finish;
  std::vector<double> ready;
  std::vector<double> bestPrefill;
  std::vector<double> bestDecode;
  std::vector<double> score;

  // Prefill instances by slot, and one more that is never ready, for calls without a holder.
  std::vector<double> clip;  ///< max(ready, t)
  std::vector<double> rank;

  // Per prefill class the instance with the least (clip, rank); classes in ascending rank of theirs, so that
  // the first of equal ready times is the right one.
  struct Representative {
    double clip;
    double rank;
    std::uint32_t hardwareClass;
  };
  std::vector<Representative> representatives;

  DecodeProjection decode;
  bool holders = false;
  std::uint32_t prefillClasses = 0;
  std::uint32_t decodeClasses = 0;

  const double* block(std::uint32_t group) const {
    return blocks_.data() + std::size_t{group} * rows_ * kLanes;
  }
  std::uint32_t holderRow() const { return 1 + prefillClasses * decodeClasses; }
  const WaitingCall& call(std::uint32_t i) const { return calls_->at(slot[i]); }
  const PrefillPool& prefillPool() const { return *prefill_; }

  /// The order among equal scores: arrival, then rank.
  bool before(std::uint32_t i, std::uint32_t j) const {
    const WaitingCall& a = call(i);
    const WaitingCall& b = call(j);
    return a.arrival != b.arrival ? a.arrival < b.arrival : a.rank < b.rank;
  }

  /// w_d of every lane, exact now; null where all of them are 0.
  const double* waits(std::uint32_t d) {
    switch (columns_[d].state) {
      case ColumnState::kExact:
        return storage_[columns_[d].at].data();
      case ColumnState::kFree:
        return nullptr;
      default:
        return refresh(d);
    }
  }
  /// A lower bound of w_d of one lane: what it was earlier in the plan.
  double waitBound(std::uint32_t d, std::uint32_t i) const {
    const Column& c = columns_[d];
    return c.state == ColumnState::kExact || c.state == ColumnState::kStale ? storage_[c.at][i] : 0;
  }
  double wait(std::uint32_t d, std::uint32_t i) {
    const Column& c = columns_[d];
    if (c.state == ColumnState::kExact) return storage_[c.at][i];
    return c.state == ColumnState::kFree ? 0 : decode.wait(d, kv[i]);
  }

  /// The time that lane i's prefill takes on p.
  double prefillTime(std::uint32_t i, std::uint32_t p) const;

  /// Moves p's ready time and its class's representative. O(members of the class).
  void occupy(std::uint32_t p, double until);
  void reserve(std::uint32_t d, std::uint32_t i, Nanos finish);
  void kill(std::uint32_t i);

  /// Closes the gaps that planned calls left; O(live * rows).
  void compact();

 private:
  enum class ColumnState : std::uint8_t { kUnknown, kFree, kExact, kStale };
  struct Column {
    ColumnState state;
    std::uint32_t at;  ///< in storage_, kNoSlot without
  };

  const double* refresh(std::uint32_t d);
  void represent(std::uint32_t hardwareClass, Representative* out) const;
  void settle();

  const PrefillPool* prefill_ = nullptr;
  const WaitingCalls* calls_ = nullptr;
  std::uint32_t rows_ = 0;
  std::vector<double> blocks_;
  std::vector<Column> columns_;
  std::vector<std::vector<double>> storage_;
  std::uint32_t storageUsed_ = 0;
};

/// The best pair of one lane, as planner.md 9: per decode class the earliest decode-ready time over the
/// prefill representatives and holders, then the class by (time per token, rank), until no later instance can
/// win. `wait(d)` and `bound(d) <= wait(d)`.
template <class Wait, class Bound>
void evaluate(Frame& f, std::uint32_t i, Wait&& wait, Bound&& bound) {
  const double* block = f.block(i / kLanes) + i % kLanes;
  const double output = block[0];
  const std::uint32_t lock = f.call(i).lock;
  double bestFinish = kInfinite;
  double bestReady = -kInfinite;
  double bestDecode = -1;
  double bestPrefill = -1;
  for (std::uint32_t g = 0; g < f.decodeClasses; ++g) {
    const DecodeCandidate* d = f.decode.first(g);
    const DecodeCandidate* last = f.decode.last(g);
    if (lock != kNoSlot) {
      if (!f.decode.present(lock) || f.decode.classOf(lock) != g) continue;
      d = f.decode.candidate(lock);
      last = d + 1;
    }
    if (d == last) continue;
    double ready = kInfinite;
    double prefill = -1;
    const double* row = block + std::size_t{1 + g * f.prefillClasses} * kLanes;
    for (const Frame::Representative& p : f.representatives) {
      const double r = p.clip + row[p.hardwareClass * kLanes];
      if (r < ready) {
        ready = r;
        prefill = p.rank;
      }
    }
    if (f.holders) {
      for (std::uint32_t k = 0; k < 2; ++k) {
        const std::int32_t p = f.holder[k][i];
        const double r = f.clip[p] + block[std::size_t{f.holderRow() + k * f.decodeClasses + g} * kLanes];
        if (r < ready || (r == ready && f.rank[p] < prefill)) {
          ready = r;
          prefill = f.rank[p];
        }
      }
    }
    if (ready == kInfinite) continue;
    for (; d != last; ++d) {
      const double service = output * d->perToken;
      if (ready + service > bestFinish) break;
      if (std::max(ready, bound(d->slot)) + service > bestFinish) continue;
      const double w = wait(d->slot);
      const double finish = std::max(ready, w) + service;
      if (finish < bestFinish ||
          (finish == bestFinish && (ready < bestReady || (ready == bestReady && d->rank < bestDecode)))) {
        bestFinish = finish;
        bestReady = ready;
        bestDecode = d->rank;
        bestPrefill = prefill;
      }
      if (w <= ready) break;
    }
  }
  f.finish[i] = bestFinish;
  f.ready[i] = bestReady;
  f.bestDecode[i] = bestDecode;
  f.bestPrefill[i] = bestPrefill;
}

inline void evaluateFromColumns(Frame& f, std::uint32_t i) {
  evaluate(
      f, i,
      [&](std::uint32_t d) {
        const double* waits = f.waits(d);
        return waits == nullptr ? 0 : waits[i];
      },
      [](std::uint32_t) { return 0.0; });
  f.score[i] = f.bestDecode[i] < 0 ? -kInfinite : (f.finish[i] - f.origin[i]) * f.slope[i];
}

/// Evaluates again every call whose best pair uses the prefill rank `p` or the decode rank `d` (with `all`:
/// every call), and returns the lane that goes first: largest score, ties by `before`; kNoSlot where no call
/// has a pair.
using Pass = std::uint32_t (*)(Frame& frame, double p, double d, bool all);
std::uint32_t passScalar(Frame& frame, double p, double d, bool all);
/// Null where this processor or compiler has no AVX2.
Pass passAvx2();

}  // namespace laxity
