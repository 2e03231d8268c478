// The contract of a queue order: which waiting call next.
//
// An order is a type with
//   kName          its registered name
//   kDynamic       false: `key` depends on nothing that changes with time, so the queue is a heap of issued
//   keys, and a
//                  key is issued again only when one of its inputs changes; true: `key` is evaluated at every
//                  pick
//   kNeedsBudget   the workflow's tails, critical path and budgets are kept up to date for it
//   kNeedsHorizon  H_w(t) is kept for every workflow
//   kNeedsDelta    the projection Delta (CONTRACT 10) is computed for the view
//   key(view)      Nanos for static orders, double for dynamic ones; the larger goes first
// Ties are not its business: equal keys go by (arrival, workflow sequence, reveal sequence), which `rank`
// encodes.
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
};

}  // namespace laxity
