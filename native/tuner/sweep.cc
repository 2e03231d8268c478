#include "tuner/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/math.h"
#include "base/random.h"
#include "base/statistics.h"
#include "tuner/page_hinkley.h"
#include "tuner/tuner.h"

namespace laxity {
namespace {

constexpr Nanos kStream = 200 * kSecond;
constexpr double kCalibrationSeconds = 3600;
constexpr std::uint32_t kDrawnHours = 40;
constexpr std::size_t kMostWorkflows = 6000;  // of one stream

/// A bootstrap stream as a trace.
struct Stream {
  std::vector<std::uint32_t> body;
  std::vector<std::uint32_t> firstCall;
  std::vector<double> arrivalMs;
  std::vector<double> sloMs;
  std::vector<std::uint16_t> tenant;
  std::vector<std::uint16_t> stage;
  std::vector<std::uint16_t> model;
  std::vector<std::uint32_t> prompt;
  std::vector<std::uint32_t> cached;
  std::vector<std::uint32_t> output;
  std::vector<std::uint32_t> predicted;
  std::vector<double> gapMs;
  std::vector<std::uint32_t> parentOffset;
  std::vector<std::uint32_t> parents;
  std::size_t underway = 0;  ///< workflows at the beginning that do not count
  Trace trace;

  Status build(const SweepInput& input, Nanos length, bool backlog, Random random);
  void add(const WindowWorkflow& w, std::uint32_t from, Nanos t, Nanos allowed);
};

/// The calls of w from local index `from` on; parents before it have finished.
void Stream::add(const WindowWorkflow& w, std::uint32_t from, Nanos t, Nanos allowed) {
  arrivalMs.push_back(toMs(t));
  sloMs.push_back(allowed > 0 ? toMs(allowed) : std::numeric_limits<double>::quiet_NaN());
  tenant.push_back(w.tenant);
  for (std::size_t i = from; i < w.calls.size(); ++i) {
    const WindowCall& c = w.calls[i];
    stage.push_back(c.stage);
    model.push_back(c.model);
    prompt.push_back(c.promptTokens);
    cached.push_back(c.cachedTokens);
    output.push_back(std::max(1u, c.outputTokens));
    predicted.push_back(std::max(1u, c.predictedTokens));
    gapMs.push_back(toMs(c.gap));
    for (std::uint32_t k = 0; k < c.parentCount; ++k) {
      if (w.parents[c.firstParent + k] >= from) parents.push_back(w.parents[c.firstParent + k] - from);
    }
    parentOffset.push_back(static_cast<std::uint32_t>(parents.size()));
  }
  firstCall.push_back(static_cast<std::uint32_t>(stage.size()));
}

Status Stream::build(const SweepInput& input, Nanos length, bool backlog, Random random) {
  const auto bodies = static_cast<std::uint32_t>(input.bodies.size());
  const auto gaps = static_cast<std::uint32_t>(input.gaps.size());
  std::vector<std::uint32_t> bodySample(bodies);
  std::vector<Nanos> gapSample(gaps);
  for (std::uint32_t& b : bodySample) b = random.below(bodies);
  for (Nanos& g : gapSample) g = input.gaps[random.below(gaps)];
  firstCall.push_back(0);
  parentOffset.push_back(0);
  if (backlog) {
    for (const Underway& u : input.running) {
      const std::uint32_t b = bodySample[random.below(bodies)];
      const WindowWorkflow& w = input.bodies[b];
      body.push_back(b);
      const auto last = static_cast<std::uint32_t>(w.calls.size() - 1);
      add(w, std::min(u.finished, last), 0,
          w.allowed > 0 ? std::max<Nanos>(kMillisecond, w.allowed - u.elapsed) : w.allowed);
    }
    underway = body.size();
  }
  Nanos t = 0;
  while (body.size() < underway + kMostWorkflows) {
    t += gapSample[random.below(gaps)];
    if (t > length && body.size() >= underway + kLeastSamples) break;
    const std::uint32_t b = bodySample[random.below(bodies)];
    body.push_back(b);
    add(input.bodies[b], 0, t, input.bodies[b].allowed);
  }
  TraceColumns c;
  c.workflows = static_cast<std::uint32_t>(body.size());
  c.calls = static_cast<std::uint32_t>(stage.size());
  c.edges = static_cast<std::uint32_t>(parents.size());
  c.firstCall = firstCall.data();
  c.arrivalMs = arrivalMs.data();
  c.tenant = tenant.data();
  c.sloMs = sloMs.data();
  c.stage = stage.data();
  c.model = model.data();
  c.promptTokens = prompt.data();
  const bool shares = std::any_of(cached.begin(), cached.end(), [](std::uint32_t n) { return n > 0; });
  if (shares) c.cachedTokens = cached.data();
  c.outputTokens = output.data();
  c.predictedTokens = predicted.data();
  c.toolGapMs = gapMs.data();
  c.parentOffset = parentOffset.data();
  c.parents = parents.data();
  return trace.bind(c);
}

bool isScriptable(const ClusterSpec& cluster) {
  return cluster.prefixCaches.empty() &&
         std::all_of(cluster.instances.begin(), cluster.instances.end(),
                     [](const InstanceSpec& spec) { return spec.role == Role::kUnified; });
}

bool isOff(double factor) { return factor > 1.1 || factor < 1 / 1.1; }

/// Where no script can: the cluster as it is now.
ClusterSpec presentCluster(const SweepInput& input, const ClusterSpec& cluster) {
  if (isScriptable(cluster)) return cluster;
  ClusterSpec present = cluster;
  present.instances.clear();
  present.prefixCaches.clear();
  for (std::uint32_t m = 0; m < cluster.instances.size(); ++m) {
    if (m < input.up.size() && !input.up[m]) continue;
    InstanceSpec spec = cluster.instances[m];
    if (m < input.factor.size() && isOff(input.factor[m])) {
      present.latencies.push_back(cluster.latencies[spec.latency].skewed(input.factor[m], 1));
      spec.latency = static_cast<std::uint16_t>(present.latencies.size() - 1);
    }
    present.instances.push_back(spec);
    if (!cluster.prefixCaches.empty()) present.prefixCaches.push_back(cluster.prefixCaches[m]);
  }
  return present;
}

/// The run of a stream, but for the value of the parameter: conditions and speeds of now, from t = 0 on.
RunOptions replayOptions(const SweepInput& input, const ClusterSpec& cluster, const RunOptions& base) {
  RunOptions run = base;
  run.observer = nullptr;
  run.script.clear();
  run.laws = false;
  run.error = PredictionError{};  // recorded predictions are as wrong as they were
  run.remaining = RemainingOptions{};
  run.tenantScales.clear();
  run.sloBase = SloBase::kExclusive;
  run.arrivals = Arrivals::Options{};
  run.arrivals.process = ArrivalProcess::kTrace;
  for (std::uint32_t m = 0; m < input.up.size() && isScriptable(cluster); ++m) {
    const double factor = input.factor[m];
    if (isOff(factor)) {
      run.script.push_back({0, m, ScriptStep::Kind::kSpeed, std::clamp(factor, 0.01, 100.0)});
    }
    if (!input.up[m]) run.script.push_back({0, m, ScriptStep::Kind::kDown, 1});
  }
  return run;
}

double quantileAbove(std::vector<double> largest, double share) {
  std::sort(largest.begin(), largest.end());
  const auto n = static_cast<double>(largest.size());
  const double rank = std::ceil((1 - share) * (n + 1));
  const auto index = static_cast<std::size_t>(std::clamp(rank, 1.0, n));
  return largest[index - 1];
}

class Sweep {
 public:
  Sweep(const SweepInput& input, const ClusterSpec& cluster, const RunOptions& base,
        const TunerOptions& options, Workspace* workspace)
      : input_(input),
        cluster_(presentCluster(input, cluster)),
        run_(replayOptions(input, cluster, base)),
        options_(options),
        workspace_(workspace),
        values_(options.values) {
    if (std::find(values_.begin(), values_.end(), input.current) == values_.end()) {
      values_.push_back(input.current);
      std::sort(values_.begin(), values_.end());
    }
    current_ =
        static_cast<std::size_t>(std::find(values_.begin(), values_.end(), input.current) - values_.begin());
    costs_.resize(values_.size());
  }

