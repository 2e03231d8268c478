// The auto-tuner and what it stands on: recorded windows, detectors against their naive forms and their
// stated false-alarm rates, scripted clusters.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "order/registry.h"
#include "placement/pair_registry.h"
#include "placement/registry.h"
#include "simulator/simulation.h"
#include "tuner/run_tuner.h"

using namespace laxity;

namespace {

/// Chains and fans of calls, drawn call by call.
struct Workload {
  std::vector<std::uint32_t> firstCall{0};
  std::vector<double> arrivalMs;
  std::vector<double> sloMs;
  std::vector<std::uint16_t> stage;
  std::vector<std::uint32_t> prompt;
  std::vector<std::uint32_t> output;
  std::vector<double> gapMs;
  std::vector<std::uint32_t> offset{0};
  std::vector<std::uint32_t> parents;
  std::vector<std::uint32_t> cached;
  Trace trace;

  void share(std::vector<std::uint32_t> tokens) {
    cached = std::move(tokens);
    trace = Trace{};
    bind();
  }

  void call(Random& random, std::uint32_t longest, std::initializer_list<std::uint32_t> of, double gap) {
    stage.push_back(static_cast<std::uint16_t>(stage.size() % 3));
    prompt.push_back(50 + random.below(2000));
    output.push_back(1 + random.below(longest));
    gapMs.push_back(gap);
    parents.insert(parents.end(), of);
    offset.push_back(static_cast<std::uint32_t>(parents.size()));
  }
  void bind() {
    TraceColumns c;
    c.workflows = static_cast<std::uint32_t>(arrivalMs.size());
    c.calls = static_cast<std::uint32_t>(stage.size());
    c.edges = static_cast<std::uint32_t>(parents.size());
    c.firstCall = firstCall.data();
    c.arrivalMs = arrivalMs.data();
    c.sloMs = sloMs.data();
    c.stage = stage.data();
    c.promptTokens = prompt.data();
    c.outputTokens = output.data();
    if (!cached.empty()) c.cachedTokens = cached.data();
    c.toolGapMs = gapMs.data();
    c.parentOffset = offset.data();
    c.parents = parents.data();
    REQUIRE(ok(trace.bind(c)));
  }
};

/// Poisson at `rate` per second for `seconds`: a call, two after it, one after both.
std::unique_ptr<Workload> diamonds(std::uint64_t seed, double rate, double seconds, std::uint32_t longest) {
  auto w = std::make_unique<Workload>();
  Random random(seed);
  for (double t = random.exponential(1 / rate); t < seconds; t += random.exponential(1 / rate)) {
    w->arrivalMs.push_back(t * 1e3);
    w->sloMs.push_back(20'000 + random.below(20'000));
    w->call(random, longest, {}, random.below(3) == 0 ? 250 : 0);
    w->call(random, longest, {0}, 0);
    w->call(random, longest, {0}, random.below(2) == 0 ? 400 : 0);
    w->call(random, longest, {1, 2}, random.below(2) == 0 ? 1000 : 0);
    w->firstCall.push_back(static_cast<std::uint32_t>(w->stage.size()));
  }
  w->bind();
  return w;
}

LatencyModel latency(double slower) {
  LatencyModel model;
  REQUIRE(
      ok(LatencyModel::constants({0, 0.05 * slower, 20 * slower, 0.3 * slower, 0.0001 * slower}, &model)));
  return model;
}

ClusterSpec clusterOf(std::initializer_list<int> kinds, EngineMode mode = EngineMode::kPrefillFirst) {
  ClusterSpec cluster;
  cluster.latencies = {latency(1), latency(1.7)};
  for (const int kind : kinds) {
    InstanceSpec spec;
    spec.mode = mode;
    spec.latency = static_cast<std::uint16_t>(kind);
    spec.maxSequences = 64;
    spec.kvTokens = 400'000;
    if (mode == EngineMode::kChunked) spec.chunkTokens = 512;
    cluster.instances.push_back(spec);
  }
  return cluster;
}

RunOptions policy(const Workload& w, const char* order = "urgency",
                  const char* placement = "workload-balanced") {
  RunOptions run;
  REQUIRE(makeOrder(order, &run.order));
  REQUIRE(makePlacement(placement, &run.placement));
  run.knowledge = Knowledge::kOnline;
  run.sloBase = SloBase::kExclusive;
  run.arrivals.process = ArrivalProcess::kTrace;
  run.arrivals.recordedMs = w.arrivalMs;
  return run;
}

