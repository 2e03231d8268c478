// The calls that wait for a pair of instances, flat and persistent.
//
// Each has one prefill time per prefill class, and one transfer time per pair of classes: a part of its own
// plus `moved` tokens times what the link between the classes takes per token at its present load. `setLink`
// changes that for all calls at once, and it is frozen during a plan. At most two prefill instances may hold
// a prefix of the call: there its prefill takes `Holder::prefill`, or the time of the class where that is
// shorter. Calls are kept in ascending KV need, so that one walk along a release list answers for all of
// them.
//
// Costs, N calls: add and remove O(log N) to find plus a move of at most N entries of 16 bytes, and the
// call's own times; the other changes O(1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"

namespace laxity {

struct Holder {
  std::uint32_t instance = kNoSlot;  ///< slot of a prefill instance
  Nanos prefill = 0;
};

struct WaitingCall {
  Nanos arrival = 0;       ///< of its workflow
  std::uint64_t rank = 0;  ///< (workflow sequence, reveal sequence), unique: the tail of every tie
  double inverseHorizon =
      1;                 ///< slope of the score: of `ratio` 1 / (H_w(t) + hint), rounded once; H_w >= 1 ns
  Nanos hint = 0;        ///< shift of the score: of `ratio` F, 0 without one (order.h, ProjectedKey)
  std::int64_t key = 0;  ///< of an order that does not depend on the projection: the larger goes first
  std::int64_t kv = 0;   ///< m = prompt + predicted output, tokens, >= 1
  std::uint32_t output = 0;  ///< predicted output, tokens, >= 1
  std::uint32_t sequences = 1;
  std::uint32_t moved = 0;       ///< tokens that the links are asked for, at most kMaxMoved
  std::uint32_t lock = kNoSlot;  ///< the only decode instance it may use
  Holder holders[2];
};

inline constexpr std::uint32_t kMaxMoved = 1u << 27;
inline constexpr Nanos kMaxLinkTime = Nanos{1} << 23;  ///< per token: the product stays an exact double

class WaitingCalls {
 public:
  /// Forgets every call.
  void configure(std::uint32_t prefillClasses, std::uint32_t decodeClasses);

  /// `prefill`: per prefill class; `transfer`: [prefill class * decode classes + decode class]. kNever where
  /// the call cannot run. The driver rejects calls larger than every KV cache: here they would only stay
  /// unplanned.
  Status add(std::uint32_t slot, WaitingCall call, std::span<const Nanos> prefill,
             std::span<const Nanos> transfer);
  Status remove(std::uint32_t slot);

  /// ns per moved token between two classes; longer times count as kMaxLinkTime.
  Status setLink(std::uint32_t prefillClass, std::uint32_t decodeClass, Nanos perToken);
  Status setHorizon(std::uint32_t slot, double inverseHorizon, Nanos hint);
  Status setKey(std::uint32_t slot, std::int64_t key);
  Status setLock(std::uint32_t slot, std::uint32_t lock);
  Status setHolders(std::uint32_t slot, Holder first, Holder second);

  std::uint32_t size() const { return static_cast<std::uint32_t>(byKv_.size()); }
  bool holds(std::uint32_t slot) const { return slot < calls_.size() && calls_[slot].kv > 0; }
  std::uint32_t prefillClasses() const { return prefillClasses_; }
  std::uint32_t decodeClasses() const { return decodeClasses_; }
  const WaitingCall& at(std::uint32_t slot) const { return calls_[slot]; }
  /// How many calls have a lock or a holder: plans skip what nobody needs.
  std::uint32_t locked() const { return locked_; }
  std::uint32_t withHolders() const { return withHolders_; }

  struct ByKv {
    std::int64_t kv;
    std::uint32_t slot;
  };
  const std::vector<ByKv>& byKv() const { return byKv_; }

  /// By [prefill class * decode classes + decode class].
  const double* links() const { return links_.data(); }
  /// Integers below 2^53 in doubles, infinite where the call cannot run; transfers without their links.
  const double* prefill(std::uint32_t slot) const {
    return prefill_.data() + std::size_t{slot} * prefillClasses_;
  }
  const double* transfer(std::uint32_t slot) const {
    return transfer_.data() + std::size_t{slot} * prefillClasses_ * decodeClasses_;
  }

 private:
  void count(const WaitingCall& call, std::uint32_t by);

  std::uint32_t prefillClasses_ = 0;
  std::uint32_t decodeClasses_ = 0;
  std::uint32_t locked_ = 0;
  std::uint32_t withHolders_ = 0;
  std::vector<WaitingCall> calls_;
  std::vector<double> prefill_;
  std::vector<double> transfer_;
  std::vector<double> links_;
  std::vector<ByKv> byKv_;
};

}  // namespace laxity
