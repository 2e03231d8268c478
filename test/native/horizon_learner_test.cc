// Lower estimates of final horizons (workflow/horizon_learner.h) against naive ones, and what orders make of
// them.
#include "workflow/horizon_learner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "base/math.h"
#include "base/random.h"
#include "order/registry.h"
#include "placement/registry.h"
#include "scheduler/scheduler.h"

using namespace laxity;

namespace {

double lowerOf(std::vector<double> all, std::size_t window, double q) {
  if (all.size() > window) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(window));
  std::sort(all.begin(), all.end());
  const double rank = std::floor(q * static_cast<double>(all.size() + 1));
  return all[rank < 1 ? 0 : std::min(all.size(), static_cast<std::size_t>(rank)) - 1];
}

/// Of values that are at least 1; between 1 and the smallest where rank q (n + 1) is below 1.
double lowerGrowthOf(const std::vector<double>& all, double q) {
  const double rank = q * static_cast<double>(std::min<std::size_t>(300, all.size()) + 1);
  const double quantile = lowerOf(all, 300, q);
  return rank < 1 ? 1 + (quantile - 1) * rank : quantile;
}

/// Isolated end, depth and stage of a call.
struct End {
  Nanos end;
  std::uint32_t depth;
  int stage;
};

int octave(std::uint32_t n) {
  int bits = 0;
  for (; n > 0; n /= 2) ++bits;
  return bits;
}

struct Fading {
  double sum = 0;
  std::uint32_t count = 0;
  void add(double value) {
    if (count == 1024) {
      sum /= 2;
      count = 512;
    }
    sum += value;
    ++count;
  }
};

/// Keeps everything it has seen.
struct NaiveLearner {
  using Kind = std::pair<int, int>;
  struct Cell {
    std::vector<double> growth;
    std::map<int, std::vector<double>> stages;  ///< of the first four stages that were seen
    std::vector<double> residual;
    Fading mean;
  };
  std::map<std::pair<Kind, std::uint32_t>, Cell> cells;
  std::map<std::tuple<Kind, std::uint32_t, int, int>, Fading> fine;
  std::map<std::tuple<Kind, std::uint32_t, int, int>, double> factors;
  std::vector<double> outside;

  double factor(Kind kind, std::uint32_t depth, int prompt, std::uint32_t calls) {
    const auto own = factors.find({kind, depth, prompt, octave(calls)});
    if (own != factors.end()) return own->second;
    const Fading& all = cells[{kind, depth}].mean;
    return all.count == 0 ? 1 : detExp(all.sum / all.count);
  }
  void finished(Kind kind, int prompt, const std::vector<End>& ends, Nanos final, Nanos predicted) {
    if (predicted > 0) outside.push_back(static_cast<double>(final) / static_cast<double>(predicted));
    std::uint32_t deepest = 0;
    for (const End& e : ends) deepest = std::max(deepest, e.depth);
    for (std::uint32_t d = 0; d <= deepest && d < 128; ++d) {
      Cell& cell = cells[{kind, d}];
      std::map<int, Nanos> last;
      Nanos all = 0;
      for (auto e = ends.rbegin(); e != ends.rend(); ++e) {  // the order in which stages come to be known
        if (e->depth != d) continue;
        all = std::max(all, e->end);
        if (cell.stages.count(e->stage) > 0 || cell.stages.size() < 4) {
          cell.stages[e->stage];
          last[e->stage] = std::max(last[e->stage], e->end);
        }
      }
      cell.growth.push_back(static_cast<double>(final) / static_cast<double>(all));
      for (const auto& [stage, end] : last)
        cell.stages[stage].push_back(static_cast<double>(final) / static_cast<double>(end));
    }
    for (std::uint32_t d = 0; d <= deepest && d < 128; ++d) {
      Nanos front = 0;
      std::uint32_t calls = 0;
      for (const End& e : ends) {
        if (e.depth > d) continue;
        front = std::max(front, e.end);
        ++calls;
      }
      const double growth = static_cast<double>(final) / static_cast<double>(front);
      Cell& cell = cells[{kind, d}];
      if (cell.mean.count > 0) cell.residual.push_back(growth / factor(kind, d, prompt, calls));
      cell.mean.add(detLog(growth));
      const std::tuple key{kind, d, prompt, octave(calls)};
      fine[key].add(detLog(growth));
      factors[key] = detExp((fine[key].sum + 8 * cell.mean.sum / cell.mean.count) / (fine[key].count + 8.0));
    }
  }
  double structural(Kind kind, const End& call, double q) {
    Cell& cell = cells[{kind, call.depth}];
    const auto end = static_cast<double>(call.end);
    const auto own = cell.stages.find(call.stage);
    if (own != cell.stages.end() && own->second.size() >= 20) return end * lowerGrowthOf(own->second, q);
    return cell.growth.empty() ? 0 : end * lowerGrowthOf(cell.growth, q);
  }
  /// `kept`: the largest that calls said when they were revealed. `depth`: the largest of the workflow.
  double lower(Kind kind, int prompt, std::uint32_t depth, std::uint32_t calls, Nanos horizon, Nanos kept,
               const End& call, Nanos predicted, const HorizonRules& rules) {
    double best = 0;
    if (predicted > 0 && outside.size() >= 20)
      best = lowerOf(outside, 200, rules.quantile) * static_cast<double>(predicted);
    const auto h = static_cast<double>(horizon);
    const Cell& cell = cells[{kind, depth}];
    if (rules.structural)
      best = std::max({best, static_cast<double>(kept), structural(kind, call, rules.quantile)});
    if (rules.predictor && cell.residual.size() >= 20) {
      best = std::max(best,
                      lowerOf(cell.residual, 200, rules.quantile) * h * factor(kind, depth, prompt, calls));
    }
    return best;
  }
};

