// The laws of pair_stations.h over random prefill-decode clusters of every policy, and what they would
// notice.
#include "pair_stations.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

using namespace laxity;
using namespace laxity::trial;

namespace {

struct Scene {
  OwnedTrace trace;
  ClusterSpec cluster;
  RunOptions options;
};

Scene randomScene(Random& random, std::string_view order, std::string_view placement, Binding binding,
                  Feedback feedback, bool roomy) {
  Scene s;
  TraceShape shape;
  shape.workflows = between(random, 15, 40);
  shape.maxCalls = between(random, 1, 5);
  shape.maxPrompt = between(random, 50, 1000);
  shape.maxOutput = between(random, 1, 60);
  shape.meanGap = static_cast<Nanos>(random.exponential(1e8));
  s.trace = randomTrace(random, shape);
  s.trace.predictions = true;
  std::uint32_t largest = 0;
  for (std::uint32_t row = 0; row < s.trace.calls(); ++row) {
    if (random.below(3) == 0) s.trace.predicted[row] += random.below(shape.maxOutput);
    largest = std::max(largest, s.trace.prompt[row] + s.trace.predicted[row]);
  }
  const std::array costs{randomCosts(random), randomCosts(random)};
  std::vector<InstanceSpec> instances;
  const auto add = [&](Role role) {
    InstanceSpec spec = instanceSpec(static_cast<std::uint16_t>(random.below(2)), between(random, 1, 8),
                                     std::int64_t{largest} * between(random, 4, 16) / 4);
    if (roomy) spec.maxSequences = 1000, spec.kvTokens = 1'000'000;
    spec.role = role;
    if (role == Role::kPrefill && random.below(2) == 0) spec.chunkTokens = between(random, 1, 2000);
    if (random.below(4) != 0)
      spec.linkPerToken = static_cast<Fine>(between(random, 0, 400'000)) << (kFineBits - 2);
    if (random.below(2) == 0) spec.linkLatency = between(random, 0, 3'000'000);
    instances.push_back(spec);
  };
  for (std::uint32_t i = between(random, 1, 3); i > 0; --i) add(Role::kPrefill);
  for (std::uint32_t i = between(random, 1, 3); i > 0; --i) add(Role::kDecode);
  s.cluster = clusterOf(costs, instances);

  s.options = pairOptions(order, placement, binding);
  s.options.feedback = feedback;
  s.options.lookahead = feedback == Feedback::kLease ? random.below(3) : 0;
  PairOptions& o = s.options.pairs;
  o.reserve = static_cast<Reserve>(random.below(2));
  o.staging = static_cast<Staging>(random.below(2));
  o.admission = static_cast<DecodeAdmission>(random.below(2));
  o.links = random.below(4) == 0 ? Links::kFree : Links::kContended;
  o.backfill = random.below(2) == 0;
  o.lateDecode = random.below(4) == 0;
  o.overlap = random.below(3) == 0 ? random.uniform() : 0;
  if (random.below(4) == 0) {
    o.planning = random.below(2) == 0 ? Planning::kAsync : Planning::kAsyncPaper;
    s.options.planLatency = between(random, 0, 20'000'000);
  }
  return s;
}

/// Calls body(scene, run) for every order, placement, binding and feedback, with scarce room and with ample.
template <class Body>
void everyScene(std::uint64_t seed, Body&& body) {
  Random random(seed);
  for (const std::string_view order : orderNames()) {
    for (const std::string_view placement : pairPlacementNames()) {
      for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
        for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
          for (const bool roomy : {false, true}) {
            const Scene s = randomScene(random, order, placement, binding, feedback, roomy);
            const Run r = run(s.trace, s.cluster, s.options, true);
            REQUIRE(ok(r.status));
            REQUIRE(r.result.completed == s.trace.workflows());
            REQUIRE(r.result.rejected + r.result.evictions + r.result.hiddenEvictions == 0);
            CAPTURE(order);
            CAPTURE(placement);
            CAPTURE(static_cast<int>(binding));
            CAPTURE(static_cast<int>(feedback));
            CAPTURE(roomy);
            CAPTURE(static_cast<int>(s.options.pairs.reserve));
            CAPTURE(static_cast<int>(s.options.pairs.staging));
            CAPTURE(static_cast<int>(s.options.pairs.admission));
            CAPTURE(static_cast<int>(s.options.pairs.planning));
            CAPTURE(s.options.pairs.backfill);
            body(s, r);
          }
        }
      }
    }
  }
}

constexpr double kLate = 1e-3;  ///< ms

/// What a broken core would report, and what notices it first or later.
struct Fault {
  const char* name;
  double noticed;  ///< share of the runs in which a law must break
  /// Breaks one call's columns; false where it does not apply to this call.
  bool (*apply)(Run* r, std::uint32_t row);
};

bool moves(const Run& r, std::uint32_t row) { return r.finishedMs[row] > r.firstTokenMs[row]; }

constexpr std::array kFaults{
    Fault{"a transfer that takes longer", 1,
          [](Run* r, std::uint32_t row) {
            if (!moves(*r, row)) return false;
            r->transferStartMs[row] -= std::min(kLate, r->transferStartMs[row] - r->firstTokenMs[row]);
            return r->transferStartMs[row] > r->firstTokenMs[row];
          }},
    // Beside a batch that runs anyway a call may join an iteration later.
    Fault{"a decode that begins late", 0.3,
          [](Run* r, std::uint32_t row) {
            if (!moves(*r, row)) return false;
            r->decodeMs[row] += kLate;
            return true;
          }},
    Fault{"a lease that begins late", 1,
          [](Run* r, std::uint32_t row) {
            r->leasedMs[row] += kLate;
            return true;
          }},
    Fault{"a first token that comes late", 1,
          [](Run* r, std::uint32_t row) {
            if (!moves(*r, row)) return false;
            r->firstTokenMs[row] += kLate;
            return true;
          }},
    Fault{"an end that comes late", 1,
          [](Run* r, std::uint32_t row) {
            if (!moves(*r, row)) return false;
            r->finishedMs[row] += kLate;
            return true;
          }},
    // With lateDecode the log does not say which one it was.
    Fault{"a call on another decode instance", 0.99,
          [](Run* r, std::uint32_t row) {
            const auto other = std::find_if(r->decodeInstance.begin(), r->decodeInstance.end(),
                                            [&](std::uint16_t d) { return d != r->decodeInstance[row]; });
            if (!moves(*r, row) || other == r->decodeInstance.end()) return false;
            r->decodeInstance[row] = *other;
            return true;
          }},
};

}  // namespace

