// The scratch of one plan: the waiting calls as columns, their best pairs, and the instances as planned so
// far.
//
// Calls stand in ascending KV need, four to a group (a vector of doubles). Inside a group the times of a call
// lie in a block, row by row: output tokens, then prefill + transfer per (decode class, prefill class), then
// the same for two holders per decode class. Everything that the search for the next call reads lies in
// columns of its own.
//
// A source is where a prefill can start: source k < classes is the representative of prefill class k (of its
// present members the least (max(ready, t), perm)), source classes + p is instance p itself, for holders; one
// more is never ready.
//
// A lane keeps its cached pair as (source, toReady, wait, service, decode rank) and the score of that pair
// *now*:
//   score = (max(clip[source] + toReady, wait) + service - origin) * slope
// With prices on KV the cached pair is the one of least cost, finish + charge, and also has its charge; exact
// scores are of its finish, touched lanes are valued with finish + charge instead: the pair that will be best
// ends no later than it costs, and costs no more than the cached one now.
// Any pair's present value bounds the best one from above, so a lane whose source or decode instance a commit
// has changed is only valued again and marked stale; it is evaluated if its bound comes out first. A score
// that is not stale is exact (planner.md, claim 3). Compare claim 4: no bound on drifts is needed.
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

/// What a commit changed, as lanes see it.
struct Changed {
  std::int32_t representative = -1;  ///< source whose representative is another or less ready, -1 = none
  std::int32_t instance = -1;        ///< source of the prefill instance itself
  std::uint32_t decode = 0;          ///< slot
  double decodeRank = -1;
};

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
  std::vector<double> tokens;  ///< kv once more
  std::vector<double> origin;
  std::vector<double> slope;
  std::vector<double> skip;             ///< all bits set: not for the vector evaluation (dead or locked)
  std::vector<std::int32_t> holder[2];  ///< sources

  // The cached pair; decode rank -1 and score minus infinity without one, or dead.
  std::vector<std::int32_t> source;
  std::vector<double> toReady;
  std::vector<double> wait;
  std::vector<double> service;
  std::vector<double> charge;  ///< service * price of the class * kv
  std::vector<double> decodeRank;
  std::vector<double> score;

  // Groups: lanes as bits, and the largest score.
  std::vector<std::uint8_t> liveIn;
  std::vector<std::uint8_t> lockedIn;
  std::vector<std::uint8_t> staleIn;
  std::vector<double> best;  ///< and minus infinity up to the next multiple of kLanes

  // Sources.
  std::vector<double> clip;  ///< max(ready, t)
  std::vector<double> rank;
  /// Prefill classes with members, in ascending rank of their representatives: the first of equal ready times
  /// is the right one.
  std::vector<std::uint32_t> representatives;

  DecodeProjection decode;
  bool priced = false;         ///< some price is not 0
  std::vector<double> prices;  ///< by decode class
  bool holders = false;
  std::uint32_t prefillClasses = 0;
  std::uint32_t decodeClasses = 0;

  const double* block(std::uint32_t group) const {
    return blocks_.data() + std::size_t{group} * rows_ * kLanes;
  }
  std::uint32_t holderRow() const { return 1 + prefillClasses * decodeClasses; }
  const WaitingCall& call(std::uint32_t i) const { return calls_->at(slot[i]); }
  const PrefillPool& prefillPool() const { return *prefill_; }
  bool alive(std::uint32_t i) const { return liveIn[i / kLanes] >> (i % kLanes) & 1; }
  double output(std::uint32_t i) const { return block(i / kLanes)[i % kLanes]; }

  /// The order among equal scores: arrival, then rank.
  bool before(std::uint32_t i, std::uint32_t j) const {
    const WaitingCall& a = call(i);
    const WaitingCall& b = call(j);
    return a.arrival != b.arrival ? a.arrival < b.arrival : a.rank < b.rank;
  }

  /// Of the cached pair.
  double readyOf(std::uint32_t i) const { return clip[static_cast<std::uint32_t>(source[i])] + toReady[i]; }
  double finishOf(std::uint32_t i) const { return std::max(readyOf(i), wait[i]) + service[i]; }
  double valueOf(std::uint32_t i) const {
    return decodeRank[i] < 0 ? -kInfinite : (finishOf(i) - origin[i]) * slope[i];
  }
  /// No less than the value of the pair that is best now.
  double boundOf(std::uint32_t i) const {
    return decodeRank[i] < 0 ? -kInfinite : (finishOf(i) + charge[i] - origin[i]) * slope[i];
  }

  /// w_d of every lane: exact with `exact`, else a lower bound (what it was earlier in the plan). Exact
  /// without asking at the first time. Null where all of them are 0.
  double* waits(std::uint32_t d, bool exact) {
    const Column& c = columns_[d];
    if (c.state == ColumnState::kExact || (c.state == ColumnState::kStale && !exact))
      return storage_[c.at].data();
    return c.state == ColumnState::kFree ? nullptr : refresh(d);
  }
  bool waitsAreExact(std::uint32_t d) const { return columns_[d].state != ColumnState::kStale; }
  /// One lane's, exact; does not fill a column.
  double waitOf(std::uint32_t d, std::uint32_t i) {
    const Column& c = columns_[d];
    if (c.state == ColumnState::kExact) return storage_[c.at][i];
    return c.state == ColumnState::kFree ? 0 : decode.wait(d, kv[i]);
  }
  double waitBound(std::uint32_t d, std::uint32_t i) const {
    const Column& c = columns_[d];
    return c.state == ColumnState::kExact || c.state == ColumnState::kStale ? storage_[c.at][i] : 0;
  }
  /// Before some lanes ask for w_d: whether all calls fit now, so that nobody has to.
  bool allFit(std::uint32_t d) {
    if (kv[std::size_t{groups} * kLanes - 1] > decode.free(d)) return false;
    columns_[d].state = ColumnState::kFree;
    return true;
  }
  /// The lanes that will ask: one walk where that is cheaper than a search for each.
  void expectWaits(std::uint32_t d, std::uint32_t lanes) {
    if (lanes * 16 >= groups * kLanes * 2 + decode.window(d).size()) waits(d, true);
  }

  /// The time that lane i's prefill takes on p.
  double prefillTime(std::uint32_t i, std::uint32_t p) const;

  /// Lane i goes to its cached pair: p is busy until `end`, d holds it until `finish`. O(members of p's
  /// class).
  Changed commit(std::uint32_t i, std::uint32_t p, std::uint32_t d, double end, Nanos finish);
  void kill(std::uint32_t i);

  /// Closes the gaps that planned calls left; O(live * rows).
  void compact();

 private:
  enum class ColumnState : std::uint8_t { kUnknown, kFree, kExact, kStale };
  struct Column {
    ColumnState state;
    std::uint32_t at;  ///< in storage_, kNoSlot without
  };

  double* refresh(std::uint32_t d);
  void represent(std::uint32_t hardwareClass);
  void settle();
  void pad(std::uint32_t i);

  const PrefillPool* prefill_ = nullptr;
  const WaitingCalls* calls_ = nullptr;
  std::uint32_t rows_ = 0;
  std::vector<double> blocks_;
  std::vector<Column> columns_;
  std::vector<std::vector<double>> storage_;
  std::uint32_t storageUsed_ = 0;
  struct Moved {
    bool stale;
    bool locked;
  };
  std::vector<Moved> moved_;
};

