// The clock of a segment: iterations of one composition, one after the other.
//
// Iteration k of the segment ends at
//
//     start + round(accumulated + sum of the first k iteration times since the last commit)
//
// with the sum exact (model/latency.h) and rounded once, so no error grows with the number of iterations and
// any boundary can be found without visiting the ones before.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/time.h"
#include "model/latency.h"

namespace laxity {

struct Iterations {
  Nanos start = 0;
  FineSum accumulated = 0;  ///< of the committed iterations
  DecodePiece piece;

  void restart(Nanos t) {
    start = t;
    accumulated = 0;
  }
  /// When the k-th iteration from now on ends: `batch` sequences, `context` tokens before the first.
  Nanos end(std::int64_t context, std::int64_t batch, std::int64_t k) const {
    return start + piece.roundedSum(accumulated, context, batch, k);
  }
  void commit(std::int64_t context, std::int64_t batch, std::int64_t k) {
    accumulated += piece.sum(context, batch, k);
  }
  /// The smallest k >= 0 whose iteration ends at or after t. Solved in doubles, then corrected exactly.
  std::int64_t atOrAfter(Nanos t, std::int64_t context, std::int64_t batch) const {
    const Nanos now = end(context, batch, 0);
    if (now >= t) return 0;
    const double goal = static_cast<double>(t - now) * (1 << kFineBits);
    std::int64_t k = reaching(piece, goal, context, batch);
    while (end(context, batch, k) < t) ++k;
    while (k > 0 && end(context, batch, k - 1) >= t) --k;
    return k;
  }
  /// About how many iterations take `goal` fine units: solves the quadratic.
  static std::int64_t reaching(const DecodePiece& piece, double goal, std::int64_t context,
                               std::int64_t batch) {
    const double curve = static_cast<double>(piece.perContext) * static_cast<double>(batch) / 2;
    const double linear = static_cast<double>(piece.base) +
                          static_cast<double>(piece.perContext) * static_cast<double>(context) - curve;
    const double guess =
        curve > 0 ? 2 * goal / (linear + std::sqrt(linear * linear + 4 * curve * goal)) : goal / linear;
    return guess > 0 ? static_cast<std::int64_t>(guess) : 0;
  }
};

}  // namespace laxity
