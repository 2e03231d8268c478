// What single orders promise, beyond the agreement with the naive scheduler (policies_test.cc): the fairness
// bound of vtc, the definition of stretch, the quantile of edf-alpha, ageing and its bound, and what budgets
// do with margins, high predictions and pessimistic templates.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <vector>

#include "base/random.h"
#include "base/statistics.h"
#include "order/ageing.h"
#include "queueing.h"
#include "scheduler/scheduler.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

/// A scheduler on instances where a prompt token takes 1 ms and an iteration 1 ms, with events in short form.
struct Desk {
  struct Spec {
    const char* order = "fcfs";
    std::uint32_t sequences = 1;
    std::int64_t kv = 1'000'000;
    std::uint32_t instances = 1;
    Binding binding = Binding::kAtReveal;
    std::vector<TemplateEntry> stages = {};
    bool useTemplates = true;
    std::vector<std::pair<Parameter, double>> parameters = {};
  };
  Scheduler scheduler;
  std::uint32_t calls = 0;
  std::uint32_t workflows = 0;

  explicit Desk(const Spec& spec) : scheduler(config(spec)) {
    for (std::uint32_t m = 0; m < spec.instances; ++m) {
      const InstanceEvent add{m, InstanceChange::kAdd, instanceSpec(0, spec.sequences, spec.kv)};
      REQUIRE(ok(scheduler.instance(0, add)));
    }
  }
  static SchedulerConfig config(const Spec& spec) {
    SchedulerConfig c;
    REQUIRE(makeOrder(spec.order, &c.order));
    REQUIRE(makePlacement("least-work-left", &c.placement));
    c.binding = spec.binding;
    c.lookahead = 0;
    c.useTemplates = spec.useTemplates;
    for (const auto& [p, value] : spec.parameters)
      REQUIRE(c.parameters.set(static_cast<std::uint16_t>(p), value));
    for (const double slow : {1.0, 3.0}) {
      LatencyModel model;
      REQUIRE(ok(LatencyModel::constants({0, slow, slow, 0, 0}, &model)));
      c.latencies.push_back(model);
    }
    if (!spec.stages.empty()) c.templates.push_back(spec.stages);
    return c;
  }

  Ref open(Nanos t, Nanos deadline = kNever, std::uint16_t tenant = 0, std::int16_t stages = -1) {
    const Ref w{workflows++, 1};
    REQUIRE(ok(scheduler.openWorkflow(t, {w, tenant, stages, 0, deadline, -1})));
    return w;
  }
  Ref reveal(Nanos t, Ref w, std::uint32_t prompt, std::uint32_t predicted = 1, std::uint16_t stage = 0,
             std::vector<Ref> parents = {}, std::uint32_t high = 0) {
    Reveal e{};
    e.call = {calls++, 1};
    e.workflow = w;
    e.stage = stage;
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = predicted;
    e.predictedHigh = std::max(high, predicted);
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    REQUIRE(ok(scheduler.reveal(t, e, parents)));
    return e.call;
  }
  void finish(Nanos t, Ref c, std::uint32_t output = 1) {
    REQUIRE(ok(scheduler.finished(t, {{c, call(c).epoch}, output})));
  }
  void close(Nanos t, Ref w) { REQUIRE(ok(scheduler.closeWorkflow(t, {w}))); }
  std::vector<Ref> decide(Nanos t) {
    std::vector<Ref> leased;
    for (const Decision& d : scheduler.decide(t)) leased.push_back(d.call);
    REQUIRE(scheduler.audit());
    return leased;
  }
  const Call& call(Ref c) const { return scheduler.graph().call(c.slot); }
  const Workflow& workflow(Ref w) const { return scheduler.graph().workflow(w.slot); }
};

constexpr Nanos operator""_s(unsigned long long n) { return static_cast<Nanos>(n) * kSecond; }

}  // namespace

