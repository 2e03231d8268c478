// Workflows that open, change, close and are over.
#include "scheduler/scheduler.h"

namespace laxity {

Status Scheduler::openWorkflow(Nanos t, const OpenWorkflow& e) {
  if (e.stageTemplate >= static_cast<std::int32_t>(templates_.size())) return Status::kBadValue;
  if (e.deadline != kNever && !validDuration(e.deadline)) return Status::kBadTime;
  if (e.remaining != -1 && !validDuration(e.remaining)) return Status::kBadTime;
  if (!validDuration(e.predictedHorizon)) return Status::kBadTime;
  if (const Status time = timeStatus(t); !ok(time)) return time;
  const Status opened = graph_.open(e.workflow, e.tenant, t);
  if (!ok(opened)) return opened;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kOpenWorkflow)) r->openWorkflow = e;
  priceTemplates();
  Workflow& w = graph_.workflow(e.workflow.slot);
  w.stageTemplate = e.stageTemplate < 0 ? -1 : e.stageTemplate;
  w.hasDeadline = e.deadline != kNever;
  w.deadline = w.hasDeadline ? e.deadline : t;
  declareHorizon(w, e.remaining, e.exactRemaining != 0, e.predictedHorizon);
  weighTenant(e.tenant, e.weight);
  return Status::kOk;
}

Status Scheduler::updateWorkflow(Nanos t, const UpdateWorkflow& e) {
  const Status found = graph_.find(e.workflow);
  if (!ok(found)) return found;
  if (e.deadline != kNever && e.deadline != -1 && !validDuration(e.deadline)) return Status::kBadTime;
  if (e.remaining != -1 && !validDuration(e.remaining)) return Status::kBadTime;
  if (!validDuration(e.predictedHorizon)) return Status::kBadTime;
  Workflow& w = graph_.workflow(e.workflow.slot);
  // The horizon that stands in for a missing deadline is only kept from the start.
  if (e.deadline == kNever && w.hasDeadline && !needsHorizon_ && w.revealed > 0) return Status::kBadState;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kUpdateWorkflow)) r->updateWorkflow = e;
  if (e.deadline == kNever) {
    w.hasDeadline = false;
  } else if (e.deadline != -1) {
    w.hasDeadline = true;
    w.deadline = e.deadline;
  }
  declareHorizon(w, e.remaining, e.exactRemaining != 0, e.predictedHorizon);
  if (pairs_ != nullptr) rekeyPlan(w);
  if (rules_.any) liveDeadline(e.workflow.slot);
  markDirty(e.workflow.slot);
  return Status::kOk;
}

Status Scheduler::closeWorkflow(Nanos t, const CloseWorkflow& e) {
  const Status found = graph_.find(e.workflow);
  if (!ok(found)) return found;
  if (!graph_.workflow(e.workflow.slot).open) return Status::kWorkflowClosed;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kCloseWorkflow)) r->closeWorkflow = e;
  Workflow& w = graph_.workflow(e.workflow.slot);
  w.open = false;
  // What has not been leased will not be needed; what has been leased still ends on its own.
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot;) {
    const std::uint32_t next = graph_.call(slot).next;
    if (!leased(graph_.call(slot).state)) end(slot, CallState::kCancelled);
    slot = next;
  }
  settle(e.workflow.slot);
  return Status::kOk;
}

/// Frees a closed workflow with its last call.
void Scheduler::settle(std::uint32_t workflow) {
  Workflow& w = graph_.workflow(workflow);
  if (!w.live || w.open || w.unfinished > 0) return;
  if (countsWorkflows_ || horizonRules_.structural || horizonRules_.predictor || w.predictedHorizon > 0)
    workflowFinished(w);
  if (w.stageTemplate >= 0 && config_.templates[static_cast<std::size_t>(w.stageTemplate)].empty())
    learnTemplate(w);
  horizons_.close(w);
  if (graph_.freeIfOver(workflow) && freed_ != nullptr) freed_->push_back(workflow);
}

}  // namespace laxity
