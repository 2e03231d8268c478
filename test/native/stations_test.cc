// Laws of single stations (validation.md 2, laws 6 and 7), over random configurations of every policy. What a
// run reports it reports twice, by its columns and by its log, and the two do not come from one place: the
// columns are the driver's truth, the log is what the scheduler was told and decided.
#include "stations.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "queueing.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

struct Counts {
  Count waiting;
  std::vector<Count> instances;
};

/// L of every station, from the log alone. Under `online` a call is ready when it is revealed, or when its
/// tool ends.
Counts countsOf(const EventLog& log, std::size_t instances) {
  Counts counts;
  counts.instances.resize(instances);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> at;
  const auto name = [](Ref r) { return std::pair{r.slot, r.generation}; };
  for (const EventRecord& r : log.records()) {
    const Nanos t = r.header.t;
    if (r.header.kind == EventKind::kReveal && r.reveal.toolPending == 0) counts.waiting.change(t, 1);
    if (r.header.kind == EventKind::kToolDone) counts.waiting.change(t, 1);
    if (r.header.kind == EventKind::kDecision && r.decision.kind == DecisionKind::kLease) {
      counts.waiting.change(t, -1);
      counts.instances[r.decision.instance].change(t, 1);
      at[name(r.decision.call)] = r.decision.instance;
    }
    if (r.header.kind == EventKind::kFinished)
      counts.instances[at.at(name(r.finished.attempt.call))].change(t, -1);
  }
  return counts;
}

struct Tally {
  std::uint64_t calls = 0, waited = 0, violated = 0, skipped = 0;
};

/// `lose`: forgets one call in fifty, as a core would that does: the laws must not hold then.
void examine(const OwnedTrace& trace, const std::vector<InstanceSpec>& instances, Binding binding,
             const Run& r, std::uint32_t lose, Tally* tally) {
  Counts counts = countsOf(r.log, instances.size());
  Nanos waits = 0;
  std::vector<Nanos> sojourns(instances.size());
  std::vector<std::vector<Busy>> busy(instances.size());
  bool sound = counts.waiting.empty();
  for (std::uint32_t row = 0; row < trace.calls(); ++row) {
    if (lose > 0 && row % lose == 0) continue;
    const Nanos ready = fromMs(r.readyMs[row]), leased = fromMs(r.leasedMs[row]),
                end = fromMs(r.finishedMs[row]);
    waits += leased - ready;
    sojourns[r.instance[row]] += end - leased;
    busy[r.instance[row]].push_back({leased, end});
  }
  // Little's law: the run starts and ends empty, so that it is an identity of integers.
  sound = sound && counts.waiting.area() == waits;
  for (std::size_t m = 0; m < instances.size(); ++m) {
    sound = sound && counts.instances[m].empty() && counts.instances[m].area() == sojourns[m] &&
            counts.instances[m].most() <= static_cast<int>(instances[m].maxSequences);
    busy[m] = merged(std::move(busy[m]));
  }
  // Work conservation: while a call waits for an instance, that instance works. At-credit it waits for all.
  for (std::uint32_t row = 0; row < trace.calls() && sound; ++row) {
    const Nanos ready = fromMs(r.readyMs[row]), leased = fromMs(r.leasedMs[row]);
    if (leased == ready) continue;
    ++tally->waited;
    for (std::size_t m = 0; m < instances.size(); ++m) {
      if (binding == Binding::kAtReveal ? m != r.instance[row] : instances[m].model != trace.model[row])
        continue;
      sound = sound && covers(busy[m], ready, leased);
    }
  }
  tally->calls += trace.calls();
  tally->violated += sound ? 0 : 1;
}

Tally overAll(std::uint64_t seed, std::uint32_t lose) {
  Random random(seed);
  Tally tally;
  for (const std::string_view order : orderNames()) {
    for (const std::string_view placement : placementNames()) {
      for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
        for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
          const std::vector<WholeCosts> costs{randomCosts(random), randomCosts(random)};
          TraceShape shape;
          shape.workflows = between(random, 20, 60);
          shape.maxCalls = between(random, 1, 6);
          shape.maxPrompt = between(random, 10, 500);
          shape.maxOutput = between(random, 1, 100);
          shape.meanGap = static_cast<Nanos>(random.exponential(4e8));
          shape.models = static_cast<std::uint16_t>(between(random, 1, 2));
          const OwnedTrace trace = randomTrace(random, shape);
          // Equal KV, so that a call which is too large for one idle instance is so for all.
          const std::int64_t kv =
              (shape.maxPrompt + shape.maxOutput) * std::int64_t{between(random, 4, 16)} / 4;
          std::vector<InstanceSpec> instances;
          for (std::uint32_t m = 0; m < between(random, shape.models, 5) || m < shape.models; ++m) {
            const InstanceSpec spec =
                instanceSpec(static_cast<std::uint16_t>(random.below(2)), between(random, 1, 6), kv,
                             static_cast<std::uint16_t>(m % shape.models));
            instances.push_back(inMode(spec, static_cast<EngineMode>(random.below(3)), random));
          }
          RunOptions options = baseOptions(order, placement, binding);
          options.feedback = feedback;
          options.knowledge = Knowledge::kOnline;
          const Run r = run(trace, clusterOf(costs, instances), options, true);
          REQUIRE(ok(r.status));
          if (r.result.rejected + r.result.evictions + r.result.hiddenEvictions > 0) {
            ++tally.skipped;
            continue;
          }
          examine(trace, instances, binding, r, lose, &tally);
        }
      }
    }
  }
  return tally;
}

}  // namespace

TEST_SUITE("laws") {
  TEST_CASE("stations: Little's law on each, no instance idles while a call waits for it") {
    const Tally tally = overAll(21, 0);
    CHECK(tally.violated == 0);
    CHECK(tally.calls > 20'000);
    CHECK(tally.waited > 5'000);
    CHECK(tally.skipped < tally.calls / 100);
    MESSAGE(tally.calls, " calls, ", tally.waited, " waited, ", tally.skipped,
            " runs with evictions left out");
  }

  TEST_CASE("stations: columns that lose one call in fifty break the laws") {
    const Tally tally = overAll(21, 50);
    CHECK(tally.violated > 100);
  }
}
