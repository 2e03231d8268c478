// Metamorphic relations of validation.md 3 on prefill-decode clusters (those of unified ones:
// metamorphic_test.cc), for every order, pair placement, binding and feedback, over random settings of how
// pairs work.
//
// Costs and links are whole nanoseconds where a relation is exact. Links that contend round each end to the
// nanosecond, and so do not scale exactly: there they are free.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "metamorphic.h"
#include "queueing.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

/// Kinds of prefill and decode hardware, so many instances of each.
struct Hardware {
  std::vector<WholeCosts> costs;
  std::vector<InstanceSpec> instances;

  ClusterSpec cluster(Nanos scale = 1) const {
    ClusterSpec spec = clusterOf(costs, instances, scale);
    for (InstanceSpec& i : spec.instances) {
      i.linkPerToken *= scale;
      i.linkLatency *= scale;
    }
    return spec;
  }
};

/// Links move a token in whole microseconds.
Hardware randomHardware(Random& random, std::uint32_t classes, std::uint32_t perClass, std::int64_t kv) {
  Hardware h;
  h.costs = {randomCosts(random), randomCosts(random)};
  for (const Role role : {Role::kPrefill, Role::kDecode}) {
    for (std::uint32_t k = 0; k < classes; ++k) {
      InstanceSpec spec = instanceSpec(static_cast<std::uint16_t>(k % 2), between(random, 2, 8), kv);
      spec.role = role;
      if (role == Role::kPrefill && random.below(2) == 0) spec.chunkTokens = between(random, 100, 3000);
      spec.linkPerToken = Fine{between(random, 0, 60)} * 1000 << kFineBits;
      spec.linkLatency = between(random, 0, 2) * kMillisecond;
      h.instances.insert(h.instances.end(), perClass, spec);
    }
  }
  return h;
}

PairOptions randomPairs(Random& random, Links links) {
  PairOptions o;
  o.reserve = static_cast<Reserve>(random.below(2));
  o.staging = static_cast<Staging>(random.below(2));
  o.admission = static_cast<DecodeAdmission>(random.below(2));
  o.links = links;
  o.backfill = random.below(2) == 0;
  o.lateDecode = random.below(3) == 0;
  return o;
}

/// Calls body(options, order, placement) for every policy; the pair options are drawn for each.
template <class Body>
void everyPolicy(Random& random, Links links, Body&& body) {
  for (const std::string_view order : orderNames()) {
    for (const std::string_view placement : pairPlacementNames()) {
      for (const Binding binding : kBindings) {
        for (const Feedback feedback : kFeedbacks) {
          RunOptions options = pairOptions(order, placement, binding);
          options.feedback = feedback;
          options.pairs = randomPairs(random, links);
          setParameter(&options, Parameter::kKvPriceMs, 500);
          CAPTURE(order);
          CAPTURE(placement);
          CAPTURE(static_cast<int>(binding));
          CAPTURE(static_cast<int>(feedback));
          CAPTURE(static_cast<int>(options.pairs.reserve));
          CAPTURE(static_cast<int>(options.pairs.staging));
          CAPTURE(static_cast<int>(options.pairs.admission));
          CAPTURE(options.pairs.backfill);
          CAPTURE(options.pairs.lateDecode);
          body(options, order, placement);
        }
      }
    }
  }
}

OwnedTrace busyTrace(Random& random, double wrongShare, std::uint16_t models = 1) {
  return randomTrace(random, {.workflows = 25,
                              .maxCalls = 5,
                              .maxPrompt = 1500,
                              .maxOutput = 60,
                              .meanGap = kSecond / 10,
                              .wrongShare = wrongShare,
                              .models = models});
}

}  // namespace

