// One suite for every registered order with every registered placement, under both bindings and both feedback
// modes. It walks the registries, so that a policy added later is held to it without a change here.
//
// Where a case speaks of "the first" of several calls it asks the order itself, on a bench where nothing else
// decides: the cases hold for orders nobody has thought of yet.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "queueing.h"
#include "scheduler/scheduler.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr Binding kBindings[] = {Binding::kAtReveal, Binding::kAtCredit};
constexpr Feedback kFeedbacks[] = {Feedback::kBoundary, Feedback::kLease};

struct Policy {
  std::string_view order;
  std::string_view placement;
  Binding binding;
  Feedback feedback;
};

/// Calls body(policy) for every combination; returns how many there were.
template <class Body>
std::uint64_t everyPolicy(Body&& body) {
  std::uint64_t count = 0;
  for (const std::string_view order : orderNames()) {
    for (const std::string_view placement : placementNames()) {
      for (const Binding binding : kBindings) {
        for (const Feedback feedback : kFeedbacks) {
          const std::string policy = std::string(order) + " x " + std::string(placement);
          CAPTURE(policy);
          CAPTURE(static_cast<int>(binding));
          CAPTURE(static_cast<int>(feedback));
          body(Policy{order, placement, binding, feedback});
          ++count;
        }
      }
    }
  }
  return count;
}

RunOptions optionsOf(const Policy& p) {
  RunOptions options = baseOptions(p.order, p.placement, p.binding);
  options.feedback = p.feedback;
  options.laws = true;
  return options;
}

/// Placements that draw numbers: another tie seed is another run of luck, not another name.
bool drawsLots(std::string_view placement) { return placement == "random" || placement == "power-of-two"; }

