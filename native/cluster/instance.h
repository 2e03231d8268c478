// One instance as the scheduler believes it to be: its specification, its condition and its ledger.
#pragma once

#include <cstdint>

#include "base/fixed.h"
#include "base/ids.h"
#include "base/time.h"

namespace laxity {

enum class Role : std::uint8_t { kUnified = 0, kPrefill = 1, kDecode = 2 };

enum class EngineMode : std::uint8_t { kPrefillFirst = 0, kChunked = 1, kDecodeShare = 2 };

/// Without padding: specifications are logged and compared as bytes.
struct InstanceSpec {
  Role role = Role::kUnified;
  EngineMode mode = EngineMode::kPrefillFirst;
  std::uint16_t model = 0;
  std::uint16_t latency = 0;       ///< index of its latency model
  std::uint16_t decodeShare = 0;   ///< decode-share: speed of decode while a prefill runs, in 1/1000
  std::uint32_t maxSequences = 1;  ///< running at once, 1 .. kMaxSequences
  std::uint32_t chunkTokens = 0;   ///< chunked: token budget of an iteration; prefill-first and prefill role:
                                   ///< prompts run as one batch up to so many tokens, 0 = one at a time
  std::int64_t kvTokens = 0;       ///< KV capacity, tokens, 1 .. kMaxKvTokens
  std::uint64_t adapters = 0;      ///< bit a - 1: serves adapter a of its model
  Fine linkPerToken = 0;  ///< prefill and decode roles: time for the KV of a token through this end of
                          ///< a link, alone (cluster/link.h)
  Nanos linkLatency = 0;  ///< fixed part of a transfer at this end
  friend bool operator==(const InstanceSpec&, const InstanceSpec&) = default;
};

inline constexpr std::uint32_t kMaxSequences = 65'535;
inline constexpr std::uint32_t kMaxChunkTokens = 1'000'000;
inline constexpr std::uint16_t kDecodeShareUnit = 1000;  ///< decodeShare of full speed; shares lie below it
inline constexpr std::int64_t kMaxKvTokens = 10'000'000'000;
inline constexpr std::uint32_t kMaxInstances = 65'535;
inline constexpr std::uint32_t kMaxAdapters = 64;
inline constexpr Fine kMaxLinkPerToken = Fine{1} << 50;  ///< about 1 s
inline constexpr Nanos kMaxLinkLatency = 3'600'000'000'000;

enum class Condition : std::uint8_t {
  kAbsent = 0,
  kUp = 1,
  kDraining = 2,  ///< finishes what it has, gets nothing new
  kDown = 3,      ///< lost with its KV, may return
  kRemoved = 4,   ///< leases still finish; the same slot may be added again
};

/// What one call costs on the instance it was assigned to. Fixed at assignment, so that every sum returns to
/// zero.
struct CallCost {
  Nanos exec = 0;            ///< t_comp: prefill + predicted decode, alone
  Nanos prefill = 0;         ///< ns
  std::int64_t kv = 0;       ///< tokens to reserve
  std::int64_t context = 0;  ///< expected mean context while decoding, tokens
  std::uint32_t sequences = 1;
  std::uint32_t prefillTokens = 0;  ///< of the prompt, not cached: what its prefill computes
};

/// The scheduler's belief, sums over its own assigned calls; all integers. The engine's truth is another
/// quantity.
struct Ledger {
  std::uint32_t assigned = 0;          ///< calls waiting here or leased here, unfinished
  Nanos work = 0;                      ///< sum of their exec: OUT (policies 4)
  std::uint32_t leased = 0;            ///< sequences leased
  std::int64_t reservedKv = 0;         ///< tokens reserved by leases; on a prefill instance heldKv: prompts
                                       ///< from their lease until their KV has left
  std::int64_t context = 0;            ///< expected context of the leases
  std::uint32_t unprefilled = 0;       ///< |U|: leases without a first token
  Nanos unprefilledWork = 0;           ///< sum of their prefill
  std::int64_t unprefilledTokens = 0;  ///< sum of their prefillTokens
  std::uint32_t unprefilledSequences = 0;  ///< sum of their sequences
  Nanos prefillsEnd = 0;  ///< projected end of the leased prefills (ready_m), corrected by first tokens
  friend bool operator==(const Ledger&, const Ledger&) = default;

