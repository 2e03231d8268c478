// Prediction errors: the distributions, what the scheduler is told, and what a run makes of it.
#include "simulator/prediction_error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "simulator/simulation.h"

using namespace laxity;

namespace {

PredictionError lengths(LengthError kind, double size, double share = 0.05, double correlation = 0) {
  PredictionError e;
  e.length = kind;
  e.size = size;
  e.share = share;
  e.correlation = correlation;
  return e;
}

std::vector<double> factors(const PredictionError& e, std::uint32_t n) {
  const LengthErrors errors(e);
  std::vector<double> f(n);
  for (std::uint32_t i = 0; i < n; ++i) f[i] = errors.factor(i / 10, i);
  return f;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double absolute(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::abs(v - 1);
  return sum / static_cast<double>(values.size());
}

/// Single calls and chains of two, over a few instances of two kinds.
struct Small {
  std::vector<std::uint32_t> firstCall{0}, prompt, output, parentOffset{0}, parents;
  std::vector<std::uint16_t> stage;
  std::vector<double> arrivalMs;
  ClusterSpec cluster;
  RunOptions options;
  RunResult result;
  std::vector<double> base;

  explicit Small(std::uint64_t seed, std::int64_t kvTokens = 100'000) {
    Random random(seed, 3);
    for (std::uint32_t w = 0; w < 60; ++w) {
      arrivalMs.push_back(w * 8);
      for (std::uint32_t i = 0; i < 2; ++i) {
        prompt.push_back(1 + random.below(60));
        output.push_back(1 + random.below(60));
        stage.push_back(0);
        if (i > 0) parents.push_back(0);
        parentOffset.push_back(static_cast<std::uint32_t>(parents.size()));
      }
      firstCall.push_back(static_cast<std::uint32_t>(prompt.size()));
    }
    for (const double slow : {1.0, 1.7}) {
      LatencyModel model;
      REQUIRE(LatencyModel::constants({0.5, 0.05 * slow, 0.8 * slow, 0.1, 0.0003}, &model) == Status::kOk);
      cluster.latencies.push_back(model);
    }
    for (std::uint16_t m = 0; m < 3; ++m) {
      InstanceSpec spec;
      spec.latency = m % 2;
      spec.maxSequences = 6;
      spec.kvTokens = kvTokens;
      cluster.instances.push_back(spec);
    }
    REQUIRE(makeOrder("ratio", &options.order));
    REQUIRE(makePlacement("eftxp", &options.placement));
    options.knowledge = Knowledge::kOnline;
    options.sloBase = SloBase::kExclusive;
    options.laws = true;
  }
  Status go(EventLog* log = nullptr) {
    TraceColumns c;
    c.workflows = static_cast<std::uint32_t>(arrivalMs.size());
    c.calls = static_cast<std::uint32_t>(prompt.size());
    c.edges = static_cast<std::uint32_t>(parents.size());
    c.firstCall = firstCall.data();
    c.arrivalMs = arrivalMs.data();
    c.stage = stage.data();
    c.promptTokens = prompt.data();
    c.outputTokens = output.data();
    c.parentOffset = parentOffset.data();
    c.parents = parents.data();
    Trace trace;
    REQUIRE(trace.bind(c) == Status::kOk);
    options.arrivals.process = ArrivalProcess::kTrace;
    options.arrivals.recordedMs = arrivalMs;
    base.resize(c.workflows);
    RunOutputs out;
    out.log = log;
    out.baseMs = base.data();
    return simulate(trace, cluster, options, out, &result);
  }
};

bool same(const EventLog& a, const EventLog& b) {
  return a.records().size() == b.records().size() &&
         std::memcmp(a.records().data(), b.records().data(), a.records().size() * sizeof(EventRecord)) == 0;
}

}  // namespace

TEST_SUITE("prediction errors") {
  constexpr std::uint32_t kMany = 200'000;

  TEST_CASE("each distribution is what it says") {
    const std::vector<double> lognormal = factors(lengths(LengthError::kLognormal, 0.4), kMany);
    CHECK(mean(lognormal) == doctest::Approx(1).epsilon(0.005));
    double square = 0;
    for (const double f : lognormal) square += std::log(f) * std::log(f);
    CHECK(std::sqrt(square / kMany - 0.08 * 0.08) == doctest::Approx(0.4).epsilon(0.01));

    for (const double size : {0.1, 0.2, 0.3, 0.8}) {
      const std::vector<double> f = factors(lengths(LengthError::kMeanAbsolute, size), kMany);
      CHECK(mean(f) == doctest::Approx(1).epsilon(0.01));
      CHECK(absolute(f) == doctest::Approx(size).epsilon(0.01));
    }

    const std::vector<double> uniform = factors(lengths(LengthError::kUniform, 0.3), kMany);
    CHECK(mean(uniform) == doctest::Approx(1).epsilon(0.005));
    CHECK(absolute(uniform) == doctest::Approx(0.15).epsilon(0.01));
    CHECK(*std::min_element(uniform.begin(), uniform.end()) >= 0.7);
    CHECK(*std::max_element(uniform.begin(), uniform.end()) < 1.3);

    for (const double f : factors(lengths(LengthError::kBias, -0.2), 100)) CHECK(f == 0.8);

    std::uint32_t up = 0;
    std::uint32_t down = 0;
    for (const double f : factors(lengths(LengthError::kHeavyTail, 4, 0.05), kMany)) {
      up += f == 4 ? 1 : 0;
      down += f == 0.25 ? 1 : 0;
      if (f != 4 && f != 0.25 && f != 1) FAIL("a factor of " << f);
    }
    CHECK(up == doctest::Approx(0.025 * kMany).epsilon(0.05));
    CHECK(down == doctest::Approx(0.025 * kMany).epsilon(0.05));
  }

  TEST_CASE("the sigma of a mean absolute error") {
    CHECK(sigmaOfMeanAbsolute(0) == 0);
    for (const double size : {0.001, 0.1, 0.2, 0.3, 1.0, 1.5}) {
      const double sigma = sigmaOfMeanAbsolute(size);
      CHECK(2 * std::erf(sigma / std::sqrt(8.0)) == doctest::Approx(size).epsilon(1e-12));
    }
  }

  TEST_CASE("a draw depends on seed, workflow and call alone") {
    const LengthErrors a(lengths(LengthError::kLognormal, 0.5));
    const LengthErrors b(lengths(LengthError::kLognormal, 0.5));
    CHECK(a.factor(3, 17) == b.factor(3, 17));
    CHECK(a.factor(3, 17) != a.factor(3, 18));
    PredictionError other = lengths(LengthError::kLognormal, 0.5);
    other.seed = 2;
    CHECK(LengthErrors(other).factor(3, 17) != a.factor(3, 17));
    // The same z whatever its size.
    const double z = std::log(a.factor(0, 5)) / 0.5 + 0.25;
    CHECK(std::log(LengthErrors(lengths(LengthError::kLognormal, 0.1)).factor(0, 5)) ==
          doctest::Approx(0.1 * z - 0.005));
  }

  TEST_CASE("calls of one workflow correlate as declared, those of two do not") {
    for (const LengthError kind : {LengthError::kLognormal, LengthError::kUniform, LengthError::kHeavyTail}) {
      for (const double r : {0.0, 0.3, 1.0}) {
        const PredictionError e = lengths(kind, kind == LengthError::kHeavyTail ? 4 : 0.5,
                                          kind == LengthError::kHeavyTail ? 0.5 : 0, r);
        const LengthErrors errors(e);
        double x = 0, xx = 0, xy = 0, other = 0;
        const int n = 100'000;
        for (std::uint32_t w = 0; w < n; ++w) {
          const double a = errors.factor(w, 2 * w);
          const double b = errors.factor(w, 2 * w + 1);
          const double c = errors.factor(w + 1, 2 * w + 2);
          x += a;
          xx += a * a;
          xy += a * b;
          other += b * c;
        }
        const double variance = xx / n - x / n * x / n;
        CHECK((xy / n - x / n * x / n) / variance == doctest::Approx(r).epsilon(0.03));
        CHECK(std::abs(other / n - x / n * x / n) / variance < 0.03);
      }
    }
  }

  TEST_CASE("the high prediction covers nine true lengths in ten") {
    for (const PredictionError& e :
         {lengths(LengthError::kLognormal, 0.5), lengths(LengthError::kMeanAbsolute, 0.3),
          lengths(LengthError::kUniform, 0.4), lengths(LengthError::kHeavyTail, 3, 0.4)}) {
      const LengthErrors errors(e);
      std::uint32_t covered = 0;
      for (const double f : factors(e, kMany)) covered += 1 <= f * errors.high() * (1 + 1e-12) ? 1 : 0;
      const double least = e.length == LengthError::kHeavyTail ? 1.0 : 0.9;
      CHECK(covered == doctest::Approx(least * kMany).epsilon(0.005));
    }
    CHECK(LengthErrors(lengths(LengthError::kHeavyTail, 4)).high() == 1);  // 97.5 % are not longer
    CHECK(LengthErrors(lengths(LengthError::kBias, -0.5)).high() == 1);
  }

  TEST_CASE("rounding and bounds of a mistaken length") {
    CHECK(mistaken(10, 1, 5) == 10);
    CHECK(mistaken(10, 1.25, 100) == 13);
    CHECK(mistaken(10, 1.2, 11) == 11);
    CHECK(mistaken(10, 1.2, 3) == 10);
    CHECK(mistaken(10, 0.01, 100) == 1);
    CHECK(mistaken(10, 0.5, 3) == 5);
    CHECK(mistaken(1, 0.9, 1) == 1);
    CHECK(mistaken(100'000'000, 100, 100'000'000) == 100'000'000);
  }

  TEST_CASE("believed latencies: one skew a model, the batch term on top, bounded") {
    LatencyModel table;
    REQUIRE(LatencyModel::table({{10, kMillisecond}, {100, 7 * kMillisecond}}, {0, 0, 20, 0.5, 0.0001},
                                &table) == Status::kOk);
    LatencyModel constants;
    REQUIRE(LatencyModel::constants({1, 0.1, 10, 0.5, 0.001}, &constants) == Status::kOk);
    const std::vector<LatencyModel> truth{constants, table, constants};
    PredictionError none;
    const std::vector<LatencyModel> exact = believedLatencies(truth, none);
    for (std::size_t k = 0; k < truth.size(); ++k) CHECK(exact[k] == truth[k]);

    PredictionError e;
    e.gpu = 0.3;
    e.batch = 0.5;
    const std::vector<LatencyModel> believed = believedLatencies(truth, e);
    std::vector<double> skew;
    for (std::size_t k = 0; k < truth.size(); ++k) {
      const double f =
          static_cast<double>(believed[k].prefill(1000, 0)) / static_cast<double>(truth[k].prefill(1000, 0));
      const auto step = [](const LatencyModel& m, std::uint32_t batch, std::int64_t context) {
        return static_cast<double>(m.piece(batch, context).at(context));
      };
      CHECK(step(believed[k], 1, 0) == doctest::Approx(f * step(truth[k], 1, 0)).epsilon(1e-6));
      CHECK(step(believed[k], 9, 0) - step(believed[k], 1, 0) ==
            doctest::Approx(0.5 * f * (step(truth[k], 9, 0) - step(truth[k], 1, 0))).epsilon(1e-6));
      CHECK(step(believed[k], 1, 1000) - step(believed[k], 1, 0) ==
            doctest::Approx(f * (step(truth[k], 1, 1000) - step(truth[k], 1, 0))).epsilon(1e-6));
      skew.push_back(f);
    }
    CHECK(skew[0] != doctest::Approx(skew[2]).epsilon(1e-3));  // equal models of two classes differ

    // Right on average: the mean of 4000 is within four deviations of 1.
    e.gpu = 0.8;
    double sum = 0;
    for (const LatencyModel& m : believedLatencies(std::vector<LatencyModel>(4000, constants), e))
      sum += static_cast<double>(m.prefill(1000, 0)) / static_cast<double>(constants.prefill(1000, 0));
    CHECK(std::abs(sum / 4000 - 1) < 0.06);

    LatencyModel largest;
    REQUIRE(LatencyModel::constants({100'000, 100, 100'000, 100, 100}, &largest) == Status::kOk);
    CHECK(largest.skewed(50, 10) == largest);
    LatencyModel least;
    REQUIRE(LatencyModel::constants({0, 0, 1e-6, 0, 0}, &least) == Status::kOk);
    CHECK(least.skewed(1e-9, 1) == least);
  }

  TEST_CASE("out of range is refused") {
    CHECK(checkError({}) == Status::kOk);
    CHECK(checkError(lengths(LengthError::kLognormal, 3.1)) == Status::kBadValue);
    CHECK(checkError(lengths(LengthError::kUniform, 1)) == Status::kBadValue);
    CHECK(checkError(lengths(LengthError::kBias, -1)) == Status::kBadValue);
    CHECK(checkError(lengths(LengthError::kHeavyTail, 0.5)) == Status::kBadValue);
    CHECK(checkError(lengths(LengthError::kMeanAbsolute, std::nan(""))) == Status::kBadValue);
    CHECK(checkError(lengths(LengthError::kLognormal, 0.1, 0.05, 1.1)) == Status::kBadValue);
    Small small(1);
    small.options.error.gpu = -1;
    CHECK(small.go() == Status::kBadValue);
  }

  TEST_CASE("an error of 0 is no error, bit for bit") {
    for (const Knowledge knowledge : {Knowledge::kOnline, Knowledge::kDeclared, Knowledge::kOracle}) {
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        Small plain(seed, 400);
        plain.options.knowledge = knowledge;
        EventLog expected;
        REQUIRE(plain.go(&expected) == Status::kOk);
        for (const PredictionError& e :
             {lengths(LengthError::kLognormal, 0), lengths(LengthError::kMeanAbsolute, 0, 0.05, 0.5),
              lengths(LengthError::kUniform, 0), lengths(LengthError::kBias, 0),
              lengths(LengthError::kHeavyTail, 1), lengths(LengthError::kHeavyTail, 4, 0)}) {
          Small zero(seed, 400);
          zero.options.knowledge = knowledge;
          zero.options.error = e;
          EventLog log;
          REQUIRE(zero.go(&log) == Status::kOk);
          CHECK(same(log, expected));
        }
      }
    }
  }

