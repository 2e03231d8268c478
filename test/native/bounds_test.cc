// The certified lower bound (bounds/bound.h): tiny instances against every schedule that an independent event
// simulator can make, broken work terms, the simulator's policies on random clusters, and the parts alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "bounded_runs.h"
#include "bounds/bound.h"
#include "bounds/certificate.h"
#include "bounds/decode_floor.h"
#include "bounds/packing_lp.h"
#include "bounds/separation.h"
#include "queueing.h"
#include "simulator/simulation.h"
#include "tiny_schedules.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

// --- tiny instances

struct TinyInstance {
  Role role;
  std::uint32_t costs;
  std::int64_t kv;
  std::uint32_t sequences;
  Nanos linkPerToken;
  Nanos linkLatency;
};

struct Tiny {
  OwnedTrace trace;
  std::vector<Costs> costs;
  std::vector<TinyInstance> instances;
  std::vector<Nanos> arrival;

  ClusterSpec cluster() const {
    ClusterSpec spec;
    for (const Costs& c : costs) spec.latencies.push_back(c.model());
    for (const TinyInstance& m : instances) {
      InstanceSpec s = instanceSpec(static_cast<std::uint16_t>(m.costs), m.sequences, m.kv);
      s.role = m.role;
      s.linkPerToken = m.linkPerToken << kFineBits;
      s.linkLatency = m.linkLatency;
      spec.instances.push_back(s);
    }
    return spec;
  }
};

Tiny tinyInstance(std::uint32_t n) {
  Random random(0xb0d + n);
  Tiny t;
  constexpr Nanos kTenth = kMillisecond / 10;
  const std::uint32_t kinds = 1 + random.below(2);
  for (std::uint32_t i = 0; i < kinds; ++i) {
    t.costs.push_back({kTenth * random.below(10), kTenth * (1 + random.below(10)),
                       kTenth * (1 + random.below(30)), kTenth * random.below(8),
                       random.below(2) == 0 ? 0 : kTenth * random.below(3)});
  }
  const std::uint32_t workflows = 2 + random.below(3);
  const std::uint32_t most = workflows + random.below(2) * random.below(7 - workflows);
  std::int64_t largest = 0;
  const bool together = random.below(3) != 0;
  const std::uint32_t longPrompts = random.below(2);
  for (std::uint32_t w = 0; w < workflows; ++w) {
    const Nanos arrival =
        w == 0 || together ? (w == 0 ? 0 : t.arrival.back()) : t.arrival.back() + kTenth * random.below(60);
    t.arrival.push_back(arrival);
    t.trace.workflow(arrival);
    const std::uint32_t left = most - t.trace.calls() - (workflows - w - 1);
    const std::uint32_t calls = 1 + random.below(std::min(left, 3u));
    const bool chain = random.below(2) == 0;
    for (std::uint32_t i = 0; i < calls; ++i) {
      OwnedTrace::CallSpec c;
      for (std::uint32_t p = 0; p < i; ++p) {
        if (chain ? p + 1 == i : random.below(2) == 0) c.parents.push_back(p);
      }
      c.prompt = 1 + random.below(longPrompts != 0 ? 12 : 3);
      c.output = 1 + random.below(5);
      if (random.below(4) == 0) c.gap = kTenth * random.below(30);
      t.trace.call(c);
      largest = std::max<std::int64_t>(largest, c.prompt + c.output);
    }
  }
  const bool tight = random.below(2) == 0;
  const std::uint32_t np = 1 + random.below(2);
  const std::uint32_t nd = 1 + random.below(2);
  for (std::uint32_t i = 0; i < np + nd; ++i) {
    TinyInstance m;
    m.role = i < np ? Role::kPrefill : Role::kDecode;
    m.costs = random.below(kinds);
    m.kv = tight && i >= np ? largest + random.below(static_cast<std::uint32_t>(largest)) : 1'000;
    m.sequences = i < np ? 8 : any(random, std::array{1u, 2u, 8u, 8u});
    m.linkPerToken = random.below(2) == 0 ? 0 : kTenth * random.below(3);
    m.linkLatency = random.below(2) == 0 ? 0 : kTenth * random.below(10);
    t.instances.push_back(m);
  }
  return t;
}

