// The scheduler's contract with its callers: the life of a call, every refusal, failures, instances that come
// and go, and random walks in which refused events must leave no trace.
#include "scheduler/scheduler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/random.h"

using namespace laxity;

namespace {

constexpr Nanos kMs = kMillisecond;

LatencyModel model(const LatencyConstants& constants) {
  LatencyModel m;
  REQUIRE(LatencyModel::constants(constants, &m) == Status::kOk);
  return m;
}

struct Setup {
  const char* order = "fcfs";
  const char* placement = "least-work-left";
  Binding binding = Binding::kAtReveal;
  Feedback feedback = Feedback::kLease;
  std::uint32_t lookahead = 0;
};

SchedulerConfig configOf(const Setup& setup) {
  SchedulerConfig c;
  REQUIRE(makeOrder(setup.order, &c.order));
  REQUIRE(makePlacement(setup.placement, &c.placement));
  c.binding = setup.binding;
  c.feedback = setup.feedback;
  c.lookahead = setup.lookahead;
  c.latencies = {model({0, 1, 1, 0, 0}), model({0, 2, 2, 0, 0})};  // ms per prompt token and per iteration
  c.templates = {{{0, 10, 10}, {1, 20, 10}}};
  return c;
}

InstanceSpec spec(std::int64_t kv = 100, std::uint32_t sequences = 2, std::uint16_t modelName = 0,
                  std::uint16_t latency = 0) {
  InstanceSpec s;
  s.model = modelName;
  s.latency = latency;
  s.maxSequences = sequences;
  s.kvTokens = kv;
  return s;
}

Reveal revealOf(Ref c, Ref w, std::uint32_t prompt = 10, std::uint32_t predicted = 10) {
  Reveal e{};
  e.call = c;
  e.workflow = w;
  e.sequences = 1;
  e.promptTokens = prompt;
  e.predictedTokens = e.predictedHigh = predicted;
  e.cached[0] = e.cached[1] = CachedPrefix{};
  e.remaining = -1;
  return e;
}

/// One scheduler and its events in short form. A workflow is open from the start.
struct Rig {
  Scheduler s;
  EventLog log;
  std::uint32_t calls = 0;

  explicit Rig(const Setup& setup = {}, std::vector<InstanceSpec> specs = {spec()}) : s(configOf(setup)) {
    s.setLog(&log);
    for (std::uint32_t m = 0; m < specs.size(); ++m) add(0, m, specs[m]);
    open(0, {0, 1});
  }
  void add(Nanos t, std::uint32_t m, const InstanceSpec& sp) {
    REQUIRE(s.instance(t, {m, InstanceChange::kAdd, sp}) == Status::kOk);
  }
  Status change(Nanos t, std::uint32_t m, InstanceChange c) { return s.instance(t, {m, c, {}}); }
  void open(Nanos t, Ref w, Nanos deadline = kNever) {
    REQUIRE(s.openWorkflow(t, {w, 0, -1, 0, deadline, -1}) == Status::kOk);
  }
  Ref reveal(Nanos t, std::uint32_t prompt = 10, std::uint32_t predicted = 10, std::vector<Ref> parents = {},
             Ref w = {0, 1}) {
    const Reveal e = revealOf({calls++, 1}, w, prompt, predicted);
    REQUIRE(s.reveal(t, e, parents) == Status::kOk);
    return e.call;
  }
  CallAttempt attempt(Ref c) const { return {c, s.graph().call(c.slot).epoch}; }
  const Call& call(Ref c) const { return s.graph().call(c.slot); }
  CallState state(Ref c) const { return call(c).state; }
  const Ledger& ledger(std::uint32_t m) const { return s.cluster().at(m).ledger; }
  std::vector<Decision> decide(Nanos t) {
    const auto decisions = s.decide(t);
    CHECK(s.audit());
    return {decisions.begin(), decisions.end()};
  }
  /// Decides and expects exactly one lease, of this call on this instance.
  bool leases(Nanos t, Ref c, std::uint32_t m) {
    const std::vector<Decision> d = decide(t);
    return d.size() == 1 && d[0].kind == DecisionKind::kLease && d[0].call == c && d[0].instance == m &&
           d[0].epoch == call(c).epoch;
  }
  bool rejects(Nanos t, Ref c, RejectReason why) {
    const std::vector<Decision> d = decide(t);
    return d.size() == 1 && d[0].kind == DecisionKind::kReject && d[0].call == c && d[0].rejectReason == why;
  }
  Status first(Nanos t, Ref c) { return s.firstToken(t, {attempt(c)}); }
  Status finish(Nanos t, Ref c, std::uint32_t output = 10) { return s.finished(t, {attempt(c), output}); }
  Status cancel(Nanos t, Ref c) { return s.cancel(t, {attempt(c)}); }
  Status evict(Nanos t, Ref c, std::uint32_t generated) { return s.evicted(t, {attempt(c), generated}); }
  Status fail(Nanos t, Ref c, FailureClass why = FailureClass::kFault, std::uint64_t bytes = 0,
              Nanos retryAfter = 0) {
    return s.failed(t, {attempt(c), why, Leg::kUnified, 0, 0, bytes, retryAfter});
  }
  Status set(Nanos t, Parameter p, double value) {
    return s.setParameter(t, {static_cast<std::uint32_t>(p), 0, value});
  }
};

/// Byte for byte; instances by their fields, so that padding (which has a test of its own) does not make this
/// one flicker.
bool sameLogs(const EventLog& a, const EventLog& b) {
  if (a.records().size() != b.records().size()) return false;
  for (std::size_t i = 0; i < a.records().size(); ++i) {
    const EventRecord& x = a.records()[i];
    const EventRecord& y = b.records()[i];
    if (x.header.kind == EventKind::kInstance) {
      if (std::memcmp(&x.header, &y.header, sizeof(EventHeader)) != 0 ||
          x.instance.instance != y.instance.instance || x.instance.change != y.instance.change ||
          !(x.instance.spec == y.instance.spec)) {
        return false;
      }
    } else if (std::memcmp(&x, &y, sizeof(EventRecord)) != 0) {
      return false;
    }
  }
  return true;
}

bool empty(const Ledger& ledger) {
  Ledger none;
  none.prefillsEnd = ledger.prefillsEnd;
  return ledger == none;
}

}  // namespace

