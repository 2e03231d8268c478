// What the scheduler answers without changing anything: the order of a queue, keys, projections, previews.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "scheduler/scheduler.h"

using namespace laxity;

namespace {

constexpr Nanos kMs = kMillisecond;

LatencyModel model(const LatencyConstants& constants) {
  LatencyModel m;
  REQUIRE(ok(LatencyModel::constants(constants, &m)));
  return m;
}

InstanceSpec spec(Role role = Role::kUnified, std::uint16_t latency = 0, std::uint32_t sequences = 1) {
  InstanceSpec s;
  s.role = role;
  s.latency = latency;
  s.maxSequences = sequences;
  s.kvTokens = 10'000;
  if (role != Role::kUnified) s.linkPerToken = Fine{5'000} << kFineBits;
  return s;
}

/// A prompt token and an iteration take a millisecond each on hardware 0; hardware 1 is slower at both, and
/// hardware 2 at prefills alone.
struct Bench {
  Scheduler s;
  std::uint32_t calls = 0;
  std::uint32_t workflows = 0;

  Bench(std::string_view order, std::string_view placement, Binding binding,
        const std::vector<InstanceSpec>& instances)
      : s(configOf(order, placement, binding, instances.front().role != Role::kUnified)) {
    for (std::uint32_t m = 0; m < instances.size(); ++m)
      REQUIRE(ok(s.instance(0, {m, InstanceChange::kAdd, instances[m]})));
  }
  static SchedulerConfig configOf(std::string_view order, std::string_view placement, Binding binding,
                                  bool pairs) {
    SchedulerConfig c;
    REQUIRE(makeOrder(order, &c.order));
    REQUIRE(makePlacement(pairs ? "round-robin" : placement, &c.placement));
    if (pairs) REQUIRE(makePairPlacement(placement, &c.pairPlacement));
    c.binding = binding;
    c.lookahead = 0;
    c.latencies = {model({0, 1, 1, 0, 0}), model({0, 2, 3, 0, 0}), model({0, 4, 1, 0, 0})};
    return c;
  }
  Ref open(Nanos t, Nanos deadline = kNever, std::uint16_t tenant = 0) {
    const Ref w{workflows++, 1};
    REQUIRE(ok(s.openWorkflow(t, {w, tenant, -1, 0, deadline, -1})));
    return w;
  }
  Reveal draft(Ref w, std::uint32_t prompt, std::uint32_t predicted) const {
    Reveal e{};
    e.call = {calls, 1};
    e.workflow = w;
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = predicted;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    return e;
  }
  Ref reveal(Nanos t, const Reveal& e) {
    REQUIRE(ok(s.reveal(t, e, {})));
    ++calls;
    return e.call;
  }
  Ref reveal(Nanos t, Ref w, std::uint32_t prompt = 10, std::uint32_t predicted = 10) {
    return reveal(t, draft(w, prompt, predicted));
  }
  CallAttempt attempt(Ref c) const { return {c, s.graph().call(c.slot).epoch}; }
  void set(Nanos t, Parameter parameter, double value) {
    REQUIRE(ok(s.setParameter(t, {static_cast<std::uint32_t>(parameter), 0, value})));
  }
};

std::uint32_t upTo(Random& random, std::uint32_t high) { return 1 + random.below(high); }

}  // namespace

TEST_SUITE("views") {
  TEST_CASE("the first of a queue in order is the next lease, and keys fall along it, under every order") {
    int leases = 0;
    for (const std::string_view order : orderNames()) {
      for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
        for (const bool tenantShares : {false, true}) {
          const std::string name(order);
          CAPTURE(name);
          CAPTURE(static_cast<int>(binding));
          CAPTURE(tenantShares);
          Random random(11);
          Bench b(order, "round-robin", binding, {spec()});
          if (tenantShares) b.set(0, Parameter::kTenantSlack, 0.05);
          for (int i = 0; i < 14; ++i) {
            const Ref w = b.open(0, upTo(random, 900) * kMs,
                                 static_cast<std::uint16_t>(random.below(tenantShares ? 3 : 1)));
            for (std::uint32_t k = upTo(random, 2); k > 0; --k)
              b.reveal(0, w, upTo(random, 40), upTo(random, 40));
          }
          Nanos t = 0;
          Ref running = b.s.decide(t).front().call;
          while (b.s.waiting(0) > 0) {
            t += upTo(random, 60) * kMs;
            REQUIRE(ok(b.s.finished(t, {b.attempt(running), upTo(random, 40)})));
            REQUIRE(ok(b.s.place(t)));
            const std::vector<std::uint32_t> queue = b.s.queueInOrder(0);
            REQUIRE(queue.size() == b.s.waiting(0));
            if (!tenantShares) {
              for (std::size_t i = 1; i < queue.size(); ++i)
                REQUIRE(b.s.keyOf(queue[i - 1]) >= b.s.keyOf(queue[i]));
            }
            CHECK(b.s.queueInOrder(0) == queue);
            const auto decisions = b.s.decide(t);
            REQUIRE(decisions.size() == 1);
            running = decisions.front().call;
            REQUIRE(running.slot == queue.front());
            ++leases;
          }
        }
      }
    }
    CHECK(leases > 1000);
  }

