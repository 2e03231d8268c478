// The hint `remaining` that a caller would give with each call (CONTRACT 10, policies 2.10): the standalone
// time of the longest path after the call, tool gaps included, every call on its best class.
//
// Exact with sigma 0; else times exp(sigma z), z standard normal, drawn once for each call and the same
// whatever the policy.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/true_costs.h"

namespace laxity {

struct RemainingOptions {
  bool on = false;
  double sigma = 0;  ///< 0 .. 10
  std::uint64_t seed = 1;
};

class RemainingHint {
 public:
  /// Computes all of it: O(calls * classes + edges).
  RemainingHint(const Trace& trace, TrueCosts costs, const RemainingOptions& options);

  /// ns, what is declared with the call.
  Nanos of(std::uint32_t row) const { return after_[row]; }

 private:
  std::vector<Nanos> after_;
};

}  // namespace laxity
