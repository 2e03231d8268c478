// The times alone that runs hand on to the next: those of the trace, cluster and rule that are asked for.
#include "simulator/alone_times.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "queueing.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

struct Asked {
  OwnedTrace trace;
  std::vector<LatencyModel> latencies;
  std::vector<InstanceSpec> instances;
  std::uint64_t tieSeed = 0;
  SloBase base = SloBase::kExclusive;
  PairTerms terms{};

  std::vector<Nanos> of(AloneTimes* times) const {
    Cluster cluster(latencies, tieSeed);
    for (std::uint32_t m = 0; m < instances.size(); ++m) REQUIRE(ok(cluster.add(m, instances[m])));
    Trace bound;
    REQUIRE(ok(bound.bind(trace.columns())));
    return times->of(bound, cluster, base, terms);
  }
};

InstanceSpec instance(Role role, std::uint16_t latency) {
  InstanceSpec s = instanceSpec(latency, 64, 100'000);
  s.role = role;
  s.linkPerToken = Fine{20'000} << kFineBits;
  return s;
}

/// A chain with a tool and a call beside it, and a workflow with an SLO of its own.
Asked example(SloBase base, bool paired) {
  Asked a;
  a.base = base;
  a.trace.slos = true;
  a.trace.workflow(0);
  a.trace.call({.prompt = 100, .output = 20});
  a.trace.call({.prompt = 300, .output = 1, .parents = {0}, .gap = kMillisecond});
  a.trace.call({.prompt = 50, .output = 20});
  a.trace.workflow(kSecond);
  a.trace.call({.prompt = 200, .output = 10});
  a.trace.sloMs = {std::nan(""), 500};
  a.latencies = {latency({0, kMillisecond, 10 * kMillisecond, 0, 0}),
                 latency({0, 3 * kMillisecond, 40 * kMillisecond, 0, 0})};
  for (const std::uint16_t m : {0, 1}) {
    if (paired) {
      a.instances.push_back(instance(Role::kPrefill, m));
      a.instances.push_back(instance(Role::kDecode, m));
    } else {
      a.instances.push_back(instance(Role::kUnified, m));
    }
  }
  return a;
}

}  // namespace

TEST_SUITE("alone times") {
  TEST_CASE("exclusive: the longest path of mean times, nothing where there is an SLO; horizons for all") {
    AloneTimes times;
    // Means over both: 2 ms a token of the prompt, 25 ms an iteration.
    CHECK(example(SloBase::kExclusive, false).of(&times) ==
          std::vector<Nanos>{(200 + 19 * 25 + 1 + 600) * kMillisecond, 0});
    // The faster instance takes everything, side by side where it can.
    const std::vector<Nanos> horizons = example(SloBase::kHorizon, false).of(&times);
    CHECK(horizons[1] == (200 + 9 * 10) * kMillisecond);
  }

  TEST_CASE("whatever they depend on changes, they are worked out again") {
    const std::vector<std::pair<const char*, std::function<void(Asked&)>>> changes{
        {"tokens", [](Asked& a) { a.trace.prompt[1] += 10; }},
        {"a tool", [](Asked& a) { a.trace.gapMs[1] += 5; }},
        {"SLO", [](Asked& a) { a.trace.slos = false; }},
        {"latency",
         [](Asked& a) {
           a.latencies[0] = latency({0, 2 * kMillisecond, kMillisecond, 0, 0});
         }},
        {"another instance", [](Asked& a) { a.instances.push_back(a.instances.front()); }},
        {"another of its kind", [](Asked& a) { a.instances.back().latency = 0; }},
        {"ties", [](Asked& a) { a.tieSeed = 3; }},
        {"link",
         [](Asked& a) {
           for (InstanceSpec& s : a.instances) s.linkPerToken *= 3;
         }},
        {"first token", [](Asked& a) { a.terms.firstToken = FirstToken::kFromDecode; }},
        {"overlap", [](Asked& a) { a.terms.overlap = 0.5; }},
        {"rule",
         [](Asked& a) { a.base = a.base == SloBase::kHorizon ? SloBase::kExclusive : SloBase::kHorizon; }}};
    for (const bool paired : {false, true}) {
      for (const SloBase base : {SloBase::kExclusive, SloBase::kHorizon}) {
        const Asked before = example(base, paired);
        AloneTimes kept;
        const std::vector<Nanos> first = before.of(&kept);
        CHECK(before.of(&kept) == first);
        std::size_t others = 0;
        for (const auto& [what, change] : changes) {
          CAPTURE(what);
          CAPTURE(paired);
          CAPTURE(static_cast<int>(base));
          Asked after = before;
          change(after);
          AloneTimes fresh;
          const std::vector<Nanos> expected = after.of(&fresh);
          CHECK(after.of(&kept) == expected);
          CHECK(before.of(&kept) == first);
          if (expected != first) ++others;
        }
        CHECK(others >= (paired ? 7 : 6));
      }
    }
  }

  TEST_CASE("the same trace, bound once, is worked out once") {
    const Asked a = example(SloBase::kExclusive, false);
    Cluster cluster(a.latencies, 0);
    for (std::uint32_t m = 0; m < a.instances.size(); ++m) REQUIRE(ok(cluster.add(m, a.instances[m])));
    OwnedTrace columns = a.trace;
    Trace trace;
    CHECK(trace.identity() == 0);
    REQUIRE(ok(trace.bind(columns.columns())));
    const std::uint64_t identity = trace.identity();
    AloneTimes times;
    const Nanos* kept = times.of(trace, cluster, a.base, a.terms).data();
    CHECK(times.of(trace, cluster, a.base, a.terms).data() == kept);
    columns.prompt[0] = 0;
    CHECK(trace.bind(columns.columns()) == Status::kBadTokens);
    CHECK(trace.identity() == 0);
    columns.prompt[0] = 1;
    REQUIRE(ok(trace.bind(columns.columns())));
    CHECK(trace.identity() != identity);
  }
}
