// A segment: iterations of one batch, until that changes. The engine leaps over them: the ones in between
// become part of the past when somebody asks for a boundary among them, or when the event comes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simulator/engine_batch.h"
#include "simulator/iterations.h"

namespace laxity {

struct Segment {
  Iterations clock;
  std::int64_t eventIterations = 0;  ///< from the last commit to EngineBatch::event
  std::int64_t wakeIterations = 0;   ///< to EngineBatch::wake

  /// The batch decodes from t on, if there is one.
  void begin(const EngineBatch& b, Nanos t) {
    if (b.running == 0) return;
    clock.restart(t);
    clock.piece = b.latency->piece(b.running, b.context);
  }
  /// It ends at t.
  void end(EngineBatch& b, Nanos t) const { b.busy += t - clock.start; }

  Nanos endOf(const EngineBatch& b, std::int64_t k) const { return clock.end(b.context, b.running, k); }
  std::int64_t boundary(const EngineBatch& b, Nanos t) const {
    return clock.atOrAfter(t, b.context, b.running);
  }
  /// An iteration ends at t, and no boundary that was asked for lies ahead.
  bool standsAt(const EngineBatch& b, Nanos t) const {
    return b.wake == kNever && endOf(b, boundary(b, t)) == t;
  }
  /// Iterations that end at t, the time of the event or of the wake.
  std::int64_t dueAt(const EngineBatch& b, Nanos t) const {
    return b.event == t ? eventIterations : wakeIterations;
  }

  /// The time of k iterations that the batch has committed, from `context` on.
  void noteTime(const EngineBatch& b, std::int64_t context, std::int64_t k) {
    clock.commit(context, b.running, k);
    if (k > 0 && b.context >= clock.piece.contextEnd) clock.piece = b.latency->piece(b.running, b.context);
  }
  /// Makes k iterations part of the past.
  void commit(EngineBatch& b, std::int64_t k) {
    const std::int64_t context = b.context;
    b.commit(k);
    noteTime(b, context, k);
  }

  /// Iterations after which something changes: a finish, an overrun, full KV, the end of a linear piece. At
  /// least one call runs.
  std::int64_t untilChange(const EngineBatch& b) const {
    const std::int64_t k = b.untilChange();
    if (clock.piece.contextEnd == INT64_MAX) return k;
    return std::min(k, (clock.piece.contextEnd - b.context + b.running - 1) / b.running);
  }
  void setEvent(EngineBatch& b, std::int64_t k) {
    eventIterations = k;
    b.event = endOf(b, k);
  }
  void schedule(EngineBatch& b) {
    if (b.running == 0)
      b.event = kNever;
    else
      setEvent(b, untilChange(b));
  }

  /// The event has come. `atEnd`: what ends with its last iteration.
  template <class AtEnd>
  void reachEvent(EngineBatch& b, Nanos t, AtEnd&& atEnd) {
    const std::int64_t context = b.context;
    const std::int64_t k = eventIterations;
    b.commit(k);
    atEnd();
    if (b.batchChanged) {  // the segment is over, and nobody asks for its sum again
      end(b, t);
    } else {
      noteTime(b, context, k);
      schedule(b);
    }
  }
  /// Where an iteration ends at t, lets the mode commit up to it, so that the KV counts are those of t; else
  /// wakes at the next end.
  template <class Commit>
  bool reach(EngineBatch& b, Nanos t, Commit&& commit) {
    const std::int64_t k = boundary(b, t);
    const Nanos at = endOf(b, k);
    if (at != t) {
      wakeIterations = k;
      b.wake = at;
      return false;
    }
    if (k > 0) commit(k);
    return true;
  }
};

}  // namespace laxity
