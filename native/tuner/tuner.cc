#include "tuner/tuner.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "base/statistics.h"

namespace laxity {

double logRatio(double latency, double base) {
  return detLog(std::max(latency, 1e-9) / std::max(base, 1e-9));
}

namespace {

/// Whether the log says where a call decodes and that it joins there when its KV has come.
bool followsDecode(const PairOptions& o) {
  return o.staging == Staging::kNone && !(o.lateDecode && o.admission == DecodeAdmission::kEngine);
}

}  // namespace

Tuner::Tuner(TunerOptions options, std::vector<LatencyModel> latencies, double current,
             const PairOptions& pairs)
    : options_(std::move(options)),
      current_(current),
      window_(kMemory * options_.window),
      service_(std::move(latencies), followsDecode(pairs)) {}

void Tuner::observe(const EventRecord& record) {
  const Nanos t = record.header.t;
  if (t > now_) {
    now_ = t;
    window_.expire(t);
  }
  if (record.header.kind == EventKind::kOpenWorkflow && started_ < 0) {
    started_ = regime_ = t;
    followUps_ = {t + 3 * options_.window};
    restart(t);
  }
  if (record.header.kind == EventKind::kSetParameter && record.setParameter.parameter == options_.parameter)
    current_ = record.setParameter.value;
  if (record.header.kind == EventKind::kInstance && started_ >= 0) {
    TunerEvent e;
    e.t = t;
    e.reason = TunerReason::kInstance;
    e.instance = record.instance.instance;
    alarm(e);
  }
  if (const WindowWorkflow* w = window_.observe(record)) completed(t, *w);
  if (record.header.kind == EventKind::kOpenWorkflow) arrived(t);
  ServiceSample sample;
  if (service_.observe(record, &sample)) served(t, sample);
}

/// The deadline's span; without a deadline the longest path of times alone with true lengths, and gaps.
Nanos Tuner::baseOf(const WindowWorkflow& w) const {
  if (w.allowed > 0) return w.allowed;
  std::vector<Nanos> finish(w.calls.size(), 0);
  Nanos longest = 1;
  for (std::size_t i = 0; i < w.calls.size(); ++i) {
    const WindowCall& c = w.calls[i];
    Nanos start = 0;
    for (std::uint32_t k = 0; k < c.parentCount; ++k)
      start = std::max(start, finish[w.parents[c.firstParent + k]]);
    finish[i] = start + c.gap + service_.alone(c.model, c.promptTokens, std::max(1u, c.outputTokens));
    longest = std::max(longest, finish[i]);
  }
  return longest;
}

void Tuner::completed(Nanos t, const WindowWorkflow& w) {
  const double x = logRatio(toMs(std::max<Nanos>(1, w.latency())), toMs(baseOf(w)));
  if (t <= since_ + options_.window || reference_.size() < kLeastSamples) reference_.push_back(x);
  recent_.push_back({t, x});
  TunerEvent e;
  e.t = t;
  if (options_.ratio && test(ratio_, ratioLimit_, x, &e, TunerReason::kRatioUp, TunerReason::kRatioDown))
    return alarm(e);
  if (options_.load && test(workTest_, workLimit_, workOf(w), &e, TunerReason::kWork, TunerReason::kWork))
    alarm(e);
}

void Tuner::arrived(Nanos t) {
  const Nanos gap = lastArrival_ < 0 ? -1 : t - lastArrival_;
  lastArrival_ = t;
  if (gap < 0 || !options_.load) return;
  TunerEvent e;
  e.t = t;
  const std::deque<Nanos>& arrivals = window_.arrivals();
  const auto since = [&](std::uint32_t samples) {
    return arrivals[arrivals.size() - std::min<std::size_t>(arrivals.size(), std::size_t{samples} + 1)];
  };
  const std::uint32_t longFor = arrivalTest_.upFor() + 1;
  const std::uint32_t shortFor = arrivalTest_.downFor() + 1;
  if (!test(arrivalTest_, arrivalLimit_, toSeconds(gap), &e, TunerReason::kRateDown, TunerReason::kRateUp))
    return;
  gapsFrom_ = since(e.reason == TunerReason::kRateDown ? longFor : shortFor);
  alarm(e);
}

/// True where this sample is one too many.
bool Tuner::test(PageHinkley& detector, const Thresholds& thresholds, double x, TunerEvent* e, TunerReason up,
                 TunerReason down) {
  if (thresholds.up <= 0) return false;
  detector.add(x);
  const bool above = detector.up() > thresholds.up;
  if (!above && !(detector.down() > thresholds.down)) return false;
  e->reason = above ? up : down;
  e->statistic = above ? detector.up() : detector.down();
  e->threshold = above ? thresholds.up : thresholds.down;
  return true;
}

double Tuner::workOf(const WindowWorkflow& w) const {
  Nanos sum = 1;
  for (const WindowCall& c : w.calls)
    sum += service_.alone(c.model, c.promptTokens, std::max(1u, c.outputTokens));
  return detLog(toSeconds(sum));
}

void Tuner::served(Nanos t, const ServiceSample& sample) {
  const std::uint32_t m = sample.instance;
  if (m >= serviceTests_.size()) {
    serviceTests_.resize(std::size_t{m} + 1, PageHinkley(kServiceFloor));
    serviceTimes_.resize(serviceTests_.size());
  }
  std::deque<Nanos>& times = serviceTimes_[m];
  times.push_back(t);
  while (times.front() < t - options_.window) times.pop_front();
  if (!options_.service || sample.leasedAt < serviceSince_) return;
  PageHinkley& test = serviceTests_[m];
  test.add(sample.logRatio);
  const Nanos span = std::max(kSecond, std::min(options_.window, t - started_));
  const double perHour = static_cast<double>(times.size()) * 3600 / toSeconds(span);
  const double share = options_.falseAlarmsPerHour / static_cast<double>(serviceTests_.size());
  const double threshold = PageHinkley::threshold(std::max(perHour, 1.0) / share);
  const double most = std::max(test.up(), test.down());
  if (most <= threshold) return;
  TunerEvent e;
  e.t = t;
  e.reason = test.up() > threshold ? TunerReason::kServiceUp : TunerReason::kServiceDown;
  e.instance = m;
  e.statistic = most;
  e.threshold = threshold;
  alarm(e);
}

void Tuner::alarm(TunerEvent e) {
  e.kind = TunerEvent::Kind::kTrigger;
  e.from = e.to = current_;
  events_.push_back(e);
  wanted_ = true;
  reason_ = e.reason;
  const bool pending = !followUps_.empty();
  followUps_ = {e.t + options_.window / 2, e.t + options_.window, e.t + 3 * options_.window};
  regime_ = e.t;
  const bool sure = e.reason == TunerReason::kInstance || e.reason == TunerReason::kServiceUp ||
                    e.reason == TunerReason::kServiceDown;
  changed_ = sure || (changed_ && pending);
  if (e.reason == TunerReason::kServiceUp || e.reason == TunerReason::kServiceDown) {
    serviceSince_ = e.t;
    for (PageHinkley& test : serviceTests_) test.reset();
  }
  restart(e.t);
}

void Tuner::restart(Nanos t) {
  since_ = t;
  ratio_.reset();
  arrivalTest_.reset();
  workTest_.reset();
  reference_.clear();
  recent_.clear();
  nextWelch_ = t + 2 * options_.window;
}

Nanos Tuner::nextWake() const {
  if (inFlight_ || started_ < 0) return kNever;
  if (wanted_) return now_;
  Nanos next = tuned_ ? kNever : started_ + options_.window;
  if (options_.welch && tuned_) next = std::min(next, nextWelch_);
  if (!followUps_.empty()) next = std::min(next, followUps_.front());
  if (options_.period > 0 && tuned_) next = std::min(next, lastSweep_ + options_.period);
  return std::max(next, now_);
}

void Tuner::welch(Nanos t) {
  nextWelch_ = t + options_.window;
  std::vector<double> current;
  for (const Sample& s : recent_) {
    if (s.t > t - options_.window) current.push_back(s.x);
  }
  if (reference_.size() < kLeastSamples || current.size() < kLeastSamples) return;
  const TTest test = welchT(current, reference_);
  if (test.pGreater > options_.welchLevel) return;
  TunerEvent e;
  e.t = t;
  e.reason = TunerReason::kWelch;
  e.statistic = test.t;
  e.threshold = options_.welchLevel;
  e.p = test.pGreater;
  alarm(e);
}

bool Tuner::due(Nanos t) {
  if (t > now_) {
    now_ = t;
    window_.expire(t);
  }
  if (inFlight_ || started_ < 0) return false;
  while (!recent_.empty() && recent_.front().t <= t - options_.window) recent_.pop_front();
  const auto want = [&](TunerReason reason) {
    if (!wanted_) reason_ = reason;
    wanted_ = true;
  };
  if (options_.welch && tuned_ && t >= nextWelch_) welch(t);
  if (followUps_.empty() && !wanted_) changed_ = false;
  if (!followUps_.empty() && t >= followUps_.front()) {
    while (!followUps_.empty() && t >= followUps_.front()) followUps_.erase(followUps_.begin());
    want(TunerReason::kFollowUp);
  }
  if (!tuned_ && t >= started_ + options_.window) want(TunerReason::kInitial);
  if (options_.period > 0 && tuned_ && t >= lastSweep_ + options_.period) want(TunerReason::kPeriod);
  return wanted_;
}

/// What happened from `from` on, of gaps those since the last change of rate; false where it is too little.
bool Tuner::take(Nanos from, SweepInput* input) const {
  input->bodies.clear();
  for (const WindowWorkflow& w : window_.complete()) {
    if (w.lastFinish >= from) input->bodies.push_back(w);
  }
  const auto gapsSince = [&](Nanos first) {
    input->gaps.clear();
    Nanos last = -1;
    for (const Nanos a : window_.arrivals()) {
      if (a < first) continue;
      if (last >= 0) input->gaps.push_back(a - last);
      last = a;
    }
    return input->gaps.size() >= kLeastSamples;
  };
  return input->bodies.size() >= kLeastSamples && (gapsSince(std::max(from, gapsFrom_)) || gapsSince(from));
}

bool Tuner::begin(Nanos t, SweepInput* input) {
  wanted_ = false;
  tuned_ = true;
  lastSweep_ = t;
  if (!take(std::max(regime_, t - kMemory * options_.window), input) && !take(t - options_.window, input) &&
      !take(t - kMemory * options_.window, input)) {
    followUps_.insert(followUps_.begin(), t + options_.window / 2);
    std::sort(followUps_.begin(), followUps_.end());
    return false;
  }
  input->work.clear();
  input->bases.clear();
  for (const WindowWorkflow& w : input->bodies) {
    input->bases.push_back(baseOf(w));
    input->work.push_back(workOf(w));
  }
  input->running.clear();
  for (const WindowWorkflow& w : window_.running()) {
    if (w.ref.slot == kNoSlot) continue;
    Underway u;
    for (const WindowCall& c : w.calls) u.finished += c.finishedAt >= 0 ? 1 : 0;
    u.elapsed = t - w.arrival;
    input->running.push_back(u);
  }
  input->factor.clear();
  input->up.clear();
  for (std::uint32_t m = 0; m < service_.instances(); ++m) {
    input->factor.push_back(service_.factor(m));
    input->up.push_back(service_.condition(m) == Condition::kUp);
  }
  input->current = current_;
  input->changed = changed_;
  input->number = sweeps_++;
  // Soon after an alarm what was recorded is of two regimes: thresholds wait.
  input->calibrate = followUps_.size() <= 1;
  inFlight_ = true;
  return true;
}

void Tuner::arrived(Nanos t, const SweepResult& result) {
  inFlight_ = false;
  if (!ok(result.status)) return;
  TunerEvent e;
  e.t = t;
  e.kind = result.apply ? TunerEvent::Kind::kApplied : TunerEvent::Kind::kKept;
  e.reason = reason_;
  e.from = current_;
  e.to = result.apply ? result.value : result.best;
  e.gain = result.gain;
  e.p = result.p;
  e.regret = result.regret;
  events_.push_back(e);
  current_ = result.value;
  if (result.calibrated) {
    ratioLimit_ = result.ratio;
    arrivalLimit_ = result.arrivals;
    workLimit_ = result.work;
  }
  // What came before the first sweep is a system that was filling.
  if (result.apply || !answered_) restart(t);
  answered_ = true;
}

}  // namespace laxity