/// One workflow at a time in a graph of its own, its isolated ends set by hand.
struct Sketch {
  Graph graph;
  std::uint32_t calls = 0;
  std::vector<End> ends;

  Sketch(HorizonLearner& learner, std::int32_t stages, std::uint16_t stage, std::uint32_t prompt) {
    graph.open({0, 1}, 0, 0);
    workflow().stageTemplate = stages;
    workflow().kind = learner.kind(stages, stage, prompt);
  }
  Workflow& workflow() { return graph.workflow(0); }
  const Call& reveal(std::vector<Ref> parents, Nanos end, std::uint16_t stage = 0) {
    REQUIRE(ok(graph.reveal({calls, 1}, {0, 1}, parents, false, 0)));
    Call& c = graph.call(calls++);
    c.isolatedEnd = end;
    c.stage = stage;
    ends.push_back({end, c.depth, stage});
    workflow().horizon = std::max(workflow().horizon, end);
    return c;
  }
};

/// One instance, one call at a time: a prompt token and an iteration take 1 ms.
struct Bench {
  Scheduler s;
  std::uint32_t workflows = 0;
  std::uint32_t calls = 0;

  explicit Bench(const char* order, std::vector<std::pair<Parameter, double>> parameters = {})
      : s(config(order, parameters)) {
    InstanceSpec spec;
    spec.maxSequences = 1;
    spec.kvTokens = 1'000'000;
    REQUIRE(ok(s.instance(0, {0, InstanceChange::kAdd, spec})));
  }
  static SchedulerConfig config(const char* order,
                                const std::vector<std::pair<Parameter, double>>& parameters) {
    SchedulerConfig c;
    REQUIRE(makeOrder(order, &c.order));
    REQUIRE(makePlacement("least-work-left", &c.placement));
    c.lookahead = 0;
    for (const auto& [p, value] : parameters) REQUIRE(c.parameters.set(static_cast<std::uint16_t>(p), value));
    LatencyModel model;
    REQUIRE(ok(LatencyModel::constants({0, 1, 1, 0, 0}, &model)));
    c.latencies.push_back(model);
    return c;
  }
  Ref open(Nanos t, Nanos remaining = -1, bool exact = false, Nanos predicted = 0) {
    OpenWorkflow e{{workflows++, 1}, 0, -1, 0, kNever, remaining, predicted, exact};
    REQUIRE(ok(s.openWorkflow(t, e)));
    return e.workflow;
  }
  Ref reveal(Nanos t, Ref w, std::uint32_t prompt, std::vector<Ref> parents = {}, Nanos remaining = -1,
             bool exact = false) {
    Reveal e{};
    e.call = {calls++, 1};
    e.workflow = w;
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = 1;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = remaining;
    e.exactRemaining = exact;
    REQUIRE(ok(s.reveal(t, e, parents)));
    return e.call;
  }
  /// A chain of calls of 10 ms each, alone.
  Nanos chain(Nanos t, std::uint32_t length, Nanos predicted = 0) {
    const Ref w = open(t, -1, false, predicted);
    std::vector<Ref> parents;
    for (std::uint32_t i = 0; i < length; ++i) {
      const Ref c = reveal(t, w, 10, parents);
      REQUIRE(s.decide(t).size() == 1);
      t += 10 * kMillisecond;
      REQUIRE(ok(s.finished(t, {{c, 0}, 1})));
      parents = {c};
    }
    REQUIRE(ok(s.closeWorkflow(t, {w})));
    s.decide(t);
    return t;
  }
  /// What `ratio` of a waiting call says of F: R = (n + F) / (H + F).
  double beyondMs(Ref c) const {
    const Call& call = s.graph().call(c.slot);
    const Workflow& w = s.graph().workflow(call.workflow);
    const double r = s.keyOf(c.slot);
    const auto n = static_cast<double>(s.now() - w.arrival + s.projection(c.slot));
    return toMs(static_cast<Nanos>(std::llround((r * static_cast<double>(w.horizon) - n) / (1 - r))));
  }
};

}  // namespace

