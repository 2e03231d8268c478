#include "simulator/prediction_error.h"

#include <algorithm>

#include "base/math.h"
#include "base/random.h"

namespace laxity {
namespace {

// Streams of their own, so that no other draw of the same seed is repeated.
constexpr std::uint64_t kCalls = 0x63616c6c65727272u;
constexpr std::uint64_t kWorkflows = 0x666c6f7765727272u;
constexpr std::uint64_t kModels = 0x6d6f64656c657272u;

constexpr double kNormal90 = 1.2815515655446004;  // the 0.9 quantile of a standard normal

bool within(double x, double low, double high) { return x >= low && x <= high; }

/// erf for 0 <= x <= 2 by its power series; IEEE operations only, so the same bits everywhere.
double smallErf(double x) {
  double term = x;
  double sum = x;
  for (int n = 1; n < 60; ++n) {
    term *= -x * x / n;
    sum += term / (2 * n + 1);
  }
  return sum * 1.1283791670955126;  // 2 / sqrt(pi)
}

double draw(const PredictionError& e, Random& random) {
  switch (e.length) {
    case LengthError::kLognormal:
      return random.lognormal(-e.size * e.size / 2, e.size);
    case LengthError::kUniform:
      return 1 - e.size + 2 * e.size * random.uniform();
    case LengthError::kBias:
      return 1 + e.size;
    case LengthError::kHeavyTail: {
      const double u = random.uniform();
      if (u < e.share / 2) return e.size;
      return u < e.share ? 1 / e.size : 1;
    }
    default:
      return 1;
  }
}

double highOf(const PredictionError& e) {
  switch (e.length) {
    case LengthError::kLognormal:
      return detExp(kNormal90 * e.size + e.size * e.size / 2);
    case LengthError::kUniform:
      return 1 / (1 - e.size + 2 * e.size * (1 - LengthErrors::kHigh));
    case LengthError::kHeavyTail:
      return e.share / 2 > 1 - LengthErrors::kHigh ? e.size : 1;
    default:
      return 1;
  }
}

}  // namespace

Status checkError(const PredictionError& e) {
  bool good =
      within(e.share, 0, 1) && within(e.correlation, 0, 1) && within(e.gpu, 0, 1) && within(e.batch, 0, 10);
  switch (e.length) {
    case LengthError::kNone:
      break;
    case LengthError::kLognormal:
      good = good && within(e.size, 0, 3);
      break;
    case LengthError::kMeanAbsolute:
      good = good && within(e.size, 0, 1.5);
      break;
    case LengthError::kUniform:
      good = good && within(e.size, 0, 0.99);
      break;
    case LengthError::kBias:
      good = good && within(e.size, -0.99, 10);
      break;
    case LengthError::kHeavyTail:
      good = good && within(e.size, 1, 100);
      break;
  }
  return good ? Status::kOk : Status::kBadValue;
}

double sigmaOfMeanAbsolute(double size) {
  double low = 0;
  double high = 5;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (2 * smallErf(middle / 2.8284271247461903) < size ? low : high) = middle;
  }
  return size > 0 ? high : 0;
}

LengthErrors::LengthErrors(const PredictionError& error) : error_(error) {
  if (error_.length == LengthError::kMeanAbsolute) {
    error_.size = sigmaOfMeanAbsolute(error_.size);
    error_.length = LengthError::kLognormal;
  }
  high_ = std::max(1.0, highOf(error_));
}

double LengthErrors::factor(std::uint32_t workflow, std::uint32_t call) const {
  Random own(error_.seed ^ kCalls, call);
  if (error_.correlation > 0) {
    // u^2 < r has probability sqrt(r).
    const double u = own.uniform();
    if (u * u < error_.correlation) {
      Random shared(error_.seed ^ kWorkflows, workflow);
      return draw(error_, shared);
    }
  }
  return draw(error_, own);
}

std::uint32_t mistaken(std::uint32_t tokens, double factor, std::uint32_t most) {
  const double product = static_cast<double>(tokens) * factor + 0.5;
  const std::uint32_t bound = std::max(tokens, most);
  if (!(product < static_cast<double>(bound))) return factor > 1 ? bound : tokens;
  return product < 1 ? 1 : static_cast<std::uint32_t>(product);
}

std::vector<LatencyModel> believedLatencies(const std::vector<LatencyModel>& latencies,
                                            const PredictionError& error) {
  std::vector<LatencyModel> believed;
  believed.reserve(latencies.size());
  for (std::size_t k = 0; k < latencies.size(); ++k) {
    Random random(error.seed ^ kModels, k);
    const double skew = random.lognormal(-error.gpu * error.gpu / 2, error.gpu);
    believed.push_back(latencies[k].skewed(skew, error.batch));
  }
  return believed;
}

}  // namespace laxity
