#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/math.h"

namespace laxity {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;
constexpr std::uint64_t kPermutationSeed = 0x7065726d75746174u;

// The output function of splitmix64: a bijection on 64-bit words.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed, std::uint64_t stream) {
  // Bijective in the stream for every seed. Four consecutive outputs of mix are never all zero.
  std::uint64_t counter = mix(mix(seed + kGolden) ^ stream);
  for (std::uint64_t& word : state_) word = mix(counter += kGolden);
}

std::uint32_t Random::below(std::uint32_t n) {
  // The high half of a 32 x 32 bit product (Lemire 2019); low halves under 2^32 mod n would be one draw too
  // many.
  std::uint64_t product = (next() >> 32) * n;
  std::uint32_t low = static_cast<std::uint32_t>(product);
  if (low < n) {
    const std::uint32_t surplus = (0u - n) % n;
    while (low < surplus) {
      product = (next() >> 32) * n;
      low = static_cast<std::uint32_t>(product);
    }
  }
  return static_cast<std::uint32_t>(product >> 32);
}

double Random::exponential(double mean) { return -mean * detLog(1 - uniform()); }

double Random::normal() {
  if (hasSpare_) {
    hasSpare_ = false;
    return spare_;
  }
  double x, y, square;
  do {
    x = 2 * uniform() - 1;
    y = 2 * uniform() - 1;
    square = x * x + y * y;
  } while (square >= 1 || square == 0);
  const double factor = std::sqrt(-2 * detLog(square) / square);
  spare_ = y * factor;
  hasSpare_ = true;
  return x * factor;
}

double Random::lognormal(double mu, double sigma) { return detExp(mu + sigma * normal()); }

double Random::gamma(double shape, double scale) {
  if (shape < 1) {
    // Gamma(a) = Gamma(a + 1) U^(1/a), U in (0, 1].
    const double boosted = gamma(shape + 1, scale);
    return boosted * detExp(detLog(1 - uniform()) / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - uniform();
    const double square = x * x;
    // The first test is a cheap bound on the second.
    if (u < 1 - 0.0331 * square * square) return scale * d * v;
    if (detLog(u) < 0.5 * square + d * (1 - v + detLog(v))) return scale * d * v;
  }
}

Discrete::Discrete(std::span<const double> weights) : cumulative_(weights.size()) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    cumulative_[i] = sum;
    if (weights[i] > 0) last_ = static_cast<std::uint32_t>(i);
  }
}

std::uint32_t Discrete::at(double u) const {
  if (cumulative_.empty()) return 0;
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), u * cumulative_.back());
  // u = 1, or a product that rounded up to the total, must not reach an index of weight 0.
  return std::min(last_, static_cast<std::uint32_t>(found - cumulative_.begin()));
}

std::vector<std::uint32_t> permutation(std::uint32_t n, std::uint64_t seed) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  if (seed == 0) return order;
  Random random(seed ^ kPermutationSeed);
  for (std::uint32_t i = n; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace laxity
