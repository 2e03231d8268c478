#include <algorithm>

#include "simulator/driver.h"

namespace laxity {

void SloRule::price(const Cluster& cluster) {
  cluster_ = &cluster;
  if (options_.sloBase != SloBase::kTemplate || spec_.templates.empty()) return;
  StageTemplate stages(spec_.templates.front());
  stages.price(cluster, engineOptions(options_).firstToken);
  templateTime_ = stages.rest(0);
}

bool SloRule::declared(std::uint32_t workflow) const {
  const double* slo = trace_.columns().sloMs;
  return slo != nullptr && slo[workflow] == slo[workflow];  // NaN = none
}

/// A declared SLO is its own base: scale 1 is the SLO.
Nanos SloRule::base(std::uint32_t workflow) const {
  if (declared(workflow)) return fromMs(trace_.columns().sloMs[workflow]);
  return templateTime_ > 0 ? templateTime_ : exclusive(workflow);
}

double SloRule::scale(std::uint32_t workflow) const {
  if (declared(workflow)) return 1;
  if (options_.tenantScales.empty()) return options_.sloScale;
  const std::uint16_t* tenant = trace_.columns().tenant;
  return options_.tenantScales[tenant == nullptr ? 0 : tenant[workflow]];
}

Nanos SloRule::deadline(std::uint32_t workflow, Nanos arrival) const {
  const double scaled = scale(workflow) * static_cast<double>(base(workflow));
  const auto limit = static_cast<double>(kMaxTime - arrival);
  return arrival + (scaled < limit ? static_cast<Nanos>(scaled + 0.5) : kMaxTime - arrival);
}

/// Longest path of mean times and tool gaps, true lengths. Parents come before their children.
Nanos SloRule::exclusive(std::uint32_t workflow) const {
  const TraceColumns& c = trace_.columns();
  const std::uint32_t begin = c.firstCall[workflow];
  const std::uint32_t end = c.firstCall[workflow + 1];
  std::vector<Nanos> finish(end - begin, 0);
  Nanos longest = 0;
  for (std::uint32_t row = begin; row < end; ++row) {
    Nanos start = 0;
    for (std::uint32_t e = c.parentOffset[row]; e < c.parentOffset[row + 1]; ++e) {
      start = std::max(start, finish[c.parents[e]]);
    }
    if (c.toolGapMs != nullptr) start += fromMs(c.toolGapMs[row]);
    ClusterMean mean;
    for (const HardwareClass& k : cluster_->classes()) {
      if (k.spec.model != (c.model == nullptr ? 0 : c.model[row])) continue;
      const LatencyModel& latency = cluster_->latency(k);
      const FirstToken first = engineOptions(options_).firstToken;
      mean.add(latency.prefill(c.promptTokens[row], 0) +
                   decodeTime(latency, first, c.promptTokens[row], c.outputTokens[row]),
               k.present);
    }
    finish[row - begin] = std::min(kMaxTime, start + mean.value());
    longest = std::max(longest, finish[row - begin]);
  }
  return longest;
}

}  // namespace laxity
