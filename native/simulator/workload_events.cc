// The workload: workflows that arrive and end, calls that are revealed, tools that run before them.
#include <algorithm>
#include <atomic>
#include <limits>

#include "simulator/driver.h"

namespace laxity {

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

}  // namespace laxity
