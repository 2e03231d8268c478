// What the scheduler keeps beyond queues and ledger where it stands in front of real engines: queue limits
// and ages, lease ages, breakers, corrections of the ledger, learned lengths and speeds. All of it moves on
// events with t, so it runs in virtual time and replays. With every parameter at its default and no speed to
// learn, nothing here is touched but what tenants attained, where that is asked for.
#pragma once

#include <vector>

#include "base/heap.h"
#include "scheduler/age_list.h"
#include "scheduler/breaker.h"
#include "scheduler/lengths.h"
#include "scheduler/speeds.h"
#include "workflow/parameters.h"

namespace laxity {

enum class Hopeless : std::uint8_t { kRun = 0, kDemote = 1, kReject = 2 };

/// The rules of this file, in the core's units.
struct LiveRules {
  LiveRules(const PolicyParameters& p, bool learnsSpeeds);
  bool any = false;  ///< of those that need state per call, as learning speeds does
  std::uint32_t queueLimit = 0;
  std::uint32_t tenantQueueLimit = 0;
  Nanos queueTimeout = 0;
  Hopeless hopeless = Hopeless::kRun;
  Nanos leaseTtl = 0;
  BreakerRules breaker;
  double panicShare = 0;
  Nanos faultPenalty = 0;
  Nanos backpressure = 0;
  double retryBudget = 0;
  Nanos telemetry = 0;
  bool predictLengths = false;
  bool keepHorizons = false;
  bool enginePriority = false;
  Nanos kvPark = 0;
  Nanos retryBackoff = 0;
};

struct LiveCall {
  Nanos leasedAt = 0;
  Nanos prefillStart =
      0;  ///< when its engine was free to prefill it: the lease, or the first token before it
  Nanos firstTokenAt = 0;   ///< 0 = not seen
  Nanos firstTokenDue = 0;  ///< as projected at its lease
  Nanos kvSince = 0;        ///< its KV lies on p since, seen or assumed
  Nanos hopelessAt = 0;
  std::uint32_t hopelessPosition = kNoSlot;  ///< in `hopeless`
  std::uint32_t avoid = kNoSlot;             ///< the instance of the attempt that failed
  bool admitted = false;                     ///< passed the queue limits once
  bool queued = false;                       ///< ready, no lease
  bool begunUnseen = false;                  ///< leased while no rule was on: its times teach nothing
  std::uint8_t revokes = 0;                  ///< leases that were taken back for others
};

/// Outstanding work that no call stands for, until its timer fires.
struct Correction {
  std::uint32_t instance = 0;
  Nanos work = 0;
};

/// The latest sample of an instance.
struct TelemetryState {
  Nanos at = -1;
  Nanos work = 0;  ///< correction in force
  std::uint32_t version = 0;
};

struct LiveState {
  AgeList queued;  ///< ready calls without a lease, by the start of their wait
  AgeList leases;  ///< by their last sign of life
  std::vector<std::uint32_t> tenantQueued;
  std::vector<LiveCall> calls;
  std::vector<Ref> fresh;  ///< queued in this instant for the first time, in event order
  IndexedHeap hopeless;    ///< key = -hopelessAt
  std::vector<Breaker> breakers;
  bool halfOpen = false;              ///< some breaker was half-open when masks were brought up to date last
  std::vector<Nanos> lastFirstToken;  ///< per instance
  std::vector<Correction> corrections;
  std::vector<std::uint32_t> freeCorrections;
  std::vector<TelemetryState> telemetry;
  double retryTokens = kRetryReserve;
  std::uint64_t retriesRefused = 0;
  std::uint64_t kvExpired = 0;
  std::uint64_t revoked = 0;
  /// By tenant, where that is asked for: weighted tokens of what was finished (vtc.h's weights).
  std::vector<double> attained;
  std::vector<std::uint8_t> revocable;  ///< per instance: its lookahead leases can be taken back
  LengthPredictor lengths;
  Speeds speeds;

  static constexpr double kRetryReserve = 10;  ///< retries that need no finished call in front of them
};

}  // namespace laxity
