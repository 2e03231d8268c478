#include "simulator/driver.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

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
  config.firstToken = options.compat == Compat::kNone ? FirstToken::kFromPrefill : FirstToken::kFromDecode;
  config.kvNeed = options.compat == Compat::kNone ? KvNeed::kPromptAndOutput : KvNeed::kPrompt16;
  if (options.compat != Compat::kNone) config.callTies = CallTies::kRevealOrder;
  config.tieSeed = options.tieSeed;
  config.parameters = options.parameters;
  if (options.compat != Compat::kNone)
    config.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit), 0.95);
  config.latencies = cluster.latencies;
  config.templates = cluster.templates;
  return config;
}

EngineOptions engineOptions(const RunOptions& options) {
  EngineOptions engine;
  engine.firstToken = options.compat == Compat::kNone ? FirstToken::kFromPrefill : FirstToken::kFromDecode;
  engine.chargeOutput = options.compat == Compat::kNone;
  engine.requeueEvicted = options.feedback == Feedback::kLease;
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
      engines_(std::move(memory.engines)) {
  scheduler_.setLog(outputs.log);
  reveal_.sequences = 1;
  reveal_.remaining = -1;
}

Driver::~Driver() {
  memory_.scheduler = scheduler_.takeMemory();
  memory_.truth = truth_.takeMemory();
  memory_.engines = std::move(engines_);
}

Workspace::Workspace() : memory_(std::make_unique<WorkspaceMemory>()) {}
Workspace::~Workspace() = default;

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
  }
  slo_.price(scheduler_.cluster());
  nextArrival_ = arrivals_.next();
  return Status::kOk;
}

