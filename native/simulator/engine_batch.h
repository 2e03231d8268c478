// What every engine mode is made of: the inner FIFO of leased calls, the running batch with its summed
// context, and the true KV.
//
// Counted in iterations, not in time: a mode (prefill_first.h, chunked.h, decode_share.h) says when
// iterations end and which calls are being prefilled. KV is reserved when a call leaves the FIFO; a running
// call that outgrows its reservation takes one token more with every iteration, and before an iteration that
// would exceed the cache the calls that joined the batch last give way. A call that is being prefilled is
// never evicted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/heap.h"
#include "base/time.h"
#include "cluster/instance.h"
#include "model/latency.h"
#include "workflow/template.h"

namespace laxity {

/// What the driver hands over with a lease.
struct EngineCall {
  std::uint32_t slot = 0;            ///< the driver's name for it
  std::uint32_t promptTokens = 0;    ///< to prefill
  std::uint32_t outputTokens = 0;    ///< true tokens still to emit
  std::uint32_t expectedTokens = 0;  ///< what the reservation assumed
  std::int64_t kv = 0;               ///< reserved, tokens
  std::uint32_t cachedTokens = 0;    ///< of the prompt: found in the prefix cache, not computed
  Nanos load = 0;                    ///< time to fetch them from a slower tier, before the prefill

  std::uint32_t newTokens() const { return promptTokens - cachedTokens; }
};

struct EngineOptions {
  FirstToken firstToken = FirstToken::kFromPrefill;
  bool chargeOutput = true;     ///< false: output never takes KV (HexGen-Flow's simulator)
  bool requeueEvicted = false;  ///< lease mode: an evicted call goes first in the inner FIFO, unseen
  bool backfill = false;        ///< decode role: room goes to calls behind a head that does not fit
  bool kvFirst = false;         ///< decode role: calls ask for room when their KV is here
};

struct EvictedCall {
  EngineCall call;
  std::uint32_t generated;
};

struct EngineBatch {
  void reset(const InstanceSpec& instance, const LatencyModel& model, const EngineOptions& engineOptions);

  // --- the inner FIFO
  bool fifoEmpty() const { return fifoHead == fifo.size(); }
  bool headFits() const {
    const EngineCall& head = fifo[fifoHead];
    return running + prefilling < spec.maxSequences && kvUsed + growing + head.kv <= spec.kvTokens;
  }
  /// Takes the head out and reserves its KV: it is being prefilled from now on.
  EngineCall takeHead() {
    const EngineCall head = fifo[fifoHead];
    if (++fifoHead == fifo.size()) {
      fifo.clear();
      fifoHead = 0;
    }
    ++prefilling;
    kvUsed += head.kv;
    return head;
  }

  // --- the batch
  std::uint32_t held() const {
    return running + prefilling + static_cast<std::uint32_t>(fifo.size() - fifoHead);
  }
  bool idle() const { return running == 0 && prefilling == 0; }
  /// The prefill of a call ends: notes the end of a call that has no more to emit. True where it has.
  bool endPrefill(const EngineCall& call) {
    prefilledTokens += call.newTokens();
    batchChanged = true;
    if (call.outputTokens > firstTokens) return true;
    --prefilling;
    kvUsed -= call.kv;
    finished.push_back(call);
    return false;
  }
  /// A prefilled call decodes from the next iteration on.
  void join(const EngineCall& call);
  /// k more iterations are over. No call may end or grow before the last of them.
  void commit(std::int64_t k) {
    iteration += k;
    context += k * running;
    kvUsed += k * growing;
  }
  /// Iterations until a call ends, outgrows its reservation or the KV is full; at least one call runs.
  std::int64_t untilChange() const {
    std::int64_t k = -byFinish_.top().key - iteration;
    if (!byOverrun_.empty()) k = std::min(k, -byOverrun_.top().key - iteration);
    if (growing > 0) k = std::min(k, std::max<std::int64_t>(1, (spec.kvTokens - kvUsed) / growing));
    return k;
  }
  /// What ends and what starts to grow with the last committed iteration.
  void endIteration();
  void evictUntilFits() {
    if (growing > 0) evict();
  }

  void clearReports() {
    prefilled = {};
    finished.clear();
    if (!evicted.empty()) evicted.clear();
    if (!overflowed.empty()) overflowed.clear();
  }

  struct Running {
    EngineCall call;
    std::uint64_t joined = 0;  ///< join number: ties of one iteration, and who came last
    std::int64_t joinIteration = 0;
    std::int64_t contextAtJoin = 0;
    std::int64_t finishIteration = 0;
    std::int64_t overrunIteration =
        0;  ///< after it the call outgrows its reservation, one token an iteration
    bool grows = false;
    bool live = false;
  };

  InstanceSpec spec;
  const LatencyModel* latency = nullptr;
  EngineOptions options;
  std::uint32_t firstTokens = 1;  ///< that a prefill emits

  std::vector<EngineCall> fifo;
  std::size_t fifoHead = 0;
  std::uint32_t running = 0;     ///< calls that decode
  std::uint32_t prefilling = 0;  ///< calls that have left the FIFO and do not decode yet
  std::int64_t kvUsed = 0;       ///< as of the last committed iteration
  std::int64_t growing = 0;      ///< calls beyond their reservation: tokens per iteration
  std::int64_t iteration = 0;
  std::int64_t context = 0;   ///< of the running calls, summed, as of the last committed iteration
  bool batchChanged = false;  ///< since the iteration in progress began; the mode resets it

  Nanos event = kNever;              ///< when something changes
  Nanos wake = kNever;               ///< the boundary that was asked for
  Nanos busy = 0;                    ///< time spent in prefills and iterations so far
  std::int64_t prefilledTokens = 0;  ///< of prompts, computed so far
  std::uint64_t requeued = 0;        ///< evictions so far that nobody outside saw

  // What happened with the last advance.
  std::span<const EngineCall> prefilled;  ///< kept by the mode
  std::vector<EvictedCall> evicted;
  std::vector<EngineCall> finished;
  std::vector<EngineCall> overflowed;

 private:
  std::int64_t contextOf(const Running& r) const { return r.contextAtJoin + iteration - r.joinIteration; }
  std::int64_t kvOf(const Running& r) const;
  void leave(std::uint32_t index);
  void evict();

  std::vector<Running> slots_;
  std::vector<std::uint32_t> freeSlots_;
  IndexedHeap byFinish_;   ///< key = -finish iteration, rank = join number
  IndexedHeap byOverrun_;  ///< key = -overrun iteration; only calls that will outgrow their reservation
  std::uint64_t joins_ = 0;
};

}  // namespace laxity
