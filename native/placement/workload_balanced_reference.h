// The dispatch of HexGen-Flow's published simulator, which differs from the paper's (papers.md 1.3). For
// fidelity only. Assumes a stage template for the mean time c of the call's step type; without an entry the
// call's own t_comp. Procedure: argmax of alpha c(e0)/c(e) - (1 - alpha) W(e) f(e) / W(e0), with e0 the first
// instance by perm, W the time ever assigned (never decremented) and f = slowFactor on instances slower than
// e0. While W(e0) = 0 the call goes to e0. O(instances). Ties: the first instance by perm (strict
// comparison).
#pragma once

#include <vector>

#include "placement/placement.h"

namespace laxity {

struct WorkloadBalancedReference {
  static constexpr const char* kName = "workload-balanced-reference";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kNeedsQueueAhead = false;

  std::uint32_t choose(const PlacementView& view) {
    assigned_.resize(view.cluster.size(), 0);
    const double alpha = view.parameters[Parameter::kAlpha];
    const double slow = view.parameters[Parameter::kSlowFactor];
    std::uint32_t first = kNoSlot;
    std::uint32_t chosen = kNoSlot;
    double best = 0;
    double firstTime = 0;
    view.eachCandidate([&](std::uint32_t m, const Instance&, const Estimate&) {
      const double time = toSeconds(stageTime(view, m));
      if (first == kNoSlot) {
        first = m;
        firstTime = time;
      }
      double score = alpha * firstTime / time;
      if (assigned_[first] > 0) {
        score -= (1 - alpha) * toSeconds(assigned_[m]) * (time > firstTime ? slow : 1) /
                 toSeconds(assigned_[first]);
      }
      if (chosen == kNoSlot || score > best) {
        chosen = m;
        best = score;
      }
    });
    if (assigned_[first] == 0) chosen = first;
    assigned_[chosen] += stageTime(view, chosen);
    return chosen;
  }

 private:
  static Nanos stageTime(const PlacementView& view, std::uint32_t m) {
    if (view.stageTemplate != nullptr) {
      const std::uint32_t entry = view.stageTemplate->entryOf(view.call.stage);
      if (entry < view.stageTemplate->size()) {
        return view.stageTemplate->timeOn(entry, view.cluster.at(m).hardwareClass);
      }
    }
    return view.estimate(m).exec;
  }

  std::vector<Nanos> assigned_;
};

}  // namespace laxity
