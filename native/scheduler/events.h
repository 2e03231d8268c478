// The events of CONTRACT 3 as fixed structs, and the record that carries any of them through a ring or a log.
//
// One layout for the simulator (which calls the scheduler's functions with these structs), the ring that live
// code writes, and the binary log. JavaScript learns every offset from the addon, so this file is the only
// description.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/ids.h"
#include "base/time.h"
#include "cluster/instance.h"
#include "workflow/graph.h"

namespace laxity {

/// Most tokens of a prompt, of an output, and of all outputs of a call with several sequences.
inline constexpr std::uint32_t kMaxCallTokens = 100'000'000;

/// The order of kinds is the order of events at equal t (CONTRACT 3).
enum class EventKind : std::uint16_t {
  kInstance = 1,
  kFirstToken,
  kProgress,
  kTransferDone,
  kEvicted,
  kFinished,
  kFailed,
  kOpenWorkflow,
  kUpdateWorkflow,
  kMoreParents,  ///< continues the parents of the reveal that follows
  kReveal,
  kToolDone,
  kCancel,
  kCloseWorkflow,
  kSetParameter,
  kPlanArrived,
  kCapacity,
  kTimer,
  kDecide,      ///< log only: decide(t) was called here
  kDecision,    ///< log only: one of its decisions, a check for replays
  kSetLatency,  ///< at equal t: with kInstance, in front of it
  kTelemetry,   ///< at equal t: with kCapacity
  kSetPolicy,   ///< at equal t: with kSetParameter
};

/// An attempt of a call: events of an earlier epoch are stale.
struct CallAttempt {
  Ref call;
  std::uint32_t epoch;
};

struct OpenWorkflow {
  Ref workflow;
  std::uint16_t tenant;
  std::int16_t stageTemplate;  ///< index into the configured templates, -1 = none
  std::uint32_t weight;        ///< of the tenant, in 1/1000; 0 = as it was, at first 1 (fair_shares.h)
  Nanos deadline;              ///< absolute, kNever = none
  Nanos remaining;             ///< declared time of the unrevealed part, -1 = none
  Nanos predictedHorizon =
      0;  ///< final horizon by a predictor, to be calibrated (horizon_learner.h); 0 = none
  std::uint32_t exactRemaining = 0;  ///< 1 = `remaining` is exact, 0 = a lower estimate
  std::uint32_t reserved = 0;
};

struct UpdateWorkflow {
  Ref workflow;
  Nanos deadline;                    ///< absolute; kNever = remove it, -1 = leave it
  Nanos remaining;                   ///< -1 = leave it
  Nanos predictedHorizon = 0;        ///< 0 = leave it
  std::uint32_t exactRemaining = 0;  ///< of `remaining`
  std::uint32_t reserved = 0;
};

struct CloseWorkflow {
  Ref workflow;
};

inline constexpr std::size_t kInlineParents = 5;

struct Reveal {
  Ref call;
  Ref workflow;
  std::uint16_t stage;
  std::uint16_t model;
  std::uint16_t sequences;      ///< n parallel samples: n sequences and n outputs
  std::uint8_t frontier;        ///< 1 = no parents given: the workflow's frontier
  std::uint8_t toolPending;     ///< 1 = not ready before toolDone
  std::uint8_t silent;          ///< 1 = its first token cannot be seen (a non-streaming call)
  std::uint8_t parentCount;     ///< parents in this record
  std::uint8_t adapter;         ///< 1 .. 64: only on instances that serve it; 0 = the model itself
  std::uint8_t exactRemaining;  ///< 1 = `remaining` is exact, 0 = a lower estimate
  std::uint32_t promptTokens;
  std::uint32_t predictedTokens;  ///< mean output; 0 = the predictor's, where it is on
  std::uint32_t predictedHigh;    ///< high quantile of the output
  CachedPrefix cached[2];
  Nanos remaining;  ///< declared remaining time after this call, -1 = none
  Ref parents[kInlineParents];
};

inline constexpr std::size_t kMoreParents = 13;

struct MoreParents {
  std::uint32_t count;
  std::uint32_t reserved;
  Ref parents[kMoreParents];
};

struct CallEvent {  // toolDone, firstToken, transferDone, cancel
  CallAttempt attempt;
};

struct Progress {
  CallAttempt attempt;
  std::uint32_t tokens;
};

struct Finished {
  CallAttempt attempt;
  std::uint32_t outputTokens;  ///< of this attempt; 0 = not reported
};

struct Evicted {
  CallAttempt attempt;
  std::uint32_t generated;
};

enum class FailureClass : std::uint8_t { kClientError = 0, kBackpressure = 1, kFault = 2 };
enum class Leg : std::uint8_t { kUnified = 0, kPrefill = 1, kDecode = 2, kLink = 3 };

struct Failed {
  CallAttempt attempt;
  FailureClass failure;
  Leg leg;
  std::uint8_t kvOnPrefill;  ///< prefill-decode: the KV is still on p
  std::uint8_t reserved;
  std::uint64_t clientBytes;
  Nanos retryAfter;  ///< ns from now, 0 = none
};

struct Capacity {
  std::uint32_t instance;
  std::uint32_t sequencesFree;
  std::int64_t kvFree;
  std::uint32_t prefillFree;  ///< room for prefills: 0 or 1 prefill; engines that batch prefills: 0 or the
                              ///< tokens of a batch; chunked engines: tokens of the next iteration's budget
                              ///< that no decode or prefill in hand will take
  std::uint32_t exact;        ///< 1 = at a batch boundary, gives credit for this decide only; 0 = a sample
};

enum class InstanceChange : std::uint32_t { kAdd = 0, kUp = 1, kDrain = 2, kDown = 3, kRemove = 4 };

struct InstanceEvent {
  std::uint32_t instance;
  InstanceChange change;
  InstanceSpec spec;            ///< for kAdd
  std::uint32_t revocable = 0;  ///< for kAdd: 1 = its lookahead leases can be taken back (revoke.cc)
  std::uint32_t reserved = 0;
};

struct SetParameter {
  std::uint32_t parameter;
  std::uint32_t reserved;
  double value;
};

/// A latency model by its constants: another one at the end of the list, or in the place of a known one.
struct SetLatency {
  std::uint32_t latency;
  std::uint32_t learned;  ///< 1 = corrected by what is observed (speeds.h)
  double prefillBaseMs;
  double prefillPerTokenMs;
  double decodeBaseMs;
  double decodePerSequenceMs;
  double decodePerContextMs;
};

/// What an engine says of itself; absent is not zero.
struct Telemetry {
  std::uint32_t instance;
  std::uint32_t present;  ///< bits: 1 waiting, 2 running, 4 kvUsage
  std::uint32_t waiting;
  std::uint32_t running;
  double kvUsage;  ///< 0 .. 1
};

struct SetPolicy {
  std::uint16_t order;      ///< position in the registry
  std::uint16_t placement;  ///< position in the registry (of pair placements on prefill-decode clusters)
  std::uint32_t binding;
  std::uint32_t migrate;  ///< 0 = as it is, 1 = off, 2 = on
  std::uint32_t reserved;
};

struct EventHeader {
  Nanos t;
  EventKind kind;
  std::uint16_t reserved;
  std::uint32_t count;  ///< kDecide: how many decisions follow
};

enum class DecisionKind : std::uint8_t { kLease = 1, kAdmitDecode = 2, kRevoke = 3, kReject = 4 };

enum class RejectReason : std::uint8_t {
  kNone = 0,
  kNeverFits = 1,
  kNoInstance = 2,
  kQueueFull = 3,
  kQueueTimeout = 4,
  kDeadline = 5,
  kLost = 6,       ///< of kRevoke: the lease gave no sign of life for its TTL; the call is over
  kKvExpired = 7,  ///< of kRevoke: its KV waited on p for too long; the call waits for another lease
  kRevoked = 8,    ///< of kRevoke: something more urgent waits, or its instance closes; the same
};

/// Why a call was leased where it was; of several that hold, the first in the order kProbe, kPanic,
/// kFallback, kLookahead, kOnlyFeasible, kAffinity, kBestScore. All but kFallback, kLookahead and kBestScore
/// are told only where live rules are on.
enum class LeaseReason : std::uint8_t {
  kNone = 0,
  kOnlyFeasible = 1,  ///< unified: no other instance that is up could serve it
  kBestScore = 2,
  kLookahead = 3,  ///< behind a prefill that runs
  kProbe = 4,      ///< whether a half-open instance (or its d) has recovered
  kPanic = 5,      ///< its breaker (or that of its d) is open and was passed over
  kAffinity = 6,   ///< the best score, where its prefix is said to be cached
  kFallback = 7    ///< taken in front of a plan that is in flight (asynchronous planning, paper)
};

/// One decision (CONTRACT 4). `nextWake` is read from the scheduler.
struct Decision {
  DecisionKind kind;
  RejectReason rejectReason;
  LeaseReason leaseReason;
  std::uint8_t reserved;
  std::uint32_t epoch;
  Ref call;
  std::uint32_t instance;        ///< m, or p
  std::uint32_t decodeInstance;  ///< d, kNoSlot on unified instances
  std::int32_t enginePriority;
  std::uint32_t reserved2;
  std::uint64_t leaseNumber;  ///< counts leases from 0: the order in which they were granted
};

struct EventRecord {
  EventRecord() : header{}, bytes{} {}  // padding is zero: records are compared and logged as bytes

  EventHeader header;
  union {
    OpenWorkflow openWorkflow;
    UpdateWorkflow updateWorkflow;
    CloseWorkflow closeWorkflow;
    Reveal reveal;
    MoreParents moreParents;
    CallEvent call;
    Progress progress;
    Finished finished;
    Evicted evicted;
    Failed failed;
    Capacity capacity;
    InstanceEvent instance;
    SetParameter setParameter;
    SetLatency setLatency;
    Telemetry telemetry;
    SetPolicy setPolicy;
    Decision decision;
    unsigned char bytes[112];
  };
};

static_assert(sizeof(EventRecord) == 128);
static_assert(offsetof(EventRecord, bytes) == 16);
static_assert(std::is_trivially_copyable_v<EventRecord>);
static_assert(sizeof(Decision) == 40);

}  // namespace laxity
