// What a caller would tell of the future (CONTRACT 10, bounds.md 4): with each call the standalone time of
// the longest path after it, tool gaps included, every call on its best class; or with each workflow a
// predictor's word for its final horizon.
//
// The time after a call is exact with sigma 0; else it is declared as an estimate of that sigma: the truth
// times exp(sigma z), z standard normal, counts as exp(-2 sigma) times that. A predicted horizon is the truth
// times exp(sigma z) and counts as it is: calibration is the scheduler's. Drawn once for each call or
// workflow, the same whatever the policy.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/final_horizon.h"
#include "simulator/true_costs.h"

namespace laxity {

struct RemainingOptions {
  bool on = false;
  bool predictor = false;  ///< of final horizons, by workflow; else of the time after each call
  double sigma = 0;        ///< 0 .. 10
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

class PredictedHorizon {
 public:
  PredictedHorizon(const Trace& trace, const Cluster& cluster, const PairTerms& terms,
                   const RemainingOptions& options)
      : horizon_(trace, cluster, terms), options_(options) {}

  /// ns, at least 1.
  Nanos of(std::uint32_t workflow);

 private:
  FinalHorizon horizon_;
  RemainingOptions options_;
};

}  // namespace laxity
