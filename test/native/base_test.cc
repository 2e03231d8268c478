// Status, elementary functions, randomness and statistics.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/math.h"
#include "base/random.h"
#include "base/statistics.h"
#include "base/status.h"

using namespace laxity;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Distance in representable doubles; both of one sign.
std::int64_t ulps(double a, double b) {
  return std::abs(std::bit_cast<std::int64_t>(a) - std::bit_cast<std::int64_t>(b));
}

bool near(double a, double b, double relative) { return std::abs(a - b) <= relative * std::abs(b); }

struct Sample {
  double mean = 0;
  double variance = 0;
};

template <class Draw>
Sample sample(int n, Draw draw) {
  std::vector<double> values(n);
  for (double& value : values) value = draw();
  return {mean(values), variance(values)};
}

}  // namespace

TEST_SUITE("status") {
  TEST_CASE("every status has its own sentence") {
    std::set<std::string> sentences;
    constexpr int kLast = static_cast<int>(kLastStatus);
    for (int s = 0; s <= kLast; ++s) {
      const std::string sentence = reason(static_cast<Status>(s));
      CHECK(sentence.back() == '.');
      CHECK(sentence != reason(static_cast<Status>(255)));
      sentences.insert(sentence);
    }
    CHECK(sentences.size() == kLast + 1);
  }
}

TEST_SUITE("math") {
  TEST_CASE("detLog is within 2 ulp of the C library over all exponents and near 1") {
    Random random(11);
    std::int64_t worst = 0;
    for (int i = 0; i < 300'000; ++i) {
      const double any = std::bit_cast<double>(random.next() >> 1);
      if (any > 0 && any < kInfinity) worst = std::max(worst, ulps(detLog(any), std::log(any)));
      const double close = 0.5 + 1.5 * random.uniform();
      if (close != 1) worst = std::max(worst, ulps(detLog(close), std::log(close)));
    }
    CHECK(worst <= 2);
  }

  TEST_CASE("detExp is within 2 ulp of the C library, subnormal results included") {
    Random random(12);
    std::int64_t worst = 0;
    for (int i = 0; i < 300'000; ++i) {
      for (const double x : {-745 + 1454.7 * random.uniform(), 2 * random.uniform() - 1}) {
        worst = std::max(worst, ulps(detExp(x), std::exp(x)));
      }
    }
    CHECK(worst <= 2);
  }

  TEST_CASE("detLog1p keeps its digits for small arguments") {
    Random random(13);
    std::int64_t worst = 0;
    for (int i = 0; i < 100'000; ++i) {
      const double x = detExp(-60 + 80 * random.uniform());
      worst = std::max(worst, ulps(detLog1p(x), std::log1p(x)));
      if (x < 1) worst = std::max(worst, ulps(detLog1p(-x), std::log1p(-x)));
    }
    CHECK(worst <= 3);
  }

  TEST_CASE("special values") {
    CHECK(detLog(1) == 0);
    CHECK(detLog(0) == -kInfinity);
    CHECK(detLog(kInfinity) == kInfinity);
    CHECK(std::isnan(detLog(-1)));
    CHECK(std::isnan(detLog(std::nan(""))));
    CHECK(ulps(detLog(5e-324), std::log(5e-324)) <= 1);
    CHECK(detExp(0) == 1);
    CHECK(detExp(-kInfinity) == 0);
    CHECK(detExp(kInfinity) == kInfinity);
    CHECK(detExp(710) == kInfinity);
    CHECK(detExp(709.78) < kInfinity);
    CHECK(detExp(-745.1) == 5e-324);
    CHECK(detExp(-746) == 0);
    CHECK(std::isnan(detExp(std::nan(""))));
    CHECK(detLog1p(0) == 0);
    CHECK(detLog1p(-1) == -kInfinity);
    CHECK(std::isnan(detLog1p(-2)));
    CHECK(detLog1p(kInfinity) == kInfinity);
  }

  TEST_CASE("pinned bits") {
    CHECK(std::bit_cast<std::uint64_t>(detLog(2)) == 0x3fe62e42fefa39efu);
    CHECK(std::bit_cast<std::uint64_t>(detLog(10)) == 0x40026bb1bbb55516u);
    CHECK(std::bit_cast<std::uint64_t>(detExp(1)) == 0x4005bf0a8b14576au);  // 0.67 ulp above e
    CHECK(std::bit_cast<std::uint64_t>(detExp(-0.5)) == 0x3fe368b2fc6f960au);
  }
}