/// Every schedule of a tiny instance, one after the other. Prefills one at a time; d is chosen with p;
/// transfers do not share links; calls join at ends of iterations, any that fit, in any subset; whatever
/// could start may be held until the next event. KV waits beside d, takes no room on p, so that nothing but
/// the machine limits a schedule.
class Enumerator {
 public:
  explicit Enumerator(const Tiny& tiny) : tiny_(tiny), c_(tiny.trace.columns()) {}

  /// Latencies by workflow of the schedule that the choices lead to.
  const std::vector<Nanos>& run(Random* random) {
    choices_.begin(random);
    play();
    choices_.end();
    return latency_;
  }
  bool next() { return choices_.next(); }

 private:
  enum class Where : std::uint8_t { kWaits, kPrefills, kMoves, kArrived, kDecodes, kDone };
  struct CallState {
    Where where = Where::kWaits;
    std::uint32_t parents = 0;  ///< unfinished
    Nanos ready = kNever;       ///< also: end of prefill or transfer
    std::uint32_t d = 0;
    std::uint32_t left = 0;
    std::int64_t context = 0;
  };
  struct Engine {
    Nanos end = kNever;  ///< of the prefill or iteration
    std::uint32_t call = 0;
    std::vector<std::uint32_t> batch;
    bool boundary = true;
  };

  void play() {
    const std::uint32_t n = c_.calls;
    calls_.assign(n, {});
    engines_.assign(tiny_.instances.size(), {});
    workflowOf_.resize(n);
    latency_.assign(c_.workflows, 0);
    std::uint32_t left = n;
    for (std::uint32_t w = 0; w < c_.workflows; ++w) {
      for (std::uint32_t i = c_.firstCall[w]; i < c_.firstCall[w + 1]; ++i) {
        workflowOf_[i] = w;
        calls_[i].parents = c_.parentOffset[i + 1] - c_.parentOffset[i];
        if (calls_[i].parents == 0) calls_[i].ready = tiny_.arrival[w] + fromMs(c_.toolGapMs[i]);
      }
    }
    Nanos t = 0;
    while (left > 0) {
      // Events at t.
      for (std::uint32_t m = 0; m < engines_.size(); ++m) {
        Engine& e = engines_[m];
        if (e.end != t) continue;
        e.end = kNever;
        if (tiny_.instances[m].role == Role::kPrefill) {
          CallState& c = calls_[e.call];
          if (c.left == 0) {
            finish(e.call, t, &left);
          } else {
            const TinyInstance& d = tiny_.instances[c.d];
            const TinyInstance& p = tiny_.instances[m];
            c.where = Where::kMoves;
            c.ready = t + std::max(p.linkLatency, d.linkLatency) +
                      std::max(p.linkPerToken, d.linkPerToken) * c_.promptTokens[e.call];
          }
          continue;
        }
        e.boundary = true;
        std::vector<std::uint32_t> stay;
        for (const std::uint32_t i : e.batch) {
          ++calls_[i].context;
          if (--calls_[i].left == 0)
            finish(i, t, &left);
          else
            stay.push_back(i);
        }
        e.batch = stay;
      }
      for (CallState& c : calls_) {
        if (c.where == Where::kMoves && c.ready == t) c.where = Where::kArrived;
      }
      decide(t);
      const Nanos next = nextEvent(t);
      if (next == kNever) {
        if (left == 0) break;
        force(t);  // everything was held for ever
        t = nextEvent(t);
        continue;
      }
      t = next;
    }
  }

  Nanos nextEvent(Nanos t) const {
    Nanos next = kNever;
    for (const Engine& e : engines_) next = std::min(next, e.end);
    for (const CallState& c : calls_) {
      if ((c.where == Where::kMoves || c.where == Where::kWaits) && c.ready > t)
        next = std::min(next, c.ready);
    }
    return next;
  }

