#include "simulator/driver.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "simulator/hexgen_clock.h"
#include "simulator/tenants.h"

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

Workspace::Workspace() : memory_(std::make_unique<WorkspaceMemory>()) {}
Workspace::~Workspace() = default;

/// Deadlines and the base of SLO scales follow the engines, whatever the scheduler believes of them.
void Driver::priceSlo() {
  if (!options_.error.times()) {
    slo_.price(scheduler_.cluster());
    return;
  }
  trueCluster_ = std::make_unique<Cluster>(cluster_.latencies, options_.tieSeed);
  for (std::uint32_t m = 0; m < cluster_.instances.size(); ++m)
    check(trueCluster_->add(m, cluster_.instances[m]));
  slo_.price(*trueCluster_);
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

/// By class over all engines that are due, then by engine.
void Driver::engineEvents(Nanos t) {
  bool exceptions = false;
  for (const std::uint32_t m : due_) {
    Engine& engine = engines_[m];
    engine.advance(t);
    for (const EngineCall& c : engine.prefilled()) callPrefilled(c, m, t);
    exceptions |= !engine.evicted().empty() || !engine.overflowed().empty();
  }
  if (exceptions) {
    for (const std::uint32_t m : due_) {
      for (const Engine::Evicted& e : engines_[m].evicted()) callEvicted(e, t);
    }
  }
  for (const std::uint32_t m : due_) {
    for (const EngineCall& c : engines_[m].finished()) callFinished(c.slot, m, t);
  }
  if (exceptions) {
    for (const std::uint32_t m : due_) {
      for (const EngineCall& c : engines_[m].overflowed()) callOverflowed(c.slot, t);
    }
  }
}

void Driver::callPrefilled(const EngineCall& call, std::uint32_t instance, Nanos t) {
  event(scheduler_.firstToken(t, {attempt(call.slot)}));
  const CallTruth& c = truth_.call(call.slot);
  if (caching_) cache_.touch(instance, truth_.workflow(c.open).workflow, call.promptTokens);
  if (options_.laws) {
    // An engine that evicted the call on its own prefills more, and nothing of it from the cache.
    const std::uint32_t prompt = trace_.columns().promptTokens[c.row] + c.generated;
    if (call.promptTokens < prompt) check(Status::kLawBroken);
    promptTokens_ += call.promptTokens;
    cachedTokens_ += call.promptTokens == prompt ? c.cached : 0;
  }
  // An evicted call is prefilled again; its first token was the first one.
  if (outputs_.firstTokenMs != nullptr && std::isnan(outputs_.firstTokenMs[c.row]))
    outputs_.firstTokenMs[c.row] = toMs(t);
}

/// Whether the scheduler holds no such call any more, or only its end.
bool Driver::over(std::uint32_t slot) const {
  const Graph& graph = scheduler_.graph();
  return !ok(graph.findCall({slot, truth_.call(slot).generation})) || terminal(graph.call(slot).state);
}

void Driver::callEvicted(const Engine::Evicted& e, Nanos t) {
  event(scheduler_.evicted(t, {attempt(e.call.slot), e.generated}));
  if (paired_) [[unlikely]]
    pairEnded(e.call.slot);
  CallTruth& c = truth_.call(e.call.slot);
  c.generated += e.generated;
  ++c.epoch;
  OpenTruth& w = truth_.workflow(c.open);
  --w.inFlight;
  ++result_.evictions;
  if (over(e.call.slot) && w.aborted && w.inFlight == 0) ended_.push_back(c.open);
}

void Driver::callFinished(std::uint32_t slot, std::uint32_t instance, Nanos t) {
  const CallTruth& call = truth_.call(slot);
  if (paired_) [[unlikely]]
    pairEnded(slot);
  if (caching_ && !paired_) {  // on prefill instances only prompts are kept
    cache_.touch(instance, truth_.workflow(call.open).workflow,
                 trace_.columns().promptTokens[call.row] + trace_.columns().outputTokens[call.row]);
  }
  event(scheduler_.finished(t, {attempt(slot), trace_.columns().outputTokens[call.row] - call.generated}));
  if (outputs_.finishedMs != nullptr) outputs_.finishedMs[call.row] = toMs(t);
  ++result_.calls;
  --truth_.workflow(call.open).inFlight;
  callEnded(slot, t);
}

/// Lease mode: the call outgrew the engine's whole KV cache.
void Driver::callOverflowed(std::uint32_t slot, Nanos t) {
  const Leg leg = paired_ ? Leg::kDecode : Leg::kUnified;
  if (paired_) [[unlikely]]
    pairEnded(slot);
  event(scheduler_.failed(t, {attempt(slot), FailureClass::kFault, leg, 0, 0, 0, 0}));
  CallTruth& call = truth_.call(slot);
  OpenTruth& w = truth_.workflow(call.open);
  --w.inFlight;
  if (over(slot)) {
    w.aborted = true;
    ended_.push_back(call.open);
  } else {
    ++call.epoch;
    ++result_.evictions;
  }
}

/// Counts the children down; those without an unfinished parent become ready after their tool.
void Driver::callEnded(std::uint32_t slot, Nanos t) {
  const std::uint32_t index = truth_.call(slot).open;
  OpenTruth& w = truth_.workflow(index);
  --w.unfinished;
  if (!w.aborted) {
    for (const std::uint32_t row : trace_.children(truth_.call(slot).row)) {
      if (truth_.parentEnded(index, row)) becomeReady(index, row, t);
    }
  }
  if (w.unfinished == 0 || (w.aborted && w.inFlight == 0)) ended_.push_back(index);
}

Nanos Driver::gapOf(std::uint32_t row) const {
  return trace_.columns().toolGapMs == nullptr ? 0 : fromMs(trace_.columns().toolGapMs[row]);
}

void Driver::becomeReady(std::uint32_t index, std::uint32_t row, Nanos t) {
  const Nanos gap = gapOf(row);
  if (outputs_.readyMs != nullptr) outputs_.readyMs[row] = toMs(t + gap);
  if (gap == 0) {
    if (!early()) reveals_.push_back({index, truth_.workflow(index).ref.generation, row});
    return;
  }
  std::uint32_t slot;
  const Gap tool{index, truth_.workflow(index).ref.generation, row};
  if (freeGaps_.empty()) {
    slot = static_cast<std::uint32_t>(gapCalls_.size());
    gapCalls_.push_back(tool);
  } else {
    slot = freeGaps_.back();
    freeGaps_.pop_back();
    gapCalls_[slot] = tool;
  }
  gaps_.push({-std::min(kMaxTime, t + gap), gapSequence_++, slot}, [](std::uint32_t, std::uint32_t) {});
}

void Driver::toolsDone(Nanos t) {
  while (!gaps_.empty() && -gaps_.top().key == t) {
    const std::uint32_t slot = gaps_.top().slot;
    gaps_.removeAt(0, [](std::uint32_t, std::uint32_t) {});
    const Gap g = gapCalls_[slot];
    freeGaps_.push_back(slot);
    const OpenTruth& w = truth_.workflow(g.index);
    if (w.ref.generation != g.generation || w.freed || w.aborted) continue;
    if (!early()) {
      reveals_.push_back(g);
    } else {
      const Ref c = truth_.refOf(g.index, g.row);
      event(scheduler_.toolDone(t, {{c, truth_.call(c.slot).epoch}}));
    }
  }
}

void Driver::arrive(Nanos t) {
  opened_.clear();
  const std::uint32_t workflows = trace_.columns().workflows;
  while (arrived_ < workflows && nextArrival_ <= t) {
    opened_.push_back(truth_.open(arrived_++, t));
    nextArrival_ = arrived_ < workflows ? arrivals_.next() : kNever;
  }
}

void Driver::arrivalEvents(Nanos t) {
  const TraceColumns& c = trace_.columns();
  for (const std::uint32_t index : opened_) {
    const OpenTruth& w = truth_.workflow(index);
    metrics_.arrived(w.workflow, t, slo_.base(w.workflow));
    if (outputs_.arrivalMs != nullptr) outputs_.arrivalMs[w.workflow] = toMs(t);
    const std::uint16_t tenant = c.tenant == nullptr ? 0 : c.tenant[w.workflow];
    const auto stages = static_cast<std::int16_t>(cluster_.templates.empty() ? -1 : options_.stageTemplate);
    OpenWorkflow open{w.ref, tenant, stages, 0, slo_.told(w.workflow, t), -1};
    if (predicted_ != nullptr) open.predictedHorizon = predicted_->of(w.workflow);
    event(scheduler_.openWorkflow(t, open));
  }
  for (const std::uint32_t index : opened_) {
    if (early()) revealAll(index, t);
    for (std::uint32_t row = truth_.firstRow(index); row < truth_.endRow(index); ++row) {
      if (c.parentOffset[row] != c.parentOffset[row + 1]) continue;
      if (outputs_.readyMs != nullptr) outputs_.readyMs[row] = toMs(t + gapOf(row));
      if (gapOf(row) > 0)
        becomeReady(index, row, t);
      else if (!early())
        revealCall(index, row, t, false);
    }
  }
}

void Driver::revealAll(std::uint32_t index, Nanos t) {
  for (std::uint32_t row = truth_.firstRow(index); row < truth_.endRow(index); ++row)
    revealCall(index, row, t, true);
}

void Driver::revealCall(std::uint32_t index, std::uint32_t row, Nanos t, bool early) {
  if (truth_.workflow(index).aborted) return;
  const TraceColumns& c = trace_.columns();
  parents_.clear();
  for (std::uint32_t e = c.parentOffset[row]; e < c.parentOffset[row + 1]; ++e) {
    parents_.push_back(truth_.refOf(index, truth_.firstRow(index) + c.parents[e]));
  }
  Reveal& r = reveal_;
  r.workflow = truth_.workflow(index).ref;
  r.call = truth_.name(index, row);
  r.stage = c.stage[row];
  r.model = c.model == nullptr ? 0 : c.model[row];
  r.toolPending = early && gapOf(row) > 0 ? 1 : 0;
  r.promptTokens = c.promptTokens[row];
  r.predictedTokens = options_.knowledge == Knowledge::kOracle || c.predictedTokens == nullptr
                          ? c.outputTokens[row]
                          : c.predictedTokens[row];
  r.predictedHigh = r.predictedTokens;
  if (wrong_) mistakeLengths(truth_.workflow(index).workflow, row);
  if (caching_) hintCached(truth_.workflow(index).workflow, row);
  if (remaining_ != nullptr) {
    r.remaining = remaining_->of(row);
    r.exactRemaining = options_.remaining.sigma == 0 ? 1 : 0;
  }
  event(scheduler_.reveal(t, r, parents_));
}

/// A mistake alone never makes a call larger than every instance of its model: whoever predicts knows the
/// limits.
void Driver::mistakeLengths(std::uint32_t workflow, std::uint32_t row) {
  Reveal& r = reveal_;
  const std::int64_t room = r.model < mostKv_.size() ? mostKv_[r.model] - r.promptTokens : 0;
  const auto most = static_cast<std::uint32_t>(std::clamp<std::int64_t>(room, 0, kMaxTokens));
  r.predictedTokens = mistaken(r.predictedTokens, lengthErrors_.factor(workflow, row), most);
  r.predictedHigh = mistaken(r.predictedTokens, lengthErrors_.high(), most);
}

/// The two instances that hold most of what the call may reuse, as of now; ties: the shorter load, the
/// smaller slot.
void Driver::hintCached(std::uint32_t workflow, std::uint32_t row) {
  Reveal& r = reveal_;
  r.cached[0] = r.cached[1] = CachedPrefix{};
  const std::uint32_t* shared = trace_.columns().cachedTokens;
  const std::uint32_t tokens = shared == nullptr ? 0 : reusableTokens(shared[row], r.promptTokens);
  if (tokens == 0) return;
  const auto better = [](const CachedPrefix& a, const CachedPrefix& b) {
    if (a.tokens != b.tokens) return a.tokens > b.tokens;
    return a.loadUs != b.loadUs ? a.loadUs < b.loadUs : a.instance < b.instance;
  };
  const auto latencyOf = [&](std::uint32_t m) -> const LatencyModel& {
    return cluster_.latencies[cluster_.instances[m].latency];
  };
  cache_.eachHolder(
      workflow, tokens, r.promptTokens, latencyOf, [&](std::uint32_t m, const FoundPrefix& found) {
        if (cluster_.instances[m].model != r.model) return;
        const Nanos us =
            std::min<Nanos>((found.load + 999) / 1'000, std::numeric_limits<std::uint32_t>::max());
        const CachedPrefix holder{m, found.tokens, static_cast<std::uint32_t>(us)};
        if (better(holder, r.cached[0])) {
          r.cached[1] = r.cached[0];
          r.cached[0] = holder;
        } else if (better(holder, r.cached[1])) {
          r.cached[1] = holder;
        }
      });
}

/// What the instance holds at the lease, counted.
FoundPrefix Driver::findCached(const Call& call, std::uint32_t row, std::uint32_t workflow,
                               std::uint32_t instance) {
  CacheResult& sums = result_.cache;
  sums.promptTokens += call.promptTokens;
  const std::uint32_t* shared = trace_.columns().cachedTokens;
  const std::uint32_t tokens = shared == nullptr ? 0 : reusableTokens(shared[row], call.promptTokens);
  if (tokens == 0) return {};
  const FoundPrefix found = cache_.find(instance, workflow, tokens, call.promptTokens,
                                        cluster_.latencies[cluster_.instances[instance].latency]);
  ++(found.tokens > 0 ? sums.hits : sums.misses);
  for (const CachedPrefix& hint : call.cached) {
    if (hint.instance == instance && hint.tokens > found.tokens) ++sums.stale;
  }
  sums.sharedTokens += tokens;
  sums.cachedTokens += found.tokens;
  if (found.load > 0) sums.loadedTokens += found.tokens;
  return found;
}

void Driver::closeAll(Nanos t) {
  for (const std::uint32_t index : ended_) workflowEnded(index, t);
  ended_.clear();
}

void Driver::workflowEnded(std::uint32_t index, Nanos t) {
  OpenTruth& w = truth_.workflow(index);
  if (w.freed) return;
  if (!w.closed) {
    w.closed = true;
    ++endedWorkflows_;
    if (outputs_.sacrificed != nullptr)
      outputs_.sacrificed[w.workflow] = scheduler_.graph().workflow(w.ref.slot).sacrificed ? 1 : 0;
    event(scheduler_.closeWorkflow(t, {w.ref}));
    if (!w.aborted) {
      metrics_.completed(w.workflow, w.arrival, t);
      if (outputs_.control != nullptr)
        std::atomic_ref(outputs_.control[1]).fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (!w.aborted || w.inFlight == 0) truth_.close(index);
}

namespace {

/// Inline: as a function of its own it costs every sweep 1 % more instructions.
[[gnu::always_inline]] inline Capacity capacityOf(std::uint32_t m, const Engine& engine) {
  return {m, engine.sequencesFree(), engine.kvFree(), engine.prefillFree(), 1};
}

}  // namespace

/// A chunked engine says by itself that there is budget again: nothing else would touch its queue.
[[gnu::noinline]] void Driver::reportBudgets(Nanos t) {
  for (const std::uint32_t m : due_) {
    if (engines_[m].budgetOpened() && !engines_[m].empty())
      check(scheduler_.capacity(t, capacityOf(m, engines_[m])));
  }
}

/// A lease computes more or fewer tokens than its hint promised: the budget that is left is another one than
/// the scheduler counts, and may be spent at this very instant.
[[gnu::noinline]] void Driver::correctBudgets(Nanos t) {
  bool chunked = false;
  for (const std::uint32_t m : misjudged_) {
    if (options_.feedback != Feedback::kBoundary || cluster_.instances[m].mode != EngineMode::kChunked)
      continue;
    check(scheduler_.capacity(t, capacityOf(m, engines_[m])));
    chunked = true;
  }
  misjudged_.clear();
  if (chunked && !scheduler_.touched().empty()) decide(t);
}

/// Engines whose queue or ledger changed report their exact capacity at a boundary: now, or when they reach
/// it.
void Driver::reportBoundaries(Nanos t) {
  for (const std::uint32_t m : scheduler_.touched()) {
    Engine& engine = engines_[m];
    if (engine.empty() || engine.wakePending() || engine.budgetOpened())
      continue;  // the scheduler knows an empty ledger; a wake lies ahead; it has reported
    if (engine.atBoundaryOrWake(t))
      check(scheduler_.capacity(t, capacityOf(m, engine)));
    else
      engineNext_.set(m, engine.next());
  }
  if (options_.binding == Binding::kAtReveal && !options_.migrate) return;
  // A lease from a shared queue touches the others while the decision is made, and any of them may take a
  // call of another queue, so every engine at a boundary reports.
  for (std::uint32_t m = 0; m < engines_.size(); ++m) {
    Engine& engine = engines_[m];
    if (scheduler_.cluster().at(m).touched || engine.empty() || !engine.standsAt(t)) continue;
    if (engine.atBoundaryOrWake(t)) check(scheduler_.capacity(t, capacityOf(m, engine)));
  }
}

/// What the decision itself touched has its chance at its next boundary.
void Driver::wakeTouched(Nanos t) {
  for (const std::uint32_t m : scheduler_.touched()) {
    Engine& engine = engines_[m];
    if (engine.idle() || engine.wakePending()) continue;
    if (!engine.atBoundaryOrWake(t)) engineNext_.set(m, engine.next());
  }
}

void Driver::carryOut(std::span<const Decision> decisions, Nanos t) {
  const TraceColumns& columns = trace_.columns();
  for (const Decision& d : decisions) {
    CallTruth& c = truth_.call(d.call.slot);
    OpenTruth& w = truth_.workflow(c.open);
    if (d.kind == DecisionKind::kReject) {
      ++result_.rejected;
      w.aborted = true;
      ended_.push_back(c.open);
      continue;
    }
    if (paired_) [[unlikely]] {
      pairDecision(d, t);
      continue;
    }
    ++w.inFlight;
    const Call& call = scheduler_.graph().call(d.call.slot);
    FoundPrefix found;
    if (caching_) found = findCached(call, c.row, w.workflow, d.instance);
    c.cached = found.tokens;
    if (chunked_ && call.cost.prefillTokens != call.promptTokens - found.tokens)
      misjudged_.push_back(d.instance);
    engines_[d.instance].lease({d.call.slot, call.promptTokens, columns.outputTokens[c.row] - c.generated,
                                call.predictedTokens, call.cost.kv, found.tokens, found.load});
    if (std::find(due_.begin(), due_.end(), d.instance) == due_.end()) due_.push_back(d.instance);
    if (outputs_.instance != nullptr) outputs_.instance[c.row] = static_cast<std::uint16_t>(d.instance);
    if (outputs_.leasedMs != nullptr && c.epoch == 0) outputs_.leasedMs[c.row] = toMs(t);
  }
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