Status Driver::run(RunResult* result) {
  const Status started = start();
  if (!ok(started)) return started;
  const std::uint32_t workflows = trace_.columns().workflows;
  while (ok(status_)) {
    Nanos t = std::min({engineNext_.min(), scheduler_.nextWake(), nextArrival_});
    if (!gaps_.empty()) t = std::min(t, -gaps_.top().key);
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
  metrics_.summarise(outputs_, &result_);
  *result = result_;
  return status_;
}

Status Driver::instant(Nanos t) {
  due_.clear();
  while (engineNext_.min() == t) {
    const auto m = static_cast<std::uint32_t>(engineNext_.minIndex());
    engineNext_.set(m, kNever);
    due_.push_back(m);
  }
  reveals_.clear();
  if (!due_.empty()) engineEvents(t);
  if (nextArrival_ <= t) {
    arrive(t);
    arrivalEvents(t);
  }
  if (!gaps_.empty()) toolsDone(t);
  for (const Gap& g : reveals_) revealCall(g.index, g.row, t, false);
  if (!ended_.empty()) closeAll(t);
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
  if (options_.laws) lawsHold();
  return status_;
}

void Driver::decide(Nanos t) {
  check(scheduler_.place(t));
  if (options_.feedback == Feedback::kBoundary && !scheduler_.touched().empty()) reportBoundaries(t);
  if (const auto decisions = scheduler_.decide(t); !decisions.empty()) carryOut(decisions, t);
}

/// By class over all engines that are due, then by engine.
void Driver::engineEvents(Nanos t) {
  bool exceptions = false;
  for (const std::uint32_t m : due_) {
    Engine& engine = engines_[m];
    engine.advance(t);
    if (const EngineCall* c = engine.prefilled()) callPrefilled(c->slot, t);
    exceptions |= !engine.evicted().empty() || !engine.overflowed().empty();
  }
  if (exceptions) {
    for (const std::uint32_t m : due_) {
      for (const Engine::Evicted& e : engines_[m].evicted()) callEvicted(e, t);
    }
  }
  for (const std::uint32_t m : due_) {
    for (const EngineCall& c : engines_[m].finished()) callFinished(c.slot, t);
  }
  if (exceptions) {
    for (const std::uint32_t m : due_) {
      for (const EngineCall& c : engines_[m].overflowed()) callOverflowed(c.slot, t);
    }
  }
}

void Driver::callPrefilled(std::uint32_t slot, Nanos t) {
  check(scheduler_.firstToken(t, {attempt(slot)}));
  const CallTruth& c = truth_.call(slot);
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
  check(scheduler_.evicted(t, {attempt(e.call.slot), e.generated}));
  CallTruth& c = truth_.call(e.call.slot);
  c.generated += e.generated;
  ++c.epoch;
  OpenTruth& w = truth_.workflow(c.open);
  --w.inFlight;
  ++result_.evictions;
  if (over(e.call.slot) && w.aborted && w.inFlight == 0) ended_.push_back(c.open);
}

void Driver::callFinished(std::uint32_t slot, Nanos t) {
  const CallTruth& call = truth_.call(slot);
  check(scheduler_.finished(t, {attempt(slot), trace_.columns().outputTokens[call.row] - call.generated}));
  if (outputs_.finishedMs != nullptr) outputs_.finishedMs[call.row] = toMs(t);
  ++result_.calls;
  --truth_.workflow(call.open).inFlight;
  callEnded(slot, t);
}

/// Lease mode: the call outgrew the engine's whole KV cache.
void Driver::callOverflowed(std::uint32_t slot, Nanos t) {
  check(scheduler_.failed(t, {attempt(slot), FailureClass::kFault, Leg::kUnified, 0, 0, 0, 0}));
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
      check(scheduler_.toolDone(t, {{c, truth_.call(c.slot).epoch}}));
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
    const std::int16_t stages = cluster_.templates.empty() ? -1 : 0;
    check(scheduler_.openWorkflow(t, {w.ref, tenant, stages, 0, slo_.deadline(w.workflow, t), -1}));
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
  check(scheduler_.reveal(t, r, parents_));
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
    check(scheduler_.closeWorkflow(t, {w.ref}));
    if (!w.aborted) {
      metrics_.completed(w.workflow, w.arrival, t);
      if (outputs_.control != nullptr)
        std::atomic_ref(outputs_.control[1]).fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (!w.aborted || w.inFlight == 0) truth_.close(index);
}

/// Engines whose queue or ledger changed report their exact capacity at a boundary: now, or when they reach
/// it.
void Driver::reportBoundaries(Nanos t) {
  const auto report = [&](std::uint32_t m, const Engine& engine) {
    check(scheduler_.capacity(t, {m, engine.sequencesFree(), engine.kvFree(), engine.prefillFree(), 1}));
  };
  for (const std::uint32_t m : scheduler_.touched()) {
    Engine& engine = engines_[m];
    if (engine.idle() || engine.wakePending())
      continue;  // the scheduler knows an empty ledger; a wake lies ahead
    if (engine.atBoundaryOrWake(t))
      report(m, engine);
    else
      engineNext_.set(m, engine.next());
  }
  if (options_.binding == Binding::kAtReveal) return;
  // A lease from a shared queue touches the others while the decision is made, so every engine at a boundary
  // reports.
  for (std::uint32_t m = 0; m < engines_.size(); ++m) {
    Engine& engine = engines_[m];
    if (scheduler_.cluster().at(m).touched || engine.idle() || !engine.standsAt(t)) continue;
    if (engine.atBoundaryOrWake(t)) report(m, engine);
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
    ++w.inFlight;
    const Call& call = scheduler_.graph().call(d.call.slot);
    engines_[d.instance].lease({d.call.slot, call.promptTokens, columns.outputTokens[c.row] - c.generated,
                                call.predictedTokens, call.cost.kv});
    if (std::find(due_.begin(), due_.end(), d.instance) == due_.end()) due_.push_back(d.instance);
    if (outputs_.instance != nullptr) outputs_.instance[c.row] = static_cast<std::uint16_t>(d.instance);
    if (outputs_.leasedMs != nullptr && c.epoch == 0) outputs_.leasedMs[c.row] = toMs(t);
  }
}

void Driver::lawsHold() {
  if (!scheduler_.audit()) check(Status::kLawBroken);
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

Status simulate(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                const RunOutputs& outputs, RunResult* result, Workspace* workspace) {
  const Status arrivals = Arrivals::check(options.arrivals);
  if (!ok(arrivals)) return arrivals;
  const std::uint32_t calls = trace.columns().calls;
  for (double* column : {outputs.readyMs, outputs.leasedMs, outputs.firstTokenMs, outputs.finishedMs}) {
    if (column != nullptr) std::fill_n(column, calls, std::numeric_limits<double>::quiet_NaN());
  }
  if (outputs.instance != nullptr) std::fill_n(outputs.instance, calls, std::uint16_t{0xffff});
  if (options.compat == Compat::kHexgenTicks)
    return HexgenClock(trace, cluster, options, outputs).run(result);
  if (workspace != nullptr) return Driver(trace, cluster, options, outputs, workspace->memory()).run(result);
  WorkspaceMemory memory;
  return Driver(trace, cluster, options, outputs, memory).run(result);
}

}  // namespace laxity