  void assign(const CallCost& c) {
    ++assigned;
    work += c.exec;
  }
  void unassign(const CallCost& c) {
    --assigned;
    work -= c.exec;
  }
  void lease(const CallCost& c, Nanos t) {
    leased += c.sequences;
    reservedKv += c.kv;
    context += c.context;
    ++unprefilled;
    unprefilledWork += c.prefill;
    unprefilledTokens += c.prefillTokens;
    unprefilledSequences += c.sequences;
    prefillsEnd = (prefillsEnd > t ? prefillsEnd : t) + c.prefill;
  }
  void firstToken(const CallCost& c, Nanos t) {
    --unprefilled;
    unprefilledWork -= c.prefill;
    unprefilledTokens -= c.prefillTokens;
    unprefilledSequences -= c.sequences;
    prefillsEnd = t + unprefilledWork;
  }
  /// A decode instance: leased in advance, prefilled elsewhere.
  void commit(const CallCost& c) {
    leased += c.sequences;
    reservedKv += c.kv;
    context += c.context;
  }
  /// Sequences that decode.
  std::uint32_t running() const { return leased - unprefilledSequences; }
  void release(const CallCost& c) {
    leased -= c.sequences;
    reservedKv -= c.kv;
    context -= c.context;
  }
};

/// What waits for an instance, and the tokens it has yet to prefill: integer sums that return to zero. Kept
/// only where a placement or the migration asks for it; a call counts from its queue to its first token.
struct Backlog {
  std::uint32_t waiting = 0;  ///< sequences of the calls in its queue
  Nanos prefill = 0;          ///< sum of their prefill
  std::int64_t kv = 0;        ///< sum of the tokens they will reserve
  std::int64_t tokens = 0;    ///< tokens to prefill, of waiting calls and of leases without a first token
  friend bool operator==(const Backlog&, const Backlog&) = default;

  void enter(const CallCost& c) {
    waiting += c.sequences;
    prefill += c.prefill;
    kv += c.kv;
    tokens += c.prefillTokens;
  }
  void leave(const CallCost& c) {
    waiting -= c.sequences;
    prefill -= c.prefill;
    kv -= c.kv;
    tokens -= c.prefillTokens;
  }
  void lease(const CallCost& c) { tokens += c.prefillTokens; }
  void firstToken(const CallCost& c) { tokens -= c.prefillTokens; }
};

/// What an engine reported for this very instant (CONTRACT 6); replaces the ledger's terms of the credit.
struct ExactCapacity {
  Nanos at = -1;
  std::int64_t kvFree = 0;
  std::uint32_t sequencesFree = 0;
  std::uint32_t prefillFree = 0;  ///< as Capacity::prefillFree
};

struct Instance {
  InstanceSpec spec;
  Condition condition = Condition::kAbsent;
  bool touched = false;  ///< its queue or ledger changed since it was last considered for a lease
  bool masked =
      false;  ///< up, but gets no new calls: open breaker, or a probe under way (scheduler/breaker.h)
  std::uint32_t hardwareClass = 0;
  std::uint32_t memberIndex = 0;       ///< position inside its class, by tie
  std::uint64_t tie = 0;               ///< perm[m]: ties go to the smaller (CONTRACT 7)
  std::uint32_t firstLease = kNoSlot;  ///< head of the list of its leased calls
  Nanos closedUntil = 0;               ///< no new lease before: backpressure with a retry time
  Ledger ledger;
  Backlog backlog;
  ExactCapacity exact;
  double utilisation = 0;  ///< decayed share of time in prefill, as of utilisationAt (policies 4.9)
  Nanos utilisationAt = 0;
  Nanos correction = 0;  ///< part of ledger.work that no call stands for: penalties, load seen by telemetry

  bool accepts() const { return condition == Condition::kUp && !masked; }
};

}  // namespace laxity
