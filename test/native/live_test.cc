// Learned lengths and speeds, breakers and age lists against naive forms.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "base/random.h"
#include "scheduler/age_list.h"
#include "scheduler/breaker.h"
#include "scheduler/lengths.h"
#include "scheduler/speeds.h"

using namespace laxity;

namespace {

/// The breaker by its definition: every fault is remembered.
struct NaiveBreaker {
  BreakerState state = BreakerState::kClosed;
  Nanos since = 0;
  std::uint32_t successes = 0;
  std::vector<Nanos> faults;

  void move(BreakerState to, Nanos t) {
    state = to;
    since = t;
    successes = 0;
    faults.clear();
  }
  void fault(Nanos t, Nanos leasedAt, const BreakerRules& rules) {
    if (state == BreakerState::kOpen) return;
    if (state == BreakerState::kHalfOpen) {
      if (leasedAt >= since) move(BreakerState::kOpen, t);
      return;
    }
    faults.push_back(t);
    std::size_t inWindow = 0;
    for (const Nanos f : faults) inWindow += t - f <= rules.window ? 1 : 0;
    if (inWindow >= rules.faults) move(BreakerState::kOpen, t);
  }
  void success(Nanos t, Nanos leasedAt, const BreakerRules& rules) {
    if (state == BreakerState::kHalfOpen && leasedAt >= since && ++successes >= rules.successes)
      move(BreakerState::kClosed, t);
  }
  void pauseOver(Nanos t, const BreakerRules& rules) {
    if (state == BreakerState::kOpen && t - since >= rules.pause) move(BreakerState::kHalfOpen, t);
  }
};

}  // namespace