TEST_SUITE("orders") {
  TEST_CASE("llf-call is urgency by another name") {
    Random random(50);
    std::uint64_t decided = 0;
    for (int round = 0; round < 40; ++round) {
      const std::vector<WholeCosts> costs{randomCosts(random), randomCosts(random)};
      const std::vector<InstanceSpec> instances{instanceSpec(0, 2, 3000), instanceSpec(1, 3, 3000)};
      OwnedTrace trace = randomTrace(random, {.workflows = 40, .meanGap = kSecond / 3, .wrongShare = 0.3});
      const auto binding = static_cast<Binding>(round % 2);
      const Run a =
          run(trace, clusterOf(costs, instances), baseOptions("urgency", "least-work-left", binding), true);
      const Run b =
          run(trace, clusterOf(costs, instances), baseOptions("llf-call", "least-work-left", binding), true);
      REQUIRE(ok(a.status));
      CHECK(sameDecisions(a.log, b.log));
      decided += decisions(a.log).size();
    }
    CHECK(decided > 3000);
  }

  TEST_CASE("sjf in a shared queue follows the means when another kind of instance joins") {
    Desk desk({.order = "sjf", .binding = Binding::kAtCredit});
    const Ref w = desk.open(0);
    desk.reveal(0, w, 1000);
    REQUIRE(desk.decide(0).size() == 1);
    const Ref longer = desk.reveal(0, w, 900);
    const Ref shorter = desk.reveal(0, w, 10);
    REQUIRE(desk.decide(0).empty());
    const InstanceEvent slow{1, InstanceChange::kAdd, instanceSpec(1, 1, 1'000'000)};
    REQUIRE(ok(desk.scheduler.instance(1, slow)));
    CHECK(desk.decide(1) == std::vector<Ref>{shorter});  // audits the keys
    (void)longer;
  }
}