TEST_SUITE("horizon learner") {
  TEST_CASE("lower quantiles: the ring is the tail of all that was added") {
    Random random(900);
    int checked = 0;
    for (int round = 0; round < 60; ++round) {
      const std::uint32_t window = 1 + random.below(40);
      LowerQuantile own(window);
      std::vector<double> all;
      for (int i = 0; i < 150; ++i) {
        all.push_back(random.below(3) == 0 ? random.below(5) : random.uniform() * 10);
        own.add(all.back());
        REQUIRE(own.size() == std::min<std::size_t>(window, all.size()));
        const double q = random.below(4) == 0 ? random.below(2) : random.uniform();
        REQUIRE(own.at(q) == lowerOf(all, window, q));
        ++checked;
      }
    }
    CHECK(checked == 9000);
  }

  TEST_CASE("lower quantiles: of exchangeable observations a share of at most q falls below, about q of it") {
    // 1 - k / (n + 1) of continuous draws: k = floor(0.1 * 200 + 0.1), n = 200.
    Random random(901);
    int below = 0;
    constexpr int kTrials = 4000;
    for (int i = 0; i < kTrials; ++i) {
      LowerQuantile ring(200);
      for (int k = 0; k < 200; ++k) ring.add(detExp(random.normal()));
      below += detExp(random.normal()) < ring.at(0.1) ? 1 : 0;
    }
    const double expected = 20.0 / 201;
    const double deviation = std::sqrt(expected * (1 - expected) / kTrials);
    CHECK(std::abs(static_cast<double>(below) / kTrials - expected) < 4 * deviation);
  }

  TEST_CASE("everything it learns is what a naive one that keeps all workflows says") {
    Random random(902);
    std::uint64_t asked = 0, spoke = 0, outside = 0;
    for (int round = 0; round < 12; ++round) {
      HorizonLearner learner;
      NaiveLearner naive;
      for (int w = 0; w < 450; ++w) {
        const auto stages = static_cast<std::int32_t>(random.below(3)) - 1;
        const auto stage = static_cast<std::uint16_t>(random.below(2));
        const std::uint32_t prompt = 1 + random.below(2000);
        const NaiveLearner::Kind kind{stages, stage};
        Sketch sketch(learner, stages, stage, prompt);
        const Nanos predicted = random.below(2) == 0 ? 1 + random.below(1'000'000) : 0;
        sketch.workflow().predictedHorizon = predicted;
        const std::uint32_t calls = 1 + random.below(round % 2 == 0 ? 6 : 40);
        Nanos end = 0;
        Nanos kept = 0;
        for (std::uint32_t i = 0; i < calls; ++i) {
          std::vector<Ref> parents;
          for (std::uint32_t k = random.below(3); i > 0 && k > 0; --k)
            parents.push_back({random.below(i), 1});
          if (parents.size() == 2 && parents[0].slot == parents[1].slot) parents.pop_back();
          end += 1 + random.below(1000);
          const auto stageOf = static_cast<std::uint16_t>(random.below(round % 3 == 0 ? 7 : 3));
          const Call& c = sketch.reveal(parents, random.below(4) == 0 ? end / 2 + 1 : end, stageOf);
          HorizonRules rules{random.below(3) > 0, random.below(3) > 0, random.uniform() * 0.5};
          if (random.below(4) == 0) rules.quantile = random.uniform() * 0.02;
          if (rules.structural)
            kept = std::max(
                kept, static_cast<Nanos>(naive.structural(kind, sketch.ends.back(), rules.quantile) + 0.5));
          learner.revealed(sketch.workflow(), c, rules);
          REQUIRE(sketch.workflow().learntHorizon == kept);
          // Any call may be asked, not only the last.
          const std::uint32_t asks = random.below(i + 1);
          const Nanos got = learner.lower(sketch.workflow(), sketch.graph.call(asks), rules);
          const double want =
              naive.lower(kind, octave(prompt), sketch.workflow().depth, i + 1, sketch.workflow().horizon,
                          kept, sketch.ends[asks], predicted, rules);
          REQUIRE(got == static_cast<Nanos>(want + 0.5));
          ++asked;
          spoke += want > static_cast<double>(sketch.workflow().horizon) ? 1 : 0;
        }
        learner.finished(sketch.graph, sketch.workflow());
        naive.finished(kind, octave(prompt), sketch.ends, sketch.workflow().horizon, predicted);
        outside += predicted > 0 ? 1 : 0;
      }
    }
    MESSAGE("asked " << asked << ", above the horizon " << spoke << ", predictions from outside " << outside);
    CHECK(asked > 50'000);
    CHECK(spoke > 10'000);
  }

  TEST_CASE("equal chains: the structural minimum grows into the final horizon, at every depth") {
    // 49 chains: rank 0.02 * 50 = 1.
    HorizonLearner learner;
    const HorizonRules rules{true, false, 0.02};
    for (int w = 0; w < 49; ++w) {
      Sketch chain(learner, -1, 3, 100);
      for (std::uint32_t i = 0; i < 8; ++i) {
        const Call& c =
            chain.reveal(i == 0 ? std::vector<Ref>{} : std::vector<Ref>{{i - 1, 1}}, 700 * (i + 1));
        const double share = w == 0 ? 0 : 0.02 * (w + 1);
        const double end = 700.0 * (i + 1);
        CHECK(learner.lower(chain.workflow(), c, rules) ==
              (w == 0 ? 0 : static_cast<Nanos>(end * (1 + (5600 / end - 1) * share) + 0.5)));
      }
      learner.finished(chain.graph, chain.workflow());
    }
    Sketch chain(learner, -1, 3, 100);
    for (std::uint32_t i = 0; i < 8; ++i) {
      const Call& c = chain.reveal(i == 0 ? std::vector<Ref>{} : std::vector<Ref>{{i - 1, 1}}, 700 * (i + 1));
      CHECK(learner.lower(chain.workflow(), c, rules) == 5600);
    }
    Sketch other(learner, -1, 4, 100);
    CHECK(learner.lower(other.workflow(), other.reveal({}, 700), {true, true, 0.02}) == 0);
  }

  TEST_CASE("what a call said when it was revealed is kept, and the stage of a call counts") {
    HorizonLearner learner;
    const HorizonRules rules{true, false, 0.02};
    // A call of stage 1 is followed by one of stage 2, which may be the last.
    for (int w = 0; w < 60; ++w) {
      Sketch chain(learner, -1, 1, 100);
      chain.reveal({}, 100, 1);
      chain.reveal({{0, 1}}, 200, w % 2 == 0 ? 1 : 2);
      if (w % 2 == 0) chain.reveal({{1, 1}}, 300, 2);
      learner.finished(chain.graph, chain.workflow());
    }
    Sketch chain(learner, -1, 1, 100);
    CHECK(learner.lower(chain.workflow(), chain.reveal({}, 100, 1), rules) == 200);
    Sketch tool(learner, -1, 1, 100);
    tool.reveal({}, 100, 1);
    const double share = 0.02 * 31;  // 30 chains had stage 1 there
    CHECK(learner.lower(tool.workflow(), tool.reveal({{0, 1}}, 200, 1), rules) ==
          static_cast<Nanos>(200 * (1 + 0.5 * share) + 0.5));
    Sketch answer(learner, -1, 1, 100);
    answer.reveal({}, 100, 1);
    CHECK(learner.lower(answer.workflow(), answer.reveal({{0, 1}}, 200, 2), rules) == 200);
    // A longer one than any: nothing is known at depth 3, and the word of the first call stands.
    Sketch kept(learner, -1, 1, 100);
    learner.revealed(kept.workflow(), kept.reveal({}, 1000, 1), rules);
    Sketch deep(learner, -1, 1, 100);
    deep.workflow().learntHorizon = kept.workflow().learntHorizon;
    for (std::uint32_t i = 0; i < 4; ++i)
      deep.reveal(i == 0 ? std::vector<Ref>{} : std::vector<Ref>{{i - 1, 1}}, 100 * (i + 1), 1);
    CHECK(learner.lower(deep.workflow(), deep.graph.call(3), rules) == 2000);
    CHECK(learner.lower(deep.workflow(), deep.graph.call(3), {false, false, 0.02}) == 0);
  }

  TEST_CASE("the shortest horizon is one, and teaches") {
    HorizonLearner learner;
    for (int w = 0; w < 20; ++w) {
      Sketch brief(learner, -1, 3, 100);
      brief.reveal({}, 1);
      learner.finished(brief.graph, brief.workflow());
    }
    Sketch brief(learner, -1, 3, 100);
    CHECK(learner.lower(brief.workflow(), brief.reveal({}, 1), {true, false, 0.02}) == 1);
  }

  TEST_CASE("bounds: kinds, depths and finer cells beyond the tables say less, and nothing breaks") {
    HorizonLearner learner;
    for (std::uint32_t k = 0; k < 70; ++k) {
      for (int w = 0; w < 49; ++w) {
        Sketch sketch(learner, static_cast<std::int32_t>(k), 0,
                      1u << (k + static_cast<std::uint32_t>(w)) % 28);
        sketch.reveal({}, 100);
        for (std::uint32_t i = 1; i < 140; ++i)
          sketch.reveal({{i - 1, 1}}, 100 * (i + 1), static_cast<std::uint16_t>((i + k) % 9));
        learner.finished(sketch.graph, sketch.workflow());
      }
      Sketch sketch(learner, static_cast<std::int32_t>(k), 0, 1);
      CHECK(learner.lower(sketch.workflow(), sketch.reveal({}, 100), {true, false, 0.02}) ==
            (k < HorizonLearner::kKinds ? 14'000 : 0));
      for (std::uint32_t i = 1; i < 140; ++i) sketch.reveal({{i - 1, 1}}, 100 * (i + 1));
      CHECK(learner.lower(sketch.workflow(), sketch.graph.call(139), {true, true, 0.02}) == 0);
    }
  }
}

TEST_SUITE("hints") {
  TEST_CASE("what is exact stands alone, a lower estimate gives way to a larger one that is learnt") {
    Bench b("ratio", {{Parameter::kStructuralMinimum, 1}});
    Nanos t = kSecond;
    for (int w = 0; w < 49; ++w) t = b.chain(t, 5);
    b.reveal(t, b.open(t), 10'000);  // keeps the instance busy
    REQUIRE(b.s.decide(t).size() == 1);
    const auto beyond = [&](Nanos own, bool exact, Nanos whole = -1, bool wholeExact = false) {
      const Ref c = b.reveal(t, b.open(t, whole, wholeExact), 10, {}, own, exact);
      b.s.decide(t);
      return b.beyondMs(c);
    };
    constexpr Nanos ms = kMillisecond;
    CHECK(beyond(-1, false) == doctest::Approx(40));
    CHECK(beyond(7 * ms, true) == doctest::Approx(7));
    CHECK(beyond(7 * ms, false) == doctest::Approx(40));
    CHECK(beyond(90 * ms, false) == doctest::Approx(90));
    CHECK(beyond(0, true) == doctest::Approx(0));
    // Declared with the workflow before its first call, which is 10 ms of it.
    CHECK(beyond(-1, false, 17 * ms, true) == doctest::Approx(7));
    CHECK(beyond(-1, false, 17 * ms, false) == doctest::Approx(40));
    CHECK(beyond(3 * ms, true, 17 * ms, true) == doctest::Approx(3));
    REQUIRE(ok(b.s.setParameter(t, {static_cast<std::uint32_t>(Parameter::kStructuralMinimum), 0, 0})));
    CHECK(beyond(-1, false) == doctest::Approx(0));
    CHECK(beyond(7 * ms, false) == doctest::Approx(7));
  }

  TEST_CASE("a predictor from outside is off by a factor: calibration takes it out") {
    Bench b("ratio");
    Nanos t = kSecond;
    for (int w = 0; w < 20; ++w) t = b.chain(t, 5, 200 * kMillisecond);  // four times too long
    b.reveal(t, b.open(t), 10'000);
    REQUIRE(b.s.decide(t).size() == 1);
    const Ref c = b.reveal(t, b.open(t, -1, false, 400 * kMillisecond), 10);
    b.s.decide(t);
    CHECK(b.beyondMs(c) == doctest::Approx(90));
    UpdateWorkflow update{{b.s.graph().call(c.slot).workflow, 1}, -1, -1, 80 * kMillisecond, 0, 0};
    REQUIRE(ok(b.s.updateWorkflow(t, update)));
    CHECK(b.beyondMs(c) == doctest::Approx(10));
  }

  TEST_CASE("level-laxity: the level is 1.05 times the 90 % quantile of the last 40 finished, at least 1.2") {
    Random random(903);
    LevelLaxity order;
    std::vector<double> all;
    CHECK(order.alpha() == 1.2);
    for (int i = 0; i < 500; ++i) {
      Workflow w;
      w.arrival = random.below(1000);
      w.horizon = random.below(50);
      const Nanos finish = w.arrival + random.below(200);
      CHECK(!order.workflowFinished(w, finish));
      all.push_back(static_cast<double>(finish - w.arrival) / std::max(1.0, static_cast<double>(w.horizon)));
      std::vector<double> last(
          all.end() - std::min<std::ptrdiff_t>(40, static_cast<std::ptrdiff_t>(all.size())), all.end());
      std::sort(last.begin(), last.end());
      const std::size_t rank = (last.size() * 9 + 9) / 10;
      REQUIRE(order.alpha() == std::max(1.2, 1.05 * last[rank - 1]));
    }
  }

  TEST_CASE("level-ratio: laxity below the level, the ratio beyond it, one sequence of both") {
    Random random(904);
    LevelRatio order;
    FinishedLevel level;
    PolicyParameters parameters;
    std::uint64_t below = 0, beyond = 0;
    std::vector<double> horizons;  // of the last finished
    for (int i = 0; i < 400; ++i) {
      Workflow done;
      done.arrival = random.below(1000);
      done.horizon = 1 + random.below(5000);
      const Nanos finish = done.arrival + done.horizon * (1 + random.below(4));
      order.workflowFinished(done, finish);
      level.add(done, finish);
      horizons.push_back(static_cast<double>(done.horizon));
      if (horizons.size() > 40) horizons.erase(horizons.begin());
      const double sum = std::accumulate(horizons.begin(), horizons.end(), 0.0);
      CHECK(level.scale() == doctest::Approx(sum / static_cast<double>(horizons.size())));
      for (int k = 0; k < 20; ++k) {
        Workflow w;
        Call c;
        w.arrival = 10'000 + random.below(5000);
        w.horizon = 1 + random.below(5000);
        w.sacrificed = random.below(20) == 0;
        c.mean = random.below(500);
        const Nanos now = 15'000 + random.below(8000);
        const OrderView v{c, w, parameters, now, c.mean, random.below(1000), random.below(3000)};
        const double whole = static_cast<double>(w.horizon + v.beyond);
        const double r = static_cast<double>(now - w.arrival + v.delta + v.beyond) / whole;
        const double alone = static_cast<double>(now - w.arrival + c.mean + v.beyond);
        const double got = order.key(v);
        const ProjectedKey line = order.projected(v);
        CHECK(got ==
              doctest::Approx(static_cast<double>(now + v.delta - w.arrival + line.shift) * line.slope));
        if (w.sacrificed) {
          CHECK(got == Ratio::key(v));
        } else if (alone > level.alpha() * whole) {
          CHECK(got == r);
          ++beyond;
        } else {
          // Shifts are whole nanoseconds.
          const double want = level.alpha() + (r - level.alpha()) * whole / level.scale();
          CHECK(std::abs(got - want) <= 1.5 / level.scale());
          ++below;
        }
      }
    }
    CHECK(below > 1000);
    CHECK(beyond > 1000);
  }
}