/// The best pair of one lane, as planner.md 9: per decode class the earliest decode-ready time over the
/// prefill representatives and holders, then the class by (time per token, rank), until no later instance can
/// win: with equal ready times both finish and cost rise along it. `wait(d)` and `bound(d) <= wait(d)`.
template <class Wait, class Bound>
void evaluate(Frame& f, std::uint32_t i, Wait&& wait, Bound&& bound) {
  const double* block = f.block(i / kLanes) + i % kLanes;
  const double output = block[0];
  const std::uint32_t lock = f.call(i).lock;
  const double* clip = f.clip.data();
  const double* rank = f.rank.data();
  double bestCost = kInfinite;
  double bestFinish = kInfinite;
  double bestReady = -kInfinite;
  double bestDecode = -1;
  std::int32_t bestSource = static_cast<std::int32_t>(f.clip.size()) - 1;
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
    std::int32_t source = bestSource;
    const double* row = block + std::size_t{1 + g * f.prefillClasses} * kLanes;
    for (const std::uint32_t k : f.representatives) {
      const double r = clip[k] + row[k * kLanes];
      if (r < ready) {
        ready = r;
        source = static_cast<std::int32_t>(k);
      }
    }
    if (f.holders) {
      for (std::uint32_t k = 0; k < 2; ++k) {
        const std::int32_t h = f.holder[k][i];
        const double r = clip[h] + block[std::size_t{f.holderRow() + k * f.decodeClasses + g} * kLanes];
        if (r < ready || (r == ready && rank[h] < rank[source])) {
          ready = r;
          source = h;
        }
      }
    }
    if (ready == kInfinite) continue;
    const double share = f.prices[g] * static_cast<double>(f.kv[i]);
    for (; d != last; ++d) {
      const double service = output * d->perToken;
      const double charge = service * share;
      if (ready + service + charge > bestCost) break;
      if (std::max(ready, bound(d->slot)) + service + charge > bestCost) continue;
      const double w = wait(d->slot);
      const double finish = std::max(ready, w) + service;
      const double cost = finish + charge;
      if (cost < bestCost ||
          (cost == bestCost &&
           (finish < bestFinish ||
            (finish == bestFinish && (ready < bestReady || (ready == bestReady && d->rank < bestDecode)))))) {
        bestCost = cost;
        bestFinish = finish;
        bestReady = ready;
        bestDecode = d->rank;
        bestSource = source;
        f.wait[i] = w;
        f.service[i] = service;
        f.charge[i] = charge;
      }
      if (w <= ready) break;
    }
  }
  f.decodeRank[i] = bestDecode;
  f.source[i] = bestSource;
  f.toReady[i] = bestReady - clip[bestSource];
}

