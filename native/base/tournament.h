// A tournament (winner) tree: the smallest of n values, ties to the smallest index. set is O(log n), the
// minimum O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace laxity {

class TournamentTree {
 public:
  TournamentTree() { resize(0); }

  /// Keeps the values of surviving leaves; new leaves hold kNever.
  void resize(std::size_t n) {
    std::vector<Nanos> values(
        values_.begin(),
        values_.begin() + static_cast<std::ptrdiff_t>(n < values_.size() ? n : values_.size()));
    size_ = n;
    leaves_ = 1;
    while (leaves_ < n) leaves_ *= 2;
    values.resize(leaves_, kNever);
    values_ = std::move(values);
    winner_.assign(leaves_ * 2, 0);
    for (std::size_t i = 0; i < leaves_; ++i) winner_[leaves_ + i] = static_cast<std::uint32_t>(i);
    for (std::size_t node = leaves_ - 1; node >= 1; --node) play(node);
  }

  std::size_t size() const { return size_; }
  Nanos value(std::size_t i) const { return values_[i]; }
  std::size_t minIndex() const { return winner_[1]; }
  Nanos min() const { return values_[winner_[1]]; }

  void set(std::size_t i, Nanos value) {
    if (leaves_ <= kFlat) {
      setFlat(i, value);
      return;
    }
    if (values_[i] == value) return;
    values_[i] = value;
    for (std::size_t node = (leaves_ + i) / 2; node >= 1; node /= 2) {
      const std::uint32_t before = winner_[node];
      play(node);
      if (winner_[node] == before && before != i) return;  // the change lost here, before and now
    }
  }

 private:
  static constexpr std::size_t kFlat = 8;  ///< up to here a scan is cheaper than a climb

  /// Only the root is kept up to date.
  void setFlat(std::size_t i, Nanos value) {
    Nanos* values = values_.data();
    std::size_t best = winner_[1];
    values[i] = value;
    if (i == best) {
      best = 0;
      for (std::size_t j = 1; j < leaves_; ++j) best = values[j] < values[best] ? j : best;
    } else if (value < values[best] || (value == values[best] && i < best)) {
      best = i;
    } else {
      return;
    }
    winner_[1] = static_cast<std::uint32_t>(best);
  }

  void play(std::size_t node) {
    const std::uint32_t left = winner_[node * 2];
    const std::uint32_t right = winner_[node * 2 + 1];
    winner_[node] = values_[right] < values_[left] ? right : left;
  }

  std::size_t size_ = 0;
  std::size_t leaves_ = 1;
  std::vector<Nanos> values_;
  std::vector<std::uint32_t> winner_;
};

}  // namespace laxity
