// What engines report, told to the scheduler and to the truth.
#include <cmath>

#include "simulator/driver.h"

namespace laxity {

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

}  // namespace laxity
