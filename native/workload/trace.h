// A trace: workflows of calls as columns (struct of arrays). The columns are borrowed; whoever binds them
// keeps them alive.
//
// Calls of workflow w are the rows firstCall[w] .. firstCall[w + 1) - 1. A call is named inside its workflow
// by its position there (its local index), and a parent always has a smaller local index than its child, so
// every workflow is acyclic by construction. Absent optional columns are null.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace laxity {

/// Largest prompt, output or cached length of a call, in tokens.
inline constexpr std::uint32_t kMaxTokens = 100'000'000;

struct TraceColumns {
  std::uint32_t workflows = 0;
  std::uint32_t calls = 0;
  std::uint32_t edges = 0;
  const std::uint32_t* firstCall = nullptr;     ///< [workflows + 1]
  const double* arrivalMs = nullptr;            ///< [workflows], optional: recorded arrivals, non-decreasing
  const std::uint16_t* tenant = nullptr;        ///< [workflows], optional: default 0
  const double* sloMs = nullptr;                ///< [workflows], optional: NaN = none
  const std::uint16_t* stage = nullptr;         ///< [calls]
  const std::uint16_t* model = nullptr;         ///< [calls], optional: default 0
  const std::uint32_t* promptTokens = nullptr;  ///< [calls], >= 1
  const std::uint32_t* cachedTokens = nullptr;  ///< [calls], optional: < promptTokens, default 0
  const std::uint32_t* outputTokens = nullptr;  ///< [calls], >= 1
  const std::uint32_t* predictedTokens = nullptr;  ///< [calls], optional: default outputTokens
  const double* toolGapMs = nullptr;  ///< [calls], optional: time between the last parent's finish and ready
  const std::uint32_t* parentOffset = nullptr;  ///< [calls + 1], into parents
  const std::uint32_t* parents = nullptr;       ///< [edges], local indices, each < the child's
};

/// Validated columns plus what a run derives once: the children of every call.
class Trace {
 public:
  struct Problem {
    Status status = Status::kOk;
    std::uint32_t workflow = 0;
    std::uint32_t call = 0;  ///< local index
  };

  /// Checks every row once. On failure the trace stays empty and `problem()` names the first bad row.
  Status bind(const TraceColumns& columns);

  const Problem& problem() const { return problem_; }
  const TraceColumns& columns() const { return columns_; }
  /// Of these columns, as long as the process runs; 0 before the first success.
  std::uint64_t identity() const { return identity_; }
  /// Whether the workflow has an SLO of its own.
  bool declaresSlo(std::uint32_t workflow) const {
    return columns_.sloMs != nullptr && columns_.sloMs[workflow] == columns_.sloMs[workflow];  // NaN = none
  }

  /// Global rows of the children of the call at global row `row`, in ascending order.
  std::span<const std::uint32_t> children(std::uint32_t row) const {
    return {children_.data() + childOffset_[row], children_.data() + childOffset_[row + 1]};
  }

  std::uint32_t largestCall() const { return largestCall_; }          ///< max prompt + output, tokens
  std::uint32_t largestWorkflow() const { return largestWorkflow_; }  ///< max calls in one workflow
  std::uint32_t tenants() const { return tenants_; }                  ///< the largest tenant + 1

 private:
  TraceColumns columns_;
  std::uint64_t identity_ = 0;
  std::vector<std::uint32_t> childOffset_;
  std::vector<std::uint32_t> children_;
  std::uint32_t largestCall_ = 0;
  std::uint32_t largestWorkflow_ = 0;
  std::uint32_t tenants_ = 1;
  Problem problem_;
};

}  // namespace laxity
