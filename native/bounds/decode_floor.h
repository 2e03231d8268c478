// An affine lower bound of the time of a decode iteration:
//
//     T(B, K) >= base + perSequence * B + perContext * K      for 1 <= B <= maxBatch, 1 <= K <= maxContext
//
// with K the context summed over the batch. Constants meet it exactly. Every other model is a table of linear
// pieces; the slopes are guessed and the base is then the least of T - slopes over the ends of all pieces, so
// that a bad guess makes the bound weak and never wrong.
#pragma once

#include <cstdint>

#include "model/latency.h"

namespace laxity::bounds {

/// ns; none is negative.
struct DecodeFloor {
  double base = 0;
  double perSequence = 0;
  double perContext = 0;
  /// No batch is faster than one of its sequences alone, so `decodeAlone` bounds the time of a whole decode.
  bool aloneIsFastest = false;

  double at(double batch, double context) const { return base + perSequence * batch + perContext * context; }
};

/// All zero where the pieces are too many to look at.
DecodeFloor decodeFloor(const LatencyModel& model, std::uint32_t maxBatch, std::int64_t maxContext);

}  // namespace laxity::bounds
