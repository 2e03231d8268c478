// Llumnix's freeness (arXiv 2406.03243; policies 4.14, the form of its code).
// Assumes the KV need of every assigned call; the ledger's reservations stand for the KV in use.
// Procedure: argmax of F = (KV - reserved - demanded by waiting calls) / (running + waiting sequences),
// tokens per sequence; an instance with neither has F = infinity. F may be negative. The call itself is not
// counted: its demand is the same everywhere. F is a ratio of integers and compared as one, exactly.
// Numerator and denominator both vary inside a class, so every candidate is scored. O(instances). Ties: (F,
// t_comp, perm), also among instances with F = infinity.
#pragma once

#include "placement/placement.h"

namespace laxity {

struct Freeness {
  static constexpr const char* kName = "freeness";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;
  static constexpr bool kNeedsBacklog = true;

  std::uint32_t choose(const PlacementView& view) {
    Choice<PerSequence> best;
    view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
      const std::int64_t sequences = std::int64_t{i.ledger.leased} + i.backlog.waiting;
      const std::int64_t free = i.spec.kvTokens - i.ledger.reservedKv - i.backlog.kv;
      best.offer(m, sequences == 0 ? PerSequence{1, 0} : PerSequence{free, sequences}, e.exec, i.tie);
    });
    return best.instance();
  }

 private:
  /// free / sequences; 1 / 0 is infinity. The freer is the smaller score.
  struct PerSequence {
    std::int64_t free = 0;
    std::int64_t sequences = 1;
    friend bool operator<(const PerSequence& a, const PerSequence& b) {
      return __int128_t{a.free} * b.sequences > __int128_t{b.free} * a.sequences;
    }
    friend bool operator==(const PerSequence& a, const PerSequence& b) {
      return __int128_t{a.free} * b.sequences == __int128_t{b.free} * a.sequences;
    }
  };
};

}  // namespace laxity