  SweepResult run() {
    const std::uint32_t all = options_.replications;
    const std::uint32_t first = std::max(2u, all / 4);
    std::vector<std::size_t> arms(values_.size());
    std::iota(arms.begin(), arms.end(), std::size_t{0});
    evaluate(arms, 0, std::min(first, all));
    std::vector<double> means;
    for (const std::size_t k : arms) means.push_back(mean(costs_[k]));
    std::vector<double> sorted = means;
    std::sort(sorted.begin(), sorted.end());
    const double limit = sorted[(sorted.size() - 1) / 2];
    std::erase_if(arms, [&](std::size_t k) {
      return means[k] > limit && k != current_ && k != 0 && k + 1 != values_.size();
    });
    if (all > first) evaluate(arms, first, all);
    decide(arms);
    if (!ok(result_.status) || !(result_.apply || input_.calibrate)) return result_;
    calibrateOnStreams();
    if (options_.load) calibrateArrivals();
    result_.calibrated = ok(result_.status);
    return result_;
  }

 private:
  void evaluate(const std::vector<std::size_t>& arms, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t r = from; r < to && ok(result_.status); ++r) {
      Stream stream;
      note(stream.build(input_, kStream, true, Random(options_.seed, input_.number * 1000 + r)));
      for (const std::size_t k : arms) {
        if (!ok(result_.status)) return;
        RunResult out;
        std::vector<double> latency(stream.body.size());
        RunOutputs outputs;
        outputs.latencyMs = latency.data();
        simulateWith(stream, values_[k], outputs, &out);
        costs_[k].push_back(upperQuantile(std::span(latency).subspan(stream.underway), 0.95));
      }
    }
  }

