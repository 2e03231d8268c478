// The clairvoyant search (bounds/clairvoyant.h): never below the certified bound, never above the policy it
// starts from, the same for the same budget, and no worse for a larger one.
#include "bounds/clairvoyant.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "bounds/bound.h"
#include "queueing.h"
#include "tiny_schedules.h"

using namespace laxity;
using namespace laxity::trial;

TEST_SUITE_BEGIN("bounds");

TEST_CASE("the clairvoyant search stands between the bound and the policy it starts from") {
  constexpr std::array<double, 3> kShares{0.8, 0.95, 1};
  std::uint32_t better = 0;
  std::uint32_t evicted = 0;
  for (std::uint32_t n = 0; n < 60; ++n) {
    CAPTURE(n);
    Random random(0xc1a1 + n);
    TraceShape shape;
    shape.workflows = 5 + random.below(30);
    shape.maxCalls = 1 + random.below(6);
    shape.meanGap = 20 * kMillisecond;
    shape.maxOutput = 20;
    OwnedTrace owned = randomTrace(random, shape);
    if (random.below(3) == 0) {
      owned.slos = true;
      for (double& slo : owned.sloMs) slo = 1 + 2000 * random.uniform();
    }
    Trace trace;
    REQUIRE(ok(trace.bind(owned.columns())));
    ClusterSpec cluster;
    for (std::uint32_t i = 0; i < 2; ++i) {
      LatencyModel model;
      REQUIRE(ok(LatencyModel::constants({random.uniform() * 3, 0.001 + random.uniform() * 0.1,
                                          0.05 + random.uniform() * 3, random.uniform() * 0.3, 0},
                                         &model)));
      cluster.latencies.push_back(model);
    }
    const bool paired = n % 2 == 0;
    for (std::uint32_t i = 0; i < 2 + random.below(3); ++i) {
      InstanceSpec spec = instanceSpec(static_cast<std::uint16_t>(random.below(2)), 8, 8'000);
      if (paired)
        spec.role = i % 2 == 0 ? Role::kPrefill : Role::kDecode;
      else
        spec = inMode(spec, static_cast<EngineMode>(random.below(3)), random);
      cluster.instances.push_back(spec);
    }
    RunOptions options = baseOptions("fcfs", "least-loaded", Binding::kAtReveal);
    REQUIRE(makePairPlacement("least-loaded", &options.pairPlacement));
    options.sloBase = random.below(2) == 0 ? SloBase::kHorizon : SloBase::kExclusive;
    options.arrivals.recordedMs = owned.arrivalMs;

    BoundResult bound;
    REQUIRE(ok(reqLowerBounds(trace, cluster, options, kShares, &bound)));
    std::vector<double> latency(owned.workflows());
    std::vector<double> base(latency.size());
    RunOutputs out;
    out.latencyMs = latency.data();
    out.baseMs = base.data();
    RunResult own;
    REQUIRE(ok(simulate(trace, cluster, options, out, &own)));
    std::vector<double> ratios(latency.size());
    for (std::size_t w = 0; w < ratios.size(); ++w) ratios[w] = latency[w] / base[w];
    evicted += own.evictions > 0 ? 1 : 0;

    std::vector<Reference> first;
    std::vector<Reference> again;
    std::vector<Reference> more;
    REQUIRE(ok(clairvoyantSearch(trace, cluster, options, kShares, {40, 1}, &first)));
    REQUIRE(ok(clairvoyantSearch(trace, cluster, options, kShares, {40, 1}, &again)));
    REQUIRE(ok(clairvoyantSearch(trace, cluster, options, std::array{1.0}, {160, 1}, &more)));
    for (std::size_t k = 0; k < kShares.size(); ++k) {
      CAPTURE(kShares[k]);
      CAPTURE(first[k].ratio);
      CAPTURE(bound.bounds[k].ratio);
      CHECK_FALSE(below(first[k].ratio, bound.bounds[k].ratio));
      if (own.evictions == 0) CHECK(first[k].ratio <= required(ratios, kShares[k]));
      CHECK(first[k].ratio == again[k].ratio);
      CHECK(first[k].evaluations == again[k].evaluations);
      CHECK(first[k].evaluations >= 1);
      CHECK(first[k].evaluations <= 3 * 40);
    }
    CHECK_FALSE(below(more[0].ratio, bound.bounds[2].ratio));
    if (first[2].ratio < required(ratios, 1) * 0.999) ++better;
  }
  MESSAGE("better than fcfs x least-loaded at tau = 1 on ", better, " of 60, evictions in ", evicted);
  CHECK(better > 30);
}

TEST_CASE("the clairvoyant search refuses what it cannot use") {
  OwnedTrace owned;
  owned.workflow(0);
  owned.call({10, 1});
  Trace trace;
  REQUIRE(ok(trace.bind(owned.columns())));
  ClusterSpec cluster;
  cluster.latencies.resize(1);
  REQUIRE(ok(LatencyModel::constants({0, 1, 1, 0, 0}, &cluster.latencies[0])));
  cluster.instances.push_back(instanceSpec(0, 8, 1'000));
  RunOptions options = baseOptions("fcfs", "eft", Binding::kAtReveal);
  options.arrivals.recordedMs = owned.arrivalMs;
  std::vector<Reference> found;
  CHECK(clairvoyantSearch(trace, cluster, options, std::array{1.5}, {}, &found) == Status::kBadValue);
  CHECK(clairvoyantSearch(trace, cluster, options, std::array{1.0}, {0, 1}, &found) == Status::kBadValue);
  REQUIRE(ok(clairvoyantSearch(trace, cluster, options, std::array{1.0}, {5, 1}, &found)));
  CHECK(found[0].ratio == 1);
  options.script.push_back({0, 0, ScriptStep::Kind::kDrain, 1});
  CHECK(clairvoyantSearch(trace, cluster, options, std::array{1.0}, {}, &found) == Status::kUnsupported);
}

TEST_SUITE_END();
