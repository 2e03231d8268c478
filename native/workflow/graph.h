// The online graph: open workflows, the calls revealed so far, who waits for whom.
//
// Slots and generations are chosen by the driver; the graph checks them. A call's record lives until its
// workflow is closed and has no unfinished call, because children, the frontier and the horizon refer to
// finished calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "cluster/instance.h"

namespace laxity {

/// The life of a call (CONTRACT 2). Only the scheduler moves it up to kPrefilling; only events move it
/// further.
enum class CallState : std::uint8_t {
  kFree,          ///< no call
  kRevealed,      ///< waits for parents or a tool
  kReady,         ///< ready, not placed yet
  kWaiting,       ///< in a queue; at-reveal: softly assigned to `instance`
  kPrefilling,    ///< leased, no first token yet
  kTransferring,  ///< prefill-decode: KV on its way
  kWaitDecode,    ///< prefill-decode: waits for room on the decode instance
  kDecoding,
  kDone,
  kFailed,
  kCancelled,
  kRejected,
};

constexpr bool terminal(CallState s) { return s >= CallState::kDone; }
constexpr bool leased(CallState s) { return s >= CallState::kPrefilling && s <= CallState::kDecoding; }

struct CachedPrefix {
  std::uint32_t instance = kNoSlot;
  std::uint32_t tokens = 0;
  std::uint32_t loadUs = 0;  ///< time until they are in GPU memory, microseconds
};

/// What `plas` and `atlas` keep of a call (order/attained_service.h).
struct Attained {
  Nanos before = 0;      ///< service of the workflow when the call began to wait
  Nanos promotedAt = 0;  ///< from then on it belongs to the first level
  Nanos wait = 0;        ///< while it waits: since when; after its lease: for how long
};

struct Call {
  std::uint32_t generation = 0;
  std::uint32_t epoch = 0;  ///< dispatch attempt, from 0
  CallState state = CallState::kFree;
  bool toolPending = false;
  bool streams = true;       ///< its first token will be reported
  std::uint8_t retries = 0;  ///< re-dispatches after failures so far
  std::uint16_t stage = 0;
  std::uint16_t model = 0;
  std::uint16_t sequences = 1;
  std::uint8_t adapter = 0;     ///< 0 = the model itself
  bool demoted = false;         ///< hopeless: behind every call that is not (scheduler/admission.cc)
  bool exactRemaining = false;  ///< `remaining` is exact, else a lower estimate
  std::uint32_t workflow = kNoSlot;
  std::uint64_t rank = 0;  ///< (workflow sequence, reveal sequence): the tail of every tie (CONTRACT 7)
  std::uint32_t promptTokens = 0;     ///< to prefill; grows by what was generated before an eviction
  std::uint32_t predictedTokens = 0;  ///< output still expected, mean
  std::uint32_t predictedHigh = 0;    ///< the same, a high quantile
  std::uint32_t timedTokens = 0;      ///< what t_comp, means and horizons are computed with: between the two
  bool hasCached = false;
  CachedPrefix cached[2];
  std::uint32_t depth = 0;  ///< 1 + the largest depth of a parent
  std::uint32_t pendingParents = 0;
  Nanos revealedAt = 0;
  Nanos readyAt = 0;
  Nanos finishedAt = 0;
  Nanos remaining = -1;   ///< declared remaining time after this call, -1 = none
  Nanos mean = 0;         ///< ebar: t_comp averaged over the instances
  Nanos tail = 0;         ///< longest mean-time path strictly below, among revealed unfinished calls
  Nanos below = 0;        ///< tail with what is expected beyond the revealed part; set with the budget
  Nanos budget = 0;       ///< t_SLO
  Nanos head = 0;         ///< longest mean-time path that ends with this call; kept for `stretch` alone
  Nanos isolatedEnd = 0;  ///< horizon: finish on the idle cluster, from the workflow's arrival
  std::uint32_t isolatedClass = 0;
  std::uint32_t instance = kNoSlot;  ///< assigned or leased
  std::uint32_t heapPosition = 0;
  /// What the tenant was charged for the present attempt (order/vtc.h).
  std::int64_t charged = 0;
  Attained attained;
  CallCost cost;                                 ///< on `instance`
  std::uint32_t parent[2] = {kNoSlot, kNoSlot};  ///< the first two parents
  std::uint32_t parents = kNoSlot;               ///< edge lists: further parents, unfinished children
  std::uint32_t firstChild = kNoSlot;
  std::uint32_t lastChild = kNoSlot;
  std::uint32_t previous = kNoSlot;  ///< in the workflow's list of unfinished calls, or in its frontier
  std::uint32_t next = kNoSlot;
  bool inFrontier = false;
  std::uint32_t nextRevealed = kNoSlot;   ///< all calls of the workflow
  std::uint32_t previousLease = kNoSlot;  ///< the leases of `instance`
  std::uint32_t nextLease = kNoSlot;
};

/// What the first call of a workflow shows: finished ones of one kind stand for those under way
/// (horizon_learner.h).
struct WorkflowKind {
  std::uint16_t index = 0xffff;   ///< of (template, stage of the first call); 0xffff = none
  std::uint8_t promptOctave = 0;  ///< of the first call's prompt
};

struct Workflow {
  std::uint32_t generation = 0;
  bool open = false;   ///< may still reveal calls
  bool live = false;   ///< has a record: open, or closed with unfinished calls
  bool dirty = false;  ///< tails, critical path or deadline changed since keys were issued
  bool hasDeadline = false;
  bool tailsStale = false;
  bool sacrificed = false;  ///< behind the others (scheduler/sacrifice.h)
  std::uint16_t tenant = 0;
  std::int32_t stageTemplate = -1;
  std::uint32_t cursor = 0;      ///< into the template
  std::uint32_t stageDepth = 0;  ///< depth of the latest stage: siblings do not move the cursor again
  std::uint64_t sequence = 0;
  std::uint32_t revealed = 0;
  std::uint32_t unfinished = 0;
  std::uint32_t depth = 0;  ///< largest of its calls
  WorkflowKind kind;
  Nanos arrival = 0;
  Nanos deadline = 0;                      ///< given, or arrival + k * H
  Nanos remaining = -1;                    ///< declared remaining time of the unrevealed part, -1 = none
  Nanos declaredHorizon = -1;              ///< H when that was declared, plus it; -1 = none
  bool exactHorizon = false;               ///< it is exact, else a lower estimate
  Nanos learntHorizon = 0;                 ///< of the calls revealed so far (horizon_learner.h)
  Nanos predictedHorizon = 0;              ///< the final horizon by a predictor from outside, 0 = none
  Nanos size = 0;                          ///< H + F when it was first looked at (scheduler/sacrifice.h)
  Nanos criticalPath = 0;                  ///< P
  Nanos finishedHead = 0;                  ///< largest head among finished calls
  Nanos wholePath = 0;                     ///< X (order/stretch.h)
  Nanos templateTime = 0;                  ///< B (order/stretch.h), 0 where deadlines are no multiples of it
  Nanos horizon = 0;                       ///< H_w(t)
  Nanos finishedEnd = 0;                   ///< largest isolatedEnd among finished calls
  std::uint32_t isolatedCopies = kNoSlot;  ///< horizon.h
  std::uint32_t firstUnfinished = kNoSlot;
  std::uint32_t lastUnfinished = kNoSlot;
  std::uint32_t firstFrontier = kNoSlot;
  std::uint32_t firstRevealed = kNoSlot;
};

inline constexpr std::uint32_t kMaxCallsPerWorkflow = 1u << 24;

class Graph {
 public:
  /// Forgets everything, keeps the memory.
  void clear();

