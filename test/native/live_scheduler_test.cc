// The scheduler in front of real engines, each rule of its own in a small scene: limits and ages of queues
// and leases, breakers, penalties, samples, learned models, shares of tenants, leases that are taken back.
#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

using namespace laxity;

namespace {

constexpr Nanos kMs = kMillisecond;

LatencyModel model(const LatencyConstants& constants) {
  LatencyModel m;
  REQUIRE(LatencyModel::constants(constants, &m) == Status::kOk);
  return m;
}

/// What a scene expects of a decide, in order.
struct Expected {
  DecisionKind kind;
  Ref call;
  RejectReason reason = RejectReason::kNone;
};
Expected lease(Ref c) { return {DecisionKind::kLease, c}; }
Expected reject(Ref c, RejectReason why) { return {DecisionKind::kReject, c, why}; }
Expected revoke(Ref c, RejectReason why) { return {DecisionKind::kRevoke, c, why}; }

/// Instances that run one call at a time; a prompt token and an iteration take a millisecond each, the first
/// token comes with the prefill: a call of 10 and 10 tokens takes 19.
struct Scene {
  Scheduler s;
  std::uint32_t calls = 0;

  explicit Scene(std::initializer_list<std::pair<Parameter, double>> parameters, const char* order = "fcfs",
                 std::uint32_t instances = 1, std::uint32_t lookahead = 0, bool revocable = false,
                 Binding binding = Binding::kAtCredit, bool migrate = false)
      : s(configOf(order, lookahead, binding, migrate)) {
    for (std::uint32_t m = 0; m < instances; ++m) {
      InstanceEvent e{};
      e.instance = m;
      e.change = InstanceChange::kAdd;
      e.spec.maxSequences = 1;
      e.spec.kvTokens = 10'000;
      e.revocable = revocable ? 1 : 0;
      REQUIRE(s.instance(0, e) == Status::kOk);
    }
    for (const auto& [parameter, value] : parameters) set(0, parameter, value);
    open(0, {0, 1});
  }
  static SchedulerConfig configOf(const char* order, std::uint32_t lookahead, Binding binding, bool migrate) {
    SchedulerConfig c;
    REQUIRE(makeOrder(order, &c.order));
    REQUIRE(makePlacement("least-work-left", &c.placement));
    c.binding = binding;
    c.lookahead = lookahead;
    c.migrate = migrate;
    c.latencies = {model({0, 1, 1, 0, 0})};
    c.templates = {{}};  // declared without stages
    return c;
  }
  void set(Nanos t, Parameter parameter, double value) {
    REQUIRE(s.setParameter(t, {static_cast<std::uint32_t>(parameter), 0, value}) == Status::kOk);
  }
  void open(Nanos t, Ref w, std::uint16_t tenant = 0, Nanos deadline = kNever, std::uint32_t weight = 0,
            std::int16_t stages = -1) {
    REQUIRE(s.openWorkflow(t, {w, tenant, stages, weight, deadline, -1}) == Status::kOk);
  }
  Ref reveal(Nanos t, Ref w = {0, 1}, std::uint32_t prompt = 10, std::uint32_t predicted = 10,
             std::uint16_t stage = 0, std::vector<Ref> parents = {}) {
    Reveal e{};
    e.call = {calls++, 1};
    e.workflow = w;
    e.stage = stage;
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = predicted;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    REQUIRE(s.reveal(t, e, parents) == Status::kOk);
    return e.call;
  }
  CallAttempt attempt(Ref c) const { return {c, s.graph().call(c.slot).epoch}; }
  void first(Nanos t, Ref c) { REQUIRE(s.firstToken(t, {attempt(c)}) == Status::kOk); }
  void finish(Nanos t, Ref c, std::uint32_t output = 10) {
    REQUIRE(s.finished(t, {attempt(c), output}) == Status::kOk);
  }
  void fail(Nanos t, Ref c) {
    REQUIRE(s.failed(t, {attempt(c), FailureClass::kFault, Leg::kUnified, 0, 0, 0, 0}) == Status::kOk);
  }
  bool decides(Nanos t, std::initializer_list<Expected> expected) {
    const auto decisions = s.decide(t);
    bool same = decisions.size() == expected.size();
    for (std::size_t i = 0; i < decisions.size() && same; ++i) {
      const Expected& e = expected.begin()[i];
      same =
          decisions[i].kind == e.kind && decisions[i].call == e.call && decisions[i].rejectReason == e.reason;
    }
    return same && s.audit();
  }
  const Instance& at(std::uint32_t m) const { return s.cluster().at(m); }
};

}  // namespace

