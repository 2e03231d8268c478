// What fits: weights and KV cache in the memory of the GPUs of one instance (reference latency-model.md,
// section 3).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "model/roofline.h"

namespace laxity {

struct MemoryOptions {
  double utilisation = 0.9;   ///< share of the memory that the engine may use
  double reserveBytes = 3e9;  ///< per GPU: activations, graphs, the runtime
};

/// Bytes of the weights, over all GPUs.
inline double weightBytes(const RooflineSpec& spec) { return spec.weightBytes() * parameters(spec.llm); }

/// Tokens that fit beside the weights, rounded down. kDoesNotFit where the weights leave no room for one
/// token
/// (*tokens = 0 then). With more GPUs than KV heads, heads are replicated and the capacity shrinks.
Status kvCapacity(const RooflineSpec& spec, const MemoryOptions& options, std::int64_t* tokens);

}  // namespace laxity
