#include "simulator/metrics.h"

#include <limits>

#include "base/statistics.h"

namespace laxity {

double Metrics::ratio(std::uint32_t workflow) const {
  const Nanos latency = latency_[workflow];
  const Nanos base = base_[workflow];
  if (latency == kNever || base <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(latency) / static_cast<double>(base);
}

void Metrics::summarise(const RunOutputs& outputs, RunResult* result) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::size_t n = latency_.size();
  std::vector<double> scratch(n);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    scratch[i] = latency_[i] == kNever ? kInfinity : toMs(latency_[i]);
    sum += scratch[i];
    if (outputs.latencyMs != nullptr) outputs.latencyMs[i] = scratch[i];
    if (outputs.baseMs != nullptr) outputs.baseMs[i] = toMs(base_[i]);
  }
  result->completed = completed_;
  result->makespan = completed_ > 0 ? last_ - first_ : 0;
  result->meanMs = n > 0 ? sum / static_cast<double>(n) : 0;
  result->p50Ms = upperQuantile(scratch, 0.5);
  result->p95Ms = upperQuantile(scratch, 0.95);
  result->p99Ms = upperQuantile(scratch, 0.99);
  result->throughputPerS = result->makespan > 0 ? completed_ / toSeconds(result->makespan) : 0;

  for (std::size_t i = 0; i < n; ++i) scratch[i] = ratio(static_cast<std::uint32_t>(i));
  for (std::size_t s = 0; s < outputs.scales.size(); ++s) {
    std::size_t met = 0;
    for (const double ratio : scratch) met += ratio <= outputs.scales[s] ? 1 : 0;
    outputs.attainment[s] = n > 0 ? static_cast<double>(met) / static_cast<double>(n) : 0;
  }
  result->sloScale95 = upperQuantile(scratch, 0.95);
  result->sloScale99 = upperQuantile(scratch, 0.99);
}

}  // namespace laxity
