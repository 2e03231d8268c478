// The links between prefill and decode instances: how long the KV of a call takes from p to d.
//
// A transfer passes two ends, the network of p and that of d, and runs at the speed of the slower one:
//   time = max(linkLatency_p, linkLatency_d) + tokens * max(linkPerToken_p, linkPerToken_d)
// With contention the transfers of one end share it equally: with n_p transfers at p and n_d at d each of
// them moves a token in max(n_p * linkPerToken_p, n_d * linkPerToken_d) (simulator/links.h). A bandwidth per
// pair of classes follows from the ends: 25 GB/s at an A100 and 50 GB/s elsewhere give 25 GB/s to every pair
// with an A100.
#pragma once

#include <algorithm>

#include "cluster/instance.h"

namespace laxity {

inline Nanos linkLatency(const InstanceSpec& p, const InstanceSpec& d) {
  return std::max(p.linkLatency, d.linkLatency);
}

/// Transfer alone on both ends, ns.
inline Nanos transferTime(const InstanceSpec& p, const InstanceSpec& d, std::int64_t tokens) {
  return linkLatency(p, d) + roundFine(FineSum{std::max(p.linkPerToken, d.linkPerToken)} * tokens);
}

}  // namespace laxity
