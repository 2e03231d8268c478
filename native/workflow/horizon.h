// The standalone horizon H_w(t): makespan of the revealed part of a workflow alone on the idle cluster
// (papers.md 2.3, CONTRACT 10, with one unified instance m in place of a pair).
//
//   reveal(c):  start = max over parents of their isolated end, plus the tool gap seen before c
//               m     = argmin of max(start, ready_m) + prefill + decode at batch 1;  ties: (finish, t_comp,
//               perm[m]) ready_m = end of c's prefill;  H = max(H, isolated end of c)
//   finish(c):  isolated end += decode time of the true length minus that of the predicted one
//
// Prefills of parallel siblings queue on the private copy, decodes run at batch 1 and take no room. Copies of
// one class are used in tie order and only when all used ones are busy, so a chain keeps one copy however
// large the cluster is.
#pragma once

#include <algorithm>
#include <vector>

#include "cluster/cluster.h"
#include "workflow/graph.h"
#include "workflow/template.h"

namespace laxity {

/// What a call costs on one hardware class.
struct Estimate {
  Nanos prefill = 0;
  Nanos exec = 0;  ///< t_comp: prefill + decode of the predicted output, alone
};

/// The call's cost on `instance`, where `e` is that of its class: a cached prefix saves prefill there, and
/// may have to be loaded first. It never costs more than none, so the best of a class is its representative
/// or a holder.
inline Estimate withCachedPrefix(Estimate e, const Call& c, std::uint32_t instance,
                                 const LatencyModel& latency) {
  for (const CachedPrefix& cached : c.cached) {
    if (cached.instance != instance || cached.tokens == 0 || cached.tokens >= c.promptTokens) continue;
    const Nanos whole = e.prefill;
    const Nanos rest = latency.prefill(c.promptTokens - cached.tokens, cached.tokens);
    e.prefill = std::min(whole, rest + Nanos{cached.loadUs} * 1'000);
    e.exec += e.prefill - whole;
  }
  return e;
}

/// Prompt tokens that the call would compute there.
inline std::uint32_t newTokens(const Call& c, std::uint32_t instance) {
  std::uint32_t tokens = c.promptTokens;
  for (const CachedPrefix& cached : c.cached) {
    if (cached.instance == instance && cached.tokens < tokens) tokens -= cached.tokens;
  }
  return tokens;
}

class Horizons {
 public:
  /// `estimates`: one per class; classes that cannot serve the call have exec = kNever. `gap`: observed tool
  /// time, ns.
  void reveal(Graph& graph, const Cluster& cluster, std::uint32_t slot, const Estimate* estimates, Nanos gap);

  /// A tool took `gap` longer than known at reveal.
  void delay(Graph& graph, std::uint32_t slot, Nanos gap);

  /// `correction`: decode time of the true output minus that of the predicted output on the isolated class.
  void finish(Graph& graph, std::uint32_t slot, Nanos correction);

  /// A call ended without finishing: it no longer counts.
  void abandon(Graph& graph, Workflow& w) { refresh(graph, w); }

  void close(Workflow& w);

 private:
  struct Copy {
    std::uint32_t hardwareClass;
    Nanos ready;  ///< end of its last prefill, from the workflow's arrival
    std::uint32_t next;
  };

  void refresh(Graph& graph, Workflow& w);
  std::uint32_t newCopy(std::uint32_t hardwareClass);

  std::vector<Copy> copies_;
  std::uint32_t freeCopy_ = kNoSlot;
};

}  // namespace laxity