  void simulateWith(const Stream& stream, double value, const RunOutputs& outputs, RunResult* out) {
    RunOptions run = run_;
    run.parameters.set(options_.parameter, value);
    run.arrivals.recordedMs = stream.arrivalMs;
    note(simulate(stream.trace, cluster_, run, outputs, out, workspace_));
    ++result_.runs;
  }

  void decide(const std::vector<std::size_t>& arms) {
    result_.value = result_.best = input_.current;
    if (!ok(result_.status)) return;
    const std::vector<double>& own = costs_[current_];
    const auto finite = [](const std::vector<double>& costs) {
      return std::all_of(costs.begin(), costs.end(), [](double c) { return c < 1e300; });
    };
    if (!finite(own)) return;  // calls are rejected: latency alone does not decide
    std::size_t best = current_;
    for (const std::size_t k : arms) {
      if (finite(costs_[k]) && mean(costs_[k]) < mean(costs_[best])) best = k;
    }
    const double present = mean(own);
    const double least = mean(costs_[best]);
    result_.best = values_[best];
    result_.gain = present > 0 ? (present - least) / present : 0;
    result_.regret = least > 0 ? (present - least) / least : 0;
    if (best == current_) return;
    result_.p = pairedT(costs_[best], own).pLess;
    double better = 0;
    for (std::size_t r = 0; r < own.size(); ++r) better += costs_[best][r] < own[r] ? 1 : 0;
    result_.apply = result_.gain >= options_.minGain * (input_.changed ? 0.5 : 1) &&
                    result_.p <= options_.significance &&
                    better >= options_.agreement * static_cast<double>(own.size());
    if (result_.apply) result_.value = result_.best;
  }

