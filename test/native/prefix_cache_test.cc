// Prefix caches: the line against a naive list, and what they do to a run.
#include "simulator/prefix_cache.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "base/random.h"
#include "naive_line.h"
#include "simulator/simulation.h"

using namespace laxity;

namespace {

LatencyModel perToken(double prefillMs, double decodeMs = 1) {
  LatencyModel model;
  REQUIRE(LatencyModel::constants({0, prefillMs, decodeMs, 0, 0}, &model) == Status::kOk);
  return model;
}

template <class Values>
auto any(Random& random, const Values& values) {
  return values[random.below(static_cast<std::uint32_t>(std::size(values)))];
}

/// Chains, one workflow after the other.
struct Chains {
  std::vector<std::uint32_t> firstCall{0}, prompt, cached, output, parentOffset{0}, parents;
  std::vector<std::uint16_t> stage;
  std::vector<double> arrivalMs;
  bool tellsShared = true;  ///< the trace has the column

  void workflow(double arrival) {
    arrivalMs.push_back(arrival);
    firstCall.push_back(static_cast<std::uint32_t>(prompt.size()));
  }
  void call(std::uint32_t promptTokens, std::uint32_t sharedTokens, std::uint32_t outputTokens) {
    const std::uint32_t position =
        static_cast<std::uint32_t>(prompt.size()) - firstCall[firstCall.size() - 2];
    if (position > 0) parents.push_back(position - 1);
    prompt.push_back(promptTokens);
    cached.push_back(sharedTokens);
    output.push_back(outputTokens);
    stage.push_back(0);
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
    c.stage = stage.data();
    c.promptTokens = prompt.data();
    c.cachedTokens = tellsShared ? cached.data() : nullptr;
    c.outputTokens = output.data();
    c.parentOffset = parentOffset.data();
    c.parents = parents.data();
    return c;
  }
};

struct Run {
  Chains chains;
  ClusterSpec cluster;
  RunOptions options;
  RunResult result;
  std::vector<double> leased, firstToken, finished;
  std::vector<std::uint16_t> instance;

  explicit Run(std::uint32_t instances = 1, std::vector<CacheTier> tiers = {}) {
    cluster.latencies.push_back(perToken(1));
    for (std::uint32_t m = 0; m < instances; ++m) {
      InstanceSpec spec;
      spec.maxSequences = 8;
      spec.kvTokens = 100'000;
      cluster.instances.push_back(spec);
      if (!tiers.empty()) cluster.prefixCaches.push_back(tiers);
    }
    REQUIRE(makeOrder("fcfs", &options.order));
    REQUIRE(makePlacement("round-robin", &options.placement));
    options.knowledge = Knowledge::kOnline;
    options.sloBase = SloBase::kExclusive;
    options.laws = true;
  }
  Status go(EventLog* log = nullptr) {
    Trace trace;
    REQUIRE(trace.bind(chains.columns()) == Status::kOk);
    options.arrivals.process = ArrivalProcess::kTrace;
    options.arrivals.recordedMs = chains.arrivalMs;
    leased.resize(trace.columns().calls);
    firstToken.resize(trace.columns().calls);
    finished.resize(trace.columns().calls);
    instance.resize(trace.columns().calls);
    RunOutputs out;
    out.leasedMs = leased.data();
    out.firstTokenMs = firstToken.data();
    out.finishedMs = finished.data();
    out.instance = instance.data();
    out.log = log;
    return simulate(trace, cluster, options, out, &result);
  }
  double prefillMs(std::size_t call) const { return firstToken[call] - leased[call]; }
};

std::vector<CachedPrefix> hintsOf(const EventLog& log, std::size_t reveal) {
  for (const EventRecord& r : log.records()) {
    if (r.header.kind == EventKind::kReveal && reveal-- == 0) return {r.reveal.cached[0], r.reveal.cached[1]};
  }
  return {};
}

}  // namespace

