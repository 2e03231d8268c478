// One engine in mode prefill-first: its running batch, true KV, iteration clock and inner FIFO of leased
// calls.
//
// A waiting lease that fits is prefilled alone and whole before decode goes on; otherwise all running calls
// decode one token per iteration. The engine leaps: while the batch is constant, iteration k ends at
//
//     segmentStart + round(accumulated + sum of the first k iteration times)
//
// with the sum exact (model/latency.h) and rounded once, so no error grows with the number of iterations and
// any boundary can be found without visiting the ones before. A segment ends when the batch changes or a
// prefill begins.
#pragma once

#include <cstdint>
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
};

struct EngineOptions {
  FirstToken firstToken = FirstToken::kFromPrefill;
  bool chargeOutput = true;     ///< false: output never takes KV (HexGen-Flow's simulator)
  bool requeueEvicted = false;  ///< lease mode: an evicted call goes first in the inner FIFO, unseen
};

class Engine {
 public:
  struct Evicted {
    EngineCall call;
    std::uint32_t generated;
  };

  void reset(const InstanceSpec& spec, const LatencyModel& latency, const EngineOptions& options);

  /// Takes a lease. The engine acts on it at the next settle.
  void lease(const EngineCall& call) { fifo_.push_back(call); }

  /// When it must be advanced next; kNever while idle.
  Nanos next() const { return wake_ < event_ ? wake_ : event_; }

  /// Moves to t = next(). Afterwards the three lists below say what happened, and the engine stands at a
  /// boundary.
  void advance(Nanos t);

  /// The call whose prefill ended, if any.
  const EngineCall* prefilled() const { return prefillEnded_ ? &prefillCall_ : nullptr; }
  const std::vector<Evicted>& evicted() const { return evicted_; }  ///< boundary mode only
  const std::vector<EngineCall>& finished() const {
    return finished_;
  }  ///< in the order in which they joined
  const std::vector<EngineCall>& overflowed() const {
    return overflowed_;
  }  ///< larger than this engine's whole KV

  /// Starts what comes next if the engine stands at a boundary at t, else arranges to wake at the next one.
  void settle(Nanos t);

  bool idle() const { return running_ == 0 && !prefilling_; }
  bool standsAt(Nanos t) const {
    return !prefilling_ &&
           (running_ == 0 || batchChanged_ || (!wakePending() && timeAt(iterationAtOrAfter(t)) == t));
  }
  /// True where the engine stands at a boundary at t (an iteration or prefill ends, or it is idle); otherwise
  /// it will be advanced at the next one.
  bool atBoundaryOrWake(Nanos t);
  /// A boundary was asked for and lies ahead: until then there is none.
  bool wakePending() const { return wake_ != kNever; }

  /// What a further lease may take: what waits here already, of an overcommitted ledger, comes first.
  std::int64_t kvFree() const {
    std::int64_t free = spec_.kvTokens - kvUsed_ - growing_;
    for (std::size_t i = fifoHead_; i < fifo_.size(); ++i) free -= fifo_[i].kv;
    return free > 0 ? free : 0;
  }
  std::int64_t kvUsed() const { return kvUsed_; }
  std::uint32_t sequencesFree() const {
    return spec_.maxSequences > held() ? spec_.maxSequences - held() : 0;
  }
  std::uint32_t prefillFree() const { return prefilling_ || !fifoEmpty() ? 0 : 1; }
  std::uint32_t held() const {
    return running_ + (prefilling_ ? 1 : 0) + static_cast<std::uint32_t>(fifo_.size() - fifoHead_);
  }
  /// Evictions so far after which the call went back to the inner FIFO, unseen.
  std::uint64_t requeued() const { return requeued_; }
  /// Prompt tokens computed so far, for the law prefilled + cached = prompt.
  std::int64_t prefilledTokens() const { return prefilledTokens_; }
  /// Time spent in prefills and iterations so far.
  Nanos busy() const { return busy_; }

 private:
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

  Nanos timeAt(std::int64_t k) const {
    return segmentStart_ + piece_.roundedSum(accumulated_, context_, running_, k);
  }
  std::int64_t iterationAtOrAfter(Nanos t) const;
  bool reach(Nanos t);
  void commit(std::int64_t k);
  void startSegment(Nanos t);
  void schedule();
  void startPrefill(Nanos t);
  void completePrefill(Nanos t);
  void join(const EngineCall& call, std::int64_t context, std::uint32_t steps, std::int64_t freeSteps);
  void leave(std::uint32_t index);
  static void drop(IndexedHeap& heap, std::uint32_t index);
  void evictUntilFits() {
    if (growing_ > 0) evict();
  }
  void evict();
  bool headFits() const;
  bool fifoEmpty() const { return fifoHead_ == fifo_.size(); }
  void popFifo();
  std::int64_t contextOf(const Running& r) const { return r.contextAtJoin + iteration_ - r.joinIteration; }
  std::int64_t kvOf(const Running& r) const;

  InstanceSpec spec_;
  const LatencyModel* latency_ = nullptr;
  EngineOptions options_;

  std::vector<EngineCall> fifo_;
  std::size_t fifoHead_ = 0;
  std::vector<Running> slots_;
  std::vector<std::uint32_t> freeSlots_;
  IndexedHeap byFinish_;   ///< key = -finish iteration, rank = join number
  IndexedHeap byOverrun_;  ///< key = -overrun iteration; only calls that will outgrow their reservation
  std::uint32_t running_ = 0;
  std::uint64_t joins_ = 0;
  std::int64_t kvUsed_ = 0;
  std::int64_t growing_ = 0;

  bool prefilling_ = false;
  EngineCall prefillCall_;
  Nanos prefillStart_ = 0;

  // The segment. `iteration_`, `context_` and `accumulated_` describe its committed part.
  bool batchChanged_ = false;
  Nanos segmentStart_ = 0;
  FineSum accumulated_ = 0;
  std::int64_t iteration_ = 0;
  std::int64_t context_ = 0;
  DecodePiece piece_;

  Nanos event_ = kNever;
  std::int64_t eventIterations_ = 0;
  Nanos wake_ = kNever;
  std::int64_t wakeIterations_ = 0;
  Nanos busy_ = 0;
  std::int64_t prefilledTokens_ = 0;
  std::uint64_t requeued_ = 0;

  bool prefillEnded_ = false;
  std::vector<EngineCall> finished_;
  std::vector<Evicted> evicted_;
  std::vector<EngineCall> overflowed_;
};

}  // namespace laxity
