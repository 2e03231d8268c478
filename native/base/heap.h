// A 4-ary indexed heap over flat entries, larger key first, then smaller rank.
//
// The heap does not know where positions are kept: every move calls `moved(slot, position)`, so that one call
// record can hold its position whichever of many queues it waits in.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"

namespace laxity {

struct HeapEntry {
  Nanos key = 0;
  std::uint64_t rank = 0;
  std::uint32_t slot = 0;

  /// The total order of waiting calls (CONTRACT 7): rank encodes (workflow sequence, reveal sequence).
  friend bool before(const HeapEntry& a, const HeapEntry& b) {
    return a.key != b.key ? a.key > b.key : a.rank < b.rank;
  }
};

class IndexedHeap {
 public:
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  const HeapEntry& top() const { return entries_.front(); }
  const std::vector<HeapEntry>& entries() const { return entries_; }
  void clear() { entries_.clear(); }

  template <class Moved>
  void push(const HeapEntry& entry, Moved&& moved) {
    entries_.push_back(entry);
    siftUp(entries_.size() - 1, moved);
  }

  template <class Moved>
  void removeAt(std::size_t position, Moved&& moved) {
    const HeapEntry last = entries_.back();
    entries_.pop_back();
    if (position == entries_.size()) return;
    entries_[position] = last;
    siftDown(siftUp(position, moved), moved);
  }

  template <class Moved>
  void rekeyAt(std::size_t position, Nanos key, Moved&& moved) {
    entries_[position].key = key;
    siftDown(siftUp(position, moved), moved);
  }

 private:
  static constexpr std::size_t kArity = 4;

  template <class Moved>
  std::size_t siftUp(std::size_t i, Moved& moved) {
    const HeapEntry entry = entries_[i];
    while (i > 0) {
      const std::size_t parent = (i - 1) / kArity;
      if (!before(entry, entries_[parent])) break;
      entries_[i] = entries_[parent];
      moved(entries_[i].slot, static_cast<std::uint32_t>(i));
      i = parent;
    }
    entries_[i] = entry;
    moved(entry.slot, static_cast<std::uint32_t>(i));
    return i;
  }

  template <class Moved>
  void siftDown(std::size_t i, Moved& moved) {
    const HeapEntry entry = entries_[i];
    const std::size_t n = entries_.size();
    for (;;) {
      const std::size_t first = i * kArity + 1;
      if (first >= n) break;
      std::size_t best = first;
      const std::size_t end = first + kArity < n ? first + kArity : n;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (before(entries_[child], entries_[best])) best = child;
      }
      if (!before(entries_[best], entry)) break;
      entries_[i] = entries_[best];
      moved(entries_[i].slot, static_cast<std::uint32_t>(i));
      i = best;
    }
    entries_[i] = entry;
    moved(entry.slot, static_cast<std::uint32_t>(i));
  }

  std::vector<HeapEntry> entries_;
};

}  // namespace laxity
