#include "workflow/budget.h"

#include <algorithm>

namespace laxity {

void updateTails(Graph& graph, Workflow& w) {
  if (!w.tailsStale) return;
  w.tailsStale = false;
  // Children are revealed after their parents, so walking back meets every child before its parents.
  for (std::uint32_t slot = w.lastUnfinished; slot != kNoSlot; slot = graph.call(slot).previous) {
    Call& c = graph.call(slot);
    Nanos tail = 0;
    graph.eachChild(c, [&](std::uint32_t child) {
      const Call& below = graph.call(child);
      if (!terminal(below.state)) tail = std::max(tail, below.mean + below.tail);
    });
    c.tail = tail;
  }
}

Nanos criticalPath(const Graph& graph, const Workflow& w, Nanos rest) {
  Nanos longest = 0;
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot; slot = graph.call(slot).next) {
    const Call& c = graph.call(slot);
    longest = std::max(longest, c.mean + tailOf(c, rest));
  }
  return longest;
}

Nanos headOf(const Graph& graph, const Call& c) {
  Nanos above = 0;
  graph.eachParent(c, [&](std::uint32_t p) { above = std::max(above, graph.call(p).head); });
  return above + c.mean;
}

Nanos wholePath(Graph& graph, const Workflow& w, Nanos rest) {
  Nanos longest = w.finishedHead > 0 ? w.finishedHead + rest : 0;
  // In the order of reveals: parents before their children.
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot; slot = graph.call(slot).next) {
    Call& c = graph.call(slot);
    c.head = headOf(graph, c);
    longest = std::max(longest, c.head + (c.remaining < 0 ? rest : tailOf(c, rest)));
  }
  return longest;
}

Nanos budgetTarget(Nanos arrival, Nanos deadline, double margin) {
  if (deadline <= arrival) return deadline;
  return deadline - static_cast<Nanos>(margin * static_cast<double>(deadline - arrival) + 0.5);
}

Nanos budget(Nanos deadline, Nanos ready, Nanos tail, Nanos path) {
  if (path <= 0) return deadline - ready;
  const double share = static_cast<double>(path - tail) / static_cast<double>(path);
  const double ns = static_cast<double>(deadline - ready) * share;
  return static_cast<Nanos>(ns < 0 ? ns - 0.5 : ns + 0.5);
}

}  // namespace laxity
