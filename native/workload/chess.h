// CHESS-like text-to-SQL workflows, drawn from the published statistics of HexGen-Flow's traces 1, 2 and 3
// (workloads.md 2). No recorded row is used.
//
// Stages, always in this order; a stage starts when all calls of the previous one have finished:
//   IR, [K], IR, IR, IR, C x 2, R x r (one after the other), T, [U], T, [E x e], T
#pragma once

#include <cstdint>

#include "base/status.h"
#include "workload/call_writer.h"

namespace laxity {

/// Stage ids of generated traces.
enum ChessStage : std::uint16_t {
  kChessIr = 0,                // information retriever
  kChessKeywords = 1,          // extract keywords (K)
  kChessCandidate = 2,         // generate candidate (C)
  kChessRevise = 3,            // revise (R)
  kChessUnitTester = 4,        // unit tester (T)
  kChessGenerateUnitTest = 5,  // generate unit test (U)
  kChessEvaluate = 6,          // evaluate (E)
};

inline constexpr std::uint32_t kMaxChessWorkflows = 50'000'000;  ///< calls and edges then fit 32 bits

/// Workflow i depends on (preset, seed, i) alone: a longer trace begins with the shorter one.
struct ChessSpec {
  std::uint32_t workflows = 0;
  int preset = 1;  ///< 1, 2 or 3: whose statistics to follow
  std::uint64_t seed = 0;
};

/// kBadValue for a preset other than 1, 2, 3, or for no workflows or more than kMaxChessWorkflows.
Status chessCheck(const ChessSpec& spec);

/// `spec` must pass `chessCheck`.
GeneratedSizes chessSizes(const ChessSpec& spec);

/// Writes exactly `chessSizes(spec)`. `spec` must pass `chessCheck`.
void chessFill(const ChessSpec& spec, const GeneratedColumns& columns);

}  // namespace laxity
