// What one call costs on the classes of a prefill-decode cluster.
//
// Prefill class h: prefill_h, and the whole of the call alone when it starts there,
//   exec_h = prefill_h + min over the decode classes g that can hold it of (transfer_hg alone + decode_g at
//   batch 1),
// so that the horizon's list scheduling (horizon.h) is that of papers.md 2.3 with one entry per prefill
// class. Decode class g: decode_g. kNever where the call cannot run: another model, too little KV, too few
// sequences.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"
#include "cluster/link.h"
#include "workflow/horizon.h"
#include "workflow/template.h"

namespace laxity {

/// What the estimates depend on, of one call.
struct PairDemand {
  std::uint16_t model = 0;
  std::uint8_t adapter = 0;  ///< 0 = the model itself
  std::uint32_t prompt = 0;
  std::uint32_t output = 0;  ///< tokens that times are computed with
  std::int64_t kv = 0;       ///< tokens on d
  std::uint32_t sequences = 1;
};

/// What they depend on beside the cluster.
struct PairTerms {
  FirstToken firstToken = FirstToken::kFromPrefill;
  double overcommit = 1;  ///< share of the KV that may be reserved
  double overlap = 0;     ///< share of the KV that has moved when the prefill ends
  friend bool operator==(const PairTerms&, const PairTerms&) = default;
};

/// Fills one entry per hardware class. Returns the mean over present prefill instances, plus that over
/// present decode instances, plus the mean transfer: ebar_c of policies.md; 0 where the call can run nowhere.
Nanos pairEstimates(const Cluster& cluster, const PairDemand& demand, const PairTerms& terms,
                    Estimate* byClass, Nanos* decodeAlone);

/// The decode class of exec_h: the first with the least (transfer + decode); kNoSlot where there is none.
std::uint32_t decodeClassOf(const Cluster& cluster, std::uint32_t prefillClass, std::uint32_t prompt,
                            const PairTerms& terms, const Nanos* decodeAlone);

/// Prompt tokens whose KV still has to move when the prefill ends.
inline std::int64_t tokensToMove(std::uint32_t prompt, double overlap) {
  return prompt - static_cast<std::int64_t>(overlap * prompt);
}

}  // namespace laxity
