#include "simulator/engine.h"

#include <algorithm>
#include <cmath>

namespace laxity {
namespace {

constexpr auto kUntracked = [](std::uint32_t, std::uint32_t) {};

}  // namespace

void Engine::reset(const InstanceSpec& spec, const LatencyModel& latency, const EngineOptions& options) {
  spec_ = spec;
  latency_ = &latency;
  options_ = options;
  fifo_.clear();
  fifoHead_ = 0;
  slots_.clear();
  freeSlots_.clear();
  byFinish_.clear();
  byOverrun_.clear();
  running_ = 0;
  joins_ = 0;
  kvUsed_ = growing_ = 0;
  prefilling_ = batchChanged_ = prefillEnded_ = false;
  accumulated_ = 0;
  iteration_ = context_ = 0;
  event_ = wake_ = kNever;
  busy_ = 0;
  prefilledTokens_ = 0;
  requeued_ = 0;
}

bool Engine::headFits() const {
  const EngineCall& head = fifo_[fifoHead_];
  return running_ < spec_.maxSequences && kvUsed_ + growing_ + head.kv <= spec_.kvTokens;
}

void Engine::popFifo() {
  if (++fifoHead_ == fifo_.size()) {
    fifo_.clear();
    fifoHead_ = 0;
  }
}

/// The smallest k >= 0 whose iteration ends at or after t. Solved in doubles, then corrected exactly.
std::int64_t Engine::iterationAtOrAfter(Nanos t) const {
  if (timeAt(0) >= t) return 0;
  constexpr double kFine = 1 << kFineBits;
  const double goal = static_cast<double>(t - timeAt(0)) * kFine;
  const double curve = static_cast<double>(piece_.perContext) * running_ / 2;
  const double linear = static_cast<double>(piece_.base) +
                        static_cast<double>(piece_.perContext) * static_cast<double>(context_) - curve;
  const double guess =
      curve > 0 ? 2 * goal / (linear + std::sqrt(linear * linear + 4 * curve * goal)) : goal / linear;
  std::int64_t k = guess > 0 ? static_cast<std::int64_t>(guess) : 0;
  while (timeAt(k) < t) ++k;
  while (k > 0 && timeAt(k - 1) >= t) --k;
  return k;
}

/// Makes k iterations of the segment part of its committed past.
void Engine::commit(std::int64_t k) {
  accumulated_ += piece_.sum(context_, running_, k);
  iteration_ += k;
  context_ += k * running_;
  kvUsed_ += k * growing_;
  if (k > 0 && context_ >= piece_.contextEnd) piece_ = latency_->piece(running_, context_);
}

void Engine::startSegment(Nanos t) {
  segmentStart_ = t;
  accumulated_ = 0;
  batchChanged_ = false;
  piece_ = latency_->piece(running_, context_);
}

/// Finds the next iteration after which something changes: a finish, an overrun, full KV, the end of a linear
/// piece.
void Engine::schedule() {
  if (prefilling_) return;
  if (running_ == 0) {
    event_ = kNever;
    return;
  }
  std::int64_t k = -byFinish_.top().key - iteration_;
  if (!byOverrun_.empty()) k = std::min(k, -byOverrun_.top().key - iteration_);
  if (growing_ > 0) k = std::min(k, std::max<std::int64_t>(1, (spec_.kvTokens - kvUsed_) / growing_));
  if (piece_.contextEnd != INT64_MAX) {
    k = std::min(k, (piece_.contextEnd - context_ + running_ - 1) / running_);
  }
  eventIterations_ = k;
  event_ = timeAt(k);
}

void Engine::advance(Nanos t) {
  prefillEnded_ = false;
  finished_.clear();
  if (!evicted_.empty()) evicted_.clear();
  if (!overflowed_.empty()) overflowed_.clear();
  const bool woken = wake_ == t;
  const std::int64_t k = event_ == t ? eventIterations_ : wakeIterations_;
  wake_ = kNever;
  if (prefilling_) {
    if (event_ != t) return;
    completePrefill(t);
    evictUntilFits();
    return;
  }
  if (event_ != t && !woken) return;
  commit(k);
  if (event_ != t) {
    schedule();
    return;
  }
  while (!byOverrun_.empty() && -byOverrun_.top().key == iteration_) {
    const std::uint32_t index = byOverrun_.top().slot;
    byOverrun_.removeAt(0, kUntracked);
    slots_[index].grows = true;
    ++growing_;
  }
  while (!byFinish_.empty() && -byFinish_.top().key == iteration_) {
    const std::uint32_t index = byFinish_.top().slot;
    finished_.push_back(slots_[index].call);
    leave(index);
  }
  evictUntilFits();
  if (batchChanged_)
    busy_ += t - segmentStart_;
  else
    schedule();
}

void Engine::startPrefill(Nanos t) {
  prefillCall_ = fifo_[fifoHead_];
  popFifo();
  prefilling_ = true;
  prefillStart_ = t;
  kvUsed_ += prefillCall_.kv;
  const std::uint32_t computed = prefillCall_.promptTokens - prefillCall_.cachedTokens;
  event_ = std::min(kMaxTime, t + latency_->prefill(computed, prefillCall_.cachedTokens) + prefillCall_.load);
}

void Engine::completePrefill(Nanos t) {
  busy_ += t - prefillStart_;
  prefilledTokens_ += prefillCall_.promptTokens - prefillCall_.cachedTokens;
  prefilling_ = false;
  batchChanged_ = true;
  event_ = kNever;
  prefillEnded_ = true;
  const std::uint32_t first = options_.firstToken == FirstToken::kFromPrefill ? 1 : 0;
  if (prefillCall_.outputTokens <= first) {
    kvUsed_ -= prefillCall_.kv;
    finished_.push_back(prefillCall_);
    return;
  }
  const std::int64_t free = std::int64_t{prefillCall_.kv} - prefillCall_.promptTokens - first;
  join(prefillCall_, std::int64_t{prefillCall_.promptTokens} + first, prefillCall_.outputTokens - first,
       free);
}

/// `freeSteps`: iterations until the reservation is used up.
void Engine::join(const EngineCall& call, std::int64_t context, std::uint32_t steps, std::int64_t freeSteps) {
  std::uint32_t index;
  if (freeSlots_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = freeSlots_.back();
    freeSlots_.pop_back();
  }
  Running& r = slots_[index];
  r.grows = false;
  r.call = call;
  r.joined = joins_++;
  r.joinIteration = iteration_;
  r.contextAtJoin = context;
  r.finishIteration = iteration_ + steps;
  r.live = true;
  ++running_;
  context_ += context;
  byFinish_.push({-r.finishIteration, r.joined, index}, kUntracked);
  r.overrunIteration = iteration_ + std::max<std::int64_t>(0, freeSteps);
  if (!options_.chargeOutput || r.overrunIteration >= r.finishIteration) {
    r.overrunIteration = -1;
    return;
  }
  if (freeSteps <= 0) {
    kvUsed_ += -freeSteps;  // the first token already outgrew the reservation
    r.grows = true;
    ++growing_;
    r.overrunIteration = -1;
    return;
  }
  byOverrun_.push({-r.overrunIteration, r.joined, index}, kUntracked);
}

std::int64_t Engine::kvOf(const Running& r) const {
  if (!options_.chargeOutput) return r.call.kv;
  return std::max(r.call.kv, contextOf(r));
}

/// Usually the top; an eviction may take any.
void Engine::drop(IndexedHeap& heap, std::uint32_t index) {
  std::size_t at = 0;
  while (heap.entries()[at].slot != index) ++at;
  heap.removeAt(at, kUntracked);
}

void Engine::leave(std::uint32_t index) {
  Running& r = slots_[index];
  drop(byFinish_, index);
  if (r.grows)
    --growing_;
  else if (r.overrunIteration >= 0)
    drop(byOverrun_, index);
  kvUsed_ -= kvOf(r);
  context_ -= contextOf(r);
  --running_;
  batchChanged_ = true;
  r.live = false;
  freeSlots_.push_back(index);
}

/// Before an iteration that would exceed the KV cache, the calls that joined last give way.
void Engine::evict() {
  while (growing_ > 0 && kvUsed_ + growing_ > spec_.kvTokens) {
    std::uint32_t latest = kNoSlot;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].live && (latest == kNoSlot || slots_[i].joined > slots_[latest].joined)) latest = i;
    }
    const Running& r = slots_[latest];
    EngineCall call = r.call;
    const auto generated = static_cast<std::uint32_t>(contextOf(r) - call.promptTokens);
    leave(latest);
    if (!options_.requeueEvicted) {
      evicted_.push_back({call, generated});
      continue;
    }
    ++requeued_;
    // What is prefilled again covers the tokens generated so far; an overrun doubles the expectation.
    call.promptTokens += generated;
    call.cachedTokens = 0;  // what was reused is lost with the rest
    call.load = 0;
    call.outputTokens -= generated;
    call.expectedTokens =
        call.expectedTokens > generated ? call.expectedTokens - generated : std::max(1u, generated);
    const std::int64_t room = spec_.kvTokens - call.promptTokens;
    if (room < 1) {
      overflowed_.push_back(call);
      continue;
    }
    call.kv = call.promptTokens + std::min<std::int64_t>(call.expectedTokens, room);
    fifo_.insert(fifo_.begin() + static_cast<std::ptrdiff_t>(fifoHead_), call);
  }
}

bool Engine::atBoundaryOrWake(Nanos t) {
  if (prefilling_) return false;  // the end of the prefill is an event anyway
  if (running_ == 0 || batchChanged_) return true;
  return reach(t);
}

/// Where an iteration ends at t, commits up to it, so that the KV counts are those of t; else wakes at the
/// next end.
bool Engine::reach(Nanos t) {
  const std::int64_t k = iterationAtOrAfter(t);
  const Nanos end = timeAt(k);
  if (end != t) {
    wakeIterations_ = k;
    wake_ = end;
    return false;
  }
  if (k > 0) {
    commit(k);
    schedule();
  }
  return true;
}

void Engine::settle(Nanos t) {
  if (prefilling_) return;
  if (running_ > 0 && !batchChanged_) {
    if (fifoEmpty() || !headFits() || !reach(t) || !headFits()) return;
    busy_ += t - segmentStart_;
  }
  if (!fifoEmpty() && headFits()) {
    startPrefill(t);
    batchChanged_ = true;
    wake_ = kNever;
    return;
  }
  if (running_ > 0)
    startSegment(t);
  else
    batchChanged_ = false;
  schedule();
}

}  // namespace laxity
