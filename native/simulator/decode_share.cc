#include "simulator/decode_share.h"

#include <algorithm>
#include <numeric>

#include "simulator/iterations.h"

namespace laxity {

void DecodeShare::reset(const InstanceSpec& spec) {
  const std::int64_t common = std::gcd<std::int64_t, std::int64_t>(kDecodeShareUnit, spec.decodeShare);
  unit_ = kDecodeShareUnit / common;
  share_ = spec.decodeShare / common;
  active_ = false;
  joining_.clear();
  prefillEnd_ = decodeEvent_ = kNever;
  accumulated_ = 0;
  boundary_ = -1;
  activeSince_ = 0;
  wasIdle_ = true;
}

Nanos DecodeShare::Stream::reaches(FineSum work) const {
  const FineSum left = work - done;
  if (left <= 0) return since;
  const std::int64_t perNano = speed << kFineBits;
  if (left == static_cast<std::int64_t>(left) && left <= INT64_MAX - perNano) {
    return std::min(kMaxTime, since + (static_cast<std::int64_t>(left) + perNano - 1) / perNano);
  }
  const FineSum nanos = (left + perNano - 1) / perNano;
  return nanos > kMaxTime - since ? kMaxTime : since + static_cast<Nanos>(nanos);
}

/// The smallest k >= 0 whose iteration ends at or after t. Solved in doubles, then corrected exactly.
std::int64_t DecodeShare::atOrAfter(const EngineBatch& b, Nanos t) const {
  if (pastEnd_ >= t) return 0;
  const double goal = static_cast<double>(decode_.doneAt(t) / unit_ - accumulated_);
  std::int64_t k = std::max<std::int64_t>(1, Iterations::reaching(piece_, goal, b.context, b.running));
  while (endOf(b, k) < t) ++k;
  while (k > 1 && endOf(b, k - 1) >= t) --k;
  return k;
}

void DecodeShare::commit(EngineBatch& b, std::int64_t k) {
  if (k == 0) return;
  pastEnd_ = endOf(b, k);
  accumulated_ += piece_.sum(b.context, b.running, k);
  b.commit(k);
  if (b.context >= piece_.contextEnd) piece_ = b.latency->piece(b.running, b.context);
}

/// Commits the iterations that have ended by t. True where none is in progress at t.
bool DecodeShare::commitUntil(EngineBatch& b, Nanos t) {
  if (b.running == 0) return true;
  const std::int64_t k = atOrAfter(b, t);
  const bool ends = endOf(b, k) == t;
  commit(b, ends ? k : k - 1);
  return ends;
}

/// When the next decode iteration ends after which something changes: a finish, an overrun, full KV, the end
/// of a linear piece, or a call that waits to join. And when the prefill ends.
void DecodeShare::schedule(EngineBatch& b) {
  decodeEvent_ = kNever;
  if (b.running > 0) {
    std::int64_t k = joining_.empty() ? b.untilChange() : 1;
    if (piece_.contextEnd != INT64_MAX) {
      k = std::min(k, (piece_.contextEnd - b.context + b.running - 1) / b.running);
    }
    eventIterations_ = k;
    decodeEvent_ = endOf(b, k);
  }
  b.event = std::min(decodeEvent_, prefillEnd_);
}

void DecodeShare::advance(EngineBatch& b, Nanos t) {
  if (b.event != t && b.wake != t) return;
  b.wake = kNever;
  boundary_ = t;
  bool between = true;  // no iteration is in progress at t
  if (decodeEvent_ == t)
    commit(b, eventIterations_);
  else
    between = commitUntil(b, t);
  if (between) {
    b.endIteration();
    for (const EngineCall& call : joining_) b.join(call);
    joining_.clear();
  }
  if (prefillEnd_ == t) {
    active_ = false;
    b.prefilled = {&call_, 1};
    prefillEnd_ = kNever;
    const bool decodes = b.endPrefill(call_);
    if (!between) {
      b.batchChanged = false;  // not that of the iteration in progress
      if (decodes) joining_.push_back(call_);
    } else if (decodes) {
      b.join(call_);
    }
  }
  if (between) b.evictUntilFits();
}

bool DecodeShare::atBoundaryOrWake(EngineBatch& b, Nanos t) {
  if (b.idle() || boundary_ == t) return true;
  if (active_) return false;
  const std::int64_t k = atOrAfter(b, t);
  const Nanos end = endOf(b, k);
  if (end != t) {
    b.wake = end;
    return false;
  }
  if (k > 0) {
    commit(b, k);
    schedule(b);
  }
  return true;
}

void DecodeShare::startPrefill(EngineBatch& b, Nanos t) {
  call_ = b.takeHead();
  active_ = true;
  const Nanos work = call_.load + b.latency->prefill(call_.newTokens(), call_.cachedTokens);
  prefillWork_ = (FineSum{work} << kFineBits) * unit_;
  prefill_.restart(t, unit_);
}

/// Another speed, or another batch, from t on.
void DecodeShare::setSpeeds(EngineBatch& b, Nanos t) {
  const bool both = active_ && b.running > 0;
  const std::int64_t decodeSpeed = both ? share_ : unit_;
  const std::int64_t prefillSpeed = both ? unit_ - share_ : unit_;
  if (b.running > 0) {
    if (b.batchChanged) {
      decode_.restart(t, decodeSpeed);
      accumulated_ = 0;
      pastEnd_ = t;
      piece_ = b.latency->piece(b.running, b.context);
    } else if (decode_.speed != decodeSpeed) {
      commitUntil(b, t);
      decode_.change(t, decodeSpeed);
    }
  }
  if (active_) {
    if (prefill_.speed != prefillSpeed) prefill_.change(t, prefillSpeed);
    prefillEnd_ = prefill_.reaches(prefillWork_);
  }
  b.batchChanged = false;
}

void DecodeShare::settle(EngineBatch& b, Nanos t) {
  if (!active_ && !b.fifoEmpty() && b.headFits()) {
    if (!b.batchChanged) commitUntil(b, t);  // the KV counts of t
    if (b.headFits()) startPrefill(b, t);
  }
  setSpeeds(b, t);
  schedule(b);
  if (b.idle() == wasIdle_) return;
  if (wasIdle_)
    activeSince_ = t;
  else
    b.busy += t - activeSince_;
  wasIdle_ = b.idle();
}

}  // namespace laxity
