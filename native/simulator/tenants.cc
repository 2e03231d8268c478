#include "simulator/tenants.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/statistics.h"

namespace laxity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void summariseOne(const Metrics& metrics, const SloRule& slo, std::span<const std::uint32_t> workflows,
                  std::vector<double>& scratch, std::span<double> row) {
  const auto put = [&row](TenantColumn column, double value) {
    row[static_cast<std::size_t>(column)] = value;
  };
  const double n = static_cast<double>(workflows.size());
  double sum = 0;
  double completed = 0;
  double met = 0;
  scratch.clear();
  for (const std::uint32_t w : workflows) {
    const Nanos latency = metrics.latency(w);
    scratch.push_back(latency == kNever ? kInfinity : toMs(latency));
    sum += scratch.back();
    if (latency == kNever) continue;
    ++completed;
    if (latency <= slo.allowed(w)) ++met;
  }
  put(TenantColumn::kWorkflows, n);
  put(TenantColumn::kCompleted, completed);
  put(TenantColumn::kMeanMs, sum / n);
  put(TenantColumn::kP50Ms, upperQuantile(scratch, 0.5));
  put(TenantColumn::kP95Ms, upperQuantile(scratch, 0.95));
  put(TenantColumn::kP99Ms, upperQuantile(scratch, 0.99));
  put(TenantColumn::kAttainment, met / n);

  double ratios = 0;
  scratch.clear();
  for (const std::uint32_t w : workflows) {
    scratch.push_back(metrics.ratio(w));
    ratios += scratch.back();
  }
  put(TenantColumn::kSloScale95, upperQuantile(scratch, 0.95));
  put(TenantColumn::kNormalisedMean, ratios / n);
}

}  // namespace

void summariseTenants(const Metrics& metrics, const SloRule& slo, const Trace& trace,
                      std::span<double> rows) {
  const TraceColumns& c = trace.columns();
  const std::size_t tenants = rows.size() / kTenantColumns;
  // Tenants without a row stand together behind the others.
  const auto groupOf = [&](std::uint32_t w) {
    return c.tenant == nullptr ? std::size_t{0} : std::min<std::size_t>(c.tenant[w], tenants);
  };
  std::fill(rows.begin(), rows.end(), 0.0);

  // Counting sort: workflows of one tenant stand together, in ascending order.
  std::vector<std::uint32_t> end(tenants + 2, 0);
  for (std::uint32_t w = 0; w < c.workflows; ++w) ++end[groupOf(w) + 1];
  for (std::size_t t = 1; t <= tenants; ++t) end[t] += end[t - 1];
  std::vector<std::uint32_t> workflows(c.workflows);
  for (std::uint32_t w = 0; w < c.workflows; ++w) workflows[end[groupOf(w)]++] = w;
  std::vector<double> scratch;
  std::size_t from = 0;
  for (std::size_t t = 0; t < tenants; ++t) {
    const std::size_t to = end[t];
    if (to > from) {
      summariseOne(metrics, slo, {workflows.data() + from, to - from}, scratch,
                   rows.subspan(t * kTenantColumns, kTenantColumns));
    }
    from = to;
  }
}

}  // namespace laxity
