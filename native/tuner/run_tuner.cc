#include "tuner/run_tuner.h"

#include "simulator/driver.h"

namespace laxity {

RunTuner::RunTuner(const TunerOptions& options, const ClusterSpec& cluster, const RunOptions& base)
    : cluster_(cluster),
      base_(base),
      tuner_(options, schedulerConfig(cluster, base).latencies,
             base.parameters[static_cast<Parameter>(options.parameter)], base.pairs) {}

void RunTuner::instant(Nanos t, std::span<const EventRecord> records) {
  for (const EventRecord& record : records) tuner_.observe(record);
  if (tuner_.due(t)) sweep(t);
}

Nanos RunTuner::nextWake() const { return tuner_.inFlight() ? resultAt_ : tuner_.nextWake(); }

void RunTuner::act(Nanos t, std::vector<SetParameter>* set) {
  if (!tuner_.inFlight()) {
    if (tuner_.due(t)) sweep(t);
    return;
  }
  tuner_.arrived(t, result_);
  if (!ok(result_.status) && ok(status_)) status_ = result_.status;
  if (ok(result_.status) && result_.apply) set->push_back({tuner_.options().parameter, 0, result_.value});
}

void RunTuner::sweep(Nanos t) {
  SweepInput input;
  if (!tuner_.begin(t, &input)) return;
  result_ = sweepWindow(input, cluster_, base_, tuner_.options(), &workspace_);
  sweepRuns_ += result_.runs;
  resultAt_ = t + tuner_.options().latency;
}

}  // namespace laxity
