#include "simulator/prefill_only.h"

#include <algorithm>

namespace laxity {

void PrefillOnly::reset() {
  calls_.clear();
  prefilled_.clear();
  holding_ = 0;
}

void PrefillOnly::advance(EngineBatch& b, Nanos t) {
  if (b.event != t) return;
  b.event = kNever;
  b.busy += t - start_;
  prefilled_.swap(calls_);
  calls_.clear();
  for (const EngineCall& call : prefilled_) {
    b.prefilledTokens += call.newTokens();
    --b.prefilling;
    if (call.outputTokens <= b.firstTokens) {
      b.kvUsed -= call.kv;
      b.finished.push_back(call);
    } else {
      ++holding_;
    }
  }
  b.prefilled = prefilled_;
}

void PrefillOnly::settle(EngineBatch& b, Nanos t) {
  if (b.prefilling > 0 || b.fifoEmpty() || !b.headFits()) return;
  calls_.push_back(b.takeHead());
  Nanos load = calls_.front().load;
  std::int64_t left = std::int64_t{b.spec.chunkTokens} - calls_.front().newTokens();
  while (left > 0 && !b.fifoEmpty() && b.fifo[b.fifoHead].newTokens() <= left && b.headFits()) {
    calls_.push_back(b.takeHead());
    left -= calls_.back().newTokens();
    load = std::min(kMaxTime, load + calls_.back().load);
  }
  chunks_.clear();
  for (const EngineCall& call : calls_) chunks_.push_back({call.cachedTokens, 0, call.newTokens()});
  const Nanos time = b.latency->prefillBatch(chunks_);
  start_ = t;
  b.event = std::min(kMaxTime, t + std::min(kMaxTime - t, time) + load);
}

}  // namespace laxity