  void finish(std::uint32_t i, Nanos t, std::uint32_t* left) {
    calls_[i].where = Where::kDone;
    --*left;
    const std::uint32_t w = workflowOf_[i];
    latency_[w] = std::max(latency_[w], t - tiny_.arrival[w]);
    for (std::uint32_t k = c_.firstCall[w]; k < c_.firstCall[w + 1]; ++k) {
      for (std::uint32_t e = c_.parentOffset[k]; e < c_.parentOffset[k + 1]; ++e) {
        if (c_.firstCall[w] + c_.parents[e] == i && --calls_[k].parents == 0)
          calls_[k].ready = t + fromMs(c_.toolGapMs[k]);
      }
    }
  }

  bool fits(std::uint32_t i, std::uint32_t d) const {
    const TinyInstance& m = tiny_.instances[d];
    std::int64_t kv = c_.promptTokens[i] + c_.outputTokens[i];
    for (const std::uint32_t other : engines_[d].batch) kv += c_.promptTokens[other] + c_.outputTokens[other];
    return kv <= m.kv && engines_[d].batch.size() < m.sequences;
  }

  void startPrefill(std::uint32_t m, std::uint32_t i, std::uint32_t d, Nanos t) {
    const Costs& cost = tiny_.costs[tiny_.instances[m].costs];
    calls_[i].where = Where::kPrefills;
    calls_[i].d = d;
    calls_[i].left = c_.outputTokens[i] - 1;
    calls_[i].context = c_.promptTokens[i] + 1;
    engines_[m].call = i;
    engines_[m].end = t + std::max<Nanos>(1, cost.prefillBase + cost.prefillPerToken * c_.promptTokens[i]);
  }

  void startIteration(std::uint32_t m, Nanos t) {
    Engine& e = engines_[m];
    if (e.batch.empty()) return;
    const Costs& cost = tiny_.costs[tiny_.instances[m].costs];
    Nanos time = cost.base + cost.perSequence * (static_cast<Nanos>(e.batch.size()) - 1);
    for (const std::uint32_t i : e.batch) time += cost.perContext * calls_[i].context;
    e.end = t + time;
    e.boundary = false;
  }

  void decide(Nanos t) {
    for (std::uint32_t m = 0; m < engines_.size(); ++m) {
      if (tiny_.instances[m].role != Role::kPrefill || engines_[m].end != kNever) continue;
      options_.clear();
      for (std::uint32_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].where != Where::kWaits || calls_[i].ready > t) continue;
        for (std::uint32_t d = 0; d < engines_.size(); ++d) {
          if (tiny_.instances[d].role != Role::kDecode) continue;
          if (c_.promptTokens[i] + c_.outputTokens[i] <= tiny_.instances[d].kv) options_.push_back({i, d});
          if (c_.outputTokens[i] == 1 && !options_.empty() && options_.back().first == i) break;
        }
      }
      if (options_.empty()) continue;
      const std::uint32_t chosen =
          choices_.choose(static_cast<std::uint32_t>(options_.size()) + 1, nextEvent(t) != kNever);
      if (chosen < options_.size()) startPrefill(m, options_[chosen].first, options_[chosen].second, t);
    }
    for (std::uint32_t m = 0; m < engines_.size(); ++m) {
      if (tiny_.instances[m].role != Role::kDecode || engines_[m].end != kNever) continue;
      for (std::uint32_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].where != Where::kArrived || calls_[i].d != m || !fits(i, m)) continue;
        if (choices_.choose(2, !engines_[m].batch.empty() || nextEvent(t) != kNever) == 0) {
          calls_[i].where = Where::kDecodes;
          engines_[m].batch.push_back(i);
        }
      }
      startIteration(m, t);
    }
  }

  void force(Nanos t) {
    for (std::uint32_t m = 0; m < engines_.size(); ++m) {
      for (std::uint32_t i = 0; i < calls_.size(); ++i) {
        if (tiny_.instances[m].role == Role::kDecode && calls_[i].where == Where::kArrived &&
            calls_[i].d == m && fits(i, m)) {
          calls_[i].where = Where::kDecodes;
          engines_[m].batch.push_back(i);
          startIteration(m, t);
          return;
        }
        if (tiny_.instances[m].role != Role::kPrefill || calls_[i].where != Where::kWaits ||
            calls_[i].ready > t)
          continue;
        for (std::uint32_t d = 0; d < engines_.size(); ++d) {
          if (tiny_.instances[d].role != Role::kDecode ||
              c_.promptTokens[i] + c_.outputTokens[i] > tiny_.instances[d].kv)
            continue;
          startPrefill(m, i, d, t);
          return;
        }
      }
    }
  }

  const Tiny& tiny_;
  TraceColumns c_;
  Choices choices_;
  std::vector<CallState> calls_;
  std::vector<Engine> engines_;
  std::vector<std::uint32_t> workflowOf_;
  std::vector<Nanos> latency_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> options_;
};

