// The instances as the pair planner sees them: flat, persistent, updated by events and constant during a
// plan.
//
// Slots are the driver's, dense, below kMaxInstances. Equal pairs go by perm[d], then perm[p] (CONTRACT 7):
// the driver gives each instance its `tie`, and the pools keep the rank of (tie, slot) among all instances
// known. Adding an instance or changing its presence is O(n log n) (rare); every other event costs what is
// written beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/fixed.h"
#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "cluster/instance.h"
#include "model/latency.h"
#include "planner/release_list.h"

namespace laxity {

inline constexpr std::uint32_t kMaxPlannerClasses = 64;  ///< per pool

struct PrefillInstance {
  std::uint32_t hardwareClass = 0;
  std::uint32_t rank = 0;
  std::uint64_t tie = 0;
  Nanos ready = 0;  ///< end of its running and committed prefills: their serial sum
  std::uint32_t revision = 0;
  bool known = false;
  bool present = false;  ///< may get new calls
  bool open = false;     ///< idle, or with credit for a lease: a plan goes on until it has a call
};

class PrefillPool {
 public:
  /// Forgets everything. Classes are dense, 1 .. kMaxPlannerClasses.
  Status configure(std::uint32_t classes);

  /// A slot whose instance is not present may be added again, also with another class.
  Status add(std::uint32_t slot, std::uint32_t hardwareClass, std::uint64_t tie);
  Status setPresent(std::uint32_t slot, bool present);
  Status setReady(std::uint32_t slot, Nanos ready);  ///< O(1)
  Status setOpen(std::uint32_t slot, bool open);     ///< O(1)
  Status revise(std::uint32_t slot);                 ///< O(1): makes entries of earlier plans recognisable

  std::size_t size() const { return instances_.size(); }
  std::uint32_t classes() const { return static_cast<std::uint32_t>(members_.size()); }
  std::uint32_t present() const { return present_; }
  std::uint32_t open() const { return open_; }  ///< present and open
  const PrefillInstance& at(std::uint32_t slot) const { return instances_[slot]; }
  /// Present instances of a class by ascending rank.
  const std::vector<std::uint32_t>& members(std::uint32_t k) const { return members_[k]; }
  std::uint32_t slotOf(std::uint32_t rank) const { return byRank_[rank]; }

 private:
  bool knows(std::uint32_t slot) const { return slot < instances_.size() && instances_[slot].known; }
  void index();

  std::vector<PrefillInstance> instances_;
  std::vector<std::vector<std::uint32_t>> members_;
  std::vector<std::uint32_t> byRank_;
  std::uint32_t present_ = 0;
  std::uint32_t open_ = 0;
};

/// Time per output token, ns = round((base + perSequence * (batch + 1) + perContext * context) / 2^20), at
/// least 1: the committed batch plus the call in question, for its whole output. None may be negative: the
/// planner needs that commits never lower it.
struct DecodeClass {
  Fine base = 0;
  Fine perSequence = 0;
  Fine perContext = 0;
  const LatencyModel* latency = nullptr;  ///< in place of the three; rises with batch and context

  Nanos perToken(std::int64_t batch, std::int64_t context) const {
    const Nanos ns =
        latency != nullptr
            ? roundFine(latency->piece(static_cast<std::uint32_t>(batch + 1), context).at(context))
            : roundFine(FineSum{base} + FineSum{perSequence} * (batch + 1) + FineSum{perContext} * context);
    return ns < 1 ? 1 : (ns > kMaxPerToken ? kMaxPerToken : ns);
  }
  static constexpr Nanos kMaxPerToken = Nanos{1} << 53;
};

struct DecodeInstance {
  std::uint32_t hardwareClass = 0;
  std::uint32_t rank = 0;
  std::uint64_t tie = 0;
  std::int64_t capacity = 0;  ///< KV tokens
  std::int64_t used = 0;      ///< KV of the committed calls and foreign, may exceed the capacity
  std::int64_t context = 0;   ///< their expected context
  std::int64_t batch = 0;     ///< their sequences
  std::int64_t foreignKv = 0;
  std::int64_t foreignSequences = 0;
  Nanos foreignUntil = 0;
  Nanos perToken = 1;  ///< of one more call
  std::uint32_t revision = 0;
  std::uint32_t position = 0;  ///< in the list of its class
  bool known = false;
  bool present = false;
  ReleaseList releases;
};

/// One step of a scan: integers below 2^53 held in doubles.
struct DecodeCandidate {
  double perToken;
  double rank;
  std::uint32_t slot;
};

/// Which calls a pool holds is the driver's choice: all committed ones for pairs, the admitted ones for the
/// decode stage (CONTRACT 5). A call is known by an id of the driver's (its slot).
class DecodePool {
 public:
  /// Forgets everything. kBadValue where a coefficient is negative.
  Status configure(std::span<const DecodeClass> classes);

