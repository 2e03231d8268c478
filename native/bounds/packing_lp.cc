#include "bounds/packing_lp.h"

#include <algorithm>
#include <cmath>

namespace laxity::bounds {

void PackingLp::reset(std::span<const std::uint8_t> open) {
  workflows_ = open.size();
  nonbasic_.clear();
  for (std::uint32_t w = 0; w < workflows_; ++w) {
    if (open[w] != 0) nonbasic_.push_back(w);
  }
  columns_ = nonbasic_.size();
  atUpper_.assign(columns_, 1);
  reduced_.assign(columns_, 1);
  basic_.clear();
  values_.clear();
  tableau_.clear();
  scale_.clear();
  z_.assign(workflows_, 0);
  y_.clear();
  read();
}

double PackingLp::upper(std::uint32_t variable) const { return variable < workflows_ ? 1 : HUGE_VAL; }

void PackingLp::addRow(std::span<const double> work, double capacity) {
  const auto slack = static_cast<std::uint32_t>(workflows_ + basic_.size());
  tableau_.resize(tableau_.size() + columns_, 0);
  double* fresh = tableau_.data() + basic_.size() * columns_;
  double used = 0;
  for (std::size_t j = 0; j < columns_; ++j) {
    if (nonbasic_[j] >= workflows_) continue;
    fresh[j] = work[nonbasic_[j]] / capacity;
    used += fresh[j] * valueOf(j);
  }
  for (std::size_t i = 0; i < basic_.size(); ++i) {
    if (basic_[i] >= workflows_) continue;
    const double a = work[basic_[i]] / capacity;
    if (a == 0) continue;
    used += a * values_[i];
    const double* from = row(i);
    for (std::size_t j = 0; j < columns_; ++j) fresh[j] -= a * from[j];
  }
  basic_.push_back(slack);
  values_.push_back(1 - used);
  scale_.push_back(capacity);
}

void PackingLp::flip(std::size_t column) {
  const double delta = atUpper_[column] != 0 ? -1 : 1;
  atUpper_[column] ^= 1;
  for (std::size_t i = 0; i < basic_.size(); ++i) values_[i] -= row(i)[column] * delta;
}

void PackingLp::pivot(std::size_t r, std::size_t column, double leavingValue) {
  double* pr = row(r);
  const double p = pr[column];
  // entering = (constant - leaving - sum others) / p
  const double change = (values_[r] - leavingValue) / p;  // of the entering variable
  for (std::size_t i = 0; i < basic_.size(); ++i) {
    if (i != r) values_[i] -= row(i)[column] * change;
  }
  values_[r] = valueOf(column) + change;
  const double inverse = 1 / p;
  for (std::size_t j = 0; j < columns_; ++j) pr[j] *= inverse;
  pr[column] = inverse;
  for (std::size_t i = 0; i < basic_.size(); ++i) {
    if (i == r) continue;
    double* to = row(i);
    const double factor = to[column];
    if (factor == 0) continue;
    for (std::size_t j = 0; j < columns_; ++j) to[j] -= factor * pr[j];
    to[column] = -factor * inverse;
  }
  const double d = reduced_[column];
  if (d != 0) {
    for (std::size_t j = 0; j < columns_; ++j) reduced_[j] -= d * pr[j];
    reduced_[column] = -d * inverse;
  }
  std::swap(basic_[r], nonbasic_[column]);
  atUpper_[column] = leavingValue > 0 ? 1 : 0;
}

/// Row r is outside its bounds: long-step ratio test, then a pivot. False where nothing may enter.
bool PackingLp::step(std::size_t r) {
  const double top = upper(basic_[r]);
  const bool below = values_[r] < 0;
  double excess = below ? -values_[r] : values_[r] - top;
  const double* pr = row(r);
  candidates_.clear();
  for (std::uint32_t j = 0; j < columns_; ++j) {
    const double toward = below ? -pr[j] : pr[j];  // > 0: raising it helps
    if (atUpper_[j] != 0 ? toward < -kTolerance : toward > kTolerance) candidates_.push_back(j);
  }
  if (candidates_.empty()) return false;
  const auto ratio = [&](std::uint32_t j) { return std::fabs(reduced_[j] / pr[j]); };
  std::sort(candidates_.begin(), candidates_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double x = ratio(a);
    const double y = ratio(b);
    return x != y ? x < y : a < b;
  });
  std::size_t chosen = 0;
  for (; chosen + 1 < candidates_.size(); ++chosen) {
    const std::uint32_t j = candidates_[chosen];
    if (nonbasic_[j] >= workflows_ || excess - std::fabs(pr[j]) <= 0) break;
    excess -= std::fabs(pr[j]);
  }
  for (std::size_t i = 0; i < chosen; ++i) flip(candidates_[i]);
  pivot(r, candidates_[chosen], below ? 0 : top);
  return true;
}

bool PackingLp::solve() {
  const std::size_t most = 50 + 20 * (basic_.size() + columns_);
  bool solved = false;
  for (std::size_t steps = 0; steps < most; ++steps) {
    std::size_t worst = basic_.size();
    double most_ = 1e-8;
    for (std::size_t i = 0; i < basic_.size(); ++i) {
      const double outside = std::max(-values_[i], values_[i] - upper(basic_[i]));
      if (outside > most_) {
        most_ = outside;
        worst = i;
      }
    }
    if (worst == basic_.size()) {
      solved = true;
      break;
    }
    if (!step(worst)) break;
  }
  read();
  return solved;
}

void PackingLp::read() {
  y_.assign(basic_.size(), 0);
  value_ = 0;
  for (std::size_t j = 0; j < columns_; ++j) {
    if (nonbasic_[j] < workflows_)
      z_[nonbasic_[j]] = valueOf(j);
    else
      y_[nonbasic_[j] - workflows_] = -reduced_[j] / scale_[nonbasic_[j] - workflows_];
  }
  for (std::size_t i = 0; i < basic_.size(); ++i) {
    if (basic_[i] < workflows_) z_[basic_[i]] = std::clamp(values_[i], 0.0, 1.0);
  }
  for (const double z : z_) value_ += z;
}

}  // namespace laxity::bounds