RunOptions pairRun(const OwnedTrace& trace, std::string_view order, std::string_view placement) {
  RunOptions o;
  REQUIRE(makeOrder(order, &o.order));
  REQUIRE(makePairPlacement(placement, &o.pairPlacement));
  o.knowledge = Knowledge::kOnline;
  o.sloBase = SloBase::kHorizon;
  o.arrivals.process = ArrivalProcess::kTrace;
  o.arrivals.recordedMs = trace.arrivalMs;
  return o;
}

std::vector<double> basesOf(const Tiny& tiny, const Trace& trace, const ClusterSpec& cluster, Best* best) {
  std::vector<double> base(trace.columns().workflows);
  std::vector<double> latency(base.size());
  for (const std::string_view order : {"fcfs", "ratio", "sjf"}) {
    RunOutputs out;
    out.baseMs = base.data();
    out.latencyMs = latency.data();
    RunResult result;
    REQUIRE(ok(simulate(trace, cluster, pairRun(tiny.trace, order, "earliest-finish"), out, &result)));
    REQUIRE(result.completed == base.size());
    REQUIRE(result.evictions == 0);
    std::vector<double> ratios(base.size());
    for (std::size_t w = 0; w < base.size(); ++w) ratios[w] = latency[w] / base[w];
    for (std::size_t k = 0; k < kTaus.size(); ++k)
      best->ratio[k] = std::min(best->ratio[k], required(ratios, kTaus[k]));
  }
  for (double& b : base) b = static_cast<double>(fromMs(b));
  return base;
}

}  // namespace

TEST_SUITE_BEGIN("bounds");