TEST_SUITE("life of a call") {
  TEST_CASE("revealed, ready, waiting, leased, first token, finished") {
    Rig r;
    const Ref a = r.reveal(0, 10, 20);
    const Ref b = r.reveal(0, 5, 5, {a});
    CHECK(r.state(a) == CallState::kReady);
    CHECK(r.state(b) == CallState::kRevealed);
    REQUIRE(r.s.place(0) == Status::kOk);
    CHECK(r.state(a) == CallState::kWaiting);
    CHECK(r.call(a).instance == 0);
    CHECK(r.s.waiting(0) == 1);
    CHECK(r.ledger(0).work == 29 * kMs);  // 10 for the prompt, 19 iterations
    CHECK(r.ledger(0).reservedKv == 0);   // a soft assignment reserves nothing
    CHECK(r.leases(1, a, 0));
    CHECK(r.state(a) == CallState::kPrefilling);
    CHECK(r.ledger(0).reservedKv == 30);
    CHECK(r.ledger(0).unprefilled == 1);
    CHECK(r.ledger(0).prefillsEnd == 1 + 10 * kMs);
    CHECK(r.first(12 * kMs, a) == Status::kOk);
    CHECK(r.state(a) == CallState::kDecoding);
    CHECK(r.ledger(0).unprefilled == 0);
    CHECK(r.s.progress(13 * kMs, {r.attempt(a), 3}) == Status::kOk);
    CHECK(r.finish(30 * kMs, a) == Status::kOk);
    CHECK(r.state(a) == CallState::kDone);
    CHECK(r.call(a).finishedAt == 30 * kMs);
    CHECK(r.state(b) == CallState::kReady);
    CHECK(r.call(b).readyAt == 30 * kMs);
    CHECK(empty(r.ledger(0)));
    CHECK(r.leases(30 * kMs, b, 0));
    CHECK(r.finish(40 * kMs, b) == Status::kOk);  // a later event implies the missing first token
    CHECK(empty(r.ledger(0)));
    CHECK(r.s.closeWorkflow(40 * kMs, {{0, 1}}) == Status::kOk);
    CHECK(r.s.graph().liveWorkflows() == 0);
    CHECK(r.state(a) == CallState::kFree);
  }

  TEST_CASE("a call with a tool waits for both, its parents and the tool") {
    Rig r;
    const Ref a = r.reveal(0);
    for (const bool toolFirst : {true, false}) {
      Reveal e = revealOf({r.calls++, 1}, {0, 1});
      e.toolPending = 1;
      const std::vector<Ref> parents{a};
      if (r.state(a) == CallState::kDone) {
        CHECK(r.s.reveal(r.s.now(), e, parents) == Status::kOk);
        CHECK(r.state(e.call) == CallState::kRevealed);
        CHECK(r.s.toolDone(9 * kMs, {r.attempt(e.call)}) == Status::kOk);
        CHECK(r.state(e.call) == CallState::kReady);
        CHECK(r.call(e.call).readyAt == 9 * kMs);
        CHECK(r.s.toolDone(9 * kMs, {r.attempt(e.call)}) == Status::kBadState);
        continue;
      }
      CHECK(toolFirst);
      CHECK(r.s.reveal(0, e, parents) == Status::kOk);
      CHECK(r.s.toolDone(1, {r.attempt(e.call)}) == Status::kOk);
      CHECK(r.state(e.call) == CallState::kRevealed);
      r.decide(2);
      CHECK(r.finish(5 * kMs, a) == Status::kOk);
      CHECK(r.state(e.call) == CallState::kReady);
      CHECK(r.call(e.call).readyAt == 5 * kMs);
    }
  }

  TEST_CASE("cancel in every state frees what the call held and lets the next one go") {
    for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
      for (int state = 0; state < 6; ++state) {
        CAPTURE(state);
        Setup setup;
        setup.binding = binding;
        Rig r(setup, {spec(100, 1)});
        const Ref parent = r.reveal(0);
        const Ref victim = r.reveal(0, 10, 10, state == 0 ? std::vector<Ref>{parent} : std::vector<Ref>{});
        CHECK(r.cancel(0, parent) == (state == 0 ? Status::kOk : Status::kOk));
        if (state == 0) {  // its only parent is over, so it is ready; a second one holds a call in Revealed
          r.decide(0);
        }
        const Ref blocked = r.reveal(0, 10, 10, {victim});
        if (state >= 1) r.decide(0);
        if (state == 2) CHECK(r.state(victim) == CallState::kPrefilling);
        if (state == 3) CHECK(r.first(1, victim) == Status::kOk);
        if (state == 4) CHECK(r.cancel(1, blocked) == Status::kOk);  // a call in Revealed
        if (state == 5) {
          CHECK(r.evict(1, victim, 1) == Status::kOk);
          CHECK(r.state(victim) == CallState::kReady);
        }
        const Ref next = r.reveal(2);
        CHECK(r.cancel(2, victim) == Status::kOk);
        CHECK(r.state(victim) == CallState::kCancelled);
        CHECK(r.cancel(2, victim) == Status::kStale);
        CHECK(r.s.audit());
        std::uint32_t leased = 0;
        for (const Decision& d : r.decide(3)) leased += d.kind == DecisionKind::kLease ? 1 : 0;
        CHECK(leased == 1);
        CHECK((r.state(next) == CallState::kPrefilling || r.state(blocked) == CallState::kPrefilling));
        CHECK(r.s.closeWorkflow(4, {{0, 1}}) == Status::kOk);
        for (const Ref c : {next, blocked}) {
          if (leased && r.state(c) == CallState::kPrefilling) CHECK(r.finish(5, c) == Status::kOk);
        }
        CHECK(empty(r.ledger(0)));
        CHECK(r.s.graph().liveWorkflows() == 0);
      }
    }
  }

  TEST_CASE("cancelling a call that has no home") {
    Rig r;
    const Ref a = r.reveal(0);
    REQUIRE(r.change(0, 0, InstanceChange::kDrain) == Status::kOk);
    CHECK(r.decide(0).empty());
    CHECK(r.state(a) == CallState::kReady);
    CHECK(r.cancel(1, a) == Status::kOk);
    REQUIRE(r.change(2, 0, InstanceChange::kUp) == Status::kOk);
    CHECK(r.decide(2).empty());
  }

  TEST_CASE(
      "closing a workflow cancels what is not leased, the rest ends on its own, then the slots are free") {
    Rig r({}, {spec(100, 1)});
    const Ref a = r.reveal(0);
    const Ref b = r.reveal(0);
    const Ref c = r.reveal(0, 10, 10, {a});
    CHECK(r.leases(0, a, 0));
    CHECK(r.s.closeWorkflow(1, {{0, 1}}) == Status::kOk);
    CHECK(r.state(a) == CallState::kPrefilling);
    CHECK(r.state(b) == CallState::kCancelled);
    CHECK(r.state(c) == CallState::kCancelled);
    CHECK(r.s.waiting(0) == 0);
    CHECK(r.s.closeWorkflow(1, {{0, 1}}) == Status::kWorkflowClosed);
    CHECK(r.s.reveal(1, revealOf({3, 1}, {0, 1}), {}) == Status::kWorkflowClosed);
    CHECK(r.s.openWorkflow(1, {{0, 2}, 0, -1, 0, kNever, -1}) == Status::kSlotInUse);
    CHECK(r.finish(2, a) == Status::kOk);
    CHECK(r.s.graph().liveWorkflows() == 0);
    CHECK(r.s.closeWorkflow(2, {{0, 1}}) == Status::kStale);
    CHECK(r.s.openWorkflow(2, {{0, 1}, 0, -1, 0, kNever, -1}) == Status::kStale);
    r.open(2, {0, 2});
    CHECK(r.s.reveal(2, revealOf({0, 1}, {0, 2}), {}) == Status::kStale);
    CHECK(r.s.reveal(2, revealOf({0, 2}, {0, 2}), {}) == Status::kOk);
    CHECK(r.s.firstToken(2, {{{0, 1}, 0}}) == Status::kStale);
  }

  TEST_CASE("a decide in the past yields nothing and loses nothing") {
    Rig r;
    const Ref a = r.reveal(10, 500, 10);  // fits nowhere
    const Ref b = r.reveal(10);
    CHECK(r.s.decide(9).empty());
    CHECK(r.s.now() == 10);
    const auto decisions = r.decide(10);
    REQUIRE(decisions.size() == 2);
    CHECK(decisions[0].kind == DecisionKind::kReject);
    CHECK(decisions[0].call == a);
    CHECK(decisions[1].call == b);
    CHECK(r.decide(10).empty());
  }
}

TEST_SUITE("never and not now") {
  TEST_CASE("what nothing can serve is refused when it is revealed, before its parents are done") {
    Rig r;
    const Ref parent = r.reveal(0);
    CHECK(r.leases(0, parent, 0));
    const Ref child = r.reveal(1, 200, 10, {parent});
    CHECK(r.rejects(1, child, RejectReason::kNeverFits));
  }

  TEST_CASE("an instance may hold a single token") {
    Rig r({}, {});
    CHECK(r.s.instance(0, {0, InstanceChange::kAdd, spec(0)}) == Status::kBadValue);
    CHECK(r.s.instance(0, {0, InstanceChange::kAdd, spec(1)}) == Status::kOk);
  }

  TEST_CASE("a deadline can be taken away before the first call, and not after it") {
    Rig r;
    r.open(0, {1, 1}, kSecond);
    CHECK(r.s.updateWorkflow(0, {{1, 1}, kNever, -1}) == Status::kOk);
    r.open(0, {2, 1}, kSecond);
    r.reveal(0, 10, 10, {}, {2, 1});
    CHECK(r.s.updateWorkflow(0, {{2, 1}, kNever, -1}) == Status::kBadState);
  }

  TEST_CASE("NEVER_FITS and NO_INSTANCE are decided at reveal, credit is not") {
    Rig r({}, {spec(100, 1), spec(60, 4, 1)});
    CHECK(r.rejects(0, r.reveal(0, 95, 10), RejectReason::kNeverFits));
    CHECK(r.leases(0, r.reveal(0, 90, 10), 0));
    const Ref waits = r.reveal(0, 90, 10);
    CHECK(r.decide(0).empty());
    CHECK(r.state(waits) == CallState::kWaiting);
    Reveal e = revealOf({r.calls++, 1}, {0, 1});
    e.model = 7;
    REQUIRE(r.s.reveal(0, e, {}) == Status::kOk);
    CHECK(r.rejects(0, e.call, RejectReason::kNoInstance));
    e = revealOf({r.calls++, 1}, {0, 1}, 50, 20);
    e.model = 1;
    REQUIRE(r.s.reveal(0, e, {}) == Status::kOk);
    CHECK(r.rejects(0, e.call, RejectReason::kNeverFits));
    e = revealOf({r.calls++, 1}, {0, 1}, 10, 10);
    e.model = 1;
    e.sequences = 5;  // more at once than any instance runs, though 10 + 5 * 10 fit
    REQUIRE(r.s.reveal(0, e, {}) == Status::kOk);
    CHECK(r.rejects(0, e.call, RejectReason::kNeverFits));
  }

  TEST_CASE("n samples need n sequences and n outputs") {
    Rig r({}, {spec(100, 4)});
    Reveal e = revealOf({r.calls++, 1}, {0, 1}, 10, 20);
    e.sequences = 3;
    REQUIRE(r.s.reveal(0, e, {}) == Status::kOk);
    CHECK(r.leases(0, e.call, 0));
    CHECK(r.ledger(0).leased == 3);
    CHECK(r.ledger(0).reservedKv == 70);
    CHECK(r.first(1, e.call) == Status::kOk);
    Reveal two = revealOf({r.calls++, 1}, {0, 1}, 5, 5);
    two.sequences = 2;
    REQUIRE(r.s.reveal(1, two, {}) == Status::kOk);
    CHECK(r.decide(1).empty());
    CHECK(r.finish(2, e.call) == Status::kOk);
    CHECK(r.leases(2, two.call, 0));
  }

  TEST_CASE("a removal is checked against all who wait") {
    for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
      Setup setup;
      setup.binding = binding;
      Rig r(setup, {spec(100, 1), spec(50, 1)});
      const Ref large = r.reveal(0, 60, 10);
      CHECK(r.leases(0, large, 0));
      const Ref large2 = r.reveal(0, 60, 10);
      CHECK(r.decide(0).empty());
      const Ref child = r.reveal(0, 60, 10, {large});
      CHECK(r.change(1, 0, InstanceChange::kRemove) == Status::kOk);
      CHECK(r.rejects(1, large2, RejectReason::kNeverFits));
      CHECK(r.state(large) == CallState::kPrefilling);  // its lease still finishes
      CHECK(r.finish(2, large) == Status::kOk);
      CHECK(r.rejects(2, child, RejectReason::kNeverFits));
      const Ref small = r.reveal(3, 10, 10);
      CHECK(r.leases(3, small, 1));
      const Ref small2 = r.reveal(3, 10, 10);
      CHECK(r.decide(3).empty());
      CHECK(r.change(4, 1, InstanceChange::kRemove) == Status::kOk);
      CHECK(r.rejects(4, small2, RejectReason::kNoInstance));
      CHECK(r.rejects(5, r.reveal(5), RejectReason::kNoInstance));
    }
  }

  TEST_CASE("while the only instance drains or is down calls keep waiting, and go when it is back") {
    for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
      for (const InstanceChange change : {InstanceChange::kDrain, InstanceChange::kDown}) {
        Setup setup;
        setup.binding = binding;
        Rig r(setup);
        CHECK(r.change(0, 0, change) == Status::kOk);
        const Ref a = r.reveal(1);
        CHECK(r.decide(1).empty());
        CHECK(r.change(2, 0, InstanceChange::kUp) == Status::kOk);
        CHECK(r.leases(2, a, 0));
      }
    }
  }

  TEST_CASE("an instance that was removed stays removed until it is added again") {
    for (const InstanceChange change : {InstanceChange::kDrain, InstanceChange::kDown, InstanceChange::kUp}) {
      CAPTURE(static_cast<int>(change));
      Rig r;
      CHECK(r.change(1, 0, InstanceChange::kRemove) == Status::kOk);
      r.change(2, 0, change);
      CHECK(r.s.cluster().at(0).condition == Condition::kRemoved);
      const Ref a = r.reveal(3);
      CHECK(r.rejects(3, a, RejectReason::kNoInstance));
      CHECK(r.s.instance(4, {0, InstanceChange::kAdd, spec()}) == Status::kOk);
      CHECK(r.leases(4, r.reveal(4), 0));
    }
  }

  TEST_CASE("the leases of a removed instance that dies are lost and go elsewhere") {
    Rig r({}, {spec(), spec()});
    const Ref a = r.reveal(0);
    CHECK(r.leases(0, a, 0));
    CHECK(r.change(1, 0, InstanceChange::kRemove) == Status::kOk);
    CHECK(r.change(2, 0, InstanceChange::kDown) == Status::kOk);
    CHECK(r.leases(2, a, 1));
    CHECK(r.call(a).epoch == 1);
    CHECK(empty(r.ledger(0)));
  }

  TEST_CASE("a limit that is lowered does not leave a call at the head of a queue for ever") {
    Rig r({}, {spec(100, 4)});
    const Ref a = r.reveal(0, 10, 20);
    CHECK(r.leases(0, a, 0));
    const Ref b = r.reveal(0, 50, 20);  // waits for the prefill of a
    const Ref c = r.reveal(0, 10, 20);
    CHECK(r.decide(0).empty());
    CHECK(r.set(1, Parameter::kOvercommit, 0.5) == Status::kOk);
    CHECK(r.finish(2, a) == Status::kOk);
    bool rejected = false;
    bool leased = false;
    for (const Decision& d : r.decide(2)) {
      rejected = rejected || (d.call == b && d.kind == DecisionKind::kReject);
      leased = leased || (d.call == c && d.kind == DecisionKind::kLease);
    }
    CHECK(rejected);  // 70 tokens will never fit into 50
    CHECK(leased);
  }

  TEST_CASE("a limit that is raised gives credit at once") {
    Rig r({}, {spec(100, 4)});
    CHECK(r.set(0, Parameter::kOvercommit, 0.5) == Status::kOk);
    const Ref a = r.reveal(0, 10, 20);
    CHECK(r.leases(0, a, 0));
    CHECK(r.first(1, a) == Status::kOk);
    const Ref b = r.reveal(1, 10, 20);
    CHECK(r.decide(1).empty());
    CHECK(r.set(2, Parameter::kOvercommit, 1) == Status::kOk);
    CHECK(r.leases(2, b, 0));
  }

  TEST_CASE("a new horizon factor moves the deadlines it stands for") {
    Setup setup;
    setup.order = "urgency";
    Rig r(setup, {spec(1000, 1)});
    r.open(0, {1, 1}, 300 * kMs);
    r.open(0, {2, 1}, kSecond);
    const Ref running = r.reveal(0, 1, 1, {}, {2, 1});
    CHECK(r.leases(0, running, 0));
    const Ref without = r.reveal(0, 100, 1);           // D = 0 + 2 * 100 ms
    const Ref with = r.reveal(0, 100, 1, {}, {1, 1});  // D = 300 ms
    CHECK(r.decide(0).empty());
    CHECK(r.call(without).budget < r.call(with).budget);
    CHECK(r.set(1, Parameter::kHorizonFactor, 5) ==
          Status::kOk);  // D = 500 ms: the other one is more urgent now
    CHECK(r.finish(1, running, 1) == Status::kOk);
    CHECK(r.leases(1, with, 0));
  }
}