  TEST_CASE("calls that are demoted stand last") {
    Bench b("sjf", "round-robin", Binding::kAtReveal, {spec()});
    b.set(0, Parameter::kHopeless, 1);
    const Ref running = b.reveal(0, b.open(0), 10, 10);
    REQUIRE(b.s.decide(0).size() == 1);
    const Ref late = b.reveal(0, b.open(0, 5 * kMs), 2, 2);
    const Ref longer = b.reveal(0, b.open(0), 30, 30);
    b.s.decide(0);
    CHECK(b.s.queueInOrder(0) == std::vector<std::uint32_t>{late.slot, longer.slot});
    b.s.decide(6 * kMs);
    CHECK(b.s.queueInOrder(0) == std::vector<std::uint32_t>{longer.slot, late.slot});
    CHECK(b.s.keyOf(late.slot) == -1e300);
    CHECK(b.s.keyOf(longer.slot) > -1e300);
    REQUIRE(ok(b.s.finished(19 * kMs, {b.attempt(running), 10})));
    CHECK(b.s.decide(19 * kMs).front().call == longer);
  }

  TEST_CASE("a projection is what is left of the prefills there, the call's own and its iterations") {
    Bench b("fcfs", "round-robin", Binding::kAtReveal, {spec()});
    const Ref w = b.open(0);
    const Ref a = b.reveal(0, w, 20, 5);
    const Ref c = b.reveal(0, w, 30, 7);
    REQUIRE(b.s.decide(0).size() == 1);
    CHECK(b.s.projection(a.slot) == 25 * kMs);
    CHECK(b.s.projection(c.slot) == (20 + 30 + 7) * kMs);
    REQUIRE(ok(b.s.timer(8 * kMs)));
    CHECK(b.s.projection(a.slot) == 17 * kMs);
    CHECK(b.s.projection(c.slot) == (12 + 30 + 7) * kMs);
    REQUIRE(ok(b.s.firstToken(22 * kMs, {b.attempt(a)})));
    CHECK(b.s.projection(a.slot) == 5 * kMs);
    CHECK(b.s.projection(c.slot) == (30 + 7) * kMs);
  }

