// The waiting calls of one queue as lines, for orders whose keys move with time (order.h, `line`): who may be
// the most urgent, without evaluating every key.
//
// On an instance without prefills beside decode a key is
//   (max(t, ready) - start + prefill + output * (iteration + perContext * context) + offset) / scale,
// where t, ready, the iteration and perContext are those of the queue and everything else belongs to the
// call: four products a call, computed once, give its key at any time, but for rounding. `eachMostUrgent`
// visits every call whose estimate reaches the largest one less what rounding can hide: the exact argmax is
// among them, and nearly always it alone. Orders without Delta have iteration = perContext = 0 and ready = t.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace laxity {

class KeyLines {
 public:
  struct Line {
    Nanos start = 0;
    double offset = 0;   ///< ns, prefill included
    double scale = 1;    ///< ns, at least 1
    double output = 0;   ///< tokens
    double context = 0;  ///< tokens, expected while it decodes
    bool last = false;   ///< behind every call that is not
  };
  /// What the calls of the queue share now; ns and tokens.
  struct Common {
    Nanos ready = 0;
    double iteration = 0;  ///< at the context of the leases
    double perContext = 0;
  };

  std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
  /// Upper bounds over the calls.
  double mostOutput() const { return mostOutput_; }
  double mostContext() const { return mostContext_; }

  /// `positions` belongs to all queues together, by call slot.
  void add(std::uint32_t slot, const Line& line, std::vector<std::uint32_t>* positions) {
    if (slots_.empty()) reset(line);
    if (positions->size() <= slot) positions->resize(std::size_t{slot} + 1);
    const std::uint32_t at = size();
    (*positions)[slot] = at;
    slots_.push_back(slot);
    if (at / kLanes == blocks_.size()) blocks_.emplace_back();
    put(at, line);
  }

  void change(std::uint32_t slot, const Line& line, const std::vector<std::uint32_t>& positions) {
    put(positions[slot], line);
  }

  void remove(std::uint32_t slot, std::vector<std::uint32_t>* positions) {
    const std::uint32_t at = (*positions)[slot];
    const std::uint32_t last = size() - 1;
    if (at != last) {
      Block& to = blocks_[at / kLanes];
      const Block& from = blocks_[last / kLanes];
      for (std::size_t k = 0; k < kTerms; ++k) to.term[k][at % kLanes] = from.term[k][last % kLanes];
      slots_[at] = slots_[last];
      (*positions)[slots_[at]] = at;
    }
    slots_.pop_back();
    blocks_[last / kLanes].clear(last % kLanes);
    if (last % kLanes == 0) blocks_.pop_back();
    // Bounds only grow by changes: now and then they are taken anew.
    if (++removed_ > size()) tighten();
  }

  void clear() {
    slots_.clear();
    blocks_.clear();
  }

  /// visit(slot), in no particular order.
  template <class Visit>
  void eachMostUrgent(const Common& common, Visit&& visit) {
    const double x = static_cast<double>(common.ready - origin_);
    const std::array<double, kTerms - 1> at{x, common.iteration, common.perContext};
    std::array<double, kLanes> best;
    best.fill(-std::numeric_limits<double>::infinity());
    for (Block& block : blocks_) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        const double v = block.term[kShift][i] + at[0] * block.term[kInverse][i] +
                         at[1] * block.term[kOutput][i] + at[2] * block.term[kReach][i];
        block.estimate[i] = v;
        best[i] = v > best[i] ? v : best[i];
      }
    }
    const double most = std::max(std::max(best[0], best[1]), std::max(best[2], best[3]));
    // Some ten roundings, each below 2^-53 of the largest term; a key's numerator is rounded to whole
    // nanoseconds.
    double terms = bound_[kShift];
    for (std::size_t k = 0; k < kTerms - 1; ++k) terms += at[k] * bound_[k];
    const double least = most - (0x1p-48 * terms + 2 * bound_[kInverse]);
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (blocks_[i / kLanes].estimate[i % kLanes] >= least) visit(slots_[i]);
    }
  }

 private:
  static constexpr std::size_t kLanes = 4;
  static constexpr std::size_t kTerms = 4;
  enum : std::size_t { kInverse, kOutput, kReach, kShift };

  struct Block {
    std::array<std::array<double, kLanes>, kTerms> term;
    std::array<double, kLanes> estimate;

    Block() {
      for (std::size_t i = 0; i < kLanes; ++i) clear(i);
    }
    void clear(std::size_t i) {
      for (std::size_t k = 0; k < kTerms; ++k) term[k][i] = 0;
      term[kShift][i] = -std::numeric_limits<double>::infinity();
    }
  };

  /// Times count from the first call's, so that they stay small.
  void reset(const Line& line) {
    origin_ = line.start;
    bound_.fill(0);
    mostOutput_ = mostContext_ = 0;
    removed_ = 0;
  }

  void put(std::uint32_t at, const Line& line) {
    Block& block = blocks_[at / kLanes];
    const std::size_t i = at % kLanes;
    block.clear(i);
    if (line.last) return;
    const double inverse = 1 / line.scale;
    block.term[kInverse][i] = inverse;
    block.term[kOutput][i] = line.output * inverse;
    block.term[kReach][i] = line.output * line.context * inverse;
    block.term[kShift][i] = (static_cast<double>(origin_ - line.start) + line.offset) * inverse;
    raise(block, i);
    mostOutput_ = std::max(mostOutput_, line.output);
    mostContext_ = std::max(mostContext_, line.context);
  }

  void raise(const Block& block, std::size_t i) {
    if (block.term[kInverse][i] == 0) return;
    for (std::size_t k = 0; k < kTerms; ++k) bound_[k] = std::max(bound_[k], std::abs(block.term[k][i]));
  }

  void tighten() {
    removed_ = 0;
    bound_.fill(0);
    for (std::uint32_t at = 0; at < size(); ++at) raise(blocks_[at / kLanes], at % kLanes);
  }

  std::vector<std::uint32_t> slots_;
  std::vector<Block> blocks_;
  std::array<double, kTerms> bound_{};  ///< of the absolute value of each term
  double mostOutput_ = 0;
  double mostContext_ = 0;
  Nanos origin_ = 0;
  std::uint32_t removed_ = 0;  ///< since the bounds were taken
};

}  // namespace laxity
