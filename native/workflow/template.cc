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
    ClusterMean mean;        // over the instances that prefill; unified ones decode as well
    ClusterMean decodeMean;  // over those that only decode
    for (std::size_t k = 0; k < classes_; ++k) {
      const LatencyModel& latency = cluster.latency(classes[k]);
      const TemplateEntry& e = entries_[i];
      const Role role = classes[k].spec.role;
      Nanos time = role == Role::kDecode ? 0 : latency.prefill(e.promptTokens, 0);
      if (role != Role::kPrefill) time += decodeTime(latency, first, e.promptTokens, e.outputTokens);
      times_[i * classes_ + k] = time;
      (role == Role::kDecode ? decodeMean : mean).add(time, classes[k].present);
    }
    rest_[i] = rest_[i + 1] + mean.value() + decodeMean.value();
  }
}

}  // namespace laxity
