// The certified lower bound on unified clusters, by engine mode: tiny instances against every schedule that
// an independent event simulator can make, broken work terms, and the simulator's policies on random
// clusters.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "bounded_runs.h"
#include "bounds/bound.h"
#include "placement/registry.h"
#include "queueing.h"
#include "simulator/simulation.h"
#include "tiny_schedules.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr Nanos kTenth = kMillisecond / 10;

struct TinyInstance {
  std::uint32_t costs;
  std::int64_t kv;
  std::uint32_t sequences;
  std::uint32_t budget;  ///< chunked
};

struct Tiny {
  EngineMode mode;
  OwnedTrace trace;
  std::vector<Costs> costs;
  std::vector<TinyInstance> instances;
  std::vector<Nanos> arrival;

  ClusterSpec cluster() const {
    ClusterSpec spec;
    for (const Costs& c : costs) spec.latencies.push_back(c.model());
    for (const TinyInstance& m : instances) {
      InstanceSpec s = instanceSpec(static_cast<std::uint16_t>(m.costs), m.sequences, m.kv);
      s.mode = mode;
      if (mode == EngineMode::kChunked) s.chunkTokens = m.budget;
      if (mode == EngineMode::kDecodeShare) s.decodeShare = kDecodeShareUnit / 2;
      spec.instances.push_back(s);
    }
    return spec;
  }
};

Tiny tinyInstance(std::uint32_t n) {
  Random random(0x0417 + n);
  Tiny t;
  t.mode = static_cast<EngineMode>(n % 3);
  for (std::uint32_t i = 1 + random.below(2); i > 0; --i) {
    t.costs.push_back({kTenth * random.below(10), kTenth * (1 + random.below(10)),
                       kTenth * (1 + random.below(30)), kTenth * random.below(8),
                       random.below(2) == 0 ? 0 : kTenth * random.below(3)});
  }
  const std::uint32_t workflows = 2 + random.below(2);
  const std::uint32_t most = workflows + random.below(5 - workflows);
  std::int64_t largest = 0;
  const bool together = random.below(3) != 0;
  const bool longPrompts = random.below(2) == 0;
  for (std::uint32_t w = 0; w < workflows; ++w) {
    const Nanos before = w == 0 ? 0 : t.arrival.back();
    t.arrival.push_back(w == 0 || together ? before : before + kTenth * random.below(60));
    t.trace.workflow(t.arrival.back());
    const std::uint32_t left = most - t.trace.calls() - (workflows - w - 1);
    const std::uint32_t calls = 1 + random.below(std::min(left, 3u));
    const bool chain = random.below(2) == 0;
    for (std::uint32_t i = 0; i < calls; ++i) {
      OwnedTrace::CallSpec c;
      for (std::uint32_t p = 0; p < i; ++p) {
        if (chain ? p + 1 == i : random.below(2) == 0) c.parents.push_back(p);
      }
      c.prompt = 1 + random.below(longPrompts ? 12 : 3);
      c.output = 1 + random.below(5);
      if (random.below(4) == 0) c.gap = kTenth * random.below(30);
      t.trace.call(c);
      largest = std::max<std::int64_t>(largest, c.prompt + c.output);
    }
  }
  const bool tight = random.below(2) == 0;
  for (std::uint32_t i = 1 + random.below(2); i > 0; --i) {
    const auto below = static_cast<std::uint32_t>(largest);
    t.instances.push_back({random.below(static_cast<std::uint32_t>(t.costs.size())),
                           tight ? largest + random.below(below) : 1'000,
                           any(random, std::array{1u, 2u, 8u, 8u}), 2 + random.below(12)});
  }
  return t;
}

/// Every schedule of a tiny instance, one after the other. A call may begin its prefill wherever it fits
/// (sequences, KV) and the engine can take one; whatever could start may be held until the next event, also a
/// batch that waits to decode.
class Enumerator {
 public:
  explicit Enumerator(const Tiny& tiny) : tiny_(tiny), c_(tiny.trace.columns()) {}

  /// Latencies by workflow of the schedule that the choices lead to; never ended where it held everything.
  const std::vector<Nanos>& run(Random* random) {
    choices_.begin(random);
    play();
    choices_.end();
    return latency_;
  }
  bool next() { return choices_.next(); }