/// With columns where they are exact, and single answers where they are not.
inline void evaluateLane(Frame& f, std::uint32_t i) {
  evaluate(
      f, i,
      [&](std::uint32_t d) {
        double* waits = f.waits(d, false);
        if (waits == nullptr) return 0.0;
        if (!f.waitsAreExact(d)) waits[i] = f.decode.wait(d, f.kv[i]);
        return waits[i];
      },
      [&](std::uint32_t d) { return f.waitBound(d, i); });
  f.score[i] = f.valueOf(i);
}

/// The two implementations of the inner loops. `first` evaluates every lane, `next` values again what
/// `changed` touched; both return the lane that goes first, exact (largest score, ties by `before`), kNoSlot
/// without one. To pick: take the largest bound; while it is stale, evaluate it and take again.
struct Kernel {
  std::uint32_t (*first)(Frame& frame);
  std::uint32_t (*next)(Frame& frame, const Changed& changed);
};
extern const Kernel kScalarKernel;
/// Null where this processor or compiler has no AVX2.
const Kernel* avx2Kernel();

/// The lane that comes first among those of the groups whose `best` is `top`.
inline std::uint32_t firstOf(const Frame& f, std::uint32_t group, double top, std::uint32_t pick) {
  for (std::uint32_t i = group * kLanes; i < (group + 1) * kLanes; ++i) {
    if (f.score[i] == top && (pick == kNoSlot || f.before(i, pick))) pick = i;
  }
  return pick;
}

inline bool stale(const Frame& f, std::uint32_t i) { return f.staleIn[i / kLanes] >> (i % kLanes) & 1; }

}  // namespace laxity
