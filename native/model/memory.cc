#include "model/memory.h"

#include <algorithm>

namespace laxity {

Status kvCapacity(const RooflineSpec& spec, const MemoryOptions& options, std::int64_t* tokens) {
  *tokens = 0;
  if (!(options.utilisation > 0 && options.utilisation <= 1) ||
      !(options.reserveBytes >= 0 && options.reserveBytes <= spec.gpu.memory)) {
    return Status::kBadValue;
  }
  const double t = spec.tensorParallel;
  const double free =
      (options.utilisation * spec.gpu.memory - weightBytes(spec) / t - options.reserveBytes) * t;
  const double perToken = kvBytesPerToken(spec.llm, spec.kvBytes());
  const double capacity = free / perToken * std::min(1.0, spec.llm.kvHeads / t);
  if (!(capacity >= 1)) return Status::kDoesNotFit;
  *tokens = static_cast<std::int64_t>(capacity);
  return Status::kOk;
}

}  // namespace laxity