  Status open(Ref w, std::uint16_t tenant, Nanos t);

  /// Finds a live workflow.
  Status find(Ref w) const {
    if (w.slot >= workflows_.size()) return Status::kUnknownWorkflow;
    const Workflow& record = workflows_[w.slot];
    if (record.generation == w.generation) return record.live ? Status::kOk : Status::kStale;
    return w.generation < record.generation ? Status::kStale : Status::kUnknownWorkflow;
  }
  /// Finds a call that is not free.
  Status findCall(Ref c) const {
    if (c.slot >= calls_.size()) return Status::kUnknownCall;
    const Call& record = calls_[c.slot];
    if (record.generation == c.generation)
      return record.state == CallState::kFree ? Status::kStale : Status::kOk;
    return c.generation < record.generation ? Status::kStale : Status::kUnknownCall;
  }

  Workflow& workflow(std::uint32_t slot) { return workflows_[slot]; }
  const Workflow& workflow(std::uint32_t slot) const { return workflows_[slot]; }
  Call& call(std::uint32_t slot) { return calls_[slot]; }
  const Call& call(std::uint32_t slot) const { return calls_[slot]; }
  Ref ref(std::uint32_t callSlot) const { return {callSlot, calls_[callSlot].generation}; }
  std::size_t callSlots() const { return calls_.size(); }
  std::size_t workflowSlots() const { return workflows_.size(); }
  /// Derived, O(slots): for tests and snapshots.
  std::uint32_t liveWorkflows() const {
    std::uint32_t live = 0;
    for (const Workflow& w : workflows_) live += w.live ? 1 : 0;
    return live;
  }

  /// Checks everything before it changes anything. The caller has checked that `w` is live.
  Status reveal(Ref c, Ref w, std::span<const Ref> parents, bool frontier, Nanos t);

  /// Moves a call into a terminal state; kDone lists the children it made ready-but-for-tools, in reveal
  /// order.
  void finish(std::uint32_t slot, CallState state, Nanos t, std::vector<std::uint32_t>* released);

  /// Frees the records of a closed workflow without unfinished calls.
  bool freeIfOver(std::uint32_t workflowSlot);

  template <class Visit>
  void eachParent(const Call& c, Visit&& visit) const {
    if (c.parent[0] == kNoSlot) return;
    visit(c.parent[0]);
    if (c.parent[1] == kNoSlot) return;
    visit(c.parent[1]);
    for (std::uint32_t e = c.parents; e != kNoSlot; e = edges_[e].next) visit(edges_[e].call);
  }
  template <class Visit>
  void eachChild(const Call& c, Visit&& visit) const {
    for (std::uint32_t e = c.firstChild; e != kNoSlot; e = edges_[e].next) visit(edges_[e].call);
  }

 private:
  struct Edge {
    std::uint32_t call;
    std::uint32_t next;
  };

  std::uint32_t newEdge(std::uint32_t call, std::uint32_t next);
  void freeEdges(std::uint32_t head);
  void link(std::uint32_t parent, std::uint32_t child);
  void leaveFrontier(Workflow& w, std::uint32_t slot);

  std::vector<Workflow> workflows_;
  std::vector<Call> calls_;
  std::vector<Edge> edges_;
  std::uint32_t freeEdge_ = kNoSlot;
  std::uint64_t sequence_ = 0;
};

}  // namespace laxity
