// Leaping equals stepping: the simulator that leaps over iterations against one that visits each of them
// (stepping.h), on random clusters, traces and policies. Compared are the whole streams of events and
// decisions and all reported times.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/profile.h"
#include "model/roofline.h"
#include "simulator/simulation.h"
#include "stepping.h"

using namespace laxity;

namespace {

/// Columns that own their memory.
struct OwnedTrace {
  std::vector<std::uint32_t> firstCall{0};
  std::vector<double> arrivalMs;
  std::vector<double> sloMs;
  std::vector<std::uint16_t> stage, model;
  std::vector<std::uint32_t> prompt, output, predicted, cached;
  std::vector<double> gapMs;
  std::vector<std::uint32_t> parentOffset{0};
  std::vector<std::uint32_t> parents;

  void workflow(double arrival, double slo = std::numeric_limits<double>::quiet_NaN()) {
    arrivalMs.push_back(arrival);
    sloMs.push_back(slo);
    firstCall.push_back(static_cast<std::uint32_t>(prompt.size()));
  }
  /// A call of the latest workflow.
  void call(std::uint32_t promptTokens, std::uint32_t outputTokens, std::uint32_t predictedTokens,
            std::vector<std::uint32_t> parentCalls = {}, double gap = 0, std::uint16_t stageName = 0,
            std::uint16_t modelName = 0) {
    prompt.push_back(promptTokens);
    output.push_back(outputTokens);
    predicted.push_back(predictedTokens);
    gapMs.push_back(gap);
    stage.push_back(stageName);
    model.push_back(modelName);
    parents.insert(parents.end(), parentCalls.begin(), parentCalls.end());
    parentOffset.push_back(static_cast<std::uint32_t>(parents.size()));
    firstCall.back() = static_cast<std::uint32_t>(prompt.size());
  }
  TraceColumns columns() const {
    TraceColumns c;
    c.workflows = static_cast<std::uint32_t>(arrivalMs.size());
    c.calls = static_cast<std::uint32_t>(prompt.size());
    c.edges = static_cast<std::uint32_t>(parents.size());
    c.firstCall = firstCall.data();
    c.arrivalMs = arrivalMs.data();
    c.sloMs = sloMs.data();
    c.stage = stage.data();
    c.model = model.data();
    c.promptTokens = prompt.data();
    c.outputTokens = output.data();
    c.predictedTokens = predicted.data();
    c.cachedTokens = cached.empty() ? nullptr : cached.data();
    c.toolGapMs = gapMs.data();
    c.parentOffset = parentOffset.data();
    c.parents = parents.data();
    return c;
  }
};

struct Scenario {
  OwnedTrace trace;
  ClusterSpec cluster;
  RunOptions options;
};

/// One event or decision without the names (slots) its driver chose.
using Line = std::array<std::int64_t, 8>;

/// Events and decisions that carry meaning, in order; calls and workflows by the order in which they were
/// revealed. Capacities, timers and decide marks may differ: they must not matter. Repeated first tokens: see
/// their own test.
std::vector<Line> canonical(const EventLog& log) {
  using Name = std::pair<std::uint32_t, std::uint32_t>;
  std::map<Name, std::int64_t> calls;
  std::map<Name, std::int64_t> workflows;
  std::set<std::pair<std::int64_t, std::uint32_t>> seen;
  const auto call = [&](Ref r) { return calls.at({r.slot, r.generation}); };
  const auto workflow = [&](Ref r) { return workflows.at({r.slot, r.generation}); };
  std::vector<Line> lines;
  for (const EventRecord& r : log.records()) {
    const auto kind = static_cast<std::int64_t>(r.header.kind);
    const Nanos t = r.header.t;
    switch (r.header.kind) {
      case EventKind::kOpenWorkflow: {
        const std::int64_t n = static_cast<std::int64_t>(workflows.size());
        workflows[{r.openWorkflow.workflow.slot, r.openWorkflow.workflow.generation}] = n;
        lines.push_back(
            {kind, t, n, r.openWorkflow.deadline, r.openWorkflow.stageTemplate, r.openWorkflow.tenant});
        break;
      }
      case EventKind::kMoreParents:
        for (std::uint32_t i = 0; i < r.moreParents.count; ++i)
          lines.push_back({kind, t, call(r.moreParents.parents[i])});
        break;
      case EventKind::kReveal: {
        const Reveal& e = r.reveal;
        const std::int64_t n = static_cast<std::int64_t>(calls.size());
        calls[{e.call.slot, e.call.generation}] = n;
        lines.push_back(
            {kind, t, n, workflow(e.workflow), e.promptTokens, e.predictedTokens, e.stage, e.toolPending});
        for (std::uint32_t i = 0; i < e.parentCount; ++i)
          lines.push_back({kind, t, n, -1, call(e.parents[i])});
        for (const CachedPrefix& hint : e.cached)
          lines.push_back({kind, t, n, -2, e.predictedHigh, hint.instance, hint.tokens, hint.loadUs});
        break;
      }
      case EventKind::kFirstToken:
        if (!seen.insert({call(r.call.attempt.call), r.call.attempt.epoch}).second) break;
        [[fallthrough]];
      case EventKind::kToolDone:
        lines.push_back({kind, t, call(r.call.attempt.call), r.call.attempt.epoch});
        break;
      case EventKind::kEvicted:
        lines.push_back(
            {kind, t, call(r.evicted.attempt.call), r.evicted.attempt.epoch, r.evicted.generated});
        break;
      case EventKind::kFinished:
        lines.push_back(
            {kind, t, call(r.finished.attempt.call), r.finished.attempt.epoch, r.finished.outputTokens});
        break;
      case EventKind::kFailed:
        lines.push_back({kind, t, call(r.failed.attempt.call), r.failed.attempt.epoch});
        break;
      case EventKind::kCloseWorkflow:
        lines.push_back({kind, t, workflow(r.closeWorkflow.workflow)});
        break;
      case EventKind::kDecision: {
        const Decision& d = r.decision;
        lines.push_back({kind, t, static_cast<std::int64_t>(d.kind), call(d.call), d.epoch,
                         static_cast<std::int64_t>(d.instance), static_cast<std::int64_t>(d.leaseNumber),
                         static_cast<std::int64_t>(d.rejectReason)});
        break;
      }
      default:
        break;
    }
  }
  return lines;
}

struct Tally {
  std::uint64_t calls = 0, iterations = 0, instants = 0, evictions = 0, hidden = 0, rejected = 0,
                incomplete = 0;
  std::uint64_t coincidences = 0;
  CacheResult cache;
};

bool sameTime(double ms, Nanos t) { return t < 0 ? std::isnan(ms) : ms == toMs(t); }

std::string show(const Line& line) {
  std::string text;
  for (std::int64_t v : line) text += std::to_string(v) + " ";
  return text;
}

/// Empty where both agree, else the first difference.
std::string compare(const Scenario& s, Tally* tally, bool firstTokens = false) {
  Trace trace;
  if (!ok(trace.bind(s.trace.columns()))) return "the trace is malformed";
  const std::uint32_t calls = trace.columns().calls;
  const std::uint32_t workflows = trace.columns().workflows;
  RunOptions options = s.options;
  options.arrivals.process = ArrivalProcess::kTrace;
  options.arrivals.recordedMs = s.trace.arrivalMs;
  options.laws = true;

  EventLog leapLog;
  EventLog stepLog;
  std::vector<double> latency(workflows), base(workflows);
  std::vector<double> ready(calls), leased(calls), firstToken(calls), finished(calls);
  std::vector<std::uint16_t> instance(calls);
  RunOutputs out;
  out.latencyMs = latency.data();
  out.baseMs = base.data();
  out.instance = instance.data();
  out.readyMs = ready.data();
  out.leasedMs = leased.data();
  out.firstTokenMs = firstToken.data();
  out.finishedMs = finished.data();
  out.log = &leapLog;
  RunResult result;
  const Status status = simulate(trace, s.cluster, options, out, &result);
  const stepping::Result steps = stepping::run(trace, s.cluster, options, &stepLog);
  if (!ok(steps.status)) return std::string("stepping: ") + reason(steps.status);

  const std::vector<Line> leapLines = canonical(leapLog);
  const std::vector<Line> stepLines = canonical(stepLog);
  for (std::size_t i = 0; i < std::max(leapLines.size(), stepLines.size()); ++i) {
    const std::string leap = i < leapLines.size() ? show(leapLines[i]) : "nothing";
    const std::string step = i < stepLines.size() ? show(stepLines[i]) : "nothing";
    if (leap != step) return "line " + std::to_string(i) + ": leaping " + leap + "stepping " + step;
  }
  if (!ok(status)) return std::string("leaping: ") + reason(status);

  std::multiset<Nanos> times;
  for (std::uint32_t row = 0; row < calls; ++row) {
    const stepping::CallResult& c = steps.calls[row];
    const std::string name = "call " + std::to_string(row);
    if (instance[row] != (c.instance == kNoSlot ? 0xffff : c.instance)) return name + ": instance";
    if (!sameTime(ready[row], c.ready)) return name + ": ready";
    if (!sameTime(leased[row], c.leased)) return name + ": leased";
    if (!sameTime(finished[row], c.finished)) return name + ": finished";
    if ((firstTokens || c.hiddenEvictions == 0) && !sameTime(firstToken[row], c.firstToken))
      return name + ": first token";
    tally->hidden += c.hiddenEvictions;
    times.insert(c.finished);
    times.insert(c.ready);
  }
  std::uint32_t completed = 0;
  for (std::uint32_t w = 0; w < workflows; ++w) {
    const bool whole = steps.latency[w] != kNever;
    completed += whole ? 1 : 0;
    if (latency[w] != (whole ? toMs(steps.latency[w]) : std::numeric_limits<double>::infinity())) {
      return "workflow " + std::to_string(w) + ": latency";
    }
    if (base[w] != toMs(steps.base[w])) return "workflow " + std::to_string(w) + ": base";
  }
  if (result.completed != completed) return "completed";
  if (result.evictions != steps.evictions) return "evictions";
  std::uint64_t hidden = 0;
  for (const stepping::CallResult& c : steps.calls) hidden += c.hiddenEvictions;
  if (result.hiddenEvictions != hidden) return "hidden evictions";
  if (result.rejected != steps.rejected) return "rejected";
  if (result.calls != steps.finished) return "finished calls";
  const auto numbers = [](const CacheResult& c) {
    return std::array{c.hits,         c.misses,       c.stale,       c.promptTokens,
                      c.sharedTokens, c.cachedTokens, c.loadedTokens};
  };
  if (numbers(result.cache) != numbers(steps.cache)) return "prefix cache";
  tally->cache.hits += result.cache.hits;
  tally->cache.misses += result.cache.misses;
  tally->cache.stale += result.cache.stale;
  tally->cache.loadedTokens += result.cache.loadedTokens;
  tally->calls += calls;
  tally->iterations += steps.iterations;
  tally->instants += result.instants;
  tally->evictions += steps.evictions;
  tally->rejected += steps.rejected;
  tally->incomplete += workflows - completed;
  for (auto i = times.begin(); i != times.end(); i = times.upper_bound(*i))
    tally->coincidences += times.count(*i) - 1;
  return "";
}

template <class Values>
auto any(Random& random, const Values& values) {
  return values[random.below(static_cast<std::uint32_t>(std::size(values)))];
}

LatencyModel randomModel(Random& random, bool round, bool press) {
  LatencyConstants c;
  if (round) {
    c.prefillBaseMs = any(random, std::array{0.0, 1.0, 2.0});
    c.prefillPerTokenMs = any(random, std::array{0.0, 0.1, 0.5, 1.0});
    c.decodeBaseMs = any(random, std::array{0.5, 1.0, 1.0, 2.0});
    c.decodePerSequenceMs = any(random, std::array{0.0, 0.0, 0.5, 1.0});
    c.decodePerContextMs = any(random, std::array{0.0, 0.0, 0.001, 0.01, 0.5});
  } else {
    c.prefillBaseMs = random.uniform() * 2;
    c.prefillPerTokenMs = random.uniform() * 0.3;
    c.decodeBaseMs = 0.05 + random.uniform() * 2;
    c.decodePerSequenceMs = random.below(3) == 0 ? 0 : random.uniform() * 0.2;
    c.decodePerContextMs = any(random, std::array{0.0, 3.3e-7, 7.7e-5, 0.0123});
  }
  if (press) {
    c.prefillBaseMs = 0;
    c.prefillPerTokenMs = round ? 0.125 : 0.01;
  }
  LatencyModel model;
  if (!press && random.below(3) == 0) {
    std::vector<PrefillKnot> knots;
    std::uint32_t tokens = 1 + random.below(8);
    Nanos time = round ? kMillisecond : 1 + random.below(3'000'000);
    const std::uint32_t n = 1 + random.below(4);
    for (std::uint32_t i = 0; i < n; ++i) {
      knots.push_back({tokens, time});
      tokens += 1 + random.below(40);
      time += round ? kMillisecond * random.below(4) : random.below(5'000'000);
    }
    REQUIRE(LatencyModel::table(knots, c, &model) == Status::kOk);
  } else {
    REQUIRE(LatencyModel::constants(c, &model) == Status::kOk);
  }
  return model;
}

/// A roofline of small sizes, or a measured profile whose linear pieces are a few tokens long.
LatencyModel tabulatedModel(Random& random) {
  LatencyModel model;
  if (random.below(3) == 0) {
    RooflineSpec spec;
    spec.llm = kLlms[random.below(kLlms.size())].spec;
    spec.gpu = kGpus[random.below(kGpus.size())].spec;
    spec.tensorParallel = 1u << random.below(4);
    REQUIRE(LatencyModel::roofline(spec, &model) == Status::kOk);
    return model;
  }
  const bool round = random.below(2) == 0;
  const auto grid = [&](std::uint32_t firstRow, std::uint32_t firstColumn) {
    ProfileGrid g;
    for (std::uint32_t n = 1 + random.below(4), at = firstRow; n > 0; --n, at += 1 + random.below(4))
      g.rows.push_back(at);
    for (std::uint32_t n = 1 + random.below(6), at = firstColumn; n > 0; --n, at += 1 + random.below(12))
      g.columns.push_back(at);
    const std::size_t width = g.columns.size();
    for (std::size_t i = 0; i < g.rows.size() * width; ++i) {
      Fine floor = fineFromMs(0.5);
      if (i % width > 0) floor = std::max(floor, g.times[i - 1]);
      if (i >= width) floor = std::max(floor, g.times[i - width]);
      g.times.push_back(floor + fineFromMs(round ? 0.5 * random.below(3) : random.uniform()));
    }
    return g;
  };
  REQUIRE(LatencyModel::profile(grid(1, random.below(5)), grid(0, 1), &model) == Status::kOk);
  return model;
}

/// Runs a check in a process of its own, so that a crash is a failure and not the end of all tests.
template <class Check>
bool survives(Check check) {
  const pid_t child = fork();
  if (child == 0) {
    // doctest turns a crash into a report of this process; the parent has to see it as what it is.
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, SIG_DFL);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Shape {
  bool rejections = false;  ///< some calls fit nowhere
  bool caching = false;     ///< instances have prefix caches
  bool errors = false;      ///< lengths and times are predicted with errors
  bool modes = false;       ///< chunked and decode-share instances, or a mixture
};

/// Budgets from below the batch to beyond all prompts, shares from end to end.
void chooseMode(Random& random, std::uint32_t kind, InstanceSpec* spec) {
  const std::uint32_t mode = kind == 2 ? random.below(3) : 1 + kind;
  spec->mode = static_cast<EngineMode>(mode);
  if (spec->mode == EngineMode::kChunked)
    spec->chunkTokens = any(random, std::array{1u, 2u, 3u, 5u, 8u, 16u, 33u, 64u, 1000u});
  if (spec->mode == EngineMode::kPrefillFirst && random.below(2) == 0)
    spec->chunkTokens = any(random, std::array{1u, 4u, 16u, 64u, 1000u});
  if (spec->mode == EngineMode::kDecodeShare)
    spec->decodeShare = any(random, std::array<std::uint16_t, 9>{1, 3, 125, 333, 500, 600, 750, 997, 999});
}

constexpr std::uint32_t kCombinations = 4 * 6 * 2 * 4 * 4;

/// `n` walks through all orders, placements, bindings, feedbacks and kinds of knowledge; the rest is random.
Scenario randomScenario(std::uint32_t n, const Shape& shape) {
  Random random(0x1ea9 + n, (shape.rejections ? 1 : 0) + (shape.modes ? 2 : 0));
  Scenario s;
  RunOptions& o = s.options;
  std::uint32_t combination = n % kCombinations;
  const auto digit = [&](std::uint32_t base) {
    const std::uint32_t d = combination % base;
    combination /= base;
    return d;
  };
  REQUIRE(makeOrder(orderNames()[digit(4)], &o.order));
  REQUIRE(makePlacement(placementNames()[digit(6)], &o.placement));
  o.binding = digit(2) == 0 ? Binding::kAtReveal : Binding::kAtCredit;
  const std::uint32_t feedback = digit(4);
  o.feedback = feedback == 0 ? Feedback::kBoundary : Feedback::kLease;
  o.lookahead = feedback == 0 ? 0 : feedback - 1;
  o.knowledge = static_cast<Knowledge>(digit(4));
  o.tieSeed = random.below(3);
  o.sloScale = 0.5 + random.below(6);
  o.sloBase = random.below(2) == 0 ? SloBase::kTemplate : SloBase::kExclusive;
  o.parameters.set(static_cast<std::uint16_t>(Parameter::kAlpha), 0.1 * random.below(11));
  if (random.below(4) == 0) {
    o.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit),
                     any(random, std::array{0.8, 1.25, 2.0}));
  }

