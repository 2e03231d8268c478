// Whole simulations of prefill-decode clusters: the leaping driver against a second one that visits every
// iteration and every transfer (stepping.h, pair_stepping.h), the laws at every instant, exact targets
// (validation.md 1, rows 8 and 12), and boundary = lease where both know the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "queueing.h"
#include "simulator/driver.h"
#include "simulator/simulation.h"
#include "stepping.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

struct Scenario {
  OwnedTrace trace;
  std::vector<std::uint32_t> cached;
  ClusterSpec cluster;
  RunOptions options;

  TraceColumns columns() const {
    TraceColumns c = trace.columns();
    if (!cached.empty()) c.cachedTokens = cached.data();
    return c;
  }
};

/// Everything a run can tell.
struct Outcome {
  Status status = Status::kOk;
  RunResult result;
  std::vector<double> latency, base, ready, leased, firstToken, transferStart, transferred, decode, finished;
  std::vector<std::uint16_t> instance, decodeInstance;
  EventLog log;
};

void simulateAll(const Scenario& s, Outcome* o, Workspace* workspace = nullptr) {
  Trace trace;
  REQUIRE(ok(trace.bind(s.columns())));
  const std::uint32_t calls = trace.columns().calls;
  RunOptions options = s.options;
  options.arrivals.process = ArrivalProcess::kTrace;
  options.arrivals.recordedMs = s.trace.arrivalMs;
  options.laws = true;
  for (auto* column : {&o->latency, &o->base}) column->resize(trace.columns().workflows);
  for (auto* column :
       {&o->ready, &o->leased, &o->firstToken, &o->transferStart, &o->transferred, &o->decode, &o->finished})
    column->resize(calls);
  o->instance.resize(calls);
  o->decodeInstance.resize(calls);
  RunOutputs out;
  out.latencyMs = o->latency.data();
  out.baseMs = o->base.data();
  out.readyMs = o->ready.data();
  out.leasedMs = o->leased.data();
  out.firstTokenMs = o->firstToken.data();
  out.transferStartMs = o->transferStart.data();
  out.transferredMs = o->transferred.data();
  out.decodeMs = o->decode.data();
  out.finishedMs = o->finished.data();
  out.instance = o->instance.data();
  out.decodeInstance = o->decodeInstance.data();
  out.log = &o->log;
  o->status = simulate(trace, s.cluster, options, out, &o->result, workspace);
}

/// One event or decision without the names its driver chose.
using Line = std::array<std::int64_t, 7>;

/// Capacities, timers and decide marks may differ: they must not matter.
std::vector<Line> canonical(const EventLog& log) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> calls;
  const auto call = [&](Ref r) { return calls.at({r.slot, r.generation}); };
  std::vector<Line> lines;
  for (const EventRecord& r : log.records()) {
    const auto kind = static_cast<std::int64_t>(r.header.kind);
    const Nanos t = r.header.t;
    switch (r.header.kind) {
      case EventKind::kOpenWorkflow:
        lines.push_back({kind, t, r.openWorkflow.deadline, r.openWorkflow.stageTemplate});
        break;
      case EventKind::kReveal: {
        const Reveal& e = r.reveal;
        const auto n = static_cast<std::int64_t>(calls.size());
        calls[{e.call.slot, e.call.generation}] = n;
        lines.push_back({kind, t, n, e.promptTokens, e.predictedTokens, e.predictedHigh, e.toolPending});
        for (const CachedPrefix& hint : e.cached)
          lines.push_back({kind, t, n, hint.instance, hint.tokens, hint.loadUs});
        break;
      }
      case EventKind::kFirstToken:
      case EventKind::kTransferDone:
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
        lines.push_back({kind, t, call(r.failed.attempt.call), r.failed.attempt.epoch,
                         static_cast<std::int64_t>(r.failed.leg)});
        break;
      case EventKind::kCloseWorkflow:
        lines.push_back({kind, t});
        break;
      case EventKind::kDecision: {
        const Decision& d = r.decision;
        lines.push_back({kind, t, static_cast<std::int64_t>(d.kind), call(d.call), d.epoch,
                         static_cast<std::int64_t>(d.instance), static_cast<std::int64_t>(d.decodeInstance)});
        break;
      }
      default:
        break;
    }
  }
  return lines;
}

std::string show(const Line& line) {
  std::string text;
  for (const std::int64_t v : line) text += std::to_string(v) + " ";
  return text;
}

bool sameTime(double ms, Nanos t) { return t < 0 ? std::isnan(ms) : ms == toMs(t); }

