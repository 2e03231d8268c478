#include "tuner/page_hinkley.h"

#include <algorithm>

#include "base/math.h"

namespace laxity {
namespace {

constexpr double kUnit = 1 << 20;
constexpr double kMost = 1 << 10;

}  // namespace

void PageHinkley::add(double x) {
  const double clipped = std::clamp(x, -kMost, kMost);
  const auto units = static_cast<std::int64_t>(clipped * kUnit);
  if (count_ >= kWarm) {
    const auto n = static_cast<double>(count_);
    const double mean = static_cast<double>(sum_) / n;
    const double spread = (static_cast<double>(squares_) - mean * static_cast<double>(sum_)) / (n - 1);
    const double deviation = std::max(floor_, std::sqrt(std::max(0.0, spread)) / kUnit);
    const double z = std::clamp((clipped - mean / kUnit) / deviation, -kClip, kClip);
    up_ = std::max(0.0, up_ + z - kSlack);
    down_ = std::max(0.0, down_ - z - kSlack);
    upFor_ = up_ > 0 ? upFor_ + 1 : 0;
    downFor_ = down_ > 0 ? downFor_ + 1 : 0;
  }
  ++count_;
  sum_ += units;
  squares_ += static_cast<__int128_t>(units) * units;
}

double PageHinkley::threshold(double samples) {
  double low = 0;
  double high = 200;
  for (int i = 0; i < 60; ++i) {
    const double h = (low + high) / 2;
    const double b = 2 * kSlack * (h + 1.166);
    const double length = (detExp(b) - b - 1) / (2 * kSlack * kSlack);
    (length < samples ? low : high) = h;
  }
  return high;
}

}  // namespace laxity
