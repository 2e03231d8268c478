// The metrics of each tenant's workflows, as `metrics.h` defines them for all.
//
// Attainment of a tenant: the share of its workflows that finish by their own deadline (the tenant's SLO
// scale, or the SLO that the trace declares). Normalised latency: latency / base, its mean over the tenant's
// workflows. A workflow that did not complete has infinite latency. Costs O(workflows), and nothing where
// nobody asks.
#pragma once

#include <cstddef>
#include <span>

#include "simulator/driver.h"

namespace laxity {

/// Columns of a tenant's row, in this order.
enum class TenantColumn : std::size_t {
  kWorkflows,
  kCompleted,
  kMeanMs,
  kP50Ms,
  kP95Ms,
  kP99Ms,
  kSloScale95,
  kAttainment,
  kNormalisedMean,
  kCount,
};

inline constexpr std::size_t kTenantColumns = static_cast<std::size_t>(TenantColumn::kCount);

/// Fills rows[tenant * kTenantColumns + column] for as many tenants as there are whole rows; one without
/// workflows gets zeros. Tenants beyond the rows are left out.
void summariseTenants(const Metrics& metrics, const SloRule& slo, const Trace& trace, std::span<double> rows);

}  // namespace laxity
