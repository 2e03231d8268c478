// Decisions carried out, and the exact capacities that engines report for them.
#include <algorithm>

#include "simulator/driver.h"

namespace laxity {
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

}  // namespace laxity
