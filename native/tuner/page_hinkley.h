// The Page-Hinkley test in both directions: has the mean of a sequence changed?
//
// z = (x - running mean) / running standard deviation, clipped at +-4; the first kWarm samples only form the
// mean. up = max(0, up + z - k), down = max(0, down - z - k), with k = 0.25. An alarm is the caller's: it
// compares `up` and `down` with thresholds that were calibrated for its sequence, and resets.
// Mean and deviation come from integer sums of x in units of 2^-20, so nothing drifts.
#pragma once

#include <cmath>
#include <cstdint>

namespace laxity {

class PageHinkley {
 public:
  static constexpr std::uint32_t kWarm = 20;
  static constexpr double kSlack = 0.25;
  static constexpr double kClip = 4;

  /// `floor`: the least standard deviation; smaller changes are of no interest.
  explicit PageHinkley(double floor) : floor_(floor) {}

  void reset() { *this = PageHinkley(floor_); }

  /// |x| is at most 2^10 (clipped).
  void add(double x);

  double up() const { return up_; }
  double down() const { return down_; }
  std::uint32_t count() const { return count_; }
  /// Samples since the statistic last was 0: the change is as old as those.
  std::uint32_t upFor() const { return upFor_; }
  std::uint32_t downFor() const { return downFor_; }

  /// The threshold above which one direction of independent normal samples rises on average once in `samples`
  /// samples, from Siegmund's approximation (exp(2kb) - 2kb - 1) / (2k^2) with b = h + 1.166.
  static double threshold(double samples);

 private:
  double floor_;
  std::uint32_t count_ = 0;
  std::int64_t sum_ = 0;
  __int128_t squares_ = 0;
  double up_ = 0;
  double down_ = 0;
  std::uint32_t upFor_ = 0;
  std::uint32_t downFor_ = 0;
};

}  // namespace laxity
