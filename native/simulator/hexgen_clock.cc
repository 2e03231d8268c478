#include "simulator/hexgen_clock.h"

#include <algorithm>

#include "simulator/tenants.h"

namespace laxity {

HexgenClock::HexgenClock(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                         const RunOutputs& outputs)
    : trace_(trace),
      cluster_(cluster),
      options_(options),
      outputs_(outputs),
      scheduler_(schedulerConfig(cluster, options)),
      slo_(trace, cluster, options),
      truth_(trace),
      metrics_(trace.columns().workflows),
      indexOf_(trace.columns().workflows, kNoSlot) {
  scheduler_.setLog(outputs.log);
}

Status HexgenClock::run(RunResult* result) {
  machines_.resize(cluster_.instances.size());
  for (std::uint32_t m = 0; m < machines_.size(); ++m) {
    const Status added = scheduler_.instance(0, {m, InstanceChange::kAdd, cluster_.instances[m]});
    if (!ok(added)) return added;
  }
  slo_.price(scheduler_.cluster(), aloneTimes_);
  const TraceColumns& c = trace_.columns();
  Arrivals arrivals(options_.arrivals);
  for (std::uint32_t w = 0; w < c.workflows; ++w) {
    arrival_.push_back(arrivals.next());
    metrics_.arrived(w, arrival_[w], slo_.base(w));
    for (std::uint32_t row = c.firstCall[w]; row < c.firstCall[w + 1]; ++row) {
      if (c.parentOffset[row] == c.parentOffset[row + 1]) pending_.push_back({w, kNoSlot, row, arrival_[w]});
    }
  }

  while (ok(status_)) {
    Nanos busy = kNever;
    for (const Machine& m : machines_) {
      if (!m.idle()) busy = std::min(busy, m.time);
    }
    for (const Pending& p : pending_) busy = std::min(busy, p.release);
    if (busy == kNever) break;
    for (Machine& m : machines_) {
      if (m.idle() && m.time < busy) m.time += (busy - m.time + kTick - 1) / kTick * kTick;
    }
    Nanos g = kNever;
    for (const Machine& m : machines_) g = std::min(g, m.time);
    if (g >= kMaxTime) return Status::kBadTime;
    ++result_.instants;

    for (Machine& m : machines_) {
      if (m.time <= g) deliver(m, g);
    }
    dispatch(g);
    check(scheduler_.place(g));
    for (std::uint32_t m = 0; m < machines_.size(); ++m) {
      const Machine& machine = machines_[m];
      if (machine.time > g || machine.idle()) continue;
      check(
          scheduler_.capacity(g, {m, kMaxSequences, cluster_.instances[m].kvTokens - machine.kvUsed, 1, 1}));
    }
    for (const Decision& d : scheduler_.decide(g)) {
      if (d.kind != DecisionKind::kLease) return Status::kNeverFits;
      const CallTruth& call = truth_.call(d.call.slot);
      Machine& m = machines_[d.instance];
      m.leased = true;
      m.next = {d.call.slot, c.outputTokens[call.row], scheduler_.graph().call(d.call.slot).cost.kv};
      if (outputs_.instance != nullptr) outputs_.instance[call.row] = static_cast<std::uint16_t>(d.instance);
      if (outputs_.leasedMs != nullptr) outputs_.leasedMs[call.row] = toMs(m.time);
    }
    if (scheduler_.placementFailed()) return Status::kPlacementFailed;
    for (std::uint32_t m = 0; m < machines_.size(); ++m) {
      if (machines_[m].time <= g) step(m);
    }
  }
  if (!ok(status_)) return status_;
  metrics_.summarise(outputs_, &result_);
  if (!outputs_.tenants.empty()) summariseTenants(metrics_, slo_, trace_, outputs_.tenants);
  *result = result_;
  return result_.completed == c.workflows ? Status::kOk : Status::kLawBroken;
}

void HexgenClock::deliver(Machine& m, Nanos g) {
  for (const std::uint32_t slot : m.prefilled) check(scheduler_.firstToken(g, {attempt(slot)}));
  for (const std::uint32_t slot : m.finished) {
    const CallTruth& call = truth_.call(slot);
    check(scheduler_.finished(g, {attempt(slot), trace_.columns().outputTokens[call.row]}));
    OpenTruth& w = truth_.workflow(call.open);
    if (--w.unfinished > 0) continue;
    check(scheduler_.closeWorkflow(g, {w.ref}));
    truth_.close(call.open);
  }
  m.prefilled.clear();
  m.finished.clear();
}

void HexgenClock::dispatch(Nanos g) {
  const TraceColumns& c = trace_.columns();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    Pending& p = pending_[i];
    if (p.release > g) {
      pending_[kept++] = p;
      continue;
    }
    std::uint32_t& index = indexOf_[p.workflow];
    if (index == kNoSlot) {
      index = truth_.open(p.workflow, arrival_[p.workflow]);
      const std::uint16_t tenant = c.tenant == nullptr ? 0 : c.tenant[p.workflow];
      const std::int16_t stages = cluster_.templates.empty() ? -1 : 0;
      check(scheduler_.openWorkflow(g, {truth_.workflow(index).ref, tenant, stages, 0,
                                        slo_.deadline(p.workflow, arrival_[p.workflow]), -1}));
    }
    parents_.clear();
    for (std::uint32_t e = c.parentOffset[p.row]; e < c.parentOffset[p.row + 1]; ++e) {
      // A parent whose last step goes on beyond g holds nothing back: its children were released with that
      // step.
      const Ref parent = truth_.refOf(index, truth_.firstRow(index) + c.parents[e]);
      if (scheduler_.graph().call(parent.slot).state == CallState::kDone) parents_.push_back(parent);
    }
    Reveal r{};
    r.workflow = truth_.workflow(index).ref;
    r.call = truth_.name(index, p.row);
    r.stage = c.stage[p.row];
    r.model = c.model == nullptr ? 0 : c.model[p.row];
    r.sequences = 1;
    r.promptTokens = c.promptTokens[p.row];
    r.predictedTokens = r.predictedHigh =
        c.predictedTokens == nullptr ? c.outputTokens[p.row] : c.predictedTokens[p.row];
    r.cached[0] = r.cached[1] = CachedPrefix{};
    r.remaining = -1;
    check(scheduler_.reveal(g, r, parents_));
    if (outputs_.readyMs != nullptr) outputs_.readyMs[p.row] = toMs(p.release);
  }
  pending_.resize(kept);
}

