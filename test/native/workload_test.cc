// Traces, arrivals and the generators of workloads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "generated_trace.h"
#include "workload/arrivals.h"
#include "workload/chess.h"
#include "workload/mac_sql.h"
#include "workload/trace.h"

using namespace laxity;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

/// Two workflows: a diamond 0 -> {1, 2} -> 3 with a further edge 0 -> 3, and a chain 0 -> 1.
struct Table {
  std::vector<std::uint32_t> firstCall = {0, 4, 6};
  std::vector<double> arrivalMs = {0, 250.5};
  std::vector<double> sloMs = {kNaN, 9000};
  std::vector<std::uint16_t> stage = {0, 1, 1, 2, 0, 1};
  std::vector<std::uint32_t> prompt = {10, 20, 30, 40, 50, 60};
  std::vector<std::uint32_t> cached = {0, 19, 0, 0, 0, 0};
  std::vector<std::uint32_t> output = {5, 6, 7, 8, 9, 10};
  std::vector<std::uint32_t> predicted = {5, 5, 5, 5, 5, 5};
  std::vector<double> toolGapMs = {0, 0, 12.5, 0, 0, 1e6};
  std::vector<std::uint32_t> parentOffset = {0, 0, 1, 2, 5, 5, 6};
  std::vector<std::uint32_t> parents = {0, 0, 1, 2, 0, 0};

  TraceColumns columns() const {
    TraceColumns c;
    c.workflows = static_cast<std::uint32_t>(firstCall.size()) - 1;
    c.calls = static_cast<std::uint32_t>(stage.size());
    c.edges = static_cast<std::uint32_t>(parents.size());
    c.firstCall = firstCall.data();
    c.arrivalMs = arrivalMs.data();
    c.sloMs = sloMs.data();
    c.stage = stage.data();
    c.promptTokens = prompt.data();
    c.cachedTokens = cached.data();
    c.outputTokens = output.data();
    c.predictedTokens = predicted.data();
    c.toolGapMs = toolGapMs.data();
    c.parentOffset = parentOffset.data();
    c.parents = parents.data();
    return c;
  }
};

std::vector<std::uint32_t> childrenOf(const Trace& trace, std::uint32_t row) {
  const auto children = trace.children(row);
  return {children.begin(), children.end()};
}

/// One cell lies beyond each end, to see that nothing else is written.
struct Chess : GeneratedTrace {
  explicit Chess(const ChessSpec& spec) { chessFill(spec, sized(spec.workflows, chessSizes(spec), 1)); }

  std::uint64_t hash() const {
    std::uint64_t h = 0xcbf29ce484222325u;
    const auto add = [&h](const auto& column) {
      for (const auto value : column) h = (h ^ value) * 0x100000001b3u;
    };
    add(firstCall), add(stage), add(prompt), add(output), add(parentOffset), add(parents);
    return h;
  }
};

void checkGuards(const GeneratedTrace& trace) {
  CHECK(trace.firstCall.back() == GeneratedTrace::kGuard);
  CHECK(trace.stage.back() == GeneratedTrace::kStageGuard);
  for (const auto* column : {&trace.prompt, &trace.output, &trace.parentOffset, &trace.parents})
    CHECK(column->back() == GeneratedTrace::kGuard);
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = static_cast<double>(x.size());
  double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) mx += x[i] / n, my += y[i] / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  return xy / std::sqrt(xx * yy);
}

void checkNear(double value, double target, double relative) {
  CAPTURE(value);
  CAPTURE(target);
  CHECK(std::abs(value - target) <= relative * target);
}

}  // namespace

