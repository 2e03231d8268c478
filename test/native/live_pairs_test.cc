// The rules of real engines on prefill-decode clusters: breakers and probes of both roles, calls that go
// elsewhere than where they failed, leases of pairs that are taken back, KV that waits too long, samples.
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
  REQUIRE(ok(LatencyModel::constants(constants, &m)));
  return m;
}

constexpr std::uint32_t kFastP = 0;
constexpr std::uint32_t kSlowP = 1;
constexpr std::uint32_t kFastD = 2;
constexpr std::uint32_t kSlowD = 3;

/// Where a lease went; {kNoSlot, kNoSlot} without one.
using Pair = std::pair<std::uint32_t, std::uint32_t>;
constexpr Pair kNowhere{kNoSlot, kNoSlot};

/// Two prefill and two decode instances, of each the first one faster. A prompt token takes 1 or 2 ms, an
/// iteration 1 or 3.
struct Scene {
  Scheduler s;
  std::uint32_t calls = 0;
  std::vector<Decision> last;

  struct Spec {
    const char* order = "fcfs";
    const char* placement = "earliest-finish";
    Binding binding = Binding::kAtCredit;
    std::uint32_t lookahead = 0;
    bool revocable = false;
    std::int64_t decodeKv = 10'000;
    PairOptions pairs{};
  };
  Scene(const Spec& spec, std::initializer_list<std::pair<Parameter, double>> parameters)
      : s(configOf(spec)) {
    for (std::uint32_t m = 0; m < 4; ++m) {
      InstanceEvent e{};
      e.instance = m;
      e.change = InstanceChange::kAdd;
      e.spec.role = m < 2 ? Role::kPrefill : Role::kDecode;
      e.spec.latency = static_cast<std::uint16_t>(m % 2);
      e.spec.maxSequences = 8;
      e.spec.kvTokens = m < 2 ? 10'000 : spec.decodeKv;
      e.spec.linkPerToken = Fine{1'000} << kFineBits;
      e.revocable = spec.revocable ? 1 : 0;
      REQUIRE(ok(s.instance(0, e)));
    }
    for (const auto& [parameter, value] : parameters)
      REQUIRE(ok(s.setParameter(0, {static_cast<std::uint32_t>(parameter), 0, value})));
    REQUIRE(ok(s.openWorkflow(0, {{0, 1}, 0, -1, 0, kNever, -1})));
  }
  static SchedulerConfig configOf(const Spec& spec) {
    SchedulerConfig c;
    REQUIRE(makeOrder(spec.order, &c.order));
    REQUIRE(makePairPlacement(spec.placement, &c.pairPlacement));
    c.binding = spec.binding;
    c.lookahead = spec.lookahead;
    c.pairs = spec.pairs;
    c.latencies = {model({0, 1, 1, 0, 0}), model({0, 2, 3, 0, 0})};
    return c;
  }
  Ref reveal(Nanos t, std::uint32_t prompt = 10, std::uint32_t predicted = 10, Ref w = {0, 1},
             Nanos remaining = -1) {
    Reveal e{};
    e.call = {calls++, 1};
    e.workflow = w;
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = predicted;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = remaining;
    REQUIRE(ok(s.reveal(t, e, {})));
    return e.call;
  }
  void decide(Nanos t) {
    const auto decisions = s.decide(t);
    last.assign(decisions.begin(), decisions.end());
    REQUIRE(s.audit());
  }
  /// Of the last decide.
  Pair lease(Ref c) const {
    for (const Decision& d : last) {
      if (d.kind == DecisionKind::kLease && d.call == c) return {d.instance, d.decodeInstance};
    }
    return kNowhere;
  }
  LeaseReason reason(Ref c) const {
    for (const Decision& d : last) {
      if (d.kind == DecisionKind::kLease && d.call == c) return d.leaseReason;
    }
    return LeaseReason::kNone;
  }
  RejectReason revoked(Ref c) const {
    for (const Decision& d : last) {
      if (d.kind == DecisionKind::kRevoke && d.call == c) return d.rejectReason;
    }
    return RejectReason::kNone;
  }
  /// Where it was given room in the last decide.
  std::uint32_t admitted(Ref c) const {
    for (const Decision& d : last) {
      if (d.kind == DecisionKind::kAdmitDecode && d.call == c) return d.decodeInstance;
    }
    return kNoSlot;
  }
  Pair place(Nanos t, Ref c) {
    decide(t);
    return lease(c);
  }
  CallAttempt attempt(Ref c) const { return {c, s.graph().call(c.slot).epoch}; }
  void first(Nanos t, Ref c) { REQUIRE(ok(s.firstToken(t, {attempt(c)}))); }
  void arrived(Nanos t, Ref c) { REQUIRE(ok(s.transferDone(t, {attempt(c)}))); }
  void finish(Nanos t, Ref c) { REQUIRE(ok(s.finished(t, {attempt(c), 10}))); }
  void fail(Nanos t, Ref c, Leg leg, bool kvOnPrefill = false, Nanos retryAfter = 0) {
    const auto failure = retryAfter > 0 ? FailureClass::kBackpressure : FailureClass::kFault;
    REQUIRE(ok(s.failed(t, {attempt(c), failure, leg, kvOnPrefill, 0, 0, retryAfter})));
  }
  BreakerState breaker(std::uint32_t m) const {
    return m < s.live().breakers.size() ? s.live().breakers[m].state : BreakerState::kClosed;
  }
};

const std::initializer_list<std::pair<Parameter, double>> kBreakers = {{Parameter::kBreakerFaults, 1},
                                                                       {Parameter::kBreakerWindowMs, 1000},
                                                                       {Parameter::kBreakerOpenMs, 50},
                                                                       {Parameter::kBreakerSuccesses, 1}};

}  // namespace