void HexgenClock::step(std::uint32_t index) {
  Machine& m = machines_[index];
  const LatencyModel& latency = cluster_.latencies[cluster_.instances[index].latency];
  if (m.leased) {
    const std::uint32_t row = truth_.call(m.next.slot).row;
    m.time += latency.prefill(trace_.columns().promptTokens[row], 0);
    if (outputs_.firstTokenMs != nullptr) outputs_.firstTokenMs[row] = toMs(m.time);
    m.kvUsed += m.next.kv;
    m.running.push_back(m.next);
    m.prefilled.push_back(m.next.slot);
    m.leased = false;
    return;
  }
  if (m.running.empty()) {
    m.time += kTick;
    return;
  }
  m.time += roundFine(latency.piece(static_cast<std::uint32_t>(m.running.size()), 0).at(0));
  std::size_t kept = 0;
  for (Decoding& d : m.running) {
    if (--d.left > 0) {
      m.running[kept++] = d;
      continue;
    }
    m.kvUsed -= d.kv;
    m.finished.push_back(d.slot);
    ended(d.slot, m.time);
  }
  m.running.resize(kept);
}

void HexgenClock::ended(std::uint32_t slot, Nanos end) {
  const CallTruth& call = truth_.call(slot);
  const OpenTruth& w = truth_.workflow(call.open);
  ++result_.calls;
  if (outputs_.finishedMs != nullptr) outputs_.finishedMs[call.row] = toMs(end);
  bool last = true;
  for (const std::uint32_t row : trace_.children(call.row)) {
    last = false;
    if (truth_.parentEnded(call.open, row)) pending_.push_back({w.workflow, call.open, row, end});
  }
  // A workflow completes with its last call; sinks may end in any order.
  if (last) metrics_.completed(w.workflow, arrival_[w.workflow], end);
}

}  // namespace laxity