TEST_SUITE("failures") {
  TEST_CASE("faults and backpressure are retried twice with the original debt, then final") {
    for (const FailureClass why : {FailureClass::kFault, FailureClass::kBackpressure}) {
      Rig r;
      const Ref a = r.reveal(5);
      const Ref child = r.reveal(5, 10, 10, {a});
      for (std::uint32_t attempt = 0; attempt < 3; ++attempt) {
        CHECK(r.leases(10 + attempt, a, 0));
        CHECK(r.call(a).epoch == attempt);
        CHECK(r.call(a).readyAt == 5);
        if (attempt == 1)
          CHECK(r.first(10 + attempt, a) == Status::kOk);  // tokens, but none sent to the client
        CHECK(r.fail(10 + attempt, a, why) == Status::kOk);
        CHECK(empty(r.ledger(0)));
        if (attempt < 2) {
          CHECK(r.s.finished(10 + attempt, {{a, attempt}, 10}) == Status::kStale);
          CHECK(r.s.finished(10 + attempt, {{a, attempt + 2}, 10}) == Status::kUnknownCall);
        }
      }
      CHECK(r.state(a) == CallState::kFailed);
      CHECK(r.state(child) == CallState::kRevealed);
    }
  }

  TEST_CASE("client errors, and failures after the client has bytes, are final") {
    for (int what = 0; what < 2; ++what) {
      Rig r;
      const Ref a = r.reveal(0);
      CHECK(r.leases(0, a, 0));
      CHECK(r.fail(1, a, what == 0 ? FailureClass::kClientError : FailureClass::kFault, what == 0 ? 0 : 1) ==
            Status::kOk);
      CHECK(r.state(a) == CallState::kFailed);
      CHECK(r.decide(1).empty());
    }
  }

  TEST_CASE("evictions do not count as failures and the second prefill covers what was generated") {
    Rig r;
    const Ref a = r.reveal(3, 10, 20);
    for (std::uint32_t attempt = 0; attempt < 6; ++attempt) {
      CHECK(r.leases(3, a, 0));
      CHECK(r.evict(3, a, 2) == Status::kOk);
      CHECK(r.call(a).epoch == attempt + 1);
      CHECK(r.call(a).promptTokens == 12 + 2 * attempt);
      CHECK(r.call(a).predictedTokens == 18 - 2 * attempt);
      CHECK(r.call(a).readyAt == 3);
    }
    CHECK(r.leases(4, a, 0));
    CHECK(r.evict(4, a, 30) ==
          Status::kOk);  // outgrown: the expectation is what it has generated, as far as it fits
    CHECK(r.call(a).promptTokens == 52);
    CHECK(r.call(a).predictedTokens == 30);
    CHECK(r.leases(5, a, 0));
    CHECK(r.evict(5, a, 40) == Status::kOk);
    CHECK(r.call(a).predictedTokens == 8);
    CHECK(r.leases(6, a, 0));
    CHECK(r.evict(6, a, 8) == Status::kOk);
    CHECK(r.rejects(6, a, RejectReason::kNeverFits));
    CHECK(empty(r.ledger(0)));
  }

  TEST_CASE("an expectation never makes a feasible call infeasible, with n samples either") {
    Rig r({}, {spec(100, 5)});
    Reveal e = revealOf({r.calls++, 1}, {0, 1}, 10, 10);
    e.sequences = 5;
    REQUIRE(r.s.reveal(0, e, {}) == Status::kOk);
    for (std::uint32_t prompt = 10; prompt + 5 <= 100; prompt += 10) {  // one token for each still fits
      CAPTURE(prompt);
      REQUIRE(r.leases(0, e.call, 0));
      CHECK(r.evict(0, e.call, 10) == Status::kOk);
    }
  }

  TEST_CASE("backpressure with a retry time closes the instance until then and asks for a wake") {
    for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
      Setup setup;
      setup.binding = binding;
      Rig r(setup);
      const Ref a = r.reveal(0);
      CHECK(r.leases(0, a, 0));
      CHECK(r.fail(kMs, a, FailureClass::kBackpressure, 0, 50 * kMs) == Status::kOk);
      CHECK(r.decide(kMs).empty());
      CHECK(r.s.nextWake() == 51 * kMs);
      const Ref b = r.reveal(20 * kMs);
      CHECK(r.decide(20 * kMs).empty());
      CHECK(r.s.timer(51 * kMs - 1) == Status::kOk);
      CHECK(r.decide(51 * kMs - 1).empty());
      CHECK(r.s.timer(51 * kMs) == Status::kOk);
      CHECK(r.leases(51 * kMs, a, 0));
      CHECK(r.s.nextWake() == kNever);
      CHECK(r.state(b) == CallState::kWaiting);
    }
  }

  TEST_CASE("the longer of two retry times holds, and other instances stay open") {
    Setup setup;
    setup.binding = Binding::kAtCredit;
    setup.lookahead = 1;
    Rig r(setup, {spec()});
    const Ref a = r.reveal(0);
    const Ref b = r.reveal(0);
    CHECK(r.decide(0).size() == 2);
    CHECK(r.fail(0, a, FailureClass::kBackpressure, 0, 50 * kMs) == Status::kOk);
    CHECK(r.fail(0, b, FailureClass::kBackpressure, 0, 20 * kMs) == Status::kOk);
    CHECK(r.decide(20 * kMs).empty());
    r.add(30 * kMs, 1, spec());
    CHECK(r.decide(30 * kMs).size() == 2);
    CHECK(r.call(a).instance == 1);
    CHECK(r.call(b).instance == 1);
  }
}

