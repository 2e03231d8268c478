// What the scheduler derives from a workflow: tails and budgets, template cursors, the standalone horizon,
// the frontier.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "scheduler/scheduler.h"
#include "workflow/budget.h"
#include "workflow/horizon.h"
#include "workflow/template.h"

using namespace laxity;

namespace {

struct Failures {
  std::uint64_t checks = 0;
  std::uint64_t failed = 0;
  void expect(bool holds) {
    ++checks;
    failed += holds ? 0 : 1;
  }
};

LatencyModel model(const LatencyConstants& constants) {
  LatencyModel m;
  REQUIRE(LatencyModel::constants(constants, &m) == Status::kOk);
  return m;
}

/// A prompt of n tokens takes n ms, an iteration 1 ms.
LatencyModel simpleModel() { return model({0, 1, 1, 0, 0}); }

InstanceSpec instance(std::uint16_t latency, std::uint32_t sequences = 1, std::int64_t kv = 1'000'000) {
  InstanceSpec s;
  s.latency = latency;
  s.maxSequences = sequences;
  s.kvTokens = kv;
  return s;
}

/// A scheduler under `urgency` with the events of these tests in short form.
struct Rig {
  Scheduler scheduler;
  std::uint32_t calls = 0;
  std::uint32_t workflows = 0;

  explicit Rig(std::vector<LatencyModel> latencies, std::vector<InstanceSpec> specs,
               std::vector<std::vector<TemplateEntry>> templates = {}, const char* order = "urgency")
      : scheduler(config(std::move(latencies), std::move(templates), order)) {
    for (std::uint32_t m = 0; m < specs.size(); ++m) {
      REQUIRE(scheduler.instance(0, {m, InstanceChange::kAdd, specs[m]}) == Status::kOk);
    }
  }
  static SchedulerConfig config(std::vector<LatencyModel> latencies,
                                std::vector<std::vector<TemplateEntry>> templates, const char* order) {
    SchedulerConfig c;
    REQUIRE(makeOrder(order, &c.order));
    REQUIRE(makePlacement("least-work-left", &c.placement));
    c.lookahead = 0;
    c.latencies = std::move(latencies);
    c.templates = std::move(templates);
    return c;
  }

  Ref open(Nanos t, Nanos deadline = kNever, std::int16_t stages = -1, Nanos remaining = -1) {
    const Ref w{workflows++, 1};
    REQUIRE(scheduler.openWorkflow(t, {w, 0, stages, 0, deadline, remaining}) == Status::kOk);
    return w;
  }
  Ref reveal(Nanos t, Ref w, std::uint32_t prompt, std::uint32_t predicted, std::vector<Ref> parents = {},
             std::uint16_t stage = 0, Nanos remaining = -1, bool frontier = false) {
    Reveal e{};
    e.call = {calls++, 1};
    e.workflow = w;
    e.stage = stage;
    e.sequences = 1;
    e.frontier = frontier ? 1 : 0;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = predicted;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = remaining;
    REQUIRE(scheduler.reveal(t, e, parents) == Status::kOk);
    return e.call;
  }
  void finish(Nanos t, Ref c, std::uint32_t output = 0) {
    REQUIRE(scheduler.finished(t, {{c, call(c).epoch}, output}) == Status::kOk);
  }
  const Call& call(Ref c) const { return scheduler.graph().call(c.slot); }
  const Workflow& workflow(Ref w) const { return scheduler.graph().workflow(w.slot); }
};

}  // namespace