 private:
  struct CallState {
    bool started = false;
    std::uint32_t parents = 0;  ///< unfinished
    Nanos ready = kNever;
    std::uint32_t left = 0;  ///< tokens to decode
    std::int64_t context = 0;
  };
  struct Chunk {
    std::uint32_t call, done, tokens;
  };
  struct Engine {
    std::vector<std::uint32_t> held;  ///< begun and not finished: they hold KV and a sequence
    std::vector<std::uint32_t> batch;
    std::vector<std::uint32_t> joins;  ///< with the next iteration
    Nanos since = 0;                   ///< the work left is as of this time
    // In halves of a nanosecond at full speed, so that speed 1/2 is whole; 0 = none.
    Nanos prefillLeft = 0;
    Nanos iterationLeft = 0;
    std::uint32_t prefilling = 0;
    std::vector<Chunk> chunks;  ///< of the iteration in progress; between iterations: the one that was cut
  };

  bool chunked() const { return tiny_.mode == EngineMode::kChunked; }
  bool shares() const { return tiny_.mode == EngineMode::kDecodeShare; }
  const Costs& costs(std::uint32_t m) const { return tiny_.costs[tiny_.instances[m].costs]; }

  void play() {
    calls_.assign(c_.calls, {});
    engines_.assign(tiny_.instances.size(), {});
    workflowOf_.resize(c_.calls);
    latency_.assign(c_.workflows, kNever / 2);
    unfinished_.assign(c_.workflows, 0);
    for (std::uint32_t w = 0; w < c_.workflows; ++w) {
      unfinished_[w] = c_.firstCall[w + 1] - c_.firstCall[w];
      for (std::uint32_t i = c_.firstCall[w]; i < c_.firstCall[w + 1]; ++i) {
        workflowOf_[i] = w;
        calls_[i].parents = c_.parentOffset[i + 1] - c_.parentOffset[i];
        if (calls_[i].parents == 0) calls_[i].ready = tiny_.arrival[w] + fromMs(c_.toolGapMs[i]);
      }
    }
    for (Nanos t = 0; t != kNever; t = nextEvent(t)) {
      for (std::uint32_t m = 0; m < engines_.size(); ++m) advance(m, t);
      for (std::uint32_t m = 0; m < engines_.size(); ++m) decide(m, t);
    }
  }

  static Nanos speedOf(const Engine& e) { return e.prefillLeft > 0 && e.iterationLeft > 0 ? 1 : 2; }

  Nanos nextEvent(Nanos t) const {
    Nanos next = kNever;
    for (const Engine& e : engines_) {
      for (const Nanos left : {e.prefillLeft, e.iterationLeft}) {
        if (left > 0) next = std::min(next, e.since + (left + speedOf(e) - 1) / speedOf(e));
      }
    }
    for (const CallState& c : calls_) {
      if (!c.started && c.ready > t) next = std::min(next, c.ready);
    }
    return next;
  }

  void advance(std::uint32_t m, Nanos t) {
    Engine& e = engines_[m];
    const Nanos done = (t - e.since) * speedOf(e);
    const bool prefilled = e.prefillLeft > 0 && e.prefillLeft <= done;
    const bool iterated = e.iterationLeft > 0 && e.iterationLeft <= done;
    e.prefillLeft = std::max<Nanos>(0, e.prefillLeft - done);
    e.iterationLeft = std::max<Nanos>(0, e.iterationLeft - done);
    e.since = t;
    if (iterated) {
      std::vector<std::uint32_t> stay;
      for (const std::uint32_t i : e.batch) {
        ++calls_[i].context;
        if (--calls_[i].left == 0)
          finish(m, i, t);
        else
          stay.push_back(i);
      }
      e.batch = stay;
      std::vector<Chunk> cut;
      for (Chunk& c : e.chunks) {
        c.done += c.tokens;
        if (c.done == c_.promptTokens[c.call])
          prefillEnds(m, c.call, t);
        else
          cut.push_back(c);
      }
      e.chunks = cut;
    }
    if (prefilled) prefillEnds(m, e.prefilling, t);
  }