  /// A slot whose instance is not present and holds no call may be added again.
  Status add(std::uint32_t slot, std::uint32_t hardwareClass, std::int64_t capacity, std::uint64_t tie);
  Status setPresent(std::uint32_t slot, bool present);
  Status setCapacity(std::uint32_t slot, std::int64_t capacity);  ///< O(1)
  /// What a token of KV on an instance of the class costs, in parts of the time that the call decodes there
  /// (pair_planner.h): finite, >= 0. O(1)
  Status setPrice(std::uint32_t hardwareClass, double perToken);
  Status setClock(std::uint32_t slot, Nanos at, std::int64_t iteration, Nanos perIteration);  ///< O(1)
  Status revise(std::uint32_t slot);                                                          ///< O(1)

  /// A call commits to `slot` and holds `kv` tokens until `finish`. These and the following: the cost of the
  /// release list, plus a move past the instances of its class that now differ in order.
  Status reserve(std::uint32_t id, std::uint32_t slot, std::int64_t kv, std::int64_t context,
                 std::uint32_t sequences, Nanos finish);
  /// A committed call decodes and ends with iteration `iteration` of its instance; again, to correct it.
  Status run(std::uint32_t id, std::int64_t iteration);
  /// A committed call that does not decode yet has another projected finish.
  Status expect(std::uint32_t id, Nanos finish);
  /// A committed call holds another amount (its prediction was short).
  Status resize(std::uint32_t id, std::int64_t kv, std::int64_t context);
  Status release(std::uint32_t id);
  /// The instance holds so much that is none of the driver's calls, until then; in place of what it was told
  /// before.
  Status setForeign(std::uint32_t slot, std::int64_t kv, std::uint32_t sequences, Nanos until);

  std::size_t size() const { return instances_.size(); }
  std::uint32_t classes() const { return static_cast<std::uint32_t>(classes_.size()); }
  const DecodeClass& hardware(std::uint32_t k) const { return classes_[k]; }
  double price(std::uint32_t k) const { return prices_[k]; }
  const DecodeInstance& at(std::uint32_t slot) const { return instances_[slot]; }
  /// Present instances of a class by ascending (perToken, rank).
  const std::vector<DecodeCandidate>& list(std::uint32_t k) const { return lists_[k]; }
  std::uint32_t slotOf(std::uint32_t rank) const { return byRank_[rank]; }
  bool holds(std::uint32_t id) const { return id < held_.size() && held_[id].slot != kNoSlot; }

 private:
  struct Held {
    std::uint32_t slot = kNoSlot;
    std::uint32_t sequences = 0;
    std::int64_t kv = 0;
    std::int64_t context = 0;
    std::int64_t key = 0;
    bool running = false;
  };

  bool knows(std::uint32_t slot) const { return slot < instances_.size() && instances_[slot].known; }
  void index();
  void reprice(std::uint32_t slot);
  void enlist(std::uint32_t id);
  void delist(std::uint32_t id);

  std::vector<DecodeInstance> instances_;
  std::vector<DecodeClass> classes_;
  std::vector<double> prices_;  ///< by class
  std::vector<std::vector<DecodeCandidate>> lists_;
  std::vector<std::uint32_t> byRank_;
  std::vector<Held> held_;
};

}  // namespace laxity
