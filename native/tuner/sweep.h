// One tuning step: what would each value of a parameter have cost in the recent past, and what does the
// answer allow?
//
// Replications are bootstrap streams of the recorded window: as many gaps as the window had arrivals are
// drawn with replacement, and so are the bodies; the stream then draws from these two samples until
// `streamLength` is covered. It begins with what is under way now, since a backlog makes another value best:
// for each such workflow a body is drawn and what remains of it after as many finished calls arrives at 0. So
// the uncertainty of the window's rate and mix is in the spread over the replications. Stream r is the same
// for every value (common random numbers).
//
// Procedure: every value gets the first quarter of the replications; the better half, the present value and
// the two ends of the list get all. The cost of a run is the P95 latency of
// what arrives after 0. The best mean cost wins (ties: the
// smaller value). It is applied only if (a) it is not the present value, (b) the mean cost falls by at least
// minGain of the present one, or half of that where a detector that latencies do not mislead (instance,
// service, arrivals) says that the regime is new, (c) the paired one-sided t over the replications gives p <=
// significance, and (d) it is better in at least the share `agreement` of them: each is another guess of rate
// and mix, so (d) says that the answer does not hang on what the window happened to hold.
//
// The cluster is as it is now: instances that are not up are down from the beginning, and those that were
// seen to be faster or slower than predicted run at that speed, unknown to the scheduler. Prefill-decode
// clusters and prefix caches have no such script: there lost instances are left out and the scheduler knows
// the speeds. A call's shared prefix is the most that its reveal was told of, so of one revealed before its
// parents ended nothing; caches begin empty.
//
// Thresholds of the ratio detector hold for the value that is in force afterwards: `calibrationRuns`
// stationary streams of an hour are simulated under it, and the threshold is the order statistic of the
// largest statistic per run that a run exceeds with probability 1 - exp(-falseAlarmsPerHour * hours), rounded
// up. Those of the detector on the work of workflows come from the same streams. Those on arrivals come from
// kDrawnHours hours of independent draws from the recorded gaps: right as long as those are exchangeable.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "simulator/simulation.h"
#include "tuner/window.h"

namespace laxity {

struct TunerOptions {
  std::uint16_t parameter = static_cast<std::uint16_t>(Parameter::kAlpha);
  std::vector<double> values;  ///< candidates, ascending
  Nanos window = 100 * kSecond;
  Nanos latency = kSecond;  ///< from a trigger to its result, in virtual time
  Nanos period = 0;         ///< a sweep at least so often; 0 = only after triggers
  std::uint32_t replications = 16;
  double minGain = 0.04;
  double significance = 0.005;
  double agreement = 0.8;
  double falseAlarmsPerHour = 0.5;  ///< of each direction of each calibrated detector
  std::uint32_t calibrationRuns = 8;
  double welchLevel = 0.05;
  bool welch = true;
  bool ratio = true;
  bool service = true;
  bool load = true;  ///< arrivals and work of workflows
  std::uint64_t seed = 1;
};

Status checkTuner(const TunerOptions& options);

inline constexpr std::size_t kLeastSamples = 20;

/// A workflow under way: how many of its calls have finished, and since when it is there.
struct Underway {
  std::uint32_t finished = 0;
  std::uint32_t reserved = 0;
  Nanos elapsed = 0;
};

/// A window as a sweep needs it.
struct SweepInput {
  std::vector<WindowWorkflow> bodies;
  std::vector<Nanos> bases;  ///< by body: its SLO, else its time alone
  std::vector<double> work;  ///< by body: ln of the time of its calls alone, summed
  std::vector<Nanos> gaps;   ///< between arrivals
  std::vector<Underway> running;
  std::vector<double> factor;  ///< by instance: actual / predicted times
  std::vector<bool> up;        ///< by instance
  double current = 0;
  std::uint64_t number = 0;  ///< of the sweep: its random streams
  bool changed = false;      ///< half of minGain is enough
  bool calibrate = true;     ///< otherwise only where a value is applied
};

struct Thresholds {
  double up = 0;  ///< 0 = not calibrated
  double down = 0;
};

struct SweepResult {
  Status status = Status::kOk;
  bool apply = false;
  double value = 0;  ///< in force from now on
  double best = 0;
  double gain = 0;    ///< share of the present cost that the best saves
  double p = 1;       ///< paired, one-sided
  double regret = 0;  ///< of the present value against the best, in this window
  std::uint32_t runs = 0;
  bool calibrated = false;
  Thresholds ratio;
  Thresholds arrivals;
  Thresholds work;
};

/// Deterministic; touches nothing outside. `base` says policy, knowledge, feedback and parameters.
SweepResult sweepWindow(const SweepInput& input, const ClusterSpec& cluster, const RunOptions& base,
                        const TunerOptions& options, Workspace* workspace = nullptr);

}  // namespace laxity
