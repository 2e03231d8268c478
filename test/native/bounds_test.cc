// The certified lower bound (bounds/bound.h): tiny instances against every schedule that an independent event
// simulator can make, broken work terms, the simulator's policies on random clusters, and the parts alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/statistics.h"
#include "bounds/bound.h"
#include "bounds/certificate.h"
#include "bounds/decode_floor.h"
#include "bounds/packing_lp.h"
#include "bounds/separation.h"
#include "queueing.h"
#include "simulator/simulation.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

template <class Values>
auto any(Random& random, const Values& values) {
  return values[random.below(static_cast<std::uint32_t>(std::size(values)))];
}

// --- tiny instances

/// Whole ns, so that nothing is rounded.
struct Costs {
  Nanos prefillBase, prefillPerToken, base, perSequence, perContext;
};

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
    for (const Costs& c : costs) {
      LatencyModel model;
      REQUIRE(LatencyModel::constants({toMs(c.prefillBase), toMs(c.prefillPerToken), toMs(c.base),
                                       toMs(c.perSequence), toMs(c.perContext)},
                                      &model) == Status::kOk);
      spec.latencies.push_back(model);
    }
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
    t.costs.push_back({kTenth * random.below(10), kTenth * (1 + random.below(10)), kTenth * (1 + random.below(30)),
                       kTenth * random.below(8), random.below(2) == 0 ? 0 : kTenth * random.below(3)});
  }
  const std::uint32_t workflows = 2 + random.below(3);
  const std::uint32_t most = 6;
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

/// Every schedule of a tiny instance, one after the other: a run makes its choices from a list of digits, and
/// the next run counts that list up. Prefills one at a time; d is chosen with p; transfers do not share links;
/// calls join at ends of iterations, any that fit, in any subset; whatever could start may be held until the
/// next event. KV waits beside d, takes no room on p, so that nothing but the machine limits a schedule.
class Enumerator {
 public:
  explicit Enumerator(const Tiny& tiny) : tiny_(tiny), c_(tiny.trace.columns()) {}

  /// Latencies by workflow of the schedule that the digits lead to.
  const std::vector<Nanos>& run(Random* random) {
    random_ = random;
    place_ = 0;
    play();
    digits_.resize(random_ != nullptr ? 0 : place_);
    return latency_;
  }
  /// False where the last run was the last schedule.
  bool next() {
    while (!digits_.empty()) {
      Digit& d = digits_.back();
      if (++d.value < d.options) return true;
      digits_.pop_back();
    }
    return false;
  }

 private:
  struct Digit {
    std::uint32_t value, options;
  };
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

  std::uint32_t choose(std::uint32_t options) {
    if (options == 1) return 0;
    if (random_ != nullptr) {  // the last option holds: seldom
      return random_->below(8) == 0 ? options - 1 : random_->below(options);
    }
    if (place_ == digits_.size()) digits_.push_back({0, options});
    return digits_[place_++].value;
  }

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
      if ((c.where == Where::kMoves || c.where == Where::kWaits) && c.ready > t) next = std::min(next, c.ready);
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
      const std::uint32_t chosen = choose(static_cast<std::uint32_t>(options_.size()) + 1);
      if (chosen < options_.size()) startPrefill(m, options_[chosen].first, options_[chosen].second, t);
    }
    for (std::uint32_t m = 0; m < engines_.size(); ++m) {
      if (tiny_.instances[m].role != Role::kDecode || engines_[m].end != kNever) continue;
      for (std::uint32_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].where != Where::kArrived || calls_[i].d != m || !fits(i, m)) continue;
        if (choose(2) == 0) {
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
        if (tiny_.instances[m].role == Role::kDecode && calls_[i].where == Where::kArrived && calls_[i].d == m &&
            fits(i, m)) {
          calls_[i].where = Where::kDecodes;
          engines_[m].batch.push_back(i);
          startIteration(m, t);
          return;
        }
        if (tiny_.instances[m].role != Role::kPrefill || calls_[i].where != Where::kWaits || calls_[i].ready > t)
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
  Random* random_ = nullptr;
  std::vector<Digit> digits_;
  std::size_t place_ = 0;
  std::vector<CallState> calls_;
  std::vector<Engine> engines_;
  std::vector<std::uint32_t> workflowOf_;
  std::vector<Nanos> latency_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> options_;
};

constexpr std::array<double, 3> kTaus{0.5, 0.7, 1.0};

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

double required(std::vector<double> ratios, double tau) { return upperQuantile(ratios, tau); }

struct Best {
  std::array<double, 3> ratio{HUGE_VAL, HUGE_VAL, HUGE_VAL};
  bool exhaustive = false;
};

/// The best Req of any schedule that was found, by tau.
Best bestOf(const Tiny& tiny, const std::vector<double>& base, std::uint32_t n, std::uint32_t leaves,
            std::uint32_t samples) {
  Best best;
  Enumerator schedules(tiny);
  std::vector<double> ratios(base.size());
  const auto note = [&](const std::vector<Nanos>& latency) {
    for (std::size_t w = 0; w < base.size(); ++w) ratios[w] = static_cast<double>(latency[w]) / base[w];
    for (std::size_t k = 0; k < kTaus.size(); ++k)
      best.ratio[k] = std::min(best.ratio[k], required(ratios, kTaus[k]));
  };
  for (std::uint32_t i = 0; i < leaves && !best.exhaustive; ++i) {
    note(schedules.run(nullptr));
    best.exhaustive = !schedules.next();
  }
  Random random(0x5eed + n);
  Enumerator sampled(tiny);
  for (std::uint32_t i = 0; i < samples && !best.exhaustive; ++i) note(sampled.run(&random));
  return best;
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

bool below(double achieved, double bound) { return achieved < bound * (1 - 1e-12); }

}  // namespace

TEST_SUITE_BEGIN("bounds");

TEST_CASE("no schedule of a tiny instance is below the bound; broken work terms are caught") {
  constexpr std::uint32_t kInstances = 2'000;
  struct Fault {
    const char* name;
    bounds::WorkFaults faults;
    std::uint32_t caught = 0;
  };
  std::vector<Fault> faults(6);
  for (std::size_t i = 0; i < bounds::kWorks; ++i) faults[i].faults.work[i] = 1.4;
  faults[0].name = "prefill";
  faults[1].name = "KV";
  faults[2].name = "sequences";
  faults[3].name = "latency";
  faults[4].name = "path";
  faults[4].faults.path = 1.4;
  faults[5].name = "window";
  faults[5].faults.window = 0.6;

  std::uint32_t exhaustive = 0;
  std::uint32_t binding = 0;
  std::array<double, 3> logs{};
  std::array<std::uint32_t, bounds::kWorks> bindings{};
  for (std::uint32_t n = 0; n < kInstances; ++n) {
    CAPTURE(n);
    const Tiny tiny = tinyInstance(n);
    Trace trace;
    REQUIRE(ok(trace.bind(tiny.trace.columns())));
    const ClusterSpec cluster = tiny.cluster();
    Best policies;
    const std::vector<double> base = basesOf(tiny, trace, cluster, &policies);
    Best best = bestOf(tiny, base, n, 400, 150);
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
  CHECK(exhaustive > kInstances / 5);
  CHECK(binding > kInstances);
  CHECK(std::exp(logs[2] / kInstances) < 1.15);
}

TEST_SUITE_END();
