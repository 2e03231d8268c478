#include "simulator/remaining_hint.h"

#include <algorithm>

#include "base/math.h"
#include "base/random.h"

namespace laxity {
namespace {

Nanos scaled(Nanos time, double logarithm) {
  return static_cast<Nanos>(
      std::min(static_cast<double>(kMaxTime), static_cast<double>(time) * detExp(logarithm)));
}

}  // namespace

RemainingHint::RemainingHint(const Trace& trace, TrueCosts costs, const RemainingOptions& options) {
  const TraceColumns& c = trace.columns();
  after_.assign(c.calls, 0);
  for (std::uint32_t workflow = 0; workflow < c.workflows; ++workflow) {
    const std::uint32_t first = c.firstCall[workflow];
    for (std::uint32_t row = c.firstCall[workflow + 1]; row-- > first;) {  // children before their parents
      const Nanos path = std::min(kMaxTime, costs.gap(row) + costs.least(row) + after_[row]);
      for (std::uint32_t e = c.parentOffset[row]; e < c.parentOffset[row + 1]; ++e) {
        Nanos& parent = after_[first + c.parents[e]];
        parent = std::max(parent, path);
      }
    }
  }
  if (options.sigma == 0) return;
  for (std::uint32_t row = 0; row < c.calls; ++row) {
    Random random(options.seed, row);
    after_[row] = scaled(after_[row], options.sigma * (random.normal() - 2));
  }
}

Nanos PredictedHorizon::of(std::uint32_t workflow) {
  Random random(options_.seed, workflow);
  return std::max<Nanos>(1, scaled(horizon_.of(workflow), options_.sigma * random.normal()));
}

}  // namespace laxity