TEST_CASE("no schedule of a tiny instance is below the bound; broken work terms are caught") {
  constexpr std::uint32_t kInstances = 2'000;
  struct Fault {
    const char* name;
    bounds::WorkFaults faults;
    std::uint32_t caught = 0;
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

  std::uint32_t exhaustive = 0;
  std::uint32_t binding = 0;
  std::array<double, 3> logs{};
  std::array<std::uint32_t, bounds::kWorks> bindings{};
  // One decode instance that is tight in KV, at tau = 1: where fluid packing alone is loosest.
  std::uint32_t tight = 0;
  double packed = 0;
  double fluid = 0;
  for (std::uint32_t n = 0; n < kInstances; ++n) {
    CAPTURE(n);
    const Tiny tiny = tinyInstance(n);
    Trace trace;
    REQUIRE(ok(trace.bind(tiny.trace.columns())));
    const ClusterSpec cluster = tiny.cluster();
    Best policies;
    const std::vector<double> base = basesOf(tiny, trace, cluster, &policies);
    Best best = bestOf<Enumerator>(tiny, base, n, 4'000, 300);
    exhaustive += best.exhaustive ? 1 : 0;
    for (std::size_t k = 0; k < kTaus.size(); ++k) best.ratio[k] = std::min(best.ratio[k], policies.ratio[k]);

    const RunOptions options = pairRun(tiny.trace, "fcfs", "earliest-finish");
    BoundResult result;
    REQUIRE(ok(reqLowerBounds(trace, cluster, options, kTaus, &result)));
    for (std::size_t k = 0; k < kTaus.size(); ++k) {
      CAPTURE(kTaus[k]);
      CAPTURE(best.ratio[k]);
      CAPTURE(result.bounds[k].ratio);
      CHECK_FALSE(below(best.ratio[k], result.bounds[k].ratio));
      logs[k] += std::log(best.ratio[k] / result.bounds[k].ratio);
      binding += result.bounds[k].isolated ? 0 : 1;
      for (std::size_t i = 0; i < bounds::kWorks; ++i) bindings[i] += result.bounds[k].share[i] > 0.5 ? 1 : 0;
    }
    std::uint32_t decodes = 0;
    for (const TinyInstance& m : tiny.instances) decodes += m.role == Role::kDecode ? 1 : 0;
    if (best.exhaustive && decodes == 1 && tiny.instances.back().kv < 1'000) {
      ++tight;
      packed += std::log(best.ratio[2] / result.bounds[2].ratio);
      bounds::WorkFaults none;
      none.packing = 0;
      REQUIRE(ok(reqLowerBounds(trace, cluster, options, kTaus, &result, none)));
      fluid += std::log(best.ratio[2] / result.bounds[2].ratio);
    }
    if (n >= 700) continue;
    for (Fault& f : faults) {
      REQUIRE(ok(reqLowerBounds(trace, cluster, options, kTaus, &result, f.faults)));
      bool caught = false;
      for (std::size_t k = 0; k < kTaus.size(); ++k) caught |= below(best.ratio[k], result.bounds[k].ratio);
      f.caught += caught ? 1 : 0;
    }
  }
  for (const Fault& f : faults) {
    CAPTURE(f.name);
    CHECK(f.caught > 0);
    MESSAGE(std::string(f.name), ": caught ", f.caught, " of 700");
  }
  MESSAGE("exhaustive ", exhaustive, " of ", kInstances, ", more than isolated ", binding, " of ",
          3 * kInstances, "; geometric mean best / bound ", std::exp(logs[0] / kInstances), " ",
          std::exp(logs[1] / kInstances), " ", std::exp(logs[2] / kInstances), "; by work ", bindings[0], " ",
          bindings[1], " ", bindings[2], " ", bindings[3]);
  MESSAGE("one KV-tight decode instance, ", tight, " exhaustive: geometric mean best / bound ",
          std::exp(packed / tight), ", with fluid packing alone ", std::exp(fluid / tight));
  CHECK(packed < fluid);
  CHECK(exhaustive > kInstances / 5);
  CHECK(binding > kInstances);
  CHECK(std::exp(logs[2] / kInstances) < 1.15);
}

TEST_CASE("no policy of the simulator is below the bound on random clusters") {
  constexpr std::array<std::string_view, 8> kPlacements{"earliest-finish", "least-loaded", "round-robin",
                                                        "global-queue",    "splitwise",    "distserve",
                                                        "mooncake",        "kv-price"};
  std::uint32_t checked = 0;
  std::uint32_t outside = 0;
  std::uint32_t binding = 0;
  for (std::uint32_t n = 0; n < 240; ++n) {
    CAPTURE(n);
    Random random(0xc1a5 + n);
    const TraceShape shape = boundedShape(random);
    OwnedTrace owned = randomTrace(random, shape);
    owned.predictions = true;
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
    for (std::uint16_t model = 0; model < shape.models; ++model) {
      for (const Role role : {Role::kPrefill, Role::kDecode}) {
        for (std::uint32_t i = 1 + random.below(3); i > 0; --i) {
          InstanceSpec spec =
              instanceSpec(static_cast<std::uint16_t>(random.below(3)), 1 + random.below(20),
                           random.below(2) == 0 ? 1'000'000 : largest + random.below(4 * largest), model);
          spec.role = role;
          spec.linkPerToken = random.below(2) == 0 ? 0 : fineFromMs(random.uniform() * 0.01);
          spec.linkLatency = random.below(2) == 0 ? 0 : random.below(2'000'000);
          if (role == Role::kPrefill && random.below(2) == 0)
            spec.chunkTokens = 1 + random.below(2 * largest);
          cluster.instances.push_back(spec);
          std::vector<CacheTier> tiers;
          if (!cached.empty() && role == Role::kPrefill) tiers.push_back({100'000, 0});
          if (!cached.empty()) cluster.prefixCaches.push_back(tiers);
        }
      }
    }
    RunOptions options = pairRun(owned, any(random, orderNames()), any(random, kPlacements));
    options.pairs.reserve = static_cast<Reserve>(random.below(2));
    options.pairs.admission = static_cast<DecodeAdmission>(random.below(2));
    options.pairs.links = static_cast<Links>(random.below(2));
    options.pairs.staging = static_cast<Staging>(random.below(2));
    if (options.pairs.staging == Staging::kUnlimited) options.pairs.reserve = Reserve::kEarly;
    options.pairs.backfill = random.below(2) == 0;
    options.pairs.overlap = any(random, std::array{0.0, 0.0, 0.5, 1.0});
    options.feedback = random.below(3) == 0 ? Feedback::kLease : Feedback::kBoundary;
    options.compat =
        any(random, std::array{Compat::kNone, Compat::kNone, Compat::kDistserve, Compat::kSplitwise});
    if (!cached.empty()) options.compat = Compat::kNone;
    options.tieSeed = random.below(3);

    const BoundResult bound = boundsOf(trace, cluster, options);
    binding += bound.bounds.back().isolated ? 0 : 1;
    for (std::uint32_t policy = 0; policy < 4; ++policy) {
      if (policy > 0) {
        const RunOptions other = pairRun(owned, any(random, orderNames()), any(random, kPlacements));
        options.order = other.order;
        options.pairPlacement = other.pairPlacement;
      }
      if (runIsNotBelow(trace, cluster, options, bound))
        checked += static_cast<std::uint32_t>(kManyTaus.size());
      else
        ++outside;
    }
  }
  MESSAGE("checked ", checked, ", outside the model ", outside, ", more than isolated ", binding);
  CHECK(checked > 3'000);
  CHECK(binding > 80);
}

TEST_CASE("the decode floor is below every iteration") {
  for (std::uint32_t n = 0; n < 60; ++n) {
    CAPTURE(n);
    Random random(0xf100 + n);
    LatencyModel model;
    const LatencyConstants c{1, 0.1, 0.5 + random.uniform() * 3, random.uniform(), random.uniform() * 1e-2};
    REQUIRE(LatencyModel::constants(c, &model) == Status::kOk);
    const std::uint32_t batch = 1 + random.below(40);
    const std::int64_t context = batch + random.below(5'000);
    const bounds::DecodeFloor floor = bounds::decodeFloor(model, batch, context);
    CHECK(floor.aloneIsFastest);
    for (std::uint32_t i = 0; i < 200; ++i) {
      const std::uint32_t b = 1 + random.below(batch);
      const std::int64_t k = b + random.below(static_cast<std::uint32_t>(context - b) + 1);
      const double time = static_cast<double>(model.piece(b, k).at(k)) / (1 << kFineBits);
      CHECK(floor.at(b, static_cast<double>(k)) <= time);
      // Constants are met, unless a further sequence costs more than the first.
      if (c.decodeBaseMs >= c.decodePerSequenceMs)
        CHECK(floor.at(b, static_cast<double>(k)) >= time * (1 - 1e-6) - 0.1);
    }
  }
}

TEST_CASE(
    "the decode floor is below every iteration of tables, and decodes alone are the fastest where it says "
    "so") {
  std::uint32_t alone = 0;
  for (std::uint32_t n = 0; n < 300; ++n) {
    CAPTURE(n);
    Random random(0x7ab1e + n);
    const LatencyModel model = tabulated(random);
    const std::uint32_t batch = 1 + random.below(30);
    const std::int64_t context = batch + random.below(4'000);
    const bounds::DecodeFloor floor = bounds::decodeFloor(model, batch, context);
    alone += floor.aloneIsFastest ? 1 : 0;
    for (std::uint32_t i = 0; i < 300; ++i) {
      const std::uint32_t b = 1 + random.below(batch);
      const std::int64_t k = b + random.below(static_cast<std::uint32_t>(context - b) + 1);
      const FineSum fine = model.piece(b, k).at(k);
      CHECK(floor.at(b, static_cast<double>(k)) <= static_cast<double>(fine) / (1 << kFineBits));
      if (!floor.aloneIsFastest) continue;
      const std::int64_t own =
          1 + random.below(static_cast<std::uint32_t>(k - b + 1));  // the others have 1 each
      CHECK(model.piece(1, own).at(own) <= fine);
    }
  }
  CHECK(alone > 30);
  CHECK(alone < 270);
}

TEST_CASE("certificate: exact, and no multipliers break it") {
  using bounds::PackingRow;
  // 3 z0 + 2 z1 + z2 <= 4: at most 2 + 1/3 with all open; y = 1/3 gives 4/3 + 0 + 1/3 + 2/3.
  std::vector<PackingRow> rows{{{3, 2, 1}, 4}};
  const std::vector<std::uint8_t> all{1, 1, 1};
  CHECK(bounds::leastUnreachable(rows, std::vector<double>{1.0 / 3}, all) == 3);
  CHECK(bounds::leastUnreachable(rows, std::vector<double>{0.0}, all) == 4);
  CHECK(bounds::leastUnreachable(rows, std::vector<double>{-5.0}, all) == 4);
  CHECK(bounds::leastUnreachable(rows, std::vector<double>{std::nan("")}, all) == 4);
  CHECK(bounds::leastUnreachable(rows, std::vector<double>{1e300}, all) == 4);
  CHECK(bounds::proves(rows, std::vector<double>{1.0 / 3}, all, 3));
  CHECK_FALSE(bounds::proves(rows, std::vector<double>{1.0 / 3}, all, 2));

  // Against all 0/1 choices: whatever the multipliers, what is called unreachable is.
  for (std::uint32_t n = 0; n < 3'000; ++n) {
    Random random(0xce27 + n);
    const std::uint32_t workflows = 1 + random.below(8);
    const std::uint32_t count = 1 + random.below(4);
    std::vector<std::uint8_t> open(workflows);
    for (auto& o : open) o = random.below(5) != 0 ? 1 : 0;
    std::vector<PackingRow> random_rows;
    std::vector<double> y;
    for (std::uint32_t i = 0; i < count; ++i) {
      PackingRow row;
      for (std::uint32_t w = 0; w < workflows; ++w) row.work.push_back(random.below(20));
      row.capacity = 1 + random.below(60);
      random_rows.push_back(row);
      y.push_back(random.uniform() * any(random, std::array{0.05, 0.3, 2.0}) - 0.01);
    }
    std::uint32_t most = 0;
    for (std::uint32_t set = 0; set < 1u << workflows; ++set) {
      bool fits = true;
      std::uint32_t size = 0;
      for (std::uint32_t w = 0; w < workflows; ++w) {
        size += set >> w & 1;
        fits &= (set >> w & 1) == 0 || open[w] != 0;
      }
      for (const PackingRow& row : random_rows) {
        std::int64_t sum = 0;
        for (std::uint32_t w = 0; w < workflows; ++w) sum += (set >> w & 1) != 0 ? row.work[w] : 0;
        fits &= sum <= row.capacity;
      }
      if (fits) most = std::max(most, size);
    }
    CHECK(bounds::leastUnreachable(random_rows, y, open) > most);

    // The linear program: its multipliers must prove its own value, which is no less than any 0/1 choice.
    bounds::PackingLp lp;
    lp.reset(open);
    std::vector<double> dense;
    for (const PackingRow& row : random_rows) {
      dense.assign(row.work.begin(), row.work.end());
      lp.addRow(dense, static_cast<double>(row.capacity));
      if (random.below(2) == 0) REQUIRE(lp.solve());
    }
    REQUIRE(lp.solve());
    CHECK(lp.value() >= most - 1e-6);
    for (const PackingRow& row : random_rows) {
      double sum = 0;
      for (std::uint32_t w = 0; w < workflows; ++w) sum += static_cast<double>(row.work[w]) * lp.z()[w];
      CHECK(sum <= static_cast<double>(row.capacity) + 1e-6);
    }
    const auto floor = static_cast<std::uint64_t>(std::floor(lp.value() + 1e-6));
    CHECK(bounds::leastUnreachable(random_rows, lp.multipliers(), open) <= floor + 1);
  }
}

TEST_CASE("separation finds the most overloaded interval") {
  std::uint32_t found = 0;
  for (std::uint32_t n = 0; n < 600; ++n) {
    CAPTURE(n);
    const Tiny tiny = tinyInstance(5'000 + n);
    Trace trace;
    REQUIRE(ok(trace.bind(tiny.trace.columns())));
    const ClusterSpec cluster = tiny.cluster();
    bounds::BoundInstance instance;
    REQUIRE(
        ok(bounds::boundInstance(trace, cluster, pairRun(tiny.trace, "fcfs", "earliest-finish"), &instance)));
    bounds::WorkTerms terms(instance);
    Random random(n);
    terms.at(1 + 0.3 * random.uniform());
    std::vector<double> z(instance.workflows.size());
    for (double& value : z) value = random.below(2) == 0 ? 1 : random.uniform();
    bounds::Separation separation;
    std::vector<bounds::Overload> overloads;
    for (std::size_t m = 0; m < terms.machines().size(); ++m) {
      const bounds::ItemGroup& g = terms.group(terms.machines()[m]);
      const auto speed = static_cast<double>(terms.machines()[m].speed);
      double worst = 0;
      double room = 0;
      for (const std::uint32_t a : g.byRelease) {
        for (const std::uint32_t b : g.byDeadline) {
          double sum = 0;
          for (const std::uint32_t i : g.byRelease) {
            if (g.release[i] >= g.release[a] && g.deadline[i] <= g.deadline[b])
              sum += z[g.workflow[i]] * static_cast<double>(terms.items(m)[i]);
          }
          const double excess = sum - speed * static_cast<double>(g.deadline[b] - g.release[a]);
          if (sum > 0 && excess > worst) {
            worst = excess;
            room = speed * static_cast<double>(g.deadline[b] - g.release[a]);
          }
        }
      }
      separation.find(terms, m, z, 1, &overloads);
      if (worst <= 1e-5 * room || worst < 1) continue;
      REQUIRE(overloads.size() == 1);
      CHECK(overloads[0].excess == doctest::Approx(worst).epsilon(1e-6));
      ++found;
    }
  }
  CHECK(found > 100);
}

TEST_CASE("what the bound says where the answer is known") {
  // n equal workflows of one call at one instant on one prefill instance, output 1: the k-th of them ends
  // after k prefills, whatever the order, so Req_tau = ceil(tau n).
  OwnedTrace owned;
  for (std::uint32_t i = 0; i < 20; ++i) {
    owned.workflow(0);
    owned.call({100, 1});
  }
  Trace trace;
  REQUIRE(ok(trace.bind(owned.columns())));
  ClusterSpec cluster;
  LatencyModel model;
  REQUIRE(LatencyModel::constants({0, 1, 1, 0, 0}, &model) == Status::kOk);
  cluster.latencies.push_back(model);
  for (const Role role : {Role::kPrefill, Role::kDecode}) {
    InstanceSpec spec = instanceSpec(0, 8, 1'000);
    spec.role = role;
    cluster.instances.push_back(spec);
  }
  RunOptions options = pairRun(owned, "fcfs", "earliest-finish");
  BoundResult result;
  REQUIRE(ok(reqLowerBounds(trace, cluster, options, std::array{0.5, 0.95, 1.0}, &result)));
  for (std::size_t i = 0; i < 3; ++i) {
    const double exact = std::array{10.0, 19.0, 20.0}[i];
    CHECK(result.bounds[i].ratio <= exact);
    CHECK(result.bounds[i].ratio >= exact / 1.0041);
    CHECK(result.bounds[i].share[0] == doctest::Approx(1));
  }

  // What no instance can hold is never on time.
  owned.workflow(0);
  owned.call({5'000, 1});
  options.arrivals.recordedMs = owned.arrivalMs;
  REQUIRE(ok(trace.bind(owned.columns())));
  REQUIRE(ok(reqLowerBounds(trace, cluster, options, std::array{0.95, 1.0}, &result)));
  CHECK(result.bounds[0].ratio < 21);
  CHECK(result.bounds[1].ratio == HUGE_VAL);

  CHECK(reqLowerBounds(trace, cluster, options, std::array{1.5}, &result) == Status::kBadValue);
  cluster.instances.push_back(instanceSpec(0, 8, 1'000));  // unified, beside the others
  CHECK(reqLowerBounds(trace, cluster, options, std::array{0.95}, &result) == Status::kUnsupported);
}

TEST_SUITE_END();