TEST_SUITE("live pairs") {
  TEST_CASE("a call goes elsewhere than where its prefill failed, under plans and without") {
    for (const char* placement : {"earliest-finish", "kv-price", "least-loaded", "round-robin", "mooncake"}) {
      for (const Binding binding : {Binding::kAtCredit, Binding::kAtReveal}) {
        CAPTURE(placement);
        CAPTURE(static_cast<int>(binding));
        Scene scene({.placement = placement, .binding = binding}, {{Parameter::kLeaseTtlMs, 1e9}});
        const Ref c = scene.reveal(0);
        const Pair before = scene.place(0, c);
        REQUIRE(before.first < 2);
        scene.fail(3 * kMs, c, Leg::kPrefill);
        const Pair after = scene.place(3 * kMs, c);
        CHECK(after.first == 1 - before.first);
        // What it avoided is forgotten with the lease.
        scene.first(40 * kMs, c);
        scene.arrived(41 * kMs, c);
        scene.decide(41 * kMs);
        scene.finish(90 * kMs, c);
        CHECK(scene.s.live().calls[c.slot].avoid == kNoSlot);
      }
    }
  }

  TEST_CASE("a call whose prefill failed goes back there if nobody else can take it") {
    Scene scene({}, {{Parameter::kLeaseTtlMs, 1e9}});
    REQUIRE(ok(scene.s.instance(0, {kSlowP, InstanceChange::kDown, {}})));
    const Ref c = scene.reveal(0);
    CHECK(scene.place(0, c) == Pair{kFastP, kFastD});
    scene.fail(kMs, c, Leg::kPrefill);
    CHECK(scene.place(kMs, c) == Pair{kFastP, kFastD});
  }

  TEST_CASE("a breaker of p: closed to new calls, one probe against the plan, open to all when its KV came") {
    Scene scene({}, kBreakers);
    const Ref a = scene.reveal(0);
    CHECK(scene.place(0, a) == Pair{kFastP, kFastD});
    scene.fail(5 * kMs, a, Leg::kPrefill);
    CHECK(scene.breaker(kFastP) == BreakerState::kOpen);
    CHECK(scene.place(5 * kMs, a) == Pair{kSlowP, kFastD});
    scene.first(25 * kMs, a);
    scene.arrived(26 * kMs, a);
    const Ref b = scene.reveal(26 * kMs);
    CHECK(scene.place(26 * kMs, b) == Pair{kSlowP, kFastD});
    scene.decide(55 * kMs);
    CHECK(scene.breaker(kFastP) == BreakerState::kHalfOpen);
    const Ref probe = scene.reveal(56 * kMs);
    const Ref next = scene.reveal(56 * kMs);
    CHECK(scene.place(56 * kMs, probe).first == kFastP);
    CHECK(scene.reason(probe) == LeaseReason::kProbe);
    CHECK(scene.lease(next) == kNowhere);
    scene.first(60 * kMs, probe);
    CHECK(scene.breaker(kFastP) == BreakerState::kHalfOpen);
    scene.arrived(61 * kMs, probe);
    CHECK(scene.breaker(kFastP) == BreakerState::kClosed);
    CHECK(scene.place(61 * kMs, next).first == kFastP);
  }

  TEST_CASE("a breaker of p that a slow instance wants probed takes the call from a faster one") {
    Scene scene({}, kBreakers);
    const Ref a = scene.reveal(0, 100);
    const Ref b = scene.reveal(0);
    CHECK(scene.place(0, a).first == kFastP);
    CHECK(scene.lease(b).first == kSlowP);
    scene.fail(kMs, b, Leg::kPrefill);
    scene.first(2 * kMs, a);
    CHECK(scene.place(2 * kMs, b).first == kFastP);
    scene.first(3 * kMs, b);
    scene.decide(51 * kMs);
    CHECK(scene.breaker(kSlowP) == BreakerState::kHalfOpen);
    const Ref probe = scene.reveal(51 * kMs);
    CHECK(scene.place(51 * kMs, probe).first == kSlowP);
    // Its fault opens the breaker again, for another pause.
    scene.fail(52 * kMs, probe, Leg::kPrefill);
    CHECK(scene.breaker(kSlowP) == BreakerState::kOpen);
    CHECK(scene.place(52 * kMs, probe).first == kFastP);
    scene.decide(101 * kMs);
    CHECK(scene.breaker(kSlowP) == BreakerState::kOpen);
    scene.decide(102 * kMs);
    CHECK(scene.breaker(kSlowP) == BreakerState::kHalfOpen);
  }

  TEST_CASE("a breaker of d: KV that is still on p goes to the other one, and one probe comes back") {
    for (const Binding binding : {Binding::kAtCredit, Binding::kAtReveal}) {
      CAPTURE(static_cast<int>(binding));
      Scene scene({.binding = binding}, kBreakers);
      const Ref a = scene.reveal(0);
      CHECK(scene.place(0, a).second == kFastD);
      scene.first(10 * kMs, a);
      scene.fail(11 * kMs, a, Leg::kDecode, true);
      CHECK(scene.breaker(kFastD) == BreakerState::kOpen);
      scene.decide(11 * kMs);
      CHECK(scene.admitted(a) == kSlowD);
      CHECK(scene.s.graph().call(a.slot).epoch == 0);
      scene.arrived(12 * kMs, a);
      const Ref b = scene.reveal(12 * kMs);
      CHECK(scene.place(12 * kMs, b).second == kSlowD);
      scene.first(23 * kMs, b);
      scene.arrived(24 * kMs, b);
      scene.decide(61 * kMs);
      CHECK(scene.breaker(kFastD) == BreakerState::kHalfOpen);
      const Ref probe = scene.reveal(62 * kMs);
      CHECK(scene.place(62 * kMs, probe).second == kFastD);
      CHECK(scene.reason(probe) == LeaseReason::kProbe);
      scene.first(73 * kMs, probe);
      scene.arrived(74 * kMs, probe);
      CHECK(scene.breaker(kFastD) == BreakerState::kHalfOpen);
      const Ref beside = scene.reveal(74 * kMs);
      CHECK(scene.place(74 * kMs, beside).second == kSlowD);
      scene.finish(90 * kMs, probe);
      CHECK(scene.breaker(kFastD) == BreakerState::kClosed);
    }
  }

  TEST_CASE("a call whose d failed goes to the other one with its KV, though the first would be faster") {
    for (const bool other : {true, false}) {
      CAPTURE(other);
      Scene scene({}, {{Parameter::kLeaseTtlMs, 1e9}});
      if (!other) REQUIRE(ok(scene.s.instance(0, {kSlowD, InstanceChange::kDown, {}})));
      const Ref c = scene.reveal(0);
      CHECK(scene.place(0, c) == Pair{kFastP, kFastD});
      scene.first(10 * kMs, c);
      scene.fail(11 * kMs, c, Leg::kDecode, true);
      scene.decide(11 * kMs);
      CHECK(scene.s.graph().call(c.slot).epoch == (other ? 0 : 1));
      if (other)
        CHECK(scene.admitted(c) == kSlowD);
      else
        CHECK(scene.lease(c) == Pair{kFastP, kFastD});
    }
  }

  TEST_CASE("without its last d a call that waits for a prefill is refused, one that is prefilled goes on") {
    Scene scene({.placement = "least-loaded", .binding = Binding::kAtReveal}, {});
    REQUIRE(ok(scene.s.instance(0, {kSlowP, InstanceChange::kDown, {}})));
    REQUIRE(ok(scene.s.instance(0, {kSlowD, InstanceChange::kRemove, {}})));
    const Ref runs = scene.reveal(0);
    const Ref waits = scene.reveal(0);
    CHECK(scene.place(0, runs) == Pair{kFastP, kFastD});
    CHECK(scene.lease(waits) == kNowhere);
    REQUIRE(ok(scene.s.instance(kMs, {kFastD, InstanceChange::kRemove, {}})));
    scene.decide(kMs);
    REQUIRE(scene.last.size() == 1);
    CHECK(scene.last.front().kind == DecisionKind::kReject);
    CHECK(scene.last.front().call == waits);
    CHECK(scene.last.front().rejectReason == RejectReason::kNoInstance);
    // A removed instance takes no more, but ends what it has.
    CHECK(scene.s.graph().call(runs.slot).state == CallState::kPrefilling);
  }

  TEST_CASE("the queue of d goes by the finish that is left there") {
    Scene scene({.order = "ratio", .decodeKv = 1'000, .pairs = {.reserve = Reserve::kLate}}, {});
    REQUIRE(ok(scene.s.instance(0, {kSlowD, InstanceChange::kDown, {}})));
    // Both wait for room on d, the workflow of the longer one since 10 s earlier. Were both projected to end
    // there at one far time, the brief one would go first, whose size is the smaller.
    REQUIRE(ok(scene.s.openWorkflow(0, {{1, 1}, 0, -1, 0, kNever, -1})));
    Nanos t = 10 * kSecond;
    REQUIRE(ok(scene.s.openWorkflow(t, {{2, 1}, 0, -1, 0, kNever, -1})));
    const Ref full = scene.reveal(t, 10, 980);
    REQUIRE(scene.place(t, full).first == kFastP);
    t += 10 * kMs;
    scene.first(t, full);
    scene.decide(t);
    REQUIRE(scene.admitted(full) == kFastD);
    scene.arrived(t, full);
    const Ref brief = scene.reveal(t, 10, 50, {2, 1});
    const Ref longer = scene.reveal(t, 10, 400, {1, 1});
    for (const Ref c : {longer, brief}) {
      REQUIRE(scene.place(t, c) == Pair{kFastP, kFastD});
      t += 20 * kMs;
      scene.first(t, c);
    }
    scene.decide(t);
    REQUIRE(scene.last.empty());
    t += 850 * kMs;
    scene.finish(t, full);
    scene.decide(t);
    REQUIRE(scene.last.size() == 2);
    CHECK(scene.last[0].call == longer);
    CHECK(scene.last[1].call == brief);
  }

  TEST_CASE("the price of KV is that of the time it remembers") {
    for (const double memoryMs : {1.0, 1e6}) {
      CAPTURE(memoryMs);
      Scene scene({.placement = "kv-price", .decodeKv = 1'000},
                  {{Parameter::kKvPrice, 1'000}, {Parameter::kKvPriceMs, memoryMs}});
      const Ref a = scene.reveal(0, 500, 400);
      CHECK(scene.place(0, a).second == kFastD);
      scene.first(500 * kMs, a);
      const Ref b = scene.reveal(600 * kMs);
      CHECK(scene.place(600 * kMs, b).second == (memoryMs == 1 ? kSlowD : kFastD));
    }
  }

  TEST_CASE("the probe of a slow d takes the call from the faster one") {
    Scene scene({}, kBreakers);
    REQUIRE(ok(scene.s.instance(0, {kFastD, InstanceChange::kDrain, {}})));
    const Ref a = scene.reveal(0);
    CHECK(scene.place(0, a).second == kSlowD);
    scene.first(10 * kMs, a);
    REQUIRE(ok(scene.s.instance(10 * kMs, {kFastD, InstanceChange::kUp, {}})));
    scene.arrived(11 * kMs, a);
    // The KV is gone from p: it is prefilled again.
    scene.fail(12 * kMs, a, Leg::kDecode);
    CHECK(scene.s.graph().call(a.slot).epoch == 1);
    CHECK(scene.place(12 * kMs, a).second == kFastD);
    scene.first(23 * kMs, a);
    scene.decide(62 * kMs);
    const Ref probe = scene.reveal(62 * kMs);
    CHECK(scene.place(62 * kMs, probe).second == kSlowD);
    CHECK(scene.reason(probe) == LeaseReason::kProbe);
  }

  TEST_CASE("a fault of d counts as work there that lasts as long as its decode would have") {
    Scene scene({}, {{Parameter::kFaultPenaltyMs, 30}});
    const Ref a = scene.reveal(0);
    scene.decide(0);
    scene.first(10 * kMs, a);
    scene.arrived(11 * kMs, a);
    scene.fail(12 * kMs, a, Leg::kDecode);
    CHECK(scene.s.cluster().at(kFastD).correction == 30 * kMs);
    CHECK(scene.s.cluster().at(kFastP).correction == 0);
    scene.decide(30 * kMs - 1);
    CHECK(scene.s.cluster().at(kFastD).correction == 30 * kMs);
    scene.decide(30 * kMs);
    CHECK(scene.s.cluster().at(kFastD).correction == 0);
  }

  TEST_CASE("a lookahead lease of a pair goes back for a more urgent call, under plans and without") {
    for (const auto& [placement, binding] :
         {std::pair{"earliest-finish", Binding::kAtCredit}, std::pair{"least-loaded", Binding::kAtCredit},
          std::pair{"least-loaded", Binding::kAtReveal}}) {
      for (const char* order : {"sjf", "ratio"}) {
        CAPTURE(placement);
        CAPTURE(static_cast<int>(binding));
        CAPTURE(order);
        Scene scene(
            {.order = order, .placement = placement, .binding = binding, .lookahead = 1, .revocable = true},
            {{Parameter::kLeaseTtlMs, 1e9}});
        REQUIRE(ok(scene.s.instance(0, {kSlowP, InstanceChange::kDown, {}})));
        const Ref running = scene.reveal(0, 10, 10);
        CHECK(scene.place(0, running).first == kFastP);
        const Ref victim = scene.reveal(0, 10, 500);
        CHECK(scene.place(0, victim).first == kFastP);
        const Ref urgent = scene.reveal(0, 10, 5);
        CHECK(scene.place(0, urgent).first == (order == std::string_view("sjf") ? kFastP : kNoSlot));
        if (order != std::string_view("sjf")) continue;
        CHECK(scene.revoked(victim) == RejectReason::kRevoked);
        CHECK(scene.s.live().revoked == 1);
        CHECK(scene.s.graph().call(victim.slot).state == CallState::kWaiting);
        CHECK(scene.s.graph().call(victim.slot).retries == 0);
        // The one that the engine has begun with stays.
        const Ref another = scene.reveal(0, 10, 1);
        CHECK(scene.place(0, another).first == kFastP);
        CHECK(scene.revoked(urgent) == RejectReason::kRevoked);
        CHECK(scene.revoked(running) == RejectReason::kNone);
      }
    }
  }

  TEST_CASE("leases of pairs go back when p or d closes, where both declare it") {
    for (const bool revocable : {true, false}) {
      for (const std::uint32_t closing : {kFastP, kFastD}) {
        CAPTURE(revocable);
        CAPTURE(closing);
        Scene scene({.lookahead = 1, .revocable = revocable}, {{Parameter::kLeaseTtlMs, 1e9}});
        REQUIRE(ok(scene.s.instance(0, {kSlowP, InstanceChange::kDown, {}})));
        const Ref a = scene.reveal(0);
        const Ref b = scene.reveal(0);
        scene.decide(0);
        REQUIRE(scene.lease(a) == Pair{kFastP, kFastD});
        REQUIRE(scene.lease(b) == Pair{kFastP, kFastD});
        REQUIRE(ok(scene.s.instance(kMs, {closing, InstanceChange::kDrain, {}})));
        scene.decide(kMs);
        CHECK(scene.revoked(a) == RejectReason::kNone);
        CHECK(scene.revoked(b) == (revocable ? RejectReason::kRevoked : RejectReason::kNone));
        // Only p closed leaves nobody to prefill it.
        CHECK(scene.lease(b) == (revocable && closing == kFastD ? Pair{kFastP, kSlowD} : kNowhere));
      }
    }
  }

  TEST_CASE("a pause that p asks for lets go of the lease behind, and the failed call counts as older") {
    Scene scene({.lookahead = 1, .revocable = true}, {{Parameter::kLeaseTtlMs, 1e9}});
    REQUIRE(ok(scene.s.instance(0, {kSlowP, InstanceChange::kDown, {}})));
    const Ref a = scene.reveal(0);
    const Ref b = scene.reveal(0);
    scene.decide(0);
    scene.fail(kMs, a, Leg::kPrefill, false, 20 * kMs);
    scene.decide(kMs);
    CHECK(scene.revoked(b) == RejectReason::kRevoked);
    CHECK(scene.lease(a) == kNowhere);
    CHECK(scene.lease(b) == kNowhere);
    CHECK(scene.s.nextWake() == 21 * kMs);
    scene.decide(21 * kMs);
    CHECK(scene.lease(a).first == kFastP);
  }

  TEST_CASE("KV that has waited too long on p for room on d is given up, not before") {
    Scene scene({.decodeKv = 25}, {{Parameter::kKvParkMs, 30}});
    REQUIRE(ok(scene.s.instance(0, {kSlowD, InstanceChange::kDown, {}})));
    const Ref a = scene.reveal(0);
    CHECK(scene.place(0, a) == Pair{kFastP, kFastD});
    CHECK(scene.admitted(a) == kFastD);
    scene.first(10 * kMs, a);
    const Ref b = scene.reveal(10 * kMs);
    scene.decide(10 * kMs);
    REQUIRE(scene.lease(b).second == kFastD);
    CHECK(scene.admitted(b) == kNoSlot);
    scene.first(20 * kMs, b);
    scene.decide(50 * kMs - 1);
    CHECK(scene.revoked(b) == RejectReason::kNone);
    scene.decide(50 * kMs);
    CHECK(scene.revoked(b) == RejectReason::kKvExpired);
    CHECK(scene.s.live().kvExpired == 1);
    CHECK(scene.s.graph().call(b.slot).epoch == 1);
  }

  TEST_CASE("a sample of d: what is not ours keeps plans away until the next one or until it is stale") {
    for (const bool next : {true, false}) {
      Scene scene({}, {{Parameter::kTelemetryMs, 100}});
      const Ref a = scene.reveal(0);
      CHECK(scene.place(0, a).second == kFastD);
      scene.first(10 * kMs, a);
      scene.arrived(11 * kMs, a);
      // One of the three is ours; the KV is full but for less than a call.
      REQUIRE(ok(scene.s.telemetry(12 * kMs, {kFastD, 7, 1, 2, 0.999})));
      const ForeignLoad& foreign = scene.s.pairs()->foreign(kFastD);
      CHECK(foreign.sequences == 2);
      CHECK(foreign.kv == 9'990 - 20);
      CHECK(foreign.until == 112 * kMs);
      // Even where the first call will have left there is no room for this one.
      const Ref b = scene.reveal(12 * kMs, 10, 25);
      CHECK(scene.place(12 * kMs, b).second == kSlowD);
      scene.first(22 * kMs, b);
      if (next) REQUIRE(ok(scene.s.telemetry(30 * kMs, {kFastD, 7, 0, 1, 0.002})));
      scene.decide(next ? 30 * kMs : 112 * kMs);
      CHECK(scene.s.pairs()->foreign(kFastD).sequences == 0);
      CHECK(scene.s.pairs()->foreign(kFastD).kv == 0);
      const Ref c = scene.reveal(113 * kMs);
      CHECK(scene.place(113 * kMs, c).second == kFastD);
    }
  }

  TEST_CASE("a sample of p counts a prefill of mean length for every call that is not ours") {
    Scene scene({}, {{Parameter::kTelemetryMs, 100}});
    const Ref a = scene.reveal(0, 10);
    CHECK(scene.place(0, a).first == kFastP);
    REQUIRE(ok(scene.s.telemetry(kMs, {kFastP, 3, 3, 1, 0})));
    CHECK(scene.s.cluster().at(kFastP).correction == 3 * 10 * kMs);
    scene.first(10 * kMs, a);
    // 30 ms of others and 10 of its own, against 20 on the slow one.
    const Ref b = scene.reveal(10 * kMs);
    CHECK(scene.place(10 * kMs, b).first == kSlowP);
  }

  TEST_CASE("progress with a token says that the KV is on d") {
    Scene scene({}, {{Parameter::kLeaseTtlMs, 50}});
    const Ref a = scene.reveal(0);
    scene.decide(0);
    REQUIRE(ok(scene.s.progress(12 * kMs, {scene.attempt(a), 0})));
    CHECK(scene.s.graph().call(a.slot).state == CallState::kPrefilling);
    REQUIRE(ok(scene.s.progress(13 * kMs, {scene.attempt(a), 1})));
    CHECK(scene.s.graph().call(a.slot).state == CallState::kDecoding);
    CHECK_FALSE(scene.s.pairs()->call(a.slot).onPrefill);
    scene.decide(13 * kMs);
    CHECK(scene.s.nextWake() == 63 * kMs);
  }

  TEST_CASE("the first of the largest workflows that are late go behind the others, within the share") {
    constexpr double kShare = 0.1;
    Scene scene({.order = "ratio"}, {{Parameter::kSacrifice, kShare}, {Parameter::kSacrificeSoft, 0.01}});
    REQUIRE(ok(scene.s.instance(0, {kSlowP, InstanceChange::kDown, {}})));
    std::vector<Nanos> sizes;
    for (std::uint32_t w = 1; w <= 40; ++w) {
      REQUIRE(ok(scene.s.openWorkflow(0, {{w, 1}, 0, -1, 0, kNever, -1})));
      sizes.push_back((w * 17 % 41) * 10 * kMs);  // 10 .. 400 ms, each once
      scene.reveal(0, 10, 10, {w, 1}, sizes.back());
    }
    const auto chosen = [&] {
      std::vector<std::uint32_t> workflows;
      for (std::uint32_t w = 1; w <= 40; ++w) {
        if (scene.s.graph().workflow(w).sacrificed) workflows.push_back(w);
      }
      return workflows;
    };
    scene.decide(0);
    CHECK(chosen().empty());
    REQUIRE(scene.last.front().kind == DecisionKind::kLease);
    // Late, all of them. Four of forty may go, of those at or above the 34th size.
    Ref running = scene.last.front().call;
    Nanos t = 2 * kSecond;
    scene.first(t, running);
    scene.decide(t);
    std::vector<std::uint32_t> expected;
    for (std::uint32_t w = 1; w <= 40 && expected.size() < 4; ++w) {
      if (sizes[w - 1] >= 340 * kMs && scene.s.graph().call(running.slot).workflow != w)
        expected.push_back(w);
    }
    CHECK(chosen() == expected);
    scene.arrived(t, running);
    scene.finish(t, running);
    // Nobody of the others waits for them.
    for (int i = 1; i < 40; ++i) {
      REQUIRE_FALSE(scene.last.empty());
      REQUIRE(scene.last.front().kind == DecisionKind::kLease);
      running = scene.last.front().call;
      CHECK(scene.s.graph().workflow(scene.s.graph().call(running.slot).workflow).sacrificed == (i >= 36));
      t += 10 * kMs;
      scene.first(t, running);
      scene.arrived(t, running);
      scene.finish(t, running);
      scene.decide(t);
    }
    CHECK(scene.last.empty());
  }

  TEST_CASE("another policy: what waits is planned anew, leases stay") {
    Scene scene({}, {});
    REQUIRE(ok(scene.s.instance(0, {kSlowP, InstanceChange::kDown, {}})));
    const Ref a = scene.reveal(0);
    REQUIRE(scene.place(0, a) == Pair{kFastP, kFastD});
    const Ref longer = scene.reveal(0, 10, 90);
    const Ref shorter = scene.reveal(0, 10, 20);
    scene.decide(0);
    const auto indexOf = [](const auto& names, std::string_view name) {
      return static_cast<std::uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
    };
    SetPolicy e{};
    e.order = static_cast<std::uint16_t>(indexOf(orderNames(), "sjf"));
    e.placement = static_cast<std::uint16_t>(indexOf(pairPlacementNames(), "least-loaded"));
    e.binding = 1;
    REQUIRE(ok(scene.s.setPolicy(kMs, e)));
    CHECK(leased(scene.s.graph().call(a.slot).state));
    scene.first(10 * kMs, a);
    CHECK(scene.place(10 * kMs, shorter).first == kFastP);
    CHECK(scene.lease(longer) == kNowhere);
    e.placement = static_cast<std::uint16_t>(pairPlacementNames().size());
    CHECK(scene.s.setPolicy(11 * kMs, e) == Status::kUnknownPolicy);
  }
}
