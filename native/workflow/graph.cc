#include "workflow/graph.h"

#include <algorithm>

namespace laxity {
namespace {

const Call kFreshCall{};  // copied, since filling in a record of this size field by field costs more

}  // namespace

void Graph::clear() {
  workflows_.clear();
  calls_.clear();
  edges_.clear();
  freeEdge_ = kNoSlot;
  sequence_ = 0;
}

Status Graph::open(Ref w, std::uint16_t tenant, Nanos t) {
  if (w.slot > workflows_.size() || w.slot == kNoSlot) return Status::kSlotOutOfRange;
  if (w.slot == workflows_.size()) {
    workflows_.emplace_back();
  } else if (workflows_[w.slot].live) {
    return Status::kSlotInUse;
  } else if (w.generation <= workflows_[w.slot].generation) {
    return Status::kStale;
  }
  Workflow& record = workflows_[w.slot];
  record = Workflow{};
  record.generation = w.generation;
  record.open = record.live = true;
  record.tenant = tenant;
  record.arrival = t;
  record.sequence = sequence_++;
  return Status::kOk;
}

Status Graph::reveal(Ref c, Ref w, std::span<const Ref> parents, bool frontier, Nanos t) {
  Workflow& owner = workflows_[w.slot];
  if (!owner.open) return Status::kWorkflowClosed;
  if (owner.revealed >= kMaxCallsPerWorkflow) return Status::kTooManyCalls;
  if (c.slot > calls_.size() || c.slot == kNoSlot) return Status::kSlotOutOfRange;
  if (c.slot < calls_.size()) {
    if (calls_[c.slot].state != CallState::kFree) return Status::kSlotInUse;
    if (c.generation <= calls_[c.slot].generation) return Status::kStale;
  }
  for (const Ref& p : parents) {
    if (!ok(findCall(p)) || calls_[p.slot].workflow != w.slot) return Status::kUnknownParent;
  }

  if (c.slot == calls_.size()) calls_.emplace_back();
  Call& call = calls_[c.slot];
  call = kFreshCall;
  call.generation = c.generation;
  call.state = CallState::kRevealed;
  call.workflow = w.slot;
  call.rank = owner.sequence << 24 | owner.revealed;
  call.revealedAt = t;
  ++owner.revealed;
  ++owner.unfinished;

  if (frontier) {
    for (std::uint32_t p = owner.firstFrontier; p != kNoSlot; p = calls_[p].next) link(p, c.slot);
  } else {
    for (const Ref& p : parents) link(p.slot, c.slot);
  }

  owner.depth = std::max(owner.depth, call.depth);
  call.previous = owner.lastUnfinished;
  if (owner.lastUnfinished != kNoSlot)
    calls_[owner.lastUnfinished].next = c.slot;
  else
    owner.firstUnfinished = c.slot;
  owner.lastUnfinished = c.slot;
  call.nextRevealed = owner.firstRevealed;
  owner.firstRevealed = c.slot;
  return Status::kOk;
}

void Graph::link(std::uint32_t parent, std::uint32_t child) {
  Call& c = calls_[child];
  Call& p = calls_[parent];
  if (c.parent[0] == kNoSlot)
    c.parent[0] = parent;
  else if (c.parent[1] == kNoSlot)
    c.parent[1] = parent;
  else
    c.parents = newEdge(parent, c.parents);
  c.depth = std::max(c.depth, p.depth + 1);
  if (p.state == CallState::kDone) return;
  ++c.pendingParents;
  if (terminal(p.state)) return;  // it will never finish: the child waits until its workflow is closed
  const std::uint32_t edge = newEdge(child, kNoSlot);
  if (p.lastChild != kNoSlot)
    edges_[p.lastChild].next = edge;
  else
    p.firstChild = edge;
  p.lastChild = edge;
}

void Graph::finish(std::uint32_t slot, CallState state, Nanos t, std::vector<std::uint32_t>* released) {
  Call& c = calls_[slot];
  Workflow& w = workflows_[c.workflow];
  c.state = state;
  c.finishedAt = t;
  --w.unfinished;

  if (c.previous != kNoSlot)
    calls_[c.previous].next = c.next;
  else
    w.firstUnfinished = c.next;
  if (c.next != kNoSlot)
    calls_[c.next].previous = c.previous;
  else
    w.lastUnfinished = c.previous;
  c.previous = c.next = kNoSlot;

  // The frontier holds the finished calls none of whose children has finished: parallel children that are
  // revealed one after the other, without parents of their own, then share it.
  // What failed, was cancelled or was rejected has not finished: it releases no child and leaves the frontier
  // as it was.
  if (state != CallState::kDone) return;
  eachParent(c, [&](std::uint32_t p) { leaveFrontier(w, p); });
  c.inFrontier = true;
  c.next = w.firstFrontier;
  if (w.firstFrontier != kNoSlot) calls_[w.firstFrontier].previous = slot;
  w.firstFrontier = slot;

  eachChild(c, [&](std::uint32_t child) {
    if (--calls_[child].pendingParents == 0) released->push_back(child);
  });
}

void Graph::leaveFrontier(Workflow& w, std::uint32_t slot) {
  Call& c = calls_[slot];
  if (!c.inFrontier) return;
  c.inFrontier = false;
  if (c.previous != kNoSlot)
    calls_[c.previous].next = c.next;
  else
    w.firstFrontier = c.next;
  if (c.next != kNoSlot) calls_[c.next].previous = c.previous;
  c.previous = c.next = kNoSlot;
}

bool Graph::freeIfOver(std::uint32_t workflowSlot) {
  Workflow& w = workflows_[workflowSlot];
  if (!w.live || w.open || w.unfinished > 0) return false;
  for (std::uint32_t slot = w.firstRevealed; slot != kNoSlot;) {
    Call& c = calls_[slot];
    freeEdges(c.parents);
    freeEdges(c.firstChild);
    c.state = CallState::kFree;
    slot = c.nextRevealed;
  }
  w.live = false;
  return true;
}

std::uint32_t Graph::newEdge(std::uint32_t call, std::uint32_t next) {
  std::uint32_t e = freeEdge_;
  if (e == kNoSlot) {
    e = static_cast<std::uint32_t>(edges_.size());
    edges_.push_back({call, next});
  } else {
    freeEdge_ = edges_[e].next;
    edges_[e] = {call, next};
  }
  return e;
}

void Graph::freeEdges(std::uint32_t head) {
  while (head != kNoSlot) {
    const std::uint32_t next = edges_[head].next;
    edges_[head].next = freeEdge_;
    freeEdge_ = head;
    head = next;
  }
}

}  // namespace laxity
