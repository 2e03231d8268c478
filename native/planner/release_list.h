// When the KV of one decode instance becomes free: every committed call as (projected finish, KV tokens).
//
// A function of state, updated by events and never sorted again (CONTRACT 8). Two sorted lists:
//   running  keyed by the iteration at which the call ends (admission iteration + predicted remaining
//   tokens);
//            the clock turns iterations into time, so that one change of the time per iteration moves them
//            all
//   timed    keyed by a projected finish, ns: calls that are leased, in transit or waiting for admission
// `timeline()` merges both into one sorted array of times with prefix sums of KV. It is kept until an event
// changes the lists or the line of the clock, so between two plans only the instances that had events pay.
//
// Costs, n entries: add, remove O(log n) to find plus a move of at most n entries; setClock O(1); timeline
// O(n) after a change, else O(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace laxity {

/// Release times in ascending order; released[i] = KV of the entries 0 .. i.
struct Timeline {
  const Nanos* time = nullptr;
  const std::int64_t* released = nullptr;
  std::uint32_t size = 0;
};

class ReleaseList {
 public:
  void addRunning(std::uint32_t id, std::int64_t iteration, std::int64_t kv) {
    insert(running_, iteration, id, kv);
  }
  void addTimed(std::uint32_t id, Nanos finish, std::int64_t kv) { insert(timed_, finish, id, kv); }

  /// The key must be the one the entry was added with; false where there is no such entry.
  bool removeRunning(std::uint32_t id, std::int64_t iteration) { return remove(running_, iteration, id); }
  bool removeTimed(std::uint32_t id, Nanos finish) { return remove(timed_, finish, id); }

  /// Iteration `iteration` began or ended at `at`; each takes `perIteration` >= 1 ns. A clock on the same
  /// line (advanced by whole iterations) changes nothing.
  void setClock(Nanos at, std::int64_t iteration, Nanos perIteration);

  Nanos perIteration() const { return perIteration_; }
  std::size_t size() const { return running_.size() + timed_.size(); }
  Timeline timeline() const;

 private:
  struct Entry {
    std::int64_t key;
    std::int64_t kv;
    std::uint32_t id;
  };

  void insert(std::vector<Entry>& list, std::int64_t key, std::uint32_t id, std::int64_t kv);
  bool remove(std::vector<Entry>& list, std::int64_t key, std::uint32_t id);
  Nanos timeOf(std::int64_t iteration) const;

  std::vector<Entry> running_;
  std::vector<Entry> timed_;
  Nanos clockAt_ = 0;
  std::int64_t clockIteration_ = 0;
  Nanos perIteration_ = 1;
  mutable bool stale_ = false;
  mutable std::vector<Nanos> time_;
  mutable std::vector<std::int64_t> released_;
};

/// One timeline seen at time t. Entries whose time is not after t are overdue: they release at t + one
/// iteration.
class ReleaseWindow {
 public:
  void set(const Timeline& timeline, Nanos t, Nanos perIteration);

  /// After one more entry later than t, already inserted into the timeline.
  void inserted(const Timeline& timeline, Nanos finish) {
    timeline_ = timeline;
    if (finish < overdueAt_) ++soon_;
  }

  /// The earliest time at which `need` >= 1 tokens are released in all; kNever where they never are.
  /// Non-decreasing in `need` and under further entries that raise the need by their own KV. O(log n).
  Nanos at(std::int64_t need) const;

  const Timeline& timeline() const { return timeline_; }
  bool overdue() const { return overdue_ > 0; }
  std::uint32_t size() const { return timeline_.size; }

 private:
  Timeline timeline_;
  Nanos overdueAt_ = 0;
  std::uint32_t overdue_ = 0;  ///< entries not after t
  std::uint32_t soon_ = 0;     ///< first entry not before overdueAt_
  std::int64_t overdueKv_ = 0;
};

}  // namespace laxity
