// What each tenant got, against the definitions read off the columns of the run.
#include "simulator/tenants.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "queueing.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Row = std::array<double, kTenantColumns>;

double at(const Row& row, TenantColumn column) { return row[static_cast<std::size_t>(column)]; }

/// The smallest value that a share q of the values does not exceed.
double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (static_cast<double>(i + 1) / static_cast<double>(values.size()) >= q) return values[i];
  }
  return 0;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

struct Tenanted {
  Status status = Status::kOk;
  std::vector<double> latencyMs, baseMs;
  std::vector<Row> rows;
};

Tenanted runTenants(const OwnedTrace& owned, const ClusterSpec& cluster, RunOptions options,
                    std::size_t tenants, bool named = true) {
  Tenanted r;
  TraceColumns columns = owned.columns();
  if (!named) columns.tenant = nullptr;
  Trace trace;
  r.status = trace.bind(columns);
  if (!ok(r.status)) return r;
  options.arrivals.recordedMs = owned.arrivalMs;
  r.latencyMs.resize(owned.workflows());
  r.baseMs.resize(owned.workflows());
  std::vector<double> rows(tenants * kTenantColumns, -1);
  RunOutputs out;
  out.latencyMs = r.latencyMs.data();
  out.baseMs = r.baseMs.data();
  out.tenants = rows;
  RunResult result;
  r.status = simulate(trace, cluster, options, out, &result);
  for (std::size_t t = 0; t < tenants; ++t) {
    r.rows.emplace_back();
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(t * kTenantColumns), kTenantColumns,
                r.rows.back().begin());
  }
  return r;
}

struct Scenario {
  OwnedTrace trace;
  ClusterSpec cluster;
};