TEST_SUITE("stretch") {
  // Four stages of 10, 40, 30 and 20 s.
  const std::vector<TemplateEntry> kStages{{0, 10'000, 1}, {1, 40'000, 1}, {2, 30'000, 1}, {3, 20'000, 1}};

  TEST_CASE("X and B of a chain that follows its template, with and without its forecast") {
    for (const bool known : {true, false}) {
      Desk desk({.order = "stretch", .stages = kStages, .useTemplates = known});
      const Ref w = desk.open(0, 300_s, 0, 0);
      Nanos t = 0;
      std::vector<Ref> chain;
      Nanos path = 0;
      for (std::uint16_t i = 0; i < 4; ++i) {
        const std::vector<Ref> parents = i > 0 ? std::vector<Ref>{chain.back()} : std::vector<Ref>{};
        chain.push_back(desk.reveal(t, w, kStages[i].promptTokens, 1, i, parents));
        path += kStages[i].promptTokens * kMillisecond;
        REQUIRE(desk.decide(t).size() == 1);
        CHECK(desk.workflow(w).templateTime == 100_s);
        CHECK(desk.workflow(w).wholePath == (known ? 100_s : path));
        t += 60_s;
        desk.finish(t, chain.back());
      }
    }
  }

  TEST_CASE("(t - a + rem) / (s X) decides, and time can turn the order") {
    // w: s = 300 / 100, X = 100 s, its second stage waits: (t + 90) / 300. v, no template: (t + 50) / 200.
    for (const auto& [t, first] : std::map<Nanos, int>{{20_s, 0}, {29_s, 0}, {31_s, 1}, {150_s, 1}}) {
      CAPTURE(t);
      Desk desk({.order = "stretch", .stages = kStages});
      const Ref w = desk.open(0, 300_s, 0, 0);
      const Ref v = desk.open(0, 200_s);
      const Ref other = desk.open(0, 10_s);
      const Ref root = desk.reveal(0, w, 10'000);
      REQUIRE(desk.decide(0).size() == 1);
      desk.finish(10_s, root);
      const Ref busy = desk.reveal(10_s, other, 1);
      REQUIRE(desk.decide(10_s).size() == 1);
      const Ref candidates[] = {desk.reveal(10_s, w, 40'000, 1, 1, {root}), desk.reveal(10_s, v, 50'000)};
      REQUIRE(desk.decide(10_s).empty());
      desk.finish(t, busy);
      CHECK(desk.decide(t) == std::vector<Ref>{candidates[first]});
    }
  }
}

TEST_SUITE("tenants") {
  TEST_CASE("counters: the lift, and charges that are exact in total") {
    TenantCredits credits;
    credits.arrive(0);
    credits.charge(0, 100);
    CHECK(credits.of(0) == 100);
    credits.arrive(1);  // 0 waits: lifted to it
    CHECK(credits.of(1) == 100);
    credits.charge(1, 50);
    credits.arrive(2);  // the least of 100 and 150
    CHECK(credits.of(2) == 100);
    credits.leave(0);
    credits.leave(2);
    credits.charge(0, 1);
    credits.leave(1);  // the last to leave
    credits.charge(1, 7);
    credits.arrive(3);
    CHECK(credits.of(3) == 157);  // its counter of now
    credits.arrive(0);
    CHECK(credits.of(0) == 157);
    credits.charge(3, 1000);
    credits.leave(3);
    credits.arrive(3);
    CHECK(credits.of(3) == 1157);  // never lowered
  }

  TEST_CASE("counters saturate") {
    TenantCredits credits;
    credits.arrive(7);
    for (int i = 0; i < 5; ++i) credits.charge(7, kNever / 3);
    CHECK(credits.of(7) == kNever / 2);
    CHECK(credits.of(65'535) == 0);
  }

  TEST_CASE(
      "an attempt that is lost is charged back, one that was evicted pays what it got, a late cancel pays") {
    const auto charged = [](const Desk& desk) {
      // Through the order's own eyes: a copy of it is not reachable, so compare with the call's record.
      std::int64_t sum = 0;
      for (std::uint32_t slot = 0; slot < desk.calls; ++slot)
        sum += desk.scheduler.graph().call(slot).charged;
      return sum;
    };
    Desk desk({.order = "vtc", .sequences = 4});
    const Ref w = desk.open(0);
    const Ref c = desk.reveal(0, w, 100, 10);
    REQUIRE(desk.decide(0).size() == 1);
    CHECK(charged(desk) == (100 + 2 * 10) * 1024);
    REQUIRE(ok(desk.scheduler.failed(1, {{c, 0}, FailureClass::kFault, Leg::kUnified, 0, 0, 0, 0})));
    CHECK(charged(desk) == 0);
    REQUIRE(desk.decide(1).size() == 1);
    REQUIRE(ok(desk.scheduler.evicted(2, {{c, 1}, 4})));
    CHECK(charged(desk) == 0);
    REQUIRE(desk.decide(2).size() == 1);
    CHECK(charged(desk) == (104 + 2 * 6) * 1024);  // prefills again what it had generated
    REQUIRE(ok(desk.scheduler.cancel(3, {{c, 2}})));
    CHECK(charged(desk) == (104 + 2 * 6) * 1024);
  }

  namespace {

  struct Fairness {
    std::int64_t widest = 0;     ///< largest difference of two tenants' service over any interval, in tokens
    std::int64_t bound = 0;      ///< 2 (C + w_out E) of the same run
    std::int64_t delivered = 0;  ///< the same of the tokens delivered
    std::int64_t deliveredBound = 0;
    std::uint64_t leases = 0;
  };

  /// Tenants 0, 1 and 2 always have calls waiting in one queue; 0 asks for much in long calls.
  Fairness serve(const char* order, std::uint64_t seed, bool exact) {
    Random random(60, seed);
    const std::int64_t kv = 3000;
    Desk desk({.order = order, .sequences = 6, .kv = kv});
    struct Asked {
      std::uint16_t tenant;
      std::int64_t prompt, predicted, output;
    };
    std::vector<Asked> asked;
    std::vector<std::uint32_t> running;
    std::map<std::uint16_t, int> waiting;
    Ref workflows[3];
    for (std::uint16_t u = 0; u < 3; ++u) workflows[u] = desk.open(0, kNever, u);
    std::int64_t service[3] = {}, got[3] = {};
    std::map<std::pair<int, int>, std::pair<std::int64_t, std::int64_t>> range, gotRange;
    std::int64_t longestPrompt = 0, longestOutput = 0, errors = 0;
    Fairness f;
    Nanos t = 0;
    for (int step = 0; step < 3000; ++step) {
      ++t;
      for (std::uint16_t u = 0; u < 3; ++u) {
        while (waiting[u] < (u == 0 ? 8 : 2)) {
          const std::uint32_t size = u == 0 ? 400 : 60;
          Asked a{u, 1 + random.below(size), 1 + random.below(size), 0};
          a.output = exact ? a.predicted : 1 + random.below(size);
          asked.push_back(a);
          desk.reveal(t, workflows[u], static_cast<std::uint32_t>(a.prompt),
                      static_cast<std::uint32_t>(a.predicted));
          ++waiting[u];
        }
      }
      if (!running.empty()) {
        const std::size_t i = random.below(static_cast<std::uint32_t>(running.size()));
        const std::uint32_t c = running[i];
        desk.finish(t, {c, 1}, static_cast<std::uint32_t>(asked[c].output));
        got[asked[c].tenant] += asked[c].prompt + 2 * asked[c].output;
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      }
      for (bool more = true; more;) {  // prefills one by one
        more = false;
        for (const Ref& c : desk.decide(t)) {
          more = true;
          running.push_back(c.slot);
          const Asked& a = asked[c.slot];
          --waiting[a.tenant];
          service[a.tenant] += a.prompt + 2 * a.output;
          longestPrompt = std::max(longestPrompt, a.prompt);
          longestOutput = std::max(longestOutput, a.output);
          REQUIRE(ok(desk.scheduler.firstToken(t, {{c, 0}})));
          ++f.leases;
        }
        std::int64_t error = 0;
        for (const std::uint32_t c : running) error += std::abs(asked[c].output - asked[c].predicted);
        errors = std::max(errors, error);
        // Every tenant waits before and after each lease: two or more calls are always asked for.
        for (int u = 0; u < 3; ++u) {
          for (int x = 0; x < u; ++x) {
            auto& [low, high] = range[{u, x}];
            low = std::min(low, service[u] - service[x]);
            high = std::max(high, service[u] - service[x]);
            f.widest = std::max(f.widest, high - low);
            auto& [gotLow, gotHigh] = gotRange[{u, x}];
            gotLow = std::min(gotLow, got[u] - got[x]);
            gotHigh = std::max(gotHigh, got[u] - got[x]);
            f.delivered = std::max(f.delivered, gotHigh - gotLow);
          }
        }
        for (std::uint16_t u = 0; u < 3 && more; ++u) {
          if (waiting[u] > 0) continue;
          const Asked a{u, 5, 5, 5};
          asked.push_back(a);
          desk.reveal(t, workflows[u], 5, 5);
          ++waiting[u];
        }
      }
    }
    f.bound = 2 * (longestPrompt + 2 * longestOutput + 2 * errors);
    // What was delivered lags behind what was leased by the running calls: at most 2 kv weighted tokens a
    // tenant.
    f.deliveredBound = f.bound + 2 * 2 * kv;
    return f;
  }

  }  // namespace

  TEST_CASE("tenants with waiting calls get equal service within the bound, and not under fcfs") {
    std::uint64_t leases = 0;
    double closest = 0;
    int unfair = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      for (const bool exact : {true, false}) {
        const Fairness fair = serve("vtc", seed, exact);
        CAPTURE(seed);
        CAPTURE(exact);
        CHECK(fair.widest <= fair.bound);
        CHECK(fair.delivered <= fair.deliveredBound);
        closest = std::max(closest, static_cast<double>(fair.widest) / static_cast<double>(fair.bound));
        leases += fair.leases;
        const Fairness first = serve("fcfs", seed, exact);
        unfair += first.widest > 20 * first.bound ? 1 : 0;
      }
    }
    MESSAGE("leases " << leases << ", widest difference / bound " << closest);
    CHECK(leases > 50'000);
    CHECK(closest > 0.3);  // the bound is not empty
    CHECK(unfair == 24);
  }
}

TEST_SUITE("attained service") {
  // One prompt token and one output token beyond the first take 1 ms each.

  TEST_CASE("plas adds up what parallel calls were served, atlas takes the longest path") {
    for (const bool sums : {true, false}) {
      CAPTURE(sums);
      Desk desk({.order = sums ? "plas" : "atlas", .sequences = 4});
      const Ref w = desk.open(0);
      const Ref v = desk.open(0);
      std::vector<Ref> parallel;
      for (int i = 0; i < 3; ++i) parallel.push_back(desk.reveal(0, w, 399, 1));
      const Ref other = desk.reveal(0, v, 900, 1);
      Nanos t = 0;
      for (const Ref& c : {parallel[0], parallel[1], parallel[2], other}) {
        REQUIRE(desk.decide(t) == std::vector<Ref>{c});
        desk.finish(++t, c, 2);
      }
      // w has attained 3 x 400 ms or 400 ms, v 901 ms; the second level begins at 1 s.
      const Ref busy = desk.reveal(t, desk.open(t), 1);
      REQUIRE(desk.decide(t) == std::vector<Ref>{busy});
      const Ref ofW = desk.reveal(t, w, 5);
      const Ref ofV = desk.reveal(++t, v, 5);
      REQUIRE(desk.decide(t).empty());
      CHECK(desk.call(ofW).attained.before == (sums ? 1200 : 400) * kMillisecond);
      CHECK(desk.call(ofV).attained.before == 901 * kMillisecond);
      desk.finish(++t, busy);
      CHECK(desk.decide(t) == std::vector<Ref>{sums ? ofV : ofW});
    }
  }

  TEST_CASE("atlas: a call inherits what its program has attained when it becomes ready, not at its reveal") {
    for (const char* order : {"plas", "atlas"}) {
      Desk desk({.order = order});
      const Ref w = desk.open(0);
      const Ref parent = desk.reveal(0, w, 2000);
      const Ref child = desk.reveal(0, w, 3000, 1, 0, {parent});
      const Ref last = desk.reveal(0, w, 1, 1, 0, {child});
      REQUIRE(desk.decide(0) == std::vector<Ref>{parent});
      desk.finish(2_s, parent);
      CHECK(desk.call(child).attained.before == 2_s);
      REQUIRE(desk.decide(2_s) == std::vector<Ref>{child});
      desk.finish(5_s, child);
      CHECK(desk.call(last).attained.before == 5_s);
    }
  }

  TEST_CASE("levels: exponential ranges, the last one open") {
    PolicyParameters p;
    const std::map<Nanos, std::int64_t> expected{
        {0, 0},        {1_s - 1, 0}, {1_s, 1},      {2_s - 1, 1}, {2_s, 2},         {4_s, 3},
        {32_s - 1, 5}, {32_s, 6},    {64_s - 1, 6}, {64_s, 7},    {1'000'000_s, 7}, {kMaxTime, 7}};
    for (const auto& [attained, level] : expected) {
      CAPTURE(attained);
      CHECK(Plas::levelOf(attained, p) == level);
    }
    REQUIRE(p.set(static_cast<std::uint16_t>(Parameter::kServiceLevels), 1));
    CHECK(Plas::levelOf(kMaxTime, p) == 0);
  }

  TEST_CASE("starvation: promoted at the very nanosecond at which wait / service reaches beta") {
    // w has been served 3 s without waiting; v, younger, 1 s. With beta = 2 w is promoted after 6 s.
    for (const auto& [late, promoted] : std::map<Nanos, bool>{{6_s - 1, false}, {6_s, true}, {60_s, true}}) {
      CAPTURE(late);
      Desk desk({.order = "plas", .parameters = {{Parameter::kStarvationRatio, 2}}});
      const Ref w = desk.open(0);
      const Ref v = desk.open(0);
      const Ref first = desk.reveal(0, w, 3000);
      REQUIRE(desk.decide(0) == std::vector<Ref>{first});
      desk.finish(1, first);
      const Ref second = desk.reveal(1, v, 1000);
      REQUIRE(desk.decide(1) == std::vector<Ref>{second});
      desk.finish(2, second);
      const Ref busy = desk.reveal(2, desk.open(2), 1);
      REQUIRE(desk.decide(2) == std::vector<Ref>{busy});
      const Ref ofW = desk.reveal(2, w, 5);
      REQUIRE(desk.decide(2).empty());
      const Ref ofV = desk.reveal(2 + late, v, 5);
      REQUIRE(desk.decide(2 + late).empty());
      desk.finish(2 + late, busy);
      CHECK(desk.decide(2 + late) == std::vector<Ref>{promoted ? ofW : ofV});
      // Only the wait after the promotion counts for what comes next.
      desk.finish(3 + late, promoted ? ofW : ofV);
      if (!promoted) continue;
      const Ref next = desk.reveal(3 + late, w, 5);
      const Nanos left = 2 * (3_s + 5 * kMillisecond) - (late - 6_s);
      CHECK(desk.call(next).attained.promotedAt == 3 + late + std::max<Nanos>(0, left));
      CHECK(desk.decide(3 + late) == std::vector<Ref>{left > 0 ? ofV : next});
    }
  }

  TEST_CASE("lost and evicted attempts: a wait counts once, service counts as far as it went") {
    Desk desk({.order = "plas", .sequences = 2});
    const Ref w = desk.open(0);
    const Ref busy = desk.reveal(0, desk.open(0), 1);
    REQUIRE(desk.decide(0) == std::vector<Ref>{busy});
    const Ref c = desk.reveal(0, w, 100, 50);
    REQUIRE(desk.decide(0).empty());
    desk.finish(3_s, busy);
    REQUIRE(desk.decide(3_s) == std::vector<Ref>{c});
    CHECK(desk.call(c).attained.wait == 3_s);  // promoted at once: nothing was served
    REQUIRE(ok(desk.scheduler.failed(10_s, {{c, 0}, FailureClass::kFault, Leg::kUnified, 0, 0, 0, 0})));
    CHECK(desk.call(c).attained.wait == 7_s);  // waits since: 3 s of waiting lie behind it
    REQUIRE(desk.decide(11_s) == std::vector<Ref>{c});
    CHECK(desk.call(c).attained.wait == 4_s);
    REQUIRE(ok(desk.scheduler.evicted(20_s, {{c, 1}, 11})));
    CHECK(desk.call(c).attained.before == 110 * kMillisecond);
    CHECK(desk.call(c).attained.wait == 20_s);
    // 4 s of waiting to 110 ms of service is beyond beta.
    CHECK(desk.call(c).attained.promotedAt == 20_s);
    REQUIRE(desk.decide(21_s) == std::vector<Ref>{c});
    REQUIRE(ok(desk.scheduler.finished(22_s, {{c, 2}, 0})));  // not reported: the 39 expected
    const Ref next = desk.reveal(22_s, w, 1);
    CHECK(desk.call(next).attained.before == (110 + 111 + 38) * kMillisecond);
  }

  TEST_CASE("chosen while running, the order counts from then on") {
    Desk desk({.order = "fcfs"});
    const Ref w = desk.open(0);
    const Ref first = desk.reveal(0, w, 100);
    REQUIRE(desk.decide(0) == std::vector<Ref>{first});
    const Ref waits = desk.reveal(1, w, 200);
    REQUIRE(desk.decide(1).empty());
    const auto names = orderNames();
    const auto plas =
        static_cast<std::uint16_t>(std::find(names.begin(), names.end(), "plas") - names.begin());
    REQUIRE(ok(desk.scheduler.setPolicy(5_s, {plas, 0, 0, 0, 0})));
    CHECK(desk.call(waits).attained.wait == 1);  // since it became ready
    desk.finish(6_s, first);
    REQUIRE(desk.decide(6_s) == std::vector<Ref>{waits});
    CHECK(desk.call(waits).attained.wait == 6_s - 1);
    const Ref next = desk.reveal(6_s, w, 1);
    CHECK(desk.call(next).attained.before == 100 * kMillisecond);
  }
}

TEST_SUITE("edf-alpha") {
  TEST_CASE("alpha* is the 95th percentile of each 200 finished workflows; keys are issued again with it") {
    std::uint32_t changes = 0, picks = 0;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      Random random(70, seed);
      Desk desk({.order = "edf-alpha", .binding = static_cast<Binding>(seed % 2)});
      struct Waiting {
        Nanos arrival, horizon;
        Ref call;
        std::uint32_t prompt, output;
      };
      std::vector<Waiting> waiting;
      std::vector<double> ratios;
      Waiting running{};
      bool busy = false;
      Nanos t = 0, ends = 0;
      double alpha = 2;
      while (ratios.size() < 900) {
        const bool arrives = waiting.size() < 2 || (waiting.size() < 12 && random.below(2) == 0);
        if (arrives) {
          t += random.below(1'000'000);
          if (busy) t = std::min(t, ends);
          Waiting w;
          w.arrival = t;
          w.prompt = 1 + random.below(random.below(4) == 0 ? 1000 : 20);
          const std::uint32_t predicted = 1 + random.below(30);
          w.output = 1 + random.below(30);
          w.horizon = (w.prompt + predicted - 1) * kMillisecond;
          w.call = desk.reveal(t, desk.open(t, 1), w.prompt, predicted);
          waiting.push_back(w);
        } else if (busy) {
          t = ends;
          busy = false;
          desk.finish(t, running.call, running.output);
          desk.close(t, {running.call.slot, 1});
          const auto horizon = static_cast<double>((running.prompt + running.output - 1) * kMillisecond);
          ratios.push_back(static_cast<double>(t - running.arrival) / horizon);
          if (ratios.size() % 200 == 0) {
            // Naively: the 190th smallest of the last 200.
            std::vector<double> last(ratios.end() - 200, ratios.end());
            std::sort(last.begin(), last.end());
            changes += last[189] != alpha ? 1 : 0;
            alpha = last[189];
          }
        }
        const auto key = [&](const Waiting& w) {
          return w.arrival + static_cast<Nanos>(alpha * static_cast<double>(w.horizon) + 0.5);
        };
        const std::vector<Ref> leased = desk.decide(t);
        if (leased.empty()) continue;
        REQUIRE(leased.size() == 1);
        std::size_t best = 0;
        for (std::size_t i = 1; i < waiting.size(); ++i)
          best = key(waiting[i]) < key(waiting[best]) ? i : best;
        REQUIRE(leased[0] == waiting[best].call);
        ++picks;
        running = waiting[best];
        busy = true;
        ends = t + static_cast<Nanos>(running.prompt + running.output - 1) * kMillisecond;
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(best));
      }
    }
    CHECK(changes == 16);
    CHECK(picks > 3000);
  }

  TEST_CASE("a horizon of nothing counts as a nanosecond") {
    EdfAlpha order;
    Workflow w;
    w.horizon = 0;
    for (int i = 0; i < 200; ++i) order.workflowFinished(w, 50);
    CHECK(order.alpha() == 50);
  }

  TEST_CASE("a workflow of which a call was cancelled does not count") {
    EdfAlpha order;
    Workflow w;
    w.horizon = 10;
    for (int i = 0; i < 199; ++i) CHECK(!order.workflowFinished(w, 50));
    CHECK(order.alpha() == 2);
    CHECK(order.workflowFinished(w, 1000));
    CHECK(order.alpha() == 5);

    Desk desk({.order = "edf-alpha"});
    for (int i = 0; i < 400; ++i) {
      const Ref v = desk.open(i);
      const Ref c = desk.reveal(i, v, 1);
      const Ref d = desk.reveal(i, v, 1);
      REQUIRE(desk.decide(i).size() == 1);
      desk.finish(i, c);
      REQUIRE(desk.decide(i).size() == 1);
      REQUIRE(ok(desk.scheduler.cancel(i, {{d, 0}})));
      desk.close(i, v);
    }
    // Still alpha* = 2: of a pair that alpha* = 0 would order otherwise the shorter goes first.
    const Ref long_ = desk.reveal(400, desk.open(400), 1000);
    REQUIRE(desk.decide(400) == std::vector<Ref>{long_});
    desk.reveal(401, desk.open(401), 1000);
    const Ref brief = desk.reveal(402, desk.open(402), 1);
    REQUIRE(desk.decide(402).empty());
    desk.finish(403, long_);
    CHECK(desk.decide(403) == std::vector<Ref>{brief});
  }
}

namespace {

constexpr std::uint32_t kVictim = 1;

/// 1 ms a prompt token, batch 1. One call of a second a second, and one more than fits at the start: whenever
/// the instance is free one of them has waited a second. Workflow 1 has a call that all of them overtake.
OwnedTrace adversary(std::string_view order, int stream) {
  OwnedTrace trace;
  trace.slos = order == "urgency";
  for (int i = 0; i < stream; ++i) {
    trace.workflow(i < 2 ? 2 * i : (i - 1) * kSecond - 1);
    trace.call({.prompt = 1000});
    trace.sloMs.back() = 1000;
    if (i > 0) continue;
    trace.workflow(1);
    // urgency: a deadline far away; ratio: a horizon of 1000 s, so that R grows by 1 in 1000 s.
    trace.call({.prompt = order == "urgency" ? 1000u : 1'000'000u});
    trace.sloMs.back() = 1e9;
  }
  return trace;
}

}  // namespace

TEST_SUITE("ageing") {
  TEST_CASE("without it an arrival stream starves a call for as long as it lasts; with it the bound holds") {
    for (const char* order : {"urgency", "ratio"}) {
      CAPTURE(order);
      constexpr int kStream = 400;
      const OwnedTrace trace = adversary(order, kStream);
      const WholeCosts costs{0, 1'000'000, 1'000'000, 0, 0};
      const InstanceSpec one = instanceSpec(0, 1, 10'000'000);
      const ClusterSpec cluster = clusterOf(std::span(&costs, 1), std::span(&one, 1));
      for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
        for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
          RunOptions options = baseOptions(order, "global-queue", binding);
          options.feedback = feedback;
          const Run off = run(trace, cluster, options);
          REQUIRE(ok(off.status));
          const auto wait = [](const Run& r) {
            return fromMs(r.leasedMs[kVictim]) - fromMs(r.readyMs[kVictim]);
          };
          CAPTURE(static_cast<int>(binding));
          CAPTURE(static_cast<int>(feedback));
          CHECK(wait(off) == kStream * kSecond - 1);
          for (const double seconds : {5.0, 50.0}) {
            options.parameters.set(static_cast<std::uint16_t>(Parameter::kAgeingMs), seconds * 1000);
            const Run on = run(trace, cluster, options);
            REQUIRE(ok(on.status));
            // Nothing that waits is older; one call of a second is leased.
            CHECK(wait(on) >= fromMs(seconds * 1000));
            CHECK(wait(on) <= fromMs(seconds * 1000) + kSecond);
          }
        }
      }
    }
  }

  TEST_CASE("exactly A is not overdue, and a change of A counts at once") {
    Desk desk({.order = "sjf", .parameters = {{Parameter::kAgeingMs, 10}}});
    const Ref w = desk.open(0);
    const auto at = [&](Nanos wait) {
      const Nanos t = desk.scheduler.now();
      const Ref busy = desk.reveal(t, w, 1);
      REQUIRE(desk.decide(t).size() == 1);
      const Ref longer = desk.reveal(t, w, 100);
      const Ref shorter = desk.reveal(t + wait, w, 50);
      REQUIRE(desk.decide(t + wait).empty());
      desk.finish(t + wait, busy);
      const std::vector<Ref> leased = desk.decide(t + wait);
      REQUIRE(leased.size() == 1);
      const bool byAge = leased[0] == longer;
      desk.finish(t + wait, leased[0]);
      for (const Ref& c : desk.decide(t + wait)) desk.finish(t + wait, c);
      CHECK((byAge || leased[0] == shorter));
      return byAge;
    };
    CHECK(!at(fromMs(10)));
    CHECK(at(fromMs(10) + 1));
    REQUIRE(ok(desk.scheduler.setParameter(desk.scheduler.now(),
                                           {static_cast<std::uint32_t>(Parameter::kAgeingMs), 0, 20})));
    CHECK(!at(fromMs(10) + 1));
    CHECK(at(fromMs(20) + 1));
    REQUIRE(ok(desk.scheduler.setParameter(desk.scheduler.now(),
                                           {static_cast<std::uint32_t>(Parameter::kAgeingMs), 0, 0})));
    CHECK(!at(fromMs(1000)));
  }
}

