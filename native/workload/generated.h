// What the generators of workloads share: the columns that they fill and how a workflow of stages is written.
#pragma once

#include <cstdint>

namespace laxity {

struct GeneratedSizes {
  std::uint32_t calls = 0;
  std::uint32_t edges = 0;
};

/// Columns of `workload/trace.h` to be written, all required. Lengths from the generator's sizes.
struct GeneratedColumns {
  std::uint32_t* firstCall = nullptr;     ///< [workflows + 1]
  std::uint16_t* stage = nullptr;         ///< [calls]
  std::uint32_t* promptTokens = nullptr;  ///< [calls]
  std::uint32_t* outputTokens = nullptr;  ///< [calls]
  std::uint32_t* parentOffset = nullptr;  ///< [calls + 1]
  std::uint32_t* parents = nullptr;       ///< [edges]
};

/// Appends calls; the parents of each are all calls of the stage before.
class StageWriter {
 public:
  explicit StageWriter(const GeneratedColumns& columns) : columns_(columns) {
    columns_.firstCall[0] = 0;
    columns_.parentOffset[0] = 0;
  }

  void stage() {
    previous_ = current_;
    current_ = row_;
  }

  void call(std::uint16_t stage, std::uint32_t prompt, std::uint32_t output) {
    columns_.stage[row_] = stage;
    columns_.promptTokens[row_] = prompt;
    columns_.outputTokens[row_] = output;
    for (std::uint32_t parent = previous_; parent < current_; ++parent) {
      columns_.parents[edge_++] = parent - first_;
    }
    columns_.parentOffset[++row_] = edge_;
  }

  void endWorkflow() {
    columns_.firstCall[++workflow_] = row_;
    first_ = previous_ = current_ = row_;
  }

 private:
  GeneratedColumns columns_;
  std::uint32_t workflow_ = 0;
  std::uint32_t row_ = 0;
  std::uint32_t edge_ = 0;
  std::uint32_t first_ = 0;     // row of the workflow's first call
  std::uint32_t previous_ = 0;  // first row of the previous stage
  std::uint32_t current_ = 0;   // first row of the current stage
};

}  // namespace laxity
