#include "simulator/prefill_first.h"

#include <algorithm>

namespace laxity {

void PrefillFirst::advance(EngineBatch& b, Nanos t) {
  const bool woken = b.wake == t;
  const std::int64_t k = segment_.dueAt(b, t);
  b.wake = kNever;
  if (b.prefilling > 0) {
    if (b.event != t) return;
    b.busy += t - prefillStart_;
    b.event = kNever;
    if (b.spec.chunkTokens > 0) [[unlikely]] {
      endBatch(b);
    } else {
      b.prefilled = {&call_, 1};
      if (b.endPrefill(call_)) b.join(call_);
    }
    b.evictUntilFits();
    return;
  }
  if (b.event != t && !woken) return;
  if (b.event != t) {
    segment_.commit(b, k);
    segment_.schedule(b);
    return;
  }
  segment_.reachEvent(b, t, [&] {
    b.endIteration();
    b.evictUntilFits();
  });
}

bool PrefillFirst::reach(EngineBatch& b, Nanos t) {
  return segment_.reach(b, t, [&](std::int64_t k) {
    segment_.commit(b, k);
    segment_.schedule(b);
  });
}

/// Takes the head and what joins it; returns how long they take.
Nanos PrefillFirst::startBatch(EngineBatch& b) {
  batch_.clear();
  chunks_.clear();
  Nanos load = 0;
  std::int64_t left = b.spec.chunkTokens;
  do {
    const EngineCall call = b.takeHead();
    left -= call.newTokens();
    load = std::min(kMaxTime / 4, load + call.load);
    batch_.push_back(call);
    chunks_.push_back({call.cachedTokens, 0, call.newTokens()});
  } while (!b.fifoEmpty() && b.fifo[b.fifoHead].newTokens() <= left && b.headFits());
  return std::min(kMaxTime / 4, b.latency->prefillBatch(chunks_)) + load;
}

void PrefillFirst::endBatch(EngineBatch& b) {
  b.prefilled = batch_;
  for (const EngineCall& call : batch_) {
    if (b.endPrefill(call)) b.join(call);
  }
}

void PrefillFirst::settle(EngineBatch& b, Nanos t) {
  if (b.prefilling > 0) return;
  if (b.running > 0 && !b.batchChanged) {
    if (b.fifoEmpty() || !b.headFits() || !reach(b, t) || !b.headFits()) return;
    segment_.end(b, t);
  }
  if (!b.fifoEmpty() && b.headFits()) {
    prefillStart_ = t;
    if (b.spec.chunkTokens > 0) [[unlikely]] {
      b.event = std::min(kMaxTime, t + startBatch(b));
    } else {
      call_ = b.takeHead();
      b.event =
          std::min(kMaxTime, t + b.latency->prefill(call_.newTokens(), call_.cachedTokens) + call_.load);
    }
    b.batchChanged = true;
    b.wake = kNever;
    return;
  }
  b.batchChanged = false;
  segment_.begin(b, t);
  segment_.schedule(b);
}

}  // namespace laxity