TEST_SUITE("metamorphic pairs") {
  TEST_CASE("pairs: all times times x give all latencies times x exactly, and the same decisions") {
    Random random(51);
    std::uint64_t evictions = 0;
    for (int round = 0; round < 2; ++round) {
      const Hardware hardware = randomHardware(random, 2, 2, 3000);
      const OwnedTrace trace = busyTrace(random, 0.5);
      everyPolicy(random, Links::kFree, [&](const RunOptions& options, std::string_view, std::string_view) {
        const Run base = run(trace, hardware.cluster(), options, true);
        REQUIRE(ok(base.status));
        evictions += base.result.evictions + base.result.hiddenEvictions;
        for (const Nanos x : {2, 3, 10}) {
          CAPTURE(x);
          RunOptions changed = options;
          for (const Parameter p : {Parameter::kBucketMs, Parameter::kServiceLevelMs, Parameter::kKvPriceMs})
            setParameter(&changed, p, options.parameters[p] * static_cast<double>(x));
          OwnedTrace scaled = trace;
          for (auto* column : {&scaled.arrivalMs, &scaled.gapMs}) {
            for (double& ms : *column) ms = toMs(x * fromMs(ms));
          }
          const Run r = run(scaled, hardware.cluster(x), changed, true);
          REQUIRE(ok(r.status));
          CHECK(sameDecisions(r.log, base.log));
          CHECK(r.instance == base.instance);
          CHECK(r.decodeInstance == base.decodeInstance);
          CHECK(scaledBy(r.latencyMs, base.latencyMs, x));
          CHECK(scaledBy(r.firstTokenMs, base.firstTokenMs, x));
          CHECK(scaledBy(r.transferredMs, base.transferredMs, x));
          CHECK(scaledBy(r.decodeMs, base.decodeMs, x));
          CHECK(scaledBy(r.finishedMs, base.finishedMs, x));
          CHECK(r.result.evictions == base.result.evictions);
        }
      });
    }
    CHECK(evictions > 100);
  }

  TEST_CASE("pairs: links that contend scale up to the rounding of their ends") {
    Random random(52);
    double worst = 0;
    for (int round = 0; round < 40; ++round) {
      const Hardware hardware = randomHardware(random, 1, 2, 100'000);
      const OwnedTrace trace = busyTrace(random, 0);
      RunOptions options = pairOptions("fcfs", "round-robin", Binding::kAtReveal);
      options.pairs = randomPairs(random, Links::kContended);
      const Nanos x = 100;
      OwnedTrace scaled = trace;
      for (auto* column : {&scaled.arrivalMs, &scaled.gapMs}) {
        for (double& ms : *column) ms = toMs(x * fromMs(ms));
      }
      const Run base = run(trace, hardware.cluster(), options);
      const Run r = run(scaled, hardware.cluster(x), options);
      REQUIRE(ok(base.status));
      for (std::size_t i = 0; i < base.transferredMs.size(); ++i) {
        if (std::isnan(base.transferredMs[i])) continue;
        const double difference =
            std::abs(r.transferredMs[i] / static_cast<double>(x) - base.transferredMs[i]);
        worst = std::max(worst, difference);
      }
    }
    // An end is rounded by half a nanosecond, and a call waits for some hundreds of them at most.
    CHECK(worst < 1e-3);
    CHECK(worst > 0);
  }

  TEST_CASE("pairs: on equal instances another tie seed only renames them") {
    Random random(53);
    int moved = 0;
    for (int round = 0; round < 2; ++round) {
      const Hardware hardware = randomHardware(random, 1, 3, 4000);
      const OwnedTrace trace = busyTrace(random, 0.3);
      everyPolicy(random, Links::kContended, [&](RunOptions options, std::string_view, std::string_view) {
        const Run base = run(trace, hardware.cluster(), options);
        REQUIRE(ok(base.status));
        for (const std::uint64_t seed : {1, 2}) {
          options.tieSeed = seed;
          const Run r = run(trace, hardware.cluster(), options);
          REQUIRE(ok(r.status));
          CHECK(r.latencyMs == base.latencyMs);
          CHECK(scaledBy(r.finishedMs, base.finishedMs, 1));
          CHECK(renamed(base.instance, r.instance));
          CHECK(renamed(base.decodeInstance, r.decodeInstance));
          moved += r.decodeInstance != base.decodeInstance ? 1 : 0;
        }
      });
    }
    CHECK(moved > 100);
  }

  TEST_CASE("pairs: the order in which instances are listed only renames them") {
    Random random(54);
    for (int round = 0; round < 3; ++round) {
      // One instance of each kind: between equal ones ties fall by their place in the list.
      const Hardware hardware = randomHardware(random, 2, 1, 4000);
      OwnedTrace trace = busyTrace(random, 0.3);
      // Without a second token every d may be as good as another.
      for (auto* column : {&trace.output, &trace.predicted}) {
        for (std::uint32_t& tokens : *column) tokens = std::max(2u, tokens);
      }
      Hardware reversed = hardware;
      std::reverse(reversed.instances.begin(), reversed.instances.end());
      everyPolicy(random, Links::kContended,
                  [&](const RunOptions& options, std::string_view, std::string_view placement) {
                    // The others compare numbers of calls or tokens, which are often equal on unequal
                    // hardware. At reveal
                    // p that are open together take from their queues one after the other, and so come first
                    // on d.
                    if (options.binding == Binding::kAtReveal) return;
                    if (placement != "earliest-finish" && placement != "kv-price" && placement != "mooncake")
                      return;
                    const Run base = run(trace, hardware.cluster(), options);
                    const Run r = run(trace, reversed.cluster(), options);
                    REQUIRE(ok(base.status));
                    REQUIRE(ok(r.status));
                    CHECK(r.latencyMs == base.latencyMs);
                    CHECK(scaledBy(r.finishedMs, base.finishedMs, 1));
                    const auto last = static_cast<std::uint16_t>(hardware.instances.size() - 1);
                    for (std::size_t i = 0; i < base.instance.size(); ++i) {
                      REQUIRE(r.instance[i] == last - base.instance[i]);
                      REQUIRE(r.decodeInstance[i] == last - base.decodeInstance[i]);
                    }
                  });
    }
  }

  TEST_CASE("pairs: labels mean nothing: tenants, and stages without a template") {
    Random random(55);
    const Hardware hardware = randomHardware(random, 2, 2, 4000);
    const OwnedTrace trace = busyTrace(random, 0.3);
    OwnedTrace relabelled = trace;
    for (std::uint16_t& tenant : relabelled.tenant) tenant = static_cast<std::uint16_t>(random.below(1000));
    for (std::uint16_t& stage : relabelled.stage) stage = static_cast<std::uint16_t>(random.below(1000));
    everyPolicy(random, Links::kContended,
                [&](const RunOptions& options, std::string_view order, std::string_view) {
                  if (order == "vtc") return;  // what is fair among tenants
                  const Run base = run(trace, hardware.cluster(), options);
                  REQUIRE(ok(base.status));
                  CHECK(sameBytes(run(relabelled, hardware.cluster(), options), base));
                });
  }

  TEST_CASE("pairs: predictions equal to the truth are no predictions, and declared ones the oracle") {
    Random random(56);
    const Hardware hardware = randomHardware(random, 2, 2, 4000);
    OwnedTrace trace = busyTrace(random, 0);
    everyPolicy(random, Links::kContended, [&](RunOptions options, std::string_view, std::string_view) {
      const auto with = [&](Knowledge knowledge, bool predictions, PredictionError error = {}) {
        options.knowledge = knowledge;
        options.error = error;
        trace.predictions = predictions;
        return run(trace, hardware.cluster(), options, true);
      };
      const Run online = with(Knowledge::kOnline, false);
      REQUIRE(ok(online.status));
      const Run predicted = with(Knowledge::kOnline, true);
      CHECK(sameBytes(predicted, online));
      CHECK(sameLog(predicted.log, online.log));
      PredictionError none;
      none.length = LengthError::kLognormal;
      none.size = 0;
      const Run erring = with(Knowledge::kOnline, false, none);
      CHECK(sameBytes(erring, online));
      CHECK(sameLog(erring.log, online.log));
      const Run declared = with(Knowledge::kDeclared, true);
      const Run oracle = with(Knowledge::kOracle, false);
      CHECK(sameBytes(declared, oracle));
      CHECK(sameLog(declared.log, oracle.log));
    });
  }

  TEST_CASE("pairs: the same seed gives the same bytes, and taps and laws change nothing") {
    Random random(57);
    const Hardware hardware = randomHardware(random, 2, 2, 4000);
    OwnedTrace trace = busyTrace(random, 0.5);
    trace.recorded = false;
    everyPolicy(random, Links::kContended, [&](RunOptions options, std::string_view, std::string_view) {
      options.arrivals = {ArrivalProcess::kPoisson, 8, 9, 2, {}};
      options.tieSeed = 5;
      const Run first = run(trace, hardware.cluster(), options, true);
      const Run second = run(trace, hardware.cluster(), options, true);
      REQUIRE(ok(first.status));
      CHECK(sameBytes(first, second));
      CHECK(sameLog(first.log, second.log));
      options.laws = true;
      CHECK(sameBytes(run(trace, hardware.cluster(), options), first));
      options.arrivals.replication = 3;
      CHECK(!sameBytes(run(trace, hardware.cluster(), options), first));
    });
  }

  TEST_CASE("pairs: an extra prefill instance never delays a first token of pooled fcfs") {
    Random random(58);
    std::uint64_t sooner = 0;
    for (int round = 0; round < 40; ++round) {
      const std::array costs{randomCosts(random)};
      OwnedTrace trace;
      Nanos t = 0;
      const double gap = random.exponential(1e8);
      for (int w = 0; w < 200; ++w) {
        t += static_cast<Nanos>(random.exponential(gap));
        trace.workflow(t);
        trace.call({.prompt = between(random, 1, 3000), .output = between(random, 1, 20)});
      }
      RunOptions options = pairOptions("fcfs", "global-queue", Binding::kAtCredit);
      options.pairs = randomPairs(random, Links::kContended);
      InstanceSpec decode = instanceSpec(0, 1000, 10'000'000);
      decode.role = Role::kDecode;
      InstanceSpec prefill = decode;
      prefill.role = Role::kPrefill;
      std::vector<InstanceSpec> instances{decode, prefill};
      Run fewer = run(trace, clusterOf(costs, instances), options);
      REQUIRE(ok(fewer.status));
      for (int extra = 0; extra < 3; ++extra) {
        instances.push_back(prefill);
        Run more = run(trace, clusterOf(costs, instances), options);
        REQUIRE(ok(more.status));
        for (std::size_t i = 0; i < more.firstTokenMs.size(); ++i) {
          REQUIRE(more.firstTokenMs[i] <= fewer.firstTokenMs[i]);
          sooner += more.firstTokenMs[i] < fewer.firstTokenMs[i] ? 1 : 0;
        }
        fewer = std::move(more);
      }
    }
    CHECK(sooner > 1000);
  }

  TEST_CASE(
      "pairs: at zero load every placement that picks the fastest pair gives the time of its stations") {
    Random random(59);
    for (int round = 0; round < 4; ++round) {
      Hardware hardware = randomHardware(random, 2, 2, 4000);
      hardware.costs[round % 2] = {0, 5'000, 2'000'000, 0, 0};  // below every random cost
      // Equal links, so that the fastest pair is the fastest p and the fastest d.
      for (InstanceSpec& i : hardware.instances) {
        i.linkPerToken = Fine{20'000} << kFineBits;
        i.linkLatency = kMillisecond;
      }
      OwnedTrace trace = randomTrace(random, {.workflows = 10, .maxCalls = 5, .chains = true});
      std::vector<double> exact;
      Nanos t = 0;
      for (std::uint32_t w = 0; w < trace.workflows(); ++w) {
        Nanos sum = 0;
        for (std::uint32_t row = trace.firstCall[w]; row < trace.firstCall[w + 1]; ++row) {
          sum += fromMs(trace.gapMs[row]) +
                 aloneTime(hardware.costs[round % 2], trace.prompt[row], trace.output[row]);
          if (trace.output[row] > 1) sum += kMillisecond + Nanos{20'000} * trace.prompt[row];
        }
        trace.arrivalMs[w] = toMs(t);
        t += sum + between(random, 0, 5);  // the next may arrive as the last one ends
        exact.push_back(toMs(sum));
      }
      everyPolicy(random, Links::kContended,
                  [&](const RunOptions& options, std::string_view, std::string_view placement) {
                    // The others do not look at speed.
                    if (placement != "earliest-finish" && placement != "kv-price" && placement != "mooncake")
                      return;
                    const Run r = run(trace, hardware.cluster(), options);
                    REQUIRE(ok(r.status));
                    CHECK(r.latencyMs == exact);
                  });
    }
  }

  TEST_CASE("pairs: two models are two clusters") {
    Random random(60);
    for (int round = 0; round < 2; ++round) {
      Hardware mixed = randomHardware(random, 2, 2, 4000);
      for (std::size_t i = 0; i < mixed.instances.size(); ++i) mixed.instances[i].model = i % 2;
      const OwnedTrace both = busyTrace(random, 0.3, 2);
      everyPolicy(random, Links::kContended,
                  [&](const RunOptions& options, std::string_view order, std::string_view placement) {
                    if (placement == "round-robin") return;   // one turn for all calls
                    if (order.starts_with("level-")) return;  // one level for all models
                    // Every event makes a plan, also one of the other model, and a call that waits for a
                    // better p is placed again.
                    if (options.binding == Binding::kAtCredit &&
                        (placement == "earliest-finish" || placement == "kv-price"))
                      return;
                    checkModelsApart(both, mixed, options);
                  });
    }
  }

  TEST_CASE("pairs: workflows that are over change nothing but the numbers of those that follow") {
    Random random(61);
    const Hardware hardware = randomHardware(random, 2, 2, 4000);
    const OwnedTrace trace = busyTrace(random, 0.3);
    const Nanos shift = 3'600 * kSecond + 17;
    OwnedTrace longer;
    longer.predictions = true;
    for (std::uint32_t w = 0; w < 12; ++w) {
      longer.workflow(static_cast<Nanos>(w));
      for (std::uint32_t i = 0; i < 1 + w % 3; ++i) longer.call({.prompt = 50, .output = 3 + w});
    }
    const std::uint32_t workflows = longer.workflows(), calls = longer.calls();
    append(trace, kNoSlot, shift, &longer);
    everyPolicy(
        random, Links::kContended,
        [&](const RunOptions& options, std::string_view order, std::string_view placement) {
          if (order == "qlm" || order.starts_with("level-"))
            return;                                // buckets of absolute time; a level reached
          if (placement == "round-robin") return;  // whose turn it is
          const Run base = run(trace, hardware.cluster(), options);
          const Run r = run(longer, hardware.cluster(), options);
          REQUIRE(ok(base.status));
          REQUIRE(ok(r.status));
          CHECK(std::equal(base.latencyMs.begin(), base.latencyMs.end(), r.latencyMs.begin() + workflows));
          CHECK(std::equal(base.decodeInstance.begin(), base.decodeInstance.end(),
                           r.decodeInstance.begin() + calls));
        });
  }

  TEST_CASE(
      "pairs: doubling the KV of a decode instance never adds evictions where sequences limit its batch") {
    Random random(62);
    int worse = 0, better = 0;
    for (int round = 0; round < 200; ++round) {
      const std::array costs{randomCosts(random)};
      OwnedTrace trace =
          randomTrace(random, {.workflows = 40, .maxPrompt = 50, .maxOutput = 300, .meanGap = kSecond / 4});
      trace.predictions = true;
      for (std::uint32_t& tokens : trace.predicted) tokens = 1;
      InstanceSpec prefill = instanceSpec(0, 4, 100'000);
      prefill.role = Role::kPrefill;
      for (const Feedback feedback : kFeedbacks) {
        RunOptions options = pairOptions("fcfs", "round-robin", Binding::kAtReveal);
        options.feedback = feedback;
        options.pairs = randomPairs(random, Links::kContended);
        std::uint64_t before = UINT64_MAX;
        for (std::int64_t kv = 4 * 51 + 150; kv < 4000; kv *= 2) {
          InstanceSpec decode = instanceSpec(0, 4, kv);
          decode.role = Role::kDecode;
          const Run r = run(trace, clusterOf(costs, std::array{prefill, decode}), options);
          REQUIRE(ok(r.status));
          const std::uint64_t evictions = r.result.evictions + r.result.hiddenEvictions;
          if (evictions > before) ++worse;
          if (evictions < before) ++better;
          before = evictions;
        }
        CHECK(before == 0);
      }
    }
    CHECK(worse == 0);
    CHECK(better > 200);
  }
}
