// Power of two choices (policies 4.3; Mitzenmacher 2001).
// Assumes t_comp of every assigned call and a generator of its own, made from (placementSeed, stream): the
// choices depend on the seed and on how many were made before, on nothing else, so a log replays them.
// Procedure: with n >= 2 candidates in ascending perm draw a below n, then b below n - 1 (b + 1 where b >=
// a): two distinct ones, every pair equally likely; keep the one with less outstanding work. With one
// candidate nothing is drawn. O(classes) where every instance is a candidate, else O(instances). Ties: (work,
// t_comp, perm).
#pragma once

#include "base/random.h"
#include "placement/placement.h"

namespace laxity {

struct PowerOfTwo {
  static constexpr const char* kName = "power-of-two";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;
  static constexpr std::uint64_t kStream = 0x7032;  ///< of the placementSeed

  void seed(std::uint64_t value) { random_ = Random(value, kStream); }

  std::uint32_t choose(const PlacementView& view) {
    const std::uint32_t count = view.candidates();
    if (count < 2) return view.candidate(0, count);
    const std::uint32_t first = random_.below(count);
    std::uint32_t second = random_.below(count - 1);
    if (second >= first) ++second;
    Choice<Nanos> best;
    for (const std::uint32_t r : {first, second}) {
      const std::uint32_t m = view.candidate(r, count);
      const Instance& i = view.cluster.at(m);
      best.offer(m, i.ledger.work, view.estimate(m).exec, i.tie);
    }
    return best.instance();
  }

 private:
  Random random_{0, kStream};
};

}  // namespace laxity
