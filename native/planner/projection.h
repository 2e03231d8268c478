// The decode instances as they would be after the calls planned so far: a tentative copy of what a plan
// changes.
//
// The pool itself is constant during a plan, so nothing has to be undone: lists and totals are copied at the
// start (O(instances)), a release list only when a planned call must be inserted into it, and that only when
// somebody asks when its KV becomes free.
//
// w_d(m), the earliest time at which m tokens fit without backfill (planner.md 2): 0 where m is free now,
// infinite where m exceeds the capacity (or the releases known never free enough). Times are offsets to t:
// integers below 2^53 in doubles.
//
// Commits only raise every w_d and every time per token (planner.md, claim 3).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planner/pools.h"

namespace laxity {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();

class DecodeProjection {
 public:
  /// `steps`: how many commits may follow.
  void begin(const DecodePool& pool, Nanos t, std::uint32_t steps);

  std::uint32_t classes() const { return static_cast<std::uint32_t>(firsts_.size()) - 1; }
  const DecodeCandidate* first(std::uint32_t k) const { return list_.data() + firsts_[k]; }
  const DecodeCandidate* last(std::uint32_t k) const { return list_.data() + firsts_[k + 1]; }
  const DecodeCandidate* candidate(std::uint32_t slot) const { return list_.data() + state_[slot].position; }
  bool present(std::uint32_t slot) const { return slot < state_.size() && state_[slot].present; }
  std::uint32_t classOf(std::uint32_t slot) const { return state_[slot].hardwareClass; }
  std::int64_t free(std::uint32_t slot) const { return state_[slot].capacity - state_[slot].used; }
  std::int64_t capacity(std::uint32_t slot) const { return state_[slot].capacity; }

  /// w_d(kv), O(log n).
  double wait(std::uint32_t slot, std::int64_t kv) {
    State& d = state_[slot];
    if (kv > d.capacity) return kInfinite;
    if (kv <= d.capacity - d.used) return 0;
    return offset(window(slot).at(kv - (d.capacity - d.used)));
  }

  /// The same for calls in ascending KV, all of them more than `free` and within the capacity.
  void waits(std::uint32_t slot, std::span<const std::int64_t> kv, std::int64_t free, double* out);

  /// The instance's releases with every planned call in them.
  const ReleaseWindow& window(std::uint32_t slot) {
    State& d = state_[slot];
    if (!d.loaded || d.pending != kNoSlot) load(slot);
    return d.window;
  }
  double offset(Nanos time) const { return time == kNever ? kInfinite : static_cast<double>(time - t_); }

  /// O(instances of the class that now differ in order).
  void commit(std::uint32_t slot, std::int64_t kv, std::uint32_t sequences, Nanos finish);

 private:
  struct State {
    std::int64_t capacity;
    std::int64_t used;
    std::int64_t context;
    std::int64_t batch;
    std::uint32_t hardwareClass;
    std::uint32_t position;  ///< in list_
    std::uint32_t pending;   ///< last planned call not yet in the releases
    bool present;
    bool loaded;
    bool own;  ///< the releases are a copy
    ReleaseWindow window;
  };
  struct Planned {
    Nanos finish;
    std::int64_t kv;
    std::uint32_t previous;
  };
  struct Releases {
    std::vector<Nanos> time;
    std::vector<std::int64_t> released;
  };

  void load(std::uint32_t slot);

  const DecodePool* pool_ = nullptr;
  Nanos t_ = 0;
  std::vector<State> state_;
  std::vector<DecodeCandidate> list_;
  std::vector<std::uint32_t> firsts_;
  std::vector<Planned> planned_;
  std::vector<Releases> own_;
};

}  // namespace laxity
