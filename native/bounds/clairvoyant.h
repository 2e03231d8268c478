// A reference that knows the future: the best schedule of a finite instance that a local search finds.
// Achievable on this machine model, not optimal; together with the lower bound (bound.h) it says on which
// side a gap lies.
//
// What is searched: a deadline per workflow, of which calls are served by `edf-path` (deadline less the path
// below, with the whole graph and true lengths known), and one of a few placements. Every candidate is a run
// of the simulator under an order that everybody can use, so it bounds the optimum from above. Dropped
// workflows have a deadline beyond all others.
//
//   start    the caller's policy; `ratio` with exact remaining time, and `edf-path`, under each placement;
//            then deadlines arrival + alpha * base for alpha = (.55 .. 1.08) * the best Req so far, with
//            nobody dropped, those dropped that the best run served worst, and those with the most work
//   search   (1 + 1): one change of the best candidate at a time: the deadlines of some of the workflows that
//            decide Req earlier; all pulled to the ratio aimed at; a few at random; a dropped one and a kept
//            one exchanged; another placement. Kept where Req + 0.3 * the mean ratio of the last 5 % that
//            count does not rise
//
// The budget is counted in simulations, so that the result is the same everywhere. Runs with an eviction do
// not count: the bound is silent about them. Ties: the first candidate found.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "simulator/simulation.h"

namespace laxity {

struct ReferenceOptions {
  std::uint32_t evaluations = 200;  ///< simulations for each tau, those of the start included; >= 1
  std::uint64_t seed = 1;
};

struct Reference {
  double tau = 1;
  double ratio = 0;               ///< smallest Req_tau of any run; infinity: so many never end
  std::uint32_t evaluations = 0;  ///< until it was found, over all taus
};

/// By tau, in the order asked; every run counts for all of them. `options` as for reqLowerBounds: arrivals,
/// base, engines and transport are the caller's, knowledge is `oracle`, observer and errors of predicted
/// lengths are left out. kUnsupported with a script. `control` as of RunOutputs.
Status clairvoyantSearch(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                         std::span<const double> taus, const ReferenceOptions& how,
                         std::vector<Reference>* out);

}  // namespace laxity