/// `p` prefill instances in front of `d` decode instances.
ClusterSpec pairs(int p, int d) {
  ClusterSpec cluster;
  cluster.latencies = {latency(1), latency(1.7)};
  for (int i = 0; i < p + d; ++i) {
    InstanceSpec spec;
    spec.role = i < p ? Role::kPrefill : Role::kDecode;
    spec.latency = static_cast<std::uint16_t>(i % 2);
    spec.maxSequences = 64;
    spec.kvTokens = 400'000;
    spec.linkPerToken = fineFromMs(0.001);
    cluster.instances.push_back(spec);
  }
  return cluster;
}

RunOptions pairPolicy(const Workload& w) {
  RunOptions run = policy(w, "ratio");
  REQUIRE(makePairPlacement("earliest-finish", &run.pairPlacement));
  run.binding = Binding::kAtCredit;
  return run;
}

TunerOptions options(std::uint64_t seed = 1) {
  TunerOptions o;
  for (int i = 0; i <= 10; ++i) o.values.push_back(i / 10.0);
  o.seed = seed;
  return o;
}

/// Keeps everything that a run shows.
struct Recorder final : RunObserver {
  std::vector<EventRecord> records;
  void instant(Nanos, std::span<const EventRecord> shown) override {
    records.insert(records.end(), shown.begin(), shown.end());
  }
  Nanos nextWake() const override { return kNever; }
  void act(Nanos, std::vector<SetParameter>*) override {}
};

/// The test by its definition, every sample remembered.
struct NaivePageHinkley {
  std::vector<double> samples;
  double up = 0;
  double down = 0;
  double floor;
  explicit NaivePageHinkley(double least) : floor(least) {}
  void add(double x) {
    if (samples.size() >= PageHinkley::kWarm) {
      double mean = 0;
      for (const double s : samples) mean += s / static_cast<double>(samples.size());
      double spread = 0;
      for (const double s : samples) spread += (s - mean) * (s - mean);
      const double deviation = std::max(floor, std::sqrt(spread / static_cast<double>(samples.size() - 1)));
      const double z = std::clamp((x - mean) / deviation, -PageHinkley::kClip, PageHinkley::kClip);
      up = std::max(0.0, up + z - PageHinkley::kSlack);
      down = std::max(0.0, down - z - PageHinkley::kSlack);
    }
    samples.push_back(x);
  }
};

/// Expected + `deviations` standard deviations of a Poisson count.
double most(double expected, double deviations = 3) { return expected + deviations * std::sqrt(expected); }

}  // namespace

