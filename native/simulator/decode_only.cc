#include "simulator/decode_only.h"

#include <algorithm>

namespace laxity {
namespace {

auto find(std::vector<EngineCall>& calls, std::uint32_t slot) {
  return std::find_if(calls.begin(), calls.end(), [&](const EngineCall& c) { return c.slot == slot; });
}

/// Takes a call out of the middle of the queue.
EngineCall takeAt(EngineBatch& b, std::size_t i) {
  const EngineCall call = b.fifo[i];
  b.fifo.erase(b.fifo.begin() + static_cast<std::ptrdiff_t>(i));
  if (b.fifoEmpty()) {
    b.fifo.clear();
    b.fifoHead = 0;
  }
  return call;
}

}  // namespace

void DecodeOnly::reset(const EngineOptions& options) {
  backfill_ = options.backfill;
  kvFirst_ = options.kvFirst;
  again_ = 0;
  prefilling_ = false;
  rooms_.clear();
  arrived_.clear();
  given_.clear();
  joined_.clear();
  peak_ = 0;
}

void DecodeOnly::arrived(std::uint32_t slot) {
  const auto room = find(rooms_, slot);
  arrived_.push_back(*room);
  rooms_.erase(room);
}

void DecodeOnly::dropRoom(EngineBatch& b, std::uint32_t slot, Nanos t) {
  for (std::size_t i = b.fifoHead + again_; i < b.fifo.size(); ++i) {
    if (b.fifo[i].slot != slot) continue;
    takeAt(b, i);
    return;
  }
  for (std::vector<EngineCall>* calls : {&rooms_, &arrived_}) {
    const auto room = find(*calls, slot);
    if (room == calls->end()) continue;
    if (b.growing > 0 && !prefilling_ && !b.batchChanged) {  // the iterations since the last commit count
      std::int64_t k = segment_.boundary(b, t);
      if (segment_.endOf(b, k) > t) --k;
      peak_ = std::max(peak_, b.kvUsed + k * b.growing);
    }
    --b.prefilling;
    b.kvUsed -= room->kv;
    calls->erase(room);
    return;
  }
}

/// Makes k iterations part of the past.
void DecodeOnly::commit(EngineBatch& b, std::int64_t k) {
  segment_.commit(b, k);
  notePeak(b);
  segment_.schedule(b);
}

void DecodeOnly::advance(EngineBatch& b, Nanos t) {
  joined_.clear();
  if (b.event != t && b.wake != t) return;  // only its arrivals brought it here
  const std::int64_t k = segment_.dueAt(b, t);
  b.wake = kNever;
  if (prefilling_) {
    if (b.event != t) return;
    b.busy += t - prefillStart_;
    b.event = kNever;
    prefilling_ = false;
    if (b.endPrefill(call_)) b.join(call_);
    return;
  }
  if (b.event != t) {
    commit(b, k);
    return;
  }
  segment_.reachEvent(b, t, [&] {
    notePeak(b);
    b.endIteration();
  });
}

void DecodeOnly::join(EngineBatch& b, Nanos t) {
  joined_.clear();
  if (prefilling_) return;
  if (arrived_.empty() && !full(b)) return;
  if (b.running > 0 && !b.batchChanged) {
    if (!reach(b, t)) return;
    segment_.end(b, t);
  }
  for (const EngineCall& call : arrived_) {
    b.join(call);
    joined_.push_back(call.slot);
  }
  arrived_.clear();
  const std::size_t waiting = b.fifo.size();
  b.evictUntilFits();
  again_ += b.fifo.size() - waiting;
}

bool DecodeOnly::reach(EngineBatch& b, Nanos t) {
  return segment_.reach(b, t, [&](std::int64_t k) { commit(b, k); });
}

bool DecodeOnly::someoneFits(const EngineBatch& b) const {
  const std::size_t end = backfill_ ? b.fifo.size() : std::min(b.fifo.size(), b.fifoHead + 1);
  for (std::size_t i = b.fifoHead; i < end; ++i) {
    if (fits(b, b.fifo[i])) return true;
  }
  return false;
}

/// The engine stands at a boundary.
void DecodeOnly::giveRoom(EngineBatch& b, Nanos t) {
  std::size_t i = b.fifoHead;
  while (i < b.fifo.size()) {
    const bool again = i < b.fifoHead + again_;
    if (!fits(b, b.fifo[i]) || (again && prefilling_)) {
      if (!backfill_) break;
      ++i;
      continue;
    }
    EngineCall call;
    if (i == b.fifoHead) {
      call = b.takeHead();
      i = b.fifoHead;
    } else {
      call = takeAt(b, i);
      ++b.prefilling;
      b.kvUsed += call.kv;
    }
    if (!again) {
      given_.push_back(call.slot);
      if (!kvFirst_) {
        rooms_.push_back(call);
        continue;
      }
      if (!b.batchChanged && b.running > 0) segment_.end(b, t);
      b.join(call);
      continue;
    }
    --again_;
    prefilling_ = true;
    call_ = call;
    prefillStart_ = t;
  }
  notePeak(b);
}

void DecodeOnly::settle(EngineBatch& b, Nanos t) {
  given_.clear();
  if (prefilling_) return;
  const bool segment = b.running > 0 && !b.batchChanged;  // goes on, unless a call joins or a prefill begins
  if (segment && (!someoneFits(b) || !reach(b, t))) return;
  giveRoom(b, t);
  if (prefilling_) {
    if (segment && !b.batchChanged) segment_.end(b, t);
    b.event = std::min(kMaxTime, t + b.latency->prefill(call_.newTokens(), call_.cachedTokens) + call_.load);
    b.batchChanged = true;
    b.wake = kNever;
    return;
  }
  if (!segment || b.batchChanged) {
    b.batchChanged = false;
    segment_.begin(b, t);
  }
  segment_.schedule(b);
  if (full(b)) {
    segment_.wakeIterations = 0;
    b.wake = t;
  }
}

}  // namespace laxity
