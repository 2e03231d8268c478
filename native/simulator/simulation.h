// What a run needs and what it returns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/instance.h"
#include "model/latency.h"
#include "scheduler/scheduler.h"
#include "simulator/prediction_error.h"
#include "simulator/prefix_cache.h"
#include "simulator/remaining_hint.h"
#include "workload/arrivals.h"
#include "workload/trace.h"

namespace laxity {

/// What the scheduler is told of the future (CONTRACT 9).
enum class Knowledge : std::uint8_t {
  kOnline,    ///< revealed calls, predicted lengths
  kTemplate,  ///< plus the stage template
  kDeclared,  ///< the whole graph at arrival, predicted lengths
  kOracle,    ///< the whole graph at arrival, true lengths: for bounds only
};

/// Quirks of other public simulators, for comparisons with them.
///   kHexgen        HexGen-Flow's: no token from the prefill, output never charged, 95 % of the prompts'
///   blocks,
///                  ties in list order. kHexgenTicks adds its clock of idle ticks.
///   kDistserve     DistServe's: no token from the prefill, so that an output takes as many iterations as it
///   has
///                  tokens; KV moves at once and free of contention to where it waits for room.
///   kSplitwise     splitwise-sim's: the latter alone.
/// The last two are for lengths that are known: room is asked of the engine when the KV is there.
enum class Compat : std::uint8_t { kNone, kHexgen, kHexgenTicks, kDistserve, kSplitwise };

constexpr bool isHexgen(Compat c) { return c == Compat::kHexgen || c == Compat::kHexgenTicks; }
constexpr FirstToken firstTokenOf(Compat c) {
  return c == Compat::kNone || c == Compat::kSplitwise ? FirstToken::kFromPrefill : FirstToken::kFromDecode;
}

enum class SloBase : std::uint8_t {
  kTemplate,   ///< the template's mean time on the cluster, one constant
  kExclusive,  ///< per workflow: longest path of mean times and tool gaps (oracle knowledge, labelled)
  kHorizon,    ///< per workflow: H_w(final), alone on the idle cluster with true lengths (final_horizon.h)
};

struct ClusterSpec {
  std::vector<LatencyModel> latencies;
  std::vector<InstanceSpec> instances;
  std::vector<std::vector<TemplateEntry>> templates;  ///< the first is the base of SLOs, where there is one
  std::vector<std::vector<CacheTier>> prefixCaches;   ///< by instance, the fastest tier first; empty = none
};

/// What happens to the cluster during a run. The scheduler hears of conditions, never of speeds.
struct ScriptStep {
  enum class Kind : std::uint8_t {
    kUp,     ///< takes leases again
    kDrain,  ///< finishes what it has, gets nothing new
    kDown,   ///< lost with its KV: its leases go back to the scheduler
    kSpeed,  ///< the engine's times are `factor` times those of its latency model, from its next boundary on
  };
  Nanos t = 0;
  std::uint32_t instance = 0;
  Kind kind = Kind::kUp;
  double factor = 1;  ///< of kSpeed: 0.01 .. 100
};

/// Watches a run and may set parameters. All it sees and does are events with t, so that a log replays.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  /// Once per instant: its events, decide marks and decisions, in order.
  virtual void instant(Nanos t, std::span<const EventRecord> records) = 0;
  /// When it wants to act next: not before the last instant; kNever = not at all.
  virtual Nanos nextWake() const = 0;
  /// Called at nextWake(); `set` is empty.
  virtual void act(Nanos t, std::vector<SetParameter>* set) = 0;
};

struct RunOptions {
  Order order;
  Placement placement;
  Binding binding = Binding::kAtReveal;
  Feedback feedback = Feedback::kBoundary;
  std::uint32_t lookahead = 0;
  Knowledge knowledge = Knowledge::kTemplate;
  PolicyParameters parameters;
  std::uint64_t tieSeed = 0;
  std::uint64_t placementSeed = 1;
  bool migrate = false;
  Arrivals::Options arrivals;
  double sloScale = 5;
  bool deadlines = true;  ///< false: the scheduler is told of no deadline but a declared SLO's (CONTRACT 9)
  std::vector<double> tenantScales;  ///< by tenant, in place of sloScale; empty = sloScale for all
  SloBase sloBase = SloBase::kTemplate;
  std::uint16_t stageTemplate = 0;  ///< what workflows are expected to do: index into the templates, if any
  Compat compat = Compat::kNone;    ///< kDistserve and kSplitwise overwrite `pairs`
  PairPlacement pairPlacement;      ///< prefill-decode clusters: in place of `placement`
  PairOptions pairs;
  Nanos planLatency = 0;   ///< asynchronous planning: from the decide that makes a plan to its arrival
  bool timePlans = false;  ///< measure planning (RunResult::planP50Us)
  bool laws = false;       ///< check the conservation laws at every instant
  PredictionError error;
  RemainingOptions remaining;       ///< what callers declare of the time after a call, or predict
  std::vector<ScriptStep> script;   ///< by ascending t; unified clusters without prefix caches
  RunObserver* observer = nullptr;  ///< borrowed
};

