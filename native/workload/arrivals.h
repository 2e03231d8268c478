// When workflows arrive: one time after the other, without looking ahead.
//
// A generated stream is a function of (seed, replication) and the parameters of its process alone, so every
// policy of a comparison sees the same arrivals (common random numbers), and Poisson and Gamma streams of one
// seed at two rates are the same up to scale.
//
// A rate step stretches time: a process is generated at its base rate in operational time u, and real time
// passes 1 / factor as fast inside the step. So a Poisson stream stays an (inhomogeneous) Poisson stream.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"

namespace laxity {

enum class ArrivalProcess : std::uint8_t {
  kPoisson,  ///< Exponential gaps of mean 1 / rate; the first workflow arrives after the first gap
             ///< (workloads.md 9).
  kFixed,    ///< Workflow i arrives at i / rate, the first at 0.
  kTrace,    ///< The recorded arrivals of the trace.
  kGamma,    ///< Renewal: gaps are Gamma of shape 1 / cv^2 and scale cv^2 / rate, the first as any other.
  kBursts,   ///< Bursts begin as a Poisson stream of rate / burstSize; their sizes are geometric on 1, 2, ...
             ///< of mean burstSize; the workflows of one burst follow each other by burstGapMs. Bursts may
             ///< overlap, so the mean rate is `rate` whatever the parameters.
};

/// Accepted rates, in workflows per second.
inline constexpr double kMinArrivalRate = 1e-9;
inline constexpr double kMaxArrivalRate = 1e9;

inline constexpr double kMinArrivalCv = 0.01;
inline constexpr double kMaxArrivalCv = 100;
inline constexpr double kMaxBurstSize = 1e6;  ///< mean workflows per burst, at least 1
inline constexpr double kMaxBurstGapMs = 1e9;

/// From fromMs on and for lengthMs, `factor` times the rate (workloads.md 9: x2 and x4 for 100 to 300 s).
struct RateStep {
  double fromMs = 0;
  double lengthMs = 0;
  double factor = 1;
};

inline constexpr double kMaxRateFactor = 1e3;  ///< and at least its inverse

class Arrivals {
 public:
  struct Options {
    ArrivalProcess process = ArrivalProcess::kPoisson;
    double rate = 1;  ///< workflows per second, unused for kTrace
    std::uint64_t seed = 0;
    std::uint64_t replication = 0;            ///< another stream of the same seed
    std::span<const double> recordedMs = {};  ///< for kTrace: Trace's arrivalMs, validated there; borrowed
    double cv = 1;                            ///< for kGamma: coefficient of variation of the gaps
    double burstSize = 1;                     ///< for kBursts
    double burstGapMs = 0;                    ///< for kBursts
    RateStep step = {};                       ///< unused for kTrace
  };

  /// kBadValue unless the process knows its parameters and they are within their limits, or, for kTrace,
  /// arrivals were recorded.
  static Status check(const Options& options);

  /// `options` must pass `check`.
  explicit Arrivals(const Options& options);

  /// The next arrival: never smaller than the last and at most kMaxTime. After the last recorded one: kNever.
  Nanos next();

 private:
  struct Burst {
    double next;         // s
    std::uint64_t left;  // workflows after that one
  };

  double nextInBursts();
  std::uint64_t burstSize();
  Nanos real(double operational);

  Options options_;
  Random random_;
  std::uint64_t count_ = 0;
  double elapsed_ = 0;  // s: rounding to ns happens once, at the border, and cannot accumulate
  Nanos last_ = 0;

  // Bursts under way, as a ring by their next arrival. All have the same gap, so whoever has just arrived is
  // the last to arrive again: first in, first out.
  std::vector<Burst> ring_;
  std::size_t head_ = 0;
  std::size_t active_ = 0;
  double burstStart_ = 0;  // s, of the burst that has not begun
  double burstDecay_ = 0;  // ln(1 - 1 / burstSize)
};

}  // namespace laxity
