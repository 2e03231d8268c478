// What happens to a cluster during a run, and who watches it: scripts and observers of simulation.h.
#include <algorithm>

#include "simulator/driver.h"

namespace laxity {
namespace {

constexpr double kMostFactor = 100;

}  // namespace

/// Steps in order, of instances that are there; the last state of the cluster can serve, or a call might wait
/// for ever.
Status Driver::checkScript() const {
  if (options_.script.empty()) return Status::kOk;
  if (paired_ || caching_ || options_.compat != Compat::kNone) return Status::kUnsupported;
  std::vector<bool> up(cluster_.instances.size(), true);
  Nanos last = 0;
  for (const ScriptStep& step : options_.script) {
    if (step.t < last || step.t >= kMaxTime) return Status::kBadTime;
    last = step.t;
    if (step.instance >= up.size()) return Status::kUnknownInstance;
    if (step.kind != ScriptStep::Kind::kSpeed) {
      up[step.instance] = step.kind == ScriptStep::Kind::kUp;
      continue;
    }
    if (!(step.factor >= 1 / kMostFactor && step.factor <= kMostFactor)) return Status::kBadValue;
    if (!Engine::retimes(cluster_.instances[step.instance])) return Status::kUnsupported;
  }
  for (std::size_t m = 0; m < up.size(); ++m) {
    bool served = false;
    for (std::size_t n = 0; n < up.size(); ++n)
      served |= up[n] && cluster_.instances[n].model == cluster_.instances[m].model;
    if (!served) return Status::kNoInstance;
  }
  return Status::kOk;
}

Nanos Driver::outsideNext() const {
  Nanos t = scripted_ < options_.script.size() ? options_.script[scripted_].t : kNever;
  if (options_.observer != nullptr) t = std::min(t, options_.observer->nextWake());
  return t;
}

/// In front of every other event of this instant: what would have ended now on a lost instance is lost.
void Driver::scriptEvents(Nanos t) {
  using Kind = ScriptStep::Kind;
  for (; scripted_ < options_.script.size() && options_.script[scripted_].t <= t; ++scripted_) {
    const ScriptStep& step = options_.script[scripted_];
    const std::uint32_t m = step.instance;
    if (step.kind == Kind::kSpeed) {
      const LatencyModel& own = cluster_.latencies[cluster_.instances[m].latency];
      retimed_.push_back(std::make_unique<LatencyModel>(own.skewed(step.factor, 1)));
      retime_[m] = retimed_.back().get();
    } else if (step.kind == Kind::kDown) {
      instanceLost(m, t);
    } else {
      const auto change = step.kind == Kind::kUp ? InstanceChange::kUp : InstanceChange::kDrain;
      event(scheduler_.instance(t, {m, change, {}}));
    }
  }
}

/// Its calls begin again with their prompts; what they had generated since their last eviction is lost.
void Driver::instanceLost(std::uint32_t m, Nanos t) {
  std::vector<std::uint32_t> lost;
  for (std::uint32_t c = scheduler_.cluster().at(m).firstLease; c != kNoSlot;
       c = scheduler_.graph().call(c).nextLease)
    lost.push_back(c);
  event(scheduler_.instance(t, {m, InstanceChange::kDown, {}}));
  for (const std::uint32_t slot : lost) {
    CallTruth& c = truth_.call(slot);
    ++c.epoch;
    OpenTruth& w = truth_.workflow(c.open);
    --w.inFlight;
    ++result_.lostLeases;
    if (over(slot) && w.aborted && w.inFlight == 0) ended_.push_back(c.open);
  }
  lostPrefilled_ += engines_[m].prefilledTokens();
  result_.hiddenEvictions += engines_[m].requeued();
  engines_[m].lost();
  engineNext_.set(m, kNever);
  std::erase(due_, m);
}

/// Engines that are to run at another speed take it at a boundary; due ones have been advanced to t.
void Driver::retimeDue(Nanos t) {
  for (std::uint32_t m = 0; m < retime_.size(); ++m) {
    if (retime_[m] == nullptr) continue;
    Engine& engine = engines_[m];
    const bool due = std::find(due_.begin(), due_.end(), m) != due_.end();
    if (!engine.retime(t, *retime_[m])) {
      if (!due) engineNext_.set(m, engine.next());
      continue;
    }
    retime_[m] = nullptr;
    if (!due) due_.push_back(m);
  }
}

void Driver::observerActs(Nanos t) {
  if (options_.observer == nullptr || options_.observer->nextWake() > t) return;
  toSet_.clear();
  options_.observer->act(t, &toSet_);
  for (const SetParameter& e : toSet_) event(scheduler_.setParameter(t, e));
}

void Driver::showInstant(Nanos t) {
  if (options_.observer == nullptr) return;
  const std::vector<EventRecord>& records = (outputs_.log == nullptr ? shown_ : *outputs_.log).records();
  options_.observer->instant(t, std::span(records).subspan(shownUpTo_));
  if (outputs_.log == nullptr)
    shown_.clear();
  else
    shownUpTo_ = records.size();
}

}  // namespace laxity
