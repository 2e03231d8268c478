// MAC-SQL-like text-to-SQL workflows, drawn from the published statistics of 150 workflows (Qwen3-30B on
// Spider, workloads.md 3). No recorded row is used.
//
// A chain, one call a stage: [Selector], Decomposer, Refiner x 0..4.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "workload/call_writer.h"

namespace laxity {

/// Stage ids of generated traces.
enum MacSqlStage : std::uint16_t {
  kMacSqlSelector = 0,
  kMacSqlDecomposer = 1,
  kMacSqlRefiner = 2,
};

inline constexpr std::uint32_t kMaxMacSqlWorkflows = 500'000'000;  ///< calls then fit 32 bits

/// Workflow i depends on (seed, i) alone: a longer trace begins with the shorter one.
struct MacSqlSpec {
  std::uint32_t workflows = 0;
  std::uint64_t seed = 0;
};

/// kBadValue for no workflows or more than kMaxMacSqlWorkflows.
Status macSqlCheck(const MacSqlSpec& spec);

/// `spec` must pass `macSqlCheck`.
GeneratedSizes macSqlSizes(const MacSqlSpec& spec);

/// Writes exactly `macSqlSizes(spec)`. `spec` must pass `macSqlCheck`.
void macSqlFill(const MacSqlSpec& spec, const GeneratedColumns& columns);

}  // namespace laxity
