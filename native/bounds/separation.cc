#include "bounds/separation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace laxity::bounds {
namespace {

/// Of the work an interval has room for: below it an excess is noise.
constexpr double kTolerance = 1e-6;

}  // namespace

void Separation::set(std::size_t leaf, double work) {
  std::size_t i = leaf + leaves_;
  sum_[i] += work;
  prefix_[i] = sum_[i];
  while ((i >>= 1) > 0) {
    sum_[i] = sum_[2 * i] + sum_[2 * i + 1];
    prefix_[i] = std::max(prefix_[2 * i], sum_[2 * i] + prefix_[2 * i + 1]);
  }
}

std::size_t Separation::best() const {
  std::size_t i = 1;
  while (i < leaves_) i = prefix_[2 * i] >= sum_[2 * i] + prefix_[2 * i + 1] ? 2 * i : 2 * i + 1;
  return i - leaves_;
}

void Separation::find(const WorkTerms& terms, std::size_t machine, std::span<const double> z,
                      std::size_t most, std::vector<Overload>* out) {
  const ItemGroup& g = terms.group(terms.machines()[machine]);
  const auto& items = terms.items(machine);
  const auto speed = static_cast<double>(terms.machines()[machine].speed);
  out->clear();
  const std::size_t n = g.byDeadline.size();
  if (n == 0) return;
  leaves_ = std::bit_ceil(n);
  sum_.assign(2 * leaves_, 0);
  prefix_.assign(2 * leaves_, -HUGE_VAL);
  const Nanos origin = g.deadline[g.byDeadline[0]];
  Nanos before = origin;
  for (std::size_t r = 0; r < n; ++r) {
    const Nanos d = g.deadline[g.byDeadline[r]];
    sum_[leaves_ + r] = -speed * static_cast<double>(d - before);
    before = d;
  }
  for (std::size_t i = leaves_; --i > 0;) sum_[i] = sum_[2 * i] + sum_[2 * i + 1];

  found_.clear();
  for (const std::uint32_t i : g.byRelease) {
    const double work = z[g.workflow[i]] * static_cast<double>(items[i]);
    if (!(work > 0)) continue;
    set(g.deadlineRank[i], work);
    const Nanos t1 = g.release[i];
    const double excess = prefix_[1] + speed * static_cast<double>(t1 - origin);
    if (!(excess > 0)) continue;
    const std::uint32_t to = g.byDeadline[best()];
    const Nanos t2 = g.deadline[to];
    if (excess > kTolerance * speed * static_cast<double>(t2 - t1)) found_.push_back({excess, i, to, t1, t2});
  }
  std::sort(found_.begin(), found_.end(), [](const Overload& a, const Overload& b) {
    return a.excess != b.excess ? a.excess > b.excess : a.t1 != b.t1 ? a.t1 < b.t1 : a.from < b.from;
  });
  for (const Overload& o : found_) {
    if (out->size() == most) break;
    const bool near = std::any_of(out->begin(), out->end(), [&](const Overload& other) {
      return std::llabs(o.t1 - other.t1) + std::llabs(o.t2 - other.t2) < (other.t2 - other.t1) / 5;
    });
    if (!near) out->push_back(o);
  }
}

}  // namespace laxity::bounds
