// The parts of rules beyond the papers, against naive versions: the pressure behind prices on KV, and who may
// be sacrificed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "scheduler/kv_pressure.h"
#include "scheduler/sacrifice.h"

using namespace laxity;

namespace {

/// x from `at` on.
struct Step {
  Nanos at;
  double x;
};

/// The average at t by its definition: every piece of the past with its weight.
double naiveAverage(const std::vector<Step>& steps, Nanos t, double memoryMs) {
  double sum = 0;
  for (std::size_t i = 0; i < steps.size() && steps[i].at < t; ++i) {
    const Nanos end = i + 1 < steps.size() ? std::min(steps[i + 1].at, t) : t;
    const auto weight = [&](Nanos from) { return std::exp(-static_cast<double>(t - from) / 1e6 / memoryMs); };
    sum += steps[i].x * (weight(end) - weight(steps[i].at));
  }
  return sum;
}

}  // namespace

TEST_SUITE("rules") {
  TEST_CASE("KV pressure: the average of its definition, whenever it is read") {
    std::uint32_t priced = 0;
    std::uint32_t free = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      Random r(81, seed);
      const double memoryMs = 10.0 + 20'000.0 * r.uniform();
      const std::int64_t capacity = 1 + r.below(100'000);
      KvPressure pressure;
      KvPressure unread;
      for (KvPressure* p : {&pressure, &unread}) {
        p->setMemory(memoryMs);
        p->resize(2);
        p->set(1, 0, capacity, 0);
      }
      std::vector<Step> steps{{0, 0}};
      std::int64_t held = 0;
      Nanos t = 0;
      for (int i = 0; i < 60; ++i) {
        // Several changes may fall on one instant.
        if (r.below(3) != 0) t += r.below(2'000'000'000);
        const std::int64_t by =
            static_cast<std::int64_t>(r.below(static_cast<std::uint32_t>(capacity))) - held / 2;
        held = std::max<std::int64_t>(0, held + by);
        pressure.set(1, held, capacity, t);
        unread.set(1, held, capacity, t);
        steps.push_back({t, static_cast<double>(held) / static_cast<double>(capacity)});
        const Nanos later = t + r.below(3'000'000'000);
        const double expected = naiveAverage(steps, later, memoryMs);
        CHECK(std::abs(pressure.average(1, later) - expected) < 1e-9);
        const double price = pressure.price(1, 10, later);
        CHECK(price >= 0);
        CHECK(price <= 15);
        if (expected < 0.75 - 1e-9) CHECK(price == 0);
        if (expected > 0.75 + 1e-9) CHECK(price > 0);
        ++(price > 0 ? priced : free);
        CHECK(pressure.average(0, later) == 0);
      }
      CHECK(pressure.average(1, t + 5) == unread.average(1, t + 5));
    }
    CHECK(priced > 1'000);
    CHECK(free > 1'000);
  }

  TEST_CASE("sacrifice: within the share, only the largest of the window") {
    std::uint32_t taken = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Random r(82, seed);
      const double share = 0.001 + 0.1 * r.uniform();
      Sacrifice sacrifice;
      std::vector<Nanos> sizes;
      std::uint32_t own = 0;
      const std::uint32_t many = seed % 6 == 0 ? 2'500 : 200;
      for (std::uint32_t i = 0; i < many; ++i) {
        const Nanos size = 1 + (seed % 2 == 0 ? r.below(20) : r.below(1'000'000'000));
        sacrifice.see(size);
        sizes.push_back(size);
        std::vector<Nanos> window(
            sizes.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(1'000, sizes.size())),
            sizes.end());
        std::sort(window.begin(), window.end());
        // The smallest size that at least a share 1 - 1.5 b of the window does not exceed.
        const double least = (1 - 1.5 * share) * static_cast<double>(window.size());
        Nanos threshold = window.back();
        for (std::size_t k = window.size(); k-- > 0;) {
          if (static_cast<double>(k + 1) >= least) threshold = window[k];
        }
        for (const Nanos candidate : {size, threshold, threshold - 1, window.back()}) {
          const bool allowed = sizes.size() >= 30 && own + 1 <= share * static_cast<double>(sizes.size()) &&
                               candidate >= threshold;
          CHECK(sacrifice.allows(candidate, share) == allowed);
        }
        if (sacrifice.allows(size, share) && r.below(2) == 0) {
          sacrifice.take();
          ++own;
        }
        CHECK(own <= share * static_cast<double>(sizes.size()));
      }
      taken += own;
    }
    CHECK(taken > 100);
  }
}
