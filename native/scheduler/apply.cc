// Events from records: what a ring or a log holds.
#include <algorithm>

#include "scheduler/batch.h"
#include "scheduler/scheduler.h"

namespace laxity {

Status Scheduler::apply(const EventRecord& record) {
  const Nanos t = record.header.t;
  switch (record.header.kind) {
    case EventKind::kInstance:
      return instance(t, record.instance);
    case EventKind::kFirstToken:
      return firstToken(t, record.call);
    case EventKind::kProgress:
      return progress(t, record.progress);
    case EventKind::kTransferDone:
      return transferDone(t, record.call);
    case EventKind::kEvicted:
      return evicted(t, record.evicted);
    case EventKind::kFinished:
      return finished(t, record.finished);
    case EventKind::kFailed:
      return failed(t, record.failed);
    case EventKind::kOpenWorkflow:
      return openWorkflow(t, record.openWorkflow);
    case EventKind::kUpdateWorkflow:
      return updateWorkflow(t, record.updateWorkflow);
    case EventKind::kMoreParents: {
      const MoreParents& more = record.moreParents;
      if (more.count > kMoreParents || moreParents_.size() + more.count > kMaxCallsPerWorkflow)
        return Status::kBadLog;
      moreParents_.insert(moreParents_.end(), more.parents, more.parents + more.count);
      return Status::kOk;
    }
    case EventKind::kReveal: {
      const Reveal& e = record.reveal;
      std::vector<Ref> parents;
      parents.swap(moreParents_);
      if (e.parentCount > kInlineParents) return Status::kBadLog;
      parents.insert(parents.end(), e.parents, e.parents + e.parentCount);
      const Status status = reveal(t, e, parents);
      parents.clear();
      moreParents_.swap(parents);  // keeps its capacity
      return status;
    }
    case EventKind::kToolDone:
      return toolDone(t, record.call);
    case EventKind::kCancel:
      return cancel(t, record.call);
    case EventKind::kCloseWorkflow:
      return closeWorkflow(t, record.closeWorkflow);
    case EventKind::kSetParameter:
      return setParameter(t, record.setParameter);
    case EventKind::kPlanArrived:
      return planArrived(t);
    case EventKind::kCapacity:
      return capacity(t, record.capacity);
    case EventKind::kTimer:
      return timer(t);
    case EventKind::kSetLatency:
      return setLatency(t, record.setLatency);
    case EventKind::kTelemetry:
      return telemetry(t, record.telemetry);
    case EventKind::kSetPolicy:
      return setPolicy(t, record.setPolicy);
    case EventKind::kDecide:
    case EventKind::kDecision:
      break;
  }
  return Status::kBadLog;
}

void orderBatch(std::span<const EventRecord> batch, std::vector<BatchPlace>* places) {
  // Parents travel in front of their reveal, so both share its class.
  const auto rank = [](const EventRecord& r) {
    switch (r.header.kind) {
      case EventKind::kMoreParents:
        return EventKind::kReveal;
      case EventKind::kSetLatency:
        return EventKind::kInstance;
      case EventKind::kTelemetry:
        return EventKind::kCapacity;
      case EventKind::kSetPolicy:
        return EventKind::kSetParameter;
      default:
        return r.header.kind;
    }
  };
  places->clear();
  for (std::uint32_t i = 0; i < batch.size(); ++i)
    places->push_back({batch[i].header.t, static_cast<std::uint32_t>(rank(batch[i])), i});
  std::sort(places->begin(), places->end(), [](const BatchPlace& a, const BatchPlace& b) {
    if (a.t != b.t) return a.t < b.t;
    return a.rank != b.rank ? a.rank < b.rank : a.index < b.index;
  });
}

}  // namespace laxity
