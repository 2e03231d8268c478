// The clock of HexGen-Flow's simulator (compat `hexgen-ticks`) against its rules, run tick by tick.
#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "model/polynomial.h"
#include "queueing.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr Nanos kTick = 100'000;

struct Expected {
  std::vector<Nanos> ready, leased, firstToken, finished;  ///< [calls]
  std::vector<std::uint32_t> instance;                     ///< [calls]
  std::vector<Nanos> latency;                              ///< [workflows]
};

/// Round robin, FCFS, one prefill or one iteration a step; an idle instance ticks. Nothing is skipped.
struct Ticking {
  const OwnedTrace& trace;
  const std::vector<WholeCosts>& costs;  ///< by instance
  const std::vector<std::int64_t>& blocks;

  struct Decoding {
    std::uint32_t row;
    std::uint32_t left;
  };
  struct Machine {
    Nanos t = 0;
    std::deque<std::uint32_t> waiting;
    std::vector<Decoding> running;
    std::int64_t used = 0;
  };
  struct Pending {
    std::uint32_t row;
    Nanos release;
  };
  std::vector<Machine> machines = std::vector<Machine>(costs.size());
  std::vector<Pending> pending{};
  std::vector<std::uint32_t> workflowOf{};
  std::vector<std::uint32_t> parentsLeft{};
  Expected result{};

  std::int64_t need(std::uint32_t row) const { return (std::int64_t{trace.prompt[row]} + 15) / 16; }
  bool busy() const {
    if (!pending.empty()) return true;
    for (const Machine& m : machines) {
      if (!m.waiting.empty() || !m.running.empty()) return true;
    }
    return false;
  }

  Expected run() {
    for (auto* column : {&result.ready, &result.leased, &result.firstToken, &result.finished})
      column->resize(trace.calls());
    result.instance.resize(trace.calls());
    result.latency.resize(trace.workflows());
    for (std::uint32_t w = 0; w < trace.workflows(); ++w) {
      for (std::uint32_t row = trace.firstCall[w]; row < trace.firstCall[w + 1]; ++row) {
        workflowOf.push_back(w);
        parentsLeft.push_back(trace.parentOffset[row + 1] - trace.parentOffset[row]);
        if (parentsLeft[row] == 0) pending.push_back({row, fromMs(trace.arrivalMs[w])});
      }
    }
    std::size_t dispatched = 0;
    while (busy()) {
      Nanos g = kNever;
      for (const Machine& m : machines) g = std::min(g, m.t);
      std::vector<Pending> later;
      for (const Pending& p : pending) {
        if (p.release > g) {
          later.push_back(p);
          continue;
        }
        result.ready[p.row] = p.release;
        result.instance[p.row] = static_cast<std::uint32_t>(dispatched++ % machines.size());
        machines[result.instance[p.row]].waiting.push_back(p.row);
      }
      pending = later;
      for (std::size_t m = 0; m < machines.size(); ++m) {
        if (machines[m].t <= g) step(m);
      }
    }
    return result;
  }

  void step(std::size_t index) {
    Machine& m = machines[index];
    const WholeCosts& c = costs[index];
    if (!m.waiting.empty()) {
      const std::uint32_t row = m.waiting.front();
      if (20 * (m.used + need(row)) <= 19 * blocks[index]) {
        m.waiting.pop_front();
        result.leased[row] = m.t;
        m.t += std::max<Nanos>(1, c.prefillBase + c.prefillPerToken * trace.prompt[row]);
        result.firstToken[row] = m.t;
        m.used += need(row);
        m.running.push_back({row, trace.output[row]});
        return;
      }
    }
    if (m.running.empty()) {
      m.t += kTick;
      return;
    }
    m.t += c.decodeBase + c.decodePerSequence * static_cast<Nanos>(m.running.size() - 1);
    std::vector<Decoding> on;
    for (Decoding d : m.running) {
      if (--d.left > 0)
        on.push_back(d);
      else
        ended(m, d.row);
    }
    m.running = on;
  }

  void ended(Machine& m, std::uint32_t row) {
    m.used -= need(row);
    result.finished[row] = m.t;
    const std::uint32_t w = workflowOf[row];
    result.latency[w] = std::max(result.latency[w], m.t - fromMs(trace.arrivalMs[w]));
    for (std::uint32_t child = row + 1; child < trace.firstCall[w + 1]; ++child) {
      for (std::uint32_t e = trace.parentOffset[child]; e < trace.parentOffset[child + 1]; ++e) {
        if (trace.firstCall[w] + trace.parents[e] == row && --parentsLeft[child] == 0)
          pending.push_back({child, m.t});
      }
    }
  }
};

RunOptions ticksOptions(const char* placement = "round-robin") {
  RunOptions options = baseOptions("fcfs", placement, Binding::kAtReveal);
  options.feedback = Feedback::kBoundary;
  options.compat = Compat::kHexgenTicks;
  return options;
}

bool same(const std::vector<double>& actual, const std::vector<Nanos>& expected) {
  if (actual.size() != expected.size()) return false;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] != toMs(expected[i])) return false;
  }
  return true;
}