TEST_SUITE("instances that come and go") {
  TEST_CASE("ties of a seed are those of splitmix64") {
    // Its finaliser over the finalised seed, exclusive or the slot.
    const LatencyModel latency = model({0, 1, 1, 0, 0});
    Cluster cluster({latency}, 1);
    for (std::uint32_t m = 0; m < 3; ++m) REQUIRE(cluster.add(m, spec()) == Status::kOk);
    CHECK(cluster.at(0).tie == 0x5e41ab087439611eu);
    CHECK(cluster.at(1).tie == 0xe9fd6049d65af21eu);
    CHECK(cluster.at(2).tie == 0xbcd9dbb49673066bu);
  }

  TEST_CASE("down: leases are lost, return with the next epoch and go elsewhere; waiting calls move too") {
    Rig r({}, {spec(100, 1), spec(100, 1)});
    const Ref a = r.reveal(0);
    const Ref b = r.reveal(0, 10, 12);
    CHECK(r.decide(0).size() == 2);
    const Ref c = r.reveal(0);  // behind a on instance 0
    CHECK(r.decide(0).empty());
    CHECK(r.call(c).instance == 0);
    CHECK(r.first(1, a) == Status::kOk);
    CHECK(r.change(2, 0, InstanceChange::kDown) == Status::kOk);
    CHECK(empty(r.ledger(0)));
    CHECK(r.decide(2).empty());
    for (const Ref moved : {a, c}) {
      CHECK(r.state(moved) == CallState::kWaiting);
      CHECK(r.call(moved).instance == 1);
    }
    CHECK(r.call(a).epoch == 1);
    CHECK(r.call(a).readyAt == 0);
    CHECK(r.call(c).epoch == 0);
    CHECK(r.s.finished(3, {{a, 0}, 10}) == Status::kStale);  // a late word from the lost instance
    CHECK(r.finish(3, b) == Status::kOk);
    CHECK(r.leases(3, a, 1));
    CHECK(r.change(4, 0, InstanceChange::kUp) == Status::kOk);
    CHECK(r.leases(5, r.reveal(5), 0));
  }

  TEST_CASE("drain: leases finish, waiting calls move, nothing new comes") {
    Rig r({}, {spec(100, 1), spec(100, 1)});
    const Ref a = r.reveal(0);
    const Ref b = r.reveal(0, 10, 12);
    CHECK(r.decide(0).size() == 2);
    const Ref c = r.reveal(0);
    CHECK(r.decide(0).empty());
    CHECK(r.call(c).instance == 0);
    CHECK(r.change(1, 0, InstanceChange::kDrain) == Status::kOk);
    CHECK(r.decide(1).empty());
    CHECK(r.state(a) == CallState::kPrefilling);
    CHECK(r.call(c).instance == 1);
    CHECK(r.first(2, a) == Status::kOk);
    CHECK(r.finish(3, a) == Status::kOk);
    CHECK(r.decide(3).empty());
    CHECK(r.finish(4, b) == Status::kOk);
    CHECK(r.leases(4, c, 1));
    CHECK(r.change(5, 0, InstanceChange::kUp) == Status::kOk);
    CHECK(r.leases(5, r.reveal(5), 0));
  }

  TEST_CASE("remove, then add under the same slot: its leases are adopted again") {
    Rig r({}, {spec(100, 2)});
    const Ref a = r.reveal(0, 10, 20);
    CHECK(r.leases(0, a, 0));
    CHECK(r.first(1, a) == Status::kOk);
    CHECK(r.change(2, 0, InstanceChange::kRemove) == Status::kOk);
    CHECK(r.s.instance(3, {0, InstanceChange::kAdd, spec(40, 2, 0, 1)}) ==
          Status::kOk);  // of another kind, smaller
    CHECK(r.ledger(0).reservedKv == 30);
    const Ref b = r.reveal(3, 10, 5);
    CHECK(r.decide(3).empty());  // 30 of 40 tokens are still taken
    CHECK(r.finish(4, a) == Status::kOk);
    CHECK(r.leases(4, b, 0));
    CHECK(r.call(b).cost.prefill == 20 * kMs);  // the price of its new kind
    CHECK(r.finish(5, b) == Status::kOk);
    CHECK(empty(r.ledger(0)));
  }
}

TEST_SUITE("silent first tokens") {
  TEST_CASE("a call that does not stream counts as prefilled after its predicted prefill") {
    Rig r({}, {spec(1000, 8)});
    Reveal e = revealOf({r.calls++, 1}, {0, 1}, 30, 10);
    e.silent = 1;
    REQUIRE(r.s.reveal(0, e, {}) == Status::kOk);
    CHECK(r.leases(0, e.call, 0));
    CHECK(r.s.nextWake() == 30 * kMs);
    const Ref b = r.reveal(0);
    CHECK(r.decide(30 * kMs - 1).empty());
    CHECK(r.s.timer(30 * kMs) == Status::kOk);
    CHECK(r.state(e.call) == CallState::kDecoding);
    CHECK(r.leases(30 * kMs, b, 0));
    CHECK(r.s.nextWake() == kNever);
    CHECK(r.finish(40 * kMs, e.call) == Status::kOk);
  }

  TEST_CASE(
      "prefills queued before it come first; decide fires the timer too; other events make it harmless") {
    Setup setup;
    setup.lookahead = 2;
    Rig r(setup, {spec(1000, 8)});
    std::vector<Ref> calls;
    for (int i = 0; i < 3; ++i) {
      Reveal e = revealOf({r.calls++, 1}, {0, 1}, 10, 10);
      e.silent = 1;
      REQUIRE(r.s.reveal(0, e, {}) == Status::kOk);
      calls.push_back(e.call);
    }
    CHECK(r.decide(0).size() == 3);
    CHECK(r.s.nextWake() == 10 * kMs);
    r.decide(10 * kMs);
    CHECK(r.state(calls[0]) == CallState::kDecoding);
    CHECK(r.state(calls[1]) == CallState::kPrefilling);
    CHECK(r.s.nextWake() == 20 * kMs);
    CHECK(r.fail(15 * kMs, calls[1]) == Status::kOk);  // its timer belongs to an attempt that is over
    CHECK(r.leases(15 * kMs, calls[1], 0));
    CHECK(r.s.timer(20 * kMs) == Status::kOk);
    CHECK(r.state(calls[1]) == CallState::kPrefilling);
    CHECK(r.first(21 * kMs, calls[2]) == Status::kOk);  // seen after all
    CHECK(r.finish(22 * kMs, calls[1]) == Status::kOk);
    for (const Ref c : {calls[0], calls[2]}) CHECK(r.finish(22 * kMs, c) == Status::kOk);
    CHECK(r.s.timer(kSecond) == Status::kOk);
    CHECK(r.s.nextWake() == kNever);
    CHECK(empty(r.ledger(0)));
  }
}

namespace {

InstanceSpec chunkedSpec(std::uint32_t budget) {
  InstanceSpec s = spec(1000, 8);
  s.mode = EngineMode::kChunked;
  s.chunkTokens = budget;
  return s;
}

}  // namespace

TEST_SUITE("engine modes") {
  TEST_CASE("a call that does not stream is assumed prefilled later where decode goes on beside it") {
    InstanceSpec shared = spec(1000, 8);
    shared.mode = EngineMode::kDecodeShare;
    shared.decodeShare = 750;
    // 30 ms of prefill: at a quarter of the speed; and three iterations of ten tokens, each with a decode of
    // 1 ms.
    for (const auto& [sp, end] : {std::pair{shared, 140 * kMs}, std::pair{chunkedSpec(11), 53 * kMs}}) {
      Rig r({}, {sp});
      const Ref a = r.reveal(0);
      CHECK(r.leases(0, a, 0));
      CHECK(r.first(10 * kMs, a) == Status::kOk);
      Reveal e = revealOf({r.calls++, 1}, {0, 1}, 30, 10);
      e.silent = 1;
      REQUIRE(r.s.reveal(20 * kMs, e, {}) == Status::kOk);
      CHECK(r.leases(20 * kMs, e.call, 0));
      CHECK(r.s.nextWake() == end);
      CHECK(r.ledger(0).prefillsEnd == end);
      CHECK(r.s.timer(end) == Status::kOk);
      CHECK(r.state(e.call) == CallState::kDecoding);
      for (const Ref c : {a, e.call}) CHECK(r.finish(end, c) == Status::kOk);
      CHECK(empty(r.ledger(0)));
    }
  }

  TEST_CASE("chunked credit counts tokens, whole until their first token, and what decodes") {
    for (const std::uint32_t lookahead : {0u, 1u}) {
      Setup setup;
      setup.lookahead = lookahead;
      Rig r(setup, {chunkedSpec(100)});
      std::vector<Ref> calls;
      for (int i = 0; i < 6; ++i) calls.push_back(r.reveal(0, 60, 10));
      // 0 and 60 are below the budget of 100, 120 is not; with lookahead the budget of another iteration.
      const auto first = r.decide(0);
      REQUIRE(first.size() == (lookahead == 0 ? 2 : 4));
      for (std::size_t i = 0; i < first.size(); ++i) {
        CHECK(first[i].leaseReason == (i < 2 ? LeaseReason::kBestScore : LeaseReason::kLookahead));
      }
      CHECK(r.first(kMs, calls[0]) == Status::kOk);
      CHECK(r.decide(kMs).size() == 1);
      CHECK(r.ledger(0).unprefilledTokens == (lookahead == 0 ? 120 : 240));
      CHECK(r.ledger(0).running() == 1);
    }
    Setup setup;
    setup.lookahead = 0;
    // Beside one that decodes 98 tokens leave room for one more, 99 do not.
    for (const std::uint32_t prompt : {98u, 99u}) {
      Rig r(setup, {chunkedSpec(100)});
      const Ref a = r.reveal(0);
      CHECK(r.leases(0, a, 0));
      CHECK(r.first(kMs, a) == Status::kOk);
      r.reveal(kMs, prompt, 10);
      r.reveal(kMs, 10, 10);
      CHECK(r.decide(kMs).size() == (prompt == 98 ? 2 : 1));
    }
  }

  TEST_CASE("chunked: an exact capacity gives its tokens; budget that appears is news by itself") {
    Setup setup;
    setup.feedback = Feedback::kBoundary;
    Rig r(setup, {chunkedSpec(50)});
    std::vector<Ref> calls;
    for (int i = 0; i < 5; ++i) calls.push_back(r.reveal(0, 30, 10));
    CHECK(r.decide(0).size() == 2);  // an idle engine has its whole budget: 50, then 20
    CHECK(r.s.capacity(5, {0, 6, 900, 0, 1}) == Status::kOk);
    CHECK(r.decide(5).empty());
    CHECK(r.s.capacity(9, {0, 6, 900, 31, 1}) == Status::kOk);
    CHECK(r.decide(9).size() == 2);  // 31, then 1
    CHECK(r.s.capacity(12, {0, 4, 10, 7, 1}) == Status::kOk);
    CHECK(r.decide(12).empty());  // no KV
    CHECK(r.s.capacity(15, {0, 4, 900, 9, 1}) == Status::kOk);
    CHECK(r.decide(15).empty());  // budget was there before: nothing has touched the queue
    CHECK(r.first(20, calls[0]) == Status::kOk);
    CHECK(r.s.capacity(20, {0, 4, 900, 9, 1}) == Status::kOk);
    CHECK(r.leases(20, calls[4], 0));
  }
}