TEST_SUITE("prefix cache") {
  TEST_CASE("whole blocks, and at least one block is computed anew") {
    CHECK(reusableTokens(0, 100) == 0);
    CHECK(reusableTokens(15, 100) == 0);
    CHECK(reusableTokens(31, 100) == 16);
    CHECK(reusableTokens(95, 96) == 80);
    CHECK(reusableTokens(96, 112) == 96);
    CHECK(reusableTokens(9, 10) == 0);
    CHECK(reusableTokens(15, 16) == 0);
    CHECK(reusableTokens(31, 32) == 16);
  }

  TEST_CASE("200,000 random operations on random tiers, against a list") {
    std::uint64_t found = 0;
    std::uint64_t loaded = 0;
    std::uint64_t leftOut = 0;
    for (std::uint32_t seed = 0; seed < 400; ++seed) {
      Random random(seed, 77);
      const std::uint32_t workflows = 1 + random.below(12);
      const std::uint32_t instances = 1 + random.below(4);
      std::vector<std::vector<CacheTier>> tiers(instances);
      std::vector<NaiveLine> naive(instances);
      const LatencyModel latency = perToken(any(random, std::array{0.0, 0.01, 1.0}));
      for (std::uint32_t m = 0; m < instances; ++m) {
        const std::uint32_t count = random.below(5);
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::int64_t tokens = any(random, std::array{0, 15, 16, 50, 170, 400, 3000});
          tiers[m].push_back(
              {tokens, i == 0 ? 0 : fineFromMs(any(random, std::array{0.0, 0.0003, 0.02, 2.0}))});
        }
        naive[m].tiers = tiers[m];
      }
      PrefixCache cache;
      cache.reset(workflows, tiers);
      for (int step = 0; step < 500; ++step) {
        const std::uint32_t m = random.below(instances);
        const std::uint32_t w = random.below(workflows);
        if (random.below(2) == 0) {
          const std::uint32_t tokens = random.below(any(random, std::array{20, 200, 1000}));
          cache.touch(m, w, tokens);
          naive[m].touch(w, tokens);
          if (!cache.consistent()) FAIL("inconsistent, seed " << seed << " step " << step);
        }
        const std::uint32_t prompt = 17 + random.below(900);
        const std::uint32_t tokens = random.below(prompt);
        const FoundPrefix there = cache.find(m, w, tokens, prompt, latency);
        const FoundPrefix expected = naive[m].find(w, tokens, prompt, latency);
        if (there.tokens != expected.tokens || there.load != expected.load) {
          FAIL("seed " << seed << " step " << step << ": found " << there.tokens << " in " << there.load
                       << ", naive " << expected.tokens << " in " << expected.load);
        }
        found += there.tokens > 0 ? 1 : 0;
        loaded += there.load > 0 ? 1 : 0;
        std::int64_t held = 0;
        for (const auto& [owner, blocks] : naive[m].line) held += owner == w ? blocks * 16 : 0;
        leftOut += there.tokens < std::min<std::int64_t>(held, tokens / 16 * 16) ? 1 : 0;
        std::map<std::uint32_t, std::uint32_t> holders;
        cache.eachHolder(
            w, tokens, prompt, [&](std::uint32_t) -> const LatencyModel& { return latency; },
            [&](std::uint32_t i, const FoundPrefix& f) {
              CHECK(holders.count(i) == 0);
              holders[i] = f.tokens;
            });
        for (std::uint32_t i = 0; i < instances; ++i) {
          const std::uint32_t tokensThere = naive[i].find(w, tokens, prompt, latency).tokens;
          if ((holders.count(i) > 0 ? holders[i] : 0) != tokensThere) FAIL("holders, seed " << seed);
        }
      }
    }
    MESSAGE("found " << found << ", of these to be loaded " << loaded << ", slower tiers left out "
                     << leftOut);
    CHECK(found > 30'000);
    CHECK(loaded > 5'000);
    CHECK(leftOut > 5'000);
  }

  TEST_CASE("a later call computes only what its instance does not hold") {
    Run run(1, {{10'000, 0}});
    run.chains.workflow(0);
    run.chains.call(100, 0, 10);   // holds 110 tokens afterwards: 6 whole blocks
    run.chains.call(200, 110, 5);  // 96 of its 200 tokens are there
    run.chains.call(220, 205, 1);  // 192 of 205 shared: at least a block of 220 remains, 12 blocks are held
    run.chains.call(300, 0, 1);    // shares nothing
    EventLog log;
    REQUIRE(run.go(&log) == Status::kOk);
    CHECK(run.prefillMs(0) == 100);
    CHECK(run.prefillMs(1) == 104);
    CHECK(run.prefillMs(2) == 28);
    CHECK(run.prefillMs(3) == 300);
    const CacheResult& c = run.result.cache;
    CHECK(c.hits == 2);
    CHECK(c.misses == 0);
    CHECK(c.stale == 0);
    CHECK(c.cachedTokens == 288);
    CHECK(c.sharedTokens == 288);
    CHECK(c.promptTokens == 820);
    CHECK(c.loadedTokens == 0);
    CHECK(hintsOf(log, 0)[0].instance == kNoSlot);
    CHECK(hintsOf(log, 1)[0].instance == 0);
    CHECK(hintsOf(log, 1)[0].tokens == 96);
    CHECK(hintsOf(log, 1)[1].instance == kNoSlot);
  }

  TEST_CASE("a trace that says nothing of shared prefixes asks no cache") {
    Run run(1, {{10'000, 0}});
    run.chains.tellsShared = false;
    run.chains.workflow(0);
    run.chains.call(100, 0, 10);
    run.chains.call(200, 0, 5);
    REQUIRE(run.go() == Status::kOk);
    CHECK(run.result.cache.promptTokens == 300);
    CHECK(run.result.cache.sharedTokens == 0);
    CHECK(run.result.cache.hits == 0);
    CHECK(run.result.cache.misses == 0);
  }

  TEST_CASE("another instance does not hold it, and round robin does not care") {
    Run run(2, {{10'000, 0}});
    run.chains.workflow(0);
    run.chains.call(100, 0, 10);
    run.chains.call(200, 110, 5);  // on the other one
    run.chains.call(300, 200, 5);  // on the first again: 96 tokens there, 205 on the other
    EventLog log;
    REQUIRE(run.go(&log) == Status::kOk);
    CHECK(run.prefillMs(1) == 200);
    CHECK(run.prefillMs(2) == 204);
    CHECK(run.result.cache.misses == 1);
    CHECK(run.result.cache.hits == 1);
    CHECK(hintsOf(log, 2)[0].instance == 1);
    CHECK(hintsOf(log, 2)[0].tokens == 192);
    CHECK(hintsOf(log, 2)[1].instance == 0);
    CHECK(hintsOf(log, 2)[1].tokens == 96);
    // Whoever heeds the hint goes where the prefix is.
    REQUIRE(makePlacement("eftxp", &run.options.placement));
    REQUIRE(run.go() == Status::kOk);
    CHECK(run.instance[1] == run.instance[0]);
    CHECK(run.instance[2] == run.instance[0]);
    CHECK(run.result.cache.misses == 0);
  }

  TEST_CASE("what falls out of GPU memory is loaded from the next tier, where that saves time") {
    // 64 tokens at once; then a tier of 0.25 ms a token against 1 ms of prefill.
    Run run(1, {{64, 0}, {10'000, fineFromMs(0.25)}});
    run.chains.workflow(0);
    run.chains.call(160, 0, 1);
    run.chains.call(200, 160, 1);  // 64 tokens here, 96 to be loaded in 24 ms, 40 to compute
    EventLog log;
    REQUIRE(run.go(&log) == Status::kOk);
    CHECK(run.prefillMs(1) == 64);
    CHECK(run.result.cache.loadedTokens == 160);
    CHECK(hintsOf(log, 1)[0].loadUs == 24'000);

    run.cluster.prefixCaches[0][1].perToken = fineFromMs(1);  // no faster than computing: left out
    REQUIRE(run.go(&log) == Status::kOk);
    CHECK(run.prefillMs(1) == 136);
    CHECK(run.result.cache.loadedTokens == 0);
    CHECK(run.result.cache.cachedTokens == 64);
  }

  TEST_CASE("the least recently used prefix gives way, its end first") {
    Run run(1, {{160, 0}});
    run.chains.workflow(0);
    run.chains.call(96, 0, 1);
    run.chains.workflow(0);
    run.chains.call(112, 0, 1);  // now 48 of the first one's 96 tokens are left
    run.chains.workflow(300);
    run.chains.call(16, 0, 1);  // 32
    // The first two come back as calls of their own workflows.
    run.chains.firstCall = {0, 2, 3, 4};
    run.chains.prompt = {96, 200, 112, 16};
    run.chains.cached = {0, 97, 0, 0};
    run.chains.output = {1, 1, 1, 1};
    run.chains.stage = {0, 0, 0, 0};
    run.chains.parentOffset = {0, 0, 1, 1, 1};
    run.chains.parents = {0};
    EventLog log;
    REQUIRE(run.go(&log) == Status::kOk);
    // The second call of workflow 0 is revealed at 96 ms, when its 96 tokens are there, and leased at 208 ms.
    CHECK(hintsOf(log, 3 - 1)[0].tokens == 96);
    CHECK(run.leased[1] == 208);
    CHECK(run.prefillMs(1) == 200 - 48);
    CHECK(run.result.cache.stale == 1);
  }

  TEST_CASE("a call that is evicted keeps nothing but finds its shared prefix again") {
    for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
      Run run(1, {{10'000, 0}});
      run.options.feedback = feedback;
      run.options.lookahead = feedback == Feedback::kLease ? 1 : 0;
      run.cluster.instances[0].kvTokens = 330;
      run.options.error.length = LengthError::kBias;  // outputs of 60 are thought to be 6
      run.options.error.size = -0.9;
      run.chains.workflow(0);
      run.chains.call(64, 0, 1);
      run.chains.call(100, 64, 60);
      run.chains.workflow(1);
      run.chains.call(64, 0, 1);
      run.chains.call(100, 64, 60);
      run.chains.workflow(2);
      run.chains.call(60, 0, 60);
      CAPTURE(static_cast<int>(feedback));
      REQUIRE(run.go() == Status::kOk);
      CHECK(run.result.completed == 3);
      CHECK(run.result.calls == 5);
      if (feedback == Feedback::kBoundary) {
        CHECK(run.result.evictions > 0);
        CHECK(run.result.cache.hits >= 2);
      }
    }
  }

  TEST_CASE("caches without shared prefixes, or too small for a block, change nothing") {
    for (const char* placement : {"round-robin", "eftxp", "workload-balanced"}) {
      std::vector<std::vector<EventRecord>> logs;
      for (int how = 0; how < 3; ++how) {
        Run run(3);
        if (how == 1) run.cluster.prefixCaches.assign(3, {{100'000, 0}});
        if (how == 2) run.cluster.prefixCaches.assign(3, {{15, 0}});
        REQUIRE(makePlacement(placement, &run.options.placement));
        Random random(5);
        for (int w = 0; w < 30; ++w) {
          run.chains.workflow(w * 20);
          for (int i = 0; i < 4; ++i)
            run.chains.call(20 + random.below(200), how == 1 ? 0 : 19, 1 + random.below(30));
        }
        EventLog log;
        REQUIRE(run.go(&log) == Status::kOk);
        logs.push_back({log.records().begin(), log.records().end()});
      }
      for (std::size_t how = 1; how < logs.size(); ++how) {
        REQUIRE(logs[how].size() == logs[0].size());
        CHECK(std::memcmp(logs[how].data(), logs[0].data(), logs[0].size() * sizeof(EventRecord)) == 0);
      }
    }
  }

  TEST_CASE("what cannot be is refused") {
    Run run(2, {{64, 0}});
    run.chains.workflow(0);
    run.chains.call(10, 0, 1);
    run.cluster.prefixCaches.pop_back();
    CHECK(run.go() == Status::kBadValue);
    Run compat(1, {{64, 0}});
    compat.chains.workflow(0);
    compat.chains.call(10, 0, 1);
    compat.options.compat = Compat::kHexgen;
    CHECK(compat.go() == Status::kUnsupported);
  }
}
