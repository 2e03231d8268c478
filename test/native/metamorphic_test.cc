// Metamorphic relations of validation.md 3, as far as they apply to unified instances: what must happen to
// the results when the input changes in a way whose effect is known. Those that hold for every engine mode go
// through the modes round by round.
//
// Costs are whole nanoseconds wherever a relation is exact: prefills and iterations are then never rounded.
// What remains rounded are means, budgets and deadlines (keys, to 1 ns) and the scores (doubles), so a
// relation between decisions can only fail where two keys lie within a rounding of each other; the fixed
// seeds have no such pair.
#include "metamorphic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "queueing.h"
#include "scheduler/scheduler.h"
#include "simulator/driver.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

/// A random cluster of `classes` kinds of hardware and its parts, so that it can be built again in another
/// form.
struct Hardware {
  std::vector<WholeCosts> costs;
  std::vector<InstanceSpec> instances;
  ClusterSpec cluster(Nanos scale = 1) const { return clusterOf(costs, instances, scale); }
};

Hardware randomHardware(Random& random, std::uint16_t classes, std::uint32_t perClass, std::int64_t kv,
                        EngineMode mode = EngineMode::kPrefillFirst) {
  Hardware h;
  for (std::uint16_t k = 0; k < classes; ++k) {
    h.costs.push_back(randomCosts(random));
    const InstanceSpec spec = inMode(instanceSpec(k, between(random, 1, 6), kv), mode, random);
    for (std::uint32_t i = 0; i < perClass; ++i) h.instances.push_back(spec);
  }
  return h;
}

/// Calls body(options) for every order, placement, binding and feedback.
template <class Body>
void everyPolicy(Body&& body) {
  for (const std::string_view order : orderNames()) {
    for (const std::string_view placement : placementNames()) {
      for (const Binding binding : kBindings) {
        for (const Feedback feedback : kFeedbacks) {
          RunOptions options = baseOptions(order, placement, binding);
          options.feedback = feedback;
          CAPTURE(order);
          CAPTURE(placement);
          CAPTURE(static_cast<int>(binding));
          CAPTURE(static_cast<int>(feedback));
          body(options, placement);
        }
      }
    }
  }
}

OwnedTrace scaled(const OwnedTrace& trace, Nanos x) {
  OwnedTrace out = trace;
  for (auto* column : {&out.arrivalMs, &out.gapMs, &out.sloMs}) {
    for (double& ms : *column) ms = toMs(x * fromMs(ms));
  }
  return out;
}

}  // namespace