/// Where to write what; null or empty = not wanted. Times in ms.
struct RunOutputs {
  double* latencyMs = nullptr;         ///< [workflows], infinity where the workflow did not complete
  double* baseMs = nullptr;            ///< [workflows]
  double* arrivalMs = nullptr;         ///< [workflows]
  std::uint8_t* sacrificed = nullptr;  ///< [workflows], 1 = put behind the others (scheduler/sacrifice.h)
  std::uint16_t* instance = nullptr;   ///< [calls], of the last attempt; 65535 = never leased
  double* readyMs = nullptr;           ///< [calls], NaN where it did not happen; so are the next
  double* leasedMs = nullptr;
  double* firstTokenMs = nullptr;
  double* finishedMs = nullptr;
  std::uint16_t* decodeInstance = nullptr;  ///< [calls], prefill-decode: d of the last attempt, else 65535
  double* transferStartMs = nullptr;        ///< [calls], prefill-decode
  double* transferredMs = nullptr;          ///< [calls], prefill-decode: the KV is on d
  double* decodeMs = nullptr;               ///< [calls], prefill-decode: joins the batch of d
  std::span<const double> scales;
  double* attainment = nullptr;     ///< [scales]
  std::span<double> tenants;        ///< [tenants x kTenantColumns], see simulator/tenants.h
  std::int32_t* control = nullptr;  ///< shared memory: [0] != 0 asks to stop, [1] counts finished workflows
  EventLog* log = nullptr;
};

/// What the prefix caches did, counted at the leases. All zero where no instance has one.
struct CacheResult {
  std::uint64_t hits = 0;          ///< leases that found some of their shared prefix
  std::uint64_t misses = 0;        ///< leases that found none of it
  std::uint64_t stale = 0;         ///< leases that found less than the reveal's hint had promised
  std::uint64_t promptTokens = 0;  ///< of all leases
  std::uint64_t sharedTokens = 0;  ///< of these: what an endless cache on one instance would have held
  std::uint64_t cachedTokens = 0;  ///< of these: found
  std::uint64_t loadedTokens = 0;  ///< of these: with a load time
};

struct RunResult {
  std::uint32_t completed = 0;
  std::uint64_t calls = 0;  ///< calls finished
  std::uint64_t rejected = 0;
  std::uint64_t evictions = 0;        ///< after which a call went back to the scheduler
  std::uint64_t lostLeases = 0;       ///< the same, with their instance
  std::uint64_t hiddenEvictions = 0;  ///< lease mode: that an engine dealt with on its own
  std::uint64_t instants = 0;  ///< distinct times at which something happened; prefill-decode: a time counts
                               ///< again where it has a further round
  Nanos makespan = 0;          ///< first arrival to last finish
  double meanMs = 0;
  double p50Ms = 0;
  double p95Ms = 0;
  double p99Ms = 0;
  double sloScale95 = 0;      ///< ceil(0.95 n)-th smallest latency / base
  double sloScale99 = 0;      ///< the same with 0.99; with SloBase::kHorizon these two are Req95 and Req99
  double throughputPerS = 0;  ///< completed / makespan
  // Prefill-decode clusters only.
  double prefillUtilisation = 0;  ///< busy share of the makespan, mean over the instances
  double decodeUtilisation = 0;
  std::uint64_t plans = 0;
  std::uint64_t plannedCalls = 0;  ///< calls that waited, summed over the plans
  double planMeanUs = 0;           ///< CPU time of a plan with its keys and leases, with timePlans
  double planP50Us = 0;
  double planP99Us = 0;
  double decodeKvPeak = 0;  ///< largest share of a decode instance's KV in use
  CacheResult cache;
};

struct WorkspaceMemory;

/// Memory that consecutive runs share. It carries no state from one to the next, only what the trace and the
/// cluster alone decide (alone_times.h).
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  WorkspaceMemory& memory() { return *memory_; }

 private:
  std::unique_ptr<WorkspaceMemory> memory_;
};

/// Runs one policy over one trace in virtual time. Deterministic, with or without a workspace.
Status simulate(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                const RunOutputs& outputs, RunResult* result, Workspace* workspace = nullptr);

}  // namespace laxity
