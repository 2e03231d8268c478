// HexGen-Flow's budget, generalised from chains to graphs (CONTRACT 10; papers.md eq. 5).
//
//   t_SLO(c) = (D - r) * (1 - tail(c) / P)
//
// P: longest mean-time path through the known unfinished part of the workflow; a running call counts whole.
// tail(c): longest such path strictly below c. `rest` is what is expected beyond the revealed part (a
// template's suffix or a declared remaining time); it lies below every call, so it adds to every tail and to
// P.
//
// With a margin (parameter budgetMargin) budgets aim at D - margin * (D - arrival) instead of D; budgets
// alone do, every other use of the deadline is unchanged. On a chain run on budget the sum is what is aimed
// at.
#pragma once

#include "workflow/graph.h"

namespace laxity {

/// Recomputes the tails of the unfinished calls where a reveal made them stale. O(unfinished calls + their
/// edges).
void updateTails(Graph& graph, Workflow& w);

/// tail(c), with what is expected beyond the revealed part; a time declared for this call stands in its
/// place.
inline Nanos tailOf(const Call& c, Nanos rest) {
  return c.remaining < 0 ? c.tail + rest : (c.remaining > c.tail ? c.remaining : c.tail);
}

/// P. Tails must be fresh. O(unfinished calls).
Nanos criticalPath(const Graph& graph, const Workflow& w, Nanos rest);

/// X: the longest mean-time path of the whole known workflow (order/stretch.h). Tails must be fresh; brings
/// the heads of the unfinished calls up to date. O(unfinished calls + their edges).
Nanos wholePath(Graph& graph, const Workflow& w, Nanos rest);

/// The head of a call whose parents' heads are fresh.
Nanos headOf(const Graph& graph, const Call& c);

/// What budgets aim at.
Nanos budgetTarget(Nanos arrival, Nanos deadline, double margin);

/// The budget of a call that became ready at `ready`. Not clamped: past its deadline it is negative, and a
/// larger share is then more negative.
Nanos budget(Nanos deadline, Nanos ready, Nanos tail, Nanos path);

}  // namespace laxity
