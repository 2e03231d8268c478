// Processor sharing (validation.md 1, row 7): an iteration of B sequences takes B times that of one, so that
// every call in the batch proceeds at 1/B of its speed alone. In every engine mode; prefills take (next to)
// no time.
//
// Service times are exponential or constant, mean 1 s, in tokens of 0.1 ms; load 0.8. The mean sojourn is
// s / (1 - rho) = 5 s whatever the distribution, and the mean of a call of size x is 5 x: the slowdown is the
// same for all sizes, which no queue by arrival has. Tokens are whole and calls join at the ends of
// iterations: at most B tokens late, some 0.5 ms of 5 s, far below the interval.
//
// 30 independent replications, each started empty and cut by 2,000 jobs; Student-t intervals jointly 99 %
// over all numbers of this file, with the derivatives of 1 / (1 - rho) by the mean service and inter-arrival
// times as control variates (queueing_test.cc). Fails where an interval misses its target or is wider than 3
// % on a side.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/statistics.h"
#include "queueing.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr int kReplications = 30;
constexpr std::uint32_t kWarmUp = 2000;
constexpr std::uint32_t kExponentialJobs = 60'000;
constexpr std::uint32_t kConstantJobs = 25'000;
constexpr double kTokens = 1e4;  ///< of a mean job
constexpr double kGap = 1.25;    ///< s between arrivals
constexpr std::size_t kSizes = 4;
constexpr std::array<double, kSizes - 1> kCuts{0.5, 1, 2};  ///< s
/// Three modes: the mean of two distributions, and the slowdown of four sizes.
constexpr int kNumbers = 3 * (2 + static_cast<int>(kSizes));
constexpr double kConfidence = 1 - 0.01 / kNumbers;

struct Sample {
  double sojourn = 0;
  std::array<double, kSizes> slowdown{};
};

Sample sample(EngineMode mode, bool exponential, int replication) {
  const std::uint32_t jobs = exponential ? kExponentialJobs : kConstantJobs;
  const std::uint32_t n = kWarmUp + jobs;
  Random random(71, static_cast<std::uint64_t>(replication) + (exponential ? 0 : 100));
  std::vector<std::uint32_t> firstCall(n + 1), parentOffset(n + 1, 0), prompt(n, 1), output(n);
  std::vector<std::uint16_t> stage(n, 0);
  std::vector<double> arrivalMs(n), finishedMs(n);
  for (std::uint32_t i = 0; i <= n; ++i) firstCall[i] = i;
  for (std::uint32_t i = 0; i < n; ++i) {
    const double tokens = (exponential ? random.exponential(1) : 1) * kTokens + 0.5;
    output[i] = 1 + std::max(1u, static_cast<std::uint32_t>(tokens));  // the first comes from the prefill
  }
  TraceColumns columns;
  columns.workflows = columns.calls = n;
  columns.firstCall = firstCall.data();
  columns.stage = stage.data();
  columns.promptTokens = prompt.data();
  columns.outputTokens = output.data();
  columns.parentOffset = parentOffset.data();
  Trace trace;
  REQUIRE(ok(trace.bind(columns)));

  const WholeCosts costs{0, 0, 100'000, 100'000, 0};
  InstanceSpec spec = instanceSpec(0, kMaxSequences, kMaxKvTokens);
  spec.mode = mode;
  spec.chunkTokens = mode == EngineMode::kChunked ? kMaxChunkTokens : 0;
  spec.decodeShare = mode == EngineMode::kDecodeShare ? 500 : 0;
  ClusterSpec cluster = clusterOf(std::span(&costs, 1), std::span(&spec, 1));
  cluster.templates = {{{0, 1, 10}}};  // a constant SLO base costs nothing
  RunOptions options = baseOptions("fcfs", "global-queue", Binding::kAtCredit);
  options.sloBase = SloBase::kTemplate;
  options.arrivals = {ArrivalProcess::kPoisson, 1 / kGap, 71, static_cast<std::uint64_t>(replication), {}};
  RunOutputs out;
  out.arrivalMs = arrivalMs.data();
  out.finishedMs = finishedMs.data();
  RunResult result;
  REQUIRE(ok(simulate(trace, cluster, options, out, &result)));
  REQUIRE(result.completed == n);

  Sample s;
  std::array<double, kSizes> times{}, sizes{};
  double service = 0, gap = 0;
  for (std::uint32_t i = kWarmUp; i < n; ++i) {
    const double x = (output[i] - 1) / kTokens;
    const double sojourn = (finishedMs[i] - arrivalMs[i]) * 1e-3;
    std::size_t k = 0;
    while (k < kCuts.size() && x >= kCuts[k]) ++k;
    times[k] += sojourn;
    sizes[k] += x;
    s.sojourn += sojourn;
    service += x - 1;
    gap += (arrivalMs[i] - arrivalMs[i - 1]) * 1e-3 - kGap;
  }
  // d/ds of s / (1 - s / a) and of 1 / (1 - s / a) at s = 1, a = 1.25; and by a.
  const double rest = 1 - 1 / kGap;
  const double byGap = -1 / (kGap * kGap) / (rest * rest);
  s.sojourn = s.sojourn / jobs - service / jobs / (rest * rest) - gap / jobs * byGap;
  const double slowdown = service / jobs / (kGap * rest * rest) + gap / jobs * byGap;
  for (std::size_t k = 0; k < kSizes; ++k) s.slowdown[k] = times[k] / sizes[k] - slowdown;
  return s;
}

void check(const std::vector<double>& values) {
  const Interval i = meanInterval(values, kConfidence);
  CAPTURE(i.mean);
  CAPTURE(i.low);
  CAPTURE(i.high);
  CHECK(i.low <= 5);
  CHECK(5 <= i.high);
  CHECK((i.high - i.low) / 2 <= 0.03 * 5);
}

void examine(EngineMode mode) {
  for (const bool exponential : {true, false}) {
    CAPTURE(exponential);
    std::vector<double> sojourns;
    std::array<std::vector<double>, kSizes> slowdowns;
    for (int r = 0; r < kReplications; ++r) {
      const Sample s = sample(mode, exponential, r);
      sojourns.push_back(s.sojourn);
      for (std::size_t k = 0; k < kSizes; ++k) slowdowns[k].push_back(s.slowdown[k]);
    }
    check(sojourns);
    if (!exponential) continue;
    for (std::size_t k = 0; k < kSizes; ++k) {
      CAPTURE(k);
      check(slowdowns[k]);
    }
  }
}

}  // namespace

TEST_SUITE("queueing") {
  TEST_CASE("processor sharing, prefill-first") { examine(EngineMode::kPrefillFirst); }
  TEST_CASE("processor sharing, chunked") { examine(EngineMode::kChunked); }
  TEST_CASE("processor sharing, decode-share") { examine(EngineMode::kDecodeShare); }
}
