// Engine mode decode-share: prefill and decode run side by side. At most one call is prefilled at a time.
// While a prefill and a decode iteration are both in progress, decode runs at speed s = decodeShare / 1000
// and the prefill at 1 - s; alone, each runs at full speed.
//
// * The head of the FIFO begins its prefill as soon as none is in progress and it fits (sequences, KV; the KV
//   that the iteration in progress will take counts as taken): at the lease, or when the prefill before it
//   ends. It need not wait for the end of an iteration.
// * When a prefill ends, its first token is out at once; the call decodes from the next iteration on. The
//   iteration in progress goes on with its batch.
// * Boundaries are the ends of iterations and of prefills. While a prefill is in progress no boundary gives
//   credit, so none is asked for before it ends.
// * Eviction happens at the ends of iterations.
//
// Work is counted in units of 2^-20 ns / u with u = 1000 / gcd(1000, decodeShare): speeds 1, s and 1 - s are
// then the integers u, s * u and u - s * u per 2^-20 ns, so a switch of speed in mid-iteration carries over
// exactly what is done. An end is the first nanosecond at which its work is done (rounded up, once): the work
// of a prefill since it began, the work of iterations since the batch last changed.
#pragma once

#include <vector>

#include "simulator/engine_batch.h"

namespace laxity {

class DecodeShare {
 public:
  void reset(const InstanceSpec& spec);
  void advance(EngineBatch& b, Nanos t);
  void settle(EngineBatch& b, Nanos t);
  bool standsAt(const EngineBatch& b, Nanos t) const {
    return b.idle() || boundary_ == t || (!active_ && b.wake == kNever && endOf(b, atOrAfter(b, t)) == t);
  }
  bool atBoundaryOrWake(EngineBatch& b, Nanos t);
  std::uint32_t prefillFree(const EngineBatch& b) const { return active_ || !b.fifoEmpty() ? 0 : 1; }

 private:
  /// One of the two streams of work: how much is done since a common origin, and how fast it goes on.
  struct Stream {
    FineSum done = 0;  ///< as of `since`
    Nanos since = 0;
    std::int64_t speed = 1;

    void restart(Nanos t, std::int64_t at) {
      done = 0;
      since = t;
      speed = at;
    }
    FineSum doneAt(Nanos t) const { return done + (FineSum{t - since} << kFineBits) * speed; }
    void change(Nanos t, std::int64_t to) {
      done = doneAt(t);
      since = t;
      speed = to;
    }
    /// The first nanosecond at which `work` is done.
    Nanos reaches(FineSum work) const;
  };

  /// When the k-th iteration from the committed past on ends.
  Nanos endOf(const EngineBatch& b, std::int64_t k) const {
    return k == 0 ? pastEnd_ : decode_.reaches((accumulated_ + piece_.sum(b.context, b.running, k)) * unit_);
  }
  std::int64_t atOrAfter(const EngineBatch& b, Nanos t) const;
  void commit(EngineBatch& b, std::int64_t k);
  bool commitUntil(EngineBatch& b, Nanos t);
  void endIteration(EngineBatch& b);
  void schedule(EngineBatch& b);
  void startPrefill(EngineBatch& b, Nanos t);
  void setSpeeds(EngineBatch& b, Nanos t);

  std::int64_t unit_ = 2;   ///< full speed
  std::int64_t share_ = 1;  ///< of decode, beside a prefill

  bool active_ = false;  ///< a prefill is in progress
  EngineCall call_;
  FineSum prefillWork_ = 0;
  Stream prefill_;
  Nanos prefillEnd_ = kNever;
  std::vector<EngineCall> joining_;  ///< prefilled during the iteration in progress

  Stream decode_;
  FineSum accumulated_ = 0;  ///< committed iterations since the origin, in fine units at full speed
  Nanos pastEnd_ = 0;        ///< when the last committed iteration ended, or the first one began
  DecodePiece piece_;
  Nanos decodeEvent_ = kNever;
  std::int64_t eventIterations_ = 0;
  Nanos boundary_ = -1;  ///< the last advance reached one
  Nanos activeSince_ = 0;
  bool wasIdle_ = true;
};

}  // namespace laxity
