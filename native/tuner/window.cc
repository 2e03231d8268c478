#include "tuner/window.h"

#include <algorithm>

namespace laxity {

const WindowWorkflow* Window::observe(const EventRecord& record) {
  const Nanos t = record.header.t;
  switch (record.header.kind) {
    case EventKind::kOpenWorkflow:
      opened(t, record.openWorkflow);
      break;
    case EventKind::kUpdateWorkflow: {
      const UpdateWorkflow& e = record.updateWorkflow;
      if (e.workflow.slot < open_.size() && open_[e.workflow.slot].ref == e.workflow && e.deadline >= 0) {
        WindowWorkflow& w = open_[e.workflow.slot];
        w.allowed = e.deadline == kNever ? -1 : std::max<Nanos>(1, e.deadline - w.arrival);
      }
      break;
    }
    case EventKind::kMoreParents:
      moreParents_.insert(
          moreParents_.end(), record.moreParents.parents,
          record.moreParents.parents + std::min<std::size_t>(record.moreParents.count, kMoreParents));
      break;
    case EventKind::kReveal:
      revealed(t, record.reveal);
      moreParents_.clear();
      break;
    case EventKind::kToolDone:
      if (SeenCall* c = find(record.call.attempt.call); c != nullptr && c->toolPending) {
        WindowWorkflow& w = open_[c->workflow];
        WindowCall& call = w.calls[c->local];
        Nanos base = w.arrival;
        for (std::uint32_t i = 0; i < call.parentCount; ++i)
          base = std::max(base, w.calls[w.parents[call.firstParent + i]].finishedAt);
        call.gap = t - base;
        c->toolPending = false;
      }
      break;
    case EventKind::kEvicted:
      if (SeenCall* c = find(record.evicted.attempt.call); c != nullptr) {
        c->generated += record.evicted.generated;
      }
      break;
    case EventKind::kFinished:
      if (SeenCall* c = find(record.finished.attempt.call); c != nullptr) {
        const std::uint32_t reported = record.finished.outputTokens;
        const std::uint32_t predicted = open_[c->workflow].calls[c->local].predictedTokens;
        ended(record.finished.attempt.call, t, c->generated + (reported > 0 ? reported : predicted));
      }
      break;
    case EventKind::kCancel:
      ended(record.call.attempt.call, t, 0);
      break;
    case EventKind::kDecision:
      if (record.decision.kind == DecisionKind::kReject) ended(record.decision.call, t, 0);
      break;
    case EventKind::kCloseWorkflow:
      return closed(record.closeWorkflow.workflow);
    default:
      break;
  }
  return nullptr;
}

void Window::opened(Nanos t, const OpenWorkflow& e) {
  const std::uint32_t slot = e.workflow.slot;
  if (slot >= open_.size()) {
    WindowWorkflow none;
    none.ref = {kNoSlot, 0};
    open_.resize(std::size_t{slot} + 1, none);
    named_.resize(open_.size());
  }
  for (const Ref& c : named_[slot]) {
    if (SeenCall* call = find(c)) call->live = false;
  }
  named_[slot].clear();
  WindowWorkflow& w = open_[slot];
  w = WindowWorkflow{};
  w.ref = e.workflow;
  w.tenant = e.tenant;
  w.stageTemplate = e.stageTemplate;
  w.arrival = w.lastFinish = t;
  w.allowed = e.deadline == kNever || e.deadline <= t ? -1 : e.deadline - t;
  arrivals_.push_back(t);
}

void Window::revealed(Nanos t, const Reveal& e) {
  const std::uint32_t slot = e.workflow.slot;
  if (slot >= open_.size() || !(open_[slot].ref == e.workflow)) return;
  WindowWorkflow& w = open_[slot];
  WindowCall call;
  call.stage = e.stage;
  call.model = e.model;
  call.promptTokens = e.promptTokens;
  call.predictedTokens = e.predictedTokens > 0 ? e.predictedTokens : 256;
  for (const CachedPrefix& held : e.cached) {
    if (held.instance != kNoSlot && held.tokens < e.promptTokens)
      call.cachedTokens = std::max(call.cachedTokens, held.tokens);
  }
  call.firstParent = static_cast<std::uint32_t>(w.parents.size());
  Nanos base = w.arrival;
  const auto parent = [&](SeenCall& p) {
    p.hasChild = true;
    w.parents.push_back(p.local);
    base = std::max(base, w.calls[p.local].finishedAt);
  };
  if (e.frontier != 0) {  // every finished call without a child
    for (const Ref& c : named_[slot]) {
      if (SeenCall* p = find(c); p != nullptr && !p->hasChild && w.calls[p->local].finishedAt >= 0)
        parent(*p);
    }
  } else {
    for (const Ref& c : moreParents_) {
      if (SeenCall* p = find(c); p != nullptr && p->workflow == slot) parent(*p);
    }
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(e.parentCount, kInlineParents); ++i) {
      if (SeenCall* p = find(e.parents[i]); p != nullptr && p->workflow == slot) parent(*p);
    }
  }
  call.parentCount = static_cast<std::uint32_t>(w.parents.size()) - call.firstParent;
  bool waits = false;
  for (std::uint32_t i = 0; i < call.parentCount; ++i)
    waits |= w.calls[w.parents[call.firstParent + i]].finishedAt < 0;
  // Revealed early, the gap is known only at toolDone.
  call.gap = waits || e.toolPending != 0 ? 0 : t - base;
  if (e.call.slot >= calls_.size()) calls_.resize(std::size_t{e.call.slot} + 1);
  SeenCall& seen = calls_[e.call.slot];
  seen = SeenCall{};
  seen.generation = e.call.generation;
  seen.workflow = slot;
  seen.local = static_cast<std::uint32_t>(w.calls.size());
  seen.live = true;
  seen.toolPending = e.toolPending != 0;
  w.calls.push_back(call);
  ++w.unfinished;
  named_[slot].push_back(e.call);
}

void Window::ended(const Ref& call, Nanos t, std::uint32_t outputTokens) {
  SeenCall* c = find(call);
  if (c == nullptr) return;
  WindowWorkflow& w = open_[c->workflow];
  WindowCall& record = w.calls[c->local];
  if (record.finishedAt >= 0) return;
  record.finishedAt = t;
  record.outputTokens = outputTokens;
  --w.unfinished;
  if (outputTokens == 0) w.lost = true;
  w.lastFinish = t;
}

const WindowWorkflow* Window::closed(const Ref& workflow) {
  if (workflow.slot >= open_.size() || !(open_[workflow.slot].ref == workflow)) return nullptr;
  WindowWorkflow& w = open_[workflow.slot];
  const bool complete = w.unfinished == 0 && !w.lost && !w.calls.empty();
  if (complete) complete_.push_back(std::move(w));
  w = WindowWorkflow{};
  w.ref = {kNoSlot, 0};
  for (const Ref& c : named_[workflow.slot]) {
    if (SeenCall* call = find(c)) call->live = false;
  }
  named_[workflow.slot].clear();
  return complete ? &complete_.back() : nullptr;
}

void Window::expire(Nanos t) {
  while (!complete_.empty() && complete_.front().lastFinish < t - length_) complete_.pop_front();
  while (!arrivals_.empty() && arrivals_.front() < t - length_) arrivals_.pop_front();
}

}  // namespace laxity