TEST_SUITE("boundary feedback") {
  TEST_CASE("only an exact capacity of this instant or an empty ledger gives credit") {
    Setup setup;
    setup.feedback = Feedback::kBoundary;
    Rig r(setup, {spec(100, 4)});
    const Ref a = r.reveal(0);
    const Ref b = r.reveal(0);
    CHECK(r.leases(0, a, 0));  // an idle engine needs no report
    CHECK(r.first(10, a) == Status::kOk);
    CHECK(r.decide(10).empty());
    CHECK(r.s.capacity(11, {0, 3, 80, 1, 0}) == Status::kOk);  // a sample
    CHECK(r.decide(11).empty());
    CHECK(r.s.capacity(12, {0, 3, 80, 1, 1}) == Status::kOk);
    CHECK(r.decide(13).empty());  // too late: it was for 12 alone
    CHECK(r.s.capacity(14, {0, 3, 19, 1, 1}) == Status::kOk);
    CHECK(r.decide(14).empty());  // needs 20 tokens
    const Ref c = r.reveal(15, 5, 5);
    CHECK(r.s.capacity(15, {0, 3, 19, 1, 1}) == Status::kOk);
    CHECK(r.decide(15).empty());  // strict head of line
    CHECK(r.cancel(16, c) == Status::kOk);
    CHECK(r.s.capacity(16, {0, 0, 80, 1, 1}) == Status::kOk);
    CHECK(r.decide(16).empty());  // no sequence
    const Ref d = r.reveal(17, 5, 5);
    CHECK(r.s.capacity(17, {0, 3, 80, 0, 1}) == Status::kOk);
    CHECK(r.decide(17).empty());  // no prefill
    CHECK(r.cancel(18, d) == Status::kOk);
    CHECK(r.s.capacity(18, {0, 1, 20, 1, 1}) == Status::kOk);
    CHECK(r.leases(18, b, 0));
  }

  TEST_CASE("a boundary at which nothing is new re-ranks nothing") {
    Setup setup;
    setup.feedback = Feedback::kBoundary;
    Rig r(setup, {spec(100, 4)});
    const Ref a = r.reveal(0);
    CHECK(r.leases(0, a, 0));
    CHECK(r.first(10, a) == Status::kOk);
    const Ref b = r.reveal(10, 60, 30);
    CHECK(r.s.capacity(10, {0, 3, 80, 1, 1}) == Status::kOk);
    CHECK(r.decide(10).empty());
    CHECK(r.s.capacity(11, {0, 3, 90, 1, 1}) == Status::kOk);  // more room, but no event touched the instance
    CHECK(r.decide(11).empty());
    CHECK(r.finish(12, a) == Status::kOk);
    CHECK(r.leases(12, b, 0));
  }
}

namespace {

/// All that can be seen of a scheduler without asking it to decide.
std::string fingerprint(Scheduler& s, const EventLog& log) {
  std::string text = std::to_string(s.now()) + "/" + std::to_string(s.nextWake()) + "/" +
                     std::to_string(s.leases()) + "/" + std::to_string(log.records().size()) + "/" +
                     std::to_string(s.graph().callSlots()) + "/" + std::to_string(s.graph().workflowSlots()) +
                     "/" + std::to_string(s.graph().liveWorkflows()) + "/" +
                     std::to_string(s.cluster().size()) + "/" + std::to_string(s.cluster().revision());
  for (const std::uint32_t m : s.touched()) text += " t" + std::to_string(m);
  for (std::uint32_t m = 0; m < s.cluster().size(); ++m) {
    const Instance& i = s.cluster().at(m);
    text += " m" + std::to_string(static_cast<int>(i.condition)) + "," + std::to_string(i.ledger.assigned) +
            "," + std::to_string(i.ledger.work) + "," + std::to_string(i.ledger.leased) + "," +
            std::to_string(i.ledger.reservedKv) + "," + std::to_string(i.ledger.prefillsEnd) + "," +
            std::to_string(i.closedUntil) + "," + std::to_string(i.exact.at) + "," +
            std::to_string(s.waiting(m));
  }
  for (std::uint32_t c = 0; c < s.graph().callSlots(); ++c) {
    const Call& call = s.graph().call(c);
    text += " c" + std::to_string(call.generation) + "," + std::to_string(call.epoch) + "," +
            std::to_string(static_cast<int>(call.state)) + "," + std::to_string(call.promptTokens) + "," +
            std::to_string(call.pendingParents) + "," + std::to_string(call.toolPending);
  }
  for (std::uint32_t w = 0; w < s.graph().workflowSlots(); ++w) {
    const Workflow& flow = s.graph().workflow(w);
    text += " w" + std::to_string(flow.generation) + "," + std::to_string(flow.live) + "," +
            std::to_string(flow.open) + "," + std::to_string(flow.deadline) + "," +
            std::to_string(flow.remaining) + "," + std::to_string(flow.revealed) + "," +
            std::to_string(flow.unfinished);
  }
  return text;
}

}  // namespace

