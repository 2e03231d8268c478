// The waiting calls of one queue as lines, for orders whose keys move with time (order.h, `line`): who may be
// the most urgent, and what stands ahead of a key, without evaluating every key.
//
// On an instance without prefills beside decode a key is
//   (max(t, ready) - start + prefill + output * (iteration + perContext * context) + offset) / scale,
// where t, ready, the iteration and perContext are those of the queue and everything else belongs to the
// call: four products a call, computed once, give its key at any time, but for rounding. `eachMostUrgent`
// visits every call whose estimate reaches the largest one less what rounding can hide: the exact argmax is
// among them, and nearly always it alone. `ahead` sums what surely stands ahead of a key and asks only about
// calls whose estimates are as near to it as rounding. Orders without Delta have iteration = perContext = 0
// and ready = t.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace laxity {

class KeyLines {
 public:
  static constexpr std::size_t kWorth = 4;  ///< calls of a queue up to which evaluating every key is as cheap

  struct Line {
    Nanos start = 0;
    double offset = 0;   ///< ns, prefill included
    double scale = 1;    ///< ns, at least 1
    double output = 0;   ///< tokens
    double context = 0;  ///< tokens, expected while it decodes
    bool last = false;   ///< behind every call that is not
    Nanos prefill = 0;   ///< what `ahead` sums
    std::int64_t kv = 0;
  };
  /// What the calls of the queue share now; ns and tokens.
  struct Common {
    Nanos ready = 0;
    double iteration = 0;  ///< at the context of the leases
    double perContext = 0;
  };
  struct Ahead {
    Nanos prefill = 0;
    std::int64_t kv = 0;
    std::uint32_t calls = 0;
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
    if (at / kLanes == blocks_.size()) {
      blocks_.emplace_back();
      costs_.emplace_back();
    }
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
      Costs& toCosts = costs_[at / kLanes];
      const Costs& fromCosts = costs_[last / kLanes];
      toCosts.prefill[at % kLanes] = fromCosts.prefill[last % kLanes];
      toCosts.kv[at % kLanes] = fromCosts.kv[last % kLanes];
      slots_[at] = slots_[last];
      (*positions)[slots_[at]] = at;
    }
    slots_.pop_back();
    blocks_[last / kLanes].clear(last % kLanes);
    if (last % kLanes == 0) {
      blocks_.pop_back();
      costs_.pop_back();
    }
    // Bounds only grow by changes: now and then they are taken anew.
    if (++removed_ > size()) tighten();
  }

  void clear() {
    slots_.clear();
    blocks_.clear();
    costs_.clear();
  }

  /// visit(slot), in no particular order.
  template <class Visit>
  void eachMostUrgent(const Common& common, Visit&& visit) {
    const At at = atOf(common);
    std::array<double, kLanes> best;
    best.fill(-std::numeric_limits<double>::infinity());
    for (Block& block : blocks_) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        const double v = block.at(at, i);
        block.estimate[i] = v;
        best[i] = v > best[i] ? v : best[i];
      }
    }
    const double most = std::max(std::max(best[0], best[1]), std::max(best[2], best[3]));
    const double least = most - hidden(at);
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (blocks_[i / kLanes].estimate[i % kLanes] >= least) visit(slots_[i]);
    }
  }

  /// What stands ahead of `key`, that of a call which is not `last`. isAhead(slot) decides where estimates
  /// cannot.
  template <class IsAhead>
  Ahead ahead(const Common& common, double key, IsAhead&& isAhead) const {
    const At at = atOf(common);
    const double hides = hidden(at);
    const double above = key + hides;
    const double below = key - hides;
    Whole prefill[kPairs]{};
    Whole kv[kPairs]{};
    Whole calls[kPairs]{};
    Ahead sum;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      Whole near{};
#pragma GCC unroll 2
      for (std::size_t p = 0; p < kPairs; ++p) {
        const Block& block = blocks_[b];
        const auto term = [&](std::size_t k) { return pair<Real>(block.term[k], p); };
        const Real v = term(kShift) + at[0] * term(kInverse) + at[1] * term(kOutput) + at[2] * term(kReach);
        const Whole surely = v > above;  // all bits where it holds
        const Whole perhaps = v >= below;
        prefill[p] += surely & pair<Whole>(costs_[b].prefill, p);
        kv[p] += surely & pair<Whole>(costs_[b].kv, p);
        calls[p] -= surely;
        near |= perhaps ^ surely;
      }
      if ((near[0] | near[1]) == 0) continue;
      for (std::size_t i = 0; i < kLanes; ++i) {
        const double v = blocks_[b].at(at, i);
        if (v > above || !(v >= below) || !isAhead(slots_[b * kLanes + i])) continue;
        sum.prefill += costs_[b].prefill[i];
        sum.kv += costs_[b].kv[i];
        ++sum.calls;
      }
    }
    for (std::size_t p = 0; p < kPairs; ++p) {
      for (std::size_t i = 0; i < 2; ++i) {
        sum.prefill += prefill[p][i];
        sum.kv += kv[p][i];
        sum.calls += static_cast<std::uint32_t>(calls[p][i]);
      }
    }
    return sum;
  }

 private:
  static constexpr std::size_t kLanes = 4;
  // Compilers make no masks of comparisons on their own; two lanes are in every instruction set.
  static constexpr std::size_t kPairs = kLanes / 2;
  using Real = double __attribute__((vector_size(16)));
  using Whole = std::int64_t __attribute__((vector_size(16)));
  static constexpr std::size_t kTerms = 4;
  enum : std::size_t { kInverse, kOutput, kReach, kShift };
  using At = std::array<double, kTerms - 1>;

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
    double at(const At& x, std::size_t i) const {
      return term[kShift][i] + x[0] * term[kInverse][i] + x[1] * term[kOutput][i] + x[2] * term[kReach][i];
    }
  };
  /// Apart from the lines: picks do not read them.
  struct Costs {
    std::array<Nanos, kLanes> prefill{};
    std::array<std::int64_t, kLanes> kv{};
  };
  template <class Pair, class T>
  static Pair pair(const std::array<T, kLanes>& lanes, std::size_t p) {
    Pair two;
    std::memcpy(&two, lanes.data() + 2 * p, sizeof(two));
    return two;
  }

  At atOf(const Common& common) const {
    return {static_cast<double>(common.ready - origin_), common.iteration, common.perContext};
  }

  /// By how much two calls whose keys compare one way may compare the other way by their estimates. Some ten
  /// roundings, each below 2^-53 of the largest term; a key's numerator is rounded to whole nanoseconds.
  double hidden(const At& at) const {
    double terms = bound_[kShift];
    for (std::size_t k = 0; k < kTerms - 1; ++k) terms += at[k] * bound_[k];
    return 0x1p-48 * terms + 2 * bound_[kInverse];
  }

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
    costs_[at / kLanes].prefill[i] = line.prefill;
    costs_[at / kLanes].kv[i] = line.kv;
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
  std::vector<Costs> costs_;            ///< by block
  std::array<double, kTerms> bound_{};  ///< of the absolute value of each term
  double mostOutput_ = 0;
  double mostContext_ = 0;
  Nanos origin_ = 0;
  std::uint32_t removed_ = 0;  ///< since the bounds were taken
};

}  // namespace laxity
