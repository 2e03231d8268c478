#include "workflow/template.h"

namespace laxity {

std::uint32_t StageTemplate::advance(std::uint32_t cursor, std::uint16_t stage) const {
  for (std::uint32_t i = cursor; i < size(); ++i) {
    if (entries_[i].stage == stage) return i + 1;
  }
  return cursor;
}

std::uint32_t StageTemplate::entryOf(std::uint16_t stage) const {
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (entries_[i].stage == stage) return i;
  }
  return size();
}

void StageTemplate::price(const Cluster& cluster, FirstToken first) {
  const auto& classes = cluster.classes();
  classes_ = classes.size();
  times_.assign(entries_.size() * classes_, 0);
  rest_.assign(entries_.size() + 1, 0);
  for (std::size_t i = entries_.size(); i-- > 0;) {
    ClusterMean mean;
    for (std::size_t k = 0; k < classes_; ++k) {
      const LatencyModel& latency = cluster.latency(classes[k]);
      const TemplateEntry& e = entries_[i];
      const Nanos time =
          latency.prefill(e.promptTokens, 0) + decodeTime(latency, first, e.promptTokens, e.outputTokens);
      times_[i * classes_ + k] = time;
      mean.add(time, classes[k].present);
    }
    rest_[i] = rest_[i + 1] + mean.value();
  }
}

}  // namespace laxity
