#include <algorithm>

#include "simulator/driver.h"
#include "simulator/final_horizon.h"
#include "workflow/pair_estimate.h"

namespace laxity {

void SloRule::price(const Cluster& cluster) {
  cluster_ = &cluster;
  horizons_.clear();
  if (options_.sloBase == SloBase::kHorizon) {
    FinalHorizon horizon(trace_, cluster, {engineOptions(options_).firstToken, 1, options_.pairs.overlap});
    for (std::uint32_t w = 0; w < trace_.columns().workflows; ++w) horizons_.push_back(horizon.of(w));
  }
  if (options_.sloBase != SloBase::kTemplate || spec_.templates.empty()) return;
  StageTemplate stages(spec_.templates.front());
  stages.price(cluster, engineOptions(options_).firstToken);
  templateTime_ = stages.rest(0);
}

bool SloRule::declared(std::uint32_t workflow) const {
  const double* slo = trace_.columns().sloMs;
  return slo != nullptr && slo[workflow] == slo[workflow];  // NaN = none
}

/// A declared SLO is its own base: scale 1 is the SLO. Not with horizons, whose ratios are a metric by themselves.
Nanos SloRule::base(std::uint32_t workflow) const {
  if (!horizons_.empty()) return horizons_[workflow];
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
  const Nanos unit = declared(workflow) ? fromMs(trace_.columns().sloMs[workflow]) : base(workflow);
  const double scaled = scale(workflow) * static_cast<double>(unit);
  const auto limit = static_cast<double>(kMaxTime - arrival);
  return arrival + (scaled < limit ? static_cast<Nanos>(scaled + 0.5) : kMaxTime - arrival);
}

/// Mean time alone over the instances; prefill-decode: of its parts, over the instances of each role.
Nanos SloRule::meanTime(std::uint32_t row) const {
  const TraceColumns& c = trace_.columns();
  const std::uint16_t model = c.model == nullptr ? 0 : c.model[row];
  const FirstToken first = engineOptions(options_).firstToken;
  const auto& classes = cluster_->classes();
  if (!classes.empty() && classes.front().spec.role != Role::kUnified) {
    std::vector<Estimate> estimates(classes.size());
    std::vector<Nanos> decodeAlone(classes.size());
    const std::int64_t kv = std::int64_t{c.promptTokens[row]} + c.outputTokens[row];
    return pairEstimates(*cluster_, {model, 0, c.promptTokens[row], c.outputTokens[row], kv, 1},
                         {first, 1, options_.pairs.overlap}, estimates.data(), decodeAlone.data());
  }
  ClusterMean mean;
  for (const HardwareClass& k : classes) {
    if (k.spec.model != model) continue;
    const LatencyModel& latency = cluster_->latency(k);
    mean.add(latency.prefill(c.promptTokens[row], 0) +
                 decodeTime(latency, first, c.promptTokens[row], c.outputTokens[row]),
             k.present);
  }
  return mean.value();
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
    finish[row - begin] = std::min(kMaxTime, start + meanTime(row));
    longest = std::max(longest, finish[row - begin]);
  }
  return longest;
}

}  // namespace laxity