  void calibrateOnStreams() {
    if (!options_.ratio && !options_.load) return;
    const Nanos length = static_cast<Nanos>(kCalibrationSeconds) * kSecond;
    std::vector<double> largest[4];
    double hours = 0;
    for (std::uint32_t i = 0; i < options_.calibrationRuns && ok(result_.status); ++i) {
      Stream stream;
      note(stream.build(input_, length + options_.window, false,
                        Random(options_.seed, input_.number * 1000 + 500 + i)));
      if (!ok(result_.status)) return;
      std::vector<double> latency(stream.body.size());
      RunOutputs outputs;
      outputs.latencyMs = latency.data();
      RunResult out;
      simulateWith(stream, result_.value, outputs, &out);
      if (!ok(result_.status)) return;
      const double warm = toMs(options_.window);
      std::vector<std::size_t> order;
      for (std::size_t w = 0; w < latency.size(); ++w) {
        if (stream.arrivalMs[w] >= warm && latency[w] < 1e300) order.push_back(w);
      }
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const double x = stream.arrivalMs[a] + latency[a];
        const double y = stream.arrivalMs[b] + latency[b];
        return x != y ? x < y : a < b;
      });
      PageHinkley ratio(kRatioFloor);
      PageHinkley work(kRatioFloor);
      double most[4] = {};
      for (const std::size_t w : order) {
        ratio.add(logRatio(latency[w], toMs(input_.bases[stream.body[w]])));
        work.add(input_.work[stream.body[w]]);
        const double now[4] = {ratio.up(), ratio.down(), work.up(), work.down()};
        for (int k = 0; k < 4; ++k) most[k] = std::max(most[k], now[k]);
      }
      for (int k = 0; k < 4; ++k) largest[k].push_back(most[k]);
      hours += (stream.arrivalMs.back() - warm) / 3.6e6;
    }
    hours = std::max(hours / options_.calibrationRuns, 1e-3);
    const double share = 1 - detExp(-options_.falseAlarmsPerHour * hours);
    result_.ratio = atLeast({quantileAbove(largest[0], share), quantileAbove(largest[1], share)});
    result_.work = atLeast({quantileAbove(largest[2], share), quantileAbove(largest[3], share)});
  }

  double perHour() const {
    double sum = 0;
    for (const Nanos g : input_.gaps) sum += toSeconds(g);
    return 3600 * static_cast<double>(input_.gaps.size()) / std::max(sum, 1e-6);
  }

  /// No threshold is lower than independent samples would have: under overload one direction hardly moves.
  Thresholds atLeast(Thresholds t) const {
    const double least = PageHinkley::threshold(std::max(perHour(), 1.0) / options_.falseAlarmsPerHour);
    return {std::max(t.up, least), std::max(t.down, least)};
  }

  void calibrateArrivals() {
    const double share = 1 - detExp(-options_.falseAlarmsPerHour);
    const auto samples = static_cast<std::uint32_t>(std::clamp(perHour(), 100.0, 20'000.0));
    std::vector<double> gaps;
    for (const Nanos g : input_.gaps) gaps.push_back(toSeconds(g));
    result_.arrivals = drawn(gaps, samples, share, 900);
  }

  /// The draws are from a resample, so that the threshold knows of no finer tail than the sample has.
  Thresholds drawn(const std::vector<double>& sample, std::uint32_t samples, double share,
                   std::uint64_t stream) const {
    std::vector<double> ups;
    std::vector<double> downs;
    Random random(options_.seed, input_.number * 1000 + stream);
    const auto n = static_cast<std::uint32_t>(sample.size());
    for (std::uint32_t i = 0; i < kDrawnHours; ++i) {
      PageHinkley detector(kRatioFloor);
      double up = 0;
      double down = 0;
      for (std::uint32_t k = 0; k < samples; ++k) {
        detector.add(sample[random.below(n)]);
        up = std::max(up, detector.up());
        down = std::max(down, detector.down());
      }
      ups.push_back(up);
      downs.push_back(down);
    }
    return atLeast({quantileAbove(ups, share), quantileAbove(downs, share)});
  }

  void note(Status s) {
    if (!ok(s) && ok(result_.status)) result_.status = s;
  }

  const SweepInput& input_;
  const ClusterSpec cluster_;
  RunOptions run_;
  const TunerOptions& options_;
  Workspace* workspace_;
  std::vector<double> values_;
  std::size_t current_ = 0;
  std::vector<std::vector<double>> costs_;  ///< [value][replication]
  SweepResult result_;
};

}  // namespace

Status checkTuner(const TunerOptions& o) {
  const auto share = [](double x) { return x > 0 && x < 1; };
  if (o.parameter >= kParameters.size() || o.values.size() < 2 || o.values.size() > 1000)
    return Status::kBadValue;
  PolicyParameters parameters;
  for (std::size_t i = 0; i < o.values.size(); ++i) {
    if (!parameters.set(o.parameter, o.values[i])) return Status::kBadValue;
    if (i > 0 && !(o.values[i] > o.values[i - 1])) return Status::kBadValue;
  }
  if (o.window < kSecond || o.window > 86'400 * kSecond || o.latency < 0 || o.latency > o.window ||
      o.period < 0 || o.period > kMaxTime / 2)
    return Status::kBadTime;
  if (o.replications < 4 || o.replications > 400 || o.calibrationRuns < 2 || o.calibrationRuns > 400)
    return Status::kBadValue;
  if (!(o.minGain >= 0 && o.minGain < 1) || !(o.agreement >= 0 && o.agreement <= 1) ||
      !share(o.significance) || !share(o.welchLevel) ||
      !(o.falseAlarmsPerHour > 0 && o.falseAlarmsPerHour <= 100))
    return Status::kBadValue;
  return Status::kOk;
}

SweepResult sweepWindow(const SweepInput& input, const ClusterSpec& cluster, const RunOptions& base,
                        const TunerOptions& options, Workspace* workspace) {
  Workspace own;
  return Sweep(input, cluster, base, options, workspace == nullptr ? &own : workspace).run();
}

}  // namespace laxity
