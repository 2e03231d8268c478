// What the calls of a trace cost with their true lengths, alone on the cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster.h"
#include "workflow/horizon.h"
#include "workflow/pair_estimate.h"
#include "workload/trace.h"

namespace laxity {

class TrueCosts {
 public:
  TrueCosts(const Trace& trace, const Cluster& cluster, const PairTerms& terms)
      : trace_(trace), cluster_(cluster), terms_(terms) {}

  /// By hardware class, exec = kNever where the call cannot run; valid until the next call. A call whose only
  /// output token comes with its prefill needs no transfer.
  const Estimate* of(std::uint32_t row);
  /// On the best class; 0 where nothing can serve it.
  Nanos least(std::uint32_t row);
  Nanos gap(std::uint32_t row) const {
    return trace_.columns().toolGapMs == nullptr ? 0 : fromMs(trace_.columns().toolGapMs[row]);
  }

 private:
  const Trace& trace_;
  const Cluster& cluster_;
  PairTerms terms_;
  std::vector<Estimate> estimates_;
  std::vector<Nanos> decodeAlone_;
};

}  // namespace laxity
