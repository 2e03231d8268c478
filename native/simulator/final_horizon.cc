#include "simulator/final_horizon.h"

namespace laxity {

Nanos FinalHorizon::of(std::uint32_t workflow) {
  const TraceColumns& c = trace_.columns();
  graph_.clear();
  const Ref w{0, 1};
  graph_.open(w, 0, 0);
  const std::uint32_t first = c.firstCall[workflow];
  for (std::uint32_t row = first; row < c.firstCall[workflow + 1]; ++row) {
    parents_.clear();
    for (std::uint32_t e = c.parentOffset[row]; e < c.parentOffset[row + 1]; ++e)
      parents_.push_back({c.parents[e], 1});
    const std::uint32_t slot = row - first;
    graph_.reveal({slot, 1}, w, parents_, false, 0);
    horizons_.reveal(graph_, cluster_, slot, costs_.of(row), costs_.gap(row));
  }
  const Nanos horizon = graph_.workflow(0).horizon;
  horizons_.close(graph_.workflow(0));
  return horizon;
}

}  // namespace laxity
