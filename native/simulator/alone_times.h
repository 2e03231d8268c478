// How long each workflow of a trace takes alone: the base of its SLO. No policy has a part in it, so runs of
// one trace on one cluster, a sweep's, work it out once.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"
#include "simulator/simulation.h"
#include "workflow/pair_estimate.h"
#include "workload/trace.h"

namespace laxity {

class AloneTimes {
 public:
  /// By workflow: its final horizon (kHorizon), or its exclusive time, with true lengths; of the latter 0
  /// where the trace declares an SLO, which is its own base. Valid until the next call.
  const std::vector<Nanos>& of(const Trace& trace, const Cluster& cluster, SloBase base,
                               const PairTerms& terms);

 private:
  struct Class {
    InstanceSpec spec;
    std::uint32_t present;
    LatencyModel latency;
    friend bool operator==(const Class&, const Class&) = default;
  };
  /// What the times depend on.
  struct Origin {
    std::uint64_t trace = 0;
    SloBase base{};
    PairTerms terms;
    std::vector<Class> classes;
    std::vector<std::uint32_t> byTie;  ///< instances
    friend bool operator==(const Origin&, const Origin&) = default;
  };

  Origin origin_;
  std::vector<Nanos> times_;
};

}  // namespace laxity