TEST_SUITE("random") {
  // From an independent implementation in Python, itself checked against the published xoshiro256** vector.
  TEST_CASE("first values are pinned") {
    Random zero(0);
    CHECK(zero.next() == 0x30bb94d28b7ab90cu);
    CHECK(zero.next() == 0x16a17f40c767e533u);
    CHECK(zero.next() == 0xe3e4b8ec5f525c28u);
    CHECK(Random(1, 0).next() == 0xa42f370f4f3e6190u);
    CHECK(Random(1, 1).next() == 0xc67f6a872f64b6d4u);
    CHECK(Random(0xffffffffffffffffu, 7).next() == 0x116d8f6abf4e9f36u);
    CHECK(Random(42, 3).uniform() == 0x1.eb4a55f230a28p-4);
    CHECK(Random(42, 3).exponential(2) == doctest::Approx(0.2555393355971494).epsilon(1e-14));
    Random normals(42, 3);
    CHECK(normals.normal() == doctest::Approx(-1.083445623519673).epsilon(1e-14));
    CHECK(normals.normal() == doctest::Approx(1.342094056966353).epsilon(1e-14));
  }

  TEST_CASE("one seed and stream, one sequence; another stream, another sequence") {
    Random a(5, 9), b(5, 9), c(5, 10), d(6, 9);
    int same = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t value = a.next();
      CHECK(value == b.next());
      same += value == c.next();
      same += value == d.next();
    }
    CHECK(same == 0);
  }

  TEST_CASE("uniform lies in [0, 1) with the right moments") {
    Random random(1);
    double low = 1, high = 0;
    const Sample s = sample(1'000'000, [&] {
      const double u = random.uniform();
      low = std::min(low, u);
      high = std::max(high, u);
      return u;
    });
    CHECK(low >= 0);
    CHECK(high < 1);
    CHECK(near(s.mean, 0.5, 0.003));
    CHECK(near(s.variance, 1.0 / 12, 0.005));
  }

  TEST_CASE("below is unbiased, also where 2^32 is far from a multiple of n") {
    Random random(2);
    CHECK(random.below(0) == 0);
    CHECK(random.below(1) == 0);
    int counts[6] = {};
    for (int i = 0; i < 600'000; ++i) ++counts[random.below(6)];
    double chi = 0;
    for (const int count : counts) chi += (count - 1e5) * (count - 1e5) / 1e5;
    CHECK(chi < 20.5);  // 99.9 % for 5 degrees of freedom

    // Without rejection, residues mod 3 of a draw below 3 * 2^30 would come 2 : 1 : 1.
    constexpr std::uint32_t kMost = 3u << 30;
    int residues[3] = {};
    for (int i = 0; i < 300'000; ++i) {
      const std::uint32_t value = random.below(kMost);
      REQUIRE(value < kMost);
      ++residues[value % 3];
    }
    for (const int count : residues) CHECK(std::abs(count - 100'000) < 1000);
  }

  TEST_CASE("moments of the continuous distributions") {
    constexpr int kDraws = 1'000'000;
    Random random(3);
    Sample s = sample(kDraws, [&] { return random.exponential(2.5); });
    CHECK(near(s.mean, 2.5, 0.005));
    CHECK(near(s.variance, 6.25, 0.02));
    s = sample(kDraws, [&] { return random.normal(); });
    CHECK(std::abs(s.mean) < 0.004);
    CHECK(near(s.variance, 1, 0.006));
    s = sample(kDraws, [&] { return random.lognormal(1, 0.5); });
    CHECK(near(s.mean, std::exp(1.125), 0.005));
    CHECK(near(s.variance, (std::exp(0.25) - 1) * std::exp(2.25), 0.03));
    for (const double shape : {0.16, 0.99, 1.0, 4.2, 60.0}) {
      CAPTURE(shape);
      s = sample(kDraws, [&] { return random.gamma(shape, 3); });
      CHECK(near(s.mean, shape * 3, 0.015));
      CHECK(near(s.variance, shape * 9, 0.04));
    }
  }

  TEST_CASE("the normal has normal tails") {
    Random random(4);
    int beyondOne = 0, beyondTwo = 0, beyondThree = 0;
    for (int i = 0; i < 1'000'000; ++i) {
      const double z = std::abs(random.normal());
      beyondOne += z > 1;
      beyondTwo += z > 2;
      beyondThree += z > 3;
    }
    CHECK(near(beyondOne, 317'311, 0.006));
    CHECK(near(beyondTwo, 45'500, 0.02));
    CHECK(near(beyondThree, 2'700, 0.08));
  }

  TEST_CASE("Discrete follows its weights and never draws a weight of zero") {
    const std::vector<double> weights = {0, 1, 0, 3, 6, 0};
    const Discrete discrete(weights);
    Random random(5);
    int counts[6] = {};
    for (int i = 0; i < 100'000; ++i) ++counts[discrete.draw(random)];
    CHECK(counts[0] + counts[2] + counts[5] == 0);
    CHECK(near(counts[1], 10'000, 0.05));
    CHECK(near(counts[3], 30'000, 0.03));
    CHECK(near(counts[4], 60'000, 0.02));
    CHECK(discrete.at(0) == 1);
    CHECK(discrete.at(0.1) == 3);
    CHECK(discrete.at(1) == 4);
    CHECK(Discrete(std::vector<double>{}).at(0.5) == 0);
    CHECK(Discrete(std::vector<double>{0, 0}).at(0.5) == 0);
  }

  TEST_CASE("permutation: seed 0 is the identity, any other a pinned permutation") {
    CHECK(permutation(5, 0) == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
    CHECK(permutation(8, 9) == std::vector<std::uint32_t>{3, 4, 5, 0, 6, 7, 1, 2});
    CHECK(permutation(0, 9).empty());
    std::vector<std::uint32_t> order = permutation(1000, 7);
    CHECK(order != permutation(1000, 8));
    std::sort(order.begin(), order.end());
    CHECK(order == permutation(1000, 0));
    // All 6 orders of 3, equally often.
    std::vector<int> counts(27);
    for (std::uint64_t seed = 1; seed <= 60'000; ++seed) {
      const auto p = permutation(3, seed);
      ++counts[p[0] * 9 + p[1] * 3 + p[2]];
    }
    CHECK(std::count_if(counts.begin(), counts.end(), [](int n) { return std::abs(n - 10'000) < 500; }) == 6);
  }
}

TEST_SUITE("statistics") {
  TEST_CASE("upperQuantile is the ceil(q n)-th order statistic") {
    const auto ofCount = [](int n, double q) {
      std::vector<double> values(n);
      for (int i = 0; i < n; ++i) values[i] = n - i;  // value k is the k-th smallest
      return upperQuantile(values, q);
    };
    CHECK(ofCount(100, 0.95) == 95);
    CHECK(ofCount(100, 0.99) == 99);
    CHECK(ofCount(400, 0.95) == 380);
    CHECK(ofCount(400, 0.99) == 396);
    CHECK(ofCount(90, 0.95) == 86);
    CHECK(ofCount(100, 0.07) == 7);  // 0.07 * 100 exceeds 7 in doubles
    CHECK(ofCount(100, 0) == 1);
    CHECK(ofCount(100, 1) == 100);
    CHECK(ofCount(1, 0.5) == 1);
    std::vector<double> none;
    CHECK(upperQuantile(none, 0.5) == 0);
    std::vector<double> unfinished = {3, kInfinity, 1, kInfinity};
    CHECK(upperQuantile(unfinished, 0.5) == 3);
    CHECK(upperQuantile(unfinished, 0.75) == kInfinity);
  }

  TEST_CASE("upperQuantile is the smallest value whose attainment reaches q") {
    Random random(6);
    for (int round = 0; round < 2000; ++round) {
      std::vector<double> values(1 + random.below(60));
      for (double& value : values) value = random.below(20);
      const double q = (1 + random.below(100)) / 100.0;
      const auto attainment = [&values](double scale) {
        const auto within =
            std::count_if(values.begin(), values.end(), [scale](double v) { return v <= scale; });
        return static_cast<double>(within) / static_cast<double>(values.size());
      };
      std::vector<double> scratch = values;
      const double v = upperQuantile(scratch, q);
      REQUIRE(attainment(v) >= q);
      REQUIRE(attainment(v - 0.5) < q);
    }
  }

  TEST_CASE("linearQuantile is numpy's default") {
    std::vector<double> values = {8, 1, 4, 2};
    CHECK(linearQuantile(values, 0) == 1);
    CHECK(linearQuantile(values, 0.4) == doctest::Approx(2.4).epsilon(1e-15));
    CHECK(linearQuantile(values, 0.5) == 3);
    CHECK(linearQuantile(values, 0.95) == doctest::Approx(7.4).epsilon(1e-15));
    CHECK(linearQuantile(values, 1) == 8);
    std::vector<double> none;
    CHECK(linearQuantile(none, 0.5) == 0);
    std::vector<double> unfinished = {1, kInfinity, kInfinity};
    CHECK(linearQuantile(unfinished, 0) == 1);
    CHECK(linearQuantile(unfinished, 0.3) == kInfinity);
    CHECK(linearQuantile(unfinished, 0.4) == kInfinity);
    CHECK(linearQuantile(unfinished, 0.75) == kInfinity);
  }

  TEST_CASE("mean and variance keep their digits far from zero") {
    const std::vector<double> values = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
    CHECK(mean(values) == 1e9 + 10);
    CHECK(variance(values) == 30);
    const std::vector<double> outlier = {1e12, 1, 2, 3};
    CHECK(mean(outlier) == 250000000001.5);
    const std::vector<double> equal(7, 0.1);
    CHECK(mean(equal) == 0.1);
    CHECK(variance(equal) == 0);
    CHECK(mean(std::vector<double>{}) == 0);
    CHECK(variance(std::vector<double>{3}) == 0);
  }

  TEST_CASE("Student's t: tables and 30-digit references") {
    CHECK(near(studentQuantile(0.975, 15), 2.131449545559776, 1e-12));
    CHECK(near(studentQuantile(0.975, 1), 12.706204736174694, 1e-12));
    CHECK(near(studentQuantile(0.995, 4), 4.604094871349992, 1e-12));
    CHECK(near(studentQuantile(0.95, 30), 1.697260886593957, 1e-12));
    CHECK(near(studentQuantile(0.975, 1e6), 1.959966356814107, 1e-11));
    CHECK(near(studentQuantile(0.9999, 2.5), 34.867969321116306, 1e-12));
    CHECK(near(studentQuantile(0.6, 7), 0.2631668613520229, 1e-12));
    CHECK(studentQuantile(0.25, 15) == -studentQuantile(0.75, 15));
    CHECK(studentQuantile(0.5, 3) == 0);
    CHECK(studentQuantile(0, 3) == -kInfinity);
    CHECK(studentQuantile(1, 3) == kInfinity);

    CHECK(near(studentCdf(-0.01, 3), 0.49632455570642599, 1e-13));
    CHECK(near(studentCdf(-2.5, 7), 0.020496109292876448, 1e-13));
    CHECK(near(studentCdf(-12, 30), 2.790092707599628e-13, 1e-12));
    CHECK(near(studentCdf(-1, 1), 0.25, 1e-14));
    CHECK(near(studentCdf(-3, 200.5), 0.0015210820839504444, 1e-12));
    CHECK(near(studentCdf(-40, 5), 9.2059810858864772e-8, 1e-12));
    CHECK(near(studentCdf(-2, 1e6), 0.022750266925659604, 1e-11));
    CHECK(studentCdf(0, 4) == 0.5);
    CHECK(studentCdf(1e200, 4) == 1);
    CHECK(studentCdf(-kInfinity, 4) == 0);
    CHECK(studentCdf(2.5, 7) == 1 - studentCdf(-2.5, 7));
  }

  // References of this and the next two cases: scipy.stats 1.17.
  TEST_CASE("welchT") {
    const std::vector<double> a = {30.02, 29.99, 30.11, 29.97, 30.01, 29.99};
    const std::vector<double> b = {29.89, 29.93, 29.72, 29.98, 30.02, 29.98};
    const TTest test = welchT(a, b);
    CHECK(test.mean == doctest::Approx(0.095).epsilon(1e-12));
    CHECK(near(test.t, 1.9590058081081434, 1e-11));
    CHECK(near(test.df, 7.030559959884322, 1e-11));
    CHECK(near(test.pTwoSided, 0.09077332428566112, 1e-11));
    CHECK(near(test.pGreater, 0.04538666214283056, 1e-11));
    CHECK(near(test.pLess, 1 - 0.04538666214283056, 1e-11));
    CHECK(near(test.low, -0.01956908964604008, 1e-10));
    CHECK(near(test.high, 0.20956908964604493, 1e-10));
    const TTest reversed = welchT(b, a);
    CHECK(reversed.t == -test.t);
    CHECK(reversed.pLess == test.pGreater);
  }

  TEST_CASE("welchT, second example") {
    const std::vector<double> a = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
                                   21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4};
    const std::vector<double> b = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
                                   24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.4};
    const TTest test = welchT(a, b);
    CHECK(near(test.t, -2.8529548701715215, 1e-11));
    CHECK(near(test.df, 27.88730398842012, 1e-11));
    CHECK(near(test.pTwoSided, 0.008071938172194903, 1e-11));
    CHECK(near(test.pLess, 0.004035969086097452, 1e-11));
    CHECK(near(test.low, -4.868022741791966, 1e-11));
    CHECK(near(test.high, -0.7986439248746979, 1e-11));
  }

  TEST_CASE("pairedT and meanInterval") {
    const std::vector<double> a = {30.02, 29.99, 30.11, 29.97, 30.01, 29.99};
    const std::vector<double> b = {29.89, 29.93, 29.72, 29.98, 30.02, 29.98};
    const TTest test = pairedT(a, b);
    CHECK(test.df == 5);
    CHECK(near(test.t, 1.5099668870541376, 1e-11));
    CHECK(near(test.pTwoSided, 0.19143688433660136, 1e-11));
    CHECK(near(test.low, -0.06672889384473878, 1e-10));
    CHECK(near(test.high, 0.2567288938447377, 1e-10));
    std::vector<double> differences(6);
    for (int i = 0; i < 6; ++i) differences[i] = a[i] - b[i];
    const Interval interval = meanInterval(differences);
    CHECK(interval.mean == test.mean);
    CHECK(interval.low == test.low);
    CHECK(interval.high == test.high);
    CHECK(meanInterval(differences, 0.99).low < interval.low);
  }

  TEST_CASE("fewer than two values and zero variance give no NaN") {
    const std::vector<double> none, one = {4}, equal = {2, 2, 2}, more = {3, 3, 3};
    CHECK(meanInterval(none).mean == 0);
    CHECK(meanInterval(one).mean == 4);
    CHECK(meanInterval(one).low == -kInfinity);
    CHECK(meanInterval(one).high == kInfinity);
    CHECK(meanInterval(equal).low == 2);
    CHECK(meanInterval(equal).high == 2);
    for (const auto test : {pairedT, welchT}) {
      CHECK(test(one, one, 0.95).pTwoSided == 1);
      CHECK(test(none, one, 0.95).pLess == 1);
      const TTest same = test(equal, equal, 0.95);
      CHECK(same.pTwoSided == 1);
      CHECK(same.pLess == 1);
      CHECK(same.low == 0);
      CHECK(same.high == 0);
      const TTest less = test(equal, more, 0.95);
      CHECK(less.pTwoSided == 0);
      CHECK(less.pLess == 0);
      CHECK(less.pGreater == 1);
      CHECK(less.low == -1);
      CHECK(less.high == -1);
      CHECK(less.t == -kInfinity);
    }
  }

  TEST_CASE("95 % intervals cover the true mean in 95 % of samples, and p is uniform under the null") {
    Random random(8);
    int covered = 0, rejected = 0;
    constexpr int kRounds = 4000;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> a(5), b(12);
      for (double& value : a) value = 10 + 3 * random.normal();
      for (double& value : b) value = 10 + random.normal();
      const Interval interval = meanInterval(a);
      covered += interval.low <= 10 && 10 <= interval.high;
      rejected += welchT(a, b).pTwoSided <= 0.05;
    }
    CHECK(std::abs(covered - 0.95 * kRounds) < 50);
    CHECK(std::abs(rejected - 0.05 * kRounds) < 60);
  }
}
