// What the laws of stations count with, of unified and of prefill-decode clusters.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/time.h"

namespace laxity::trial {

/// Time integral of the number in a station, counted event by event.
class Count {
 public:
  void change(Nanos t, int by) {
    area_ += static_cast<Nanos>(number_) * (t - last_);
    last_ = t;
    number_ += by;
    least_ = std::min(least_, number_);
    most_ = std::max(most_, number_);
  }
  Nanos area() const { return area_; }
  bool empty() const { return number_ == 0 && least_ == 0; }
  int most() const { return most_; }

 private:
  Nanos area_ = 0, last_ = 0;
  int number_ = 0, least_ = 0, most_ = 0;
};

using Busy = std::pair<Nanos, Nanos>;

/// Intervals that touch become one. Ascending.
inline std::vector<Busy> merged(std::vector<Busy> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Busy> out;
  for (const Busy& i : intervals) {
    if (!out.empty() && i.first <= out.back().second)
      out.back().second = std::max(out.back().second, i.second);
    else
      out.push_back(i);
  }
  return out;
}

inline bool covers(const std::vector<Busy>& busy, Nanos from, Nanos to) {
  if (from >= to) return true;
  const auto after = std::upper_bound(busy.begin(), busy.end(), Busy{from, kNever});
  return after != busy.begin() && std::prev(after)->second >= to;
}

}  // namespace laxity::trial