TEST_SUITE("live") {
  TEST_CASE("a breaker moves as its naive form does") {
    std::uint64_t opened = 0;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
      Random random(seed);
      const BreakerRules rules{1 + random.below(kMaxBreakerFaults), 1 + random.below(60),
                               1 + random.below(40), 1 + random.below(4)};
      Breaker breaker;
      NaiveBreaker naive;
      Nanos t = 0;
      for (int step = 0; step < 200; ++step) {
        t += random.below(8);
        const Nanos leasedAt = t - static_cast<Nanos>(random.below(30));
        const BreakerState before = breaker.state;
        bool moved = false;
        switch (random.below(4)) {
          case 0:
          case 1:
            moved = breaker.fault(t, leasedAt, rules);
            naive.fault(t, leasedAt, rules);
            break;
          case 2:
            moved = breaker.success(t, leasedAt, rules);
            naive.success(t, leasedAt, rules);
            break;
          default:
            moved = breaker.pauseOver(t, rules);
            naive.pauseOver(t, rules);
        }
        REQUIRE(breaker.state == naive.state);
        REQUIRE(moved == (breaker.state != before));
        opened += moved && breaker.state == BreakerState::kOpen ? 1 : 0;
      }
    }
    CHECK(opened > 3000);
  }

  TEST_CASE("learned lengths lie within a class of the exact ones") {
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
      Random random(seed);
      LengthPredictor predictor;
      std::vector<std::uint32_t> seen;
      const std::uint32_t scale = 1u << (1 + random.below(17));
      const int n = 1 + static_cast<int>(random.below(4000));
      std::uint64_t sum = 0;
      for (int i = 0; i < n; ++i) {
        const std::uint32_t tokens = 1 + random.below(scale);
        predictor.observe(-1, 3, tokens, {1, 1});
        seen.push_back(tokens);
        sum += tokens;
      }
      std::sort(seen.begin(), seen.end());
      const LengthPrediction p = predictor.predict(-1, 3);
      const std::uint32_t exact = seen[(seen.size() * 9 + 9) / 10 - 1];
      CHECK(p.mean == std::max<std::uint64_t>(1, (sum + seen.size() / 2) / seen.size()));
      CHECK(p.high >= std::max(exact, p.mean));
      CHECK(p.high <= std::max<double>(exact * 1.125 + 1, p.mean));
      CHECK(predictor.observations(-1, 3) == seen.size());
      // Another stage has nothing of its own: it takes what all have.
      CHECK(predictor.predict(2, 9).mean == p.mean);
      CHECK(predictor.observations(2, 9) == 0);
    }
    CHECK(LengthPredictor().predict(-1, 0).mean == LengthPredictor::kUnknownMean);
  }

  TEST_CASE("old lengths fade") {
    LengthPredictor predictor;
    for (int i = 0; i < 20'000; ++i) predictor.observe(0, 0, 1000, {1, 1});
    for (int i = 0; i < 20'000; ++i) predictor.observe(0, 0, 10, {1, 1});
    // Halved nine times, 2 in 1,000 of the old ones are left.
    CHECK(predictor.predict(0, 0).mean <= 12);
    CHECK(predictor.predict(0, 0).high == predictor.predict(0, 0).mean);
  }

  TEST_CASE("a full histogram is halved by the observation that comes next") {
    LengthPredictor predictor;
    for (int i = 0; i < 4096; ++i) predictor.observe(0, 0, 7, {7, 7});
    CHECK(predictor.observations(0, 0) == 4096);
    predictor.observe(0, 0, 7, {7, 7});
    CHECK(predictor.observations(0, 0) == 2049);
  }

  TEST_CASE("speeds settle on what is observed, and change the model rarely") {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      Random random(seed);
      Speeds speeds;
      LatencyConstants start;
      start.prefillPerTokenMs = 0.1;
      start.decodeBaseMs = 30;
      speeds.learn(0, start);
      const double prefill = 0.001 * (1 + random.below(1000));
      const double decode = 1.0 + random.below(200);
      int changes = 0;
      for (int i = 0; i < 2000; ++i) {
        const std::uint32_t prompt = 100 + random.below(4000);
        const std::uint32_t steps = 1 + random.below(300);
        const double noise = 0.95 + 0.1 * random.below(1000) / 1000;
        changes += speeds.observe(0, fromMs(prefill * prompt * noise), prompt, fromMs(decode * steps * noise),
                                  steps);
      }
      CHECK(std::abs(speeds.inUse(0).prefillPerTokenMs / prefill - 1) < 0.2);
      CHECK(std::abs(speeds.inUse(0).decodeBaseMs / decode - 1) < 0.2);
      CHECK(changes <= 4);
    }
    CHECK_FALSE(Speeds().learns(0));
  }

  TEST_CASE("a model changes no sooner than sixteen observations after its last change") {
    Speeds speeds;
    LatencyConstants start;
    start.prefillPerTokenMs = 1;
    start.decodeBaseMs = 1;
    speeds.learn(0, start);
    const auto observe = [&](int ms) { return speeds.observe(0, fromMs(ms), 1, fromMs(ms), 1); };
    CHECK(observe(2));  // the first one is all there is to know
    for (int i = 1; i < 16; ++i) CHECK_FALSE(observe(2));
    CHECK(speeds.inUse(0).prefillPerTokenMs == 2);
    // Both means are warm, and one of 40 ms is far at once.
    CHECK(observe(40));
    for (int i = 1; i < 16; ++i) CHECK_FALSE(observe(40));
    CHECK(observe(40));
  }

  TEST_CASE("the shortest duration is one") {
    Speeds speeds;
    LatencyConstants start;
    start.prefillPerTokenMs = 1;
    start.decodeBaseMs = 1;
    speeds.learn(0, start);
    CHECK(speeds.observe(0, 1, 1, 0, 0));
    CHECK(speeds.inUse(0).prefillPerTokenMs == doctest::Approx(1e-6));
    CHECK(speeds.inUse(0).decodeBaseMs == 1);
    CHECK_FALSE(speeds.observe(0, 0, 1, 0, 0));
  }

  TEST_CASE("an age list keeps its order under removal") {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      Random random(seed);
      AgeList list;
      std::deque<std::uint32_t> naive;
      Nanos t = 0;
      for (int step = 0; step < 500; ++step) {
        const std::uint32_t slot = random.below(40);
        const auto at = std::find(naive.begin(), naive.end(), slot);
        REQUIRE(list.contains(slot) == (at != naive.end()));
        if (at == naive.end()) {
          list.append(slot, ++t);
          naive.push_back(slot);
        } else {
          list.remove(slot);
          naive.erase(at);
        }
        REQUIRE(list.size() == naive.size());
        std::uint32_t walk = list.front();
        for (const std::uint32_t expected : naive) {
          REQUIRE(walk == expected);
          walk = list.next(walk);
        }
        REQUIRE(walk == kNoSlot);
      }
    }
  }
}