/// A call of one token of output on an instance that prefills a token in 1 ms and decodes in 2 ms.
Run one(Nanos arrival, std::int64_t kvTokens, std::uint32_t prompt, const RunOptions& options) {
  OwnedTrace trace;
  trace.workflow(arrival);
  trace.call({.prompt = prompt, .output = 1});
  const std::vector<WholeCosts> costs{
      {.prefillBase = 0, .prefillPerToken = kMillisecond, .decodeBase = 2 * kMillisecond}};
  const std::vector<InstanceSpec> instances{instanceSpec(0, 65'535, kvTokens)};
  return run(trace, clusterOf(costs, instances), options);
}

}  // namespace

TEST_SUITE("hexgen clock") {
  TEST_CASE("jumping over idle ticks is ticking, call by call, in 200 random runs") {
    std::size_t waited = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      Random random(seed);
      TraceShape shape;
      shape.workflows = 8;
      shape.maxPrompt = 600;
      shape.maxOutput = 40;
      shape.meanGap = seed % 2 == 0 ? kSecond / 4 : kSecond;
      shape.toolShare = 0;  // the original knows no tools
      shape.chains = seed % 3 == 0;
      const OwnedTrace trace = randomTrace(random, shape);
      std::vector<WholeCosts> costs;
      std::vector<InstanceSpec> instances;
      std::vector<std::int64_t> blocks;
      const std::uint32_t count = between(random, 1, 4);
      for (std::uint32_t m = 0; m < count; ++m) {
        costs.push_back(randomCosts(random));
        costs.back().decodePerContext = 0;
        // The largest prompt takes 38 blocks, of 95 %: so many fit on every instance, and often no more.
        blocks.push_back(between(random, 40, 120));
        instances.push_back(instanceSpec(static_cast<std::uint16_t>(m), 65'535, 16 * blocks.back()));
      }
      const Run actual = run(trace, clusterOf(costs, instances), ticksOptions());
      REQUIRE(ok(actual.status));
      const Expected expected = Ticking{trace, costs, blocks}.run();
      CAPTURE(seed);
      REQUIRE(same(actual.readyMs, expected.ready));
      REQUIRE(same(actual.leasedMs, expected.leased));
      REQUIRE(same(actual.firstTokenMs, expected.firstToken));
      REQUIRE(same(actual.finishedMs, expected.finished));
      REQUIRE(same(actual.latencyMs, expected.latency));
      for (std::uint32_t row = 0; row < trace.calls(); ++row) {
        REQUIRE(actual.instance[row] == expected.instance[row]);
        if (expected.leased[row] > expected.ready[row] + kTick) ++waited;
      }
      CHECK(actual.result.calls == trace.calls());
      CHECK(actual.result.completed == trace.workflows());
    }
    CHECK(waited > 1000);
  }

  TEST_CASE("an idle instance starts at its first tick at or after the arrival") {
    for (const auto& [arrival, start] : {std::pair<Nanos, Nanos>{0, 0},
                                         {1, kTick},
                                         {kTick, kTick},
                                         {kTick + 1, 2 * kTick},
                                         {1'000 * kTick - 1, 1'000 * kTick}}) {
      const Run r = one(arrival, 1'600, 5, ticksOptions());
      REQUIRE(ok(r.status));
      CHECK(r.leasedMs[0] == toMs(start));
      // The prefill gives no token: an output of one takes an iteration.
      CHECK(r.firstTokenMs[0] == toMs(start + 5 * kMillisecond));
      CHECK(r.finishedMs[0] == toMs(start + 7 * kMillisecond));
      CHECK(r.latencyMs[0] == toMs(start + 7 * kMillisecond - arrival));
    }
  }

  TEST_CASE("a prompt is computed whole, where its square counts too") {
    OwnedTrace trace;
    trace.workflow(0);
    trace.call({.prompt = 100, .output = 1});
    const std::vector<WholeCosts> costs{{}};
    const std::vector<InstanceSpec> instances{instanceSpec(0, 65'535, 1'600)};
    ClusterSpec cluster = clusterOf(costs, instances);
    REQUIRE(ok(LatencyModel::polynomial({{{1, 1, 0.5, 0.01}}, {{1, 2, 0, 0}}}, &cluster.latencies[0])));
    const Run actual = run(trace, cluster, ticksOptions());
    REQUIRE(ok(actual.status));
    CHECK(actual.firstTokenMs[0] - actual.leasedMs[0] == 1 + 50 + 100);
  }

  TEST_CASE("a prompt fits into 95 % of the KV in blocks of 16 tokens, or never") {
    // 20 blocks, of which 19 may be used.
    CHECK(ok(one(0, 320, 304, ticksOptions()).status));
    CHECK(one(0, 320, 305, ticksOptions()).status == Status::kNeverFits);
    CHECK(one(0, 319, 304, ticksOptions()).status == Status::kNeverFits);
  }

  TEST_CASE("what the original has not is refused") {
    const auto refused = [](auto&& change) {
      RunOptions options = ticksOptions();
      InstanceSpec instance = instanceSpec(0, 65'535, 1'600);
      change(options, instance);
      OwnedTrace trace;
      trace.workflow(0);
      trace.call({.prompt = 5});
      const std::vector<WholeCosts> costs{{}};
      const std::vector<InstanceSpec> instances{instance};
      return run(trace, clusterOf(costs, instances), options).status;
    };
    CHECK(refused([](RunOptions&, InstanceSpec&) {}) == Status::kOk);
    CHECK(refused([](RunOptions&, InstanceSpec& i) { i.chunkTokens = 64; }) == Status::kUnsupported);
    CHECK(refused([](RunOptions&, InstanceSpec& i) { i.mode = EngineMode::kDecodeShare; }) ==
          Status::kUnsupported);
    CHECK(refused([](RunOptions& o, InstanceSpec&) {
            o.script.push_back({0, 0, ScriptStep::Kind::kSpeed, 0.5});
          }) == Status::kUnsupported);
    CHECK(refused([](RunOptions&, InstanceSpec& i) { i.kvTokens = 0; }) == Status::kBadValue);
  }
}