  void prefillEnds(std::uint32_t m, std::uint32_t i, Nanos t) {
    if (calls_[i].left == 0)
      finish(m, i, t);
    else
      engines_[m].joins.push_back(i);
  }

  void finish(std::uint32_t m, std::uint32_t i, Nanos t) {
    std::erase(engines_[m].held, i);
    const std::uint32_t w = workflowOf_[i];
    if (--unfinished_[w] == 0) latency_[w] = t - tiny_.arrival[w];
    for (std::uint32_t k = c_.firstCall[w]; k < c_.firstCall[w + 1]; ++k) {
      for (std::uint32_t e = c_.parentOffset[k]; e < c_.parentOffset[k + 1]; ++e) {
        if (c_.firstCall[w] + c_.parents[e] == i && --calls_[k].parents == 0)
          calls_[k].ready = t + fromMs(c_.toolGapMs[k]);
      }
    }
  }

  bool mayStart(std::uint32_t m, std::uint32_t i, Nanos t) const {
    if (calls_[i].started || calls_[i].ready > t) return false;
    const TinyInstance& spec = tiny_.instances[m];
    std::int64_t kv = c_.promptTokens[i] + c_.outputTokens[i];
    for (const std::uint32_t other : engines_[m].held) kv += c_.promptTokens[other] + c_.outputTokens[other];
    return kv <= spec.kv && engines_[m].held.size() < spec.sequences;
  }

  void start(std::uint32_t m, std::uint32_t i) {
    calls_[i].started = true;
    calls_[i].left = c_.outputTokens[i] - 1;
    calls_[i].context = c_.promptTokens[i] + 1;
    engines_[m].held.push_back(i);
  }

  /// Something else happens anyway, or the next engine could do it.
  bool mayHold(std::uint32_t m, Nanos t) const { return nextEvent(t) != kNever || m + 1 < engines_.size(); }

  /// A waiting call, or kNoSlot.
  std::uint32_t chooseCall(std::uint32_t m, Nanos t, bool mayHold) {
    options_.clear();
    for (std::uint32_t i = 0; i < calls_.size(); ++i) {
      if (mayStart(m, i, t)) options_.push_back(i);
    }
    if (options_.empty()) return kNoSlot;
    const std::uint32_t chosen = choices_.choose(static_cast<std::uint32_t>(options_.size()) + 1, mayHold);
    return chosen < options_.size() ? options_[chosen] : kNoSlot;
  }

  void decide(std::uint32_t m, Nanos t) {
    Engine& e = engines_[m];
    if (shares()) {
      if (e.prefillLeft == 0) {
        const std::uint32_t call = chooseCall(m, t, !e.batch.empty() || !e.joins.empty() || mayHold(m, t));
        if (call != kNoSlot) prefill(m, call);
      }
      if (e.iterationLeft == 0) iterate(m);
      return;
    }
    if (e.prefillLeft > 0 || e.iterationLeft > 0) return;
    if (chunked()) {
      compose(m, t);
      return;
    }
    const bool decodes = !e.batch.empty() || !e.joins.empty();
    const std::uint32_t call = chooseCall(m, t, decodes || mayHold(m, t));
    if (call != kNoSlot)
      prefill(m, call);
    else if (decodes && choices_.choose(2, mayHold(m, t)) == 0)
      iterate(m);
  }

  void prefill(std::uint32_t m, std::uint32_t i) {
    start(m, i);
    engines_[m].prefilling = i;
    engines_[m].prefillLeft =
        2 * std::max<Nanos>(1, costs(m).prefillBase + costs(m).prefillPerToken * c_.promptTokens[i]);
  }

  void iterate(std::uint32_t m, Nanos chunks = 0) {
    Engine& e = engines_[m];
    e.batch.insert(e.batch.end(), e.joins.begin(), e.joins.end());
    e.joins.clear();
    Nanos time = chunks;
    if (!e.batch.empty())
      time += costs(m).base + costs(m).perSequence * (static_cast<Nanos>(e.batch.size()) - 1);
    for (const std::uint32_t i : e.batch) time += costs(m).perContext * calls_[i].context;
    if (!e.batch.empty() || !e.chunks.empty()) e.iterationLeft = 2 * std::max<Nanos>(1, time);
  }

