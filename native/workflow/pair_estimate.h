// What a call costs on the hardware classes of a prefill-decode cluster, alone.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"
#include "workflow/horizon.h"
#include "workflow/template.h"

namespace laxity {

/// Prefill class h: prefill there, and exec = prefill + the least of (transfer alone + decode of `output` tokens
/// at batch 1) over the decode classes that can hold `kv` tokens and `sequences`. Decode class g: its decode time
/// alone. kNever where the class cannot serve the call.
void pairEstimates(const Cluster& cluster, std::uint16_t model, std::uint32_t prompt, std::uint32_t output,
                   std::int64_t kv, std::uint32_t sequences, FirstToken first, Estimate* byClass,
                   Nanos* decodeAlone);

}  // namespace laxity
