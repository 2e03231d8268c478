// Calls that become known, and their tools that end.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

Status Scheduler::reveal(Nanos t, const Reveal& e, std::span<const Ref> parents) {
  const Status found = graph_.find(e.workflow);
  if (!ok(found)) return found;
  if (e.predictedTokens == 0 && rules_.predictLengths) {
    // A high given with it is a cap: the caller's max_tokens.
    const LengthPrediction p = live_.lengths.predict(graph_.workflow(e.workflow.slot).stageTemplate, e.stage);
    const std::uint32_t cap =
        e.predictedHigh > 0 ? e.predictedHigh : kMaxCallTokens / std::max<std::uint32_t>(1, e.sequences);
    Reveal filled = e;
    filled.predictedTokens = std::max(1u, std::min(p.mean, cap));
    filled.predictedHigh = std::max(filled.predictedTokens, std::min(p.high, cap));
    return reveal(t, filled, parents);
  }
  if (e.adapter > kMaxAdapters) return Status::kBadValue;
  if (e.promptTokens < 1 || e.promptTokens > kMaxCallTokens || e.predictedTokens < 1 ||
      e.predictedTokens > kMaxCallTokens || e.predictedHigh > kMaxCallTokens || e.sequences < 1) {
    return Status::kBadTokens;
  }
  if (e.sequences > 1 && std::uint64_t{e.sequences} * e.predictedTokens > kMaxCallTokens)
    return Status::kBadTokens;
  for (const CachedPrefix& cached : e.cached) {
    if (cached.instance != kNoSlot && (cached.tokens >= e.promptTokens || !cluster_.known(cached.instance))) {
      return Status::kBadTokens;
    }
  }
  if (e.remaining != -1 && !validDuration(e.remaining)) return Status::kBadTime;
  if (e.frontier != 0 && !parents.empty()) return Status::kBadValue;
  if (const Status time = timeStatus(t); !ok(time)) return time;
  const Status revealed = graph_.reveal(e.call, e.workflow, parents, e.frontier != 0, t);
  if (!ok(revealed)) return revealed;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (log_ != nullptr) logReveal(t, e, parents);

  const std::uint32_t slot = e.call.slot;
  Call& c = graph_.call(slot);
  Workflow& w = graph_.workflow(c.workflow);
  if (config_.callTies == CallTies::kRevealOrder) c.rank = revealNumber_++;
  c.stage = e.stage;
  c.model = e.model;
  c.adapter = static_cast<std::uint8_t>(e.adapter);
  c.sequences = e.sequences;
  c.toolPending = e.toolPending != 0;
  c.streams = e.silent == 0;
  c.promptTokens = e.promptTokens;
  c.predictedTokens = e.predictedTokens;
  c.predictedHigh = std::max(e.predictedHigh, e.predictedTokens);
  c.timedTokens = timedTokens(c);
  c.cached[0] = e.cached[0];
  c.cached[1] = e.cached[1];
  c.hasCached = e.cached[0].instance != kNoSlot || e.cached[1].instance != kNoSlot;
  c.remaining = e.remaining;
  c.exactRemaining = e.exactRemaining != 0;
  if (w.revealed == 1) w.kind = horizonLearner_.kind(w.stageTemplate, c.stage, c.promptTokens);
  if (rules_.any) liveRevealed(slot);
  if (pairs_ != nullptr) pairs_->grow(graph_.callSlots(), stride_);
  const bool feasible = estimateCall(slot);
  meanSum_ += c.mean;
  promptSum_ += c.promptTokens;
  ++meanCount_;

  if (tracksHorizon(w)) {
    Nanos lastFinish = -1;
    graph_.eachParent(c,
                      [&](std::uint32_t p) { lastFinish = std::max(lastFinish, graph_.call(p).finishedAt); });
    const Nanos gap = c.pendingParents == 0 && lastFinish >= 0 ? t - lastFinish : 0;
    const Nanos before = w.horizon;
    horizons_.reveal(graph_, cluster_, slot, estimates(slot), gap);
    if (pairs_ != nullptr && c.isolatedEnd > 0) {
      pairs_->isolatedDecode(slot) =
          decodeClassOf(cluster_, c.isolatedClass, c.promptTokens, pairs_->terms, pairs_->decodeAlone(slot));
    }
    horizonLearner_.revealed(w, c, horizonRules_);
    horizonMoved(c.workflow, before);
  }
  const StageTemplate* stages = templateOf(w);
  if (stages != nullptr && (w.revealed == 1 || c.depth > w.stageDepth)) {
    w.cursor = stages->advance(w.cursor, c.stage);
    w.stageDepth = c.depth;
  }
  if (c.pendingParents > 0) w.tailsStale = true;
  markDirty(c.workflow);

  if (!feasible) {
    reject(slot, impossible(slot));
    return Status::kOk;
  }
  if (c.pendingParents == 0 && !c.toolPending) becomeReady(slot);
  return Status::kOk;
}

void Scheduler::logReveal(Nanos t, const Reveal& e, std::span<const Ref> parents) {
  while (parents.size() > kInlineParents) {
    const std::size_t n = std::min(kMoreParents, parents.size() - kInlineParents);
    MoreParents more{};
    more.count = static_cast<std::uint32_t>(n);
    std::copy_n(parents.begin(), n, more.parents);
    log_->add(t, EventKind::kMoreParents).moreParents = more;
    parents = parents.subspan(n);
  }
  Reveal record = e;
  record.parentCount = static_cast<std::uint8_t>(parents.size());
  std::fill(std::begin(record.parents), std::end(record.parents), Ref{});
  std::copy(parents.begin(), parents.end(), record.parents);
  log_->add(t, EventKind::kReveal).reveal = record;
}

Status Scheduler::toolDone(Nanos t, const CallEvent& e) {
  const Status found = findAttempt(e.attempt);
  if (!ok(found)) return found;
  Call& c = graph_.call(e.attempt.call.slot);
  if (!c.toolPending) return Status::kBadState;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kToolDone)) r->call = e;
  c.toolPending = false;
  if (c.pendingParents > 0) return Status::kOk;
  if (tracksHorizon(graph_.workflow(c.workflow))) {
    Nanos parentsEnd = c.revealedAt;
    graph_.eachParent(c,
                      [&](std::uint32_t p) { parentsEnd = std::max(parentsEnd, graph_.call(p).finishedAt); });
    const Nanos before = graph_.workflow(c.workflow).horizon;
    horizons_.delay(graph_, e.attempt.call.slot, t - parentsEnd);
    horizonMoved(c.workflow, before);
  }
  becomeReady(e.attempt.call.slot);
  return Status::kOk;
}

}  // namespace laxity
