// The waiting calls of one queue, sorted as an order with keys that move picks them, with running sums: what
// stands ahead of a key by binary search.
//
// Placements that look at whole queues (eftxp) ask for every candidate of every call. Calls that are placed
// at one instant ask the same queues again and again, and between them nothing changes but the queues that
// got a call: those are sorted anew, the others serve as they are. Sorting costs some kWorthSorting times
// what lines (key_lines.h) take for an answer, so queues that have them are sorted once they were asked so
// often. The sums are integers, so the answer is that of a scan (Scheduler::queueAhead checks it under
// LAXITY_LAWS).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "placement/placement.h"
#include "scheduler/call_key.h"

namespace laxity {

struct AheadIndex {
  struct Entry {
    CallKey<double> key;
    std::uint64_t rank;
    Nanos prefill;    ///< after `seal`: of this call and those ahead of it
    std::int64_t kv;  ///< the same
  };
  static constexpr std::uint32_t kWorthSorting = 32;

  std::uint64_t stamp = 0;    ///< sorted: valid while it is that of the scheduler
  std::uint64_t askedAt = 0;  ///< the scheduler's stamp of what `asked` counts
  std::uint32_t asked = 0;    ///< questions that lines answered since the queue changed
  std::vector<Entry> entries;

  void queueChanged() {
    stamp = 0;
    asked = 0;
  }
  /// Counts a question; whether the lines should answer it.
  bool leavesToLines(std::uint64_t now) {
    if (stamp == now) return false;
    if (askedAt != now) {
      askedAt = now;
      asked = 0;
    }
    return ++asked <= kWorthSorting;
  }

  static bool goesBefore(const CallKey<double>& a, std::uint64_t rankA, const CallKey<double>& b,
                         std::uint64_t rankB) {
    return a > b || (a == b && rankA < rankB);
  }

  void seal() {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return goesBefore(a.key, a.rank, b.key, b.rank); });
    Nanos prefill = 0;
    std::int64_t kv = 0;
    for (Entry& e : entries) {
      e.prefill = prefill += e.prefill;
      e.kv = kv += e.kv;
    }
  }

  QueueAhead ahead(const CallKey<double>& key, std::uint64_t rank) const {
    const auto first = std::partition_point(
        entries.begin(), entries.end(), [&](const Entry& e) { return goesBefore(e.key, e.rank, key, rank); });
    QueueAhead sum;
    if (first != entries.begin()) {
      sum.prefillAhead = (first - 1)->prefill;
      sum.kvAhead = (first - 1)->kv;
    }
    sum.behind = static_cast<std::uint32_t>(entries.end() - first);
    if (!entries.empty()) sum.prefillAll = entries.back().prefill;
    return sum;
  }
};

}  // namespace laxity