  TEST_CASE("where a call may go anywhere its projection is the best one, with what is cached") {
    Bench b("fcfs", "least-work-left", Binding::kAtCredit, {spec(), spec(Role::kUnified, 1)});
    const Ref w = b.open(0);
    b.reveal(0, w, 100, 10);
    b.reveal(0, w, 100, 10);
    REQUIRE(b.s.decide(0).size() == 2);
    // 100 ms of prefill before it on instance 0, 200 on the other, which is slower as well.
    const Ref c = b.reveal(0, w, 40, 10);
    b.s.decide(0);
    CHECK(b.s.projection(c.slot) == (100 + 40 + 10) * kMs);
    Reveal e = b.draft(w, 4'000, 10);
    e.cached[0] = {1, 3'990, 5'000};
    const Ref cached = b.reveal(0, e);
    b.s.decide(0);
    // 10 tokens to compute at 2 ms and 5 ms to load, instead of 4 s.
    CHECK(b.s.projection(cached.slot) == (200 + 20 + 5 + 30) * kMs);
    REQUIRE(ok(b.s.instance(0, {0, InstanceChange::kDrain, {}})));
    CHECK(b.s.projection(c.slot) == (200 + 80 + 30) * kMs);
  }

  TEST_CASE("a preview names the instance that the call gets when it is revealed, under every placement") {
    int previews = 0;
    for (const std::string_view placement : placementNames()) {
      if (placement == "global-queue") continue;
      for (const char* order : {"fcfs", "llf", "ratio"}) {
        const std::string name = std::string(placement) + " " + order;
        CAPTURE(name);
        Random random(5);
        Bench b(order, placement, Binding::kAtReveal,
                {spec(), spec(Role::kUnified, 1, 2), spec(Role::kUnified, 2), spec(Role::kUnified, 0, 2)});
        Nanos t = 0;
        for (int i = 0; i < 40; ++i) {
          t += random.below(30) * kMs;
          const Ref w = b.open(t, t + upTo(random, 2'000) * kMs);
          Reveal e = b.draft(w, upTo(random, 100), upTo(random, 60));
          if (random.below(3) == 0) e.cached[0] = {random.below(4), upTo(random, e.promptTokens) - 1, 100};
          std::vector<Scheduler::Candidate> candidates;
          std::vector<Scheduler::Candidate> again;
          std::uint32_t chosen = 0;
          std::uint32_t chosenAgain = 0;
          b.s.decide(t);
          REQUIRE(ok(b.s.preview(e, &candidates, &chosen)));
          REQUIRE(ok(b.s.preview(e, &again, &chosenAgain)));
          REQUIRE(chosen == chosenAgain);
          REQUIRE(candidates.size() == 4);
          for (std::size_t m = 0; m < 4; ++m) {
            REQUIRE(candidates[m].delta == again[m].delta);
            REQUIRE(candidates[m].cost.exec > 0);
          }
          const Ref c = b.reveal(t, e);
          REQUIRE(ok(b.s.place(t)));
          REQUIRE(b.s.graph().call(c.slot).instance == chosen);
          const auto same = [&](const Scheduler::Candidate& x) { return x.instance == chosen; };
          const auto mine = std::find_if(candidates.begin(), candidates.end(), same);
          REQUIRE(mine != candidates.end());
          REQUIRE(mine->cost.exec == b.s.graph().call(c.slot).cost.exec);
          REQUIRE(mine->delta == b.s.projection(c.slot));
          ++previews;
          b.s.decide(t);
          REQUIRE(b.s.audit());
        }
      }
    }
    CHECK(previews > 1000);
  }

  TEST_CASE("a preview on a prefill-decode cluster names the prefill instance, under every placement") {
    for (const std::string_view placement : pairPlacementNames()) {
      const std::string name(placement);
      CAPTURE(name);
      Random random(6);
      Bench b("fcfs", placement, Binding::kAtReveal,
              {spec(Role::kPrefill), spec(Role::kPrefill, 1), spec(Role::kDecode, 0, 4),
               spec(Role::kDecode, 1, 4)});
      std::vector<Scheduler::Candidate> candidates;
      std::uint32_t chosen = 0;
      Nanos t = 0;
      for (int i = 0; i < 20; ++i) {
        t += random.below(30) * kMs;
        b.s.decide(t);
        const Reveal e = b.draft(b.open(t, t + kSecond), upTo(random, 100), upTo(random, 60));
        REQUIRE(ok(b.s.preview(e, &candidates, &chosen)));
        REQUIRE(candidates.size() == 2);
        CHECK(candidates[0].instance == 0);
        CHECK(candidates[1].instance == 1);
        const Ref c = b.reveal(t, e);
        REQUIRE(ok(b.s.place(t)));
        REQUIRE(b.s.graph().call(c.slot).instance == chosen);
        CHECK(candidates[chosen].delta == b.s.projection(c.slot));
      }
      // Without a decode instance nothing can serve it.
      for (const std::uint32_t m : {2u, 3u}) REQUIRE(ok(b.s.instance(t, {m, InstanceChange::kDown, {}})));
      REQUIRE(ok(b.s.preview(b.draft(b.open(t), 10, 10), &candidates, &chosen)));
      CHECK(candidates.empty());
      CHECK(chosen == kNoSlot);
    }
  }

  TEST_CASE("a preview knows what cannot be served, and takes a workflow that is not open") {
    Bench b("fcfs", "least-work-left", Binding::kAtReveal, {spec(), spec(Role::kUnified, 1)});
    std::vector<Scheduler::Candidate> candidates;
    std::uint32_t chosen = 0;
    const Ref nobody{kNoSlot, 0};
    REQUIRE(ok(b.s.preview(b.draft(nobody, 10, 10), &candidates, &chosen)));
    CHECK(candidates.size() == 2);
    CHECK(chosen == 0);
    CHECK(candidates[0].delta == 20 * kMs);
    CHECK(candidates[1].delta == 50 * kMs);
    REQUIRE(ok(b.s.preview(b.draft(nobody, 10'001, 10), &candidates, &chosen)));
    CHECK(candidates.empty());
    CHECK(chosen == kNoSlot);
    CHECK(b.s.preview(b.draft({3, 1}, 10, 10), &candidates, &chosen) == Status::kUnknownWorkflow);
    REQUIRE(ok(b.s.instance(0, {0, InstanceChange::kDrain, {}})));
    REQUIRE(ok(b.s.preview(b.draft(nobody, 10, 10), &candidates, &chosen)));
    REQUIRE(candidates.size() == 1);
    CHECK(chosen == 1);
    REQUIRE(ok(b.s.instance(0, {1, InstanceChange::kDrain, {}})));
    REQUIRE(ok(b.s.preview(b.draft(nobody, 10, 10), &candidates, &chosen)));
    CHECK(candidates.empty());
    CHECK(chosen == kNoSlot);
  }

  TEST_CASE("a preview predicts a length that is not given, at most the one said to be high") {
    Bench b("fcfs", "least-work-left", Binding::kAtReveal, {spec()});
    b.set(0, Parameter::kPredictLengths, 1);
    const Ref w = b.open(0);
    Nanos t = 0;
    for (const std::uint32_t output : {4u, 8u}) {
      const Ref c = b.reveal(t, w);
      REQUIRE(b.s.decide(t).size() == 1);
      REQUIRE(ok(b.s.finished(++t, {b.attempt(c), output})));
    }
    b.s.decide(t);
    std::vector<Scheduler::Candidate> candidates;
    std::uint32_t chosen = 0;
    REQUIRE(ok(b.s.preview(b.draft(w, 10, 0), &candidates, &chosen)));
    CHECK(candidates.at(0).delta == (10 + 6) * kMs);
    Reveal e = b.draft(w, 10, 0);
    e.predictedHigh = 5;
    REQUIRE(ok(b.s.preview(e, &candidates, &chosen)));
    CHECK(candidates.at(0).delta == (10 + 5) * kMs);
  }

  TEST_CASE("engines are told the static key in ms, or the deadline where keys move with time") {
    for (const char* order : {"edf", "ratio"}) {
      CAPTURE(order);
      Bench b(order, "round-robin", Binding::kAtReveal, {spec(Role::kUnified, 0, 4)});
      b.set(0, Parameter::kEnginePriority, 1);
      b.reveal(0, b.open(0, 700 * kMs + 1));
      b.reveal(0, b.open(0, 30 * kSecond));
      b.reveal(0, b.open(0, kMaxTime));
      std::vector<std::int32_t> priorities;
      for (int i = 0; i < 3; ++i) {
        const auto decisions = b.s.decide(i * kMs);
        REQUIRE(decisions.size() == 1);
        priorities.push_back(decisions.front().enginePriority);
        REQUIRE(ok(b.s.firstToken((i + 1) * kMs, {b.attempt(decisions.front().call)})));
      }
      std::sort(priorities.begin(), priorities.end());
      CHECK(priorities == std::vector<std::int32_t>{INT32_MIN, -30'000, -700});
    }
  }
}