TEST_SUITE("tuner") {
  TEST_CASE("a window holds what the trace says, whatever the scheduler was told") {
    for (const Knowledge knowledge : {Knowledge::kOnline, Knowledge::kDeclared, Knowledge::kOracle}) {
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto w = diamonds(seed, 0.5, 200, 120);
        const ClusterSpec cluster = clusterOf({0, 1});
        RunOptions run = policy(*w);
        run.knowledge = knowledge;
        Recorder recorder;
        run.observer = &recorder;
        RunResult result;
        std::vector<double> latencyMs(w->arrivalMs.size());
        RunOutputs outputs;
        outputs.latencyMs = latencyMs.data();
        REQUIRE(ok(simulate(w->trace, cluster, run, outputs, &result)));
        Window window(10'000 * kSecond);
        for (const EventRecord& record : recorder.records) window.observe(record);
        REQUIRE(window.complete().size() == w->arrivalMs.size());
        REQUIRE(window.arrivals().size() == w->arrivalMs.size());
        for (const WindowWorkflow& seen : window.complete()) {
          const auto row = static_cast<std::uint32_t>(
              std::lower_bound(w->arrivalMs.begin(), w->arrivalMs.end(), toMs(seen.arrival) - 1e-6) -
              w->arrivalMs.begin());
          REQUIRE(fromMs(w->arrivalMs[row]) == seen.arrival);
          CHECK(seen.allowed == fromMs(w->sloMs[row]));
          CHECK(seen.latency() == fromMs(latencyMs[row]));
          const std::uint32_t first = w->firstCall[row];
          REQUIRE(seen.calls.size() == w->firstCall[row + 1] - first);
          std::vector<bool> found(seen.calls.size());
          for (const WindowCall& c : seen.calls) {  // in order of reveal
            std::size_t at = 0;
            while (at < found.size() && (found[at] || w->prompt[first + at] != c.promptTokens ||
                                         w->output[first + at] != c.outputTokens))
              ++at;
            REQUIRE(at < found.size());
            found[at] = true;
            CHECK(c.gap == fromMs(w->gapMs[first + at]));
            CHECK(c.parentCount == w->offset[first + at + 1] - w->offset[first + at]);
          }
        }
      }
    }
  }

  TEST_CASE("a window forgets what is older") {
    const auto w = diamonds(3, 1, 400, 60);
    RunOptions run = policy(*w);
    Recorder recorder;
    run.observer = &recorder;
    RunResult result;
    REQUIRE(ok(simulate(w->trace, clusterOf({0, 1}), run, {}, &result)));
    Window window(100 * kSecond);
    for (const EventRecord& record : recorder.records) {
      window.expire(record.header.t);
      window.observe(record);
      for (const Nanos a : window.arrivals()) REQUIRE(a >= record.header.t - 100 * kSecond);
      if (!window.complete().empty())
        REQUIRE(window.complete().front().lastFinish >= record.header.t - 100 * kSecond);
    }
    CHECK(window.arrivals().size() < w->arrivalMs.size());
  }

  TEST_CASE("Page-Hinkley equals its naive form") {
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
      Random random(seed);
      const double floor = seed % 3 == 0 ? 0.5 : 0.02;
      PageHinkley detector(floor);
      NaivePageHinkley naive(floor);
      const std::uint32_t jump = 20 + random.below(60);
      for (std::uint32_t i = 0; i < 90; ++i) {
        const double x = 0.1 * random.normal() + (i >= jump ? 0.2 : 0) + (random.below(50) == 0 ? 5 : 0);
        detector.add(x);
        naive.add(x);
        REQUIRE(detector.up() == doctest::Approx(naive.up).epsilon(1e-4));
        REQUIRE(detector.down() == doctest::Approx(naive.down).epsilon(1e-4));
      }
    }
  }

  TEST_CASE("the threshold for independent samples holds its rate, both ways, and finds a shift") {
    const double every = 2000;
    const double threshold = PageHinkley::threshold(every);
    std::uint32_t alarms = 0;
    Random random(7);
    PageHinkley detector(0.01);
    const std::uint32_t samples = 400'000;
    for (std::uint32_t i = 0; i < samples; ++i) {
      detector.add(random.normal());
      if (std::max(detector.up(), detector.down()) <= threshold) continue;
      ++alarms;
      detector.reset();
    }
    CHECK(alarms > 0);
    CHECK(alarms <= most(2 * samples / every));
    for (int k = 0; k < 200; ++k) {
      detector.reset();
      for (int i = 0; i < 100; ++i) detector.add(random.normal());
      int delay = 0;
      while (detector.up() <= threshold && delay < 200) {
        detector.add(random.normal() + 1.5);
        ++delay;
      }
      CHECK(delay < 60);
    }
  }

  TEST_CASE("calls take what the model says of their batch, whatever the load; a slower engine shows") {
    for (const EngineMode mode : {EngineMode::kPrefillFirst, EngineMode::kChunked}) {
      for (const double rate : {0.3, 1.5}) {
        for (const double factor : {1.0, 2.0, 0.5}) {
          const auto w = diamonds(5, rate, 300, 200);
          const ClusterSpec cluster = clusterOf({0, 1}, mode);
          RunOptions run = policy(*w);
          run.script = {{0, 0, ScriptStep::Kind::kSpeed, factor}, {0, 1, ScriptStep::Kind::kSpeed, factor}};
          Recorder recorder;
          run.observer = &recorder;
          RunResult result;
          REQUIRE(ok(simulate(w->trace, cluster, run, {}, &result)));
          Service service(cluster.latencies);
          double sum = 0;
          double count = 0;
          for (const EventRecord& record : recorder.records) {
            ServiceSample sample;
            if (!service.observe(record, &sample)) continue;
            sum += sample.logRatio;
            ++count;
          }
          REQUIRE(count > 100);
          const double tolerance = mode == EngineMode::kPrefillFirst ? 0.03 : 0.15;
          CHECK(std::abs(sum / count - std::log(factor)) < tolerance);
        }
      }
    }
  }

  TEST_CASE("on prefill-decode clusters p's prefills and d's decodes take what the model says") {
    for (const Staging staging : {Staging::kNone, Staging::kUnlimited}) {
      for (const double factor : {1.0, 2.0}) {
        const auto w = diamonds(5, 1, 300, 200);
        ClusterSpec cluster = pairs(2, 2);
        RunOptions run = pairPolicy(*w);
        REQUIRE(makePairPlacement("round-robin", &run.pairPlacement));
        run.binding = Binding::kAtReveal;
        run.pairs.staging = staging;
        Recorder recorder;
        run.observer = &recorder;
        RunResult result;
        REQUIRE(ok(simulate(w->trace, cluster, run, {}, &result)));
        // The same engines, believed to be faster or slower than they are.
        std::vector<LatencyModel> believed;
        for (const LatencyModel& model : cluster.latencies) believed.push_back(model.skewed(1 / factor, 1));
        Service service(believed, staging == Staging::kNone);
        double sum[4] = {};
        double count[4] = {};
        for (const EventRecord& record : recorder.records) {
          ServiceSample sample;
          if (!service.observe(record, &sample)) continue;
          sum[sample.instance] += sample.logRatio;
          ++count[sample.instance];
        }
        for (int m = 0; m < 4; ++m) {
          // Where room on d is asked for after the transfer, the log does not say when a call joins.
          if (m >= 2 && staging == Staging::kUnlimited) {
            CHECK(count[m] == 0);
            continue;
          }
          REQUIRE(count[m] > 50);
          CHECK(std::abs(sum[m] / count[m] - std::log(factor)) < 0.03);
        }
      }
    }
  }

  TEST_CASE("a window holds the shared prefixes that the caches held") {
    const auto w = diamonds(3, 0.5, 200, 60);
    std::vector<std::uint32_t> shared;
    for (const std::uint32_t tokens : w->prompt) shared.push_back(tokens / 2);
    w->share(shared);
    ClusterSpec cluster = clusterOf({0});
    cluster.prefixCaches = {{CacheTier{1'000'000'000, 0}}};
    RunOptions run = policy(*w);
    Recorder recorder;
    run.observer = &recorder;
    RunResult result;
    REQUIRE(ok(simulate(w->trace, cluster, run, {}, &result)));
    Window window(kMaxTime / 2);
    std::size_t seen = 0;
    for (const EventRecord& record : recorder.records) {
      const WindowWorkflow* complete = window.observe(record);
      if (complete == nullptr) continue;
      for (std::uint32_t i = 0; i < complete->calls.size(); ++i) {
        const WindowCall& c = complete->calls[i];
        // An endless cache on one instance: all that the workflow's calls before it left there.
        if (i == 0) CHECK(c.cachedTokens == 0);
        CHECK(c.cachedTokens <= reusableTokens(c.promptTokens / 2, c.promptTokens));
        if (c.cachedTokens > 0) ++seen;
      }
    }
    CHECK(seen > w->stage.size() / 4);
  }

  TEST_CASE("any parameter is tuned on prefill-decode clusters and with prefix caches; the log replays") {
    for (const bool paired : {false, true}) {
      for (const bool caches : {false, true}) {
        if (!paired && !caches) continue;
        const auto w = diamonds(11, paired ? 2 : 1, 500, 150);
        std::vector<std::uint32_t> shared;
        for (const std::uint32_t tokens : w->prompt) shared.push_back(tokens / 2);
        w->share(shared);
        ClusterSpec cluster = paired ? pairs(2, 2) : clusterOf({0, 1});
        if (caches) cluster.prefixCaches.assign(cluster.instances.size(), {CacheTier{50'000, 0}});
        RunOptions run = paired ? pairPolicy(*w) : policy(*w);
        TunerOptions o = options(4);
        o.replications = 4;
        o.calibrationRuns = 2;
        if (paired) {  // shortest jobs first starves; ageing makes it first come, first served
          REQUIRE(makeOrder("sjf", &run.order));
          o.parameter = static_cast<std::uint16_t>(Parameter::kAgeingMs);
          o.values = {0, 1000, 100'000};
        }
        RunTuner tuner(o, cluster, run);
        run.observer = &tuner;
        run.laws = true;
        EventLog log;
        RunOutputs outputs;
        outputs.log = &log;
        RunResult result;
        REQUIRE(ok(simulate(w->trace, cluster, run, outputs, &result)));
        REQUIRE(ok(tuner.status()));
        std::size_t swept = 0;
        for (const TunerEvent& e : tuner.tuner().events()) {
          if (e.kind == TunerEvent::Kind::kTrigger) {
            // Predictions are exact.
            CHECK(e.reason != TunerReason::kServiceUp);
            CHECK(e.reason != TunerReason::kServiceDown);
          } else {
            ++swept;
            CHECK(e.regret >= 0);
          }
        }
        CHECK(swept >= 2);
        CHECK(tuner.sweepRuns() > 0);
        // A tuner that never acts changes nothing.
        TunerOptions still = o;
        still.minGain = 0.99;
        RunTuner idle(still, cluster, run);
        RunOptions plain = run;
        plain.observer = nullptr;
        run.observer = &idle;
        RunResult watched;
        RunResult alone;
        REQUIRE(ok(simulate(w->trace, cluster, run, {}, &watched)));
        REQUIRE(ok(simulate(w->trace, cluster, plain, {}, &alone)));
        CHECK(watched.p95Ms == alone.p95Ms);
        CHECK(watched.meanMs == alone.meanMs);
      }
    }
  }

  TEST_CASE("a doubled service time is detected within 200 s at one workflow per second") {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const auto w = diamonds(seed, 1, 700, 150);
      const ClusterSpec cluster = clusterOf({0, 0, 1});
      RunOptions run = policy(*w);
      const Nanos at = 400 * kSecond;
      for (std::uint32_t m = 0; m < 3; ++m) run.script.push_back({at, m, ScriptStep::Kind::kSpeed, 2});
      TunerOptions o = options(seed);
      o.replications = 4;
      o.calibrationRuns = 2;
      RunTuner tuner(o, cluster, run);
      run.observer = &tuner;
      RunResult result;
      REQUIRE(ok(simulate(w->trace, cluster, run, {}, &result)));
      REQUIRE(ok(tuner.status()));
      Nanos detected = kNever;
      for (const TunerEvent& e : tuner.tuner().events()) {
        if (e.reason == TunerReason::kServiceUp && e.t >= at) detected = std::min(detected, e.t);
        // Exact predictions: no alarm before.
        if (e.t < at) CHECK(e.reason != TunerReason::kServiceUp);
      }
      CHECK(detected - at <= 200 * kSecond);
    }
  }

  TEST_CASE("calibrated detectors hold their rate over 1,000 stationary windows") {
    // Windows of 100 s: 28 hours. Each direction of ratio, arrivals and work may give falseAlarmsPerHour.
    double windows = 0;
    std::uint32_t alarms[16] = {};
    std::uint32_t switches = 0;
    TunerOptions o = options();
    o.welch = false;
    o.replications = 8;
    o.calibrationRuns = 8;
    o.values = {0, 0.3, 0.6, 1};
    for (std::uint64_t seed = 1; windows < 1000; ++seed) {
      const auto w = diamonds(seed, 0.6, 3600 * 4, 60);
      const ClusterSpec cluster = clusterOf({0, 1});
      RunOptions run = policy(*w);
      o.seed = seed;
      RunTuner tuner(o, cluster, run);
      run.observer = &tuner;
      RunResult result;
      REQUIRE(ok(simulate(w->trace, cluster, run, {}, &result)));
      REQUIRE(ok(tuner.status()));
      bool settled = false;
      for (const TunerEvent& e : tuner.tuner().events()) {
        if (e.kind == TunerEvent::Kind::kTrigger) ++alarms[static_cast<int>(e.reason)];
        if (e.kind == TunerEvent::Kind::kApplied) {
          switches += settled ? 1 : 0;  // the first goes from the default to the best
          settled = true;
        }
      }
      windows += 3600 * 4 / 100.0;
    }
    const double hours = windows / 36;
    const double expected = o.falseAlarmsPerHour * hours;
    for (const TunerReason reason :
         {TunerReason::kRatioUp, TunerReason::kRatioDown, TunerReason::kServiceUp, TunerReason::kServiceDown,
          TunerReason::kRateUp, TunerReason::kRateDown}) {
      CAPTURE(static_cast<int>(reason));
      CHECK(alarms[static_cast<int>(reason)] <= most(expected));
    }
    CHECK(alarms[static_cast<int>(TunerReason::kWork)] <= most(2 * expected));
    CHECK(switches <= hours);
    MESSAGE("per hour: ratio " << alarms[2] / hours << " up, " << alarms[3] / hours << " down; service "
                               << alarms[4] / hours << ", " << alarms[5] / hours << "; arrivals "
                               << alarms[6] / hours << ", " << alarms[7] / hours << "; work "
                               << alarms[8] / hours << "; switches " << switches / hours);
  }

  TEST_CASE("a sweep is a function of its input, and finds what is better") {
    // One fast and one slow instance, light load: sending calls to the slow one (alpha 0) costs.
    const auto w = diamonds(9, 0.25, 400, 150);
    const ClusterSpec cluster = clusterOf({0, 1});
    RunOptions run = policy(*w);
    Recorder recorder;
    run.observer = &recorder;
    RunResult result;
    REQUIRE(ok(simulate(w->trace, cluster, run, {}, &result)));
    TunerOptions o = options();
    Tuner tuner(o, cluster.latencies, 0);
    Nanos last = 0;
    for (const EventRecord& record : recorder.records) {
      if (record.header.t > 300 * kSecond) break;
      tuner.observe(record);
      last = record.header.t;
    }
    REQUIRE(tuner.due(last));
    SweepInput input;
    REQUIRE(tuner.begin(last, &input));
    CHECK(tuner.inFlight());
    CHECK_FALSE(tuner.due(last));
    input.current = 0;
    Workspace workspace;
    const SweepResult a = sweepWindow(input, cluster, run, o);
    const SweepResult b = sweepWindow(input, cluster, run, o, &workspace);
    const SweepResult c = sweepWindow(input, cluster, run, o, &workspace);
    REQUIRE(ok(a.status));
    CHECK(a.gain == b.gain);
    CHECK(a.p == c.p);
    CHECK(a.best == b.best);
    CHECK(a.ratio.up == c.ratio.up);
    CHECK(a.work.down == b.work.down);
    CHECK(a.apply);
    CHECK(a.best > 0);
    // The best is not left again, and hysteresis is a bound on the gain.
    input.current = a.best;
    CHECK_FALSE(sweepWindow(input, cluster, run, o).apply);
    input.current = 0;
    o.minGain = a.gain + 1e-9;
    input.changed = false;
    CHECK_FALSE(sweepWindow(input, cluster, run, o).apply);
    o.minGain = a.gain;
    CHECK(sweepWindow(input, cluster, run, o).apply);
    // Half of it is enough where the regime is known to be new.
    input.changed = true;
    o.minGain = 1.9 * a.gain;
    CHECK(sweepWindow(input, cluster, run, o).apply);
    o.minGain = 2.1 * a.gain;
    CHECK_FALSE(sweepWindow(input, cluster, run, o).apply);
  }

  TEST_CASE("options out of range are declined") {
    CHECK(ok(checkTuner(options())));
    TunerOptions o = options();
    o.values = {0.5};
    CHECK(checkTuner(o) == Status::kBadValue);
    o = options();
    o.values = {0.5, 0.5};
    CHECK(checkTuner(o) == Status::kBadValue);
    o.values = {0.5, 1.5};
    CHECK(checkTuner(o) == Status::kBadValue);
    o = options();
    o.window = 0;
    CHECK(checkTuner(o) == Status::kBadTime);
    o = options();
    o.significance = 0;
    CHECK(checkTuner(o) == Status::kBadValue);
    o = options();
    o.replications = 1;
    CHECK(checkTuner(o) == Status::kBadValue);
  }

  TEST_CASE("scripts: whatever happens to the cluster, nothing is lost and the laws hold") {
    std::uint64_t lost = 0;
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
      Random random(seed, 5);
      const auto w = diamonds(seed, 0.5 + random.uniform(), 120, 150);
      const EngineMode mode = seed % 2 == 0 ? EngineMode::kPrefillFirst : EngineMode::kChunked;
      const ClusterSpec cluster = clusterOf({0, 1, 0}, mode);
      RunOptions run = policy(*w, seed % 3 == 0 ? "fcfs" : "urgency",
                              seed % 5 == 0 ? "least-loaded" : "workload-balanced");
      run.feedback = seed % 4 < 2 ? Feedback::kBoundary : Feedback::kLease;
      run.lookahead = run.feedback == Feedback::kLease ? 1 : 0;
      run.laws = true;
      Nanos t = 0;
      for (int i = 0; i < 12; ++i) {
        t += static_cast<Nanos>(random.below(15'000)) * kMillisecond;
        const std::uint32_t m = random.below(3);
        const auto kind = static_cast<ScriptStep::Kind>(random.below(4));
        run.script.push_back({t, m, kind, kind == ScriptStep::Kind::kSpeed ? 0.5 + 2 * random.uniform() : 1});
      }
      for (std::uint32_t m = 0; m < 3; ++m) run.script.push_back({t, m, ScriptStep::Kind::kUp, 1});
      RunResult result;
      const Status status = simulate(w->trace, cluster, run, {}, &result);
      CAPTURE(seed);
      REQUIRE_MESSAGE(ok(status), reason(status));
      CHECK(result.completed == w->arrivalMs.size());
      lost += result.lostLeases;
    }
    CHECK(lost > 100);
  }

  TEST_CASE("an engine at twice the time is an engine with twice the latency") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const auto w = diamonds(seed, 0.8, 100, 120);
      const EngineMode mode = seed % 2 == 0 ? EngineMode::kPrefillFirst : EngineMode::kChunked;
      const ClusterSpec cluster = clusterOf({0, 0}, mode);
      ClusterSpec slow = cluster;
      for (LatencyModel& model : slow.latencies) model = model.skewed(2, 1);
      // Neither asks for times.
      RunOptions run = policy(*w, "fcfs", "round-robin");
      RunResult a;
      RunResult b;
      std::vector<double> first(w->arrivalMs.size());
      std::vector<double> second(first.size());
      RunOutputs outputs;
      outputs.latencyMs = first.data();
      REQUIRE(ok(simulate(w->trace, slow, run, outputs, &a)));
      run.script = {{0, 0, ScriptStep::Kind::kSpeed, 2}, {0, 1, ScriptStep::Kind::kSpeed, 2}};
      outputs.latencyMs = second.data();
      REQUIRE(ok(simulate(w->trace, cluster, run, outputs, &b)));
      CHECK(first == second);
      // And a factor of 1 in the middle changes nothing beyond the rounding of a segment that is cut.
      run.script = {{30 * kSecond, 0, ScriptStep::Kind::kSpeed, 1}};
      outputs.latencyMs = second.data();
      REQUIRE(ok(simulate(w->trace, cluster, run, outputs, &b)));
      run.script.clear();
      outputs.latencyMs = first.data();
      REQUIRE(ok(simulate(w->trace, cluster, run, outputs, &a)));
      for (std::size_t i = 0; i < first.size(); ++i)
        CHECK(first[i] == doctest::Approx(second[i]).epsilon(1e-6));
    }
  }

  TEST_CASE("scripts that make no sense are declined") {
    const auto w = diamonds(1, 1, 20, 50);
    const ClusterSpec cluster = clusterOf({0, 1});
    RunOptions run = policy(*w);
    RunResult result;
    using Kind = ScriptStep::Kind;
    const auto status = [&](std::vector<ScriptStep> script) {
      run.script = std::move(script);
      return simulate(w->trace, cluster, run, {}, &result);
    };
    CHECK(status({{0, 2, Kind::kDown, 1}}) == Status::kUnknownInstance);
    CHECK(status({{5, 0, Kind::kUp, 1}, {4, 0, Kind::kUp, 1}}) == Status::kBadTime);
    CHECK(status({{0, 0, Kind::kSpeed, 0}}) == Status::kBadValue);
    CHECK(status({{0, 0, Kind::kDown, 1}, {0, 1, Kind::kDown, 1}}) == Status::kNoInstance);
    CHECK(status({{0, 0, Kind::kDown, 1}}) == Status::kOk);
  }
}
