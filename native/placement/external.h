// A placement from outside the core: a function pointer and its context (a slow path for experiments).
// Assumes nothing. Procedure: the function gets the view and answers with an instance slot. It must not call
// back into the scheduler. An answer that is no candidate counts as none: kNoSlot, on which the scheduler
// stops placing, keeps the call where it was and reports kPlacementFailed. It has no registered name.
// Ties: its own business.
#pragma once

#include <algorithm>

#include "placement/placement.h"

namespace laxity {

struct ExternalPlacement {
  static constexpr const char* kName = "";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;
  static constexpr bool kNeedsBacklog = true;
  static constexpr bool kNeedsUtilisation = true;

  using Function = std::uint32_t (*)(void* context, const PlacementView& view);
  Function function = nullptr;
  void* context = nullptr;

  std::uint32_t choose(const PlacementView& view) const {
    if (function == nullptr) return kNoSlot;
    const std::uint32_t m = function(context, view);
    return view.isCandidate(m) ? m : kNoSlot;
  }
};

}  // namespace laxity
