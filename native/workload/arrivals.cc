#include "workload/arrivals.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace laxity {
namespace {

// Keeps the draws apart from those of other users of the same seed.
constexpr std::uint64_t kArrivalSeed = 0x6172726976616c73u;

// A burst is cut here: with the largest mean it happens once in e^1000 bursts.
constexpr double kLongestBurst = 1e9;

Nanos fromSeconds(double seconds) {
  const double ns = seconds * 1e9 + 0.5;
  return ns < static_cast<double>(kMaxTime) ? static_cast<Nanos>(ns) : kMaxTime;
}

// False for NaN.
bool within(double value, double low, double high) { return value >= low && value <= high; }

bool isStep(const RateStep& step) {
  const double most = toMs(kMaxTime);
  return within(step.fromMs, 0, most) && within(step.lengthMs, 0, most) &&
         within(step.factor, 1 / kMaxRateFactor, kMaxRateFactor);
}

}  // namespace

Status Arrivals::check(const Options& options) {
  const bool rate = within(options.rate, kMinArrivalRate, kMaxArrivalRate) && isStep(options.step);
  bool good = false;
  switch (options.process) {
    case ArrivalProcess::kPoisson:
    case ArrivalProcess::kFixed:
      good = rate;
      break;
    case ArrivalProcess::kTrace:
      good = !options.recordedMs.empty();
      break;
    case ArrivalProcess::kGamma:
      good = rate && within(options.cv, kMinArrivalCv, kMaxArrivalCv);
      break;
    case ArrivalProcess::kBursts:
      good = rate && within(options.burstSize, 1, kMaxBurstSize) &&
             within(options.burstGapMs, 0, kMaxBurstGapMs);
      break;
  }
  return good ? Status::kOk : Status::kBadValue;
}

Arrivals::Arrivals(const Options& options)
    : options_(options), random_(options.seed ^ kArrivalSeed, options.replication) {
  if (options_.process != ArrivalProcess::kBursts) return;
  burstDecay_ = detLog1p(-1 / options_.burstSize);
  burstStart_ = random_.exponential(options_.burstSize / options_.rate);
}

Nanos Arrivals::next() {
  const std::uint64_t i = count_++;
  switch (options_.process) {
    case ArrivalProcess::kPoisson:
      elapsed_ += random_.exponential(1 / options_.rate);
      return real(elapsed_);
    case ArrivalProcess::kFixed:
      return real(static_cast<double>(i) / options_.rate);
    case ArrivalProcess::kGamma: {
      const double square = options_.cv * options_.cv;
      elapsed_ += random_.gamma(1 / square, square / options_.rate);
      return real(elapsed_);
    }
    case ArrivalProcess::kBursts:
      return real(nextInBursts());
    case ArrivalProcess::kTrace:
      break;
  }
  return i < options_.recordedMs.size() ? fromMs(options_.recordedMs[i]) : kNever;
}

double Arrivals::nextInBursts() {
  Burst burst;
  if (active_ > 0 && ring_[head_].next <= burstStart_) {
    burst = ring_[head_];
    head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    --active_;
  } else {
    burst = {burstStart_, burstSize() - 1};
    burstStart_ += random_.exponential(options_.burstSize / options_.rate);
  }
  const double t = burst.next;
  if (burst.left == 0) return t;
  if (active_ == ring_.size()) {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(head_), ring_.end());
    head_ = 0;
    ring_.resize(std::max<std::size_t>(8, 2 * ring_.size()));
  }
  const std::size_t tail = head_ + active_++;
  ring_[tail < ring_.size() ? tail : tail - ring_.size()] = {t + options_.burstGapMs / 1e3, burst.left - 1};
  return t;
}

/// By inversion: P(size > k) = (1 - 1 / mean)^k.
std::uint64_t Arrivals::burstSize() {
  const double u = 1 - random_.uniform();
  if (options_.burstSize <= 1) return 1;
  return 1 + static_cast<std::uint64_t>(std::min(kLongestBurst, detLog(u) / burstDecay_));
}

/// Real time of an operational time, in s. Rounding at the ends of a step must not go back.
Nanos Arrivals::real(double u) {
  const RateStep& step = options_.step;
  const double from = step.fromMs / 1e3;
  const double length = step.lengthMs / 1e3;
  if (length > 0 && u > from) {
    const double inside = length * step.factor;
    u = u < from + inside ? from + (u - from) / step.factor : u - inside + length;
  }
  return last_ = std::max(last_, fromSeconds(u));
}

}  // namespace laxity
