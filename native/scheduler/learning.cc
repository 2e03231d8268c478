// What finished leases teach: lengths of outputs, speeds of backends, what tenants got.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

void Scheduler::attained(const Call& c, std::uint32_t outputTokens) {
  const std::uint16_t tenant = graph_.workflow(c.workflow).tenant;
  if (live_.attained.size() <= tenant) live_.attained.resize(std::size_t{tenant} + 1);
  const PolicyParameters& p = config_.parameters;
  const std::uint32_t output = outputTokens > 0 ? outputTokens : c.predictedTokens;
  live_.attained[tenant] +=
      p[Parameter::kInputWeight] * c.promptTokens + p[Parameter::kOutputWeight] * output * c.sequences;
}

/// A lease was served and its output told.
void Scheduler::learnFrom(std::uint32_t slot, std::uint32_t outputTokens) {
  const Call& c = graph_.call(slot);
  if (rules_.predictLengths && c.epoch == 0) {
    live_.lengths.observe(graph_.workflow(c.workflow).stageTemplate, c.stage, outputTokens,
                          {c.predictedTokens, c.predictedHigh});
  }
  const LiveCall& l = live_.calls[slot];
  if (l.begunUnseen) return;
  Nanos prefill = 0;
  Nanos decode = 0;
  std::uint32_t steps = outputTokens - 1;
  if (pairs_ != nullptr) {
    if (!c.streams || l.firstTokenAt == 0) return;
    const PairCall& pair = pairs_->call(slot);
    const std::uint32_t d = cluster_.at(pair.decode).spec.latency;
    learnSpeed(cluster_.at(c.instance).spec.latency, l.firstTokenAt - l.prefillStart, c.promptTokens, 0, 0);
    learnSpeed(d, 0, c.promptTokens, now_ - (pair.onPrefill ? l.firstTokenAt : pair.kvReady), steps);
    return;
  }
  const std::uint32_t latency = cluster_.at(c.instance).spec.latency;
  if (!live_.speeds.learns(latency)) return;
  if (c.streams && l.firstTokenAt > 0) {
    prefill = l.firstTokenAt - l.prefillStart;
    decode = now_ - l.firstTokenAt;
  } else {
    steps = outputTokens;
    decode = std::max<Nanos>(0, now_ - l.leasedAt - c.cost.prefill);
  }
  learnSpeed(latency, prefill, c.promptTokens, decode, steps);
}

void Scheduler::learnSpeed(std::uint32_t latency, Nanos prefill, std::uint32_t promptTokens, Nanos decode,
                           std::uint32_t steps) {
  if (!live_.speeds.learns(latency)) return;
  if (!live_.speeds.observe(latency, prefill, promptTokens, decode, steps)) return;
  LatencyModel model;
  if (!ok(LatencyModel::constants(live_.speeds.inUse(latency), &model))) return;
  cluster_.setLatency(latency, model);
  instancesChanged();
}

Status Scheduler::setLatency(Nanos t, const SetLatency& e) {
  if (const Status time = timeStatus(t); !ok(time)) return time;
  if (e.latency > cluster_.latencies() || e.latency > 0xffff || e.learned > 1) return Status::kBadValue;
  const LatencyConstants constants{e.prefillBaseMs, e.prefillPerTokenMs, e.decodeBaseMs,
                                   e.decodePerSequenceMs, e.decodePerContextMs};
  LatencyModel model;
  if (const Status made = LatencyModel::constants(constants, &model); !ok(made)) return made;
  advance(t);
  if (EventRecord* r = tap(t, EventKind::kSetLatency)) r->setLatency = e;
  cluster_.setLatency(e.latency, model);
  if (e.learned != 0)
    live_.speeds.learn(e.latency, constants);
  else
    live_.speeds.fix(e.latency);
  if (LiveRules(config_.parameters, live_.speeds.learnsAny()).any != rules_.any) liveRulesChanged();
  instancesChanged();
  return Status::kOk;
}

}  // namespace laxity