  // Half of the scenarios press: everything arrives together, batches are large, predictions short, KV
  // scarce.
  const bool press = random.below(2) == 0;
  const bool round = random.below(3) != 0;
  const std::uint32_t models = 1 + random.below(3);
  for (std::uint32_t i = 0; i < models; ++i) s.cluster.latencies.push_back(randomModel(random, round, press));

  // Draws of their own, so that the scenarios without caches and errors stay what they were.
  Random extra(0xcac4e + n, shape.rejections ? 1 : 0);
  const bool caching = shape.caching;
  if (shape.errors) {
    PredictionError& error = o.error;
    error.length = static_cast<LengthError>(extra.below(6));
    error.size = error.length == LengthError::kHeavyTail ? 1 + extra.below(5) : 0.1 * extra.below(10);
    error.share = 0.25 * extra.below(5);
    error.correlation = 0.5 * extra.below(3);
    error.gpu = 0.2 * extra.below(4);
    error.batch = 0.5 * extra.below(5);
    error.seed = extra.below(1000);
  }

  // The trace first: the KV capacities follow from it.
  const std::uint32_t longest = any(random, std::array{6u, 15u, 40u});
  const bool twoModels = random.below(6) == 0;
  const std::uint32_t prediction =
      press ? 1 + 2 * random.below(2) : random.below(4);  // exact, shorter, longer, mixed
  const std::uint32_t workflows = 2 + random.below(press ? 20 : 11);
  double arrival = 0;
  std::uint32_t largest = 0;
  for (std::uint32_t w = 0; w < workflows && s.trace.prompt.size() < 60; ++w) {
    if (random.below(press ? 6 : 3) > (press ? 4 : 0))
      arrival += round ? random.below(12) : random.uniform() * 15;
    const bool declares = random.below(4) == 0;
    s.trace.workflow(arrival, declares ? 1 + random.below(200) : std::numeric_limits<double>::quiet_NaN());
    const std::uint32_t calls = 1 + random.below(8);
    const bool chain = random.below(press ? 6 : 2) == 0;
    for (std::uint32_t i = 0; i < calls; ++i) {
      std::vector<std::uint32_t> parents;
      if (chain) {
        if (i > 0) parents.push_back(i - 1);
      } else {
        for (std::uint32_t p = 0; p < i; ++p) {
          if (random.below(i + 1) < (press ? 1 : 2)) parents.push_back(p);
        }
      }
      std::uint32_t prompt = 1 + random.below(longest);
      if (caching) {
        prompt += 16 * extra.below(8);
        s.trace.cached.push_back(extra.below(4) == 0 ? 0 : prompt - 1 - extra.below(std::min(prompt, 40u)));
      }
      const std::uint32_t output = random.below(5) == 0 ? 1 : 1 + random.below(longest);
      std::uint32_t predicted = output;
      const std::uint32_t how = prediction == 3 ? random.below(3) : prediction;
      if (how == 1) predicted = 1 + random.below(press ? 1 + output / 4 : output);
      if (how == 2) predicted = output + random.below(longest);
      double gap = 0;
      if (random.below(4) == 0) gap = round ? 1 + random.below(10) : random.uniform() * 10;
      s.trace.call(prompt, output, predicted, parents, gap, static_cast<std::uint16_t>(random.below(4)),
                   twoModels ? static_cast<std::uint16_t>(random.below(2)) : 0);
      largest = std::max(largest, prompt + std::max(output, predicted));
    }
  }