TEST_SUITE("refusals") {
  TEST_CASE("every status a caller can provoke, and a refused event changes nothing") {
    Rig r({}, {spec(100, 1), spec(100, 1, 1)});
    Nanos t = 10;
    const Ref leasedCall = r.reveal(t);
    REQUIRE(r.decide(t).size() == 1);
    const Ref waitingCall = r.reveal(t);
    const Ref revealedCall = r.reveal(t, 10, 10, {waitingCall});
    const Ref doneCall = r.reveal(t, 10, 10);
    REQUIRE(r.cancel(t, doneCall) == Status::kOk);
    REQUIRE(r.decide(t).empty());
    r.open(t, {1, 5});
    REQUIRE(r.s.closeWorkflow(t, {{1, 5}}) == Status::kOk);  // slot 1, generation 5 is over
    r.open(t, {2, 1});
    const Reveal elsewhere = revealOf({r.calls++, 1}, {2, 1});
    REQUIRE(r.s.reveal(t, elsewhere, {}) == Status::kOk);
    REQUIRE(r.decide(t).empty());
    r.add(t, 2, spec());
    REQUIRE(r.change(t, 2, InstanceChange::kRemove) == Status::kOk);
    r.decide(t);
    t = 20;
    REQUIRE(r.s.timer(t) == Status::kOk);
    const std::uint32_t next = r.calls;

    std::string before = fingerprint(r.s, r.log);
    const auto refused = [&](Status got, Status expected) {
      CHECK(got == expected);
      const std::string after = fingerprint(r.s, r.log);
      CHECK(after == before);
      before = after;
      CHECK(r.s.audit());
    };
    const Ref w{0, 1};

    SUBCASE("instances") {
      const auto addAs = [&](std::uint32_t m, InstanceSpec s) {
        return r.s.instance(t, {m, InstanceChange::kAdd, s});
      };
      refused(addAs(0, spec()), Status::kSlotInUse);
      refused(addAs(4, spec()), Status::kSlotOutOfRange);
      refused(addAs(kMaxInstances, spec()), Status::kTooManyInstances);
      refused(addAs(3, spec(0)), Status::kBadValue);
      refused(addAs(3, spec(-5)), Status::kBadValue);
      refused(addAs(3, spec(kMaxKvTokens + 1)), Status::kBadValue);
      refused(addAs(3, spec(100, 0)), Status::kBadValue);
      refused(addAs(3, spec(100, kMaxSequences + 1)), Status::kBadValue);
      refused(addAs(3, spec(100, 1, 0, 2)), Status::kUnknownModel);
      InstanceSpec s = spec();
      s.role = Role::kPrefill;
      refused(addAs(3, s), Status::kUnsupported);
      s.role = Role::kDecode;
      refused(addAs(3, s), Status::kUnsupported);
      s = spec();
      for (const std::uint32_t budget : {0u, kMaxChunkTokens + 1}) {
        s.mode = EngineMode::kChunked;
        s.chunkTokens = budget;
        refused(addAs(3, s), Status::kBadValue);
      }
      for (const std::uint16_t share : {0, 1000, 65535}) {
        s.mode = EngineMode::kDecodeShare;
        s.decodeShare = share;
        refused(addAs(3, s), Status::kBadValue);
      }
      s.mode = static_cast<EngineMode>(3);
      refused(addAs(3, s), Status::kBadValue);
      refused(r.change(t, 3, InstanceChange::kUp), Status::kUnknownInstance);
      refused(r.change(t, kNoSlot, InstanceChange::kDown), Status::kUnknownInstance);
      refused(r.change(t - 1, 0, InstanceChange::kDrain), Status::kClockBackwards);
      refused(r.s.instance(t - 1, {3, InstanceChange::kAdd, spec()}), Status::kClockBackwards);
      refused(r.s.capacity(t, {3, 1, 1, 1, 1}), Status::kUnknownInstance);
      refused(r.s.capacity(t - 1, {0, 1, 1, 1, 1}), Status::kClockBackwards);
    }
    SUBCASE("instances in a state or with a change that cannot be") {
      refused(r.change(t + 1, 2, InstanceChange::kUp), Status::kBadState);  // removed
      refused(r.change(t + 1, 0, static_cast<InstanceChange>(9)), Status::kBadValue);
    }
    SUBCASE("times beyond all limits") {
      const Nanos beyond = kMaxTime + 1;
      refused(r.s.instance(beyond, {3, InstanceChange::kAdd, spec()}), Status::kBadTime);
      refused(r.s.openWorkflow(beyond, {{3, 1}, 0, -1, 0, kNever, -1}), Status::kBadTime);
      refused(r.s.reveal(beyond, revealOf({next, 1}, w), {}), Status::kBadTime);
      refused(r.change(beyond, 0, InstanceChange::kDrain), Status::kBadTime);
      refused(r.s.firstToken(beyond, {r.attempt(leasedCall)}), Status::kBadTime);
      refused(r.s.updateWorkflow(beyond, {w, 5, -1}), Status::kBadTime);
      refused(r.s.closeWorkflow(beyond, {w}), Status::kBadTime);
      refused(r.finish(beyond, leasedCall), Status::kBadTime);
      refused(r.evict(beyond, leasedCall, 1), Status::kBadTime);
      refused(r.fail(beyond, leasedCall), Status::kBadTime);
      refused(r.cancel(beyond, waitingCall), Status::kBadTime);
      refused(r.s.capacity(beyond, {0, 1, 1, 1, 1}), Status::kBadTime);
      refused(r.set(beyond, Parameter::kAlpha, 0.5), Status::kBadTime);
      refused(r.s.timer(beyond), Status::kBadTime);
      CHECK_FALSE(ok(r.s.timer(-1)));
      CHECK(r.s.decide(beyond).empty());
    }
    SUBCASE("workflows") {
      const auto open = [&](Ref ref, std::int16_t stages, Nanos deadline, Nanos remaining) {
        return r.s.openWorkflow(t, {ref, 0, stages, 0, deadline, remaining});
      };
      refused(open({3, 1}, 1, kNever, -1), Status::kBadValue);
      refused(open({3, 1}, -1, -5, -1), Status::kBadTime);
      refused(open({3, 1}, -1, kMaxTime + 1, -1), Status::kBadTime);
      refused(open({3, 1}, -1, kNever, -2), Status::kBadTime);
      refused(open({4, 1}, -1, kNever, -1), Status::kSlotOutOfRange);
      refused(open({kNoSlot, 1}, -1, kNever, -1), Status::kSlotOutOfRange);
      refused(open({0, 2}, -1, kNever, -1), Status::kSlotInUse);
      refused(open({1, 5}, -1, kNever, -1), Status::kStale);
      refused(open({1, 4}, -1, kNever, -1), Status::kStale);
      refused(r.s.openWorkflow(t - 1, {{3, 1}, 0, -1, 0, kNever, -1}), Status::kClockBackwards);
      refused(r.s.updateWorkflow(t, {{9, 1}, -1, -1}), Status::kUnknownWorkflow);
      refused(r.s.updateWorkflow(t, {{0, 2}, -1, -1}), Status::kUnknownWorkflow);
      refused(r.s.updateWorkflow(t, {{0, 0}, -1, -1}), Status::kStale);
      refused(r.s.updateWorkflow(t, {{1, 5}, -1, -1}), Status::kStale);
      refused(r.s.updateWorkflow(t, {w, -2, -1}), Status::kBadTime);
      refused(r.s.updateWorkflow(t, {w, -1, -2}), Status::kBadTime);
      refused(r.s.updateWorkflow(t - 1, {w, -1, -1}), Status::kClockBackwards);
      refused(r.s.closeWorkflow(t, {{9, 1}}), Status::kUnknownWorkflow);
      refused(r.s.closeWorkflow(t, {{1, 5}}), Status::kStale);
      refused(r.s.closeWorkflow(t - 1, {w}), Status::kClockBackwards);
      REQUIRE(r.s.openWorkflow(t, {{3, 1}, 0, -1, 0, 50, -1}) == Status::kOk);
      REQUIRE(r.s.reveal(t, revealOf({next, 1}, {3, 1}), {}) == Status::kOk);
      REQUIRE(r.decide(t).empty());
      before = fingerprint(r.s, r.log);
      refused(r.s.updateWorkflow(t, {{3, 1}, kNever, -1}), Status::kBadState);  // no horizon was kept for it
    }
    SUBCASE("reveals") {
      const auto reveal = [&](auto edit, std::vector<Ref> parents = {}) {
        Reveal e = revealOf({next, 1}, w);
        edit(e);
        return r.s.reveal(t, e, parents);
      };
      refused(reveal([](Reveal& e) { e.workflow = {9, 1}; }), Status::kUnknownWorkflow);
      refused(reveal([](Reveal& e) { e.workflow = {1, 5}; }), Status::kStale);
      refused(reveal([](Reveal& e) { e.promptTokens = 0; }), Status::kBadTokens);
      refused(reveal([](Reveal& e) { e.promptTokens = 100'000'001; }), Status::kBadTokens);
      refused(reveal([](Reveal& e) { e.predictedTokens = 0; }), Status::kBadTokens);
      refused(reveal([](Reveal& e) { e.predictedTokens = 100'000'001; }), Status::kBadTokens);
      refused(reveal([](Reveal& e) { e.predictedHigh = 100'000'001; }), Status::kBadTokens);
      refused(reveal([](Reveal& e) { e.sequences = 0; }), Status::kBadTokens);
      refused(reveal([](Reveal& e) {
                e.sequences = 60'000;
                e.predictedTokens = 2'000;
              }),
              Status::kBadTokens);
      refused(reveal([](Reveal& e) { e.cached[0] = {0, 10}; }), Status::kBadTokens);  // the whole prompt
      refused(reveal([](Reveal& e) { e.cached[1] = {3, 1}; }), Status::kBadTokens);   // no such instance
      refused(reveal([](Reveal& e) { e.remaining = -2; }), Status::kBadTime);
      refused(reveal([](Reveal& e) { e.remaining = kMaxTime + 1; }), Status::kBadTime);
      refused(reveal([](Reveal& e) { e.frontier = 1; }, {leasedCall}), Status::kBadValue);
      refused(reveal([](Reveal& e) { ++e.call.slot; }), Status::kSlotOutOfRange);
      refused(reveal([](Reveal& e) { e.call.slot = kNoSlot; }), Status::kSlotOutOfRange);
      refused(reveal([&](Reveal& e) { e.call = {leasedCall.slot, 2}; }), Status::kSlotInUse);
      refused(reveal([&](Reveal& e) {
                e.call = {doneCall.slot, 2};
              }),
              Status::kSlotInUse);                                           // until its workflow is over
      refused(reveal([](Reveal&) {}, {{next, 1}}), Status::kUnknownParent);  // its own child
      refused(reveal([](Reveal&) {}, {leasedCall, {99, 1}}), Status::kUnknownParent);
      refused(reveal([](Reveal&) {}, {{leasedCall.slot, 2}}), Status::kUnknownParent);
      refused(reveal([](Reveal&) {}, {elsewhere.call}), Status::kUnknownParent);
      refused(r.s.reveal(t - 1, revealOf({next, 1}, w), {}), Status::kClockBackwards);
      REQUIRE(r.s.closeWorkflow(t, {w}) == Status::kOk);
      before = fingerprint(r.s, r.log);
      refused(reveal([](Reveal&) {}), Status::kWorkflowClosed);
    }
    SUBCASE("calls") {
      const CallAttempt a = r.attempt(leasedCall);
      const auto every = [&](const CallAttempt& attempt, Status expected) {
        refused(r.s.firstToken(t, {attempt}), expected);
        refused(r.s.progress(t, {attempt, 1}), expected);
        refused(r.s.finished(t, {attempt, 1}), expected);
        refused(r.s.evicted(t, {attempt, 1}), expected);
        refused(r.s.failed(t, {attempt, FailureClass::kFault, Leg::kUnified, 0, 0, 0, 0}), expected);
      };
      every({{99, 1}, 0}, Status::kUnknownCall);
      every({{leasedCall.slot, 2}, 0}, Status::kUnknownCall);
      every({leasedCall, 1}, Status::kUnknownCall);
      every({{leasedCall.slot, 0}, 0}, Status::kStale);
      every({doneCall, 0}, Status::kStale);
      every({waitingCall, 0}, Status::kBadState);
      every({revealedCall, 0}, Status::kBadState);
      for (const Ref c : {Ref{99, 1}, Ref{leasedCall.slot, 2}}) {
        refused(r.s.cancel(t, {{c, 0}}), Status::kUnknownCall);
        refused(r.s.toolDone(t, {{c, 0}}), Status::kUnknownCall);
      }
      refused(r.s.cancel(t, {{doneCall, 0}}), Status::kStale);
      refused(r.s.toolDone(t, {{doneCall, 0}}), Status::kStale);
      refused(r.s.toolDone(t, {{revealedCall, 0}}), Status::kBadState);
      refused(r.s.toolDone(t, {a}), Status::kBadState);
      refused(r.s.finished(t, {a, 100'000'001}), Status::kBadTokens);
      refused(r.s.evicted(t, {a, 100'000'000}), Status::kBadTokens);
      for (const Leg leg : {Leg::kPrefill, Leg::kDecode, Leg::kLink}) {
        refused(r.s.failed(t, {a, FailureClass::kFault, leg, 1, 0, 0, 0}), Status::kUnsupported);
      }
      refused(r.s.failed(t, {a, static_cast<FailureClass>(3), Leg::kUnified, 0, 0, 0, 0}), Status::kBadValue);
      refused(r.s.failed(t, {a, FailureClass::kFault, Leg::kUnified, 0, 0, 0, -1}), Status::kBadTime);
      refused(r.s.failed(t, {a, FailureClass::kFault, Leg::kUnified, 0, 0, 0, kMaxTime + 1}),
              Status::kBadTime);
      refused(r.s.transferDone(t, {a}), Status::kUnsupported);
      refused(r.s.planArrived(t), Status::kUnsupported);
      for (const Nanos past : {t - 1, Nanos{0}}) {
        refused(r.s.firstToken(past, {a}), Status::kClockBackwards);
        refused(r.s.finished(past, {a, 1}), Status::kClockBackwards);
        refused(r.s.evicted(past, {a, 1}), Status::kClockBackwards);
        refused(r.s.failed(past, {a, FailureClass::kFault, Leg::kUnified, 0, 0, 0, 0}),
                Status::kClockBackwards);
        refused(r.s.cancel(past, {a}), Status::kClockBackwards);
        refused(r.s.progress(past, {a, 1}), Status::kClockBackwards);
        refused(r.s.timer(past), Status::kClockBackwards);
      }
    }
    SUBCASE("parameters and records") {
      refused(r.s.setParameter(t, {static_cast<std::uint32_t>(Parameter::kCount), 0, 1}), Status::kBadValue);
      refused(r.s.setParameter(t, {0x10000, 0, 0.5}), Status::kBadValue);
      refused(r.set(t, Parameter::kAlpha, 1.1), Status::kBadValue);
      refused(r.set(t, Parameter::kAlpha, std::numeric_limits<double>::quiet_NaN()), Status::kBadValue);
      refused(r.set(t - 1, Parameter::kAlpha, 0.5), Status::kClockBackwards);
      EventRecord record;
      record.header.t = t;
      for (const EventKind kind : {EventKind::kDecide, EventKind::kDecision, static_cast<EventKind>(0),
                                   static_cast<EventKind>(99)}) {
        record.header.kind = kind;
        refused(r.s.apply(record), Status::kBadLog);
      }
      record.header.kind = EventKind::kMoreParents;
      record.moreParents = {};
      record.moreParents.count = kMoreParents + 1;
      refused(r.s.apply(record), Status::kBadLog);
      record.header.kind = EventKind::kReveal;
      record.reveal = revealOf({next, 1}, w);
      record.reveal.parentCount = kInlineParents + 1;
      refused(r.s.apply(record), Status::kBadLog);
    }

    // Whatever was refused: what follows is decided as if it had not been there.
    CHECK(r.s.now() == t);
    REQUIRE(r.finish(t + 1, leasedCall) == Status::kOk);
    bool follows = false;
    for (const Decision& d : r.decide(t + 1)) follows = follows || d.kind == DecisionKind::kLease;
    CHECK(follows);
  }

  TEST_CASE("what a log holds as bytes has no padding") {
    CHECK(std::has_unique_object_representations_v<InstanceSpec>);
    CHECK(std::has_unique_object_representations_v<InstanceEvent>);
    CHECK(std::has_unique_object_representations_v<OpenWorkflow>);
    CHECK(std::has_unique_object_representations_v<UpdateWorkflow>);
    CHECK(std::has_unique_object_representations_v<CloseWorkflow>);
    CHECK(std::has_unique_object_representations_v<MoreParents>);
    CHECK(std::has_unique_object_representations_v<Reveal>);
    CHECK(std::has_unique_object_representations_v<CallEvent>);
    CHECK(std::has_unique_object_representations_v<Progress>);
    CHECK(std::has_unique_object_representations_v<Finished>);
    CHECK(std::has_unique_object_representations_v<Evicted>);
    CHECK(std::has_unique_object_representations_v<Failed>);
    CHECK(std::has_unique_object_representations_v<Capacity>);
    CHECK(std::has_unique_object_representations_v<EventHeader>);
    CHECK(std::has_unique_object_representations_v<Decision>);
    CHECK(sizeof(SetParameter) == 16);  // a double has none by definition of the trait, but no padding either
  }

  TEST_CASE("records carry more parents than fit into one") {
    Rig direct;
    Rig recorded;
    std::vector<Ref> parents;
    for (int i = 0; i < 40; ++i) {
      parents.push_back(direct.reveal(0));
      recorded.reveal(0);
    }
    direct.reveal(0, 10, 10, parents);
    for (std::size_t i = 0; i < 40;) {
      EventRecord record;
      if (40 - i > kInlineParents) {
        record.header.kind = EventKind::kMoreParents;
        record.moreParents.count =
            static_cast<std::uint32_t>(std::min(kMoreParents, 40 - i - kInlineParents));
        for (std::uint32_t k = 0; k < record.moreParents.count; ++k)
          record.moreParents.parents[k] = parents[i++];
      } else {
        record.header.kind = EventKind::kReveal;
        record.reveal = revealOf({40, 1}, {0, 1});
        while (i < 40) record.reveal.parents[record.reveal.parentCount++] = parents[i++];
      }
      CHECK(recorded.s.apply(record) == Status::kOk);
    }
    CHECK(recorded.s.graph().call(40).pendingParents == 40);
    CHECK(sameLogs(direct.log, recorded.log));
  }
}

