// Engine role decode: calls whose prompt was prefilled elsewhere ask for room (a sequence and their KV), get
// it in the order of asking, and decode once their KV has arrived.
//
// Boundaries are the ends of iterations, and every moment while nothing runs. At a boundary, in this order:
// calls that have emitted all leave; calls whose KV has arrived join, in the order of arrival; before an
// iteration that would exceed the KV those that joined last give way; room is given from the head of the
// queue on, strictly, or (backfill) to every call behind that fits. The engine leaps while its batch is
// constant: giving room does not end a segment, asking and arriving wake it at the next boundary only.
//
// Where KV comes before room (kvFirst: it is staged beside the engine) a call joins when it gets room. Should
// the iteration to come not fit then, the engine asks to be advanced again at the same t, and evicts.
//
// Evicted calls go back to the scheduler, or in lease mode (requeueEvicted) first into this engine's own
// queue, where one at a time takes room at a boundary and is prefilled again here, alone, which stops the
// iterations; nobody outside sees it.
#pragma once

#include <vector>

#include "simulator/engine_batch.h"
#include "simulator/segment.h"

namespace laxity {

class DecodeOnly {
 public:
  void reset(const EngineOptions& options);

  /// `call.kv` is what it will hold here.
  static void requestRoom(EngineBatch& b, const EngineCall& call) {
    if (b.fifoHead > kCompact && b.fifoHead * 2 > b.fifo.size()) {  // it may never be empty
      b.fifo.erase(b.fifo.begin(), b.fifo.begin() + static_cast<std::ptrdiff_t>(b.fifoHead));
      b.fifoHead = 0;
    }
    b.fifo.push_back(call);
  }
  /// The KV of a call that has room is here.
  void arrived(std::uint32_t slot);
  /// A call that has not joined needs neither its room nor its place in the queue any more.
  void dropRoom(EngineBatch& b, std::uint32_t slot, Nanos t);

  void advance(EngineBatch& b, Nanos t);
  /// After `advance`, and once all arrivals of the instant are told: where the engine stands at a boundary at
  /// t what has arrived joins, and what no longer fits gives way; else it wakes at the next boundary.
  void join(EngineBatch& b, Nanos t);
  void settle(EngineBatch& b, Nanos t);

  bool standsAt(const EngineBatch& b, Nanos t) const {
    return !prefilling_ && (b.running == 0 || b.batchChanged || segment_.standsAt(b, t));
  }
  bool atBoundaryOrWake(EngineBatch& b, Nanos t) {
    if (prefilling_) return false;  // the end of the prefill is an event anyway
    return b.running == 0 || b.batchChanged || reach(b, t);
  }
  static std::uint32_t prefillFree(const EngineBatch&) { return 1; }

  /// Does nothing though it could: never after a settle.
  bool neglects(const EngineBatch& b) const {
    return b.running == 0 && !prefilling_ && (!arrived_.empty() || someoneFits(b));
  }

  /// Slots that got room with the last settle, in order.
  const std::vector<std::uint32_t>& roomGiven() const { return given_; }
  /// Slots that joined the batch with the last `join`, in order; with kvFirst those of roomGiven() did.
  const std::vector<std::uint32_t>& joined() const { return joined_; }
  /// Calls that have room and do not decode yet.
  std::size_t rooms() const { return rooms_.size() + arrived_.size(); }
  std::int64_t kvPeak() const { return peak_; }  ///< most KV in use so far, tokens

 private:
  bool reach(EngineBatch& b, Nanos t);
  void commit(EngineBatch& b, std::int64_t k);
  bool fits(const EngineBatch& b, const EngineCall& call) const {
    return b.running + b.prefilling < b.spec.maxSequences &&
           b.kvUsed + b.growing + call.kv <= b.spec.kvTokens;
  }
  static bool full(const EngineBatch& b) { return b.growing > 0 && b.kvUsed + b.growing > b.spec.kvTokens; }
  bool someoneFits(const EngineBatch& b) const;
  void giveRoom(EngineBatch& b, Nanos t);
  void notePeak(const EngineBatch& b) {
    if (b.kvUsed > peak_) peak_ = b.kvUsed;
  }

  static constexpr std::size_t kCompact = 8;

  bool backfill_ = false;
  bool kvFirst_ = false;
  Segment segment_;
  std::size_t again_ = 0;  ///< evicted calls, which stand in front of the queue
  bool prefilling_ = false;
  EngineCall call_;  ///< prefilled again
  Nanos prefillStart_ = 0;
  std::vector<EngineCall> rooms_;    ///< have room, their KV is elsewhere
  std::vector<EngineCall> arrived_;  ///< have room and KV, join at the next boundary
  std::vector<std::uint32_t> given_;
  std::vector<std::uint32_t> joined_;
  std::int64_t peak_ = 0;
};

}  // namespace laxity