TEST_SUITE("live scheduler") {
  TEST_CASE("a full queue refuses the latest, each of them once") {
    Scene scene({{Parameter::kQueueLimit, 1}});
    const Ref a = scene.reveal(0);
    const Ref b = scene.reveal(0);
    const Ref c = scene.reveal(0);
    const Ref d = scene.reveal(0);
    CHECK(scene.decides(
        0, {lease(a), reject(d, RejectReason::kQueueFull), reject(c, RejectReason::kQueueFull)}));
    CHECK(scene.decides(1, {}));
    // Who waited before keeps its place.
    const Ref e = scene.reveal(2);
    CHECK(scene.decides(2, {reject(e, RejectReason::kQueueFull)}));
    scene.finish(3, a);
    CHECK(scene.decides(3, {lease(b)}));
  }

  TEST_CASE("a tenant's limit concerns that tenant alone") {
    Scene scene({{Parameter::kTenantQueueLimit, 1}});
    scene.open(0, {1, 1}, 3);
    const Ref a = scene.reveal(0);
    scene.reveal(0);
    const Ref c = scene.reveal(0);
    const Ref other = scene.reveal(0, {1, 1});
    const Ref another = scene.reveal(0, {1, 1});
    CHECK(scene.decides(
        0, {lease(a), reject(another, RejectReason::kQueueFull), reject(c, RejectReason::kQueueFull)}));
    CHECK(scene.s.graph().call(other.slot).state == CallState::kWaiting);
  }

  TEST_CASE("a wait ends at the timeout, not before") {
    Scene scene({{Parameter::kQueueTimeoutMs, 5}});
    const Ref a = scene.reveal(0);
    const Ref b = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    CHECK(scene.s.nextWake() == 5 * kMs);
    CHECK(scene.decides(5 * kMs - 1, {}));
    CHECK(scene.decides(5 * kMs, {reject(b, RejectReason::kQueueTimeout)}));
  }

  TEST_CASE("a lease is lost at its time to live after the last sign of life") {
    Scene scene({{Parameter::kLeaseTtlMs, 5}});
    const Ref a = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    scene.first(3 * kMs, a);
    CHECK(scene.s.nextWake() == 8 * kMs);
    CHECK(scene.decides(8 * kMs - 1, {}));
    CHECK(scene.decides(8 * kMs, {revoke(a, RejectReason::kLost)}));
  }

  TEST_CASE("a rule that is switched on counts from now; switched off and on, from nothing") {
    Scene scene({});
    const Ref a = scene.reveal(0);
    const Ref b = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    scene.set(2 * kMs, Parameter::kLeaseTtlMs, 5);
    CHECK(scene.s.nextWake() == 7 * kMs);
    scene.set(3 * kMs, Parameter::kLeaseTtlMs, 0);
    CHECK(scene.s.nextWake() == kNever);
    scene.set(4 * kMs, Parameter::kQueueTimeoutMs, 5);
    CHECK(scene.s.nextWake() == 9 * kMs);
    CHECK(scene.s.audit());
    CHECK(scene.decides(9 * kMs, {reject(b, RejectReason::kQueueTimeout)}));
  }

  TEST_CASE("a call is hopeless from the first nanosecond at which it must be late") {
    for (const double hopeless : {1.0, 2.0}) {
      Scene scene({{Parameter::kHopeless, hopeless}});
      scene.open(0, {1, 1}, 0, 24 * kMs);
      const Ref a = scene.reveal(0);
      const Ref late = scene.reveal(0, {1, 1});
      const Ref b = scene.reveal(0);
      CHECK(scene.decides(0, {lease(a)}));
      CHECK(scene.s.nextWake() == 5 * kMs + 1);
      CHECK(scene.decides(5 * kMs, {}));
      if (hopeless == 2) {
        CHECK(scene.decides(5 * kMs + 1, {reject(late, RejectReason::kDeadline)}));
        continue;
      }
      CHECK(scene.decides(5 * kMs + 1, {}));
      CHECK(scene.s.graph().call(late.slot).demoted);
      scene.finish(20 * kMs, a);
      CHECK(scene.decides(20 * kMs, {lease(b)}));
      // With more time it goes before a call that came later.
      const Ref c = scene.reveal(21 * kMs);
      CHECK(scene.s.updateWorkflow(22 * kMs, {{1, 1}, 200 * kMs, -1}) == Status::kOk);
      CHECK_FALSE(scene.s.graph().call(late.slot).demoted);
      scene.finish(40 * kMs, b);
      CHECK(scene.decides(40 * kMs, {lease(late)}));
      scene.finish(60 * kMs, late);
      CHECK(scene.decides(60 * kMs, {lease(c)}));
    }
  }

  TEST_CASE("a breaker opens at the last fault, lets one probe through and closes after it") {
    Scene scene({{Parameter::kBreakerFaults, 2},
                 {Parameter::kBreakerWindowMs, 100},
                 {Parameter::kBreakerOpenMs, 50},
                 {Parameter::kBreakerSuccesses, 1}});
    const Ref a = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    scene.fail(3 * kMs, a);
    CHECK(scene.decides(3 * kMs, {lease(a)}));
    scene.fail(7 * kMs, a);
    const Breaker& breaker = scene.s.live().breakers[0];
    CHECK(breaker.state == BreakerState::kOpen);
    CHECK(breaker.since == 7 * kMs);
    CHECK(scene.at(0).masked);
    CHECK(scene.decides(8 * kMs, {}));
    CHECK(scene.s.nextWake() == 57 * kMs);
    CHECK(scene.decides(57 * kMs - 1, {}));
    const Ref b = scene.reveal(57 * kMs);
    CHECK(scene.decides(57 * kMs, {lease(a)}));
    CHECK(breaker.probe == a.slot);
    CHECK(scene.at(0).masked);
    scene.finish(58 * kMs, a);
    CHECK(breaker.state == BreakerState::kClosed);
    CHECK(scene.decides(58 * kMs, {lease(b)}));
  }

  TEST_CASE("the fault of a lease from before the pause does not open a half-open breaker") {
    Scene scene({{Parameter::kBreakerFaults, 1}, {Parameter::kBreakerOpenMs, 10}}, "fcfs", 1, 1);
    const Ref a = scene.reveal(0);
    const Ref b = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a), lease(b)}));
    scene.fail(1 * kMs, a);
    CHECK(scene.s.timer(11 * kMs) == Status::kOk);
    scene.s.decide(11 * kMs);
    CHECK(scene.s.live().breakers[0].state == BreakerState::kHalfOpen);
    scene.fail(12 * kMs, b);
    CHECK(scene.s.live().breakers[0].state == BreakerState::kHalfOpen);
  }

  TEST_CASE("open breakers are passed over where fewer than the share would be left") {
    for (const double share : {0.5, 0.51}) {
      Scene scene({{Parameter::kBreakerFaults, 1},
                   {Parameter::kBreakerWindowMs, 100},
                   {Parameter::kBreakerOpenMs, 50},
                   {Parameter::kPanicShare, share}},
                  "fcfs", 2);
      const Ref a = scene.reveal(0);
      CHECK(scene.decides(0, {lease(a)}));
      REQUIRE(scene.s.graph().call(a.slot).instance == 0);
      scene.fail(kMs, a);
      CHECK(scene.s.live().breakers[0].state == BreakerState::kOpen);
      CHECK(scene.at(0).masked == (share == 0.5));
      const Ref b = scene.reveal(kMs);
      const auto decisions = scene.s.decide(kMs);
      // Without panic the second call has nowhere to go.
      REQUIRE(decisions.size() == (share == 0.5 ? 1 : 2));
      CHECK(decisions[0].call == a);
      CHECK(decisions[0].instance == 1);
      if (share == 0.5) continue;
      CHECK(decisions[1].call == b);
      CHECK(decisions[1].instance == 0);
      CHECK(decisions[1].leaseReason == LeaseReason::kPanic);
    }
  }

  TEST_CASE("retries have a reserve of ten, and what finished calls add to it") {
    Scene scene({{Parameter::kRetryBudget, 0.5}});
    Nanos t = 0;
    std::uint32_t workflow = 1;
    const auto begin = [&] {
      scene.open(t, {workflow, 1});
      const Ref c = scene.reveal(t, {workflow++, 1});
      REQUIRE(scene.decides(t, {lease(c)}));
      return c;
    };
    for (int i = 0; i < 5; ++i) {
      const Ref c = begin();
      for (int retry = 0; retry < 2; ++retry) {
        scene.fail(++t, c);
        REQUIRE(scene.decides(t, {lease(c)}));
      }
      REQUIRE(scene.s.cancel(++t, {scene.attempt(c)}) == Status::kOk);
    }
    const Ref last = begin();
    scene.fail(++t, last);
    CHECK(scene.s.graph().call(last.slot).state == CallState::kFailed);
    CHECK(scene.s.live().retriesRefused == 1);
    for (const bool enough : {false, true}) {
      scene.finish(++t, begin());
      const Ref c = begin();
      scene.fail(++t, c);
      CHECK((scene.s.graph().call(c.slot).state == CallState::kFailed) == !enough);
      if (enough) CHECK(scene.decides(t, {lease(c)}));
    }
  }

  TEST_CASE("a retry waits a random part of the back-off, which doubles") {
    Scene scene({{Parameter::kRetryBackoffMs, 40}});
    Nanos t = 0;
    double sum = 0;
    Nanos longest = 0;
    for (std::uint32_t i = 1; i <= 200; ++i) {
      scene.open(t, {i, 1});
      const Ref c = scene.reveal(t, {i, 1});
      REQUIRE(scene.decides(t, {lease(c)}));
      for (const Nanos most : {40 * kMs, 80 * kMs}) {
        scene.fail(++t, c);
        const Nanos wake = scene.s.nextWake();
        REQUIRE(wake > t);
        REQUIRE(wake < t + most);
        if (most == 40 * kMs)
          sum += toMs(wake - t);
        else
          longest = std::max(longest, wake - t);
        REQUIRE(scene.decides(wake - 1, {}));
        REQUIRE(scene.decides(wake, {lease(c)}));
        t = wake;
      }
      scene.finish(++t, c);
    }
    CHECK(sum / 200 > 17);
    CHECK(sum / 200 < 23);
    CHECK(longest > 70 * kMs);
  }

  TEST_CASE("a call that ended while it was backing off does not come back") {
    Scene scene({{Parameter::kRetryBackoffMs, 40}});
    const Ref a = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    scene.fail(1, a);
    CHECK(scene.s.cancel(2, {scene.attempt(a)}) == Status::kOk);
    CHECK(scene.decides(50 * kMs, {}));
    CHECK(scene.s.nextWake() == kNever);
  }

  TEST_CASE("progress is a sign of life; with a token the prefill is over") {
    Scene scene({{Parameter::kLeaseTtlMs, 5}});
    const Ref a = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    CHECK(scene.s.progress(3 * kMs, {scene.attempt(a), 0}) == Status::kOk);
    CHECK(scene.s.nextWake() == 8 * kMs);
    CHECK(scene.s.graph().call(a.slot).state == CallState::kPrefilling);
    CHECK(scene.s.progress(7 * kMs, {scene.attempt(a), 2}) == Status::kOk);
    CHECK(scene.s.nextWake() == 12 * kMs);
    CHECK(scene.s.graph().call(a.slot).state == CallState::kDecoding);
    CHECK(scene.decides(12 * kMs, {revoke(a, RejectReason::kLost)}));
  }

  TEST_CASE("a retry is assigned to another instance than the one that failed it, where there is one") {
    for (const std::uint32_t instances : {1u, 2u}) {
      Scene scene({{Parameter::kLeaseTtlMs, 1e9}}, "fcfs", instances, 0, false, Binding::kAtReveal);
      const Ref a = scene.reveal(0);
      CHECK(scene.decides(0, {lease(a)}));
      REQUIRE(scene.s.graph().call(a.slot).instance == 0);
      scene.fail(kMs, a);
      CHECK(scene.decides(kMs, {lease(a)}));
      CHECK(scene.s.graph().call(a.slot).instance == instances - 1);
      CHECK_FALSE(scene.at(0).masked);
    }
  }

  TEST_CASE("a fault counts as outstanding work for as long as a call would have taken") {
    Scene scene({{Parameter::kFaultPenaltyMs, 100}}, "fcfs", 2);
    const Ref a = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    REQUIRE(scene.s.graph().call(a.slot).instance == 0);
    scene.fail(30 * kMs, a);
    CHECK(scene.at(0).correction == 100 * kMs);
    CHECK(scene.decides(30 * kMs, {lease(a)}));
    CHECK(scene.s.graph().call(a.slot).instance == 1);
    // As if it had gone on: 100 ms after the lease.
    CHECK(scene.s.nextWake() == 100 * kMs);
    scene.s.decide(100 * kMs);
    CHECK(scene.at(0).correction == 0);
    CHECK(scene.at(0).ledger.work == 0);
  }

  TEST_CASE("a sample counts calls that are not ours, until the next one or until it is stale") {
    Scene scene({{Parameter::kTelemetryMs, 50}}, "fcfs", 2);
    const Ref a = scene.reveal(0);  // 19 ms: the mean so far
    CHECK(scene.decides(0, {lease(a)}));
    CHECK(scene.s.telemetry(kMs, {0, 3, 2, 2, 0}) == Status::kOk);
    CHECK(scene.at(0).correction == 3 * 19 * kMs);  // one of the four is ours
    CHECK(scene.s.telemetry(2 * kMs, {0, 2, 9, 2, 0}) == Status::kOk);
    CHECK(scene.at(0).correction == 19 * kMs);  // absent is not counted
    CHECK(scene.s.nextWake() == 51 * kMs);
    scene.s.decide(51 * kMs);  // of the first sample: another one stands
    CHECK(scene.at(0).correction == 19 * kMs);
    scene.s.decide(52 * kMs);
    CHECK(scene.at(0).correction == 0);
  }

  TEST_CASE("a latency model is learned from what is observed only where it says so") {
    for (const bool rules : {false, true}) {
      for (const std::uint32_t learned : {0u, 1u}) {
        Scene scene({});
        if (rules) scene.set(0, Parameter::kLeaseTtlMs, 1e9);  // learning needs no other rule
        CHECK(scene.s.setLatency(0, {0, learned, 0, 1, 1, 0, 0}) == Status::kOk);
        CHECK(scene.s.live().speeds.learns(0) == (learned == 1));
        Nanos t = 0;
        for (int i = 0; i < 64; ++i) {
          const Ref c = scene.reveal(t);
          CHECK(scene.decides(t, {lease(c)}));
          scene.first(t + 40 * kMs, c);
          scene.finish(t + 130 * kMs, c);
          t += 200 * kMs;
        }
        const Ref c = scene.reveal(t);
        const Nanos exec = scene.s.estimatesOf(c.slot)[0].exec;
        // 4 ms a prompt token and 10 ms an iteration, where it is learned.
        CHECK(exec > (learned == 1 ? 120 : 18) * kMs);
        CHECK(exec < (learned == 1 ? 150 : 21) * kMs);
      }
    }
  }

  TEST_CASE("a lease that began before it was watched teaches no speed") {
    Scene scene({});
    const Ref begun = scene.reveal(0);
    const Ref waits = scene.reveal(0);
    CHECK(scene.decides(0, {lease(begun)}));
    // From here on 1 ms a prompt token and an iteration, which is what `waits` takes.
    CHECK(scene.s.setLatency(999 * kMs, {0, 1, 0, 1, 1, 0, 0}) == Status::kOk);
    scene.first(1'100 * kMs, begun);
    scene.finish(1'500 * kMs, begun);
    CHECK(scene.decides(1'500 * kMs, {lease(waits)}));
    scene.first(1'510 * kMs, waits);
    scene.finish(1'519 * kMs, waits);
    CHECK(scene.s.live().speeds.inUse(0).prefillPerTokenMs == 1);
    CHECK(scene.s.live().speeds.inUse(0).decodeBaseMs == 1);
    // What follows is seen from its lease on.
    const Ref next = scene.reveal(2'000 * kMs);
    CHECK(scene.decides(2'000 * kMs, {lease(next)}));
    scene.first(2'040 * kMs, next);
    scene.finish(2'130 * kMs, next);
    CHECK(scene.s.live().speeds.inUse(0).prefillPerTokenMs == doctest::Approx(2.5));
    CHECK(scene.s.live().speeds.inUse(0).decodeBaseMs == doctest::Approx(5.5));
  }

  TEST_CASE("a call that waits where KV is short is not ahead of itself when its times have changed") {
    Scene scene({}, "sjf", 2, 0, false, Binding::kAtReveal, true);
    const Ref a = scene.reveal(0, {0, 1}, 6'000);
    const Ref b = scene.reveal(0, {0, 1}, 5'000);
    const Ref c = scene.reveal(0, {0, 1}, 5'500, 500);
    CHECK(scene.decides(0, {lease(a), lease(b)}));
    const std::uint32_t from = scene.s.graph().call(c.slot).instance;
    CHECK(scene.s.setLatency(kMs, {0, 0, 0, 2, 2, 0, 0}) == Status::kOk);
    // Behind its own entry it would find more KV taken than there is, and one call less behind it (checked as
    // a law).
    scene.finish(2 * kMs, from == scene.s.graph().call(a.slot).instance ? b : a);
    CHECK(scene.decides(2 * kMs, {lease(c)}));
    CHECK(scene.s.graph().call(c.slot).instance != from);
  }

  TEST_CASE("constants that are given end the learning, and with it what was kept for it") {
    Scene scene({});
    CHECK(scene.s.setLatency(0, {0, 1, 0, 1, 1, 0, 0}) == Status::kOk);
    const Ref a = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a)}));
    CHECK(scene.s.live().leases.contains(a.slot));
    CHECK(scene.s.setLatency(kMs, {0, 0, 0, 1, 1, 0, 0}) == Status::kOk);
    CHECK(scene.s.live().leases.empty());
    scene.finish(100 * kMs, a, 10);
    CHECK(scene.decides(100 * kMs, {}));
    CHECK(scene.s.live().speeds.inUse(0).decodeBaseMs == 1);
  }

  TEST_CASE("what tenants got is summed where it is asked for, whatever the rules") {
    for (const bool rules : {false, true}) {
      Scene scene({});
      if (rules) scene.set(0, Parameter::kLeaseTtlMs, 1e9);
      scene.open(0, {1, 1}, 3);
      const Ref unasked = scene.reveal(0, {1, 1}, 10, 10);
      CHECK(scene.decides(0, {lease(unasked)}));
      scene.finish(50 * kMs, unasked, 10);
      CHECK(scene.s.live().attained.empty());
      scene.s.sumAttained();
      const Ref a = scene.reveal(50 * kMs, {1, 1}, 10, 10);
      CHECK(scene.decides(50 * kMs, {lease(a)}));
      scene.finish(100 * kMs, a, 7);
      REQUIRE(scene.s.live().attained.size() == 4);
      CHECK(scene.s.live().attained[3] == 1 * 10 + 2 * 7);
      CHECK(scene.s.live().attained[0] == 0);
    }
  }

  TEST_CASE("a lookahead lease goes back for a more urgent call, and so often only") {
    Scene scene({{Parameter::kLeaseTtlMs, 1e9}}, "sjf", 1, 1, true);
    const Ref running = scene.reveal(0, {0, 1}, 10, 10);
    CHECK(scene.decides(0, {lease(running)}));
    const Ref victim = scene.reveal(0, {0, 1}, 10, 50);
    CHECK(scene.decides(0, {lease(victim)}));
    const Ref longer = scene.reveal(0, {0, 1}, 10, 60);
    CHECK(scene.decides(0, {}));
    const Ref urgent = scene.reveal(0, {0, 1}, 10, 20);
    CHECK(scene.decides(0, {revoke(victim, RejectReason::kRevoked), lease(urgent)}));
    CHECK(scene.s.live().revoked == 1);
    scene.finish(kMs, running);
    CHECK(scene.decides(kMs, {lease(victim)}));
    const Ref again = scene.reveal(2 * kMs, {0, 1}, 10, 5);
    CHECK(scene.decides(2 * kMs, {revoke(victim, RejectReason::kRevoked), lease(again)}));
    scene.finish(3 * kMs, urgent);
    CHECK(scene.decides(3 * kMs, {lease(victim)}));
    scene.reveal(4 * kMs, {0, 1}, 10, 1);
    CHECK(scene.decides(4 * kMs, {}));  // twice is enough
    CHECK(scene.s.graph().call(longer.slot).state == CallState::kWaiting);
  }

  TEST_CASE("an instance that drains gives its lookahead leases back") {
    Scene scene({{Parameter::kLeaseTtlMs, 1e9}}, "fcfs", 1, 1, true);
    const Ref a = scene.reveal(0);
    const Ref b = scene.reveal(0);
    CHECK(scene.decides(0, {lease(a), lease(b)}));
    CHECK(scene.s.instance(kMs, {0, InstanceChange::kDrain, {}}) == Status::kOk);
    CHECK(scene.decides(kMs, {revoke(b, RejectReason::kRevoked)}));
    CHECK(leased(scene.s.graph().call(a.slot).state));
  }

  TEST_CASE("the smallest slack shares service by tenant; true outputs are charged") {
    Scene scene({{Parameter::kTenantSlack, 1e-6}});
    scene.open(0, {1, 1}, 1);
    const Ref first = scene.reveal(0);
    std::vector<Ref> zero;
    std::vector<Ref> one;
    for (int i = 0; i < 4; ++i) zero.push_back(scene.reveal(0));
    for (int i = 0; i < 6; ++i) one.push_back(scene.reveal(0, {1, 1}));
    CHECK(scene.decides(0, {lease(first)}));
    // Predicted 10 tokens, true 40: of 10 + 2 * 40 the other tenant has three calls of 30 before it is level.
    scene.finish(kMs, first, 40);
    const Ref order[] = {one[0], one[1], one[2], zero[0], one[3], zero[1]};
    Nanos t = kMs;
    for (const Ref c : order) {
      CHECK(scene.decides(t, {lease(c)}));
      scene.finish(++t, c);
    }
  }

  TEST_CASE("the weight that a tenant was given last holds when shares are switched on again") {
    Scene scene({{Parameter::kTenantSlack, 1e-6}});
    scene.open(0, {1, 1}, 1, kNever, 5000);
    scene.open(0, {2, 1}, 1, kNever, 2000);
    scene.set(0, Parameter::kTenantSlack, 0);
    scene.set(0, Parameter::kTenantSlack, 1e-6);
    std::vector<Ref> zero;
    std::vector<Ref> one;
    for (int i = 0; i < 4; ++i) zero.push_back(scene.reveal(0));
    for (int i = 0; i < 6; ++i) one.push_back(scene.reveal(0, {1, 1}));
    // Two of the heavier one for each of the other.
    const Ref order[] = {zero[0], one[0], one[1], zero[1], one[2], one[3], zero[2]};
    Nanos t = 0;
    for (const Ref c : order) {
      CHECK(scene.decides(t, {lease(c)}));
      scene.finish(++t, c);
    }
  }

  TEST_CASE("lengths that are not given are predicted from the stage's own") {
    Scene scene({{Parameter::kPredictLengths, 1}});
    Nanos t = 0;
    for (const std::uint32_t output : {4, 8}) {
      const Ref c = scene.reveal(t);
      CHECK(scene.decides(t, {lease(c)}));
      scene.finish(++t, c, output);
    }
    Reveal e{};
    e.call = {scene.calls++, 1};
    e.workflow = {0, 1};
    e.sequences = 1;
    e.promptTokens = 10;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    CHECK(scene.s.reveal(t, e, {}) == Status::kOk);
    CHECK(scene.s.graph().call(e.call.slot).predictedTokens == 6);
    CHECK(scene.s.graph().call(e.call.slot).predictedHigh == 8);
  }

  TEST_CASE("a template without stages is learned from what was served, in the order of the calls") {
    Scene scene({});
    scene.open(0, {1, 1}, 0, kNever, 0, 0);
    Nanos t = 0;
    std::vector<Ref> parents;
    for (std::uint16_t stage = 4; stage > 1; --stage) {
      const Ref c = scene.reveal(t, {1, 1}, 10u * stage, 7u * stage, stage, parents);
      CHECK(scene.decides(t, {lease(c)}));
      scene.finish(++t, c);
      parents = {c};
    }
    CHECK(scene.s.templates()[0].size() == 0);
    CHECK(scene.s.closeWorkflow(++t, {{1, 1}}) == Status::kOk);
    const std::vector<TemplateEntry>& entries = scene.s.templates()[0].entries();
    REQUIRE(entries.size() == 3);
    for (std::uint16_t i = 0; i < 3; ++i) {
      CHECK(entries[i].stage == 4 - i);
      CHECK(entries[i].promptTokens == 10u * (4 - i));
      CHECK(entries[i].outputTokens == 7u * (4 - i));
    }
  }

  TEST_CASE("a learned template takes the lengths that were seen, where lengths are predicted") {
    Scene scene({{Parameter::kPredictLengths, 1}});
    scene.open(0, {1, 1}, 0, kNever, 0, 0);
    Nanos t = 0;
    std::vector<Ref> parents;
    for (std::uint16_t stage = 1; stage < 4; ++stage) {
      const Ref c = scene.reveal(t, {1, 1}, 10, 100, stage, parents);
      CHECK(scene.decides(t, {lease(c)}));
      scene.finish(++t, c, 3u * stage);
      parents = {c};
    }
    CHECK(scene.s.closeWorkflow(++t, {{1, 1}}) == Status::kOk);
    const std::vector<TemplateEntry>& entries = scene.s.templates()[0].entries();
    REQUIRE(entries.size() == 3);
    for (std::uint16_t i = 0; i < 3; ++i) CHECK(entries[i].outputTokens == 3u * (i + 1));
  }

  TEST_CASE("workflows that are open follow a template that has been learned meanwhile") {
    Scene scene({});
    scene.open(0, {1, 1}, 0, kNever, 0, 0);
    scene.open(0, {2, 1}, 0, kNever, 0, 0);
    Nanos t = 0;
    const Ref first = scene.reveal(t, {2, 1}, 10, 10, 1);
    CHECK(scene.decides(t, {lease(first)}));
    scene.finish(++t, first);
    std::vector<Ref> parents;
    for (const std::uint16_t stage : {1, 2, 3}) {
      const Ref c = scene.reveal(t, {1, 1}, 10, 10, stage, parents);
      CHECK(scene.decides(t, {lease(c)}));
      scene.finish(++t, c);
      parents = {c};
    }
    CHECK(scene.s.graph().workflow(2).cursor == 0);
    CHECK(scene.s.closeWorkflow(++t, {{1, 1}}) == Status::kOk);
    // Its one call was the first stage: two are left.
    CHECK(scene.s.graph().workflow(2).cursor == 1);
  }

  TEST_CASE("a workflow of which a call was cancelled teaches nothing") {
    Scene scene({});
    scene.open(0, {1, 1}, 0, kNever, 0, 0);
    const Ref a = scene.reveal(0, {1, 1});
    const Ref b = scene.reveal(0, {1, 1});
    CHECK(scene.decides(0, {lease(a)}));
    scene.finish(1, a);
    CHECK(scene.s.cancel(2, {scene.attempt(b)}) == Status::kOk);
    CHECK(scene.s.closeWorkflow(3, {{1, 1}}) == Status::kOk);
    CHECK(scene.s.templates()[0].size() == 0);
  }

  TEST_CASE("more stages at one position, and more positions, than are counted") {
    TemplateLearner learner;
    for (std::uint16_t stage = 0; stage < TemplateLearner::kStages + 4; ++stage) {
      for (int times = stage >= TemplateLearner::kStages ? 9 : 1; times > 0; --times)
        learner.add(std::vector<TemplateEntry>{{stage, 10, 1}});
    }
    REQUIRE(learner.entries().size() == 1);
    CHECK(learner.entries()[0].stage == 0);
    TemplateLearner deep;
    deep.add(std::vector<TemplateEntry>(TemplateLearner::kPositions + 50, TemplateEntry{1, 10, 1}));
    CHECK(deep.entries().size() == TemplateLearner::kPositions);
  }

  TEST_CASE("a template is taken anew after 1, 2, 4, ... 64 paths and then after every 64th") {
    TemplateLearner learner;
    std::vector<int> due;
    for (int paths = 1; paths <= 200; ++paths) {
      learner.add(std::vector<TemplateEntry>{{1, 10, 1}});
      if (learner.due()) due.push_back(paths);
    }
    CHECK(due == std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128, 192});
  }

  TEST_CASE("the last adapter is one that an instance can serve") {
    Scene scene({});
    InstanceEvent add{};
    add.instance = 1;
    add.change = InstanceChange::kAdd;
    add.spec.maxSequences = 1;
    add.spec.kvTokens = 10'000;
    add.spec.adapters = std::uint64_t{1} << (kMaxAdapters - 1);
    CHECK(scene.s.instance(0, add) == Status::kOk);
    Reveal e{};
    e.call = {0, 1};
    e.workflow = {0, 1};
    e.sequences = 1;
    e.promptTokens = e.predictedTokens = e.predictedHigh = 10;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    e.adapter = kMaxAdapters + 1;
    CHECK(scene.s.reveal(0, e, {}) == Status::kBadValue);
    e.adapter = kMaxAdapters;
    CHECK(scene.s.reveal(0, e, {}) == Status::kOk);
    CHECK(scene.decides(0, {lease(e.call)}));
    CHECK(scene.s.graph().call(0).instance == 1);
  }

  TEST_CASE("a position belongs to a template that half of the paths reached") {
    TemplateLearner learner;
    learner.add(std::vector<TemplateEntry>{{1, 10, 1}, {2, 20, 2}});
    learner.add(std::vector<TemplateEntry>{{1, 30, 3}});
    REQUIRE(learner.entries().size() == 2);
    CHECK(learner.entries()[0].promptTokens == 20);
    CHECK(learner.entries()[0].outputTokens == 2);
    CHECK(learner.entries()[1].stage == 2);
    learner.add(std::vector<TemplateEntry>{{1, 20, 2}});
    CHECK(learner.entries().size() == 1);
  }
}
