// How scarce the KV of each decode class has been of late, and what that makes a token of it cost
// (docs/placements.md).
//
//   u(t)  = average of x over the past, weight e^(-age / kvPriceMs); x = KV of all calls leased to the class
//   / its
//           capacity, which may exceed 1
//   price = weight * min(1.5, max(0, (u - 0.75) / 0.3))
//
// x is constant between events, so the average is exact in event time, whenever and however often it is read.
// Averages begin at 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/math.h"
#include "base/time.h"

namespace laxity {

class KvPressure {
 public:
  void setMemory(double ms) { memoryMs_ = ms; }

  /// Room for so many classes; those known keep their averages.
  void resize(std::size_t classes) { classes_.resize(classes); }

  /// The class holds and has so many tokens from t on.
  void set(std::size_t k, std::int64_t held, std::int64_t capacity, Nanos t) {
    Class& c = classes_[k];
    if (held == c.held && capacity == c.capacity) return;
    c.average = average(k, t);
    c.at = t;
    c.held = held;
    c.capacity = capacity;
  }
  void change(std::size_t k, std::int64_t by, Nanos t) {
    set(k, classes_[k].held + by, classes_[k].capacity, t);
  }

  /// u at t, no earlier than the last change.
  double average(std::size_t k, Nanos t) const {
    const Class& c = classes_[k];
    if (t <= c.at) return c.average;
    const double x = c.capacity > 0 ? static_cast<double>(c.held) / static_cast<double>(c.capacity) : 0;
    return x + (c.average - x) * detExp(-toMs(t - c.at) / memoryMs_);
  }

  /// Exactly 0 where the class has room enough.
  double price(std::size_t k, double weight, Nanos t) const {
    return weight * std::clamp((average(k, t) - 0.75) / 0.3, 0.0, 1.5);
  }

 private:
  struct Class {
    std::int64_t held = 0;
    std::int64_t capacity = 0;
    double average = 0;
    Nanos at = 0;
  };
  std::vector<Class> classes_;
  double memoryMs_ = 10'000;
};

}  // namespace laxity
