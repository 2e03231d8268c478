// Call slots by the time they were appended, oldest first: what has waited, or been silent, the longest.
//
// Times never decrease, so appending keeps the order and the front is always the next to expire. Removal is
// O(1): the list holds only what still counts, whatever its limit.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace laxity {

class AgeList {
 public:
  bool empty() const { return first_ == kNoSlot; }
  std::uint32_t front() const { return first_; }
  std::uint32_t size() const { return size_; }
  bool contains(std::uint32_t slot) const { return slot < nodes_.size() && nodes_[slot].listed; }
  Nanos since(std::uint32_t slot) const { return nodes_[slot].since; }
  std::uint32_t next(std::uint32_t slot) const { return nodes_[slot].next; }

  void append(std::uint32_t slot, Nanos t) {
    if (slot >= nodes_.size()) nodes_.resize(std::size_t{slot} + 1);
    nodes_[slot] = {t, last_, kNoSlot, true};
    if (last_ != kNoSlot)
      nodes_[last_].next = slot;
    else
      first_ = slot;
    last_ = slot;
    ++size_;
  }

  void remove(std::uint32_t slot) {
    Node& n = nodes_[slot];
    if (n.previous != kNoSlot)
      nodes_[n.previous].next = n.next;
    else
      first_ = n.next;
    if (n.next != kNoSlot)
      nodes_[n.next].previous = n.previous;
    else
      last_ = n.previous;
    n.listed = false;
    --size_;
  }

  void clear() {
    while (first_ != kNoSlot) remove(first_);
  }

 private:
  struct Node {
    Nanos since = 0;
    std::uint32_t previous = kNoSlot;
    std::uint32_t next = kNoSlot;
    bool listed = false;
  };
  std::vector<Node> nodes_;
  std::uint32_t first_ = kNoSlot;
  std::uint32_t last_ = kNoSlot;
  std::uint32_t size_ = 0;
};

}  // namespace laxity
