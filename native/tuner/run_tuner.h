// A tuner inside a simulation: sweeps are nested simulations whose result arrives after a charged virtual
// latency, as setParameter events. So the run's log replays without the tuner.
#pragma once

#include "tuner/tuner.h"

namespace laxity {

class RunTuner final : public RunObserver {
 public:
  /// `base` is the run that will be observed; both are borrowed.
  RunTuner(const TunerOptions& options, const ClusterSpec& cluster, const RunOptions& base);

  void instant(Nanos t, std::span<const EventRecord> records) override;
  Nanos nextWake() const override;
  void act(Nanos t, std::vector<SetParameter>* set) override;

  const Tuner& tuner() const { return tuner_; }
  Status status() const { return status_; }
  std::uint64_t sweepRuns() const { return sweepRuns_; }

 private:
  void sweep(Nanos t);

  const ClusterSpec& cluster_;
  RunOptions base_;
  Tuner tuner_;
  SweepResult result_;
  Nanos resultAt_ = kNever;
  Workspace workspace_;
  Status status_ = Status::kOk;
  std::uint64_t sweepRuns_ = 0;
};

}  // namespace laxity