namespace {

struct WalkTally {
  std::uint64_t steps = 0;
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
  std::uint64_t leases = 0;
  std::uint64_t rejections = 0;
};

bool sameBytes(std::span<const Decision> a, std::span<const Decision> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// What a random walk may do beyond what all walks do.
struct Wild {
  bool newKinds = false;  ///< instances of kinds that were not there from the start
  bool impossible =
      false;  ///< times beyond kMaxTime, changes that do not exist, changes of removed instances
};

/// Random events, valid and not, against three schedulers: one gets all of them, one only those that the
/// first accepted, one replays the log of the first at the end. Empty where all agree and every law holds.
std::string walk(std::uint64_t seed, int steps, const Wild& wild, WalkTally* tally) {
  Random random(51, seed);
  Setup setup;
  const auto orders = orderNames();
  const auto placements = placementNames();
  setup.order = orders[seed % orders.size()].data();
  setup.placement = placements[(seed / orders.size()) % placements.size()].data();
  setup.binding = random.below(2) == 0 ? Binding::kAtReveal : Binding::kAtCredit;
  setup.feedback = random.below(3) == 0 ? Feedback::kBoundary : Feedback::kLease;
  setup.lookahead = random.below(3);
  SchedulerConfig config = configOf(setup);
  config.tieSeed = random.below(2);
  Scheduler all(config);
  Scheduler some(config);
  EventLog allLog;
  EventLog someLog;
  all.setLog(&allLog);
  some.setLog(&someLog);

  const auto anySpec = [&] {
    if (wild.newKinds)
      return spec(20 + random.below(200), 1 + random.below(5), static_cast<std::uint16_t>(random.below(2)),
                  static_cast<std::uint16_t>(random.below(2)));
    const InstanceSpec kinds[] = {spec(100, 2), spec(60, 4, 0, 1), spec(200, 3, 1)};
    return kinds[random.below(3)];
  };
  Nanos t = 0;
  std::string problem;
  // Every event goes through here.
  const auto both = [&](auto event) {
    ++tally->steps;
    const std::size_t before = allLog.records().size();
    const Nanos was = all.now();
    const Status status = event(all);
    if (ok(status)) {
      ++tally->accepted;
      t = all.now();
      if (!ok(event(some)) && problem.empty()) problem = "accepted by one only";
      if (allLog.records().size() == before && problem.empty()) problem = "accepted but not logged";
    } else {
      ++tally->refused;
      if ((all.now() != was || allLog.records().size() != before) && problem.empty()) {
        problem = std::string("refused with a trace: ") + reason(status);
      }
    }
    if (!all.audit() && problem.empty()) problem = "audit";
  };
  for (std::uint32_t m = 0; m < 3; ++m) {
    const InstanceSpec kinds[] = {spec(100, 2), spec(60, 4, 0, 1), spec(200, 3, 1)};
    both([&](Scheduler& s) { return s.instance(0, {m, InstanceChange::kAdd, kinds[m]}); });
  }

  constexpr std::uint32_t kWorkflows = 8;
  constexpr std::uint32_t kCalls = 70;
  for (int step = 0; step < steps && problem.empty(); ++step) {
    // Mostly now or soon, at times in the past.
    Nanos at = t;
    const std::uint32_t when = random.below(20);
    if (when < 8) at += random.below(5) * kMs;
    if (when == 19) at -= 1 + random.below(3);
    if (wild.impossible && random.below(100) == 0) at = random.below(2) == 0 ? kMaxTime + 1 : kNever;
    const auto anyCall = [&]() -> CallAttempt {
      const Graph& g = all.graph();
      const std::uint32_t slot = random.below(kCalls + 1);
      if (slot >= g.callSlots()) return {{slot, 1}, 0};
      const Call& c = g.call(slot);
      CallAttempt a{{slot, c.generation}, c.epoch};
      const std::uint32_t off = random.below(20);
      if (off == 0) a.call.generation += 1;
      if (off == 1) a.call.generation -= 1;
      if (off == 2) a.epoch += 1;
      if (off == 3) a.epoch -= 1;
      return a;
    };
    // An attempt that is likely to be leased.
    const auto leasedCall = [&]() -> CallAttempt {
      for (int i = 0; i < 12; ++i) {
        const CallAttempt a = anyCall();
        if (a.call.slot < all.graph().callSlots() && leased(all.graph().call(a.call.slot).state)) return a;
      }
      return anyCall();
    };
    const auto anyWorkflow = [&]() -> Ref {
      const std::uint32_t slot = random.below(kWorkflows + 1);
      if (slot >= all.graph().workflowSlots()) return {slot, 1};
      const std::uint32_t generation = all.graph().workflow(slot).generation;
      const std::uint32_t off = random.below(20);
      return {slot, off == 0 ? generation + 1 : off == 1 ? generation - 1 : generation};
    };
    switch (random.below(28)) {
      case 0:
      case 1: {
        Ref w = anyWorkflow();
        w.slot %= kWorkflows;
        if (w.slot < all.graph().workflowSlots())
          w.generation = all.graph().workflow(w.slot).generation + random.below(3);
        const Nanos deadline = random.below(3) == 0    ? kNever
                               : random.below(20) == 0 ? -7
                                                       : t + random.below(500) * kMs;
        const Nanos remaining = random.below(4) == 0 ? static_cast<Nanos>(random.below(100)) * kMs : -1;
        const auto stages = static_cast<std::int16_t>(static_cast<std::int32_t>(random.below(3)) - 1);
        both([&](Scheduler& s) { return s.openWorkflow(at, {w, 0, stages, 0, deadline, remaining}); });
        break;
      }
      case 2: {
        const Ref w = anyWorkflow();
        const Nanos deadline = random.below(3) == 0   ? kNever
                               : random.below(2) == 0 ? -1
                                                      : static_cast<Nanos>(random.below(900)) * kMs;
        const Nanos remaining = random.below(2) == 0 ? static_cast<Nanos>(random.below(100)) * kMs : -1;
        both([&](Scheduler& s) { return s.updateWorkflow(at, {w, deadline, remaining}); });
        break;
      }
      case 3: {
        if (random.below(3) == 0) break;
        const Ref w = anyWorkflow();
        both([&](Scheduler& s) { return s.closeWorkflow(at, {w}); });
        break;
      }
      case 4:
      case 5:
      case 6:
      case 7:
      case 8: {
        std::uint32_t slot = random.below(kCalls);
        slot = std::min<std::uint32_t>(
            slot, static_cast<std::uint32_t>(all.graph().callSlots()) + (random.below(20) == 0 ? 1 : 0));
        std::uint32_t generation = 1;
        if (slot < all.graph().callSlots())
          generation = all.graph().call(slot).generation + (random.below(20) == 0 ? 0 : 1);
        Reveal e = revealOf({slot, generation}, anyWorkflow(), random.below(60), random.below(60));
        e.stage = static_cast<std::uint16_t>(random.below(3));
        e.model = static_cast<std::uint16_t>(random.below(8) == 0 ? random.below(4) : random.below(2));
        e.sequences = static_cast<std::uint16_t>(random.below(8) == 0 ? random.below(4) : 1);
        e.toolPending = random.below(5) == 0 ? 1 : 0;
        e.silent = random.below(4) == 0 ? 1 : 0;
        e.frontier = random.below(3) == 0 ? 1 : 0;
        e.predictedHigh = random.below(100);
        if (random.below(6) == 0) e.cached[random.below(2)] = {random.below(5), random.below(30)};
        if (random.below(6) == 0) e.remaining = static_cast<Nanos>(random.below(100)) * kMs - 2;
        std::vector<Ref> parents;
        if (e.frontier == 0 || random.below(10) == 0) {
          for (std::uint32_t p = 0; p < all.graph().callSlots(); ++p) {
            const Call& c = all.graph().call(p);
            const bool ours = c.state != CallState::kFree && c.workflow == e.workflow.slot;
            if (random.below(ours ? 4 : 400) == 0) parents.push_back({p, c.generation});
          }
        }
        both([&](Scheduler& s) { return s.reveal(at, e, parents); });
        break;
      }
      case 9:
      case 10: {
        const CallAttempt a = leasedCall();
        both([&](Scheduler& s) { return s.firstToken(at, {a}); });
        break;
      }
      case 11: {
        const CallAttempt a = leasedCall();
        both([&](Scheduler& s) { return s.progress(at, {a, 3}); });
        break;
      }
      case 12:
      case 13:
      case 14: {
        const CallAttempt a = leasedCall();
        const std::uint32_t output = random.below(10) == 0   ? 0
                                     : random.below(40) == 0 ? 200'000'000
                                                             : random.below(80);
        both([&](Scheduler& s) { return s.finished(at, {a, output}); });
        break;
      }
      case 15: {
        const CallAttempt a = leasedCall();
        const std::uint32_t generated = random.below(40) == 0 ? 200'000'000 : random.below(30);
        both([&](Scheduler& s) { return s.evicted(at, {a, generated}); });
        break;
      }
      case 16:
      case 17: {
        const CallAttempt a = leasedCall();
        Failed e{a,
                 static_cast<FailureClass>(random.below(4)),
                 static_cast<Leg>(random.below(8) == 0 ? random.below(4) : 0),
                 0,
                 0,
                 random.below(4) == 0 ? 5u : 0u,
                 0};
        if (random.below(3) == 0) e.retryAfter = static_cast<Nanos>(random.below(20)) * kMs - 1;
        both([&](Scheduler& s) { return s.failed(at, e); });
        break;
      }
      case 18: {
        const CallAttempt a = anyCall();
        both([&](Scheduler& s) { return s.cancel(at, {a}); });
        break;
      }
      case 19: {
        const CallAttempt a = anyCall();
        both([&](Scheduler& s) { return s.toolDone(at, {a}); });
        break;
      }
      case 20: {
        const std::uint32_t m = random.below(6);
        Capacity e{m, random.below(5), static_cast<std::int64_t>(random.below(200)), random.below(2),
                   random.below(4) == 0 ? 0u : 1u};
        both([&](Scheduler& s) { return s.capacity(at, e); });
        break;
      }
      case 21: {
        if (random.below(4) != 0) break;
        std::uint32_t m = random.below(6);
        const InstanceSpec sp = anySpec();
        auto change = static_cast<InstanceChange>(random.below(5));
        if (change == InstanceChange::kRemove && random.below(2) == 0) change = InstanceChange::kUp;
        if (wild.newKinds && random.below(2) == 0) {
          m = std::min<std::uint32_t>(12, static_cast<std::uint32_t>(all.cluster().size()));
          change = InstanceChange::kAdd;
        }
        const bool removed = m < all.cluster().size() && all.cluster().at(m).condition == Condition::kRemoved;
        if (wild.impossible && random.below(8) == 0)
          change = static_cast<InstanceChange>(7);
        else if (removed && !wild.impossible)
          change = InstanceChange::kAdd;
        both([&](Scheduler& s) { return s.instance(at, {m, change, sp}); });
        break;
      }
      case 22: {
        if (random.below(4) != 0) break;
        const std::uint32_t p = random.below(static_cast<std::uint32_t>(Parameter::kCount) + 1);
        const double values[] = {0, 0.3, 1, 2, -1, 1e9, 5, 40};
        const double value = values[random.below(8)];
        both([&](Scheduler& s) { return s.setParameter(at, {p, 0, value}); });
        break;
      }
      case 23: {
        const Nanos wake = all.nextWake();
        const Nanos due = wake == kNever ? at : std::min(at, wake);
        both([&](Scheduler& s) { return s.timer(due); });
        break;
      }
      case 24: {
        const CallAttempt a = anyCall();
        both([&](Scheduler& s) { return s.transferDone(at, {a}); });
        both([&](Scheduler& s) { return s.planArrived(at); });
        break;
      }
      case 25: {
        const Telemetry e{random.below(6), random.below(9), random.below(20), random.below(20),
                          random.below(12) / 10.0};
        both([&](Scheduler& s) { return s.telemetry(at, e); });
        break;
      }
      case 26: {
        if (random.below(8) != 0) break;
        const auto orders = static_cast<std::uint32_t>(orderNames().size());
        const auto placements = static_cast<std::uint32_t>(placementNames().size());
        const SetPolicy e{static_cast<std::uint16_t>(random.below(orders + 1)),
                          static_cast<std::uint16_t>(random.below(placements + 1)), random.below(3),
                          random.below(4), 0};
        both([&](Scheduler& s) { return s.setPolicy(at, e); });
        break;
      }
      case 27: {
        if (random.below(8) != 0) break;
        const SetLatency e{random.below(static_cast<std::uint32_t>(all.cluster().latencies()) + 2),
                           random.below(3),
                           0.1 * random.below(3),
                           0.1 * random.below(5),
                           random.below(5) * 1.0,
                           0,
                           0};
        both([&](Scheduler& s) { return s.setLatency(at, e); });
        break;
      }
      default:
        break;
    }
    if (random.below(3) == 0) {
      const auto a = all.decide(t);
      const auto b = some.decide(t);
      if (!sameBytes(a, b) && problem.empty()) problem = "decisions differ";
      for (const Decision& d : a) ++(d.kind == DecisionKind::kLease ? tally->leases : tally->rejections);
      if (!all.audit() && problem.empty()) problem = "audit after decide";
    }
    if (!problem.empty()) return "step " + std::to_string(step) + ": " + problem;
  }

  // The end: workflows close, leases finish.
  for (std::uint32_t w = 0; w < all.graph().workflowSlots(); ++w) {
    const Workflow& flow = all.graph().workflow(w);
    if (flow.live && flow.open)
      both([&](Scheduler& s) { return s.closeWorkflow(t, {{w, all.graph().workflow(w).generation}}); });
  }
  for (int round = 0; round < 50 && all.graph().liveWorkflows() > 0 && problem.empty(); ++round) {
    for (std::uint32_t c = 0; c < all.graph().callSlots(); ++c) {
      const Call& call = all.graph().call(c);
      const CallAttempt a{{c, call.generation}, call.epoch};
      if (leased(call.state)) both([&](Scheduler& s) { return s.finished(t, {a, 5}); });
      // An attempt that failed before the end waits once more.
      else if (call.state != CallState::kFree && !terminal(call.state))
        both([&](Scheduler& s) { return s.cancel(t, {a}); });
    }
    if (!sameBytes(all.decide(t), some.decide(t)) && problem.empty()) problem = "decisions differ at the end";
  }
  // Penalties and samples expire.
  while (all.nextWake() != kNever && problem.empty()) {
    t = std::max(t, all.nextWake());
    both([&](Scheduler& s) { return s.timer(t); });
  }
  if (!problem.empty()) return "end: " + problem;
  if (all.graph().liveWorkflows() != 0) return "a workflow did not end";
  for (std::uint32_t c = 0; c < all.graph().callSlots(); ++c) {
    if (all.graph().call(c).state != CallState::kFree) return "a call did not end";
  }
  for (std::uint32_t m = 0; m < all.cluster().size(); ++m) {
    if (!empty(all.cluster().at(m).ledger)) return "a ledger is not zero";
    if (all.waiting(m) != 0) return "a queue is not empty";
  }

  const auto& records = allLog.records();
  if (!sameLogs(allLog, someLog)) {
    return "the logs differ";
  }
  Scheduler replay(config);
  std::span<const Decision> decisions;
  std::size_t at = 0;
  for (const EventRecord& r : records) {
    if (r.header.kind == EventKind::kDecide) {
      decisions = replay.decide(r.header.t);
      at = 0;
      if (decisions.size() != r.header.count) return "replay: another number of decisions";
    } else if (r.header.kind == EventKind::kDecision) {
      if (!sameBytes(decisions.subspan(at++, 1), {&r.decision, 1})) return "replay: another decision";
    } else if (!ok(replay.apply(r))) {
      return "replay: a logged event was refused";
    }
  }
  return "";
}

void walks(std::uint64_t first, std::uint64_t count, int steps, const Wild& wild, WalkTally* tally) {
  std::uint32_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const std::string problem = walk(seed, steps, wild, tally);
    if (problem.empty()) continue;
    if (++failures > 3) continue;
    CAPTURE(seed);
    CHECK_MESSAGE(false, problem);
  }
  CHECK(failures == 0);
}

}  // namespace

TEST_SUITE("random walks") {
  TEST_CASE(
      "over all events: refused ones leave no trace, all laws hold, everything ends at zero, the log "
      "replays") {
    WalkTally tally;
    walks(0, 96, 3000, {}, &tally);
    MESSAGE("steps " << tally.steps << ", accepted " << tally.accepted << ", refused " << tally.refused
                     << ", leases " << tally.leases << ", rejections " << tally.rejections);
    CHECK(tally.steps > 100'000);
    CHECK(tally.refused > 30'000);
    CHECK(tally.leases > 3'000);
    CHECK(tally.rejections > 500);
  }

  TEST_CASE("with impossible times and changes") {
    WalkTally tally;
    walks(1000, 24, 1500, {.impossible = true}, &tally);
  }

  TEST_CASE("with instances of kinds that were not there before") {
    WalkTally tally;
    walks(2000, 24, 1500, {.newKinds = true}, &tally);
  }
}