TEST_SUITE("metamorphic") {
  TEST_CASE("all times times x: all latencies times x exactly, the same decisions") {
    Random random(21);
    std::uint64_t evictions = 0;
    for (int round = 0; round < 12; ++round) {
      // Decode-share divides time by the share, so that ends are rounded: see the next test.
      const EngineMode mode = round < 6 ? EngineMode::kPrefillFirst : EngineMode::kChunked;
      const Hardware hardware = randomHardware(random, 2, 2, 3000, mode);
      TraceShape shape{.workflows = 30, .maxCalls = 8, .maxPrompt = 1500, .wrongShare = 0.5};
      OwnedTrace trace = randomTrace(random, shape);
      trace.slos = round % 2 == 0;
      for (double& slo : trace.sloMs) slo = toMs(between(random, 1'000'000, 2'000'000'000));
      everyPolicy([&](RunOptions options, std::string_view) {
        setParameter(&options, Parameter::kAlpha, 0.4);
        if (round % 3 == 0) setParameter(&options, Parameter::kBeta, 0.3);
        if (round % 2 == 1) {  // guards that weigh
          setParameter(&options, Parameter::kAlpha, 0.8);
          setParameter(&options, Parameter::kQueueGuardMs, 500);
          setParameter(&options, Parameter::kUtilisationMs, 3000);
        }
        options.knowledge = static_cast<Knowledge>(round % 4);
        const Run base = run(trace, hardware.cluster(), options, true);
        REQUIRE(ok(base.status));
        evictions += base.result.evictions;
        for (const Nanos x : {2, 3, 10}) {
          CAPTURE(x);
          const auto factor = static_cast<double>(x);
          RunOptions changed = options;
          setParameter(&changed, Parameter::kBeta, options.parameters[Parameter::kBeta] * factor * factor);
          setParameter(&changed, Parameter::kQueueGuardMs,
                       options.parameters[Parameter::kQueueGuardMs] * factor);
          setParameter(&changed, Parameter::kUtilisationMs,
                       options.parameters[Parameter::kUtilisationMs] * factor);
          setParameter(&changed, Parameter::kBucketMs, options.parameters[Parameter::kBucketMs] * factor);
          setParameter(&changed, Parameter::kServiceLevelMs,
                       options.parameters[Parameter::kServiceLevelMs] * factor);
          const Run r = run(scaled(trace, x), hardware.cluster(x), changed, true);
          REQUIRE(ok(r.status));
          CHECK(sameDecisions(r.log, base.log));
          CHECK(r.instance == base.instance);
          CHECK(scaledBy(r.latencyMs, base.latencyMs, x));
          CHECK(scaledBy(r.leasedMs, base.leasedMs, x));
          CHECK(scaledBy(r.firstTokenMs, base.firstTokenMs, x));
          CHECK(scaledBy(r.finishedMs, base.finishedMs, x));
          CHECK(r.result.makespan == x * base.result.makespan);
          CHECK(r.result.evictions == base.result.evictions);
        }
      });
    }
    CHECK(evictions > 100);
  }

  TEST_CASE("decode-share: all times times x give all latencies times x, up to the rounding of ends") {
    Random random(121);
    for (int round = 0; round < 6; ++round) {
      const Hardware hardware = randomHardware(random, 2, 2, 100'000, EngineMode::kDecodeShare);
      const OwnedTrace trace = randomTrace(random, {.workflows = 30, .maxCalls = 6, .maxPrompt = 1500});
      for (const Feedback feedback : kFeedbacks) {
        RunOptions options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
        options.feedback = feedback;
        const Run base = run(trace, hardware.cluster(), options, true);
        REQUIRE(ok(base.status));
        const Nanos x = 100;
        const Run r = run(scaled(trace, x), hardware.cluster(x), options, true);
        REQUIRE(ok(r.status));
        CHECK(sameDecisions(r.log, base.log));
        // Each end is rounded by less than 1 ns, and a call waits for some hundreds of them at most.
        double worst = 0;
        for (std::size_t i = 0; i < base.finishedMs.size(); ++i)
          worst = std::max(worst, std::abs(r.finishedMs[i] / static_cast<double>(x) - base.finishedMs[i]));
        CHECK(worst < 1e-3);
        CHECK(worst > 0);
      }
    }
  }

  TEST_CASE("on equal instances another tie seed only renames them") {
    Random random(22);
    int moved = 0;
    for (int round = 0; round < 8; ++round) {
      const Hardware hardware = randomHardware(random, 1, 4, 4000, static_cast<EngineMode>(round % 3));
      const OwnedTrace trace =
          randomTrace(random, {.workflows = 40, .maxOutput = 300, .meanGap = kSecond / 2, .wrongShare = 0.3});
      everyPolicy([&](RunOptions options, std::string_view) {
        const Run base = run(trace, hardware.cluster(), options);
        REQUIRE(ok(base.status));
        for (const std::uint64_t seed : {1, 2, 3}) {
          options.tieSeed = seed;
          const Run r = run(trace, hardware.cluster(), options);
          REQUIRE(ok(r.status));
          CHECK(r.latencyMs == base.latencyMs);
          CHECK(nanos(r.finishedMs) == nanos(base.finishedMs));
          CHECK(renamed(base.instance, r.instance));
          moved += r.instance != base.instance ? 1 : 0;
        }
      });
    }
    CHECK(moved > 100);
  }

  TEST_CASE("the order in which instances are listed only renames them") {
    // Round robin and the reference form depend on the order by definition, and so does what a draw means.
    Random random(23);
    for (int round = 0; round < 9; ++round) {
      const Hardware hardware = randomHardware(random, 3, 2, 4000, static_cast<EngineMode>(round % 3));
      const OwnedTrace trace =
          randomTrace(random, {.workflows = 40, .meanGap = kSecond / 3, .wrongShare = 0.3});
      Hardware shuffled = hardware;
      std::vector<std::uint16_t> old(hardware.instances.size());
      std::iota(old.begin(), old.end(), std::uint16_t{0});
      for (std::uint32_t i = static_cast<std::uint32_t>(old.size()); i > 1; --i)
        std::swap(old[i - 1], old[random.below(i)]);
      for (std::size_t i = 0; i < old.size(); ++i) shuffled.instances[i] = hardware.instances[old[i]];
      everyPolicy([&](const RunOptions& options, std::string_view placement) {
        if (placement == "round-robin" || placement == "power-of-two" ||
            placement == "workload-balanced-reference")
          return;
        if (placement == "global-queue" && options.binding == Binding::kAtReveal)
          return;  // always the first of a class
        const Run base = run(trace, hardware.cluster(), options);
        const Run r = run(trace, shuffled.cluster(), options);
        REQUIRE(ok(base.status));
        REQUIRE(ok(r.status));
        CHECK(r.latencyMs == base.latencyMs);
        CHECK(r.baseMs == base.baseMs);
        CHECK(nanos(r.finishedMs) == nanos(base.finishedMs));
        for (std::size_t i = 0; i < base.instance.size(); ++i) {
          REQUIRE(shuffled.instances[r.instance[i]] == hardware.instances[base.instance[i]]);
        }
      });
    }
  }

  TEST_CASE("alpha 0 on equal hardware is least work left") {
    Random random(24);
    for (int round = 0; round < 20; ++round) {
      const Hardware hardware = randomHardware(random, 1, between(random, 2, 5), 4000);
      const OwnedTrace trace =
          randomTrace(random, {.workflows = 40, .meanGap = kSecond / 3, .wrongShare = 0.3});
      for (const std::string_view order : orderNames()) {
        for (const Binding binding : kBindings) {
          RunOptions balanced = baseOptions(order, "workload-balanced", binding);
          setParameter(&balanced, Parameter::kAlpha, 0);
          const RunOptions least = baseOptions(order, "least-work-left", binding);
          const Run a = run(trace, hardware.cluster(), balanced, true);
          const Run b = run(trace, hardware.cluster(), least, true);
          REQUIRE(ok(a.status));
          CHECK(sameBytes(a, b));
          CHECK(sameLog(a.log, b.log));
        }
      }
    }
  }

  TEST_CASE("alpha 1 sends every call to the fastest class") {
    Random random(25);
    for (int round = 0; round < 20; ++round) {
      Hardware hardware = randomHardware(random, 3, 2, 4000);
      const auto fastest = static_cast<std::uint16_t>(random.below(3));
      hardware.costs[fastest] = {0, 5'000, 2'000'000, 0, 0};  // below every random cost
      const OwnedTrace trace = randomTrace(random, {.workflows = 40, .meanGap = kSecond / 3});
      for (const std::string_view order : orderNames()) {
        for (const Feedback feedback : kFeedbacks) {
          RunOptions options = baseOptions(order, "workload-balanced", Binding::kAtReveal);
          options.feedback = feedback;
          setParameter(&options, Parameter::kAlpha, 1);
          const Run r = run(trace, hardware.cluster(), options);
          REQUIRE(ok(r.status));
          for (const std::uint16_t m : r.instance) REQUIRE(hardware.instances[m].latency == fastest);
        }
      }
    }
  }

  TEST_CASE("an extra idle instance never worsens pooled FCFS") {
    Random random(26);
    for (int round = 0; round < 60; ++round) {
      const WholeCosts costs = randomCosts(random);
      OwnedTrace trace;
      Nanos t = 0;
      const double gap = random.exponential(4e8);
      for (int w = 0; w < 300; ++w) {
        t += static_cast<Nanos>(random.exponential(gap));
        trace.workflow(t);
        trace.call({.prompt = between(random, 1, 3000), .output = between(random, 1, 100)});
      }
      const RunOptions options = baseOptions("fcfs", "global-queue", Binding::kAtCredit);
      std::vector<InstanceSpec> instances{instanceSpec(0, 1, 4000)};
      Run fewer = run(trace, clusterOf(std::span(&costs, 1), instances), options);
      REQUIRE(ok(fewer.status));
      for (int extra = 0; extra < 4; ++extra) {
        instances.push_back(instances.front());
        Run more = run(trace, clusterOf(std::span(&costs, 1), instances), options);
        REQUIRE(ok(more.status));
        for (std::size_t w = 0; w < more.latencyMs.size(); ++w)
          REQUIRE(more.latencyMs[w] <= fewer.latencyMs[w]);
        fewer = std::move(more);
      }
    }
  }

  TEST_CASE("zero load: every placement that picks the fastest instance gives the exclusive time") {
    Random random(27);
    for (int round = 0; round < 20; ++round) {
      Hardware hardware = randomHardware(random, 3, 2, 4000);
      const auto fastest = static_cast<std::uint16_t>(random.below(3));
      hardware.costs[fastest] = {0, 5'000, 2'000'000, 0, 0};
      OwnedTrace trace = randomTrace(random, {.workflows = 10, .chains = true});
      std::vector<Nanos> exact;
      Nanos t = 0;
      for (std::uint32_t w = 0; w < trace.workflows(); ++w) {
        Nanos sum = 0;
        for (std::uint32_t row = trace.firstCall[w]; row < trace.firstCall[w + 1]; ++row) {
          sum += fromMs(trace.gapMs[row]) +
                 aloneTime(hardware.costs[fastest], trace.prompt[row], trace.output[row]);
        }
        trace.arrivalMs[w] = toMs(t);
        t += sum + between(random, 0, 5);  // the next may arrive as the last one ends
        exact.push_back(sum);
      }
      everyPolicy([&](RunOptions options, std::string_view placement) {
        // These two look at what they did before, not at speed, and two draws may miss the fastest; at reveal
        // global-queue has no queue to speak of.
        if (placement == "round-robin" || placement == "power-of-two" ||
            placement == "workload-balanced-reference")
          return;
        for (const Knowledge knowledge : {Knowledge::kOnline, Knowledge::kOracle}) {
          options.knowledge = knowledge;
          const Run r = run(trace, hardware.cluster(), options);
          REQUIRE(ok(r.status));
          CHECK(nanos(r.latencyMs) == exact);
          for (const std::uint16_t m : r.instance) REQUIRE(hardware.instances[m].latency == fastest);
        }
      });
    }
  }

  TEST_CASE("predictions equal to the truth are no predictions, bit for bit") {
    Random random(28);
    for (int round = 0; round < 6; ++round) {
      const Hardware hardware = randomHardware(random, 2, 2, 3000, static_cast<EngineMode>(round % 3));
      OwnedTrace trace = randomTrace(random, {.workflows = 30, .meanGap = kSecond / 3});
      everyPolicy([&](RunOptions options, std::string_view) {
        for (const Knowledge knowledge : {Knowledge::kOnline, Knowledge::kDeclared, Knowledge::kOracle}) {
          options.knowledge = knowledge;
          trace.predictions = false;
          const Run without = run(trace, hardware.cluster(), options, true);
          trace.predictions = true;
          const Run with = run(trace, hardware.cluster(), options, true);
          REQUIRE(ok(with.status));
          CHECK(sameBytes(with, without));
          CHECK(sameLog(with.log, without.log));
        }
      });
    }
  }

  TEST_CASE("declared with true predictions is the oracle, bit for bit") {
    Random random(29);
    const Hardware hardware = randomHardware(random, 2, 2, 3000);
    const OwnedTrace trace = randomTrace(random, {.workflows = 30, .meanGap = kSecond / 3});
    everyPolicy([&](RunOptions options, std::string_view) {
      options.knowledge = Knowledge::kDeclared;
      const Run declared = run(trace, hardware.cluster(), options, true);
      options.knowledge = Knowledge::kOracle;
      const Run oracle = run(trace, hardware.cluster(), options, true);
      REQUIRE(ok(oracle.status));
      CHECK(sameBytes(declared, oracle));
      CHECK(sameLog(declared.log, oracle.log));
    });
  }

  TEST_CASE("the same seed gives the same bytes") {
    Random random(30);
    const Hardware hardware = randomHardware(random, 2, 2, 3000);
    OwnedTrace trace = randomTrace(random, {.workflows = 40, .wrongShare = 0.5});
    trace.recorded = false;
    everyPolicy([&](RunOptions options, std::string_view) {
      options.arrivals = {ArrivalProcess::kPoisson, 1.5, 9, 2, {}};
      options.tieSeed = 5;
      const Run first = run(trace, hardware.cluster(), options, true);
      const Run second = run(trace, hardware.cluster(), options, true);
      REQUIRE(ok(first.status));
      CHECK(sameBytes(first, second));
      CHECK(sameLog(first.log, second.log));
      options.arrivals.replication = 3;
      CHECK(!sameBytes(run(trace, hardware.cluster(), options), first));
    });
  }

  TEST_CASE("taps and laws change nothing") {
    Random random(31);
    for (int mode = 0; mode < 3; ++mode) {
      const Hardware hardware = randomHardware(random, 2, 2, 3000, static_cast<EngineMode>(mode));
      const OwnedTrace trace = randomTrace(random, {.workflows = 40, .wrongShare = 0.5});
      everyPolicy([&](RunOptions options, std::string_view) {
        const Run plain = run(trace, hardware.cluster(), options);
        options.laws = true;
        const Run watched = run(trace, hardware.cluster(), options, true);
        REQUIRE(ok(watched.status));
        CHECK(sameBytes(plain, watched));
      });
    }
  }

  TEST_CASE("knowledge of the future does not change fcfs") {
    Random random(32);
    for (int round = 0; round < 10; ++round) {
      const Hardware hardware = randomHardware(random, 2, 2, 3000);
      const OwnedTrace trace = randomTrace(random, {.workflows = 40, .meanGap = kSecond / 3});
      for (const std::string_view placement : placementNames()) {
        for (const Binding binding : kBindings) {
          for (const Feedback feedback : kFeedbacks) {
            RunOptions options = baseOptions("fcfs", placement, binding);
            options.feedback = feedback;
            setParameter(&options, Parameter::kBeta,
                         0.5);  // by default a mean over the calls revealed so far
            const Run online = run(trace, hardware.cluster(), options);
            options.knowledge = Knowledge::kOracle;
            const Run oracle = run(trace, hardware.cluster(), options);
            REQUIRE(ok(oracle.status));
            CAPTURE(round);
            CAPTURE(placement);
            CAPTURE(static_cast<int>(binding));
            CAPTURE(static_cast<int>(feedback));
            CHECK(sameBytes(online, oracle));
          }
        }
      }
    }
  }

  TEST_CASE("predictions, however wrong, do not change fcfs where nothing is estimated") {
    // Round robin, and one instance: no score looks at a length, and KV is never short.
    Random random(33);
    for (int round = 0; round < 10; ++round) {
      const Hardware hardware = randomHardware(random, 1, between(random, 1, 3), 1'000'000);
      OwnedTrace trace = randomTrace(random, {.workflows = 40, .meanGap = kSecond / 3, .wrongShare = 1});
      for (const Binding binding : kBindings) {
        for (const Feedback feedback : kFeedbacks) {
          RunOptions options = baseOptions("fcfs", "round-robin", binding);
          options.feedback = feedback;
          trace.predictions = true;
          const Run wrong = run(trace, hardware.cluster(), options);
          trace.predictions = false;
          const Run exact = run(trace, hardware.cluster(), options);
          REQUIRE(ok(wrong.status));
          CHECK(sameBytes(wrong, exact));
        }
      }
    }
  }

  TEST_CASE("labels mean nothing: tenants, and stages without a template") {
    Random random(34);
    const Hardware hardware = randomHardware(random, 2, 2, 3000);
    const OwnedTrace trace = randomTrace(random, {.workflows = 40, .wrongShare = 0.3});
    OwnedTrace relabelled = trace;
    for (std::uint16_t& tenant : relabelled.tenant) tenant = static_cast<std::uint16_t>(random.below(1000));
    for (std::uint16_t& stage : relabelled.stage) stage = static_cast<std::uint16_t>(random.below(1000));
    everyPolicy([&](const RunOptions& options, std::string_view) {
      if (std::holds_alternative<Vtc>(options.order)) return;  // what is fair among tenants
      const Run base = run(trace, hardware.cluster(), options);
      REQUIRE(ok(base.status));
      CHECK(sameBytes(run(relabelled, hardware.cluster(), options), base));
    });
  }

  TEST_CASE("workflows that are over change nothing but the numbers of those that follow") {
    // The prefix leaves recycled slots, other generations, sequence and reveal numbers behind, and a shifted
    // clock.
    Random random(35);
    for (int round = 0; round < 6; ++round) {
      const Hardware hardware = randomHardware(random, 2, 2, 3000);
      const OwnedTrace trace =
          randomTrace(random, {.workflows = 30, .meanGap = kSecond / 3, .wrongShare = 0.3});
      const std::uint32_t prefix = 12;
      const Nanos shift = 3'600 * kSecond + 17;
      OwnedTrace longer;
      longer.predictions = trace.predictions;
      std::uint32_t calls = 0;
      for (std::uint32_t w = 0; w < prefix; ++w) {
        longer.workflow(static_cast<Nanos>(w));
        for (std::uint32_t i = 0; i < 1 + w % 3; ++i, ++calls) longer.call({.prompt = 50, .output = 3 + w});
      }
      while (calls % hardware.instances.size() != 0) {
        longer.workflow(1000);
        longer.call({});
        ++calls;
      }
      const std::uint32_t skipped = longer.workflows();
      append(trace, kNoSlot, shift, &longer);
      everyPolicy([&](RunOptions options, std::string_view placement) {
        // Round robin at credit skips the busy, so its turn may differ;
        // the utilisation average of eftxp remembers, and is gone after an hour.
        // Its cumulative work never forgets, nor does a generator.
        if (placement == "workload-balanced-reference" || placement == "power-of-two") return;
        if (std::holds_alternative<Qlm>(options.order)) return;  // its buckets are of absolute time
        if (std::holds_alternative<LevelLaxity>(options.order) ||
            std::holds_alternative<LevelRatio>(options.order))
          return;  // its level is what they reached
        if (placement == "round-robin" && options.binding == Binding::kAtCredit) return;
        setParameter(&options, Parameter::kBeta, 0.5);
        setParameter(&options, Parameter::kUtilisationMs, 100);
        const Run base = run(trace, hardware.cluster(), options);
        const Run r = run(longer, hardware.cluster(), options);
        REQUIRE(ok(base.status));
        REQUIRE(ok(r.status));
        CHECK(std::equal(base.latencyMs.begin(), base.latencyMs.end(), r.latencyMs.begin() + skipped));
        CHECK(std::equal(base.instance.begin(), base.instance.end(), r.instance.begin() + calls));
      });
    }
  }

  TEST_CASE("slots are names: decisions are the same when none is ever used again") {
    Random random(36);
    for (int round = 0; round < 3; ++round) {
      const Hardware hardware = randomHardware(random, 2, 2, 2500);
      const OwnedTrace trace =
          randomTrace(random, {.workflows = 40, .meanGap = kSecond / 3, .wrongShare = 0.5});
      everyPolicy([&](RunOptions options, std::string_view) {
        options.knowledge = round == 0 ? Knowledge::kOnline : Knowledge::kDeclared;
        const ClusterSpec cluster = hardware.cluster();
        const Run r = run(trace, cluster, options, true);
        REQUIRE(ok(r.status));

        std::map<std::uint64_t, Ref> workflows, calls;
        const auto id = [](Ref ref) { return std::uint64_t{ref.slot} << 32 | ref.generation; };
        const auto fresh = [&](std::map<std::uint64_t, Ref>* names, Ref ref) {
          const auto slot = static_cast<std::uint32_t>(names->size());
          return names->try_emplace(id(ref), Ref{slot, 7}).first->second;
        };
        Scheduler scheduler(schedulerConfig(cluster, options));
        std::size_t wrong = 0, expected = 0;
        std::vector<Decision> due;
        bool applied = true;
        for (EventRecord e : r.log.records()) {
          switch (e.header.kind) {
            case EventKind::kOpenWorkflow:
              e.openWorkflow.workflow = fresh(&workflows, e.openWorkflow.workflow);
              break;
            case EventKind::kCloseWorkflow:
              e.closeWorkflow.workflow = workflows.at(id(e.closeWorkflow.workflow));
              break;
            case EventKind::kMoreParents:
              for (std::uint32_t i = 0; i < e.moreParents.count; ++i) {
                e.moreParents.parents[i] = calls.at(id(e.moreParents.parents[i]));
              }
              break;
            case EventKind::kReveal:
              e.reveal.workflow = workflows.at(id(e.reveal.workflow));
              e.reveal.call = fresh(&calls, e.reveal.call);
              for (std::uint32_t i = 0; i < e.reveal.parentCount; ++i) {
                e.reveal.parents[i] = calls.at(id(e.reveal.parents[i]));
              }
              break;
            case EventKind::kFirstToken:
            case EventKind::kToolDone:
              e.call.attempt.call = calls.at(id(e.call.attempt.call));
              break;
            case EventKind::kFinished:
              e.finished.attempt.call = calls.at(id(e.finished.attempt.call));
              break;
            case EventKind::kEvicted:
              e.evicted.attempt.call = calls.at(id(e.evicted.attempt.call));
              break;
            case EventKind::kFailed:
              e.failed.attempt.call = calls.at(id(e.failed.attempt.call));
              break;
            default:
              break;
          }
          if (e.header.kind == EventKind::kDecide) {
            const auto made = scheduler.decide(e.header.t);
            due.assign(made.begin(), made.end());
            expected = 0;
            if (due.size() != e.header.count) ++wrong;
          } else if (e.header.kind == EventKind::kDecision) {
            e.decision.call = calls.at(id(e.decision.call));
            if (expected >= due.size() || std::memcmp(&due[expected], &e.decision, sizeof(Decision)) != 0)
              ++wrong;
            ++expected;
          } else {
            applied = applied && ok(scheduler.apply(e));
          }
        }
        CHECK(applied);
        CHECK(wrong == 0);
      });
    }
  }

  TEST_CASE("two models are two clusters") {
    // Instances of another model, their calls and their load are out of sight.
    Random random(37);
    for (int round = 0; round < 6; ++round) {
      const Hardware hardware = randomHardware(random, 2, 2, 3000);
      const OwnedTrace both =
          randomTrace(random, {.workflows = 60, .meanGap = kSecond / 5, .wrongShare = 0.3, .models = 2});
      Hardware mixed = hardware;
      for (std::size_t i = 0; i < mixed.instances.size(); ++i) mixed.instances[i].model = i % 2;
      everyPolicy([&](RunOptions options, std::string_view placement) {
        // One turn for all calls, and work compared with the first instance that may serve a call of that
        // model.
        if (placement == "round-robin") return;
        if (std::holds_alternative<LevelLaxity>(options.order) ||
            std::holds_alternative<LevelRatio>(options.order))
          return;  // one level for all models
        setParameter(&options, Parameter::kBeta, 0.5);
        checkModelsApart(both, mixed, options);
      });
    }
  }

  TEST_CASE("KV: no eviction where predictions are never short, or where everything fits") {
    Random random(38);
    for (int round = 0; round < 100; ++round) {
      const WholeCosts costs = randomCosts(random);
      OwnedTrace trace =
          randomTrace(random, {.workflows = 30, .maxPrompt = 300, .meanGap = kSecond / 4, .wrongShare = 0.7});
      for (std::uint32_t i = 0; i < trace.calls(); ++i)
        trace.predicted[i] = std::max(trace.predicted[i], trace.output[i]);
      for (const Feedback feedback : kFeedbacks) {
        RunOptions options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
        options.feedback = feedback;
        for (std::int64_t kv = 500; kv < 10'000; kv *= 2) {
          const InstanceSpec one =
              inMode(instanceSpec(0, 16, kv), static_cast<EngineMode>(round % 3), random);
          const Run r = run(trace, clusterOf(std::span(&costs, 1), std::span(&one, 1)), options);
          REQUIRE(ok(r.status));
          CHECK(r.result.evictions == 0);
        }
      }
    }
  }

  TEST_CASE("KV: doubling it never adds evictions where sequences, not reservations, limit the batch") {
    Random random(39);
    Random modes(139);
    int worse = 0, better = 0;
    for (int round = 0; round < 400; ++round) {
      const WholeCosts costs = randomCosts(random);
      OwnedTrace trace =
          randomTrace(random, {.workflows = 40, .maxPrompt = 50, .maxOutput = 300, .meanGap = kSecond / 4});
      trace.predictions = true;
      for (std::uint32_t& tokens : trace.predicted) tokens = 1;
      for (const Feedback feedback : kFeedbacks) {
        RunOptions options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
        options.feedback = feedback;
        const InstanceSpec drawn = inMode(instanceSpec(0, 4, 1), static_cast<EngineMode>(round % 3), modes);
        std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
        for (std::int64_t kv = 4 * 51 + 150; kv < 4000; kv *= 2) {
          InstanceSpec one = drawn;
          one.kvTokens = kv;
          const Run r = run(trace, clusterOf(std::span(&costs, 1), std::span(&one, 1)), options);
          REQUIRE(ok(r.status));
          if (r.result.evictions > before) ++worse;
          if (r.result.evictions < before) ++better;
          before = r.result.evictions;
        }
        CHECK(before == 0);
      }
    }
    CHECK(worse == 0);
    CHECK(better > 400);
  }

  TEST_CASE("KV: where reservations limit the batch, doubling it may add evictions") {
    // The relation of validation.md does not hold for admission by predicted need: 11 tokens hold one of
    // these calls from its reservation of 6 to its end at 10; 22 admit three at 18, which outgrow it
    // together.
    const WholeCosts costs{0, 1000, 1'000'000, 0, 0};
    OwnedTrace trio;
    trio.predictions = true;
    for (int w = 0; w < 3; ++w) {
      trio.workflow(0);
      trio.call({.prompt = 5, .output = 5, .predicted = 1});
    }
    const RunOptions options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
    const auto evictions = [&](const OwnedTrace& trace, const WholeCosts& c, std::int64_t kv) {
      const InstanceSpec one = instanceSpec(0, 8, kv);
      const Run r = run(trace, clusterOf(std::span(&c, 1), std::span(&one, 1)), options);
      REQUIRE(ok(r.status));
      REQUIRE(r.result.completed == trace.workflows());
      return r.result.evictions;
    };
    CHECK(evictions(trio, costs, 11) == 0);
    CHECK(evictions(trio, costs, 22) > 0);
    CHECK(evictions(trio, costs, 44) == 0);
  }
}
