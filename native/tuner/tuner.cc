#include "tuner/tuner.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "base/statistics.h"

namespace laxity {

double logRatio(double latency, double base) {
  return detLog(std::max(latency, 1e-9) / std::max(base, 1e-9));
}

Tuner::Tuner(TunerOptions options, std::vector<LatencyModel> latencies, double current)
    : options_(std::move(options)),
      current_(current),
      window_(options_.window),
      service_(std::move(latencies)) {}

void Tuner::observe(const EventRecord& record) {
  const Nanos t = record.header.t;
  if (t > now_) {
    now_ = t;
    window_.expire(t);
  }
  if (record.header.kind == EventKind::kOpenWorkflow && started_ < 0) {
    started_ = t;
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
  if (t <= since_ + options_.window) reference_.push_back(x);
  recent_.push_back({t, x});
  if (!options_.ratio || ratioUp_ <= 0) return;
  ratio_.add(x);
  TunerEvent e;
  e.t = t;
  if (ratio_.up() > ratioUp_) {
    e.reason = TunerReason::kRatioUp;
    e.statistic = ratio_.up();
    e.threshold = ratioUp_;
    alarm(e);
  } else if (ratio_.down() > ratioDown_) {
    e.reason = TunerReason::kRatioDown;
    e.statistic = ratio_.down();
    e.threshold = ratioDown_;
    alarm(e);
  }
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
  if (!options_.service) return;
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
  followUps_ = {e.t + options_.window / 2, e.t + options_.window};
  restart(e.t);
}

void Tuner::restart(Nanos t) {
  since_ = t;
  ratio_.reset();
  for (PageHinkley& test : serviceTests_) test.reset();
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
  if (!followUps_.empty() && t >= followUps_.front()) {
    while (!followUps_.empty() && t >= followUps_.front()) followUps_.erase(followUps_.begin());
    want(TunerReason::kFollowUp);
  }
  if (!tuned_ && t >= started_ + options_.window) want(TunerReason::kInitial);
  if (options_.period > 0 && tuned_ && t >= lastSweep_ + options_.period) want(TunerReason::kPeriod);
  return wanted_;
}

bool Tuner::begin(Nanos t, SweepInput* input) {
  wanted_ = false;
  const std::deque<Nanos>& arrivals = window_.arrivals();
  const std::deque<WindowWorkflow>& complete = window_.complete();
  tuned_ = true;
  lastSweep_ = t;
  if (complete.size() < kLeastSamples || arrivals.size() < kLeastSamples + 1) {
    followUps_.insert(followUps_.begin(), t + options_.window / 2);
    std::sort(followUps_.begin(), followUps_.end());
    return false;
  }
  input->bodies.assign(complete.begin(), complete.end());
  input->bases.clear();
  for (const WindowWorkflow& w : complete) input->bases.push_back(baseOf(w));
  input->gaps.clear();
  for (std::size_t i = 1; i < arrivals.size(); ++i) input->gaps.push_back(arrivals[i] - arrivals[i - 1]);
  input->factor.clear();
  input->up.clear();
  for (std::uint32_t m = 0; m < service_.instances(); ++m) {
    input->factor.push_back(service_.factor(m));
    input->up.push_back(service_.condition(m) == Condition::kUp);
  }
  input->current = current_;
  input->number = sweeps_++;
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
  ratioUp_ = result.up;
  ratioDown_ = result.down;
  if (result.apply) restart(t);
}

}  // namespace laxity
