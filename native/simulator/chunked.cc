#include "simulator/chunked.h"

#include <algorithm>

namespace laxity {
namespace {

std::uint32_t leftOf(const EngineCall& call, const PrefillChunk& chunk) {
  return call.newTokens() - chunk.doneTokens;
}

}  // namespace

void Chunked::reset() {
  chunks_.clear();
  calls_.clear();
  prefilled_.clear();
  over_ = closed_ = opened_ = false;
}

std::uint32_t Chunked::prefillFree(const EngineBatch& b) const {
  std::int64_t free = std::int64_t{b.spec.chunkTokens} - b.running;
  for (std::size_t i = 0; i < chunks_.size(); ++i) free -= leftOf(calls_[i], chunks_[i]);
  for (std::size_t i = b.fifoHead; i < b.fifo.size() && free > 0; ++i) free -= b.fifo[i].newTokens();
  return free > 0 ? static_cast<std::uint32_t>(free) : 0;
}

void Chunked::price(const EngineBatch& b) {
  const MixedPiece mixed = b.latency->mixed(b.running, b.context, chunks_);
  segment_.clock.piece = mixed.decode;
  if (load_ > 0) [[unlikely]] {
    const FineSum base = segment_.clock.piece.base + (FineSum{load_} << kFineBits);
    segment_.clock.piece.base = static_cast<Fine>(std::min(base, FineSum{INT64_MAX}));
  }
  pieceIterations_ = mixed.iterations;
}

void Chunked::commit(EngineBatch& b, std::int64_t k) {
  if (k == 0) return;
  segment_.clock.commit(b.context, b.running, k);
  b.commit(k);
  for (PrefillChunk& chunk : chunks_) chunk.doneTokens += static_cast<std::uint32_t>(k * chunk.newTokens);
  if (!chunks_.empty()) {
    repeats_ -= k;
    pieceIterations_ -= k;
    if (repeats_ == 0) return;
  }
  if (pieceIterations_ == 0 || b.context >= segment_.clock.piece.contextEnd) price(b);
}

/// Finds the next iteration after which something changes: a finish, an overrun, full KV, the end of the
/// composition or of a linear piece.
void Chunked::schedule(EngineBatch& b) {
  std::int64_t k = chunks_.empty() ? INT64_MAX : std::min(repeats_, pieceIterations_);
  if (b.running > 0) k = std::min(k, segment_.untilChange(b));
  segment_.setEvent(b, k);
}

void Chunked::advance(EngineBatch& b, Nanos t) {
  opened_ = false;
  prefilled_.clear();
  const bool woken = b.wake == t;
  const std::int64_t k = segment_.dueAt(b, t);
  b.wake = kNever;
  if (b.event != t && !woken) return;
  commit(b, k);
  if (b.event != t) {
    schedule(b);
    return;
  }
  b.endIteration();
  const bool composed = !chunks_.empty() && repeats_ == 0;
  if (composed) endChunks(b);
  b.evictUntilFits();
  if (!composed && !b.batchChanged) {
    schedule(b);
    return;
  }
  segment_.end(b, t);
  over_ = true;
  opened_ = closed_ && prefillFree(b) > 0;
}

/// Prefills that are complete emit their first token, in the order of their leases; the one that was cut
/// stays.
void Chunked::endChunks(EngineBatch& b) {
  const std::size_t last = chunks_.size() - 1;
  const bool cut = leftOf(calls_[last], chunks_[last]) > 0;
  for (std::size_t i = 0; i < chunks_.size() - (cut ? 1 : 0); ++i) {
    prefilled_.push_back(calls_[i]);
    if (b.endPrefill(calls_[i])) b.join(calls_[i]);
  }
  b.prefilled = prefilled_;
  if (cut) {
    chunks_.front() = chunks_[last];
    calls_.front() = calls_[last];
  }
  chunks_.resize(cut ? 1 : 0);
  calls_.resize(cut ? 1 : 0);
}

bool Chunked::reach(EngineBatch& b, Nanos t) {
  return segment_.reach(b, t, [&](std::int64_t k) {
    commit(b, k);
    schedule(b);
  });
}

/// Spends the budget of the next iteration.
void Chunked::compose(EngineBatch& b) {
  std::uint32_t budget = b.spec.chunkTokens - b.running;
  load_ = 0;
  if (!chunks_.empty()) {
    chunks_.front().newTokens = std::min(budget, leftOf(calls_.front(), chunks_.front()));
    budget -= chunks_.front().newTokens;
  }
  while (budget > 0 && !b.fifoEmpty() && b.headFits()) {
    const EngineCall call = b.takeHead();
    const std::uint32_t tokens = std::min(budget, call.newTokens());
    chunks_.push_back({call.cachedTokens, 0, tokens});
    calls_.push_back(call);
    load_ = std::min(kMaxTime, load_ + call.load);
    budget -= tokens;
  }
  repeats_ = chunks_.empty() ? 0 : 1;
  if (chunks_.size() == 1) {
    // As long as at least one token remains for an iteration of another size, or for the last of this one.
    const std::uint32_t left = leftOf(calls_.front(), chunks_.front());
    const std::uint32_t tokens = chunks_.front().newTokens;
    if (left > tokens && load_ == 0) repeats_ = (left - 1) / tokens;
  }
}

void Chunked::settle(EngineBatch& b, Nanos t) {
  opened_ = false;
  if (!b.idle() && !over_) {
    // Chunks in progress leave no budget, or end with this iteration.
    if (!chunks_.empty() || b.running >= b.spec.chunkTokens) return;
    if (b.fifoEmpty() || !b.headFits() || !reach(b, t) || !b.headFits()) return;
    segment_.end(b, t);
  }
  compose(b);
  over_ = b.batchChanged = false;
  b.wake = kNever;
  closed_ = prefillFree(b) == 0;
  if (b.idle()) {
    b.event = kNever;
    return;
  }
  segment_.clock.restart(t);
  price(b);
  schedule(b);
}

}  // namespace laxity
