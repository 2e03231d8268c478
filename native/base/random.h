// The one source of randomness. Every user owns a generator made from (seed, stream), so no draw depends on
// who else drew, on the platform or on the thread.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace laxity {

/// xoshiro256** (Blackman and Vigna 2018) seeded through splitmix64. Streams of one seed do not overlap in
/// practice: a state is one of 2^256, chosen by hashing both numbers.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0);

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Uniform in [0, n) without bias; n >= 1 (0 gives 0).
  std::uint32_t below(std::uint32_t n);

  /// Exponential with this mean: -mean ln(1 - U).
  double exponential(double mean);

  /// Standard normal, by Marsaglia's polar method. Draws come in pairs; the second is kept for the next call.
  double normal();

  /// exp(mu + sigma Z).
  double lognormal(double mu, double sigma);

  /// Gamma with mean shape * scale (Marsaglia and Tsang 2000; shape < 1 by their boost). Both > 0.
  double gamma(double shape, double scale);

 private:
  std::uint64_t state_[4];
  double spare_ = 0;
  bool hasSpare_ = false;
};

/// Draws an index with probability proportional to its weight: a cumulative table, searched by bisection, so
/// that it also serves as an inverse distribution function. Weights are finite and >= 0; with no positive
/// weight it gives 0.
class Discrete {
 public:
  explicit Discrete(std::span<const double> weights);

  /// The smallest index whose cumulative share exceeds u, for u in [0, 1].
  std::uint32_t at(double u) const;

  std::uint32_t draw(Random& random) const { return at(random.uniform()); }

 private:
  std::vector<double> cumulative_;
  std::uint32_t last_ = 0;  // the last index with a positive weight
};

/// A permutation of 0 .. n - 1 for breaking ties (CONTRACT 7). Seed 0 is the identity.
std::vector<std::uint32_t> permutation(std::uint32_t n, std::uint64_t seed);

}  // namespace laxity