TEST_SUITE("laws") {
  TEST_CASE("pair stations: Little's law, busy time, links and work conservation on each") {
    PairStationTally tally;
    std::uint64_t runs = 0;
    everyScene(41, [&](const Scene& s, const Run& r) {
      const std::string broken = brokenLaw(s.trace, s.cluster, s.options, r, &tally);
      CHECK_MESSAGE(broken.empty(), broken);
      ++runs;
    });
    MESSAGE(runs, " runs, ", tally.calls, " calls, ", tally.transfers, " transfers, ", tally.shared,
            " shared an end, ", tally.queued, " waited for a lease, ", tally.heldUp, " of them judged, ",
            tally.queuedOnP, " waited on p, ", tally.waitedForRoom, " for room on d");
    CHECK(runs > 500);
    CHECK(tally.transfers > 50'000);
    CHECK(tally.shared > 5'000);
    CHECK(tally.heldUp > 4'000);
    CHECK(tally.queuedOnP > 5'000);
    CHECK(tally.waitedForRoom > 5'000);
  }

  TEST_CASE("pair stations: one call of a run, a microsecond wrong, breaks a law") {
    for (const Fault& fault : kFaults) {
      std::uint64_t applied = 0, noticed = 0;
      std::uint32_t pick = 0;
      everyScene(42, [&](const Scene& s, const Run& r) {
        Run broken = r;
        const std::uint32_t row = pick++ % s.trace.calls();
        if (!fault.apply(&broken, row)) return;
        ++applied;
        PairStationTally tally;
        noticed += brokenLaw(s.trace, s.cluster, s.options, broken, &tally).empty() ? 0 : 1;
      });
      MESSAGE(std::string(fault.name), ": ", noticed, " of ", applied);
      CHECK(applied > 50);
      CHECK(static_cast<double>(noticed) >= fault.noticed * static_cast<double>(applied));
    }
  }
}
