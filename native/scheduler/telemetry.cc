// Outstanding work that no call of ours stands for.
//
// A sample of telemetry adds (running + waiting - our leases, at least 0) x the mean t_comp to the
// outstanding work until the next sample or until it is stale; it never closes the gate.
//
// Prefill-decode: a prefill of mean length stands for each foreign call on p. Corrections of p delay its
// projected ready time. Of d, foreign sequences, and KV in use beyond what our calls there may hold, count in
// what plans see of it, until the next sample or until it is stale; room on d is given by own accounting
// alone.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

void Scheduler::correct(std::uint32_t instance, Nanos work, Nanos until) {
  std::uint32_t index;
  if (live_.freeCorrections.empty()) {
    index = static_cast<std::uint32_t>(live_.corrections.size());
    live_.corrections.push_back({instance, work});
  } else {
    index = live_.freeCorrections.back();
    live_.freeCorrections.pop_back();
    live_.corrections[index] = {instance, work};
  }
  addCorrection(instance, work);
  startTimer(until, {index, 0, 0, TimerKind::kCorrection});
}

void Scheduler::addCorrection(std::uint32_t instance, Nanos work) {
  Instance& m = cluster_.at(instance);
  m.correction += work;
  m.ledger.work += work;
  cluster_.workChanged(instance);
}

Status Scheduler::telemetry(Nanos t, const Telemetry& e) {
  if (!cluster_.known(e.instance)) return Status::kUnknownInstance;
  constexpr std::uint32_t kMost = 10'000'000;
  if (e.present > 7 || e.waiting > kMost || e.running > kMost || !(e.kvUsage >= 0 && e.kvUsage <= 1))
    return Status::kBadValue;
  const Status advanced = advance(t);
  if (!ok(advanced)) return advanced;
  if (EventRecord* r = tap(t, EventKind::kTelemetry)) r->telemetry = e;
  if (live_.telemetry.size() < cluster_.size()) live_.telemetry.resize(cluster_.size());
  TelemetryState& s = live_.telemetry[e.instance];
  s.at = t;
  ++s.version;
  addCorrection(e.instance, -s.work);
  s.work = 0;
  const Instance& m = cluster_.at(e.instance);
  const bool decodes = m.spec.role == Role::kDecode;
  if (decodes) pairs_->setForeign(e.instance, {});
  if (rules_.telemetry == 0) return Status::kOk;
  const std::int64_t seen =
      std::int64_t{(e.present & 2) != 0 ? e.running : 0} + std::int64_t{(e.present & 1) != 0 ? e.waiting : 0};
  // What is leased to d may still be elsewhere.
  const bool posted = !decodes || pairs_->options.admission == DecodeAdmission::kEngine;
  const std::int64_t own = posted ? m.ledger.leased : pairs_->admittedSequences(e.instance);
  const std::int64_t foreign = std::max<std::int64_t>(0, seen - own);
  if (foreign > 0 && meanCount_ > 0) {
    const Nanos mean =
        m.spec.role == Role::kPrefill
            ? cluster_.latency(m).prefill(static_cast<std::uint32_t>(promptSum_ / meanCount_), 0)
            : static_cast<Nanos>(meanSum_ / meanCount_);
    s.work = std::min<Nanos>(mean, kMaxTime / 1000 / foreign) * foreign;
    addCorrection(e.instance, s.work);
  }
  std::int64_t kv = 0;
  if (decodes && (e.present & 4) != 0) {
    const auto used = static_cast<std::int64_t>(e.kvUsage * static_cast<double>(m.spec.kvTokens));
    kv = std::max<std::int64_t>(0, used - (posted ? m.ledger.reservedKv : pairs_->admittedKv(e.instance)));
  }
  if (decodes) {
    const Nanos until = std::min(kMaxTime, t + rules_.telemetry);
    pairs_->setForeign(e.instance, {kv, static_cast<std::uint32_t>(foreign), until});
  }
  if (s.work > 0 || kv > 0 || foreign > 0)
    startTimer(t + rules_.telemetry, {e.instance, s.version, 0, TimerKind::kTelemetry});
  return Status::kOk;
}

}  // namespace laxity
