// The scheduler on prefill-decode clusters, driven by a world that answers at random times in random order.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"
#include "scheduler/scheduler.h"

using namespace laxity;

namespace {

LatencyModel model(double perToken, double decode) {
  LatencyModel m;
  REQUIRE(ok(LatencyModel::constants({1, perToken, decode, 0.05, 0.0001}, &m)));
  return m;
}

InstanceSpec instance(Role role, std::uint16_t latency, std::int64_t kv, std::uint32_t sequences = 64) {
  InstanceSpec s;
  s.role = role;
  s.latency = latency;
  s.kvTokens = kv;
  s.maxSequences = sequences;
  s.linkPerToken = Fine{5'000} << kFineBits;
  s.linkLatency = 20'000;
  return s;
}

/// What a call is doing in the world.
struct Flight {
  Ref ref;
  std::uint32_t epoch = 0;
  std::uint32_t prefill = 0;
  std::uint32_t decode = 0;
  bool admitted = false;
  bool prefilled = false;
  bool arrived = false;
};

struct World {
  World(std::uint64_t seed, SchedulerConfig config) : random(seed), scheduler(std::move(config)) {}

  void decide(Nanos t) {
    for (const Decision& d : scheduler.decide(t)) {
      switch (d.kind) {
        case DecisionKind::kLease:
          REQUIRE(flights.count(d.call.slot) == 0);
          flights[d.call.slot] = {d.call, d.epoch, d.instance, d.decodeInstance};
          ++leases;
          break;
        case DecisionKind::kAdmitDecode: {
          REQUIRE(flights.count(d.call.slot) == 1);
          Flight& f = flights[d.call.slot];
          REQUIRE(f.epoch == d.epoch);
          f.decode = d.decodeInstance;
          f.admitted = true;
          ++admits;
          break;
        }
        default:
          ++others;
      }
    }
    REQUIRE(scheduler.audit());
  }

  Random random;
  Scheduler scheduler;
  std::map<std::uint32_t, Flight> flights;
  std::uint64_t leases = 0;
  std::uint64_t admits = 0;
  std::uint64_t others = 0;
};

Flight* pickFlight(World& w, auto&& condition) {
  std::vector<std::uint32_t> fit;
  for (auto& [slot, f] : w.flights) {
    if (condition(f)) fit.push_back(slot);
  }
  if (fit.empty()) return nullptr;
  return &w.flights[fit[w.random.below(static_cast<std::uint32_t>(fit.size()))]];
}

}  // namespace

TEST_SUITE("pair-scheduler") {
  TEST_CASE("plans follow the keys of an order that has no projection: the shortest call first") {
    SchedulerConfig config;
    makeOrder("sjf", &config.order);
    config.binding = Binding::kAtCredit;
    config.lookahead = 0;
    config.latencies = {model(0.05, 20)};
    World w(1, std::move(config));
    REQUIRE(ok(w.scheduler.instance(0, {0, InstanceChange::kAdd, instance(Role::kPrefill, 0, 10'000)})));
    REQUIRE(ok(w.scheduler.instance(0, {1, InstanceChange::kAdd, instance(Role::kDecode, 0, 10'000)})));
    REQUIRE(ok(w.scheduler.openWorkflow(0, {{0, 0}, 0, -1, 0, kNever, -1})));
    Reveal r{};
    r.workflow = {0, 0};
    r.sequences = 1;
    r.remaining = -1;
    r.promptTokens = 600;
    for (const std::uint32_t predicted : {300, 200, 100}) {
      r.predictedTokens = predicted;
      REQUIRE(ok(w.scheduler.reveal(0, r, {})));
      ++r.call.slot;
    }
    Nanos t = 0;
    for (const std::uint32_t slot : {2u, 1u, 0u}) {
      w.decide(t);
      REQUIRE(w.flights.size() == 3 - slot);
      CHECK(w.flights.count(slot) == 1);
      t += 31'000'000;
      REQUIRE(ok(w.scheduler.firstToken(t, {{{slot, 0}, 0}})));
    }
  }

  TEST_CASE("either role has as many hardware classes as the planner, and no more") {
    for (const Role role : {Role::kPrefill, Role::kDecode}) {
      const Role other = role == Role::kPrefill ? Role::kDecode : Role::kPrefill;
      SchedulerConfig config;
      makeOrder("ratio", &config.order);
      config.latencies = {model(0.05, 20)};
      World w(1, std::move(config));
      std::uint32_t next = 0;
      const auto add = [&](Role r, std::int64_t kv) {
        return w.scheduler.instance(0, {next++, InstanceChange::kAdd, instance(r, 0, kv)});
      };
      for (std::uint32_t k = 0; k < kMaxPlannerClasses; ++k) REQUIRE(ok(add(role, 1'000 + k)));
      CHECK(ok(add(role, 1'000)));
      CHECK(ok(add(other, 1'000)));
      CHECK(add(role, 1'000 + kMaxPlannerClasses) == Status::kUnsupported);
    }
  }

  TEST_CASE("early reserve: lease and room in one decide, then transfer and decode") {
    SchedulerConfig config;
    makeOrder("ratio", &config.order);
    config.binding = Binding::kAtCredit;
    config.lookahead = 0;
    config.latencies = {model(0.05, 20)};
    World w(1, std::move(config));
    REQUIRE(ok(w.scheduler.instance(0, {0, InstanceChange::kAdd, instance(Role::kPrefill, 0, 10'000)})));
    REQUIRE(ok(w.scheduler.instance(0, {1, InstanceChange::kAdd, instance(Role::kDecode, 0, 1'000)})));
    CHECK(w.scheduler.instance(0, {2, InstanceChange::kAdd, instance(Role::kUnified, 0, 1'000)}) ==
          Status::kUnsupported);
    REQUIRE(ok(w.scheduler.openWorkflow(0, {{0, 0}, 0, -1, 0, kNever, -1})));
    Reveal r{};
    r.workflow = {0, 0};
    r.sequences = 1;
    r.remaining = -1;
    r.promptTokens = 600;
    r.predictedTokens = 100;
    for (std::uint32_t i = 0; i < 2; ++i) {
      r.call = {i, 0};
      REQUIRE(ok(w.scheduler.reveal(0, r, {})));
    }
    // Prefill 31 ms + transfer 3.02 ms + 99 iterations: both alone, the second behind the first's prefill.
    w.decide(0);
    REQUIRE(w.leases == 1);
    CHECK(w.admits == 1);
    CHECK(w.flights[0].prefill == 0);
    CHECK(w.flights[0].decode == 1);
    REQUIRE(ok(w.scheduler.firstToken(31'000'000, {{{0, 0}, 0}})));
    CHECK(w.scheduler.graph().call(0).state == CallState::kTransferring);
    w.decide(31'000'000);
    CHECK(w.leases == 2);  // p is free again, d is not: 700 of 1,000 tokens are taken
    CHECK(w.admits == 1);
    REQUIRE(ok(w.scheduler.transferDone(35'000'000, {{{0, 0}, 0}})));
    CHECK(w.scheduler.graph().call(0).state == CallState::kDecoding);
    CHECK(w.scheduler.cluster().at(0).ledger.reservedKv == 600);
    REQUIRE(ok(w.scheduler.firstToken(62'000'000, {{{1, 0}, 0}})));
    CHECK(w.scheduler.graph().call(1).state == CallState::kWaitDecode);
    w.decide(62'000'000);
    CHECK(w.admits == 1);
    REQUIRE(ok(w.scheduler.finished(2'000'000'000, {{{0, 0}, 0}, 100})));
    w.decide(2'000'000'000);
    CHECK(w.admits == 2);
    CHECK(w.scheduler.graph().call(1).state == CallState::kTransferring);
    // A later event implies the transfer.
    REQUIRE(ok(w.scheduler.finished(4'000'000'000, {{{1, 0}, 0}, 90})));
    w.decide(4'000'000'000);
    CHECK(w.scheduler.cluster().at(0).ledger ==
          Ledger{.prefillsEnd = w.scheduler.cluster().at(0).ledger.prefillsEnd});
    CHECK(w.scheduler.cluster().at(1).ledger == Ledger{});
  }

  TEST_CASE("10,000 random worlds keep the ledger, whatever fails") {
    std::uint64_t leases = 0;
    std::uint64_t admits = 0;
    std::uint64_t finished = 0;
    std::uint64_t failures = 0;
    std::uint64_t arrived = 0;
    const auto orders = orderNames();
    const auto placements = pairPlacementNames();
    for (std::uint64_t seed = 1; seed <= 10'000; ++seed) {
      Random random(seed);
      SchedulerConfig config;
      REQUIRE(makeOrder(orders[random.below(static_cast<std::uint32_t>(orders.size()))], &config.order));
      REQUIRE(makePairPlacement(placements[random.below(static_cast<std::uint32_t>(placements.size()))],
                                &config.pairPlacement));
      config.binding = random.below(2) == 0 ? Binding::kAtCredit : Binding::kAtReveal;
      config.lookahead = random.below(2);
      config.tieSeed = random.below(3);
      config.pairs.reserve = static_cast<Reserve>(random.below(2));
      config.pairs.staging = static_cast<Staging>(random.below(2));
      config.pairs.admission = static_cast<DecodeAdmission>(random.below(2));
      config.pairs.links = static_cast<Links>(random.below(2));
      config.pairs.backfill = random.below(2) == 0;
      config.pairs.lateDecode = random.below(2) == 0;
      config.pairs.planning = static_cast<Planning>(random.below(3));
      config.pairs.overlap = random.below(2) == 0 ? 0 : 0.5;
      if (random.below(4) == 0) config.parameters.set(static_cast<std::uint16_t>(Parameter::kAgeingMs), 500);
      config.latencies = {model(0.05, 20), model(0.1, 30)};
      const PairOptions pairs = config.pairs;
      World w(seed * 7 + 1, std::move(config));
      const std::uint32_t prefills = 1 + random.below(3);
      const std::uint32_t decodes = 1 + random.below(3);
      for (std::uint32_t m = 0; m < prefills + decodes; ++m) {
        const Role role = m < prefills ? Role::kPrefill : Role::kDecode;
        InstanceSpec spec = instance(role, static_cast<std::uint16_t>(random.below(2)),
                                     1'200 + 400 * random.below(4), 2 + random.below(8));
        if (role == Role::kPrefill && random.below(3) == 0) spec.chunkTokens = 1'000;
        REQUIRE(ok(w.scheduler.instance(0, {m, InstanceChange::kAdd, spec})));
      }
      Nanos t = 0;
      std::uint32_t workflows = 0;
      std::vector<std::vector<Ref>> open;
      std::uint32_t calls = 0;
      for (std::uint32_t step = 0; step < 60; ++step) {
        t += random.below(40'000'000);
        const std::uint32_t what = random.below(100);
        if (what < 30) {
          const bool fresh = workflows == 0 || random.below(3) == 0;
          const std::uint32_t id = fresh ? workflows++ : random.below(workflows);
          if (fresh) {
            open.emplace_back();
            const Nanos deadline = random.below(2) == 0 ? kNever : t + 2'000'000'000;
            REQUIRE(ok(w.scheduler.openWorkflow(t, {{id, 0}, 0, -1, 0, deadline, -1})));
          }
          Reveal r{};
          r.workflow = {id, 0};
          r.call = {calls, 0};
          r.sequences = static_cast<std::uint16_t>(1 + random.below(2));
          r.remaining = random.below(3) == 0 ? 500'000'000 : -1;
          r.promptTokens = 100 + random.below(900);
          r.predictedTokens = 1 + random.below(150);
          if (random.below(4) == 0) r.cached[0] = {random.below(prefills), 50, 10};
          std::vector<Ref> parents;
          if (!open[id].empty() && random.below(2) == 0) parents.push_back(open[id].back());
          const Status status = w.scheduler.reveal(t, r, parents);
          if (ok(status)) {
            open[id].push_back(r.call);
            ++calls;
          }
        } else if (what < 50) {
          if (Flight* f = pickFlight(w, [](const Flight& x) { return !x.prefilled; })) {
            REQUIRE(ok(w.scheduler.firstToken(t, {{f->ref, f->epoch}})));
            f->prefilled = true;
          }
        } else if (what < 70) {
          Flight* f = pickFlight(w, [&](const Flight& x) {
            const bool room = x.admitted || pairs.staging == Staging::kUnlimited ||
                              pairs.admission == DecodeAdmission::kEngine;
            return x.prefilled && !x.arrived && room;
          });
          if (f != nullptr) {
            REQUIRE(ok(w.scheduler.transferDone(t, {{f->ref, f->epoch}})));
            f->arrived = true;
          }
        } else if (what < 85) {
          if (Flight* f = pickFlight(w, [](const Flight& x) { return x.arrived || x.prefilled; })) {
            REQUIRE(ok(w.scheduler.finished(t, {{f->ref, f->epoch}, 1 + random.below(200)})));
            w.flights.erase(f->ref.slot);
            ++finished;
          }
        } else if (what < 93) {
          if (Flight* f = pickFlight(w, [](const Flight&) { return true; })) {
            const Ref ref = f->ref;
            const CallAttempt attempt{ref, f->epoch};
            const std::uint32_t how = random.below(4);
            Status status;
            if (how == 0) {
              status = w.scheduler.cancel(t, {attempt});
            } else if (how == 1) {
              status = w.scheduler.evicted(t, {attempt, 1 + random.below(50)});
            } else {
              const Leg leg = how == 2 ? Leg::kPrefill : (random.below(2) == 0 ? Leg::kDecode : Leg::kLink);
              const auto kept = static_cast<std::uint8_t>(leg != Leg::kPrefill && !f->arrived ? 1 : 0);
              status = w.scheduler.failed(t, {attempt, FailureClass::kFault, leg, kept, 0, 0, 0});
            }
            REQUIRE(ok(status));
            ++failures;
            const Call& c = w.scheduler.graph().call(ref.slot);
            if (c.generation != ref.generation || !leased(c.state) || c.epoch != f->epoch) {
              w.flights.erase(ref.slot);
            } else {  // rescued: another d, asked for anew
              f->decode = w.scheduler.pairs()->call(ref.slot).decode;
              f->admitted = false;
            }
          }
        } else {
          const std::uint32_t m = random.below(prefills + decodes);
          const auto change = static_cast<InstanceChange>(1 + random.below(3));
          const Status status = w.scheduler.instance(t, {m, change, {}});
          REQUIRE(ok(status));
          for (auto it = w.flights.begin(); it != w.flights.end();) {
            const Call& c = w.scheduler.graph().call(it->first);
            if (!leased(c.state) || c.epoch != it->second.epoch) {
              it = w.flights.erase(it);
              continue;
            }
            const PairCall& pair = w.scheduler.pairs()->call(it->first);
            if (pair.decode != it->second.decode || !pair.admitted) {
              it->second.decode = pair.decode;
              it->second.admitted = pair.admitted;
            }
            ++it;
          }
        }
        if (w.scheduler.planInFlight() && random.below(3) == 0) {
          REQUIRE(ok(w.scheduler.planArrived(t)));
          ++arrived;
        }
        w.decide(t);
      }
      // Everything comes up again and everything ends: the ledgers are empty.
      for (std::uint32_t m = 0; m < prefills + decodes; ++m)
        REQUIRE(ok(w.scheduler.instance(t, {m, InstanceChange::kUp, {}})));
      for (std::uint32_t round = 0; round < 400; ++round) {
        t += 50'000'000;
        if (w.scheduler.planInFlight()) REQUIRE(ok(w.scheduler.planArrived(t)));
        w.decide(t);
        if (w.flights.empty()) break;
        const auto flights = w.flights;
        for (const auto& [slot, f] : flights) {
          const CallAttempt attempt{f.ref, f.epoch};
          if (!f.prefilled) REQUIRE(ok(w.scheduler.firstToken(t, {attempt})));
          REQUIRE(ok(w.scheduler.finished(t, {attempt, 5})));
          w.flights.erase(slot);
        }
      }
      for (std::uint32_t m = 0; m < prefills + decodes; ++m) {
        const Instance& i = w.scheduler.cluster().at(m);
        CAPTURE(seed);
        CHECK(i.ledger.assigned == 0);
        CHECK(i.ledger.reservedKv == 0);
        CHECK(i.ledger.work == 0);
      }
      leases += w.leases;
      admits += w.admits;
    }
    CHECK(leases > 80'000);
    CHECK(admits > 20'000);
    CHECK(finished > 40'000);
    CHECK(failures > 10'000);
    CHECK(arrived > 3'000);
  }

  TEST_CASE("the most urgent of many, against a sorted list") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
      Random random(seed);
      const std::size_t limit = 1 + random.below(12);
      MostUrgent most(limit);
      std::map<std::uint32_t, Nanos> all;
      std::vector<std::uint32_t> inside;
      const auto enter = [&](std::uint32_t s) {
        REQUIRE(std::find(inside.begin(), inside.end(), s) == inside.end());
        inside.push_back(s);
      };
      const auto leave = [&](std::uint32_t s) { REQUIRE(std::erase(inside, s) == 1); };
      for (std::uint32_t step = 0; step < 300; ++step) {
        const std::uint32_t slot = random.below(40);
        const Nanos key = random.below(20);
        if (random.below(100) == 0) {
          all.clear();
          inside.clear();
          most.clear();
        } else if (all.count(slot) == 0) {
          all[slot] = key;
          most.add(slot, key, slot, enter, leave);
        } else if (random.below(2) == 0) {
          all.erase(slot);
          most.remove(slot, enter, leave);
        } else {
          all[slot] = key;
          most.rekey(slot, key, enter, leave);
        }
        std::vector<std::uint32_t> expected;
        for (const auto& [s, k] : all) expected.push_back(s);
        std::sort(expected.begin(), expected.end(), [&](std::uint32_t a, std::uint32_t b) {
          return all[a] != all[b] ? all[a] > all[b] : a < b;
        });
        if (expected.size() > limit) expected.resize(limit);
        std::sort(expected.begin(), expected.end());
        std::sort(inside.begin(), inside.end());
        REQUIRE(inside == expected);
      }
    }
  }

  TEST_CASE("beyond 1,024 waiting calls a plan looks at the most urgent, and all of them are served") {
    for (const char* order : {"ratio", "workflow-fcfs", "srpt"}) {
      SchedulerConfig config;
      REQUIRE(makeOrder(order, &config.order));
      config.binding = Binding::kAtCredit;
      config.lookahead = 0;
      config.latencies = {model(0.05, 20)};
      World w(1, std::move(config));
      for (std::uint32_t m = 0; m < 2; ++m)
        REQUIRE(ok(w.scheduler.instance(
            0, {m, InstanceChange::kAdd,
                instance(m == 0 ? Role::kPrefill : Role::kDecode, 0, 4'000'000, 5'000)})));
      Random random(5);
      constexpr std::uint32_t kCalls = 3'000;
      for (std::uint32_t i = 0; i < kCalls; ++i) {
        const Nanos t = i / 7 * 1'000;
        REQUIRE(ok(w.scheduler.openWorkflow(t, {{i, 0}, 0, -1, 0, kNever, -1})));
        Reveal r{};
        r.workflow = {i, 0};
        r.call = {i, 0};
        r.sequences = 1;
        r.remaining = -1;
        r.promptTokens = 100 + random.below(900);
        r.predictedTokens = 1 + random.below(150);
        REQUIRE(ok(w.scheduler.reveal(t, r, {})));
      }
      Nanos t = 1'000'000;
      w.decide(t);
      CHECK(w.scheduler.pairs()->waiting() == kPlanLimit);
      CHECK(w.scheduler.pairs()->crowd.outside() == kCalls - 1 - kPlanLimit);
      std::uint32_t served = 0;
      while (!w.flights.empty()) {
        const Flight f = w.flights.begin()->second;
        t += 10'000'000;
        REQUIRE(ok(w.scheduler.firstToken(t, {{f.ref, f.epoch}})));
        REQUIRE(ok(w.scheduler.finished(t, {{f.ref, f.epoch}, 3})));
        REQUIRE(ok(w.scheduler.closeWorkflow(t, {{f.ref.slot, 0}})));
        w.flights.erase(w.flights.begin());
        ++served;
        if (served % 500 == 0)
          w.decide(t);  // with an audit
        else
          for (const Decision& d : w.scheduler.decide(t))
            if (d.kind == DecisionKind::kLease)
              w.flights[d.call.slot] = {d.call, d.epoch, d.instance, d.decodeInstance};
      }
      CHECK(served == kCalls);
      CHECK(w.scheduler.pairs()->waiting() == 0);
    }
  }
}