  void compose(std::uint32_t m, Nanos t) {
    Engine& e = engines_[m];
    const auto decodes = static_cast<std::uint32_t>(e.batch.size() + e.joins.size());
    std::uint32_t budget = tiny_.instances[m].budget - std::min(tiny_.instances[m].budget, decodes);
    Nanos time = 0;
    const auto take = [&](Chunk& c) {
      c.tokens = std::min(budget, c_.promptTokens[c.call] - c.done);
      budget -= c.tokens;
      time += costs(m).prefillPerToken * c.tokens + (c.done == 0 ? costs(m).prefillBase : 0);
    };
    for (Chunk& c : e.chunks) take(c);
    while (budget > 0) {
      const std::uint32_t call = chooseCall(m, t, decodes > 0 || !e.chunks.empty() || mayHold(m, t));
      if (call == kNoSlot) break;
      start(m, call);
      e.chunks.push_back({call, 0, 0});
      take(e.chunks.back());
    }
    iterate(m, time);
  }

  const Tiny& tiny_;
  TraceColumns c_;
  Choices choices_;
  std::vector<CallState> calls_;
  std::vector<Engine> engines_;
  std::vector<std::uint32_t> workflowOf_;
  std::vector<std::uint32_t> unfinished_;
  std::vector<Nanos> latency_;
  std::vector<std::uint32_t> options_;
};

RunOptions unifiedRun(const OwnedTrace& trace, std::string_view order, std::string_view placement,
                      SloBase base) {
  RunOptions o = baseOptions(order, placement, Binding::kAtReveal);
  o.sloBase = base;
  o.arrivals.recordedMs = trace.arrivalMs;
  return o;
}

}  // namespace

TEST_SUITE_BEGIN("bounds");