TEST_SUITE("trace") {
  TEST_CASE("binds a good table and derives children") {
    const Table table;
    Trace trace;
    REQUIRE(trace.bind(table.columns()) == Status::kOk);
    CHECK(trace.columns().calls == 6);
    CHECK(childrenOf(trace, 0) == std::vector<std::uint32_t>{1, 2, 3});
    CHECK(childrenOf(trace, 1) == std::vector<std::uint32_t>{3});
    CHECK(childrenOf(trace, 2) == std::vector<std::uint32_t>{3});
    CHECK(childrenOf(trace, 3).empty());
    CHECK(childrenOf(trace, 4) == std::vector<std::uint32_t>{5});
    CHECK(childrenOf(trace, 5).empty());
    CHECK(trace.largestCall() == 70);
    CHECK(trace.largestWorkflow() == 4);
  }

  TEST_CASE("optional columns may be absent, and limits are inclusive") {
    Table table;
    table.prompt[5] = kMaxTokens;
    table.output[5] = kMaxTokens;
    table.arrivalMs[1] = 4'611'686'018'427.0;
    Trace trace;
    CHECK(trace.bind(table.columns()) == Status::kOk);
    CHECK(trace.largestCall() == 2 * kMaxTokens);
    CHECK(fromMs(table.arrivalMs[1]) <= kMaxTime);
    TraceColumns c = table.columns();
    c.arrivalMs = c.sloMs = c.toolGapMs = nullptr;
    c.cachedTokens = c.predictedTokens = nullptr;
    CHECK(trace.bind(c) == Status::kOk);
  }

  TEST_CASE("an empty table is a trace of no workflows") {
    const std::uint32_t zero = 0;
    TraceColumns c;
    c.firstCall = c.parentOffset = &zero;
    Trace trace;
    CHECK(trace.bind(c) == Status::kOk);
    CHECK(trace.columns().workflows == 0);
  }

  TEST_CASE("every fault is refused and named") {
    struct Fault {
      std::string name;
      std::function<void(Table&)> edit;
      Status status;
      std::uint32_t workflow;
      std::uint32_t call;
    };
    const Fault faults[] = {
        {"firstCall does not start at 0", [](Table& t) { t.firstCall[0] = 1; }, Status::kBadValue, 0, 0},
        {"workflow without calls", [](Table& t) { t.firstCall[1] = 0; }, Status::kBadValue, 0, 0},
        {"firstCall falls",
         [](Table& t) {
           t.firstCall = {0, 4, 3};
         },
         Status::kBadValue, 1, 0},
        {"firstCall beyond calls", [](Table& t) { t.firstCall[1] = 7; }, Status::kBadValue, 0, 0},
        {"firstCall far beyond", [](Table& t) { t.firstCall[1] = 0xffffffff; }, Status::kBadValue, 0, 0},
        {"calls left over", [](Table& t) { t.firstCall[2] = 5; }, Status::kBadValue, 1, 0},
        {"arrival NaN", [](Table& t) { t.arrivalMs[0] = kNaN; }, Status::kBadTime, 0, 0},
        {"arrival negative", [](Table& t) { t.arrivalMs[0] = -1; }, Status::kBadTime, 0, 0},
        {"arrival infinite", [](Table& t) { t.arrivalMs[1] = kInfinity; }, Status::kBadTime, 1, 0},
        {"arrival too late", [](Table& t) { t.arrivalMs[1] = 4.7e12; }, Status::kBadTime, 1, 0},
        {"arrivals fall", [](Table& t) { t.arrivalMs[0] = 251; }, Status::kClockBackwards, 1, 0},
        {"slo zero", [](Table& t) { t.sloMs[1] = 0; }, Status::kBadTime, 1, 0},
        {"slo negative", [](Table& t) { t.sloMs[1] = -5; }, Status::kBadTime, 1, 0},
        {"slo infinite", [](Table& t) { t.sloMs[0] = kInfinity; }, Status::kBadTime, 0, 0},
        {"prompt zero", [](Table& t) { t.prompt[2] = 0; }, Status::kBadTokens, 0, 2},
        {"prompt too long", [](Table& t) { t.prompt[2] = kMaxTokens + 1; }, Status::kBadTokens, 0, 2},
        {"output zero", [](Table& t) { t.output[4] = 0; }, Status::kBadTokens, 1, 0},
        {"output too long", [](Table& t) { t.output[4] = kMaxTokens + 1; }, Status::kBadTokens, 1, 0},
        {"all cached", [](Table& t) { t.cached[1] = 20; }, Status::kBadTokens, 0, 1},
        {"predicted zero", [](Table& t) { t.predicted[5] = 0; }, Status::kBadTokens, 1, 1},
        {"predicted too long", [](Table& t) { t.predicted[5] = 0xffffffff; }, Status::kBadTokens, 1, 1},
        {"gap negative", [](Table& t) { t.toolGapMs[3] = -0.001; }, Status::kBadTime, 0, 3},
        {"gap NaN", [](Table& t) { t.toolGapMs[3] = kNaN; }, Status::kBadTime, 0, 3},
        {"gap infinite", [](Table& t) { t.toolGapMs[3] = kInfinity; }, Status::kBadTime, 0, 3},
        {"offset not from 0", [](Table& t) { t.parentOffset[0] = 1; }, Status::kBadValue, 0, 0},
        {"offsets fall", [](Table& t) { t.parentOffset[3] = 0; }, Status::kBadValue, 0, 2},
        {"offset beyond edges", [](Table& t) { t.parentOffset[3] = 7; }, Status::kBadValue, 0, 2},
        {"edges left over", [](Table& t) { t.parentOffset[6] = 5; }, Status::kBadValue, 1, 0},
        {"own parent", [](Table& t) { t.parents[1] = 2; }, Status::kCyclicParents, 0, 2},
        {"later parent", [](Table& t) { t.parents[0] = 3; }, Status::kCyclicParents, 0, 1},
        {"parent out of range", [](Table& t) { t.parents[5] = 0xffffffff; }, Status::kCyclicParents, 1, 1},
        {"parent twice", [](Table& t) { t.parents[4] = 1; }, Status::kBadValue, 0, 3},
    };
    for (const Fault& fault : faults) {
      CAPTURE(fault.name);
      const Table good;
      Trace trace;
      REQUIRE(trace.bind(good.columns()) == Status::kOk);
      Table table;
      fault.edit(table);
      CHECK(trace.bind(table.columns()) == fault.status);
      CHECK(trace.problem().status == fault.status);
      CHECK(trace.problem().workflow == fault.workflow);
      CHECK(trace.problem().call == fault.call);
      // Nothing of the earlier trace is left.
      CHECK(trace.columns().calls == 0);
      CHECK(trace.columns().firstCall == nullptr);
      CHECK(trace.largestCall() == 0);
      CHECK(trace.bind(good.columns()) == Status::kOk);
      CHECK(trace.problem().status == Status::kOk);
    }
  }

  TEST_CASE("a required column may not be absent") {
    const Table table;
    Trace trace;
    const auto without = [&](auto member) {
      TraceColumns c = table.columns();
      c.*member = nullptr;
      return trace.bind(c);
    };
    CHECK(without(&TraceColumns::firstCall) == Status::kBadValue);
    CHECK(without(&TraceColumns::stage) == Status::kBadValue);
    CHECK(without(&TraceColumns::promptTokens) == Status::kBadValue);
    CHECK(without(&TraceColumns::outputTokens) == Status::kBadValue);
    CHECK(without(&TraceColumns::parentOffset) == Status::kBadValue);
    CHECK(without(&TraceColumns::parents) == Status::kBadValue);
  }

  TEST_CASE("a workflow holds at most 2^24 calls") {
    const auto bind = [](std::uint32_t calls) {
      const std::vector<std::uint32_t> firstCall = {0, calls}, ones(calls, 1), offsets(calls + 1, 0);
      const std::vector<std::uint16_t> stage(calls, 0);
      TraceColumns c;
      c.workflows = 1;
      c.calls = calls;
      c.firstCall = firstCall.data();
      c.stage = stage.data();
      c.promptTokens = c.outputTokens = ones.data();
      c.parentOffset = offsets.data();
      Trace trace;
      return trace.bind(c);
    };
    CHECK(bind(1u << 24) == Status::kOk);
    CHECK(bind((1u << 24) + 1) == Status::kTooManyCalls);
  }

  // Meant for the sanitizer build: whatever the columns hold, no read or write leaves them.
  TEST_CASE("random contents never lead out of bounds") {
    Random random(21);
    int accepted = 0;
    for (int round = 0; round < 50'000; ++round) {
      Table table;
      const auto upset = [&random](auto& column) {
        if (random.below(4) != 0) return;
        const std::uint32_t value =
            random.below(3) == 0 ? static_cast<std::uint32_t>(random.next()) : random.below(8);
        column[random.below(static_cast<std::uint32_t>(column.size()))] = value;
      };
      upset(table.firstCall), upset(table.parentOffset), upset(table.parents), upset(table.parents);
      upset(table.prompt), upset(table.cached), upset(table.output), upset(table.arrivalMs);
      Trace trace;
      if (!ok(trace.bind(table.columns()))) continue;
      ++accepted;
      std::size_t edges = 0;
      for (std::uint32_t row = 0; row < 6; ++row) {
        for (const std::uint32_t child : trace.children(row)) {
          REQUIRE(child > row);
          REQUIRE(child < 6);
          ++edges;
        }
      }
      REQUIRE(edges == 6);
    }
    CHECK(accepted > 1000);
    CHECK(accepted < 40'000);
  }
}

TEST_SUITE("arrivals") {
  TEST_CASE("Poisson: pinned, non-decreasing, mean rate and variance of gaps") {
    Arrivals pinned({.rate = 0.5, .seed = 7, .replication = 2});
    // From an independent implementation in Python.
    CHECK(std::abs(pinned.next() - 2'073'510'819) <= 1);
    CHECK(std::abs(pinned.next() - 2'852'606'448) <= 1);
    CHECK(std::abs(pinned.next() - 6'472'471'389) <= 1);

    Arrivals arrivals({.rate = 4, .seed = 1});
    constexpr int kCount = 1'000'000;
    Nanos last = 0;
    double squares = 0;
    for (int i = 0; i < kCount; ++i) {
      const Nanos t = arrivals.next();
      REQUIRE(t >= last);
      squares += toSeconds(t - last) * toSeconds(t - last);
      last = t;
    }
    const double gap = toSeconds(last) / kCount;
    checkNear(gap, 0.25, 0.004);
    checkNear(squares / kCount - gap * gap, 0.0625, 0.01);
  }

  TEST_CASE("same seed and replication, same bytes; another replication or seed, others; rates only scale") {
    Arrivals a({.rate = 1, .seed = 3, .replication = 5});
    Arrivals b({.rate = 1, .seed = 3, .replication = 5});
    Arrivals otherReplication({.rate = 1, .seed = 3, .replication = 6});
    Arrivals otherSeed({.rate = 1, .seed = 4, .replication = 5});
    Arrivals twice({.rate = 2, .seed = 3, .replication = 5});
    int same = 0;
    for (int i = 0; i < 1000; ++i) {
      const Nanos t = a.next();
      REQUIRE(t == b.next());
      REQUIRE(std::abs(t - 2 * twice.next()) <= 1);
      same += t == otherReplication.next();
      same += t == otherSeed.next();
    }
    CHECK(same == 0);
  }

  TEST_CASE("fixed: i / rate, rounded once") {
    Arrivals arrivals({.process = ArrivalProcess::kFixed, .rate = 3});
    CHECK(arrivals.next() == 0);
    CHECK(arrivals.next() == 333'333'333);
    CHECK(arrivals.next() == 666'666'667);
    CHECK(arrivals.next() == kSecond);
  }

  TEST_CASE("trace: the recorded times, then never") {
    const std::vector<double> recorded = {0, 1.5, 1.5, 2000};
    Arrivals arrivals({.process = ArrivalProcess::kTrace, .recordedMs = recorded});
    CHECK(arrivals.next() == 0);
    CHECK(arrivals.next() == 1'500'000);
    CHECK(arrivals.next() == 1'500'000);
    CHECK(arrivals.next() == 2 * kSecond);
    CHECK(arrivals.next() == kNever);
    CHECK(arrivals.next() == kNever);
  }

  TEST_CASE("the slowest rate saturates at kMaxTime") {
    Arrivals arrivals({.rate = kMinArrivalRate, .seed = 1});
    Nanos last = 0;
    for (int i = 0; i < 100; ++i) {
      const Nanos t = arrivals.next();
      REQUIRE(t >= last);
      last = t;
    }
    CHECK(last == kMaxTime);
  }

  TEST_CASE("Gamma: mean, CV and skewness of the gaps; CV 1 is exponential; rates only scale") {
    for (const double cv : {0.25, 0.5, 1.0, 2.0, 4.0}) {
      CAPTURE(cv);
      Arrivals arrivals({.process = ArrivalProcess::kGamma, .rate = 4, .seed = 11, .cv = cv});
      Arrivals slower({.process = ArrivalProcess::kGamma, .rate = 2, .seed = 11, .cv = cv});
      constexpr int kCount = 2'000'000;
      Nanos last = 0;
      std::vector<double> gaps;
      gaps.reserve(kCount);
      for (int i = 0; i < kCount; ++i) {
        const Nanos t = arrivals.next();
        REQUIRE(t >= last);
        if (i < 1000) REQUIRE(std::abs(slower.next() - 2 * t) <= 2);
        gaps.push_back(toSeconds(t - last));
        last = t;
      }
      double mean = 0, square = 0, cube = 0, beyond = 0;
      for (const double gap : gaps) mean += gap / kCount;
      for (const double gap : gaps) {
        const double d = gap - mean;
        square += d * d / kCount, cube += d * d * d / kCount, beyond += gap > 0.25 ? 1.0 / kCount : 0;
      }
      checkNear(mean, 0.25, 0.01);
      checkNear(std::sqrt(square) / mean, cv, 0.01);
      checkNear(cube / (square * std::sqrt(square)), 2 * cv, 0.06);
      if (cv == 1) checkNear(beyond, std::exp(-1.0), 0.005);
    }
  }

  TEST_CASE("bursts: the same times as drawing whole bursts and sorting all their workflows") {
    Random cases(41);
    for (int round = 0; round < 3000; ++round) {
      // From hardly ever to almost always overlapping.
      const double rate = 0.01 + 10 * cases.uniform();
      const double size = 1 + 30 * cases.uniform() * cases.below(2);
      const double gapMs = cases.below(4) == 0 ? 0 : 5000 * cases.uniform() * cases.uniform();
      const std::uint64_t seed = cases.next(), replication = cases.below(3);
      CAPTURE(round);
      Random draws(seed ^ 0x6172726976616c73u, replication);
      std::vector<double> naive;
      double start = draws.exponential(size / rate);
      for (int burst = 0; burst < 60; ++burst) {
        const double u = 1 - draws.uniform();
        // The least k with P(size <= k) = 1 - (1 - 1 / mean)^k > 1 - u.
        int k = 1;
        for (double left = 1 - 1 / size; size > 1 && left >= u; left *= 1 - 1 / size) ++k;
        double t = start;
        for (int i = 0; i < k; ++i, t += gapMs / 1e3) naive.push_back(t);
        start += draws.exponential(size / rate);
      }
      std::sort(naive.begin(), naive.end());
      Arrivals arrivals({.process = ArrivalProcess::kBursts,
                         .rate = rate,
                         .seed = seed,
                         .replication = replication,
                         .burstSize = size,
                         .burstGapMs = gapMs});
      for (const double t : naive) {
        if (t >= start) break;
        REQUIRE(std::abs(toSeconds(arrivals.next()) - t) < 2e-9);
      }
    }
  }

  TEST_CASE("bursts: mean rate, share of inner gaps, index of dispersion") {
    Arrivals arrivals(
        {.process = ArrivalProcess::kBursts, .rate = 2, .seed = 3, .burstSize = 20, .burstGapMs = 60});
    constexpr double kWindow = 500;  // s, far above the length of a burst
    constexpr int kWindows = 20'000;
    std::vector<double> counts(kWindows, 0);
    Nanos last = 0;
    double inner = 0, total = 0;
    for (Nanos t = arrivals.next(); toSeconds(t) < kWindow * kWindows; t = arrivals.next()) {
      REQUIRE(t >= last);
      // At this rate 11 % of a burst's gaps are cut by another burst.
      inner += std::abs(t - last - 60 * kMillisecond) <= 2;
      ++total;
      ++counts[static_cast<std::size_t>(toSeconds(t) / kWindow)];
      last = t;
    }
    double mean = 0, square = 0;
    for (const double count : counts) mean += count / kWindows;
    for (const double count : counts) square += (count - mean) * (count - mean) / kWindows;
    checkNear(mean / kWindow, 2, 0.01);
    CHECK(inner / total > 0.8);
    CHECK(inner / total < 0.95);
    // E[N^2] / E[N] of a geometric size: 2 mean - 1.
    checkNear(square / mean, 39, 0.05);
  }

  TEST_CASE("a rate step stretches time: the integral of the rate up to an arrival is its operational time") {
    Random cases(5);
    for (int round = 0; round < 2000; ++round) {
      CAPTURE(round);
      Arrivals::Options options{.process = static_cast<ArrivalProcess>(cases.below(5)),
                                .rate = 0.1 + 5 * cases.uniform(),
                                .seed = cases.next(),
                                .cv = 0.5 + 3 * cases.uniform(),
                                .burstSize = 1 + 9 * cases.uniform(),
                                .burstGapMs = 100 * cases.uniform()};
      if (options.process == ArrivalProcess::kTrace) continue;
      Arrivals base(options);
      const double factors[] = {0.25, 1, 2, 4};
      options.step = {.fromMs = 20'000 * cases.uniform(),
                      .lengthMs = 1000 + 20'000 * cases.uniform(),
                      .factor = factors[cases.below(4)]};
      Arrivals stepped(options);
      Nanos last = 0;
      for (int i = 0; i < 100; ++i) {
        const Nanos t = stepped.next();
        REQUIRE(t >= last);
        last = t;
        const double inside = std::clamp(toMs(t) - options.step.fromMs, 0.0, options.step.lengthMs);
        const double operational = toMs(t) + (options.step.factor - 1) * inside;
        REQUIRE(std::abs(operational - toMs(base.next())) < 5e-6);
      }
    }
  }

  TEST_CASE("parameters of Gamma, bursts and steps outside their limits are refused") {
    const auto gamma = [](double cv) {
      return Arrivals::check({.process = ArrivalProcess::kGamma, .cv = cv});
    };
    const auto bursts = [](double size, double gapMs) {
      return Arrivals::check({.process = ArrivalProcess::kBursts, .burstSize = size, .burstGapMs = gapMs});
    };
    const auto step = [](RateStep s) { return Arrivals::check({.step = s}); };
    CHECK(gamma(2) == Status::kOk);
    for (const double cv : {0.0, -1.0, kNaN, kInfinity, 101.0}) CHECK(gamma(cv) == Status::kBadValue);
    CHECK(bursts(20, 60) == Status::kOk);
    CHECK(bursts(1, 0) == Status::kOk);
    for (const double size : {0.5, kNaN, kInfinity, 2e6}) CHECK(bursts(size, 60) == Status::kBadValue);
    for (const double gap : {-1.0, kNaN, kInfinity}) CHECK(bursts(20, gap) == Status::kBadValue);
    CHECK(step({100, 200, 4}) == Status::kOk);
    for (const RateStep bad : {RateStep{-1, 1, 2}, RateStep{1, -1, 2}, RateStep{1, 1, 0},
                               RateStep{1, 1, 1001}, RateStep{kNaN, 1, 2}, RateStep{1, kInfinity, 2}}) {
      CHECK(step(bad) == Status::kBadValue);
    }
  }

  TEST_CASE("rates outside their limits are refused") {
    for (const double rate : {0.0, -1.0, kNaN, kInfinity, 1e-10, 1e10}) {
      CAPTURE(rate);
      CHECK(Arrivals::check({.rate = rate}) == Status::kBadValue);
      CHECK(Arrivals::check({.process = ArrivalProcess::kFixed, .rate = rate}) == Status::kBadValue);
    }
    CHECK(Arrivals::check({.rate = 0.5}) == Status::kOk);
    CHECK(Arrivals::check({.process = ArrivalProcess::kTrace}) == Status::kBadValue);
    const double recorded[] = {1};
    CHECK(Arrivals::check({.process = ArrivalProcess::kTrace, .rate = 0, .recordedMs = recorded}) ==
          Status::kOk);
  }
}

TEST_SUITE("chess") {
  TEST_CASE("specs are checked") {
    CHECK(chessCheck({1, 1, 0}) == Status::kOk);
    CHECK(chessCheck({kMaxChessWorkflows, 3, 0}) == Status::kOk);
    CHECK(chessCheck({0, 1, 0}) == Status::kBadValue);
    CHECK(chessCheck({kMaxChessWorkflows + 1, 1, 0}) == Status::kBadValue);
    CHECK(chessCheck({1, 0, 0}) == Status::kBadValue);
    CHECK(chessCheck({1, 4, 0}) == Status::kBadValue);
  }

  TEST_CASE("sizes agree, every structure is legal, and bind accepts it") {
    for (const int preset : {1, 2, 3}) {
      for (const std::uint32_t workflows : {1u, 2u, 2000u}) {
        CAPTURE(preset);
        const Chess chess({workflows, preset, 17});
        CHECK(chess.firstCall[workflows] == chess.sizes.calls);
        CHECK(chess.parentOffset[chess.sizes.calls] == chess.sizes.edges);
        checkGuards(chess);
        Trace trace;
        REQUIRE(trace.bind(chess.columns()) == Status::kOk);

        for (std::uint32_t w = 0; w < workflows; ++w) {
          // Reads the workflow back along the grammar IR [K] IR IR IR C C R* T [U] T E* T.
          const std::uint32_t first = chess.firstCall[w];
          const std::uint32_t end = chess.firstCall[w + 1];
          std::uint32_t row = first;
          std::uint32_t previous = first, current = first;
          const auto stageOf = [&](std::uint16_t id, std::uint32_t width) {
            previous = current;
            current = row;
            for (std::uint32_t i = 0; i < width; ++i, ++row) {
              REQUIRE(row < end);
              REQUIRE(chess.stage[row] == id);
              const std::uint32_t from = chess.parentOffset[row];
              REQUIRE(chess.parentOffset[row + 1] - from == current - previous);
              for (std::uint32_t p = previous; p < current; ++p) {
                REQUIRE(chess.parents[from + p - previous] == p - first);
              }
            }
          };
          const auto run = [&](std::uint16_t id) {
            std::uint32_t width = 0;
            while (row + width < end && chess.stage[row + width] == id) ++width;
            return width;
          };
          stageOf(kChessIr, 1);
          if (run(kChessKeywords) > 0) stageOf(kChessKeywords, 1);
          for (int i = 0; i < 3; ++i) stageOf(kChessIr, 1);
          stageOf(kChessCandidate, 2);
          CHECK(chess.prompt[row - 2] == chess.prompt[row - 1] + 3866);
          const std::uint32_t revisions = run(kChessRevise);
          CHECK(revisions <= 10);
          for (std::uint32_t i = 0; i < revisions; ++i) stageOf(kChessRevise, 1);
          stageOf(kChessUnitTester, 1);
          CHECK(chess.prompt[row - 1] == 271);
          CHECK(chess.output[row - 1] == 6);
          const bool tested = run(kChessGenerateUnitTest) > 0;
          if (tested) stageOf(kChessGenerateUnitTest, 1);
          stageOf(kChessUnitTester, 1);
          CHECK(chess.prompt[row - 1] == 275);
          CHECK(chess.output[row - 1] == 4);
          const std::uint32_t evaluations = run(kChessEvaluate);
          CHECK((evaluations > 0) == tested);
          CHECK(evaluations <= 11);
          if (tested) stageOf(kChessEvaluate, evaluations);
          stageOf(kChessUnitTester, 1);
          CHECK(chess.prompt[row - 1] == 278);
          CHECK(chess.output[row - 1] == 4);
          REQUIRE(row == end);
        }
      }
    }
  }

  TEST_CASE("a longer trace begins with the shorter one; seeds and presets differ") {
    const Chess shorter({50, 1, 4}), longer({60, 1, 4}), other({50, 1, 5}), preset({50, 2, 4});
    const auto calls = static_cast<std::ptrdiff_t>(shorter.sizes.calls);
    CHECK(std::equal(shorter.prompt.begin(), shorter.prompt.begin() + calls, longer.prompt.begin()));
    CHECK(std::equal(shorter.output.begin(), shorter.output.begin() + calls, longer.output.begin()));
    CHECK(shorter.hash() == Chess({50, 1, 4}).hash());
    CHECK(shorter.hash() != other.hash());
    CHECK(shorter.hash() != preset.hash());
  }

  // Guards the bytes of every published result. A deliberate change of the generator changes these numbers.
  TEST_CASE("pinned bytes") {
    CHECK(Chess({100, 1, 1}).hash() == 0x536d536330e50eb4u);
    CHECK(Chess({100, 2, 1}).hash() == 0x2c4835824e3f00bau);
    CHECK(Chess({100, 3, 1}).hash() == 0x421f48f6ae127379u);
  }

  TEST_CASE("the published statistics") {
    struct Row {
      double share, input, inputSd, output;
    };
    struct Published {
      int preset;
      double calls, callsSd, inputTokens, outputTokens, revisions, evaluations, countCorrelation, within;
      double plainEvaluations;
      Row rows[7];  // share: calls of the stage per workflow
    };
    const Published table[] = {
        {1,
         19.24,
         3.66,
         50477,
         1981,
         3.733,
         4.889,
         .32,
         66,
         .94,
         {{4, 306, 4, 7.2},
          {.667, 669, 19, 44.0},
          {2, 10000, 1939, 679.6},
          {3.733, 5954, 255, 82.4},
          {3, 275, 3, 4.7},
          {.956, 1110, 125, 102.3},
          {4.889, 960, 118, 29.5}}},
        {2,
         20.67,
         3.83,
         69653,
         2386,
         4.375,
         5.375,
         .30,
         162,
         .91,
         {{4, 306, 4, 7.8},
          {.917, 696, 23, 60.7},
          {2, 11947, 1935, 740.7},
          {4.375, 7993, 299, 122.3},
          {3, 275, 3, 4.7},
          {1, 1286, 193, 100.8},
          {5.375, 1268, 310, 31.3}}},
        {3,
         20.87,
         4.22,
         65573,
         2505,
         5.0,
         5.109,
         .38,
         76,
         .93,
         {{4, 306, 4, 7.2},
          {.8, 679, 26, 49.4},
          {2, 10768, 2164, 696.2},
          {5, 6897, 1052, 155.6},
          {3, 275, 3, 4.7},
          {.964, 1169, 186, 103.9},
          {5.109, 1142, 320, 29.7}}},
    };
    for (const Published& published : table) {
      CAPTURE(published.preset);
      constexpr std::uint32_t kWorkflows = 40'000;
      const Chess chess({kWorkflows, published.preset, 23});
      double squares = 0, inputTokens = 0, outputTokens = 0, withinSquares = 0, withinCount = 0, plain = 0;
      double counts[7] = {}, inputs[7] = {}, inputSquares[7] = {}, outputs[7] = {};
      std::vector<double> revisions, evaluations, firstOutput, secondOutput, candidateIn, candidateOut;
      for (std::uint32_t w = 0; w < kWorkflows; ++w) {
        double perStage[7] = {}, reviseSum = 0, reviseSquares = 0;
        for (std::uint32_t row = chess.firstCall[w]; row < chess.firstCall[w + 1]; ++row) {
          const int stage = chess.stage[row];
          const double input = chess.prompt[row], output = chess.output[row];
          ++perStage[stage];
          inputs[stage] += input, inputSquares[stage] += input * input, outputs[stage] += output;
          inputTokens += input, outputTokens += output;
          if (stage == kChessRevise) reviseSum += input, reviseSquares += input * input;
          if (stage == kChessEvaluate) plain += output == 22;
          if (stage == kChessCandidate) {
            REQUIRE(output >= 350);
            REQUIRE(output <= 1026);
            (perStage[stage] == 1 ? firstOutput : secondOutput).push_back(output);
            candidateIn.push_back(input), candidateOut.push_back(output);
          }
        }
        const double r = perStage[kChessRevise];
        if (r > 1) withinSquares += reviseSquares - reviseSum * reviseSum / r, withinCount += r - 1;
        revisions.push_back(r), evaluations.push_back(perStage[kChessEvaluate]);
        const double calls = chess.firstCall[w + 1] - chess.firstCall[w];
        squares += calls * calls;
        for (int stage = 0; stage < 7; ++stage) counts[stage] += perStage[stage];
      }
      const double calls = static_cast<double>(chess.sizes.calls) / kWorkflows;
      checkNear(calls, published.calls, 0.01);
      checkNear(std::sqrt(squares / kWorkflows - calls * calls), published.callsSd, 0.04);
      checkNear(inputTokens / kWorkflows, published.inputTokens, 0.015);
      checkNear(outputTokens / kWorkflows, published.outputTokens, 0.02);
      checkNear(correlation(revisions, evaluations), published.countCorrelation, 0.06);
      checkNear(std::sqrt(withinSquares / withinCount), published.within, 0.06);
      checkNear(plain / counts[kChessEvaluate], published.plainEvaluations, 0.004);
      const double pair = correlation(firstOutput, secondOutput);
      CHECK(pair > 0.66);
      CHECK(pair < 0.71);
      const double byInput = correlation(candidateIn, candidateOut);
      CHECK(byInput > 0.74);
      CHECK(byInput < 0.85);
      for (int stage = 0; stage < 7; ++stage) {
        CAPTURE(stage);
        const Row& row = published.rows[stage];
        const double mean = inputs[stage] / counts[stage];
        checkNear(counts[stage] / kWorkflows, row.share, 0.015);
        checkNear(mean, row.input, 0.025);
        checkNear(std::sqrt(inputSquares[stage] / counts[stage] - mean * mean), row.inputSd, 0.2);
        checkNear(outputs[stage] / counts[stage], row.output, 0.1);
      }
    }
  }
}

namespace {

struct MacSql : GeneratedTrace {
  explicit MacSql(const MacSqlSpec& spec) { macSqlFill(spec, sized(spec.workflows, macSqlSizes(spec), 1)); }
};

double sorted(const std::vector<double>& ascending, double q) {
  const double rank = std::ceil(q * static_cast<double>(ascending.size()));
  return ascending[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

}  // namespace

TEST_SUITE("mac-sql") {
  TEST_CASE("specs are checked") {
    CHECK(macSqlCheck({1, 0}) == Status::kOk);
    CHECK(macSqlCheck({kMaxMacSqlWorkflows, 0}) == Status::kOk);
    CHECK(macSqlCheck({0, 0}) == Status::kBadValue);
    CHECK(macSqlCheck({kMaxMacSqlWorkflows + 1, 0}) == Status::kBadValue);
  }

  TEST_CASE("sizes agree, every workflow is a chain [S] D R*, and bind accepts it") {
    for (const std::uint32_t workflows : {1u, 2u, 3000u}) {
      const MacSql trace({workflows, 17});
      CHECK(trace.firstCall[workflows] == trace.sizes.calls);
      CHECK(trace.parentOffset[trace.sizes.calls] == trace.sizes.edges);
      checkGuards(trace);
      Trace bound;
      REQUIRE(bound.bind(trace.columns()) == Status::kOk);
      for (std::uint32_t w = 0; w < workflows; ++w) {
        std::uint32_t row = trace.firstCall[w];
        const std::uint32_t end = trace.firstCall[w + 1];
        if (trace.stage[row] == kMacSqlSelector) ++row;
        REQUIRE(row < end);
        REQUIRE(trace.stage[row++] == kMacSqlDecomposer);
        REQUIRE(end - row <= 4);
        for (; row < end; ++row) REQUIRE(trace.stage[row] == kMacSqlRefiner);
        for (row = trace.firstCall[w]; row < end; ++row) {
          const bool first = row == trace.firstCall[w];
          REQUIRE(trace.parentOffset[row + 1] - trace.parentOffset[row] == (first ? 0 : 1));
          if (!first) REQUIRE(trace.parents[trace.parentOffset[row]] == row - 1 - trace.firstCall[w]);
        }
      }
    }
  }

  TEST_CASE("a longer trace begins with the shorter one; seeds differ") {
    const MacSql shorter({50, 4}), longer({60, 4}), other({50, 5});
    const auto calls = static_cast<std::ptrdiff_t>(shorter.sizes.calls);
    CHECK(std::equal(shorter.prompt.begin(), shorter.prompt.begin() + calls, longer.prompt.begin()));
    CHECK(std::equal(shorter.output.begin(), shorter.output.begin() + calls, longer.output.begin()));
    CHECK(shorter.prompt == MacSql({50, 4}).prompt);
    CHECK(shorter.prompt != other.prompt);
  }

  TEST_CASE("the published statistics") {
    constexpr std::uint32_t kWorkflows = 400'000;
    const MacSql trace({kWorkflows, 23});
    double callCounts[7] = {}, refinements[5] = {}, squares = 0, selectors = 0;
    std::vector<double> inputs[3], outputs[3];
    for (std::uint32_t w = 0; w < kWorkflows; ++w) {
      const std::uint32_t calls = trace.firstCall[w + 1] - trace.firstCall[w];
      const bool selector = trace.stage[trace.firstCall[w]] == kMacSqlSelector;
      REQUIRE(calls <= 6);
      ++callCounts[calls];
      squares += static_cast<double>(calls) * calls;
      selectors += selector;
      ++refinements[calls - 1 - selector];
      for (std::uint32_t row = trace.firstCall[w]; row < trace.firstCall[w + 1]; ++row) {
        inputs[trace.stage[row]].push_back(trace.prompt[row]);
        outputs[trace.stage[row]].push_back(trace.output[row]);
      }
    }
    const double calls = static_cast<double>(trace.sizes.calls) / kWorkflows;
    checkNear(calls, 3.60, 0.005);
    checkNear(squares / kWorkflows - calls * calls, 2.15, 0.01);
    checkNear(selectors / kWorkflows, 90.0 / 150, 0.01);
    for (const double count : refinements) checkNear(count / kWorkflows, 0.2, 0.02);
    const double histogram[7] = {0, 15, 19, 41, 26, 34, 15};
    for (int n = 1; n <= 6; ++n) checkNear(callCounts[n] / kWorkflows, histogram[n] / 150, 0.03);

    struct Row {
      double mean, sd;
      double q[7];
    };
    const Row publishedInputs[3] = {{2940, 412, {2094, 2958, 2959, 3316, 3317, 3317, 3317}},
                                    {1973, 504, {1321, 1532, 1710, 2415, 2716, 2923, 3072}},
                                    {1527, 415, {928, 928, 1729, 1870, 1870, 1870, 1870}}};
    const Row publishedOutputs[3] = {{99.5, 32.3, {49, 76, 96, 134, 134, 144, 156}},
                                     {172.3, 76.7, {34, 129, 163, 236, 274, 330, 444}},
                                     {482.8, 69.3, {389, 389, 492, 555, 555, 555, 555}}};
    const auto checkRow = [](std::vector<double> values, const Row& row) {
      std::sort(values.begin(), values.end());
      const double n = static_cast<double>(values.size());
      double mean = 0, square = 0;
      for (const double v : values) mean += v / n;
      for (const double v : values) square += (v - mean) * (v - mean) / n;
      checkNear(mean, row.mean, 0.025);
      checkNear(std::sqrt(square), row.sd, 0.1);
      const double shares[7] = {0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1};
      for (int i = 0; i < 7; ++i) checkNear(sorted(values, shares[i]), row.q[i], 0.02);
    };
    for (int stage = 0; stage < 3; ++stage) {
      CAPTURE(stage);
      checkRow(inputs[stage], publishedInputs[stage]);
      checkRow(outputs[stage], publishedOutputs[stage]);
    }
  }
}
