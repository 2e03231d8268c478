// A certified lower bound on Req_tau of a finite instance of the prefill-decode or the unified model: no
// scheduler, online or not, reaches a smaller one.
//
// Req_tau is the ceil(tau n)-th smallest of latency / base over the n workflows. The base is that of the run
// (RunOptions::sloBase): H_w(final) (simulator/final_horizon.h), a template's time, or another; any positive
// one will do. For a ratio alpha a workflow is on time if it ends within alpha * base. Then
//
//   max sum_w z_w,  0 <= z_w <= 1,  z_w = 0 where the isolated critical path exceeds alpha * base,
//   and for each machine and interval:  sum_w z_w * (work of w that must run inside) <= capacity
//
// is at least the number of workflows that any schedule can have on time. If it stays below ceil(tau n),
// Req_tau > alpha. The answer is the last alpha of a geometric grid (ratio 1.004) for which multipliers prove
// so in integers (certificate.h).
//
// What it relaxes: service inside a window is preemptive, divisible and moves freely; late workflows use
// nothing; z is fractional; predecessors do not queue; one weight vector over hardware classes at a time;
// prefill and decode instances meet only in z; KV packing is fluid but for the dual feasible functions. What
// is particular to the modes of unified engines stands in work_terms.h. Any idling, placement, batch
// composition, order and foresight is allowed, links may be contended or not, room on d may be early or late.
//
// What it takes as given: every call is prefilled once and decodes on one instance. An eviction lets a second
// prefill emit a token that a decode iteration would have, so a run with evictions is outside the model
// (RunResult::evictions, hiddenEvictions). Calls that a prefix cache may know, and prompts batched by a model
// without constants, count as no prefill work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "bounds/work_terms.h"
#include "simulator/simulation.h"

namespace laxity {

struct LowerBound {
  double tau = 1;
  double ratio = 0;      ///< Req_tau is larger, or equal where `isolated`; infinity: never so many on time
  bool isolated = true;  ///< the best is that of the critical paths alone
  /// What bounds: shares of the multipliers' capacity by bounds::Work, summing to 1; 0 where `isolated`.
  double share[bounds::kWorks] = {0, 0, 0, 0};
};

struct BoundResult {
  std::vector<LowerBound> bounds;  ///< by tau, in the order asked
  std::uint32_t evaluations = 0;   ///< ratios looked at
  std::uint32_t rounds = 0;        ///< linear programs solved
};

/// `taus`: each in (0, 1]. Options that matter: arrivals, compat, sloBase, knowledge and prediction errors
/// (whether reservations hold), pairs.overlap, tieSeed (of H). kUnsupported as boundInstance().
Status reqLowerBounds(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                      std::span<const double> taus, BoundResult* out, const bounds::WorkFaults& faults = {});

}  // namespace laxity