TEST_SUITE("budgets") {
  // policies.md 2.5: 100 s for stages of 10, 40, 30 and 20 s that take 10, 50, 30 and 20 s.
  const std::uint32_t kStages[] = {10'000, 40'000, 30'000, 20'000};
  const Nanos kTaken[] = {10 * kSecond, 50 * kSecond, 30 * kSecond, 20 * kSecond};
  const Nanos kBudgets[] = {10 * kSecond, 40 * kSecond, 24 * kSecond, 10 * kSecond};

  TEST_CASE("the published example: the overrun of stage 2 is spread over stages 3 and 4") {
    std::vector<TemplateEntry> entries;
    for (std::uint16_t i = 0; i < 4; ++i) entries.push_back({i, kStages[i], 1});
    for (const int known : {0, 1, 2}) {  // the whole chain revealed, a template, a declared rest
      CAPTURE(known);
      Rig rig({simpleModel()}, {instance(0)}, {entries});
      Nanos rest = 0;
      for (std::uint32_t stage : kStages) rest += stage * kMillisecond;
      const Ref w = rig.open(0, 100 * kSecond, known == 1 ? 0 : -1);
      std::vector<Ref> chain;
      if (known == 0) {
        for (std::uint16_t i = 0; i < 4; ++i) {
          chain.push_back(rig.reveal(0, w, kStages[i], 1,
                                     i > 0 ? std::vector<Ref>{chain.back()} : std::vector<Ref>{}, i));
        }
      }
      Nanos t = 0;
      for (std::uint16_t i = 0; i < 4; ++i) {
        rest -= kStages[i] * kMillisecond;
        if (known == 2) REQUIRE(rig.scheduler.updateWorkflow(t, {w, -1, rest}) == Status::kOk);
        if (known != 0) {
          chain.push_back(rig.reveal(t, w, kStages[i], 1,
                                     i > 0 ? std::vector<Ref>{chain.back()} : std::vector<Ref>{}, i));
        }
        REQUIRE(rig.scheduler.decide(t).size() == 1);
        CHECK(rig.call(chain[i]).budget == kBudgets[i]);
        t += kTaken[i];
        rig.finish(t, chain[i], 1);
      }
      CHECK(t == 110 * kSecond);
    }
  }

  TEST_CASE("a time declared for the call stands in place of the expected rest") {
    Rig rig({simpleModel()}, {instance(0)});
    const Ref w = rig.open(0, 100 * kSecond, -1, 70 * kSecond);
    const Ref c = rig.reveal(0, w, 10'000, 1, {}, 0, 30 * kSecond);
    rig.scheduler.decide(0);
    CHECK(rig.call(c).budget == 25 * kSecond);
    const Ref d = rig.reveal(0, w, 10'000, 1);  // without a declaration of its own
    rig.scheduler.decide(0);
    CHECK(rig.workflow(w).criticalPath == 80 * kSecond);
    CHECK(rig.call(d).budget == 100 * kSecond / 8);
  }

  TEST_CASE("siblings of one length share a budget, a branch off the critical path keeps its float") {
    Rig rig({simpleModel()}, {instance(0)});
    const Ref w = rig.open(0, 60 * kSecond);
    const Ref a = rig.reveal(0, w, 10'000, 1);
    const Ref b = rig.reveal(0, w, 10'000, 1);
    const Ref shorter = rig.reveal(0, w, 5'000, 1);
    rig.reveal(0, w, 20'000, 1, {a, b, shorter});
    rig.scheduler.decide(0);
    CHECK(rig.call(a).budget == 20 * kSecond);
    CHECK(rig.call(b).budget == 20 * kSecond);
    CHECK(rig.call(shorter).budget == 20 * kSecond);  // 1 - tail / P, not its own share
  }

  TEST_CASE("past the deadline budgets are negative, a larger share more so") {
    CHECK(budget(10 * kSecond, 30 * kSecond, 0, 5 * kSecond) == -20 * kSecond);
    CHECK(budget(10 * kSecond, 30 * kSecond, 4 * kSecond, 5 * kSecond) == -4 * kSecond);
    CHECK(budget(10 * kSecond, 30 * kSecond, 1 * kSecond, 5 * kSecond) == -16 * kSecond);
    CHECK(budget(10 * kSecond, 30 * kSecond, 0, 0) == -20 * kSecond);
    Rig rig({simpleModel()}, {instance(0)});
    const Ref w = rig.open(0, 5 * kSecond);
    const Ref a = rig.reveal(7 * kSecond, w, 1'000, 1);
    rig.reveal(7 * kSecond, w, 3'000, 1, {a});
    rig.scheduler.decide(7 * kSecond);
    CHECK(rig.call(a).budget == -kSecond / 2);
  }

  TEST_CASE("budgets along a chain executed exactly on budget add up to the SLO") {
    Failures f;
    Random random(31);
    for (int round = 0; round < 2000; ++round) {
      const std::uint32_t n = 1 + random.below(12);
      std::vector<Nanos> mean(n);
      for (Nanos& m : mean) m = 1 + random.below(2'000'000'000);
      Nanos path = 0;
      for (const Nanos m : mean) path += m;
      const Nanos slo = 1 + static_cast<Nanos>(random.uniform() * 1e12);
      Nanos t = random.below(1'000'000'000);
      const Nanos deadline = t + slo;
      const Nanos whole = path;
      Nanos sum = 0;
      for (std::uint32_t i = 0; i < n; ++i) {
        const Nanos b = budget(deadline, t, path - mean[i], path);
        const long double share = static_cast<long double>(slo) * mean[i] / whole;
        f.expect(std::abs(static_cast<double>(b - share)) <= 2.0 * n + 1e-3 * static_cast<double>(share));
        sum += b;
        t += b;
        path -= mean[i];
      }
      f.expect(sum == slo);
    }
    CHECK(f.failed == 0);
  }
}

namespace {

/// Longest paths by recursion over everything known, without any stored tail.
struct NaivePaths {
  const Rig& rig;
  const std::vector<Ref>& calls;
  const std::map<std::uint32_t, std::vector<std::uint32_t>>& children;

  bool over(std::uint32_t slot) const { return terminal(rig.scheduler.graph().call(slot).state); }
  Nanos below(std::uint32_t slot) const {
    Nanos longest = 0;
    const auto found = children.find(slot);
    if (found == children.end()) return 0;
    for (const std::uint32_t child : found->second) {
      if (!over(child)) longest = std::max(longest, rig.scheduler.graph().call(child).mean + below(child));
    }
    return longest;
  }
  Nanos path() const {
    Nanos longest = 0;
    for (const Ref c : calls) {
      if (!over(c.slot)) longest = std::max(longest, rig.call(c).mean + below(c.slot));
    }
    return longest;
  }
};

/// Random workflows, revealed piece by piece, worked off in random order; `cancels` takes back calls that
/// still wait for their parents, `grows` adds instances of a new kind.
void walkWorkflows(bool cancels, bool grows, Failures* f) {
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    Random random(32, seed);
    Rig rig({simpleModel(), model({3, 0.25, 2, 0, 0})}, {instance(0, 2), instance(0, 1)});
    const Nanos deadline = random.below(3) == 0 ? kNever : static_cast<Nanos>(random.below(1'000'000)) * 1000;
    const Ref w = rig.open(0, deadline);
    std::vector<Ref> calls;
    std::map<std::uint32_t, std::vector<std::uint32_t>> children;
    Nanos t = 0;
    const std::uint32_t target = 3 + random.below(12);
    for (int step = 0; step < 60; ++step) {
      const std::uint32_t what = random.below(10);
      if (what < 4 && calls.size() < target) {
        std::vector<Ref> parents;
        for (const Ref c : calls) {
          if (random.below(4) == 0) parents.push_back(c);
        }
        const Ref c = rig.reveal(t, w, 1 + random.below(500), 1 + random.below(200), parents);
        for (const Ref p : parents) children[p.slot].push_back(c.slot);
        calls.push_back(c);
      } else if (what < 7) {
        std::vector<Ref> running;
        for (const Ref c : calls) {
          if (leased(rig.call(c).state)) running.push_back(c);
        }
        if (!running.empty())
          rig.finish(t, running[random.below(static_cast<std::uint32_t>(running.size()))], 1);
      } else if (what == 7 && cancels && !calls.empty()) {
        const Ref c = calls[random.below(static_cast<std::uint32_t>(calls.size()))];
        if (rig.call(c).state == CallState::kRevealed) {
          REQUIRE(rig.scheduler.cancel(t, {{c, 0}}) == Status::kOk);
        }
      } else if (what == 8 && grows && step > 20 && rig.scheduler.cluster().size() < 3) {
        REQUIRE(rig.scheduler.instance(t, {2, InstanceChange::kAdd, instance(1)}) == Status::kOk);
      } else if (random.below(3) == 0) {
        t += random.below(1'000'000'000);
      }
      rig.scheduler.decide(t);
      const NaivePaths naive{rig, calls, children};
      const Nanos path = naive.path();
      if (path > 0) f->expect(rig.workflow(w).criticalPath == path);
      for (const Ref c : calls) {
        const Call& call = rig.call(c);
        if (!terminal(call.state)) f->expect(call.tail == naive.below(c.slot));
        if (call.state != CallState::kWaiting) continue;
        const Nanos d = deadline == kNever ? 2 * rig.workflow(w).horizon : deadline;
        const long double share = 1.0L - static_cast<long double>(naive.below(c.slot)) / path;
        const long double exact = static_cast<long double>(d - call.readyAt) * share;
        f->expect(std::abs(static_cast<double>(call.budget - exact)) <= 1.0);
      }
    }
  }
}

}  // namespace

TEST_SUITE("critical paths") {
  TEST_CASE("P, tails and budgets of random workflows equal naive longest paths") {
    Failures f;
    walkWorkflows(false, false, &f);
    CHECK(f.failed == 0);
    CHECK(f.checks > 100'000);
  }

  TEST_CASE("a cancelled call no longer lies below its parents") {
    Rig rig({simpleModel()}, {instance(0)});
    const Ref w = rig.open(0, 100 * kSecond);
    rig.reveal(0, w, 1'000, 1);  // takes the only instance
    rig.scheduler.decide(0);
    const Ref a = rig.reveal(0, w, 10'000, 1);
    const Ref b = rig.reveal(0, w, 40'000, 1, {a});
    rig.scheduler.decide(0);
    CHECK(rig.call(a).budget == 20 * kSecond);
    REQUIRE(rig.scheduler.cancel(0, {{b, 0}}) == Status::kOk);
    rig.scheduler.decide(0);
    CHECK(rig.call(a).tail == 0);
    CHECK(rig.workflow(w).criticalPath == 10 * kSecond);
    CHECK(rig.call(a).budget == 100 * kSecond);
    Failures f;
    walkWorkflows(true, false, &f);
    CHECK(f.failed == 0);
  }

  TEST_CASE("a new kind of instance changes the mean times of all calls on a path alike") {
    Rig rig({simpleModel(), model({0, 3, 1, 0, 0})}, {instance(0)});
    const Ref w = rig.open(0, 100 * kSecond);
    rig.reveal(0, w, 1'000, 1);  // takes the only instance
    rig.scheduler.decide(0);
    const Ref a = rig.reveal(0, w, 10'000, 1);
    const Ref b = rig.reveal(0, w, 40'000, 1, {a});
    rig.scheduler.decide(0);
    REQUIRE(rig.scheduler.instance(0, {1, InstanceChange::kAdd, instance(1)}) == Status::kOk);
    rig.scheduler.decide(0);
    REQUIRE(rig.call(a).mean == 20 * kSecond);  // (10 + 30) / 2
    REQUIRE(rig.call(b).mean == 80 * kSecond);
    CHECK(rig.call(a).tail == 80 * kSecond);
    CHECK(rig.workflow(w).criticalPath == 100 * kSecond);
    Failures f;
    walkWorkflows(false, true, &f);
    CHECK(f.failed == 0);
  }
}

namespace {

enum Stage : std::uint16_t {
  kIr,
  kKeywords,
  kCandidate,
  kRevise,
  kUnitTester,
  kGenerateTest,
  kEvaluate,
  kOther
};

/// HexGen-Flow's 15 entries (papers.md 1.3).
std::vector<TemplateEntry> hexgen() {
  std::vector<TemplateEntry> entries;
  const auto add = [&](std::uint16_t stage, int n, std::uint32_t prompt, std::uint32_t output) {
    for (int i = 0; i < n; ++i) entries.push_back({stage, prompt, output});
  };
  add(kIr, 4, 306, 7);
  add(kKeywords, 1, 685, 52);
  add(kCandidate, 1, 11'000, 710);
  add(kRevise, 4, 7'000, 120);
  add(kUnitTester, 3, 275, 5);
  add(kGenerateTest, 1, 1'200, 102);
  add(kEvaluate, 1, 1'100, 30);
  return entries;
}

/// The rule as a list: an appearing stage removes its first entry and all before it; without one nothing
/// happens.
void appear(std::vector<TemplateEntry>* left, std::uint16_t stage) {
  for (std::size_t i = 0; i < left->size(); ++i) {
    if ((*left)[i].stage != stage) continue;
    left->erase(left->begin(), left->begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

}  // namespace

TEST_SUITE("stage templates") {
  TEST_CASE(
      "HexGen-Flow's list: entries go as they happen, optional ones are dropped, extra rounds change "
      "nothing") {
    const StageTemplate stages(hexgen());
    REQUIRE(stages.size() == 15);
    const auto after = [&](std::vector<std::uint16_t> seen) {
      std::uint32_t cursor = 0;
      for (const std::uint16_t stage : seen) cursor = stages.advance(cursor, stage);
      return cursor;
    };
    CHECK(after({}) == 0);
    CHECK(after({kIr}) == 1);
    CHECK(after({kIr, kIr, kIr, kIr, kKeywords, kCandidate}) == 6);
    // two rounds of revise, then unit_tester: the other two are dropped
    CHECK(after({kIr, kIr, kIr, kIr, kKeywords, kCandidate, kRevise, kRevise}) == 8);
    CHECK(after({kIr, kIr, kIr, kIr, kKeywords, kCandidate, kRevise, kRevise, kUnitTester}) == 11);
    CHECK(after({kIr, kIr, kIr, kIr, kKeywords, kCandidate, kUnitTester}) == 11);
    // more rounds than the template knows
    CHECK(after({kCandidate, kRevise, kRevise, kRevise, kRevise}) == 10);
    CHECK(after({kCandidate, kRevise, kRevise, kRevise, kRevise, kRevise, kRevise}) == 10);
    CHECK(after({kUnitTester, kRevise}) == 11);
    // no keywords
    CHECK(after({kIr, kCandidate}) == 6);
    CHECK(after({kEvaluate}) == 15);
    CHECK(after({kEvaluate, kUnitTester, kIr, kOther}) == 15);
    CHECK(stages.entryOf(kUnitTester) == 10);
    CHECK(stages.entryOf(kOther) == stages.size());
  }

  TEST_CASE("random runs through random templates equal the rule written on a list") {
    Failures f;
    Random random(33);
    for (int round = 0; round < 3000; ++round) {
      std::vector<TemplateEntry> entries = hexgen();
      if (round % 2 == 1) {
        entries.resize(1 + random.below(12));
        for (TemplateEntry& e : entries) {
          e = {static_cast<std::uint16_t>(random.below(5)), 1 + random.below(900), 1 + random.below(90)};
        }
      }
      Cluster cluster({simpleModel(), model({3, 0.25, 2, 0, 0.001})}, 0);
      const std::uint32_t instances = 1 + random.below(4);
      std::vector<std::uint16_t> latencies;
      for (std::uint32_t m = 0; m < instances; ++m) {
        latencies.push_back(static_cast<std::uint16_t>(random.below(2)));
        REQUIRE(cluster.add(m, instance(latencies.back())) == Status::kOk);
      }
      StageTemplate stages(entries);
      stages.price(cluster, FirstToken::kFromPrefill);
      std::uint32_t cursor = 0;
      std::vector<TemplateEntry> left = entries;
      for (int step = 0; step < 20; ++step) {
        Nanos rest = 0;
        for (const TemplateEntry& e : left) {
          __int128 sum = 0;
          for (const std::uint16_t k : latencies) {
            const LatencyModel m = k == 0 ? simpleModel() : model({3, 0.25, 2, 0, 0.001});
            sum += m.prefill(e.promptTokens, 0) + m.decodeAlone(e.promptTokens + 1, e.outputTokens - 1);
          }
          rest += static_cast<Nanos>(sum / instances);
        }
        f.expect(stages.rest(cursor) == rest);
        f.expect(cursor == entries.size() - left.size());
        const auto stage = static_cast<std::uint16_t>(random.below(8));
        cursor = stages.advance(cursor, stage);
        appear(&left, stage);
      }
    }
    CHECK(f.failed == 0);
  }

  TEST_CASE("siblings of one stage move the cursor once, a deeper call moves it again") {
    Rig rig({simpleModel()}, {instance(0, 8)}, {hexgen()});
    const Ref w = rig.open(0, 100 * kSecond, 0);
    CHECK(rig.workflow(w).cursor == 0);
    const Ref ir = rig.reveal(0, w, 306, 7, {}, kIr);
    CHECK(rig.workflow(w).cursor == 1);
    rig.scheduler.decide(0);
    rig.finish(1, ir);
    const Ref first = rig.reveal(1, w, 11'000, 700, {ir}, kCandidate);
    const Ref second = rig.reveal(1, w, 11'000, 700, {ir}, kCandidate);
    CHECK(rig.workflow(w).cursor == 6);
    const Ref revise = rig.reveal(1, w, 7'000, 120, {first, second}, kRevise);
    CHECK(rig.workflow(w).cursor == 7);
    rig.reveal(1, w, 7'000, 120, {first}, kRevise);  // as deep as the one before
    CHECK(rig.workflow(w).cursor == 7);
    rig.reveal(1, w, 275, 5, {revise}, kUnitTester);
    CHECK(rig.workflow(w).cursor == 11);
    const Ref other = rig.open(1, 100 * kSecond, -1);  // without a template
    rig.reveal(1, other, 306, 7, {}, kIr);
    CHECK(rig.workflow(other).cursor == 0);
  }
}

namespace {

/// One private idle copy of the whole cluster per workflow, a ready time for every instance (papers.md 2.3).
struct NaiveHorizon {
  struct Copy {
    std::uint64_t tie = 0;
    std::uint32_t kind = 0;
    Nanos ready = 0;
  };
  std::vector<Copy> copies;
  std::vector<Nanos> end;

  void reveal(const std::vector<std::uint32_t>& parents, const std::vector<Estimate>& estimates, Nanos gap) {
    Nanos start = 0;
    for (const std::uint32_t p : parents) start = std::max(start, end[p]);
    start += gap;
    Copy* best = nullptr;
    Nanos bestEnd = 0;
    for (Copy& m : copies) {
      const Estimate& e = estimates[m.kind];
      if (e.exec == kNever) continue;
      const Nanos finish = std::max(start, m.ready) + e.exec;
      const bool better =
          best == nullptr || finish < bestEnd ||
          (finish == bestEnd && (e.exec < estimates[best->kind].exec ||
                                 (e.exec == estimates[best->kind].exec && m.tie < best->tie)));
      if (!better) continue;
      best = &m;
      bestEnd = finish;
    }
    if (best == nullptr) {
      end.push_back(0);
      return;
    }
    best->ready = std::max(start, best->ready) + estimates[best->kind].prefill;
    end.push_back(bestEnd);
  }
  Nanos horizon() const {
    Nanos h = 0;
    for (const Nanos e : end) h = std::max(h, e);
    return h;
  }
};

}  // namespace

TEST_SUITE("horizon") {
  TEST_CASE("3000 random workflows: one ready time per instance, corrections at finishes, late tools") {
    Failures f;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      Random random(34, seed);
      const std::uint64_t tieSeed = random.below(3);
      const bool coarse = random.below(2) == 0;  // ties are the rule
      const std::uint32_t kinds = 1 + random.below(3);
      std::vector<LatencyModel> latencies;
      for (std::uint32_t k = 0; k < kinds; ++k) latencies.push_back(model({1.0 * k, 1, 1, 0, 0}));
      Cluster cluster(latencies, tieSeed);
      const std::uint32_t instances = 1 + random.below(7);
      for (std::uint32_t m = 0; m < instances; ++m) {
        REQUIRE(cluster.add(m, instance(static_cast<std::uint16_t>(random.below(kinds)))) == Status::kOk);
      }
      Graph graph;
      Horizons horizons;
      // Two workflows at once: each has its own idle cluster.
      std::vector<NaiveHorizon> naive(2);
      std::vector<std::vector<Ref>> calls(2);
      for (std::uint32_t w = 0; w < 2; ++w) {
        REQUIRE(graph.open({w, 1}, 0, 0) == Status::kOk);
        for (std::uint32_t m = 0; m < instances; ++m) {
          naive[w].copies.push_back({cluster.at(m).tie, cluster.at(m).hardwareClass, 0});
        }
      }
      std::uint32_t slots = 0;
      const std::uint32_t steps = 4 + random.below(30);
      for (std::uint32_t step = 0; step < steps; ++step) {
        const std::uint32_t w = random.below(2);
        const std::uint32_t what = random.below(10);
        std::vector<std::uint32_t> unfinished;
        for (std::uint32_t i = 0; i < calls[w].size(); ++i) {
          if (!terminal(graph.call(calls[w][i].slot).state)) unfinished.push_back(i);
        }
        if (what < 6 || unfinished.empty()) {
          std::vector<std::uint32_t> parents;
          std::vector<Ref> parentRefs;
          for (std::uint32_t i = 0; i < calls[w].size(); ++i) {
            if (random.below(4) > 0) continue;
            parents.push_back(i);
            parentRefs.push_back(calls[w][i]);
          }
          std::vector<Estimate> estimates(cluster.classes().size());
          for (Estimate& e : estimates) {
            e.prefill = coarse ? 1 + random.below(3) : 1 + random.below(1'000'000);
            e.exec = e.prefill + (coarse ? random.below(3) : random.below(5'000'000));
            if (random.below(8) == 0) e = {0, kNever};
          }
          const Nanos gap = random.below(3) == 0 ? random.below(coarse ? 4 : 2'000'000) : 0;
          const Ref c{slots++, 1};
          REQUIRE(graph.reveal(c, {w, 1}, parentRefs, false, 0) == Status::kOk);
          horizons.reveal(graph, cluster, c.slot, estimates.data(), gap);
          naive[w].reveal(parents, estimates, gap);
          calls[w].push_back(c);
        } else {
          const std::uint32_t i = unfinished[random.below(static_cast<std::uint32_t>(unfinished.size()))];
          const Ref c = calls[w][i];
          if (what == 6) {
            const Nanos gap = random.below(coarse ? 4 : 2'000'000);
            horizons.delay(graph, c.slot, gap);
            if (naive[w].end[i] > 0) naive[w].end[i] += gap;
          } else {
            // Never longer than the call itself, as the correction of a decode cannot be.
            const Nanos length = std::min<Nanos>(naive[w].end[i], coarse ? 3 : 100'000);
            const Nanos correction =
                static_cast<Nanos>(random.below(static_cast<std::uint32_t>(2 * length + 1))) - length;
            std::vector<std::uint32_t> released;
            graph.finish(c.slot, CallState::kDone, 0, &released);
            horizons.finish(graph, c.slot, correction);
            naive[w].end[i] += correction;
          }
        }
        for (std::uint32_t v = 0; v < 2; ++v) {
          f.expect(graph.workflow(v).horizon == naive[v].horizon());
          for (std::uint32_t i = 0; i < calls[v].size(); ++i) {
            f.expect(graph.call(calls[v][i].slot).isolatedEnd == naive[v].end[i]);
          }
        }
      }
      for (std::uint32_t w = 0; w < 2; ++w) horizons.close(graph.workflow(w));
    }
    CHECK(f.failed == 0);
    CHECK(f.checks > 200'000);
  }

  TEST_CASE("a chain: the sum of the best instances, tool gaps and the correction of its lengths") {
    Rig rig({simpleModel(), model({0, 2, 0.5, 0, 0})}, {instance(0), instance(1)}, {}, "ratio");
    const Ref w = rig.open(0);
    const Ref a =
        rig.reveal(5 * kSecond, w, 100, 11);  // a source starts with the workflow, whenever it is revealed
    CHECK(rig.workflow(w).horizon == 110 * kMillisecond);
    rig.scheduler.decide(5 * kSecond);
    rig.finish(6 * kSecond, a, 31);  // 20 tokens more than predicted, on the isolated instance
    CHECK(rig.workflow(w).horizon == 130 * kMillisecond);
    const Ref b =
        rig.reveal(6 * kSecond + 30 * kMillisecond, w, 10, 201, {a});  // 120 on instance 1, a gap of 30
    CHECK(rig.workflow(w).horizon == (130 + 30 + 120) * kMillisecond);
    rig.scheduler.decide(7 * kSecond);
    rig.finish(8 * kSecond, b, 0);  // length not reported: nothing to correct
    CHECK(rig.workflow(w).horizon == 280 * kMillisecond);
  }

  TEST_CASE("parallel siblings queue their prefills, their decodes take no room") {
    Rig rig({simpleModel()}, {instance(0)}, {}, "ratio");
    const Ref w = rig.open(0);
    for (int i = 0; i < 3; ++i) rig.reveal(0, w, 100, 51);
    CHECK(rig.workflow(w).horizon == (3 * 100 + 50) * kMillisecond);
  }

  TEST_CASE("a cancelled call leaves the horizon when it is cancelled, not at some later event") {
    Rig rig({simpleModel()}, {instance(0)}, {}, "ratio");
    const Ref w = rig.open(0);
    const Ref a = rig.reveal(0, w, 100, 1);
    const Ref b = rig.reveal(0, w, 50, 1, {a});
    CHECK(rig.workflow(w).horizon == 150 * kMillisecond);
    rig.scheduler.decide(0);
    REQUIRE(rig.scheduler.cancel(0, {{b, 0}}) == Status::kOk);
    const Nanos atOnce = rig.workflow(w).horizon;
    rig.finish(kSecond, a, 1);
    CHECK(atOnce == rig.workflow(w).horizon);
  }
}

namespace {

struct NaiveNode {
  Ref ref;
  std::vector<std::uint32_t> parents;
  bool done = false;
};

std::set<std::uint32_t> parentsOf(const Graph& graph, Ref c) {
  std::set<std::uint32_t> slots;
  graph.eachParent(graph.call(c.slot), [&](std::uint32_t p) { slots.insert(p); });
  return slots;
}

}  // namespace

TEST_SUITE("frontier") {
  TEST_CASE("random workflows: the finished calls without a finished child") {
    Failures f;
    for (std::uint64_t seed = 0; seed < 1500; ++seed) {
      Random random(35, seed);
      Graph graph;
      REQUIRE(graph.open({0, 1}, 0, 0) == Status::kOk);
      std::vector<NaiveNode> nodes;
      for (int step = 0; step < 40; ++step) {
        if (random.below(2) == 0 || nodes.empty()) {
          NaiveNode n;
          n.ref = {static_cast<std::uint32_t>(nodes.size()), 1};
          const bool frontier = random.below(4) != 0;
          std::vector<Ref> given;
          for (std::uint32_t i = 0; i < nodes.size(); ++i) {
            bool parent = false;
            if (frontier) {
              parent = nodes[i].done;
              for (const NaiveNode& child : nodes) {
                for (const std::uint32_t p : child.parents) parent = parent && !(p == i && child.done);
              }
            } else {
              parent = random.below(4) == 0;
            }
            if (!parent) continue;
            n.parents.push_back(i);
            if (!frontier) given.push_back(nodes[i].ref);
          }
          REQUIRE(graph.reveal(n.ref, {0, 1}, given, frontier, 0) == Status::kOk);
          f.expect(parentsOf(graph, n.ref) == std::set<std::uint32_t>(n.parents.begin(), n.parents.end()));
          std::uint32_t pending = 0;
          std::uint32_t depth = 0;
          for (const std::uint32_t p : n.parents) {
            pending += nodes[p].done ? 0 : 1;
            depth = std::max(depth, graph.call(p).depth + 1);
          }
          f.expect(graph.call(n.ref.slot).pendingParents == pending);
          f.expect(graph.call(n.ref.slot).depth == depth);
          nodes.push_back(n);
        } else {
          std::vector<std::uint32_t> free;
          for (std::uint32_t i = 0; i < nodes.size(); ++i) {
            bool ready = !nodes[i].done;
            for (const std::uint32_t p : nodes[i].parents) ready = ready && nodes[p].done;
            if (ready) free.push_back(i);
          }
          if (free.empty()) continue;
          const std::uint32_t i = free[random.below(static_cast<std::uint32_t>(free.size()))];
          std::vector<std::uint32_t> released;
          graph.finish(nodes[i].ref.slot, CallState::kDone, 0, &released);
          nodes[i].done = true;
          std::vector<std::uint32_t> expected;
          for (std::uint32_t j = 0; j < nodes.size(); ++j) {
            bool child = false;
            bool ready = true;
            for (const std::uint32_t p : nodes[j].parents) {
              child = child || p == i;
              ready = ready && nodes[p].done;
            }
            if (child && ready) expected.push_back(j);
          }
          f.expect(released == expected);  // in the order in which they were revealed
        }
      }
    }
    CHECK(f.failed == 0);
  }

  TEST_CASE("siblings revealed one after the other share it, the next stage joins them") {
    Graph graph;
    std::vector<std::uint32_t> released;
    REQUIRE(graph.open({0, 1}, 0, 0) == Status::kOk);
    const auto reveal = [&](std::uint32_t slot) {
      REQUIRE(graph.reveal({slot, 1}, {0, 1}, {}, true, 0) == Status::kOk);
      return parentsOf(graph, {slot, 1});
    };
    const auto finish = [&](std::uint32_t slot) { graph.finish(slot, CallState::kDone, 0, &released); };
    CHECK(reveal(0) == std::set<std::uint32_t>{});
    finish(0);
    CHECK(reveal(1) == std::set<std::uint32_t>{0});
    CHECK(reveal(2) == std::set<std::uint32_t>{0});
    CHECK(reveal(3) == std::set<std::uint32_t>{0});
    finish(2);
    CHECK(reveal(4) == std::set<std::uint32_t>{2});  // 0 has a finished child now
    finish(1);
    finish(3);
    CHECK(reveal(5) == std::set<std::uint32_t>{1, 2, 3});
    finish(5);
    finish(4);
    CHECK(reveal(6) == std::set<std::uint32_t>{4, 5});
  }

  TEST_CASE("a child that failed or was cancelled has not finished: its parents stay in the frontier") {
    for (const CallState end : {CallState::kFailed, CallState::kCancelled, CallState::kRejected}) {
      Graph graph;
      std::vector<std::uint32_t> released;
      REQUIRE(graph.open({0, 1}, 0, 0) == Status::kOk);
      REQUIRE(graph.reveal({0, 1}, {0, 1}, {}, true, 0) == Status::kOk);
      graph.finish(0, CallState::kDone, 0, &released);
      REQUIRE(graph.reveal({1, 1}, {0, 1}, {}, true, 0) == Status::kOk);
      graph.finish(1, end, 0, &released);
      REQUIRE(graph.reveal({2, 1}, {0, 1}, {}, true, 0) == Status::kOk);  // the caller tries again
      CHECK(parentsOf(graph, {2, 1}) == std::set<std::uint32_t>{0});
    }
  }
}