  const std::uint32_t instances = 1 + random.below(press ? 3 : 6);
  const bool tight = press || random.below(3) != 0;
  const bool narrow = !press && random.below(2) == 0;
  for (std::uint32_t m = 0; m < instances; ++m) {
    InstanceSpec spec;
    spec.latency = static_cast<std::uint16_t>(random.below(models));
    spec.model = static_cast<std::uint16_t>(twoModels && instances > 1 ? m % 2 : 0);
    spec.maxSequences = narrow ? 1 + random.below(4) : 1 + random.below(20);
    spec.kvTokens = tight ? largest + random.below(2 * largest) : 1'000'000;
    if (caching && tight) spec.kvTokens = largest + extra.below(largest / 2);  // outputs are the smaller part
    if (o.parameters[Parameter::kOvercommit] < 1) spec.kvTokens = spec.kvTokens * 5 / 4 + 2;
    // Below a call's whole length it is evicted until nothing is left to try, or rejected at once.
    if (shape.rejections && random.below(2) == 0) spec.kvTokens = 1 + largest / 2 + random.below(largest);
    // Walks through the combinations again with every kind: chunked, decode-share, a mixture of all.
    if (shape.modes) chooseMode(random, n / kCombinations % 3, &spec);
    s.cluster.instances.push_back(spec);
  }
  for (std::uint32_t m = 0; caching && m < instances; ++m) {
    std::vector<CacheTier> tiers;
    const std::uint32_t count = extra.below(4);
    for (std::uint32_t i = 0; i < count; ++i) {
      const double slow = any(extra, std::array{0.0, 0.0005, 0.01, 0.1});
      tiers.push_back(
          {any(extra, std::array{0u, 40u, 100u, 300u, 1000u, 100'000u}), i == 0 ? 0 : fineFromMs(slow)});
    }
    s.cluster.prefixCaches.push_back(tiers);
  }
  if (twoModels && instances == 1 && !shape.rejections) {
    for (std::uint16_t& model : s.trace.model) model = 0;
  }
  if (random.below(3) != 0) {
    std::vector<TemplateEntry> entries;
    const std::uint32_t size = 1 + random.below(5);
    for (std::uint32_t i = 0; i < size; ++i) {
      entries.push_back({static_cast<std::uint16_t>(random.below(4)), 1 + random.below(longest),
                         1 + random.below(longest)});
    }
    s.cluster.templates.push_back(entries);
  }
  return s;
}

/// One instance, one millisecond for a prefill and for an iteration of any batch.
Scenario plain(std::int64_t kvTokens, std::uint32_t maxSequences, Feedback feedback,
               std::uint32_t lookahead = 0) {
  Scenario s;
  LatencyModel model;
  REQUIRE(LatencyModel::constants({1, 0, 1, 0, 0}, &model) == Status::kOk);
  s.cluster.latencies.push_back(model);
  InstanceSpec spec;
  spec.maxSequences = maxSequences;
  spec.kvTokens = kvTokens;
  s.cluster.instances.push_back(spec);
  REQUIRE(makeOrder("fcfs", &s.options.order));
  REQUIRE(makePlacement("round-robin", &s.options.placement));
  s.options.feedback = feedback;
  s.options.lookahead = lookahead;
  s.options.knowledge = Knowledge::kOnline;
  s.options.sloBase = SloBase::kExclusive;
  return s;
}

/// 0 .. n - 1, and some that once differed.
std::vector<std::uint32_t> numbers(std::uint32_t n, std::vector<std::uint32_t> more) {
  std::vector<std::uint32_t> all(n);
  for (std::uint32_t i = 0; i < n; ++i) all[i] = i;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_SUITE("leaping equals stepping") {
  TEST_CASE("1536 random scenarios over all policies and feedbacks") {
    Tally tally;
    std::uint32_t failures = 0;
    for (const std::uint32_t n : numbers(2 * kCombinations, {3268})) {
      const std::string difference = compare(randomScenario(n, {}), &tally);
      if (difference.empty()) continue;
      if (++failures <= 3) {
        CAPTURE(n);
        CHECK_MESSAGE(false, difference);
      }
    }
    CHECK(failures == 0);
    MESSAGE("calls " << tally.calls << ", iterations " << tally.iterations << ", leaping instants "
                     << tally.instants << ", evictions " << tally.evictions << " + " << tally.hidden
                     << " hidden, coincidences " << tally.coincidences << ", rejected " << tally.rejected);
    // The scenarios reach what they are meant to reach.
    CHECK(tally.calls > 20'000);
    CHECK(tally.evictions > 500);
    CHECK(tally.hidden > 500);
    CHECK(tally.coincidences > 5'000);
  }

  TEST_CASE("1536 random scenarios with prefix caches") {
    Tally tally;
    std::uint32_t failures = 0;
    for (const std::uint32_t n : numbers(2 * kCombinations, {})) {
      const std::string difference = compare(randomScenario(n, {.caching = true}), &tally);
      if (difference.empty()) continue;
      if (++failures <= 3) {
        CAPTURE(n);
        CHECK_MESSAGE(false, difference);
      }
    }
    CHECK(failures == 0);
    MESSAGE("calls " << tally.calls << ", evictions " << tally.evictions << " + " << tally.hidden
                     << " hidden; hits " << tally.cache.hits << ", misses " << tally.cache.misses
                     << ", stale hints " << tally.cache.stale << ", loaded tokens "
                     << tally.cache.loadedTokens);
    CHECK(tally.evictions > 200);
    CHECK(tally.hidden > 500);
    CHECK(tally.cache.hits > 5'000);
    CHECK(tally.cache.misses > 5'000);
    CHECK(tally.cache.stale > 200);
    CHECK(tally.cache.loadedTokens > 50'000);
  }

  TEST_CASE("768 random scenarios with prediction errors") {
    Tally tally;
    std::uint32_t failures = 0;
    for (const std::uint32_t n : numbers(kCombinations, {})) {
      const std::string difference =
          compare(randomScenario(n, {.caching = n % 2 == 1, .errors = true}), &tally);
      if (difference.empty()) continue;
      if (++failures <= 3) {
        CAPTURE(n);
        CHECK_MESSAGE(false, difference);
      }
    }
    CHECK(failures == 0);
    MESSAGE("calls " << tally.calls << ", evictions " << tally.evictions << " + " << tally.hidden
                     << " hidden, rejected " << tally.rejected);
    CHECK(tally.evictions > 200);
    CHECK(tally.hidden > 200);
    CHECK(tally.rejected == 0);  // a mistake never makes a call infeasible
  }

  TEST_CASE("768 random scenarios on rooflines and measured profiles") {
    Tally tally;
    std::uint32_t failures = 0;
    for (std::uint32_t n = 0; n < kCombinations; ++n) {
      Scenario s = randomScenario(n, {});
      Random random(0x7ab1e, n);
      for (LatencyModel& model : s.cluster.latencies) model = tabulatedModel(random);
      const std::string difference = compare(s, &tally);
      if (difference.empty()) continue;
      if (++failures <= 3) {
        CAPTURE(n);
        CHECK_MESSAGE(false, difference);
      }
    }
    CHECK(failures == 0);
    MESSAGE("calls " << tally.calls << ", iterations " << tally.iterations << ", leaping instants "
                     << tally.instants << ", evictions " << tally.evictions << " + " << tally.hidden);
    CHECK(tally.calls > 10'000);
    CHECK(tally.evictions > 200);
  }

  TEST_CASE("768 random scenarios with calls that fit nowhere") {
    const std::vector<std::uint32_t> all = numbers(kCombinations, {10189, 16919, 18629, 35521, 43596, 43780});
    Tally tally;
    std::uint32_t failures = 0;
    REQUIRE(survives([&] {
      Tally ignored;
      for (const std::uint32_t n : all) compare(randomScenario(n, {.rejections = true}), &ignored);
      return true;
    }));
    for (const std::uint32_t n : all) {
      const std::string difference = compare(randomScenario(n, {.rejections = true}), &tally);
      if (difference.empty()) continue;
      if (++failures <= 3) {
        CAPTURE(n);
        CHECK_MESSAGE(false, difference);
      }
    }
    CHECK(failures == 0);
    MESSAGE("calls " << tally.calls << ", rejected " << tally.rejected << ", incomplete workflows "
                     << tally.incomplete);
    CHECK(tally.rejected > 300);
  }

  TEST_CASE("2304 random scenarios of engines that are chunked, decode-share, or mixed") {
    Tally tally;
    std::uint32_t failures = 0;
    for (std::uint32_t n = 0; n < 3 * kCombinations; ++n) {
      const std::string difference =
          compare(randomScenario(n, {.caching = n % 2 == 1, .modes = true}), &tally);
      if (difference.empty()) continue;
      if (++failures <= 3) {
        CAPTURE(n);
        CHECK_MESSAGE(false, difference);
      }
    }
    CHECK(failures == 0);
    MESSAGE("calls " << tally.calls << ", iterations " << tally.iterations << ", leaping instants "
                     << tally.instants << ", evictions " << tally.evictions << " + " << tally.hidden
                     << " hidden, coincidences " << tally.coincidences);
    CHECK(tally.calls > 30'000);
    CHECK(tally.evictions > 500);
    CHECK(tally.hidden > 500);
    CHECK(tally.coincidences > 5'000);
  }

  TEST_CASE("a tool gap that outlives its rejected workflow wakes nobody else") {
    for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
      Scenario s = plain(100, 4, feedback);
      s.trace.workflow(0);
      s.trace.call(1, 90, 90);
      s.trace.workflow(0);
      s.trace.call(3, 3, 3, {}, 50);  // waits for its tool until 50 ms
      s.trace.call(200, 1, 1);        // fits nowhere: the workflow is over at 0 ms
      s.trace.workflow(10);           // may take over its records
      s.trace.call(7, 60, 60);
      CHECK(survives([&] {
        Tally tally;
        return compare(s, &tally).empty();
      }));
    }
  }

  TEST_CASE("a call that is evicted after its workflow was rejected disturbs nobody else") {
    Scenario s = plain(50, 4, Feedback::kBoundary);
    s.trace.workflow(0);
    s.trace.call(10, 20, 20);  // ends at 22 ms
    s.trace.call(10, 30,
                 5);  // outgrows its reservation: evicted at 12 ms, there is room for it again at 22 ms
    s.trace.call(1, 1, 1, {}, 5);  // ends at 6 ms
    s.trace.call(200, 1, 1, {2});  // fits nowhere: the workflow is over at 6 ms
    s.trace.workflow(30);          // may take over its records
    s.trace.call(7, 30, 30);
    s.trace.workflow(30);
    s.trace.call(3, 5, 5);
    s.trace.call(4, 5, 5, {0});
    CHECK(survives([&] {
      Tally tally;
      return compare(s, &tally).empty() && tally.evictions == 1;
    }));
  }

  TEST_CASE("a rejection that cancels the head of a queue lets the next call go at once") {
    for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
      for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
        Scenario s = plain(100, 4, feedback);
        s.options.binding = binding;
        s.trace.workflow(0);
        s.trace.call(40, 50, 50);  // runs for a long time and leaves room for 10 tokens
        s.trace.workflow(5);
        s.trace.call(2, 4, 4);
        s.trace.call(50, 10, 10);      // waits at the head of the queue until its workflow is over
        s.trace.call(200, 1, 1, {0});  // fits nowhere
        s.trace.workflow(6);
        s.trace.call(3, 3, 3);  // waits behind
        Tally tally;
        CHECK(compare(s, &tally) == "");
        CHECK(tally.rejected == 1);
      }
    }
  }

  TEST_CASE("a call that outgrows every instance fails for good after two more attempts") {
    for (const bool abandoned : {false, true}) {
      CAPTURE(abandoned);
      Scenario s = plain(100, 4, Feedback::kLease);
      s.trace.workflow(0);
      s.trace.call(1, 500, 5);
      if (abandoned) {  // its workflow is closed meanwhile
        s.trace.call(1, 1, 1);
        s.trace.call(200, 1, 1, {1});
      }
      Tally tally;
      REQUIRE(compare(s, &tally) == "");
      CHECK(tally.incomplete == 1);
      if (!abandoned) CHECK(tally.evictions == 2);
    }
  }

  TEST_CASE("the first token stays the first one when the engine evicts and prefills again") {
    for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
      Scenario s = plain(60, 4, feedback, 1);
      for (int i = 0; i < 3; ++i) {
        s.trace.workflow(i);
        s.trace.call(5, 40, 10);
      }
      Tally tally;
      CHECK(compare(s, &tally, true) == "");
      CHECK(tally.evictions + tally.hidden > 0);
    }
  }

  TEST_CASE("every placement, with and without migration") {
    Tally tally;
    std::uint32_t failures = 0;
    const auto names = placementNames();
    for (std::uint32_t n = 0; n < 60 * names.size(); ++n) {
      Scenario s = randomScenario(n, {});
      REQUIRE(makePlacement(names[n % names.size()], &s.options.placement));
      s.options.placementSeed = n;
      s.options.migrate = n % 4 != 0;
      if (s.options.migrate) s.options.binding = Binding::kAtReveal;
      s.options.parameters.set(static_cast<std::uint16_t>(Parameter::kMigrateMs), n % 3);
      s.options.parameters.set(static_cast<std::uint16_t>(Parameter::kMigrateCandidates), 1 + n % 5);
      const std::string difference = compare(s, &tally);
      if (difference.empty()) continue;
      if (++failures <= 3) {
        CAPTURE(n);
        CHECK_MESSAGE(false, difference);
      }
    }
    CHECK(failures == 0);
    CHECK(tally.calls > 10'000);
  }

  TEST_CASE("with overcommit what waits in the engine takes the place of the next lease") {
    Scenario s = plain(100, 8, Feedback::kBoundary);
    s.options.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit), 2);
    s.trace.workflow(0);
    s.trace.call(30, 15, 15);
    s.trace.workflow(0);
    s.trace.call(30, 25, 25);
    for (int i = 0; i < 3; ++i) {  // the first of these waits in the engine when a running call ends
      s.trace.workflow(0);
      s.trace.call(30, 30, 30);
    }
    Tally tally;
    CHECK(compare(s, &tally) == "");
  }
}