TEST_SUITE("cautious budgets") {
  const std::vector<TemplateEntry> kStages{{0, 10'000, 1}, {1, 40'000, 1}, {2, 30'000, 1}, {3, 20'000, 1}};

  TEST_CASE("a margin: budgets run on time end a fifth of the SLO early, deadlines stay") {
    Desk desk({.order = "urgency", .stages = kStages, .parameters = {{Parameter::kBudgetMargin, 0.2}}});
    const Ref w = desk.open(100_s, 300_s, 0, 0);
    Nanos t = 100_s;
    const Nanos expected[] = {16_s, 64_s, 48_s, 32_s};
    std::vector<Ref> chain;
    for (std::uint16_t i = 0; i < 4; ++i) {
      const std::vector<Ref> parents = i > 0 ? std::vector<Ref>{chain.back()} : std::vector<Ref>{};
      chain.push_back(desk.reveal(t, w, kStages[i].promptTokens, 1, i, parents));
      REQUIRE(desk.decide(t).size() == 1);
      CHECK(desk.call(chain.back()).budget == expected[i]);
      t += expected[i];
      desk.finish(t, chain.back());
    }
    CHECK(t == 260_s);
    CHECK(desk.workflow(w).deadline == 300_s);
  }

  TEST_CASE("a margin that changes reaches the calls that wait") {
    Desk desk({.order = "urgency"});
    const Ref w = desk.open(0, 100_s);
    desk.reveal(0, w, 1);
    REQUIRE(desk.decide(0).size() == 1);
    const Ref c = desk.reveal(0, w, 1);
    REQUIRE(desk.decide(0).empty());
    CHECK(desk.call(c).budget == 100_s);
    REQUIRE(
        ok(desk.scheduler.setParameter(1, {static_cast<std::uint32_t>(Parameter::kBudgetMargin), 0, 0.5})));
    REQUIRE(desk.decide(1).empty());
    CHECK(desk.call(c).budget == 50_s);
  }

  TEST_CASE("times follow the high prediction as far as asked, the KV reservation stays with the mean") {
    for (const double share : {0.0, 0.25, 1.0}) {
      CAPTURE(share);
      Desk desk({.order = "ratio", .parameters = {{Parameter::kOutputHigh, share}}});
      const Ref w = desk.open(0);
      const Ref c = desk.reveal(0, w, 100, 11, 0, {}, 51);
      REQUIRE(desk.decide(0).size() == 1);
      const Nanos decode = static_cast<Nanos>(10 + share * 40) * kMillisecond;
      CHECK(desk.call(c).cost.exec == 100 * kMillisecond + decode);
      CHECK(desk.call(c).mean == 100 * kMillisecond + decode);
      CHECK(desk.call(c).cost.kv == 111);
      CHECK(desk.workflow(w).horizon == 100 * kMillisecond + decode);
      // The correction takes back what was assumed, whatever that was.
      desk.finish(1, c, 21);
      CHECK(desk.workflow(w).horizon == 120 * kMillisecond);
    }
  }

  TEST_CASE("a pessimistic template gives back what it did not need") {
    // One opening, up to ten rounds, a test, an end: 10, 10 x 10, 20, 20 s, D = 300 s.
    std::vector<TemplateEntry> stages{{0, 10'000, 1}};
    for (int i = 0; i < 10; ++i) stages.push_back({1, 10'000, 1});
    stages.push_back({2, 20'000, 1});
    stages.push_back({3, 20'000, 1});
    Desk desk({.order = "urgency", .stages = stages});
    const Ref w = desk.open(0, 300_s, 0, 0);
    // Run on budget, each second of mean time is worth 2 s while all rounds are expected. Two rounds happen:
    // what the other eight would have had goes to the test and the end, 6 s for each second.
    const std::uint16_t happens[] = {0, 1, 1, 2, 3};
    const Nanos expected[] = {20_s, 20_s, 20_s, 120_s, 120_s};
    Nanos t = 0;
    std::vector<Ref> parents;
    for (int i = 0; i < 5; ++i) {
      const Ref c = desk.reveal(t, w, happens[i] < 2 ? 10'000 : 20'000, 1, happens[i], parents);
      REQUIRE(desk.decide(t).size() == 1);
      CHECK(desk.call(c).budget == expected[i]);
      t += expected[i];
      desk.finish(t, c);
      parents = {c};
    }
    CHECK(t == 300_s);  // all of it was given back
  }
}
