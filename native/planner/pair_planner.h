// The pair planner: which waiting call goes next, and on which prefill and decode instance (HexAGenT's joint
// greedy, papers.md 2.5; semantics planner.md 2).
//
// Assumes: during one plan the pools, prices, transfer times and cached prefixes do not change; time per
// token and KV waits never fall when a call commits (pools.h, projection.h).
//
// One call on a pair (p, d), classes h, g:
//   prefill end = max(ready_p, t) + prefill_h          (a holder of a prefix: its own time)
//   ready       = prefill end + transfer_hg
//   finish      = max(ready, w_d(m)) + output * perToken_d
//   cost        = finish + output * perToken_d * (price_g * m)      (price_g: DecodePool::setPrice, 0 by
//   default)
// Its best pair is the least (cost, finish, ready, perm[d], perm[p]); infeasible where m > capacity_d, and a
// locked call has only its d. A call without any feasible pair stays unplanned.
//
// Procedure, `greedy`: repeat { take the call that the order puts first, on its best pair; commit it }:
// ready_p = prefill end; d holds m more tokens until finish, one more sequence, another time per token.
// `onepass`: the order is that of the first scores, each call is placed on the pair that is best when its
// turn comes. An order that does not look at the projected finish has one sequence of calls, so both are the
// same for it.
//
// Calls: the larger score or key, then (arrival, rank).
// R = (finish - (arrival - hint)) * inverseHorizon.
//
// Exact and fast by planner.md 3: one representative per prefill class; decode classes by (perToken, perm)
// with early stop; a cached best pair holds until a commit touches its p or d. KV waits of all calls on one
// instance come from one walk along its releases, because calls are kept in ascending m.
//
// Costs, N calls, P and D instances, C = prefill classes * decode classes: start O(N C + P + D); a step O(N)
// to find the touched calls and the next, each touched one O(C + decode instances visited), one walk O(N +
// releases) where KV is short. One pass: O(N log N), then O(C + visited * log releases) a call. Nothing is
// allocated once the arrays have grown to the size of the largest plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/frame.h"

namespace laxity {

enum class PlanMode : std::uint8_t {
  kAuto,  ///< greedy up to kGreedyLimit waiting calls, one pass above
  kGreedy,
  kOnePass,
};

inline constexpr std::uint32_t kGreedyLimit = 128;

/// When a plan may stop. Only its head is used, so a plan that stops is a prefix of the whole one.
struct PlanOptions {
  PlanMode mode = PlanMode::kAuto;
  /// false: go on until every open prefill instance has a call and every present one has `perInstance`; the
  /// second is given up after 2 * perInstance * instances steps, because a slow one may never get there. With
  /// perInstance 0 and nothing open the plan is empty.
  bool whole = false;
  std::uint32_t perInstance = 0;
};

/// The kinds of places a call can get. Only pairs exist; a prefill appended on the decode instance that holds
/// the prefix (policies 5.5) would be another candidate of `evaluate`, with p absent.
enum class PlaceKind : std::uint8_t { kPair = 0 };

struct PlanEntry {
  std::uint32_t call = 0;  ///< slots
  std::uint32_t prefill = 0;
  std::uint32_t decode = 0;
  PlaceKind kind = PlaceKind::kPair;
  std::uint32_t prefillRevision = 0;
  std::uint32_t decodeRevision = 0;
  Nanos prefillEnd = 0;
  Nanos ready = 0;
  Nanos finish = 0;
  double ratio = 0;  ///< R, whatever the order
};

/// An order for the planner is a type with kProjected and either
///   line(call): the score is (finish - origin) * slope, the larger first; slope >= 0
///   key(call):  any ordered type, the larger first
struct RatioOrder {
  static constexpr bool kProjected = true;
  struct Line {
    Nanos origin;
    double slope;
  };
  Line line(const WaitingCall& c) const { return {c.arrival - c.hint, c.inverseHorizon}; }
};

/// fcfs, workflow-fcfs, llf, edf-alpha, …: the key that the driver issued.
struct KeyOrder {
  static constexpr bool kProjected = false;
  std::int64_t key(const WaitingCall& c) const { return c.key; }
};

class PairPlanner {
 public:
  enum class Path : std::uint8_t { kAuto, kScalar, kVector };

  /// kVector falls back to scalar where there is no vector unit; results are bit-identical.
  explicit PairPlanner(Path path = Path::kAuto) {
    const Kernel* vector = path == Path::kScalar ? nullptr : avx2Kernel();
    kernel_ = vector != nullptr ? vector : &kScalarKernel;
  }
  bool vectorised() const { return kernel_ != &kScalarKernel; }

  /// Valid until the next plan. The classes of `calls` must be those of the pools (else the plan is empty).
  template <class Order = RatioOrder>
  std::span<const PlanEntry> plan(Nanos t, const PrefillPool& prefill, const DecodePool& decode,
                                  const WaitingCalls& calls, const PlanOptions& options,
                                  const Order& order = {}) {
    if (!begin(t, prefill, decode, calls, options)) return {};
    if constexpr (Order::kProjected) {
      for (std::uint32_t i = 0; i < frame_.size; ++i) {
        const auto line = order.line(frame_.call(i));
        frame_.origin[i] = static_cast<double>(line.origin - t);
        frame_.slope[i] = line.slope;
      }
      const bool greedily = options.mode == PlanMode::kGreedy ||
                            (options.mode == PlanMode::kAuto && calls.size() <= kGreedyLimit);
      if (greedily) {
        greedy();
      } else {
        kernel_->first(frame_);
        inSequence([&](std::uint32_t a, std::uint32_t b) {
          return frame_.score[a] != frame_.score[b] ? frame_.score[a] > frame_.score[b] : frame_.before(a, b);
        });
      }
    } else {
      inSequence([&](std::uint32_t a, std::uint32_t b) {
        const auto keyA = order.key(frame_.call(a));
        const auto keyB = order.key(frame_.call(b));
        return keyA != keyB ? keyA > keyB : frame_.before(a, b);
      });
    }
    return entries_;
  }

 private:
  bool begin(Nanos t, const PrefillPool& prefill, const DecodePool& decode, const WaitingCalls& calls,
             const PlanOptions& options);
  bool enough() const;
  void greedy();
  void place(std::uint32_t i);
  /// One call after the other, in the order of `before`. A plan that may stop early sorts no more than it
  /// uses.
  template <class Before>
  void inSequence(Before&& before) {
    if (options_.whole) {
      std::sort(sequence_.begin(), sequence_.end(), before);
      for (const std::uint32_t i : sequence_) place(i);
      return;
    }
    const auto later = [&](std::uint32_t a, std::uint32_t b) { return before(b, a); };
    std::make_heap(sequence_.begin(), sequence_.end(), later);
    for (auto end = sequence_.end(); end != sequence_.begin() && !enough(); --end) {
      std::pop_heap(sequence_.begin(), end, later);
      place(*(end - 1));
    }
  }
  Changed commit(std::uint32_t i);

  const Kernel* kernel_;
  Frame frame_;
  Nanos t_ = 0;
  PlanOptions options_;
  const DecodePool* decode_ = nullptr;
  std::vector<PlanEntry> entries_;
  std::vector<std::uint32_t> sequence_;
  std::vector<std::uint32_t> given_;  ///< calls planned per prefill instance
  std::uint32_t unserved_ = 0;        ///< open prefill instances without a call
  std::uint32_t below_ = 0;           ///< present ones with fewer than perInstance
  std::uint64_t stepLimit_ = 0;
};

}  // namespace laxity
