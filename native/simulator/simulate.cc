// One run from its options.
#include <algorithm>
#include <limits>

#include "simulator/driver.h"
#include "simulator/hexgen_clock.h"

namespace laxity {

SchedulerConfig schedulerConfig(const ClusterSpec& cluster, const RunOptions& options) {
  SchedulerConfig config;
  config.order = options.order;
  config.placement = options.placement;
  config.binding = options.binding;
  config.feedback = options.feedback;
  config.lookahead = options.lookahead;
  config.useTemplates = options.knowledge == Knowledge::kTemplate;
  config.templateSlo = options.sloBase == SloBase::kTemplate;
  config.firstToken = firstTokenOf(options.compat);
  config.kvNeed = isHexgen(options.compat) ? KvNeed::kPrompt16 : KvNeed::kPromptAndOutput;
  if (isHexgen(options.compat)) config.callTies = CallTies::kRevealOrder;
  config.tieSeed = options.tieSeed;
  config.placementSeed = options.placementSeed;
  config.pairPlacement = options.pairPlacement;
  config.pairs = options.pairs;
  config.migrate = options.migrate;
  config.parameters = options.parameters;
  if (isHexgen(options.compat))
    config.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit), 0.95);
  config.latencies =
      options.error.times() ? believedLatencies(cluster.latencies, options.error) : cluster.latencies;
  config.templates = cluster.templates;
  return config;
}

EngineOptions engineOptions(const RunOptions& options) {
  EngineOptions engine;
  engine.firstToken = firstTokenOf(options.compat);
  engine.chargeOutput = !isHexgen(options.compat);
  engine.requeueEvicted = options.feedback == Feedback::kLease;
  engine.backfill = options.pairs.backfill;
  engine.kvFirst = options.pairs.staging == Staging::kUnlimited;
  return engine;
}

Workspace::Workspace() : memory_(std::make_unique<WorkspaceMemory>()) {}
Workspace::~Workspace() = default;

namespace {

Status runDriver(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                 const RunOutputs& outputs, RunResult* result, Workspace* workspace) {
  if (workspace != nullptr) return Driver(trace, cluster, options, outputs, workspace->memory()).run(result);
  WorkspaceMemory memory;
  return Driver(trace, cluster, options, outputs, memory).run(result);
}

}  // namespace

Status simulate(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                const RunOutputs& outputs, RunResult* result, Workspace* workspace) {
  const Status arrivals = Arrivals::check(options.arrivals);
  if (!ok(arrivals)) return arrivals;
  if (!options.tenantScales.empty() && options.tenantScales.size() < trace.tenants())
    return Status::kBadValue;
  if (const Status error = checkError(options.error); !ok(error)) return error;
  if (!cluster.prefixCaches.empty() && cluster.prefixCaches.size() != cluster.instances.size())
    return Status::kBadValue;
  // Another simulator's quirks know neither.
  if (options.compat != Compat::kNone &&
      (!cluster.prefixCaches.empty() || options.error.lengths() || options.error.times() ||
       !options.script.empty() || options.observer != nullptr))
    return Status::kUnsupported;
  const std::uint32_t calls = trace.columns().calls;
  for (double* column : {outputs.readyMs, outputs.leasedMs, outputs.firstTokenMs, outputs.finishedMs,
                         outputs.transferStartMs, outputs.transferredMs, outputs.decodeMs}) {
    if (column != nullptr) std::fill_n(column, calls, std::numeric_limits<double>::quiet_NaN());
  }
  for (std::uint16_t* column : {outputs.instance, outputs.decodeInstance}) {
    if (column != nullptr) std::fill_n(column, calls, std::uint16_t{0xffff});
  }
  if (!(options.remaining.sigma >= 0 && options.remaining.sigma <= 10)) return Status::kBadValue;
  if (!(options.pairs.overlap >= 0 && options.pairs.overlap <= 1)) return Status::kBadValue;
  if (options.compat != Compat::kNone) {  // the originals know one mode, HexGen-Flow's one prefill at a time
    for (const InstanceSpec& spec : cluster.instances) {
      if (spec.mode != EngineMode::kPrefillFirst) return Status::kUnsupported;
      if (isHexgen(options.compat) && (spec.role != Role::kUnified || spec.chunkTokens > 0))
        return Status::kUnsupported;
    }
  }
  if (options.compat == Compat::kDistserve || options.compat == Compat::kSplitwise) {
    RunOptions quirks = options;
    quirks.pairs = PairOptions{};
    quirks.pairs.staging = Staging::kUnlimited;
    quirks.pairs.admission = DecodeAdmission::kEngine;
    quirks.pairs.links = Links::kFree;
    return runDriver(trace, cluster, quirks, outputs, result, workspace);
  }
  if (options.compat == Compat::kHexgenTicks)
    return HexgenClock(trace, cluster, options, outputs).run(result);
  return runDriver(trace, cluster, options, outputs, result, workspace);
}

}  // namespace laxity
