#include "simulator/engine_batch.h"

namespace laxity {
namespace {

constexpr auto kUntracked = [](std::uint32_t, std::uint32_t) {};

/// Usually the top; an eviction may take any.
void drop(IndexedHeap& heap, std::uint32_t index) {
  std::size_t at = 0;
  while (heap.entries()[at].slot != index) ++at;
  heap.removeAt(at, kUntracked);
}

}  // namespace

void EngineBatch::reset(const InstanceSpec& instance, const LatencyModel& model,
                        const EngineOptions& engineOptions) {
  spec = instance;
  latency = &model;
  options = engineOptions;
  firstTokens = options.firstToken == FirstToken::kFromPrefill ? 1 : 0;
  fifo.clear();
  fifoHead = 0;
  slots_.clear();
  freeSlots_.clear();
  byFinish_.clear();
  byOverrun_.clear();
  running = prefilling = 0;
  joins_ = 0;
  kvUsed = growing = 0;
  iteration = context = 0;
  batchChanged = false;
  event = wake = kNever;
  busy = 0;
  prefilledTokens = 0;
  requeued = 0;
  clearReports();
}

void EngineBatch::join(const EngineCall& call) {
  const std::uint32_t first = firstTokens;
  const std::int64_t freeSteps = call.kv - call.promptTokens - first;  // until the reservation is used up
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
  r.joinIteration = iteration;
  r.contextAtJoin = std::int64_t{call.promptTokens} + first;
  r.finishIteration = iteration + call.outputTokens - first;
  r.live = true;
  --prefilling;
  ++running;
  batchChanged = true;
  context += r.contextAtJoin;
  byFinish_.push({-r.finishIteration, r.joined, index}, kUntracked);
  r.overrunIteration = iteration + std::max<std::int64_t>(0, freeSteps);
  if (!options.chargeOutput || r.overrunIteration >= r.finishIteration) {
    r.overrunIteration = -1;
    return;
  }
  if (freeSteps <= 0) {
    kvUsed += -freeSteps;  // the first token already outgrew the reservation
    r.grows = true;
    ++growing;
    r.overrunIteration = -1;
    return;
  }
  byOverrun_.push({-r.overrunIteration, r.joined, index}, kUntracked);
}

void EngineBatch::endIteration() {
  while (!byOverrun_.empty() && -byOverrun_.top().key == iteration) {
    const std::uint32_t index = byOverrun_.top().slot;
    byOverrun_.removeAt(0, kUntracked);
    slots_[index].grows = true;
    ++growing;
  }
  while (!byFinish_.empty() && -byFinish_.top().key == iteration) {
    const std::uint32_t index = byFinish_.top().slot;
    finished.push_back(slots_[index].call);
    leave(index);
  }
}

std::int64_t EngineBatch::kvOf(const Running& r) const {
  if (!options.chargeOutput) return r.call.kv;
  return std::max(r.call.kv, contextOf(r));
}

void EngineBatch::leave(std::uint32_t index) {
  Running& r = slots_[index];
  drop(byFinish_, index);
  if (r.grows)
    --growing;
  else if (r.overrunIteration >= 0)
    drop(byOverrun_, index);
  kvUsed -= kvOf(r);
  context -= contextOf(r);
  --running;
  batchChanged = true;
  r.live = false;
  freeSlots_.push_back(index);
}

/// Before an iteration that would exceed the KV cache, the calls that joined last give way.
void EngineBatch::evict() {
  while (growing > 0 && kvUsed + growing > spec.kvTokens) {
    std::uint32_t latest = kNoSlot;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].live && (latest == kNoSlot || slots_[i].joined > slots_[latest].joined)) latest = i;
    }
    const Running& r = slots_[latest];
    EngineCall call = r.call;
    const auto generated = static_cast<std::uint32_t>(contextOf(r) - call.promptTokens);
    leave(latest);
    if (!options.requeueEvicted) {
      evicted.push_back({call, generated});
      continue;
    }
    ++requeued;
    // What is prefilled again covers the tokens generated so far; an overrun doubles the expectation.
    call.promptTokens += generated;
    call.cachedTokens = 0;  // what was reused is lost with the rest
    call.load = 0;
    call.outputTokens -= generated;
    call.expectedTokens =
        call.expectedTokens > generated ? call.expectedTokens - generated : std::max(1u, generated);
    const std::int64_t room = spec.kvTokens - call.promptTokens;
    if (room < 1) {
      overflowed.push_back(call);
      continue;
    }
    call.kv = call.promptTokens + std::min<std::int64_t>(call.expectedTokens, room);
    fifo.insert(fifo.begin() + static_cast<std::ptrdiff_t>(fifoHead), call);
  }
}

}  // namespace laxity