/// Some of the calls of a workflow in ten, where `rejects`, fit nowhere: it does not complete.
Scenario scenario(Random& random, std::uint32_t tenants, bool rejects) {
  TraceShape shape;
  shape.workflows = 30;
  shape.maxCalls = 4;
  shape.maxPrompt = 800;
  shape.maxOutput = 60;
  shape.toolShare = 0;
  OwnedTrace trace = randomTrace(random, shape);
  trace.slos = true;
  for (std::uint32_t w = 0; w < trace.workflows(); ++w) {
    trace.tenant[w] = static_cast<std::uint16_t>(random.below(tenants));
    trace.sloMs[w] = random.uniform() < 0.3 ? 1 + std::floor(3000 * random.uniform()) : std::nan("");
    if (rejects && random.uniform() < 0.1) trace.prompt[trace.firstCall[w]] = 50'000;
  }
  std::vector<WholeCosts> costs;
  std::vector<InstanceSpec> instances;
  for (std::uint16_t m = 0; m < 2; ++m) {
    costs.push_back(randomCosts(random));
    costs.back().decodePerContext = 0;
    instances.push_back(instanceSpec(m, 16, 20'000));
  }
  return {std::move(trace), clusterOf(costs, instances)};
}

}  // namespace

TEST_SUITE("tenants") {
  TEST_CASE("every number of a tenant is that of its own workflows") {
    constexpr std::uint32_t kTenants = 4;
    int lost = 0;
    int missed = 0;
    for (std::uint64_t seed = 1; seed <= 120; ++seed) {
      const bool ticks = seed % 3 == 0;
      Random random(seed);
      const Scenario s = scenario(random, kTenants, !ticks);
      RunOptions options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
      options.feedback = Feedback::kBoundary;
      if (ticks) options.compat = Compat::kHexgenTicks;
      for (std::uint32_t t = 0; t < kTenants; ++t) options.tenantScales.push_back(0.5 + 4 * random.uniform());
      const Tenanted r = runTenants(s.trace, s.cluster, options, kTenants);
      CAPTURE(seed);
      REQUIRE(ok(r.status));
      for (std::uint32_t t = 0; t < kTenants; ++t) {
        std::vector<double> latencies;
        std::vector<double> ratios;
        int completed = 0;
        int met = 0;
        for (std::uint32_t w = 0; w < s.trace.workflows(); ++w) {
          if (s.trace.tenant[w] != t) continue;
          latencies.push_back(r.latencyMs[w]);
          ratios.push_back(r.latencyMs[w] / r.baseMs[w]);
          const bool declared = !std::isnan(s.trace.sloMs[w]);
          if (declared) CHECK(r.baseMs[w] == s.trace.sloMs[w]);
          completed += std::isfinite(r.latencyMs[w]) ? 1 : 0;
          const double scale = declared ? 1 : options.tenantScales[t];
          // Deadlines are whole nanoseconds, rounded.
          met += std::isfinite(r.latencyMs[w]) &&
                         fromMs(r.latencyMs[w]) <= std::llround(scale * 1e6 * r.baseMs[w])
                     ? 1
                     : 0;
        }
        const Row& row = r.rows[t];
        const auto n = static_cast<double>(latencies.size());
        CHECK(at(row, TenantColumn::kWorkflows) == n);
        CHECK(at(row, TenantColumn::kCompleted) == completed);
        if (latencies.empty()) {
          CHECK(row == Row{});
          continue;
        }
        CHECK(at(row, TenantColumn::kMeanMs) == mean(latencies));
        CHECK(at(row, TenantColumn::kP50Ms) == quantile(latencies, 0.5));
        CHECK(at(row, TenantColumn::kP95Ms) == quantile(latencies, 0.95));
        CHECK(at(row, TenantColumn::kP99Ms) == quantile(latencies, 0.99));
        CHECK(at(row, TenantColumn::kAttainment) == met / n);
        const auto near = [](double a, double b) { return a == b || std::abs(a / b - 1) < 1e-12; };
        CHECK(near(at(row, TenantColumn::kSloScale95), quantile(ratios, 0.95)));
        CHECK(near(at(row, TenantColumn::kNormalisedMean), mean(ratios)));
        lost += static_cast<int>(latencies.size()) - completed;
        missed += completed - met;
      }
    }
    CHECK(lost > 50);
    CHECK(missed > 100);
  }

  TEST_CASE("tenants beyond the rows are left out, rows without workflows are zero") {
    Random random(7);
    Scenario s = scenario(random, 3, false);
    for (std::uint32_t w = 0; w < s.trace.workflows(); ++w) {
      if (s.trace.tenant[w] == 1) s.trace.tenant[w] = 5;
    }
    const RunOptions options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
    const Tenanted all = runTenants(s.trace, s.cluster, options, 6);
    const Tenanted some = runTenants(s.trace, s.cluster, options, 3);
    REQUIRE(ok(all.status));
    REQUIRE(ok(some.status));
    for (std::size_t t = 0; t < 3; ++t) CHECK(some.rows[t] == all.rows[t]);
    for (const std::size_t t : {1, 3, 4}) CHECK(all.rows[t] == Row{});
    CHECK(at(all.rows[5], TenantColumn::kWorkflows) > 0);
    CHECK(at(all.rows[0], TenantColumn::kWorkflows) + at(all.rows[2], TenantColumn::kWorkflows) +
              at(all.rows[5], TenantColumn::kWorkflows) ==
          s.trace.workflows());
  }

  TEST_CASE("without a column of tenants all workflows are those of tenant 0") {
    Random random(8);
    const Scenario s = scenario(random, 3, true);
    const Tenanted r =
        runTenants(s.trace, s.cluster, baseOptions("fcfs", "round-robin", Binding::kAtReveal), 2, false);
    REQUIRE(ok(r.status));
    CHECK(at(r.rows[0], TenantColumn::kWorkflows) == s.trace.workflows());
    CHECK(r.rows[1] == Row{});
    const auto lost = std::count(r.latencyMs.begin(), r.latencyMs.end(), kInfinity);
    CHECK(at(r.rows[0], TenantColumn::kCompleted) == static_cast<double>(s.trace.workflows() - lost));
  }
}
