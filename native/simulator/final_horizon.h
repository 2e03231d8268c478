// H_w(final) (validation 5): makespan of a whole workflow alone on the idle cluster, by the scheduler's own list
// rule (workflow/horizon.h), with true lengths and tool gaps, its calls in the order of their declaration. It
// depends on the cluster and the trace, not on a policy.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"
#include "workflow/graph.h"
#include "workflow/horizon.h"
#include "workflow/pair_estimate.h"
#include "workload/trace.h"

namespace laxity {

class FinalHorizon {
 public:
  FinalHorizon(const Trace& trace, const Cluster& cluster, const PairTerms& terms)
      : trace_(trace), cluster_(cluster), terms_(terms) {}

  /// ns; what no instance can serve adds nothing. A call whose only output token comes with its prefill needs no
  /// transfer.
  Nanos of(std::uint32_t workflow);

 private:
  void estimate(std::uint32_t row);

  const Trace& trace_;
  const Cluster& cluster_;
  PairTerms terms_;
  Graph graph_;
  Horizons horizons_;
  std::vector<Estimate> estimates_;
  std::vector<Nanos> decodeAlone_;
  std::vector<Ref> parents_;
};

}  // namespace laxity