struct Tally {
  std::uint64_t calls = 0, transfers = 0, waited = 0, evictions = 0, hidden = 0, rejected = 0, incomplete = 0,
                iterations = 0, instants = 0;
};

/// Empty where both agree, else the first difference.
std::string compare(const Scenario& s, Tally* tally) {
  Outcome leap;
  simulateAll(s, &leap);
  Trace trace;
  REQUIRE(ok(trace.bind(s.columns())));
  RunOptions options = s.options;
  options.arrivals.process = ArrivalProcess::kTrace;
  options.arrivals.recordedMs = s.trace.arrivalMs;
  EventLog stepLog;
  const stepping::Result steps = stepping::run(trace, s.cluster, options, &stepLog);
  const std::vector<Line> leapLines = canonical(leap.log);
  const std::vector<Line> stepLines = canonical(stepLog);
  for (std::size_t i = 0; i < std::max(leapLines.size(), stepLines.size()); ++i) {
    const std::string a = i < leapLines.size() ? show(leapLines[i]) : "nothing";
    const std::string b = i < stepLines.size() ? show(stepLines[i]) : "nothing";
    if (a != b) return "line " + std::to_string(i) + ": leaping " + a + ", stepping " + b;
  }
  if (!ok(leap.status)) return std::string("leaping: ") + reason(leap.status);
  if (!ok(steps.status)) return std::string("stepping: ") + reason(steps.status);

  for (std::uint32_t row = 0; row < s.trace.calls(); ++row) {
    const stepping::CallResult& c = steps.calls[row];
    const std::string name = "call " + std::to_string(row);
    if (leap.instance[row] != (c.instance == kNoSlot ? 0xffff : c.instance)) return name + ": p";
    if (leap.decodeInstance[row] != (c.decodeInstance == kNoSlot ? 0xffff : c.decodeInstance))
      return name + ": d";
    if (!sameTime(leap.ready[row], c.ready)) return name + ": ready";
    if (!sameTime(leap.leased[row], c.leased)) return name + ": leased";
    if (!sameTime(leap.firstToken[row], c.firstToken)) return name + ": first token";
    if (!sameTime(leap.transferStart[row], c.transferStart)) return name + ": transfer start";
    if (!sameTime(leap.transferred[row], c.transferred)) return name + ": transferred";
    if (!sameTime(leap.decode[row], c.decode)) return name + ": decode";
    if (!sameTime(leap.finished[row], c.finished)) return name + ": finished";
    tally->hidden += c.hiddenEvictions;
    if (c.finished < 0) continue;
    if (c.ready > c.leased || c.leased > c.firstToken || c.firstToken > c.finished) return name + ": order";
    if (c.decode < 0) continue;
    if (c.transferStart < c.firstToken || c.transferred < c.transferStart || c.decode < c.transferred ||
        c.finished < c.decode)
      return name + ": order";
    tally->waited += c.decode > c.transferred || c.transferStart > c.firstToken ? 1 : 0;
    ++tally->transfers;
  }
  std::uint32_t completed = 0;
  for (std::uint32_t w = 0; w < s.trace.workflows(); ++w) {
    const bool whole = steps.latency[w] != kNever;
    completed += whole ? 1 : 0;
    if (leap.latency[w] != (whole ? toMs(steps.latency[w]) : HUGE_VAL))
      return "workflow " + std::to_string(w) + ": latency";
    if (leap.base[w] != toMs(steps.base[w]))
      return "workflow " + std::to_string(w) + ": base " + std::to_string(leap.base[w]) + " " +
             std::to_string(toMs(steps.base[w]));
  }
  const RunResult& r = leap.result;
  if (r.completed != completed) return "completed";
  if (r.evictions != steps.evictions) return "evictions";
  std::uint64_t hidden = 0;
  for (const stepping::CallResult& c : steps.calls) hidden += c.hiddenEvictions;
  if (r.hiddenEvictions != hidden) return "hidden evictions";
  if (r.rejected != steps.rejected) return "rejected";
  if (r.calls != steps.finished) return "finished calls";
  const auto numbers = [](const CacheResult& c) {
    return std::array{c.hits,         c.misses,       c.stale,       c.promptTokens,
                      c.sharedTokens, c.cachedTokens, c.loadedTokens};
  };
  if (numbers(r.cache) != numbers(steps.cache)) return "prefix cache";
  // Busy time is the sum of prefills and iterations; the peak is of all iteration ends.
  double peak = 0;
  double busy[2] = {0, 0};
  int count[2] = {0, 0};
  for (std::size_t m = 0; m < s.cluster.instances.size(); ++m) {
    const bool decodes = s.cluster.instances[m].role == Role::kDecode;
    busy[decodes] += static_cast<double>(steps.busy[m]);
    ++count[decodes];
    if (decodes) {
      const double share =
          static_cast<double>(steps.peak[m]) / static_cast<double>(s.cluster.instances[m].kvTokens);
      peak = std::max(peak, share);
    }
  }
  if (r.decodeKvPeak != peak) return "KV peak";
  const auto makespan = static_cast<double>(r.makespan);
  if (makespan > 0 && r.prefillUtilisation != busy[0] / count[0] / makespan) return "prefill utilisation";
  if (makespan > 0 && r.decodeUtilisation != busy[1] / count[1] / makespan) return "decode utilisation";

  tally->calls += s.trace.calls();
  tally->iterations += steps.iterations;
  tally->instants += r.instants;
  tally->evictions += steps.evictions;
  tally->rejected += steps.rejected;
  tally->incomplete += s.trace.workflows() - completed;
  return "";
}

