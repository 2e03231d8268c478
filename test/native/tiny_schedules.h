// What the tests of the lower bound on both kinds of clusters have in common: latency models, the choices of
// an enumerated schedule, and the best schedule found.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "base/statistics.h"
#include "model/kernel_sets.h"
#include "model/latency.h"
#include "model/llm.h"
#include "model/polynomial.h"
#include "model/profile.h"
#include "model/roofline.h"

namespace laxity::trial {

template <class Values>
auto any(Random& random, const Values& values) {
  return values[random.below(static_cast<std::uint32_t>(std::size(values)))];
}

/// A measured profile, a polynomial whose regimes may make larger batches faster, or a roofline.
inline LatencyModel tabulated(Random& random) {
  LatencyModel model;
  const std::uint32_t kind = random.below(5);
  if (kind == 0) {
    RooflineSpec spec;
    spec.llm = kLlms[random.below(kLlms.size())].spec;
    spec.gpu = kGpus[random.below(kGpus.size())].spec;
    spec.tensorParallel = 1u << random.below(4);
    if (ok(LatencyModel::roofline(spec, &model))) return model;
  }
  if (kind <= 2) {
    LatencyPolynomial p;
    p.prefill.push_back({1, 0.1 + random.uniform(), random.uniform() * 0.1, random.uniform() * 1e-5});
    for (std::uint32_t i = 0, from = 1; i < 1 + random.below(3); ++i, from += 1 + random.below(5))
      p.decode.push_back({from, 0.1 + random.uniform() * 3, random.uniform() * 0.3, random.uniform() * 1e-3});
    REQUIRE(ok(LatencyModel::polynomial(p, &model)));
    return model;
  }
  const auto grid = [&](std::uint32_t row, std::uint32_t column) {
    ProfileGrid g;
    for (std::uint32_t n = 1 + random.below(5); n > 0; --n, row += 1 + random.below(6)) g.rows.push_back(row);
    for (std::uint32_t n = 1 + random.below(5); n > 0; --n, column += 1 + random.below(200))
      g.columns.push_back(column);
    const std::size_t width = g.columns.size();
    for (std::size_t i = 0; i < g.rows.size() * width; ++i) {
      Fine least = fineFromMs(0.5);
      if (i % width > 0) least = std::max(least, g.times[i - 1]);
      if (i >= width) least = std::max(least, g.times[i - width]);
      g.times.push_back(least + fineFromMs(random.uniform()));
    }
    return g;
  };
  REQUIRE(ok(LatencyModel::profile(grid(1, random.below(50)), grid(0, 1 + random.below(50)), &model)));
  return model;
}

/// Whole ns, so that nothing is rounded.
struct Costs {
  Nanos prefillBase, prefillPerToken, base, perSequence, perContext;

  LatencyModel model() const {
    LatencyModel out;
    REQUIRE(LatencyModel::constants(
                {toMs(prefillBase), toMs(prefillPerToken), toMs(base), toMs(perSequence), toMs(perContext)},
                &out) == Status::kOk);
    return out;
  }
};

/// The choices of a schedule: a run takes them from a list of digits, and the next run counts that list up;
/// with a generator they are drawn.
class Choices {
 public:
  void begin(Random* random) {
    random_ = random;
    place_ = 0;
  }
  void end() { digits_.resize(random_ != nullptr ? 0 : place_); }

  /// The last option holds, and is there only while something else is still to come.
  std::uint32_t choose(std::uint32_t options, bool mayHold) {
    if (!mayHold) --options;
    if (options <= 1) return 0;
    if (random_ != nullptr) return random_->below(options);
    if (place_ == digits_.size()) digits_.push_back({0, options});
    return digits_[place_++].value;
  }

  /// False where the last run was the last schedule.
  bool next() {
    while (!digits_.empty()) {
      Digit& d = digits_.back();
      if (++d.value < d.options) return true;
      digits_.pop_back();
    }
    return false;
  }

 private:
  struct Digit {
    std::uint32_t value, options;
  };
  Random* random_ = nullptr;
  std::vector<Digit> digits_;
  std::size_t place_ = 0;
};

inline constexpr std::array<double, 3> kTaus{0.5, 0.7, 1.0};

inline double required(std::vector<double> ratios, double tau) { return upperQuantile(ratios, tau); }

inline bool below(double achieved, double bound) { return achieved < bound * (1 - 1e-12); }

struct Best {
  std::array<double, 3> ratio{HUGE_VAL, HUGE_VAL, HUGE_VAL};
  bool exhaustive = false;
};

/// The best Req of any schedule that was found, by tau.
template <class Schedules, class Tiny>
Best bestOf(const Tiny& tiny, const std::vector<double>& base, std::uint32_t n, std::uint32_t leaves,
            std::uint32_t samples) {
  Best best;
  Schedules schedules(tiny);
  std::vector<double> ratios(base.size());
  const auto note = [&](const std::vector<Nanos>& latency) {
    for (std::size_t w = 0; w < base.size(); ++w) ratios[w] = static_cast<double>(latency[w]) / base[w];
    for (std::size_t k = 0; k < kTaus.size(); ++k)
      best.ratio[k] = std::min(best.ratio[k], required(ratios, kTaus[k]));
  };
  for (std::uint32_t i = 0; i < leaves && !best.exhaustive; ++i) {
    note(schedules.run(nullptr));
    best.exhaustive = !schedules.next();
  }
  Random random(0x5eed + n);
  Schedules sampled(tiny);
  for (std::uint32_t i = 0; i < samples && !best.exhaustive; ++i) note(sampled.run(&random));
  return best;
}

}  // namespace laxity::trial
