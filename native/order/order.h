// The contract of a queue order: which waiting call next.
//
// An order is a type with
//   kName          its registered name
//   kDynamic       false: `key` depends on nothing that changes with time, so the queue is a heap of issued
//   keys, and a
//                  key is issued again only when one of its inputs changes; true: `key` is evaluated at every
//                  pick
//   kNeedsBudget   the workflow's deadline, tails and critical path and the call's budget are kept up to date
//   for it
//   kNeedsHorizon  H_w(t) is kept for every workflow
//   kNeedsDelta    the projection Delta (CONTRACT 10) is computed for the view; then also
//                  projected(view) -> ProjectedKey, the same key for planners; it reads no delta
//   key(view)      Nanos for static orders; for dynamic ones double, or any type with > and == (vtc.h). The
//                  larger goes first. A type of its own shows its first component to views: leading().
// Ties are not its business: equal keys go by (arrival, workflow sequence, reveal sequence), which `rank`
// encodes. Ageing (ageing.h) is laid over every order and is not its business either.
//
// An order is an object that the scheduler owns; it may keep state. What it may add, found at compile time:
//   kNeedsWholePath = true           Workflow::wholePath and templateTime are kept up to date (stretch.h)
//   prepare(queue) const             before the keys of one queue are compared; `queue` has each(visit) over
//                                    the views of its waiting calls, slots() and now() (qlm.h)
//   observe(observation, call, workflow, parameters)  what happens to a call, see CallStep (vtc.h)
//   kObservesService = true          Observation::served is computed for it (attained_service.h)
//   workflowFinished(workflow, finishedAt) -> bool      every call of a closed workflow is done; true: issue
//                                    every key again (edf_alpha.h)
//
// Worked example: under `fcfs` a call that became ready at 5 ms has key -5,000,000, one ready at 7 ms has
// -7,000,000; the first is larger and goes first, however long both wait.
#pragma once

#include "workflow/graph.h"
#include "workflow/parameters.h"

namespace laxity {

/// All that an order may know of one waiting call.
struct OrderView {
  const Call& call;
  const Workflow& workflow;
  const PolicyParameters& parameters;
  Nanos now;
  Nanos exec;   ///< t_comp on the instance whose queue it is; in a shared queue the mean over the instances
  Nanos delta;  ///< projected finish minus now
  /// F: a lower estimate of the standalone time that the workflow needs beyond the call or the revealed part;
  /// 0 without one. Only for orders with kNeedsDelta.
  Nanos beyond = 0;
};

/// The key of an order with kNeedsDelta as a planner needs it, linear in the projected finish:
/// (finish - arrival + shift) * slope. Shifts are at most kMaxTime, negative ones at least -kMaxTime / 2;
/// slopes are in (0, 1].
struct ProjectedKey {
  double slope;
  Nanos shift;
};

/// rem: mean time of the longest path from the call on, the call included, with what is expected beyond the
/// revealed part. Needs kNeedsBudget.
inline Nanos remainingFrom(const OrderView& v) { return v.call.mean + v.call.below; }

enum class CallStep : std::uint8_t {
  kReady,      ///< begins to wait, also after a lost attempt
  kWithdrawn,  ///< ends while it waits
  kLeased,     ///< waits no more
  kServed,     ///< the attempt is over, `tokens` output tokens per sequence are known to be generated
  kReturned,   ///< the attempt is lost, the call will wait again
};

struct Observation {
  CallStep step;
  Nanos at;
  std::uint32_t tokens;  ///< kServed: output tokens per sequence; the predicted ones where none were reported
  Nanos served;  ///< kServed: predicted prefill and decode of `tokens` alone, on the instances that served it
};

template <class Order>
constexpr bool needsWholePath() {
  if constexpr (requires { Order::kNeedsWholePath; })
    return Order::kNeedsWholePath;
  else
    return false;
}

template <class Order>
constexpr bool observes() {
  return requires(Order & o, Call & c, const Workflow& w, const PolicyParameters& p) {
           o.observe(Observation{}, c, w, p);
         };
}

template <class Order>
constexpr bool observesService() {
  if constexpr (requires { Order::kObservesService; })
    return Order::kObservesService;
  else
    return false;
}

template <class Order>
constexpr bool countsWorkflows() {
  return requires(Order & o, const Workflow& w) { o.workflowFinished(w, Nanos{0}); };
}

}  // namespace laxity
