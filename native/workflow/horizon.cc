#include "workflow/horizon.h"

#include <algorithm>

namespace laxity {

void Horizons::reveal(Graph& graph, const Cluster& cluster, std::uint32_t slot, const Estimate* estimates,
                      Nanos gap) {
  Call& c = graph.call(slot);
  Workflow& w = graph.workflow(c.workflow);
  Nanos start = 0;
  graph.eachParent(c, [&](std::uint32_t p) { start = std::max(start, graph.call(p).isolatedEnd); });
  start = std::min(kMaxTime, start + gap);

  Nanos bestEnd = kNever;
  Nanos bestExec = kNever;
  std::uint64_t bestTie = 0;
  std::uint32_t bestClass = 0;
  std::uint32_t bestCopy = kNoSlot;
  const auto& classes = cluster.classes();
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    if (estimates[k].exec == kNever || classes[k].present == 0) continue;
    // The first copy that is free at `start`, else a fresh one, else the one that is free soonest.
    std::uint32_t used = 0;
    std::uint32_t chosen = kNoSlot;
    std::uint32_t index = 0;
    Nanos ready = kNever;
    for (std::uint32_t i = w.isolatedCopies; i != kNoSlot; i = copies_[i].next) {
      if (copies_[i].hardwareClass != k) continue;
      if (std::max(copies_[i].ready, start) < ready) {
        ready = std::max(copies_[i].ready, start);
        chosen = i;
        index = used;
      }
      ++used;
    }
    if (ready > start && used < classes[k].present) {
      ready = start;
      chosen = kNoSlot;
      index = used;
    }
    const Nanos end = std::min(kMaxTime, ready + estimates[k].exec);
    const std::uint32_t member =
        std::min<std::uint32_t>(index, static_cast<std::uint32_t>(classes[k].members.size()) - 1);
    const std::uint64_t tie = cluster.at(classes[k].members[member]).tie;
    if (end < bestEnd || (end == bestEnd && (estimates[k].exec < bestExec ||
                                             (estimates[k].exec == bestExec && tie < bestTie)))) {
      bestEnd = end;
      bestExec = estimates[k].exec;
      bestTie = tie;
      bestClass = k;
      bestCopy = chosen;
    }
  }
  if (bestEnd == kNever) return;  // no instance at present; the call adds nothing to the horizon

  if (bestCopy == kNoSlot) {
    bestCopy = newCopy(bestClass);
    std::uint32_t* link = &w.isolatedCopies;
    while (*link != kNoSlot) link = &copies_[*link].next;
    *link = bestCopy;
  }
  copies_[bestCopy].ready = bestEnd - bestExec + estimates[bestClass].prefill;
  c.isolatedEnd = bestEnd;
  c.isolatedClass = bestClass;
  w.horizon = std::max(w.horizon, bestEnd);
}

void Horizons::delay(Graph& graph, std::uint32_t slot, Nanos gap) {
  Call& c = graph.call(slot);
  if (c.isolatedEnd == 0) return;
  c.isolatedEnd = std::min(kMaxTime, c.isolatedEnd + gap);
  refresh(graph, graph.workflow(c.workflow));
}

void Horizons::finish(Graph& graph, std::uint32_t slot, Nanos correction) {
  Call& c = graph.call(slot);
  Workflow& w = graph.workflow(c.workflow);
  c.isolatedEnd = std::min(kMaxTime, c.isolatedEnd + correction);
  w.finishedEnd = std::max(w.finishedEnd, c.isolatedEnd);
  refresh(graph, w);
}

void Horizons::refresh(Graph& graph, Workflow& w) {
  Nanos horizon = w.finishedEnd;
  for (std::uint32_t slot = w.firstUnfinished; slot != kNoSlot; slot = graph.call(slot).next) {
    horizon = std::max(horizon, graph.call(slot).isolatedEnd);
  }
  w.horizon = horizon;
}

void Horizons::close(Workflow& w) {
  while (w.isolatedCopies != kNoSlot) {
    const std::uint32_t next = copies_[w.isolatedCopies].next;
    copies_[w.isolatedCopies].next = freeCopy_;
    freeCopy_ = w.isolatedCopies;
    w.isolatedCopies = next;
  }
}

std::uint32_t Horizons::newCopy(std::uint32_t hardwareClass) {
  std::uint32_t i = freeCopy_;
  if (i == kNoSlot) {
    i = static_cast<std::uint32_t>(copies_.size());
    copies_.push_back({hardwareClass, 0, kNoSlot});
  } else {
    freeCopy_ = copies_[i].next;
    copies_[i] = {hardwareClass, 0, kNoSlot};
  }
  return i;
}

}  // namespace laxity
