// The `limit` most urgent of many waiting calls, by a static key (CONTRACT 12): what a plan looks at when
// there are too many.
//
// Larger keys are more urgent, ties go to the smaller rank. Two heaps: the calls inside with the least urgent
// on top, the calls outside with the most urgent on top; every call outside is less urgent than every call
// inside. Whoever crosses is reported: enter(slot) and leave(slot). O(log n) for each change.
#pragma once

#include <cstdint>
#include <vector>

#include "base/heap.h"

namespace laxity {

class MostUrgent {
 public:
  explicit MostUrgent(std::size_t limit) : limit_(limit) {}

  std::size_t inside() const { return inside_.size(); }
  std::size_t outside() const { return outside_.size(); }
  bool holds(std::uint32_t slot) const { return slot < places_.size() && places_[slot].held; }
  bool isInside(std::uint32_t slot) const { return places_[slot].inside; }

  template <class Enter, class Leave>
  void add(std::uint32_t slot, Nanos key, std::uint64_t rank, Enter&& enter, Leave&& leave) {
    if (places_.size() <= slot) places_.resize(std::size_t{slot} + 1);
    places_[slot] = {key, rank, 0, true, false};
    put(slot, outside_);
    enterFirst(enter);
    if (inside_.size() > limit_) leaveLast(leave);
  }

  template <class Enter, class Leave>
  void remove(std::uint32_t slot, Enter&& enter, Leave&& leave) {
    Place& place = places_[slot];
    place.held = false;
    take(slot);
    if (!place.inside) return;
    leave(slot);
    if (!outside_.empty()) enterFirst(enter);
  }

  template <class Enter, class Leave>
  void rekey(std::uint32_t slot, Nanos key, Enter&& enter, Leave&& leave) {
    Place& place = places_[slot];
    if (place.key == key) return;
    take(slot);
    place.key = key;
    put(slot, place.inside ? inside_ : outside_);
    if (outside_.empty() || !moreUrgent(outside_.top().slot, inside_.top().slot)) return;
    enterFirst(enter);
    leaveLast(leave);
  }

  void clear() {
    inside_.clear();
    outside_.clear();
    places_.clear();
  }

 private:
  struct Place {
    Nanos key = 0;
    std::uint64_t rank = 0;
    std::uint32_t position = 0;
    bool held = false;
    bool inside = false;
  };

  bool moreUrgent(std::uint32_t a, std::uint32_t b) const {
    const Place& x = places_[a];
    const Place& y = places_[b];
    return x.key != y.key ? x.key > y.key : x.rank < y.rank;
  }
  auto tracker() {
    return [this](std::uint32_t slot, std::uint32_t at) { places_[slot].position = at; };
  }
  void put(std::uint32_t slot, IndexedHeap& heap) {
    Place& place = places_[slot];
    place.inside = &heap == &inside_;
    // The heap has the largest key and the smallest rank on top: inside both are turned round.
    if (place.inside)
      heap.push({-place.key, ~place.rank, slot}, tracker());
    else
      heap.push({place.key, place.rank, slot}, tracker());
  }
  void take(std::uint32_t slot) {
    (places_[slot].inside ? inside_ : outside_).removeAt(places_[slot].position, tracker());
  }
  template <class Enter>
  void enterFirst(Enter& enter) {
    const std::uint32_t slot = outside_.top().slot;
    take(slot);
    put(slot, inside_);
    enter(slot);
  }
  template <class Leave>
  void leaveLast(Leave& leave) {
    const std::uint32_t slot = inside_.top().slot;
    take(slot);
    put(slot, outside_);
    leave(slot);
  }

  std::size_t limit_;
  IndexedHeap inside_;
  IndexedHeap outside_;
  std::vector<Place> places_;
};

}  // namespace laxity
