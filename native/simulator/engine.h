// One engine: its running batch, true KV, iteration clock and inner FIFO of leased calls.
//
// The parts common to all stand in engine_batch.h, each mode of unified engines (prefill_first.h, chunked.h,
// decode_share.h) and each role of prefill-decode clusters (prefill_only.h, decode_only.h) in a file of its
// own; this class chooses between them by a branch, not by a virtual call. All of them leap: while the batch
// is constant no iteration is visited.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/chunked.h"
#include "simulator/decode_only.h"
#include "simulator/decode_share.h"
#include "simulator/engine_batch.h"
#include "simulator/prefill_first.h"
#include "simulator/prefill_only.h"

namespace laxity {

class Engine {
  /// Role and mode as one, so that choosing is one comparison for the most frequent.
  enum class Kind : std::uint8_t { kPrefillFirst, kChunked, kDecodeShare, kPrefillOnly, kDecodeOnly };

  template <class Self, class Body>
  static auto dispatch(Self& e, Body&& body) {
    if (e.kind_ == Kind::kPrefillFirst) [[likely]]
      return body(e.prefillFirst_);
    if (e.kind_ == Kind::kChunked) return body(e.chunked_);
    if (e.kind_ == Kind::kPrefillOnly) return body(e.prefillOnly_);
    if (e.kind_ == Kind::kDecodeOnly) return body(e.decodeOnly_);
    return body(e.decodeShare_);
  }
  static Kind kindOf(const InstanceSpec& spec) {
    if (spec.role == Role::kPrefill) return Kind::kPrefillOnly;
    if (spec.role == Role::kDecode) return Kind::kDecodeOnly;
    if (spec.mode == EngineMode::kPrefillFirst) return Kind::kPrefillFirst;
    return spec.mode == EngineMode::kChunked ? Kind::kChunked : Kind::kDecodeShare;
  }
  template <class Body>
  auto onMode(Body&& body) {
    return dispatch(*this, body);
  }
  template <class Body>
  auto onMode(Body&& body) const {
    return dispatch(*this, body);
  }

 public:
  using Evicted = EvictedCall;

  void reset(const InstanceSpec& spec, const LatencyModel& latency, const EngineOptions& options) {
    kind_ = kindOf(spec);
    batch_.reset(spec, latency, options);
    chunked_.reset();
    decodeShare_.reset(spec);
    prefillOnly_.reset();
    decodeOnly_.reset(options);
  }

  /// Takes a lease. The engine acts on it at the next settle.
  void lease(const EngineCall& call) { batch_.fifo.push_back(call); }

  /// When it must be advanced next; kNever while idle.
  Nanos next() const { return batch_.wake < batch_.event ? batch_.wake : batch_.event; }

  /// Moves to t = next(). Afterwards the four lists below say what happened, and the engine stands at a
  /// boundary.
  void advance(Nanos t) {
    batch_.clearReports();
    onMode([&](auto& mode) { mode.advance(batch_, t); });
  }

  /// The calls whose prefill ended, in the order of their leases.
  std::span<const EngineCall> prefilled() const { return batch_.prefilled; }
  const std::vector<EvictedCall>& evicted() const { return batch_.evicted; }  ///< boundary mode only
  const std::vector<EngineCall>& finished() const {
    return batch_.finished;
  }  ///< in the order in which they joined
  const std::vector<EngineCall>& overflowed() const {
    return batch_.overflowed;
  }  ///< larger than this engine's whole KV
  /// Chunked: there is budget for prefills, and before the last advance there was none.
  bool budgetOpened() const { return chunked_.opened(); }

  /// Starts what comes next if the engine stands at a boundary at t, else arranges to wake at the next one.
  void settle(Nanos t) {
    onMode([&](auto& mode) { mode.settle(batch_, t); });
  }

  /// Another latency model, if the engine stands at a boundary at t (the settle that follows uses it); else
  /// false, and the engine will be advanced at a boundary. `retimes`: whether its mode knows how.
  bool retime(Nanos t, const LatencyModel& model) {
    if (!atBoundaryOrWake(t)) return false;
    batch_.latency = &model;
    if (kind_ == Kind::kPrefillFirst) prefillFirst_.endSegment(batch_, t);
    if (kind_ == Kind::kChunked) chunked_.endSegment(batch_, t);
    return true;
  }
  static bool retimes(const InstanceSpec& spec) {
    return kindOf(spec) == Kind::kPrefillFirst || kindOf(spec) == Kind::kChunked;
  }

