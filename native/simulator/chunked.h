// Engine mode chunked: every iteration has a budget of b = chunkTokens tokens. Each running call takes one
// and decodes; what is left goes to prefills in the order of their leases, several of them if they fit, the
// last one cut where the budget ends. A prefill that completes emits its first token at the end of that
// iteration and decodes from the next one on.
//
// An iteration takes what LatencyModel::mixed says, decode of the batch plus the chunks, and the load times
// of the cached prefixes whose calls begin with it. A lease leaves the FIFO, and reserves its KV, with its
// first chunk: in order, while budget is left and it fits (sequences, KV), strict head of line. Prefilled
// calls number at most b (each took a token of the budget when it completed), so decode always fits the
// budget, and a cut prefill always gets at least one token.
//
// Boundaries are the ends of iterations. The engine leaps while the composition is constant: a pure decode,
// or one prefill that takes all the budget that the decodes leave, again and again. Any other iteration with
// chunks is a segment of its own. Sums restart, rounded once, with every segment (iterations.h).
#pragma once

#include <vector>

#include "simulator/engine_batch.h"
#include "simulator/segment.h"

namespace laxity {

class Chunked {
 public:
  void reset();
  void advance(EngineBatch& b, Nanos t);
  void settle(EngineBatch& b, Nanos t);
  bool standsAt(const EngineBatch& b, Nanos t) const { return b.idle() || over_ || segment_.standsAt(b, t); }
  bool atBoundaryOrWake(EngineBatch& b, Nanos t) { return b.idle() || over_ || reach(b, t); }
  /// Tokens of the budget that neither a decode nor a prefill in hand will take.
  std::uint32_t prefillFree(const EngineBatch& b) const;
  /// The last advance let budget appear where there was none: news for a scheduler that waits for it.
  bool opened() const { return opened_; }

  /// At a boundary: the next settle begins a segment.
  void endSegment(EngineBatch& b, Nanos t) {
    if (!b.idle() && !over_) {
      segment_.end(b, t);
      over_ = true;
    }
  }

 private:
  bool reach(EngineBatch& b, Nanos t);
  void commit(EngineBatch& b, std::int64_t k);
  void schedule(EngineBatch& b);
  void price(const EngineBatch& b);
  void endChunks(EngineBatch& b);
  void compose(EngineBatch& b);

  Segment segment_;
  std::int64_t pieceIterations_ = 0;  ///< for which the piece of the segment holds
  std::int64_t repeats_ = 0;          ///< iterations of this composition
  /// The iteration in progress; between an advance and the settle that follows only the prefill that was cut.
  std::vector<PrefillChunk> chunks_;
  std::vector<EngineCall> calls_;      ///< theirs
  std::vector<EngineCall> prefilled_;  ///< with the last advance
  Nanos load_ = 0;                     ///< of prefixes that the iteration fetches from slower tiers
  bool over_ = false;                  ///< stands at the end of its composition
  bool closed_ = false;                ///< prefillFree was 0
  bool opened_ = false;
};

}  // namespace laxity
