// Attained service of programs, common to `plas` and `atlas` (Autellix / Agentix, NSDI'26; policies 2.7). A
// program is a workflow.
//
// Assumes the model time of a call: predicted prefill plus decode, alone, at the output length that was
// served, on the instances that served it (an attempt that was evicted: at what it had generated). The
// scheduler does not see when an engine worked for a call, so the paper's measured service is not known to
// it; this stands in for it, and batching does not lengthen it.
//
// Procedure: a call that begins to wait takes p, what its program has attained by then (plas.h, atlas.h say
// how that grows). K levels hold ranges of p: the first [0, lo), the next [lo, lo q), then [lo q, lo q^2), …,
// the last one everything from there on (K serviceLevels, lo serviceLevelMs, q serviceLevelRatio). The lowest
// level goes first, inside a level first come, first served. Not preemptive: the paper's quantum, which
// demotes a call that uses it up, is what the next calls of the program inherit. Strict head of line is the
// paper's batch rule: add while it fits, stop at the first that does not.
//   A waiting call is promoted to the first level, and stays there, once
//     (W_p + W_c) / T_p >= beta      (starvationRatio; a waiting call has no service of its own)
//   W_c = time it has waited, without the part before a promotion of an earlier attempt; W_p and T_p sums of
//   waiting and of model time over the program's served calls, as of when the call began to wait. Of a
//   promoted call only the wait after its promotion enters W_p: the paper's reset. The wait of an attempt
//   that is lost counts for the next one. Another beta holds for calls that begin to wait after it.
//
// K, lo, q and beta are not published: 8, 1 s, 2 and 10 are this package's.
// State: three integers a workflow, three a call. O(1) an event; a pick looks at every call of the queue,
// O(K) each. Ties: (level, ready time, rank).
#pragma once

#include <algorithm>
#include <compare>
#include <vector>

#include "order/order.h"

namespace laxity {

struct LevelKey {
  std::int64_t level;  ///< minus the level, from 0
  Nanos ready;         ///< minus the ready time
  std::int64_t leading() const { return level; }
  friend auto operator<=>(const LevelKey&, const LevelKey&) = default;
};

/// What a program has attained once a call that began with p was served for `time`.
using AttainedRule = Nanos (*)(Nanos program, Nanos p, Nanos time);

template <AttainedRule kRule>
class AttainedService {
 public:
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;
  static constexpr bool kObservesService = true;

  LevelKey key(const OrderView& v) const {
    // A call that is only asked about (Scheduler::preview) counts as if it began to wait now.
    const Attained a = v.call.state != CallState::kFree
                           ? v.call.attained
                           : beginning(programOf(v.call.workflow, v.workflow), v.now, v.parameters);
    const std::int64_t level = v.now >= a.promotedAt ? 0 : levelOf(a.before, v.parameters);
    return {-level, -v.call.readyAt};
  }

  void observe(const Observation& o, Call& c, const Workflow& w, const PolicyParameters& parameters) {
    Attained& a = c.attained;
    switch (o.step) {
      case CallStep::kReady:
        a = beginning(programOf(c.workflow, w), c.epoch == 0 ? c.readyAt : o.at - a.wait, parameters);
        break;
      case CallStep::kLeased:
        if (o.at >= a.promotedAt) {
          a.wait = o.at - a.promotedAt;
        } else {
          a.wait = o.at - a.wait;
          a.promotedAt = kNever;
        }
        break;
      case CallStep::kServed: {
        if (programs_.size() <= c.workflow) programs_.resize(std::size_t{c.workflow} + 1);
        Program& p = programs_[c.workflow];
        if (p.generation != w.generation) p = Program{w.generation};
        p.attained = std::min(kMaxTime, kRule(p.attained, a.before, o.served));
        p.service = std::min(kMaxTime, p.service + o.served);
        p.wait = std::min(kMaxTime, p.wait + a.wait);
        a.wait = 0;
        break;
      }
      case CallStep::kWithdrawn:
      case CallStep::kReturned:
        break;
    }
  }

  /// From 0.
  static std::int64_t levelOf(Nanos attained, const PolicyParameters& parameters) {
    const auto last = static_cast<std::int64_t>(parameters[Parameter::kServiceLevels]) - 1;
    double next = static_cast<double>(fromMs(parameters[Parameter::kServiceLevelMs]));
    std::int64_t level = 0;
    while (level < last && static_cast<double>(attained) >= next) {
      next *= parameters[Parameter::kServiceLevelRatio];
      ++level;
    }
    return level;
  }

 private:
  struct Program {
    std::uint32_t generation = 0;
    Nanos attained = 0;
    Nanos service = 0;  ///< T_p
    Nanos wait = 0;     ///< W_p
  };

  Program programOf(std::uint32_t slot, const Workflow& w) const {
    if (slot >= programs_.size() || programs_[slot].generation != w.generation) return {};
    return programs_[slot];
  }

  /// Of a call that waits since `since`.
  static Attained beginning(const Program& p, Nanos since, const PolicyParameters& parameters) {
    const double due = parameters[Parameter::kStarvationRatio] * static_cast<double>(p.service);
    const Nanos wait = due < static_cast<double>(kMaxTime) ? static_cast<Nanos>(due + 0.5) : kMaxTime;
    return {p.attained, since + std::max<Nanos>(0, wait - p.wait), since};
  }

  std::vector<Program> programs_;  ///< by workflow slot
};

}  // namespace laxity
