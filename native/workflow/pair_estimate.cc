#include "workflow/pair_estimate.h"

#include <algorithm>

namespace laxity {
namespace {

std::int64_t kvRoom(const InstanceSpec& spec, double overcommit) {
  return std::min(spec.kvTokens, static_cast<std::int64_t>(static_cast<double>(spec.kvTokens) * overcommit));
}

bool serves(const InstanceSpec& spec, const PairDemand& demand) {
  return spec.model == demand.model &&
         (demand.adapter == 0 || (spec.adapters >> (demand.adapter - 1) & 1) != 0);
}

}  // namespace

std::uint32_t decodeClassOf(const Cluster& cluster, std::uint32_t prefillClass, std::uint32_t prompt,
                            const PairTerms& terms, const Nanos* decodeAlone) {
  const auto& classes = cluster.classes();
  const std::int64_t moved = tokensToMove(prompt, terms.overlap);
  std::uint32_t best = kNoSlot;
  Nanos least = kNever;
  for (std::uint32_t g = 0; g < classes.size(); ++g) {
    if (classes[g].spec.role != Role::kDecode || classes[g].present == 0 || decodeAlone[g] == kNever)
      continue;
    const Nanos time = transferTime(classes[prefillClass].spec, classes[g].spec, moved) + decodeAlone[g];
    if (time < least) {
      least = time;
      best = g;
    }
  }
  return best;
}

Nanos pairEstimates(const Cluster& cluster, const PairDemand& demand, const PairTerms& terms,
                    Estimate* byClass, Nanos* decodeAlone) {
  const auto& classes = cluster.classes();
  const std::int64_t moved = tokensToMove(demand.prompt, terms.overlap);
  ClusterMean prefillMean;
  ClusterMean decodeMean;
  ClusterMean transferMean;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    byClass[k] = {0, kNever};
    decodeAlone[k] = kNever;
    const InstanceSpec& spec = classes[k].spec;
    if (spec.role != Role::kDecode || !serves(spec, demand)) continue;
    if (demand.kv > kvRoom(spec, terms.overcommit) || demand.sequences > spec.maxSequences) continue;
    decodeAlone[k] = std::min(kMaxEstimate, decodeTime(cluster.latency(classes[k]), terms.firstToken,
                                                       demand.prompt, demand.output));
    decodeMean.add(decodeAlone[k], classes[k].present);
  }
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const InstanceSpec& spec = classes[k].spec;
    if (spec.role != Role::kPrefill || !serves(spec, demand)) continue;
    if (demand.prompt > kvRoom(spec, terms.overcommit)) continue;
    const std::uint32_t g = decodeClassOf(cluster, k, demand.prompt, terms, decodeAlone);
    if (g == kNoSlot) continue;
    byClass[k].prefill = std::min(kMaxEstimate, cluster.latency(classes[k]).prefill(demand.prompt, 0));
    byClass[k].exec = std::min(
        kMaxEstimate, byClass[k].prefill + transferTime(spec, classes[g].spec, moved) + decodeAlone[g]);
    prefillMean.add(byClass[k].prefill, classes[k].present);
    for (std::size_t other = 0; other < classes.size(); ++other) {
      if (decodeAlone[other] == kNever) continue;
      transferMean.add(transferTime(spec, classes[other].spec, moved),
                       classes[k].present * classes[other].present);
    }
  }
  if (prefillMean.value() == 0) return 0;
  return std::min(kMaxEstimate, prefillMean.value() + decodeMean.value() + transferMean.value());
}

}  // namespace laxity
