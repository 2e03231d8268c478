// What both families of bound tests share: random shapes and latency models, and a run held against its
// bound.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "bounds/bound.h"
#include "queueing.h"
#include "simulator/simulation.h"
#include "tiny_schedules.h"

namespace laxity::trial {

inline constexpr std::array<double, 5> kManyTaus{0.3, 0.7, 0.95, 0.99, 1};

inline TraceShape boundedShape(Random& random) {
  TraceShape shape;
  shape.workflows = 4 + random.below(40);
  shape.maxCalls = 1 + random.below(8);
  shape.maxPrompt = any(random, std::array{50u, 1000u});
  shape.maxOutput = any(random, std::array{1u, 20u, 100u});
  shape.meanGap = any(random, std::array<Nanos, 3>{kMillisecond, 20 * kMillisecond, 200 * kMillisecond});
  shape.chains = random.below(3) == 0;
  shape.models = static_cast<std::uint16_t>(1 + random.below(2));
  shape.wrongShare = random.below(4) == 0 ? 0.3 : 0;
  return shape;
}

/// Three of them: constants, a table of prefill times, tabulated rooflines.
inline std::vector<LatencyModel> boundedModels(Random& random) {
  std::vector<LatencyModel> models;
  for (std::uint32_t i = 0; i < 3; ++i) {
    LatencyModel model;
    const LatencyConstants c{random.uniform() * 3, 0.001 + random.uniform() * 0.2,
                             0.05 + random.uniform() * 3, random.below(2) * random.uniform() * 0.3,
                             random.below(2) * random.uniform() * 1e-3};
    const std::uint32_t kind = random.below(6);
    if (kind <= 1)
      model = tabulated(random);
    else if (kind == 2)
      REQUIRE(LatencyModel::table({{10, kMillisecond}, {300, 5 * kMillisecond}}, c, &model) == Status::kOk);
    else
      REQUIRE(LatencyModel::constants(c, &model) == Status::kOk);
    models.push_back(model);
  }
  return models;
}

/// The bounds at kManyTaus, which rise with tau.
inline BoundResult boundsOf(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options) {
  BoundResult bound;
  REQUIRE(ok(reqLowerBounds(trace, cluster, options, kManyTaus, &bound)));
  for (std::size_t i = 1; i < kManyTaus.size(); ++i)
    CHECK(bound.bounds[i - 1].ratio <= bound.bounds[i].ratio);
  return bound;
}

/// Whether the run is inside the model (nothing was evicted); then no ratio it needs is below the bound.
inline bool runIsNotBelow(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                          const BoundResult& bound) {
  std::vector<double> latency(trace.columns().workflows);
  std::vector<double> base(latency.size());
  RunOutputs out;
  out.latencyMs = latency.data();
  out.baseMs = base.data();
  RunResult result;
  const Status status = simulate(trace, cluster, options, out, &result);
  CAPTURE(std::string(reason(status)));
  REQUIRE(ok(status));
  if (result.evictions + result.hiddenEvictions > 0) return false;
  std::vector<double> ratios(latency.size());
  for (std::size_t w = 0; w < ratios.size(); ++w) ratios[w] = base[w] > 0 ? latency[w] / base[w] : HUGE_VAL;
  for (std::size_t i = 0; i < kManyTaus.size(); ++i) {
    CAPTURE(kManyTaus[i]);
    const double achieved = required(ratios, kManyTaus[i]);
    CAPTURE(achieved);
    CAPTURE(bound.bounds[i].ratio);
    CHECK_FALSE(below(achieved, bound.bounds[i].ratio));
  }
  return true;
}

}  // namespace laxity::trial
