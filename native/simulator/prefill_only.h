// Engine role prefill: computes prompts in the order of their leases, head of line strict, and keeps their KV
// until the driver says that it has left.
//
// One prompt at a time, or with a budget of b = chunkTokens > 0 tokens a batch: the head, then the calls
// behind it while their summed new tokens stay within b (a larger prompt runs alone), at most maxSequences. A
// prompt begins only where its KV fits beside all KV held. A call whose only output token comes with its
// prefill is over then, and holds nothing.
//
// A batch takes what LatencyModel::prefillBatch says of its prompts (of one alone: its prefill), and the sum
// of their loads.
#pragma once

#include <vector>

#include "simulator/engine_batch.h"

namespace laxity {

class PrefillOnly {
 public:
  void reset();
  void advance(EngineBatch& b, Nanos t);
  void settle(EngineBatch& b, Nanos t);
  static bool standsAt(const EngineBatch& b, Nanos) { return b.prefilling == 0; }
  static bool atBoundaryOrWake(EngineBatch& b, Nanos) { return b.prefilling == 0; }
  static std::uint32_t prefillFree(const EngineBatch& b) {
    return b.prefilling > 0 || !b.fifoEmpty() ? 0 : 1;
  }
  /// Does nothing though it could: never after a settle.
  static bool neglects(const EngineBatch& b) { return b.prefilling == 0 && !b.fifoEmpty() && b.headFits(); }
  /// The KV of a prompt whose prefill ended is no longer here.
  void kvLeft(EngineBatch& b, std::int64_t tokens) {
    b.kvUsed -= tokens;
    --holding_;
  }
  /// Prompts whose prefill ended and whose KV is still here.
  std::uint32_t holding() const { return holding_; }

 private:
  std::vector<EngineCall> calls_;      ///< being prefilled
  std::vector<EngineCall> prefilled_;  ///< with the last advance
  std::vector<PrefillChunk> chunks_;   ///< scratch
  Nanos start_ = 0;
  std::uint32_t holding_ = 0;
};

}  // namespace laxity
