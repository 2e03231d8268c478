#include "workflow/pair_estimate.h"

#include <algorithm>

#include "cluster/link.h"

namespace laxity {

void pairEstimates(const Cluster& cluster, std::uint16_t model, std::uint32_t prompt, std::uint32_t output,
                   std::int64_t kv, std::uint32_t sequences, FirstToken first, Estimate* byClass,
                   Nanos* decodeAlone) {
  const auto& classes = cluster.classes();
  for (std::size_t g = 0; g < classes.size(); ++g) {
    const InstanceSpec& spec = classes[g].spec;
    const bool serves = spec.role == Role::kDecode && spec.model == model && classes[g].present > 0 &&
                        kv <= spec.kvTokens && sequences <= spec.maxSequences;
    decodeAlone[g] = serves ? decodeTime(cluster.latency(classes[g]), first, prompt, output) : kNever;
  }
  for (std::size_t h = 0; h < classes.size(); ++h) {
    const InstanceSpec& spec = classes[h].spec;
    byClass[h] = {0, kNever};
    if (spec.role != Role::kPrefill || spec.model != model || classes[h].present == 0 ||
        prompt > spec.kvTokens || sequences > spec.maxSequences) {
      continue;
    }
    Nanos rest = kNever;
    for (std::size_t g = 0; g < classes.size(); ++g) {
      if (decodeAlone[g] == kNever) continue;
      rest = std::min(rest, transferTime(spec, classes[g].spec, prompt) + decodeAlone[g]);
    }
    if (rest == kNever) continue;
    byClass[h].prefill = cluster.latency(classes[h]).prefill(prompt, 0);
    byClass[h].exec = byClass[h].prefill + rest;
  }
}

}  // namespace laxity
