// What a run is judged by, as defined in one place: latencies, SLO scales, throughput.
//
// Latency of a workflow: last finish minus arrival, tool gaps included; infinite where it did not complete,
// never missing. Quantiles are upper empirical: the ceil(q n)-th smallest. SLO scale 95 is that quantile of
// latency / base.
#pragma once

#include <vector>

#include "simulator/simulation.h"

namespace laxity {

class Metrics {
 public:
  explicit Metrics(std::uint32_t workflows) : latency_(workflows, kNever), base_(workflows, 0) {}

  void arrived(std::uint32_t workflow, Nanos t, Nanos base) {
    base_[workflow] = base;
    if (t < first_) first_ = t;
  }
  /// Call when the workflow completes; where its sinks end out of order, once for each.
  void completed(std::uint32_t workflow, Nanos arrival, Nanos t) {
    if (latency_[workflow] == kNever)
      ++completed_;
    else if (t - arrival < latency_[workflow])
      return;
    latency_[workflow] = t - arrival;
    if (t > last_) last_ = t;
  }

  void summarise(const RunOutputs& outputs, RunResult* result);

  /// kNever where the workflow did not complete.
  Nanos latency(std::uint32_t workflow) const { return latency_[workflow]; }
  /// latency / base, the smallest SLO scale that the workflow meets; infinite where it did not complete.
  double ratio(std::uint32_t workflow) const;

 private:
  std::vector<Nanos> latency_;
  std::vector<Nanos> base_;
  Nanos first_ = kNever;
  Nanos last_ = 0;
  std::uint32_t completed_ = 0;
};

}  // namespace laxity
