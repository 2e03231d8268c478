// The numeric policy parameters: one table gives each its name, default and range, for configuration, logs
// and tuning.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace laxity {

struct ParameterInfo {
  std::string_view name;
  double byDefault;
  double low;
  double high;
};

/// Ids are positions in kParameters; logs store them, so append only.
enum class Parameter : std::uint16_t {
  kAlpha,              ///< HexGen-Flow's dispatch weight (papers.md 1.2, eq. 3)
  kBeta,               ///< s^2; 0 = (mean stage time of the template, else of the calls revealed so far)^2
  kQueueGuardMs,       ///< eps of the paper's score: added to t_queue
  kGamma,              ///< eftxp: weight of the delay inflicted on others (policies 4.10)
  kKvWeight,           ///< eftxp: weight of a KV excess (policies 4.11)
  kUtilisationMs,      ///< eftxp: horizon of the utilisation average (policies 4.9)
  kHorizonFactor,      ///< k of D = arrival + k * H where no deadline is given (CONTRACT 9)
  kHorizonQuantile,    ///< q of learnt lower estimates of the final horizon (horizon_learner.h)
  kSlowFactor,         ///< workload-balanced-reference: factor on the queue of slow classes (papers.md 1.3)
  kOvercommit,         ///< share of an instance's KV that may be reserved (CONTRACT 5)
  kAgeingMs,           ///< calls that waited longer go first (order/ageing.h); 0 = off
  kBudgetMargin,       ///< share of the time from arrival to deadline that budgets leave unused
                       ///< (workflow/budget.h)
  kOutputHigh,         ///< which predicted output times are computed with: 0 = mean, 1 = high, linear between
  kInputWeight,        ///< vtc: w_in, the charge for a prompt token
  kOutputWeight,       ///< vtc: w_out, the charge for an output token
  kBucketMs,           ///< qlm: width of a deadline bucket (order/qlm.h)
  kMigrateMs,          ///< migration: a projected gain must exceed it (policies 4.12)
  kMigrateCandidates,  ///< migration: calls considered of each queue, the most urgent
  kQueueLimit,         ///< ready calls without a lease, in all; 0 = no limit
  kTenantQueueLimit,   ///< the same per tenant
  kQueueTimeoutMs,     ///< longest wait of a ready call for a lease; 0 = none
  kHopeless,           ///< calls that miss their deadline even on an idle instance: 0 run, 1 demote, 2 reject
  kLeaseTtlMs,         ///< a lease without a sign of life for so long is lost; 0 = never
  kBreakerFaults,      ///< faults in the window that open an instance's breaker; 0 = no breakers
  kBreakerWindowMs,
  kBreakerOpenMs,      ///< from open to half-open
  kBreakerSuccesses,   ///< successes that close a half-open breaker
  kPanicShare,         ///< fewer instances than this share accept calls: open breakers are passed over
  kFaultPenaltyMs,     ///< a fault counts as at least so much outstanding work, for so long; 0 = no penalty
  kBackpressureMs,     ///< pause after a refusal that names no time; 0 = none
  kRetryBudget,        ///< retries per finished call; 0 = no bound but that of each call
  kTelemetryMs,        ///< a sample is stale after so long; 0 = samples are ignored
  kPredictLengths,     ///< 1 = learn output lengths per (template, stage)
  kKeepHorizons,       ///< 1 = keep every horizon, so that the order can be switched while running
  kEnginePriority,     ///< 1 = leases carry a priority for engines that sort by one
  kServiceLevels,      ///< plas, atlas: number of levels (order/attained_service.h)
  kServiceLevelMs,     ///< plas, atlas: attained service at which the second level begins
  kServiceLevelRatio,  ///< plas, atlas: by which the levels after it grow
  kStarvationRatio,    ///< plas, atlas: a call whose wait / service reaches it goes to the first level
  kKvParkMs,           ///< longest wait of KV on p for room on d, from the first token; 0 = no bound
  kTenantSlack,        ///< fair shares: weighted tokens that a tenant may be ahead of another; 0 = off
  kStructuralMinimum,  ///< 1 = ratio: final horizons are at least what those of the kind were
                       ///< (horizon_learner.h)
  kPredictHorizons,    ///< 1 = ratio: and what its own predictor, calibrated, says (horizon_learner.h)
  kRetryBackoffMs,     ///< before retry n a random part of so much x 2^(n - 1) passes; 0 = none
  kKvPrice,        ///< kv-price: the price of KV per unit of its scarcity (scheduler/kv_pressure.h); 0 = none
  kKvPriceMs,      ///< kv-price: memory of that scarcity
  kSacrifice,      ///< ratio and level-ratio, in plans: share of workflows that may be put behind the others
                   ///< (scheduler/sacrifice.h)
  kSacrificeSoft,  ///< factor on the ratio of their calls
  kCount,
};

