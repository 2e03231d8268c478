// Engine mode prefill-first: a waiting lease that fits is prefilled alone and whole before decode goes on;
// otherwise all running calls decode one token per iteration. With a budget of b = chunkTokens > 0 tokens the
// calls behind it that fit join it in one batch while their summed new tokens stay within b (a larger prompt
// runs alone), and all of it ends together.
//
// Boundaries are the ends of iterations and of prefills. The engine leaps while the batch is constant
// (segment.h); a segment ends when the batch changes or a prefill begins.
#pragma once

#include <vector>

#include "simulator/engine_batch.h"
#include "simulator/segment.h"

namespace laxity {

class PrefillFirst {
 public:
  void advance(EngineBatch& b, Nanos t);
  void settle(EngineBatch& b, Nanos t);
  bool standsAt(const EngineBatch& b, Nanos t) const {
    return b.prefilling == 0 && (b.running == 0 || b.batchChanged || segment_.standsAt(b, t));
  }
  bool atBoundaryOrWake(EngineBatch& b, Nanos t) {
    if (b.prefilling > 0) return false;  // the end of the prefill is an event anyway
    if (b.running == 0 || b.batchChanged) return true;
    return reach(b, t);
  }
  static std::uint32_t prefillFree(const EngineBatch& b) {
    if (b.prefilling > 0 || !b.fifoEmpty()) return 0;
    return b.spec.chunkTokens > 0 ? b.spec.chunkTokens : 1;
  }

  /// At a boundary: the next settle begins a segment.
  void endSegment(EngineBatch& b, Nanos t) {
    if (b.running > 0 && !b.batchChanged) segment_.end(b, t);
    b.batchChanged = true;
  }

 private:
  bool reach(EngineBatch& b, Nanos t);
  Nanos startBatch(EngineBatch& b);
  void endBatch(EngineBatch& b);

  Segment segment_;
  EngineCall call_;                   ///< being prefilled
  std::vector<EngineCall> batch_;     ///< in place of it, where prefills run as batches
  std::vector<PrefillChunk> chunks_;  ///< scratch
  Nanos prefillStart_ = 0;
};

}  // namespace laxity
