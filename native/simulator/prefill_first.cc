#include "simulator/prefill_first.h"

#include <algorithm>

namespace laxity {

/// The time of k iterations that the batch has committed, from `context` on.
void PrefillFirst::noteTime(EngineBatch& b, std::int64_t context, std::int64_t k) {
  clock_.commit(context, b.running, k);
  if (k > 0 && b.context >= clock_.piece.contextEnd) clock_.piece = b.latency->piece(b.running, b.context);
}

/// Makes k iterations of the segment part of its committed past.
void PrefillFirst::commit(EngineBatch& b, std::int64_t k) {
  const std::int64_t context = b.context;
  b.commit(k);
  noteTime(b, context, k);
}

/// Finds the next iteration after which something changes: a finish, an overrun, full KV, the end of a linear
/// piece.
void PrefillFirst::schedule(EngineBatch& b) {
  if (b.prefilling > 0) return;
  if (b.running == 0) {
    b.event = kNever;
    return;
  }
  std::int64_t k = b.untilChange();
  if (clock_.piece.contextEnd != INT64_MAX) {
    k = std::min(k, (clock_.piece.contextEnd - b.context + b.running - 1) / b.running);
  }
  eventIterations_ = k;
  b.event = endOf(b, k);
}

void PrefillFirst::advance(EngineBatch& b, Nanos t) {
  const bool woken = b.wake == t;
  const std::int64_t k = b.event == t ? eventIterations_ : wakeIterations_;
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
    commit(b, k);
    schedule(b);
    return;
  }
  const std::int64_t context = b.context;
  b.commit(k);
  b.endIteration();
  b.evictUntilFits();
  if (b.batchChanged) {  // the segment is over, and nobody asks for its sum again
    b.busy += t - clock_.start;
  } else {
    noteTime(b, context, k);
    schedule(b);
  }
}

/// Where an iteration ends at t, commits up to it, so that the KV counts are those of t; else wakes at the
/// next end.
bool PrefillFirst::reach(EngineBatch& b, Nanos t) {
  const std::int64_t k = boundary(b, t);
  const Nanos end = endOf(b, k);
  if (end != t) {
    wakeIterations_ = k;
    b.wake = end;
    return false;
  }
  if (k > 0) {
    commit(b, k);
    schedule(b);
  }
  return true;
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
    b.busy += t - clock_.start;
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
  if (b.running > 0) {
    clock_.restart(t);
    clock_.piece = b.latency->piece(b.running, b.context);
  }
  schedule(b);
}

}  // namespace laxity