OwnedTrace randomWorkload(Random& random, std::uint32_t workflows, std::uint16_t models, double wrongShare) {
  TraceShape shape;
  shape.workflows = workflows;
  shape.maxCalls = 6;
  shape.maxPrompt = 1500;
  shape.meanGap = kSecond / 4;
  shape.wrongShare = wrongShare;
  shape.models = models;
  OwnedTrace trace = randomTrace(random, shape);
  for (std::uint16_t& tenant : trace.tenant) tenant = static_cast<std::uint16_t>(random.below(3));
  trace.slos = random.below(2) == 0;
  for (double& slo : trace.sloMs) slo = toMs(between(random, 100'000'000, 2'000'000'000)) * 10;
  return trace;
}

ClusterSpec randomCluster(Random& random, std::uint16_t models, std::uint32_t perModel) {
  const std::vector<WholeCosts> costs{randomCosts(random), randomCosts(random)};
  std::vector<InstanceSpec> instances;
  for (std::uint32_t m = 0; m < models * perModel; ++m) {
    instances.push_back(instanceSpec(static_cast<std::uint16_t>(random.below(2)), between(random, 1, 4),
                                     1700 + random.below(2000), static_cast<std::uint16_t>(m % models)));
  }
  return clusterOf(costs, instances);
}

/// A scheduler with its events in short form, and the engine's side of the books for boundary feedback.
class Bench {
 public:
  struct Spec {
    std::uint32_t instances = 1;
    std::uint32_t sequences = 1;
    std::int64_t kv = 100'000;
    std::uint16_t models = 1;
    std::uint32_t lookahead = 0;
    bool sameHardware = true;
    std::uint64_t tieSeed = 0;
  };
  Bench(const Policy& policy, const Spec& spec)
      : policy_(policy), spec_(spec), scheduler_(config(policy, spec)) {
    for (std::uint32_t m = 0; m < spec.instances; ++m) {
      const auto latency = static_cast<std::uint16_t>(spec.sameHardware ? 0 : m % 3);
      const InstanceSpec instance =
          instanceSpec(latency, spec.sequences, spec.kv, static_cast<std::uint16_t>(m % spec.models));
      REQUIRE(ok(scheduler_.instance(0, {m, InstanceChange::kAdd, instance})));
      held_.push_back({});
    }
  }

  Ref open(Nanos t, std::uint16_t tenant = 0, Nanos deadline = kNever) {
    const Ref w{workflows_++, 1};
    REQUIRE(ok(scheduler_.openWorkflow(t, {w, tenant, -1, 0, deadline, -1})));
    return w;
  }
  Ref reveal(Nanos t, Ref w, std::uint32_t prompt, std::uint32_t output = 1, std::uint16_t model = 0,
             std::vector<Ref> parents = {}) {
    Reveal e{};
    e.call = {calls_++, 1};
    e.workflow = w;
    e.model = model;
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = output;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    REQUIRE(ok(scheduler_.reveal(t, e, parents)));
    return e.call;
  }
  /// All decisions of this instant. First tokens come at once, so that prefills never limit.
  std::vector<Decision> decide(Nanos t) {
    std::vector<Decision> made;
    for (bool more = true; more;) {
      more = false;
      REQUIRE(ok(scheduler_.place(t)));
      if (policy_.feedback == Feedback::kBoundary) {
        for (std::uint32_t m = 0; m < held_.size(); ++m) reportCapacity(t, m);
      }
      const auto decisions = scheduler_.decide(t);
      const std::vector<Decision> now(decisions.begin(), decisions.end());
      for (const Decision& d : now) {
        made.push_back(d);
        if (d.kind != DecisionKind::kLease) continue;
        more = true;
        CHECK(scheduler_.cluster().at(d.instance).accepts());
        CHECK(scheduler_.cluster().at(d.instance).spec.model == call(d.call).model);
        held_[d.instance].insert(d.call.slot);
        REQUIRE(ok(scheduler_.firstToken(t, {{d.call, d.epoch}})));
      }
      REQUIRE(scheduler_.audit());
    }
    return made;
  }
  std::vector<std::uint32_t> leases(Nanos t) {
    std::vector<std::uint32_t> slots;
    for (const Decision& d : decide(t)) {
      REQUIRE(d.kind == DecisionKind::kLease);
      slots.push_back(d.call.slot);
    }
    return slots;
  }
  void finish(Nanos t, std::uint32_t slot, std::uint32_t output = 1) {
    const Ref c = scheduler_.graph().ref(slot);
    held_[call(c).instance].erase(slot);
    REQUIRE(ok(scheduler_.finished(t, {{c, call(c).epoch}, output})));
  }
  void change(Nanos t, std::uint32_t m, InstanceChange change) {
    REQUIRE(ok(scheduler_.instance(t, {m, change, {}})));
    if (change == InstanceChange::kDown) held_[m].clear();
  }
  const Call& call(Ref c) const { return scheduler_.graph().call(c.slot); }
  const Call& call(std::uint32_t slot) const { return scheduler_.graph().call(slot); }
  std::vector<std::uint32_t> running() const {
    std::vector<std::uint32_t> all;
    for (const auto& calls : held_) all.insert(all.end(), calls.begin(), calls.end());
    return all;
  }
  Scheduler& scheduler() { return scheduler_; }
  std::uint32_t calls() const { return calls_; }

 private:
  static SchedulerConfig config(const Policy& policy, const Spec& spec) {
    SchedulerConfig c;
    REQUIRE(makeOrder(policy.order, &c.order));
    REQUIRE(makePlacement(policy.placement, &c.placement));
    c.binding = policy.binding;
    c.feedback = policy.feedback;
    c.lookahead = policy.feedback == Feedback::kBoundary ? 0 : spec.lookahead;
    c.tieSeed = spec.tieSeed;
    for (const Nanos slow : {1, 2, 3}) c.latencies.push_back(latency({0, 1'000'000, 1'000'000, 0, 0}, slow));
    return c;
  }
  void reportCapacity(Nanos t, std::uint32_t m) {
    const Instance& i = scheduler_.cluster().at(m);
    std::int64_t kv = 0;
    for (const std::uint32_t slot : held_[m]) kv += call(slot).cost.kv;
    const auto sequences = static_cast<std::uint32_t>(held_[m].size());
    const Capacity c{m, i.spec.maxSequences - std::min(sequences, i.spec.maxSequences), i.spec.kvTokens - kv,
                     1, 1};
    REQUIRE(ok(scheduler_.capacity(t, c)));
  }

  Policy policy_;
  Spec spec_;
  Scheduler scheduler_;
  std::uint32_t workflows_ = 0;
  std::uint32_t calls_ = 0;
  std::vector<std::set<std::uint32_t>> held_;  ///< leased calls by instance
};

}  // namespace

TEST_SUITE("conformance") {
  TEST_CASE("determinism: the same run twice gives the same bytes and the same decisions") {
    Random random(80);
    std::uint64_t decided = 0;
    for (int round = 0; round < 2; ++round) {
      const OwnedTrace trace = randomWorkload(random, 25, 2, 0.4);
      ClusterSpec cluster = randomCluster(random, 2, 2);
      if (round == 1) cluster.templates = {{{0, 300, 40}, {1, 500, 90}, {2, 200, 10}, {4, 800, 60}}};
      everyPolicy([&](const Policy& p) {
        RunOptions options = optionsOf(p);
        options.knowledge = round == 0 ? Knowledge::kOnline : Knowledge::kTemplate;
        options.tieSeed = static_cast<std::uint64_t>(round);
        const Run a = run(trace, cluster, options, true);
        const Run b = run(trace, cluster, options, true);
        REQUIRE(ok(a.status));
        CHECK(sameBytes(a, b));
        CHECK(sameLog(a.log, b.log));
        decided += decisions(a.log).size();
      });
    }
    CHECK(decided > 10'000);
  }

  TEST_CASE("ties: equal calls go by workflow, whatever the order of their reveals") {
    everyPolicy([&](const Policy& p) {
      // Six workflows of one call each, all equal, revealed at one instant in another order.
      const std::vector<std::vector<std::uint32_t>> permutations{
          {0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {3, 0, 5, 1, 4, 2}};
      for (const auto& order : permutations) {
        Bench bench(p, {});
        const Ref first = bench.open(0);
        const std::uint32_t busy = bench.reveal(0, first, 10).slot;
        REQUIRE(bench.leases(0).size() == 1);
        std::vector<Ref> workflows;
        for (int w = 0; w < 6; ++w) workflows.push_back(bench.open(1));
        for (const std::uint32_t w : order) bench.reveal(1, workflows[w], 10);
        REQUIRE(bench.leases(1).empty());
        std::uint32_t last = busy;
        Nanos t = 1;
        for (std::uint32_t expected = 0; expected < 6; ++expected) {
          t += 20 * kMillisecond;
          bench.finish(t, last);
          const std::vector<std::uint32_t> leased = bench.leases(t);
          REQUIRE(leased.size() == 1);
          last = leased[0];
          CHECK(bench.call(last).workflow == workflows[expected].slot);
        }
      }
    });
  }

  TEST_CASE("ties: equal calls on equal instances, placed in another order, load the instances alike") {
    everyPolicy([&](const Policy& p) {
      std::vector<std::uint32_t> counts[2];
      for (int reversed = 0; reversed < 2; ++reversed) {
        Bench bench(p, {.instances = 3, .sequences = 2});
        std::vector<Ref> workflows;
        for (int w = 0; w < 9; ++w) workflows.push_back(bench.open(0));
        if (reversed == 1) std::reverse(workflows.begin(), workflows.end());
        for (const Ref& w : workflows) bench.reveal(0, w, 10);
        std::vector<std::uint32_t> on(3, 0);
        for (const Decision& d : bench.decide(0)) ++on[d.instance];
        CHECK(on[0] + on[1] + on[2] > 0);
        counts[reversed] = on;
      }
      CHECK(counts[0] == counts[1]);
    });
  }

  TEST_CASE("equal instances: another tie seed only renames them") {
    Random random(81);
    std::uint64_t renamedRuns = 0;
    for (int round = 0; round < 2; ++round) {
      const OwnedTrace trace = randomWorkload(random, 25, 1, 0.3);
      const std::vector<WholeCosts> costs{randomCosts(random)};
      const std::vector<InstanceSpec> instances(4, instanceSpec(0, between(random, 1, 4), 3500));
      const ClusterSpec cluster = clusterOf(costs, instances);
      everyPolicy([&](const Policy& p) {
        if (drawsLots(p.placement)) return;
        RunOptions options = optionsOf(p);
        const Run base = run(trace, cluster, options);
        options.tieSeed = 7;
        const Run other = run(trace, cluster, options);
        REQUIRE(ok(base.status));
        REQUIRE(ok(other.status));
        CHECK(base.latencyMs == other.latencyMs);
        std::map<std::uint16_t, std::uint16_t> name, back;
        bool renamed = true;
        for (std::size_t i = 0; i < base.instance.size(); ++i) {
          renamed =
              renamed &&
              name.try_emplace(base.instance[i], other.instance[i]).first->second == other.instance[i] &&
              back.try_emplace(other.instance[i], base.instance[i]).first->second == base.instance[i];
        }
        CHECK(renamed);
        renamedRuns += base.instance != other.instance ? 1 : 0;
      });
    }
    CHECK(renamedRuns > 50);
  }

  TEST_CASE("ageing: no call waits longer than the stated bound (order/ageing.h)") {
    Random random(82);
    constexpr double kAgeing = 2000;
    std::uint64_t checked = 0, overdue = 0, beyondWithout = 0;
    for (int round = 0; round < 2; ++round) {
      OwnedTrace trace = randomWorkload(random, 60, 1, 0);
      for (double& t : trace.arrivalMs) t *= 0.5;
      const std::vector<WholeCosts> costs{randomCosts(random), randomCosts(random)};
      std::vector<InstanceSpec> instances;
      for (int m = 0; m < 2; ++m)
        instances.push_back(instanceSpec(static_cast<std::uint16_t>(m), between(random, 1, 3), 4000));
      const ClusterSpec cluster = clusterOf(costs, instances);
      everyPolicy([&](const Policy& p) {
        for (const bool on : {true, false}) {
          RunOptions options = optionsOf(p);
          if (on) options.parameters.set(static_cast<std::uint16_t>(Parameter::kAgeingMs), kAgeing);
          const Run r = run(trace, cluster, options);
          REQUIRE(ok(r.status));
          REQUIRE(r.result.evictions == 0);
          bool holds = true;
          for (std::size_t c = 0; c < r.readyMs.size(); ++c) {
            const Nanos due = fromMs(r.readyMs[c]) + fromMs(kAgeing);
            if (fromMs(r.leasedMs[c]) <= due) continue;
            overdue += on ? 1 : 0;
            Nanos bound = due;
            for (std::size_t j = 0; j < r.readyMs.size(); ++j) {
              if (j == c || (p.binding == Binding::kAtReveal && r.instance[j] != r.instance[c])) continue;
              const bool waits = r.readyMs[j] <= r.readyMs[c] && fromMs(r.leasedMs[j]) > due;
              const bool runs = fromMs(r.leasedMs[j]) <= due && fromMs(r.finishedMs[j]) > due;
              if (waits || runs) bound += fromMs(r.finishedMs[j]) - fromMs(r.leasedMs[j]);
            }
            ++checked;
            holds = holds && fromMs(r.leasedMs[c]) <= bound;
            if (!on) beyondWithout += fromMs(r.leasedMs[c]) > bound ? 1 : 0;
          }
          if (on) CHECK(holds);
        }
      });
    }
    MESSAGE("waits checked " << checked << ", overdue " << overdue << ", beyond the bound without ageing "
                             << beyondWithout);
    CHECK(overdue > 5'000);
    CHECK(beyondWithout > 100);
  }

  TEST_CASE("empty queues: time, workflows without calls and the last finish decide nothing") {
    everyPolicy([&](const Policy& p) {
      Bench bench(p, {.instances = 2});
      CHECK(bench.decide(0).empty());
      const Ref empty = bench.open(1);
      CHECK(bench.decide(1).empty());
      REQUIRE(ok(bench.scheduler().closeWorkflow(2, {empty})));
      CHECK(bench.decide(2).empty());
      const Ref w = bench.open(3);
      const Ref c = bench.reveal(3, w, 5);
      REQUIRE(bench.leases(3).size() == 1);
      bench.finish(4, c.slot);
      CHECK(bench.decide(4).empty());
      REQUIRE(ok(bench.scheduler().closeWorkflow(5, {w})));
      CHECK(bench.decide(1'000 * kSecond).empty());
      CHECK(bench.scheduler().nextWake() == kNever);
      for (std::uint32_t m = 0; m < 2; ++m) CHECK(bench.scheduler().cluster().at(m).ledger.work == 0);
    });
  }

  TEST_CASE("full KV: the first of the queue holds back the others until it fits, and then goes") {
    std::uint64_t blocked = 0, passed = 0;
    everyPolicy([&](const Policy& p) {
      // Which of a large and a small call goes first: asked where one sequence is the only limit.
      const auto scene = [&](std::int64_t kv, std::uint32_t sequences) {
        Bench bench(p, {.sequences = sequences, .kv = kv});
        const std::uint32_t busy = bench.reveal(0, bench.open(0), 50, 10).slot;
        REQUIRE(bench.leases(0) == std::vector<std::uint32_t>{busy});
        return bench;
      };
      for (const std::uint32_t large : {0u, 1u}) {
        const auto ask = [&](Bench& bench) {
          std::vector<std::uint32_t> pair;
          for (std::uint32_t i = 0; i < 2; ++i)
            pair.push_back(bench.reveal(1, bench.open(1), i == large ? 60 : 10, i == large ? 10 : 5).slot);
          return pair;
        };
        Bench control = scene(100'000, 1);
        const std::vector<std::uint32_t> pair = ask(control);
        REQUIRE(control.leases(1).empty());
        control.finish(1, 0);  // all at one instant: time alone may turn an order
        const std::vector<std::uint32_t> first = control.leases(1);
        REQUIRE(first.size() == 1);

        Bench bench = scene(100, 8);  // 60 of 100 tokens are taken
        ask(bench);
        const std::vector<std::uint32_t> before = bench.leases(1);
        if (first[0] == pair[large]) {
          ++blocked;
          CHECK(before.empty());
        } else {
          ++passed;
          CHECK(before == std::vector<std::uint32_t>{pair[1 - large]});
        }
        bench.finish(1, 0);
        std::vector<std::uint32_t> all = before;
        const std::vector<std::uint32_t> after = bench.leases(1);
        all.insert(all.end(), after.begin(), after.end());
        CHECK(all == std::vector<std::uint32_t>{first[0], pair[0] == first[0] ? pair[1] : pair[0]});
      }
    });
    CHECK(blocked > 100);
    CHECK(passed > 20);
  }

  TEST_CASE("one instance: no placement has a choice") {
    Random random(83);
    for (int round = 0; round < 3; ++round) {
      const OwnedTrace trace = randomWorkload(random, 20, 1, 0.3);
      const std::vector<WholeCosts> costs{randomCosts(random)};
      const InstanceSpec one = instanceSpec(0, between(random, 1, 4), 3500);
      const ClusterSpec cluster = clusterOf(costs, std::span(&one, 1));
      everyPolicy([&](const Policy& p) {
        Policy reference = p;
        reference.placement = placementNames().front();
        const Run a = run(trace, cluster, optionsOf(p), true);
        const Run b = run(trace, cluster, optionsOf(reference), true);
        REQUIRE(ok(a.status));
        CHECK(sameBytes(a, b));
        CHECK(sameDecisions(a.log, b.log));
      });
    }
  }

  TEST_CASE("model masks: no call ever runs on an instance of another model") {
    Random random(84);
    std::uint64_t calls = 0;
    for (int round = 0; round < 2; ++round) {
      OwnedTrace trace = randomWorkload(random, 25, 2, 0.3);
      // Also inside one workflow.
      for (std::uint16_t& model : trace.model) model = static_cast<std::uint16_t>(random.below(2));
      const ClusterSpec cluster = randomCluster(random, 2, 3);
      everyPolicy([&](const Policy& p) {
        const Run r = run(trace, cluster, optionsOf(p));
        REQUIRE(ok(r.status));
        for (std::size_t c = 0; c < r.instance.size(); ++c) {
          if (r.instance[c] == 0xffff) continue;
          ++calls;
          REQUIRE(cluster.instances[r.instance[c]].model == trace.model[c]);
        }
        CHECK(r.result.completed == trace.workflows());
      });
    }
    CHECK(calls > 10'000);
  }

  TEST_CASE("instances that drain, fail and come back in the middle of it all lose nothing") {
    std::uint64_t lost = 0, changes = 0, finished = 0;
    std::uint64_t seed = 0;
    everyPolicy([&](const Policy& p) {
      Random random(85, seed++);
      Bench bench(p, {.instances = 5,
                      .sequences = 1 + random.below(3),
                      .kv = 120,
                      .models = 2,
                      .lookahead = random.below(2),
                      .sameHardware = random.below(2) == 0,
                      .tieSeed = random.below(2)});
      std::vector<Ref> workflows;
      std::set<std::uint32_t> done;
      const auto takeOne = [&](Nanos t) {
        const std::vector<std::uint32_t> running = bench.running();
        if (running.empty()) return false;
        const std::uint32_t slot = running[random.below(static_cast<std::uint32_t>(running.size()))];
        bench.finish(t, slot, 1 + random.below(20));
        CHECK(done.insert(slot).second);
        return true;
      };
      Nanos t = 0;
      std::vector<InstanceChange> state(5, InstanceChange::kUp);
      for (int step = 0; step < 120; ++step) {
        t += random.below(30) * kMillisecond;
        const std::uint32_t what = random.below(10);
        if (what < 4) {
          if (workflows.empty() || random.below(3) == 0)
            workflows.push_back(
                bench.open(t, static_cast<std::uint16_t>(random.below(3)),
                           random.below(2) == 0 ? kNever : t + random.below(3000) * kMillisecond));
          const Ref w = workflows[workflows.size() - 1 -
                                  random.below(std::min<std::uint32_t>(
                                      3, static_cast<std::uint32_t>(workflows.size())))];
          std::vector<Ref> parents;
          for (std::uint32_t slot = 0; slot < bench.calls(); ++slot) {
            if (bench.call(slot).workflow == w.slot && random.below(4) == 0) parents.push_back({slot, 1});
          }
          bench.reveal(t, w, 1 + random.below(60), 1 + random.below(50),
                       static_cast<std::uint16_t>(random.below(2)), parents);
        } else if (what < 8) {
          takeOne(t);
        } else {
          const std::uint32_t m = random.below(5);
          const InstanceChange next = state[m] != InstanceChange::kUp ? InstanceChange::kUp
                                      : random.below(2) == 0          ? InstanceChange::kDown
                                                                      : InstanceChange::kDrain;
          const std::size_t before = bench.running().size();
          bench.change(t, m, next);
          lost += before - bench.running().size();
          state[m] = next;
          ++changes;
        }
        bench.decide(t);
      }
      for (std::uint32_t m = 0; m < 5; ++m) {
        if (state[m] != InstanceChange::kUp) bench.change(t, m, InstanceChange::kUp);
      }
      bench.decide(t);
      while (takeOne(++t)) bench.decide(t);
      CHECK(done.size() == bench.calls());
      finished += done.size();
      for (std::uint32_t m = 0; m < 5; ++m) {
        const Ledger& ledger = bench.scheduler().cluster().at(m).ledger;
        CHECK(ledger.work == 0);
        CHECK(ledger.reservedKv == 0);
        CHECK(ledger.assigned == 0);
      }
    });
    CHECK(lost > 500);
    CHECK(changes > 1'000);
    CHECK(finished > 5'000);
  }
}
