#include <algorithm>

#include "simulator/driver.h"

namespace laxity {

void SloRule::price(const Cluster& cluster, AloneTimes& alone) {
  const FirstToken first = engineOptions(options_).firstToken;
  if (options_.sloBase == SloBase::kTemplate && !spec_.templates.empty()) {
    StageTemplate stages(spec_.templates.front());
    stages.price(cluster, first);
    templateTime_ = stages.rest(0);
  }
  if (templateTime_ <= 0)
    alone_ = &alone.of(trace_, cluster, options_.sloBase, {first, 1, options_.pairs.overlap});
}

/// A declared SLO is its own base: scale 1 is the SLO. Not with horizons, whose ratios are a metric by
/// themselves.
Nanos SloRule::base(std::uint32_t workflow) const {
  if (trace_.declaresSlo(workflow) && options_.sloBase != SloBase::kHorizon) return declared(workflow);
  return templateTime_ > 0 ? templateTime_ : (*alone_)[workflow];
}

double SloRule::scale(std::uint32_t workflow) const {
  if (trace_.declaresSlo(workflow)) return 1;
  if (options_.tenantScales.empty()) return options_.sloScale;
  const std::uint16_t* tenant = trace_.columns().tenant;
  return options_.tenantScales[tenant == nullptr ? 0 : tenant[workflow]];
}

Nanos SloRule::deadline(std::uint32_t workflow, Nanos arrival) const {
  const Nanos unit = trace_.declaresSlo(workflow) ? declared(workflow) : base(workflow);
  const double scaled = scale(workflow) * static_cast<double>(unit);
  const auto limit = static_cast<double>(kMaxTime - arrival);
  return arrival + (scaled < limit ? static_cast<Nanos>(scaled + 0.5) : kMaxTime - arrival);
}

}  // namespace laxity