inline constexpr std::array<ParameterInfo, static_cast<std::size_t>(Parameter::kCount)> kParameters{{
    {"alpha", 0.3, 0, 1},
    {"beta", 0, 0, 1e12},
    {"queueGuardMs", 1, 1e-6, 1e9},
    {"gamma", 0.5, 0, 1e6},
    {"kvWeight", 3, 0, 1e6},
    {"utilisationMs", 60'000, 1e-3, 1e12},
    {"horizonFactor", 2, 0, 1e6},
    {"horizonQuantile", 0.02, 0, 0.5},
    {"slowFactor", 0.5, 0, 1e6},
    {"overcommit", 1, 0.01, 100},
    {"ageingMs", 0, 0, 1e12},
    {"budgetMargin", 0, 0, 0.99},
    {"outputHigh", 0, 0, 1},
    {"inputWeight", 1, 0, 1000},
    {"outputWeight", 2, 0, 1000},
    {"bucketMs", 10'000, 1e-3, 1e12},
    {"migrateMs", 500, 0, 1e9},
    {"migrateCandidates", 8, 1, 65'535},
    {"queueLimit", 0, 0, 1e9},
    {"tenantQueueLimit", 0, 0, 1e9},
    {"queueTimeoutMs", 0, 0, 1e12},
    {"hopeless", 0, 0, 2},
    {"leaseTtlMs", 0, 0, 1e12},
    {"breakerFaults", 0, 0, 16},
    {"breakerWindowMs", 60'000, 1, 1e12},
    {"breakerOpenMs", 30'000, 1, 1e12},
    {"breakerSuccesses", 2, 1, 1000},
    {"panicShare", 0, 0, 1},
    {"faultPenaltyMs", 0, 0, 1e9},
    {"backpressureMs", 0, 0, 1e9},
    {"retryBudget", 0, 0, 1000},
    {"telemetryMs", 0, 0, 1e9},
    {"predictLengths", 0, 0, 1},
    {"keepHorizons", 0, 0, 1},
    {"enginePriority", 0, 0, 1},
    {"serviceLevels", 8, 1, 64},
    {"serviceLevelMs", 1'000, 1e-3, 1e12},
    {"serviceLevelRatio", 2, 1, 1e6},
    {"starvationRatio", 10, 0, 1e12},
    {"kvParkMs", 0, 0, 1e12},
    {"tenantSlack", 0, 0, 1e12},
    {"structuralMinimum", 0, 0, 1},
    {"predictHorizons", 0, 0, 1},
    {"retryBackoffMs", 0, 0, 1e6},
    {"kvPrice", 10, 0, 1e6},
    {"kvPriceMs", 10'000, 1e-3, 1e12},
    {"sacrifice", 0, 0, 0.1},
    {"sacrificeSoft", 0.001, 1e-9, 1},
}};

class PolicyParameters {
 public:
  PolicyParameters() {
    for (std::size_t i = 0; i < kParameters.size(); ++i) values_[i] = kParameters[i].byDefault;
  }
  double operator[](Parameter p) const { return values_[static_cast<std::size_t>(p)]; }

  /// False where the id is unknown or the value is outside its range (or NaN).
  bool set(std::uint16_t id, double value) {
    if (id >= kParameters.size() || !(value >= kParameters[id].low && value <= kParameters[id].high))
      return false;
    values_[id] = value;
    return true;
  }

  static int find(std::string_view name) {
    for (std::size_t i = 0; i < kParameters.size(); ++i) {
      if (kParameters[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

 private:
  std::array<double, kParameters.size()> values_{};
};

}  // namespace laxity
