// How wrong the scheduler's predictions are: output lengths and latencies, each by a declared distribution
// (workloads.md 11, validation.md 7).
//
// Lengths. What the scheduler would be told is multiplied by a factor f, drawn once per call from (seed,
// workflow row, call row): every policy, replication and arrival process sees the same errors.
//   lognormal        f = exp(sigma z - sigma^2/2), mean 1
//   mean-absolute    lognormal with the sigma for which E|f - 1| = 2 erf(sigma / sqrt 8) is the given size
//   uniform          f uniform in [1 - x, 1 + x)
//   bias             f = 1 + x
//   heavy-tail       with probability `share` f is `size` or 1/size, either equally likely; else 1
// Correlated by r: with probability sqrt(r) a call takes its workflow's draw instead of its own, so any two
// calls of a workflow have correlation r and every call keeps the distribution.
//
// Latencies. The scheduler believes every time of latency model k multiplied by exp(gpu z_k - gpu^2/2), z_k
// drawn once from (seed, k), and the decode term per further sequence multiplied by `batch`. The engines keep
// the true model; so do deadlines and the base of SLO scales.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "model/latency.h"

namespace laxity {

enum class LengthError : std::uint8_t { kNone, kLognormal, kMeanAbsolute, kUniform, kBias, kHeavyTail };

struct PredictionError {
  LengthError length = LengthError::kNone;
  double size = 0;         ///< sigma, mean |f - 1|, x, x, or the factor
  double share = 0.05;     ///< heavy-tail
  double correlation = 0;  ///< within a workflow, 0 .. 1
  double gpu = 0;          ///< sigma of the skew per latency model
  double batch = 1;        ///< factor of the decode term per further sequence
  std::uint64_t seed = 1;

  bool lengths() const { return length != LengthError::kNone; }
  bool times() const { return gpu != 0 || batch != 1; }
};

/// kBadValue outside: sigma 0 .. 3, mean-absolute 0 .. 1.5, uniform 0 .. 0.99, bias -0.99 .. 10, factor
/// 1 .. 100, share and correlation 0 .. 1, gpu 0 .. 1, batch 0 .. 10.
Status checkError(const PredictionError& error);

/// The sigma of a lognormal factor with mean 1 whose E|f - 1| is `size`, 0 .. 1.5.
double sigmaOfMeanAbsolute(double size);

class LengthErrors {
 public:
  static constexpr double kHigh = 0.9;  ///< the quantile that `high` stands for

  LengthErrors() = default;
  explicit LengthErrors(const PredictionError& error);

  /// predicted / true of the call at a row of the trace.
  double factor(std::uint32_t workflow, std::uint32_t call) const;

  /// The kHigh quantile of true / predicted; 1 for a bias, which nobody who has it knows of.
  double high() const { return high_; }

 private:
  PredictionError error_;
  double high_ = 1;
};

/// round(tokens * factor), at least 1 and at most `most`, which never cuts what the factor did not add.
std::uint32_t mistaken(std::uint32_t tokens, double factor, std::uint32_t most);

std::vector<LatencyModel> believedLatencies(const std::vector<LatencyModel>& latencies,
                                            const PredictionError& error);

}  // namespace laxity
