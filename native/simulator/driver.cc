// A run: its start, its instants, its laws.
#include "simulator/driver.h"

#include <algorithm>
#include <atomic>

#include "simulator/tenants.h"

namespace laxity {

Driver::Driver(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
               const RunOutputs& outputs, WorkspaceMemory& memory)
    : trace_(trace),
      cluster_(cluster),
      options_(options),
      outputs_(outputs),
      memory_(memory),
      scheduler_(schedulerConfig(cluster, options), std::move(memory.scheduler)),
      slo_(trace, cluster, options),
      truth_(trace, std::move(memory.truth)),
      metrics_(trace.columns().workflows),
      arrivals_(options.arrivals),
      cache_(std::move(memory.prefixCache)),
      wrong_(options.error.lengths() && options.knowledge != Knowledge::kOracle),
      lengthErrors_(options.error),
      engines_(std::move(memory.engines)) {
  scheduler_.setLog(options.observer != nullptr && outputs.log == nullptr ? &shown_ : outputs.log);
  reveal_.sequences = 1;
  reveal_.remaining = -1;
  for (const std::vector<CacheTier>& tiers : cluster.prefixCaches) {
    for (const CacheTier& tier : tiers) caching_ = caching_ || tier.tokens >= kPrefixBlock;
  }
}

Driver::~Driver() {
  memory_.scheduler = scheduler_.takeMemory();
  memory_.truth = truth_.takeMemory();
  memory_.engines = std::move(engines_);
  memory_.prefixCache = std::move(cache_);
}

/// Deadlines and the base of SLO scales follow the engines, whatever the scheduler believes of them.
void Driver::priceSlo() {
  if (!options_.error.times()) {
    slo_.price(scheduler_.cluster(), memory_.aloneTimes);
    return;
  }
  trueCluster_ = std::make_unique<Cluster>(cluster_.latencies, options_.tieSeed);
  for (std::uint32_t m = 0; m < cluster_.instances.size(); ++m)
    check(trueCluster_->add(m, cluster_.instances[m]));
  slo_.price(*trueCluster_, memory_.aloneTimes);
}

Status Driver::start() {
  // The engines here never fall silent, and know no revocation.
  if (options_.parameters[Parameter::kLeaseTtlMs] > 0) return Status::kUnsupported;
  engines_.resize(cluster_.instances.size());
  engineNext_.resize(engines_.size());
  for (std::uint32_t m = 0; m < engines_.size(); ++m) {
    const InstanceEvent add{m, InstanceChange::kAdd, cluster_.instances[m]};
    const Status added = scheduler_.instance(0, add);
    if (!ok(added)) return added;
    engines_[m].reset(add.spec, cluster_.latencies[add.spec.latency], engineOptions(options_));
    chunked_ |= add.spec.mode == EngineMode::kChunked;
    paired_ |= add.spec.role != Role::kUnified;
  }
  if (paired_) pairStart();
  priceSlo();
  if (options_.remaining.on) {
    const Cluster& truth = trueCluster_ != nullptr ? *trueCluster_ : scheduler_.cluster();
    const PairTerms terms{engineOptions(options_).firstToken, 1, options_.pairs.overlap};
    if (options_.remaining.predictor)
      predicted_ = std::make_unique<PredictedHorizon>(trace_, truth, terms, options_.remaining);
    else
      remaining_ =
          std::make_unique<RemainingHint>(trace_, TrueCosts(trace_, truth, terms), options_.remaining);
  }
  if (caching_) cache_.reset(trace_.columns().workflows, cluster_.prefixCaches);
  if (wrong_) {
    const double overcommit = options_.parameters[Parameter::kOvercommit];
    for (const InstanceSpec& m : cluster_.instances) {
      if (m.role == Role::kPrefill) continue;
      if (mostKv_.size() <= m.model) mostKv_.resize(std::size_t{m.model} + 1, 0);
      const auto limit = static_cast<std::int64_t>(static_cast<double>(m.kvTokens) * overcommit);
      mostKv_[m.model] = std::max(mostKv_[m.model], std::min(limit, m.kvTokens));
    }
  }
  outside_ = !options_.script.empty() || options_.observer != nullptr;
  if (const Status script = checkScript(); !ok(script)) return script;
  retime_.assign(options_.script.empty() ? 0 : engines_.size(), nullptr);
  nextArrival_ = trace_.columns().workflows > 0 ? arrivals_.next() : kNever;
  return Status::kOk;
}

Status Driver::run(RunResult* result) {
  const Status started = start();
  if (!ok(started)) return started;
  const std::uint32_t workflows = trace_.columns().workflows;
  while (ok(status_)) {
    Nanos t = std::min({engineNext_.min(), scheduler_.nextWake(), nextArrival_});
    if (!gaps_.empty()) t = std::min(t, -gaps_.top().key);
    if (paired_) t = std::min({t, links_.next(), planAt_});
    if (outside_ && endedWorkflows_ < workflows) t = std::min(t, outsideNext());
    if (t == kNever) break;
    if (t >= kMaxTime) return Status::kBadTime;
    ++result_.instants;
    if (outputs_.control != nullptr && result_.instants % 256 == 0) {
      std::atomic_ref<std::int32_t> stop(outputs_.control[0]);
      if (stop.load(std::memory_order_relaxed) != 0) return Status::kCancelled;
    }
    check(instant(t));
  }
  if (!ok(status_)) return status_;
  if (options_.laws) lawsHold();
  if (endedWorkflows_ != workflows) return Status::kLawBroken;  // nothing accepted is ever lost
  for (const Engine& engine : engines_) result_.hiddenEvictions += engine.requeued();
  metrics_.summarise(outputs_, &result_);
  if (paired_) pairSummarise();
  if (!outputs_.tenants.empty()) summariseTenants(metrics_, slo_, trace_, outputs_.tenants);
  *result = result_;
  return status_;
}

Status Driver::instant(Nanos t) {
  if (paired_) [[unlikely]]
    return pairInstant(t);
  takeDue(t);
  if (outside_) [[unlikely]]
    scriptEvents(t);
  if (!due_.empty()) engineEvents(t);
  if (outside_) [[unlikely]]
    retimeDue(t);
  worldEvents(t);
  if (outside_) [[unlikely]]
    observerActs(t);
  decide(t);
  // A rejection aborts its workflow, which may take the head of a queue away: another event, another decide.
  while (!ended_.empty() && ok(status_)) {
    closeAll(t);
    decide(t);
  }
  for (const std::uint32_t m : due_) {
    engines_[m].settle(t);
    engineNext_.set(m, engines_[m].next());
  }
  if (options_.feedback == Feedback::kBoundary && !scheduler_.touched().empty()) wakeTouched(t);
  if (outside_) [[unlikely]]
    showInstant(t);
  if (options_.laws) lawsHold();
  return status_;
}

void Driver::decide(Nanos t) {
  check(scheduler_.place(t));
  if (!ok(status_)) return;
  if (options_.feedback == Feedback::kBoundary) {
    if (chunked_) reportBudgets(t);
    if (!scheduler_.touched().empty()) reportBoundaries(t);
  }
  if (const auto decisions = scheduler_.decide(t); !decisions.empty()) carryOut(decisions, t);
  if (!misjudged_.empty()) correctBudgets(t);
  if (scheduler_.placementFailed()) check(Status::kPlacementFailed);
}

void Driver::lawsHold() {
  if (!scheduler_.audit()) check(Status::kLawBroken);
  if (caching_ && !cache_.consistent()) check(Status::kLawBroken);
  std::int64_t prefilled = lostPrefilled_;
  for (std::uint32_t m = 0; m < engines_.size(); ++m) {
    // What a decode instance prefills again it has from nobody.
    if (cluster_.instances[m].role != Role::kDecode) prefilled += engines_[m].prefilledTokens();
  }
  if (prefilled + cachedTokens_ != promptTokens_) check(Status::kLawBroken);
  if (paired_) return pairLawsHold();
  for (std::uint32_t m = 0; m < engines_.size(); ++m) {
    const Ledger& ledger = scheduler_.cluster().at(m).ledger;
    if (ledger.leased != engines_[m].held()) check(Status::kLawBroken);
    if (engines_[m].kvUsed() < 0 || engines_[m].kvUsed() > cluster_.instances[m].kvTokens)
      check(Status::kLawBroken);
    if (engines_[m].idle() && engines_[m].held() == 0 && engines_[m].kvUsed() != 0) check(Status::kLawBroken);
    if (ledger.leased == 0 && (ledger.reservedKv != 0 || ledger.unprefilledWork != 0))
      check(Status::kLawBroken);
  }
}

}  // namespace laxity