  /// Everything it held is gone; its speed stays.
  void lost() {
    const InstanceSpec spec = batch_.spec;
    const EngineOptions options = batch_.options;
    reset(spec, *batch_.latency, options);
  }

  bool idle() const { return batch_.idle(); }
  bool empty() const { return batch_.idle() && batch_.fifoEmpty(); }
  /// True where the engine stands at a boundary at t: it is idle, or an iteration or prefill ends.
  bool standsAt(Nanos t) const {
    return onMode([&](const auto& mode) { return mode.standsAt(batch_, t); });
  }
  /// The same; otherwise it will be advanced at the next one that may give credit.
  bool atBoundaryOrWake(Nanos t) {
    return onMode([&](auto& mode) { return mode.atBoundaryOrWake(batch_, t); });
  }
  /// A boundary was asked for and lies ahead: until then there is none.
  bool wakePending() const { return batch_.wake != kNever; }

  /// What a further lease may take: what waits here already, of an overcommitted ledger, comes first.
  std::int64_t kvFree() const {
    std::int64_t free = batch_.spec.kvTokens - batch_.kvUsed - batch_.growing;
    for (std::size_t i = batch_.fifoHead; i < batch_.fifo.size(); ++i) free -= batch_.fifo[i].kv;
    return free > 0 ? free : 0;
  }
  std::int64_t kvUsed() const { return batch_.kvUsed; }
  std::uint32_t sequencesFree() const {
    return batch_.spec.maxSequences > held() ? batch_.spec.maxSequences - held() : 0;
  }
  /// As Capacity::prefillFree.
  std::uint32_t prefillFree() const {
    return onMode([&](const auto& mode) { return mode.prefillFree(batch_); });
  }
  std::uint32_t held() const { return batch_.held(); }
  /// Evictions so far after which the call went back to the inner FIFO, unseen.
  std::uint64_t requeued() const { return batch_.requeued; }
  /// Prompt tokens computed so far, for the law prefilled + cached = prompt.
  std::int64_t prefilledTokens() const { return batch_.prefilledTokens; }
  /// Time spent in prefills and iterations so far, as of the last boundary at which something changed.
  Nanos busy() const { return batch_.busy; }

  // --- prefill role
  /// The KV of a prompt whose prefill ended has left; the engine acts on it at the next settle.
  void kvLeft(std::int64_t tokens) { prefillOnly_.kvLeft(batch_, tokens); }
  std::uint32_t holding() const { return prefillOnly_.holding(); }

  /// Of both roles: does nothing though it could. Never after a settle.
  bool neglects() const {
    return batch_.spec.role == Role::kPrefill ? PrefillOnly::neglects(batch_) : decodeOnly_.neglects(batch_);
  }

  // --- decode role (decode_only.h); `join` follows every `advance` and every `arrived`
  void requestRoom(const EngineCall& call) { DecodeOnly::requestRoom(batch_, call); }
  void arrived(std::uint32_t slot) { decodeOnly_.arrived(slot); }
  void dropRoom(std::uint32_t slot, Nanos t) { decodeOnly_.dropRoom(batch_, slot, t); }
  void join(Nanos t) { decodeOnly_.join(batch_, t); }
  const std::vector<std::uint32_t>& roomGiven() const { return decodeOnly_.roomGiven(); }
  const std::vector<std::uint32_t>& joined() const { return decodeOnly_.joined(); }
  std::size_t rooms() const { return decodeOnly_.rooms(); }
  std::int64_t kvPeak() const { return decodeOnly_.kvPeak(); }

 private:
  Kind kind_ = Kind::kPrefillFirst;
  EngineBatch batch_;
  PrefillFirst prefillFirst_;
  Chunked chunked_;
  DecodeShare decodeShare_;
  PrefillOnly prefillOnly_;
  DecodeOnly decodeOnly_;
};

}  // namespace laxity
