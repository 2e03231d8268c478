#include "simulator/alone_times.h"

#include <algorithm>

#include "simulator/final_horizon.h"

namespace laxity {
namespace {

/// Longest path of mean times and tool gaps.
class ExclusiveTime {
 public:
  ExclusiveTime(const Trace& trace, const Cluster& cluster, const PairTerms& terms)
      : c_(trace.columns()), cluster_(cluster), terms_(terms) {
    const auto& classes = cluster.classes();
    paired_ = !classes.empty() && classes.front().spec.role != Role::kUnified;
    estimates_.resize(classes.size());
    decodeAlone_.resize(classes.size());
  }

  /// Parents come before their children.
  Nanos of(std::uint32_t workflow) {
    const std::uint32_t begin = c_.firstCall[workflow];
    const std::uint32_t end = c_.firstCall[workflow + 1];
    finish_.clear();
    Nanos longest = 0;
    for (std::uint32_t row = begin; row < end; ++row) {
      Nanos start = 0;
      for (std::uint32_t e = c_.parentOffset[row]; e < c_.parentOffset[row + 1]; ++e) {
        start = std::max(start, finish_[c_.parents[e]]);
      }
      if (c_.toolGapMs != nullptr) start += fromMs(c_.toolGapMs[row]);
      finish_.push_back(std::min(kMaxTime, start + meanTime(row)));
      longest = std::max(longest, finish_.back());
    }
    return longest;
  }

 private:
  /// Mean time alone over the instances; prefill-decode: of its parts, over the instances of each role.
  Nanos meanTime(std::uint32_t row) {
    const std::uint16_t model = c_.model == nullptr ? 0 : c_.model[row];
    const std::uint32_t prompt = c_.promptTokens[row];
    const std::uint32_t output = c_.outputTokens[row];
    if (paired_) {
      const PairDemand demand{model, 0, prompt, output, std::int64_t{prompt} + output, 1};
      return pairEstimates(cluster_, demand, terms_, estimates_.data(), decodeAlone_.data());
    }
    ClusterMean mean;
    for (const HardwareClass& k : cluster_.classes()) {
      if (k.spec.model != model) continue;
      const LatencyModel& latency = cluster_.latency(k);
      mean.add(latency.prefill(prompt, 0) + decodeTime(latency, terms_.firstToken, prompt, output),
               k.present);
    }
    return mean.value();
  }

  const TraceColumns& c_;
  const Cluster& cluster_;
  PairTerms terms_;
  bool paired_ = false;
  std::vector<Nanos> finish_;
  std::vector<Estimate> estimates_;
  std::vector<Nanos> decodeAlone_;
};

}  // namespace

const std::vector<Nanos>& AloneTimes::of(const Trace& trace, const Cluster& cluster, SloBase base,
                                         const PairTerms& terms) {
  Origin origin{trace.identity(), base, terms, {}, cluster.byTie()};
  for (const HardwareClass& k : cluster.classes())
    origin.classes.push_back({k.spec, k.present, cluster.latency(k)});
  if (origin == origin_) return times_;
  origin_ = std::move(origin);
  times_.clear();
  const std::uint32_t workflows = trace.columns().workflows;
  if (base == SloBase::kHorizon) {
    FinalHorizon horizon(trace, cluster, terms);
    for (std::uint32_t w = 0; w < workflows; ++w) times_.push_back(horizon.of(w));
  } else {
    ExclusiveTime exclusive(trace, cluster, terms);
    for (std::uint32_t w = 0; w < workflows; ++w)
      times_.push_back(trace.declaresSlo(w) ? 0 : exclusive.of(w));
  }
  return times_;
}

}  // namespace laxity
