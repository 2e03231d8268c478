// When workflows arrive: one time after the other, in constant memory.
//
// A Poisson stream is a function of (seed, replication, rate) alone, so every policy of a comparison sees the
// same arrivals (common random numbers), and streams of one seed at two rates are the same up to scale.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"

namespace laxity {

enum class ArrivalProcess : std::uint8_t {
  kPoisson,  ///< Exponential gaps of mean 1 / rate; the first workflow arrives after the first gap
             ///< (workloads.md 9).
  kFixed,    ///< Workflow i arrives at i / rate, the first at 0.
  kTrace,    ///< The recorded arrivals of the trace.
};

/// Accepted rates, in workflows per second.
inline constexpr double kMinArrivalRate = 1e-9;
inline constexpr double kMaxArrivalRate = 1e9;

class Arrivals {
 public:
  struct Options {
    ArrivalProcess process = ArrivalProcess::kPoisson;
    double rate = 1;  ///< workflows per second, unused for kTrace
    std::uint64_t seed = 0;
    std::uint64_t replication = 0;            ///< another stream of the same seed
    std::span<const double> recordedMs = {};  ///< for kTrace: Trace's arrivalMs, validated there; borrowed
  };

  /// kBadValue unless the rate is within its limits or, for kTrace, arrivals were recorded.
  static Status check(const Options& options);

  /// `options` must pass `check`.
  explicit Arrivals(const Options& options);

  /// The next arrival: never smaller than the last and at most kMaxTime. After the last recorded one: kNever.
  Nanos next();

 private:
  Options options_;
  Random random_;
  std::uint64_t count_ = 0;
  double elapsed_ = 0;  // s: rounding to ns happens once, at the border, and cannot accumulate
};

}  // namespace laxity