template <class Values>
auto any(Random& random, const Values& values) {
  return values[random.below(static_cast<std::uint32_t>(std::size(values)))];
}

LatencyModel randomModel(Random& random, bool round) {
  LatencyConstants c;
  if (round) {
    c.prefillBaseMs = any(random, std::array{0.0, 1.0, 2.0});
    c.prefillPerTokenMs = any(random, std::array{0.125, 0.5, 1.0});
    c.decodeBaseMs = any(random, std::array{0.5, 1.0, 2.0});
    c.decodePerSequenceMs = any(random, std::array{0.0, 0.0, 0.5});
    c.decodePerContextMs = any(random, std::array{0.0, 0.0, 0.5});
  } else {
    c.prefillBaseMs = random.uniform() * 2;
    c.prefillPerTokenMs = random.uniform() * 0.3;
    c.decodeBaseMs = 0.05 + random.uniform() * 2;
    c.decodePerSequenceMs = random.below(3) == 0 ? 0 : random.uniform() * 0.2;
    c.decodePerContextMs = any(random, std::array{0.0, 7.7e-5, 0.0123});
  }
  LatencyModel model;
  if (random.below(4) == 0) {
    std::vector<PrefillKnot> knots;
    std::uint32_t tokens = 1 + random.below(8);
    Nanos time = round ? kMillisecond : 1 + random.below(3'000'000);
    for (std::uint32_t i = 1 + random.below(4); i > 0; --i) {
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

constexpr std::array<std::string_view, 8> kPlacements{"earliest-finish", "least-loaded", "round-robin",
                                                      "global-queue",    "splitwise",    "distserve",
                                                      "mooncake",        "kv-price"};
/// reserve x staging, admission, links, backfill, lateDecode, knowledge, feedback and lookahead, placement,
/// binding.
constexpr std::uint32_t kCombinations = 3 * 2 * 2 * 2 * 2 * 4 * 3 * 8 * 2;

/// `n` walks through all combinations (spread by a prime), the rest is random.
Scenario randomScenario(std::uint32_t n) {
  Random random(0x9a125 + n);
  Scenario s;
  RunOptions& o = s.options;
  std::uint32_t combination = static_cast<std::uint32_t>(std::uint64_t{n} * 7919 % kCombinations);
  const auto digit = [&](std::uint32_t base) {
    const std::uint32_t d = combination % base;
    combination /= base;
    return d;
  };
  const std::uint32_t reserve = digit(3);
  o.pairs.reserve = reserve == 1 ? Reserve::kLate : Reserve::kEarly;
  o.pairs.staging = reserve == 2 ? Staging::kUnlimited : Staging::kNone;
  o.pairs.admission = static_cast<DecodeAdmission>(digit(2));
  o.pairs.links = static_cast<Links>(digit(2));
  o.pairs.backfill = digit(2) == 1;
  o.pairs.lateDecode = digit(2) == 1;
  o.knowledge = static_cast<Knowledge>(digit(4));
  const std::uint32_t feedback = digit(3);
  o.feedback = feedback == 0 ? Feedback::kBoundary : Feedback::kLease;
  o.lookahead = feedback == 0 ? 0 : feedback - 1;
  REQUIRE(makePairPlacement(kPlacements[digit(8)], &o.pairPlacement));
  o.binding = digit(2) == 0 ? Binding::kAtReveal : Binding::kAtCredit;
  o.pairs.overlap = any(random, std::array{0.0, 0.0, 0.5, 0.9, 1.0});
  REQUIRE(makeOrder(any(random, orderNames()), &o.order));
  o.tieSeed = random.below(3);
  o.sloScale = 0.5 + random.below(6);
  o.sloBase = static_cast<SloBase>(random.below(3));
  if (random.below(3) == 0) {
    o.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit),
                     any(random, std::array{0.8, 1.25, 2.0}));
  }
  // Runs last milliseconds: so must the memory of the price, or it would never rise.
  o.parameters.set(static_cast<std::uint16_t>(Parameter::kKvPriceMs), std::array{0.01, 1.0, 20.0}[n % 3]);

  const bool press = random.below(2) == 0;
  const bool round = random.below(3) != 0;
  const bool caching = random.below(4) == 0;
  if (random.below(5) == 0) {
    o.error.length = static_cast<LengthError>(random.below(5));
    o.error.size = 0.1 * random.below(9);
    o.error.gpu = 0.2 * random.below(3);
    o.error.batch = 0.5 * random.below(4);
    o.error.seed = random.below(1000);
  }
  const std::uint32_t models = 1 + random.below(3);
  for (std::uint32_t i = 0; i < models; ++i) s.cluster.latencies.push_back(randomModel(random, round));

  const std::uint32_t longest = any(random, std::array{6u, 15u, 40u});
  const bool twoModels = random.below(6) == 0;
  const std::uint32_t prediction = press ? 1 + 2 * random.below(2) : random.below(4);
  const std::uint32_t workflows = 2 + random.below(press ? 14 : 9);
  s.trace.predictions = true;
  Nanos arrival = 0;
  std::uint32_t largest = 0;
  for (std::uint32_t w = 0; w < workflows && s.trace.calls() < 40; ++w) {
    if (random.below(press ? 6 : 3) > (press ? 4 : 0))
      arrival += round ? kMillisecond * random.below(12) : random.below(15'000'000);
    s.trace.workflow(arrival);
    const std::uint32_t calls = 1 + random.below(6);
    const bool chain = random.below(press ? 6 : 2) == 0;
    for (std::uint32_t i = 0; i < calls; ++i) {
      OwnedTrace::CallSpec c;
      for (std::uint32_t p = 0; p < i; ++p) {
        if (chain ? p + 1 == i : random.below(i + 1) < (press ? 1u : 2u)) c.parents.push_back(p);
      }
      c.prompt = 1 + random.below(longest);
      if (caching) {
        c.prompt += 16 * random.below(8);
        s.cached.push_back(random.below(4) == 0 ? 0 : c.prompt - 1 - random.below(std::min(c.prompt, 40u)));
      }
      c.output = random.below(5) == 0 ? 1 : 1 + random.below(longest);
      c.predicted = c.output;
      const std::uint32_t how = prediction == 3 ? random.below(3) : prediction;
      if (how == 1) c.predicted = 1 + random.below(press ? 1 + c.output / 4 : c.output);
      if (how == 2) c.predicted = c.output + random.below(longest);
      if (random.below(4) == 0)
        c.gap = round ? kMillisecond * (1 + random.below(10)) : random.below(10'000'000);
      c.stage = static_cast<std::uint16_t>(random.below(4));
      c.model = twoModels ? static_cast<std::uint16_t>(random.below(2)) : 0;
      s.trace.call(c);
      largest = std::max(largest, c.prompt + std::max(c.output, c.predicted));
    }
  }

  const bool tight = press || random.below(3) != 0;
  const bool rejections = random.below(10) == 0;
  const auto add = [&](Role role, std::uint16_t model) {
    InstanceSpec spec = instanceSpec(static_cast<std::uint16_t>(random.below(models)), 1 + random.below(12),
                                     tight ? largest + random.below(2 * largest) : 1'000'000, model);
    spec.role = role;
    if (role == Role::kPrefill && random.below(2) == 0) spec.chunkTokens = 1 + random.below(4 * longest);
    if (o.parameters[Parameter::kOvercommit] < 1) spec.kvTokens = spec.kvTokens * 5 / 4 + 2;
    if (rejections && random.below(2) == 0) spec.kvTokens = 1 + largest / 2 + random.below(largest);
    if (random.below(4) != 0) {
      spec.linkPerToken = round ? (kMillisecond << kFineBits) / 8 * random.below(5)
                                : static_cast<Fine>(random.uniform() * 1e6 * (1 << kFineBits));
      spec.linkLatency = random.below(2) == 0 ? 0 : (round ? kMillisecond / 2 : random.below(3'000'000));
    }
    s.cluster.instances.push_back(spec);
    std::vector<CacheTier> tiers;
    for (std::uint32_t i = random.below(3); i > 0 && caching && role == Role::kPrefill; --i) {
      tiers.push_back({any(random, std::array{0u, 40u, 100u, 300u, 100'000u}),
                       tiers.empty() ? 0 : fineFromMs(any(random, std::array{0.0, 0.0005, 0.01}))});
    }
    if (caching) s.cluster.prefixCaches.push_back(tiers);
  };
  for (std::uint16_t model = 0; model < (twoModels ? 2 : 1); ++model) {
    for (std::uint32_t i = 1 + random.below(3); i > 0; --i) add(Role::kPrefill, model);
    for (std::uint32_t i = 1 + random.below(3); i > 0; --i) add(Role::kDecode, model);
  }
  if (random.below(3) != 0) {
    std::vector<TemplateEntry> entries;
    for (std::uint32_t i = 1 + random.below(5); i > 0; --i)
      entries.push_back({static_cast<std::uint16_t>(random.below(4)), 1 + random.below(longest),
                         1 + random.below(longest)});
    s.cluster.templates.push_back(entries);
  }
  return s;
}

std::string describe(const Scenario& s) {
  const RunOptions& o = s.options;
  return "reserve " + std::to_string(static_cast<int>(o.pairs.reserve)) + " staging " +
         std::to_string(static_cast<int>(o.pairs.staging)) + " admission " +
         std::to_string(static_cast<int>(o.pairs.admission)) + " links " +
         std::to_string(static_cast<int>(o.pairs.links)) + " backfill " + std::to_string(o.pairs.backfill) +
         " lateDecode " + std::to_string(o.pairs.lateDecode) + " knowledge " +
         std::to_string(static_cast<int>(o.knowledge)) + " feedback " +
         std::to_string(static_cast<int>(o.feedback)) + " lookahead " + std::to_string(o.lookahead) +
         " placement " + std::to_string(o.pairPlacement.index()) + " binding " +
         std::to_string(static_cast<int>(o.binding)) + " order " + std::to_string(o.order.index()) +
         " overlap " + std::to_string(o.pairs.overlap) + " overcommit " +
         std::to_string(o.parameters[Parameter::kOvercommit]);
}

}  // namespace

TEST_SUITE("pair simulation") {
  TEST_CASE("random clusters: leaping equals stepping in every event, decision and time, and all laws hold") {
    Tally tally;
    constexpr std::uint32_t kScenarios = 8000;
    for (std::uint32_t n = 0; n < kScenarios; ++n) {
      const Scenario s = randomScenario(n);
      const std::string difference = compare(s, &tally);
      REQUIRE_MESSAGE(difference.empty(), "scenario ", n, ": ", difference, "; ", describe(s));
    }
    CHECK(tally.calls > 10 * kScenarios);
    CHECK(tally.transfers > 5 * kScenarios);
    CHECK(tally.waited > kScenarios);
    CHECK(tally.evictions > kScenarios / 10);
    CHECK(tally.hidden > kScenarios / 10);
    CHECK(tally.rejected > 100);
    CHECK(tally.iterations > tally.instants);
    MESSAGE(tally.calls, " calls, ", tally.iterations, " iterations, ", tally.instants, " instants, ",
            tally.waited, " waited, ", tally.evictions, " evictions, ", tally.hidden, " unseen");
  }

  TEST_CASE("where nothing plans, plans have taken no time") {
    Scenario s = randomScenario(1);
    REQUIRE(makePairPlacement("round-robin", &s.options.pairPlacement));
    Outcome o;
    simulateAll(s, &o);
    REQUIRE(ok(o.status));
    CHECK(o.result.plans == 0);
    CHECK(o.result.planMeanUs == 0);
    CHECK(o.result.planP99Us == 0);
  }

  TEST_CASE("boundary feedback equals lease feedback at batch limit 1 without lookahead") {
    std::uint32_t compared = 0;
    for (std::uint32_t n = 0; n < 2000; ++n) {
      Scenario s = randomScenario(n);
      s.options.lookahead = 0;
      s.options.error = {};
      s.options.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit), 1);
      s.trace.predicted = s.trace.output;
      for (InstanceSpec& spec : s.cluster.instances) {
        if (spec.role == Role::kDecode) spec.maxSequences = 1;
        spec.chunkTokens = 0;
      }
      Outcome boundary;
      Outcome lease;
      s.options.feedback = Feedback::kBoundary;
      simulateAll(s, &boundary);
      s.options.feedback = Feedback::kLease;
      simulateAll(s, &lease);
      REQUIRE(boundary.status == Status::kOk);
      REQUIRE(lease.status == Status::kOk);
      const std::vector<Line> a = canonical(boundary.log);
      const std::vector<Line> b = canonical(lease.log);
      std::string difference;
      for (std::size_t i = 0; i < std::max(a.size(), b.size()) && difference.empty(); ++i) {
        if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
        difference = "boundary " + (i < a.size() ? show(a[i]) : "nothing") + ", lease " +
                     (i < b.size() ? show(b[i]) : "nothing");
      }
      CHECK_MESSAGE(difference.empty(), "scenario ", n, ": ", difference, "; ", describe(s));
      ++compared;
    }
    CHECK(compared == 2000);
  }

  TEST_CASE("final horizons of unified clusters: list scheduling by hand, whatever the policy") {
    std::uint32_t workflows = 0;
    for (std::uint32_t n = 0; n < 600; ++n) {
      Scenario s = randomScenario(n);
      for (InstanceSpec& spec : s.cluster.instances) {
        spec.role = Role::kUnified;
        spec.chunkTokens = 0;
        spec.linkPerToken = spec.linkLatency = 0;
      }
      s.options.sloBase = SloBase::kHorizon;
      Outcome leap;
      simulateAll(s, &leap);
      REQUIRE(leap.status == Status::kOk);
      Trace trace;
      REQUIRE(ok(trace.bind(s.columns())));
      RunOptions options = s.options;
      options.arrivals.process = ArrivalProcess::kTrace;
      options.arrivals.recordedMs = s.trace.arrivalMs;
      EventLog log;
      const stepping::Result steps = stepping::run(trace, s.cluster, options, &log);
      for (std::uint32_t w = 0; w < s.trace.workflows(); ++w) {
        REQUIRE(leap.base[w] == toMs(steps.base[w]));
        ++workflows;
      }
    }
    CHECK(workflows > 2000);
  }

  TEST_CASE("a workspace carries nothing from one run to the next, unified or not") {
    Workspace workspace;
    for (std::uint32_t n = 0; n < 300; ++n) {
      Scenario s = randomScenario(n);
      if (n % 4 == 3) {
        for (InstanceSpec& spec : s.cluster.instances) {
          spec.role = Role::kUnified;
          spec.chunkTokens = 0;
        }
      }
      Outcome alone;
      Outcome shared;
      simulateAll(s, &alone);
      simulateAll(s, &shared, &workspace);
      REQUIRE(alone.status == shared.status);
      REQUIRE(sameLog(alone.log, shared.log));
      REQUIRE(alone.result.decodeKvPeak == shared.result.decodeKvPeak);
      REQUIRE(alone.result.decodeUtilisation == shared.result.decodeUtilisation);
    }
  }

  TEST_CASE("what a prefill-decode run cannot be is refused") {
    Scenario s = randomScenario(1);
    const auto status = [&] {
      Outcome o;
      simulateAll(s, &o);
      return o.status;
    };
    s.options.pairs.overlap = 1.5;
    CHECK(status() == Status::kBadValue);
    s.options.pairs.overlap = std::nan("");
    CHECK(status() == Status::kBadValue);
    s.options.pairs.overlap = 0;
    for (const double sigma : {-0.5, 10.5, std::nan("")}) {
      s.options.remaining.sigma = sigma;
      CHECK(status() == Status::kBadValue);
    }
    s.options.remaining.sigma = 0;
    s.cluster.prefixCaches.clear();
    s.options.error = {};
    s.options.compat = Compat::kHexgen;
    CHECK(status() == Status::kUnsupported);
    s.options.compat = Compat::kNone;
    CHECK(status() == Status::kOk);
    s.cluster.instances.back().role = Role::kUnified;
    CHECK(status() == Status::kUnsupported);
    // Without a decode instance every workflow is rejected.
    s.cluster.instances.pop_back();
    std::erase_if(s.cluster.instances, [](const InstanceSpec& spec) { return spec.role == Role::kDecode; });
    Outcome o;
    simulateAll(s, &o);
    CHECK(o.status == Status::kOk);
    CHECK(o.result.completed == 0);
    CHECK(o.result.rejected > 0);
  }

  // CONTRACT 13.2.
  TEST_CASE("the log of a simulation replays: the same decisions from its events alone") {
    std::uint64_t decided = 0;
    for (std::uint32_t n = 0; n < 600; ++n) {
      const Scenario s = randomScenario(n);
      Outcome run;
      simulateAll(s, &run);
      REQUIRE(run.status == Status::kOk);
      Scheduler replay(schedulerConfig(s.cluster, s.options));
      std::span<const Decision> decisions;
      std::size_t at = 0;
      for (const EventRecord& r : run.log.records()) {
        if (r.header.kind == EventKind::kDecide) {
          REQUIRE(at == decisions.size());
          decisions = replay.decide(r.header.t);
          at = 0;
          REQUIRE(decisions.size() == r.header.count);
        } else if (r.header.kind == EventKind::kDecision) {
          REQUIRE(std::memcmp(&decisions[at++], &r.decision, sizeof(Decision)) == 0);
          ++decided;
        } else {
          REQUIRE(replay.apply(r) == Status::kOk);
        }
      }
      REQUIRE(at == decisions.size());
      REQUIRE(replay.audit());
    }
    CHECK(decided > 10'000);
  }

  TEST_CASE(
      "kv-price decides as earliest-finish where KV is not scarce or costs nothing, and else differently") {
    std::uint32_t ample = 0;
    std::uint32_t scarce = 0;
    std::uint32_t different = 0;
    for (std::uint32_t n = 0; n < 1500; ++n) {
      Scenario s = randomScenario(n);
      s.options.binding = Binding::kAtCredit;
      const bool costs = n % 3 != 0;
      if (!costs) s.options.parameters.set(static_cast<std::uint16_t>(Parameter::kKvPrice), 0);
      if (n % 3 == 1) {
        for (InstanceSpec& i : s.cluster.instances) {
          if (i.role == Role::kDecode) i.kvTokens *= 1'000;
        }
      }
      std::vector<Line> lines[2];
      for (const std::size_t k : {0, 1}) {
        REQUIRE(makePairPlacement(k == 0 ? "earliest-finish" : "kv-price", &s.options.pairPlacement));
        Outcome run;
        simulateAll(s, &run);
        REQUIRE(run.status == Status::kOk);
        lines[k] = canonical(run.log);
      }
      if (n % 3 == 2) {
        ++scarce;
        different += lines[0] == lines[1] ? 0 : 1;
      } else {
        ++ample;
        REQUIRE(lines[0] == lines[1]);
      }
    }
    CHECK(ample == 1000);
    MESSAGE("different in ", different, " of ", scarce);
    CHECK(different > 20);
  }

  // CONTRACT 13.3.
  TEST_CASE("other true lengths change nothing before the first of them shows") {
    std::uint64_t lines = 0;
    for (std::uint32_t n = 0; n < 1000; ++n) {
      Scenario s = randomScenario(n);
      if (s.options.knowledge == Knowledge::kOracle) continue;
      s.options.error = {};
      s.options.sloBase = SloBase::kTemplate;  // the others are computed from the true lengths
      if (s.cluster.templates.empty()) s.cluster.templates.push_back({{0, 10, 10}});
      Outcome before;
      simulateAll(s, &before);
      double first = HUGE_VAL;
      for (std::uint32_t row = 0; row < s.trace.calls(); ++row) {
        if (row % 3 != 0) continue;
        s.trace.output[row] += 1 + row % 7;
        if (!std::isnan(before.finished[row])) first = std::min(first, before.finished[row]);
      }
      Outcome after;
      simulateAll(s, &after);
      REQUIRE(before.status == Status::kOk);
      REQUIRE(after.status == Status::kOk);
      const std::vector<Line> a = canonical(before.log);
      const std::vector<Line> b = canonical(after.log);
      for (std::size_t i = 0; i < a.size() && toMs(a[i][1]) < first; ++i, ++lines) {
        REQUIRE(i < b.size());
        REQUIRE(a[i] == b[i]);
      }
    }
    CHECK(lines > 20'000);
  }

  // validation.md 1, row 12.
  TEST_CASE("a chain at zero load takes its final horizon, to the nanosecond") {
    std::uint32_t chains = 0;
    for (std::uint32_t n = 0; n < 1500; ++n) {
      Random random(0xc4a1 + n);
      Scenario s = randomScenario(n);
      RunOptions& o = s.options;
      o.sloBase = SloBase::kHorizon;
      o.error = {};
      o.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit), 1);
      s.cached.clear();
      s.cluster.prefixCaches.clear();
      s.cluster.templates.clear();
      // Equal instances of each role: then every pair is the best.
      InstanceSpec prefill = s.cluster.instances.front();
      InstanceSpec decode = s.cluster.instances.back();
      prefill.model = decode.model = 0;
      prefill.kvTokens = decode.kvTokens = 1'000'000;
      s.cluster.instances.assign(1 + random.below(3), prefill);
      s.cluster.instances.insert(s.cluster.instances.end(), 1 + random.below(3), decode);
      s.trace = OwnedTrace{};
      for (std::uint32_t w = 0; w < 3; ++w) {
        s.trace.workflow(Nanos{w} * 3600 * kSecond);
        const std::uint32_t calls = 1 + random.below(6);
        for (std::uint32_t i = 0; i < calls; ++i) {
          OwnedTrace::CallSpec c;
          if (i > 0) c.parents.push_back(i - 1);
          c.prompt = 1 + random.below(500);
          c.output = random.below(5) == 0 ? 1 : 1 + random.below(300);
          c.gap = random.below(2) == 0 ? 0 : random.below(2'000'000'000);
          s.trace.call(c);
        }
      }
      Outcome run;
      simulateAll(s, &run);
      REQUIRE(run.status == Status::kOk);
      for (std::uint32_t w = 0; w < 3; ++w) {
        REQUIRE_MESSAGE(run.latency[w] == run.base[w], "scenario ", n, " ", describe(s));
        ++chains;
      }
      CHECK(run.result.sloScale95 == 1);
      CHECK(run.result.sloScale99 == 1);
    }
    CHECK(chains == 4500);
  }

  // validation.md 1, row 8: by Burke and Jackson both stations are M/M/1.
  TEST_CASE("tandem: prefill and decode as two single servers") {
    constexpr int kReplications = 30;
    constexpr std::uint32_t kWarmUp = 500;
    constexpr std::uint32_t kJobs = 25'000;
    const WholeCosts costs{0, 1000, 1000, 0,
                           0};  // 1 us per prompt token and per output token beyond the first
    for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
      Scenario s;
      InstanceSpec prefill = instanceSpec(0, 1000, 10'000'000'000);
      InstanceSpec decode = instanceSpec(0, 1, 10'000'000'000);
      prefill.role = Role::kPrefill;
      decode.role = Role::kDecode;
      s.cluster = clusterOf(std::span(&costs, 1), std::array{prefill, decode});
      s.options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
      REQUIRE(makePairPlacement("round-robin", &s.options.pairPlacement));
      s.options.feedback = feedback;
      s.options.pairs.staging = Staging::kUnlimited;
      std::vector<double> means;
      for (int replication = 0; replication < (feedback == Feedback::kLease ? 2 : kReplications);
           ++replication) {
        Random random(8, static_cast<std::uint64_t>(replication));
        s.trace = OwnedTrace{};
        double arrival = 0;
        for (std::uint32_t i = 0; i < kWarmUp + kJobs; ++i) {
          arrival += random.exponential(2e9);
          s.trace.workflow(static_cast<Nanos>(arrival));
          OwnedTrace::CallSpec c;
          c.prompt = std::max(1u, static_cast<std::uint32_t>(random.exponential(1e6) + 0.5));
          c.output = 1 + std::max(1u, static_cast<std::uint32_t>(random.exponential(1.25e6) + 0.5));
          s.trace.call(c);
        }
        Trace trace;
        REQUIRE(ok(trace.bind(s.columns())));
        s.options.arrivals.recordedMs = s.trace.arrivalMs;
        std::vector<double> latency(kWarmUp + kJobs);
        RunOutputs out;
        out.latencyMs = latency.data();
        RunResult result;
        REQUIRE(simulate(trace, s.cluster, s.options, out, &result) == Status::kOk);
        double sum = 0;
        for (std::uint32_t i = kWarmUp; i < latency.size(); ++i) sum += latency[i] / 1e3;
        means.push_back(sum / kJobs);
        CHECK(result.prefillUtilisation == doctest::Approx(0.5).epsilon(0.05));
        CHECK(result.decodeUtilisation == doctest::Approx(0.625).epsilon(0.05));
      }
      if (feedback == Feedback::kLease) continue;  // far too few for an interval: that it is no other system
      double mean = 0;
      for (const double m : means) mean += m / kReplications;
      double variance = 0;
      for (const double m : means) variance += (m - mean) * (m - mean) / (kReplications - 1);
      const double half = 2.756 * std::sqrt(variance / kReplications);  // Student t, 29 degrees, 99 %
      MESSAGE("T = ", mean, " +- ", half);
      CHECK(std::abs(mean - 16.0 / 3) <= half);
      CHECK(half <= 0.03 * 16 / 3);
    }
  }
}
