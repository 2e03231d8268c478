// The clock of HexGen-Flow's public simulator around the same scheduler, for its goldens (compat
// `hexgen-ticks`).
//
// Every instance has its own time. In each round the smallest, g, dispatches the released calls in list order
// (the order in which their stages were completed, not of time), then every instance that stands at g makes
// one step: a prefill, one decode iteration, or, idle, a tick of 0.1 ms. Calls that end in a step release the
// next stage at once, into the future. Idle ticks up to the next instant at which anything can happen are
// skipped in one jump.
#pragma once

#include <vector>

#include "scheduler/scheduler.h"
#include "simulator/driver.h"
#include "simulator/metrics.h"
#include "simulator/simulation.h"
#include "simulator/truth.h"

namespace laxity {

class HexgenClock {
 public:
  HexgenClock(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
              const RunOutputs& outputs);

  Status run(RunResult* result);

 private:
  static constexpr Nanos kTick = 100'000;

  struct Decoding {
    std::uint32_t slot;
    std::uint32_t left;
    std::int64_t kv;
  };
  struct Machine {
    Nanos time = 0;
    bool leased = false;
    Decoding next{};                ///< leased, to be prefilled in the next step
    std::vector<Decoding> running;  ///< in the order in which they joined
    std::vector<std::uint32_t>
        prefilled;  ///< events of the last step, delivered when the clock reaches its end
    std::vector<std::uint32_t> finished;
    std::int64_t kvUsed = 0;
    bool idle() const { return !leased && running.empty() && prefilled.empty() && finished.empty(); }
  };
  struct Pending {
    std::uint32_t workflow;  ///< row; an unopened workflow has index kNoSlot
    std::uint32_t index;
    std::uint32_t row;
    Nanos release;
  };

  void deliver(Machine& machine, Nanos g);
  void dispatch(Nanos g);
  void step(std::uint32_t m);
  void ended(std::uint32_t slot, Nanos end);
  CallAttempt attempt(std::uint32_t slot) { return {{slot, truth_.call(slot).generation}, 0}; }
  void check(Status s) {
    if (!ok(s) && ok(status_)) status_ = s;
  }

  const Trace& trace_;
  const ClusterSpec& cluster_;
  const RunOptions& options_;
  const RunOutputs& outputs_;
  Scheduler scheduler_;
  SloRule slo_;
  AloneTimes aloneTimes_;
  Truth truth_;
  Metrics metrics_;
  std::vector<Machine> machines_;
  std::vector<Pending> pending_;
  std::vector<std::uint32_t> indexOf_;  ///< workflow row -> open record
  std::vector<Nanos> arrival_;
  std::vector<Ref> parents_;
  Status status_ = Status::kOk;
  RunResult result_;
};

}  // namespace laxity