  TEST_CASE("the oracle's lengths are true; its times may be wrong") {
    Small plain(1);
    plain.options.knowledge = Knowledge::kOracle;
    EventLog expected;
    REQUIRE(plain.go(&expected) == Status::kOk);
    Small wrong(1);
    wrong.options.knowledge = Knowledge::kOracle;
    wrong.options.error = lengths(LengthError::kLognormal, 1);
    EventLog log;
    REQUIRE(wrong.go(&log) == Status::kOk);
    CHECK(same(log, expected));
    wrong.options.error.gpu = 0.8;
    EventLog times;
    REQUIRE(wrong.go(&times) == Status::kOk);
    CHECK_FALSE(same(times, expected));
  }

  TEST_CASE("deadlines and SLO bases follow the engines, not what is believed of them") {
    Small plain(2);
    REQUIRE(plain.go() == Status::kOk);
    Small wrong(2);
    wrong.options.error.gpu = 0.9;
    wrong.options.error.batch = 3;
    REQUIRE(wrong.go() == Status::kOk);
    CHECK(wrong.base == plain.base);
  }

  TEST_CASE("predictions that are short end in evictions, and nothing is lost") {
    std::uint64_t evictions = 0;
    std::uint64_t hidden = 0;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
        Small small(seed, 130);  // the largest call needs 120
        for (double& t : small.arrivalMs) t /= 4;
        small.options.feedback = feedback;
        small.options.lookahead = feedback == Feedback::kLease ? 1 : 0;
        small.options.error = lengths(LengthError::kHeavyTail, 20, 1);
        REQUIRE(small.go() == Status::kOk);
        CHECK(small.result.completed == 60);
        CHECK(small.result.calls == 120);
        CHECK(small.result.rejected == 0);
        (feedback == Feedback::kBoundary ? evictions : hidden) +=
            feedback == Feedback::kBoundary ? small.result.evictions : small.result.hiddenEvictions;
      }
    }
    MESSAGE("evictions " << evictions << ", hidden " << hidden);
    CHECK(evictions > 500);
    CHECK(hidden > 500);
    Small exact(0, 130);
    for (double& t : exact.arrivalMs) t /= 4;
    REQUIRE(exact.go() == Status::kOk);
    CHECK(exact.result.evictions == 0);
  }
}