TEST_CASE("unified: no schedule of a tiny instance is below the bound; broken work terms are caught") {
  constexpr std::uint32_t kInstances = 2'100;
  struct Fault {
    const char* name;
    bounds::WorkFaults faults;
    std::array<std::uint32_t, 3> caught{};  ///< by mode
  };
  std::vector<Fault> faults(7);
  for (std::size_t i = 0; i < bounds::kWorks; ++i) faults[i].faults.work[i] = 1.4;
  faults[0].name = "prefill";
  faults[1].name = "KV";
  faults[2].name = "sequences";
  faults[3].name = "latency";
  faults[4].name = "path";
  faults[4].faults.path = 1.4;
  faults[5].name = "window";
  faults[5].faults.window = 0.6;
  faults[6].name = "packing";
  faults[6].faults.packing = 1.4;

  std::array<std::uint32_t, 3> exhaustive{};
  std::uint32_t binding = 0;
  std::array<std::array<double, 3>, 3> logs{};  ///< by mode and tau
  for (std::uint32_t n = 0; n < kInstances; ++n) {
    CAPTURE(n);
    const Tiny tiny = tinyInstance(n);
    const auto mode = static_cast<std::size_t>(tiny.mode);
    Trace trace;
    REQUIRE(ok(trace.bind(tiny.trace.columns())));
    const ClusterSpec cluster = tiny.cluster();
    const RunOptions options = unifiedRun(tiny.trace, "fcfs", "eft", SloBase::kHorizon);
    std::vector<double> base(trace.columns().workflows);
    std::vector<double> latency(base.size());
    RunOutputs out;
    out.baseMs = base.data();
    out.latencyMs = latency.data();
    RunResult run;
    REQUIRE(ok(simulate(trace, cluster, options, out, &run)));
    REQUIRE(run.evictions == 0);
    std::vector<double> ratios(base.size());
    for (std::size_t w = 0; w < base.size(); ++w) ratios[w] = latency[w] / base[w];
    for (double& b : base) b = static_cast<double>(fromMs(b));
    Best best = bestOf<Enumerator>(tiny, base, n, 4'000, 300);
    exhaustive[mode] += best.exhaustive ? 1 : 0;
    for (std::size_t k = 0; k < kTaus.size(); ++k) {
      // The engine's schedule is one of those enumerated.
      if (best.exhaustive) CHECK_FALSE(below(required(ratios, kTaus[k]), best.ratio[k] * (1 - 1e-9)));
      best.ratio[k] = std::min(best.ratio[k], required(ratios, kTaus[k]));
    }

    BoundResult result;
    REQUIRE(ok(reqLowerBounds(trace, cluster, options, kTaus, &result)));
    for (std::size_t k = 0; k < kTaus.size(); ++k) {
      CAPTURE(kTaus[k]);
      CAPTURE(best.ratio[k]);
      CAPTURE(result.bounds[k].ratio);
      CHECK_FALSE(below(best.ratio[k], result.bounds[k].ratio));
      logs[mode][k] += std::log(best.ratio[k] / result.bounds[k].ratio);
      binding += result.bounds[k].isolated ? 0 : 1;
    }
    if (n >= 900) continue;
    for (Fault& f : faults) {
      REQUIRE(ok(reqLowerBounds(trace, cluster, options, kTaus, &result, f.faults)));
      bool caught = false;
      for (std::size_t k = 0; k < kTaus.size(); ++k) caught |= below(best.ratio[k], result.bounds[k].ratio);
      f.caught[mode] += caught ? 1 : 0;
    }
  }
  constexpr std::array<const char*, 3> kModes{"prefill-first", "chunked", "decode-share"};
  for (const Fault& f : faults) {
    for (std::size_t mode = 0; mode < 3; ++mode) {
      CAPTURE(f.name);
      CAPTURE(kModes[mode]);
      CHECK(f.caught[mode] > 0);
    }
    MESSAGE(std::string(f.name), ": caught ", f.caught[0], " ", f.caught[1], " ", f.caught[2],
            " of 300 by mode");
  }
  for (std::size_t mode = 0; mode < 3; ++mode) {
    std::array<double, 3> mean{};
    for (std::size_t k = 0; k < 3; ++k) mean[k] = std::exp(logs[mode][k] / (kInstances / 3.0));
    MESSAGE(std::string(kModes[mode]), ": exhaustive ", exhaustive[mode], " of ", kInstances / 3,
            "; geometric mean best / bound ", mean[0], " ", mean[1], " ", mean[2]);
    CHECK(exhaustive[mode] > kInstances / 15);
    CHECK(mean[2] < 1.2);
  }
  MESSAGE("more than isolated ", binding, " of ", 3 * kInstances);
  CHECK(binding > kInstances);
}

TEST_CASE("unified: no policy of the simulator is below the bound on random clusters") {
  std::uint32_t checked = 0;
  std::uint32_t outside = 0;
  std::array<std::uint32_t, 4> binding{};  ///< by mode; the last: mixed
  std::vector<std::string_view> placements;
  for (const std::string_view name : placementNames()) {
    if (name != "external") placements.push_back(name);
  }
  for (std::uint32_t n = 0; n < 320; ++n) {
    CAPTURE(n);
    Random random(0xdace + n);
    const TraceShape shape = boundedShape(random);
    OwnedTrace owned = randomTrace(random, shape);
    owned.predictions = true;
    if (random.below(4) == 0) {
      owned.slos = true;
      for (double& slo : owned.sloMs) slo = 1 + 2000 * random.uniform();
    }
    std::vector<std::uint32_t> cached;
    if (random.below(5) == 0) {
      for (const std::uint32_t prompt : owned.prompt) cached.push_back(random.below(prompt));
    }
    Trace trace;
    TraceColumns columns = owned.columns();
    if (!cached.empty()) columns.cachedTokens = cached.data();
    REQUIRE(ok(trace.bind(columns)));

    ClusterSpec cluster;
    cluster.latencies = boundedModels(random);
    const std::int64_t largest = std::int64_t{shape.maxPrompt} + 2 * shape.maxOutput;
    const std::uint32_t modes = n % 4;
    for (std::uint16_t model = 0; model < shape.models; ++model) {
      for (std::uint32_t i = 1 + random.below(4); i > 0; --i) {
        InstanceSpec spec =
            instanceSpec(static_cast<std::uint16_t>(random.below(3)), 1 + random.below(20),
                         random.below(2) == 0 ? 1'000'000 : largest + random.below(4 * largest), model);
        const auto mode = static_cast<EngineMode>(modes < 3 ? modes : random.below(3));
        spec = inMode(spec, mode, random);
        if (mode == EngineMode::kPrefillFirst && random.below(3) == 0)
          spec.chunkTokens = 1 + random.below(2 * largest);
        cluster.instances.push_back(spec);
        std::vector<CacheTier> tiers;
        if (!cached.empty()) tiers.push_back({100'000, 0});
        if (!cached.empty()) cluster.prefixCaches.push_back(tiers);
      }
    }
    const auto policy = [&](RunOptions* o) {
      const RunOptions other = baseOptions(any(random, orderNames()), any(random, placements),
                                           random.below(2) == 0 ? Binding::kAtReveal : Binding::kAtCredit);
      o->order = other.order;
      o->placement = other.placement;
      o->binding = other.binding;
    };
    RunOptions options =
        unifiedRun(owned, "fcfs", "eft", any(random, std::array{SloBase::kHorizon, SloBase::kExclusive}));
    options.feedback = random.below(3) == 0 ? Feedback::kLease : Feedback::kBoundary;
    options.knowledge = any(random, std::array{Knowledge::kOnline, Knowledge::kDeclared, Knowledge::kOracle});
    options.tieSeed = random.below(3);
    if (cached.empty() && modes == 0 && random.below(3) == 0) {
      options.compat = Compat::kHexgen;
      for (InstanceSpec& spec : cluster.instances) spec.chunkTokens = 0;
    }

    const BoundResult bound = boundsOf(trace, cluster, options);
    binding[modes] += bound.bounds.back().isolated ? 0 : 1;
    for (std::uint32_t attempt = 0; attempt < 4; ++attempt) {
      policy(&options);
      if (runIsNotBelow(trace, cluster, options, bound))
        checked += static_cast<std::uint32_t>(kManyTaus.size());
      else
        ++outside;
    }
  }
  MESSAGE("checked ", checked, ", outside the model ", outside, ", more than isolated ", binding[0], " ",
          binding[1], " ", binding[2], " ", binding[3], " of 80 each");
  CHECK(checked > 4'000);
  // The least of chunked engines, where a model without constants has no prefill work.
  for (const std::uint32_t b : binding) CHECK(b > 12);
}

TEST_CASE("unified: what the bound says where the answer is known") {
  // n equal workflows of one call at one instant on one instance, output 1: the k-th of them ends after k
  // prefills, whatever the order.
  OwnedTrace owned;
  for (std::uint32_t i = 0; i < 20; ++i) {
    owned.workflow(0);
    owned.call({100, 1});
  }
  Trace trace;
  REQUIRE(ok(trace.bind(owned.columns())));
  for (const EngineMode mode : {EngineMode::kPrefillFirst, EngineMode::kChunked, EngineMode::kDecodeShare}) {
    ClusterSpec cluster;
    LatencyModel model;
    REQUIRE(LatencyModel::constants({0, 1, 1, 0, 0}, &model) == Status::kOk);
    cluster.latencies.push_back(model);
    Random random(1);
    cluster.instances.push_back(inMode(instanceSpec(0, 8, 1'000), mode, random));
    RunOptions options = unifiedRun(owned, "fcfs", "eft", SloBase::kHorizon);
    BoundResult result;
    REQUIRE(ok(reqLowerBounds(trace, cluster, options, std::array{0.5, 0.95, 1.0}, &result)));
    for (std::size_t i = 0; i < 3; ++i) {
      const double exact = std::array{10.0, 19.0, 20.0}[i];
      CHECK(result.bounds[i].ratio <= exact);
      CHECK(result.bounds[i].ratio >= exact / 1.0041);
      CHECK(result.bounds[i].share[0] == doctest::Approx(1));
    }

    options.compat = Compat::kHexgenTicks;
    CHECK(reqLowerBounds(trace, cluster, options, std::array{0.95}, &result) == Status::kUnsupported);
    options.compat = Compat::kNone;
    options.script.push_back({0, 0, ScriptStep::Kind::kSpeed, 0.5});
    CHECK(reqLowerBounds(trace, cluster, options, std::array{0.95}, &result) == Status::kUnsupported);
  }
}

TEST_SUITE_END();
