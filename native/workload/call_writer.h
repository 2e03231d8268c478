// How generators write their workflows into the columns of a trace.
#pragma once

#include <cstdint>
#include <span>

namespace laxity {

struct GeneratedSizes {
  std::uint32_t calls = 0;
  std::uint32_t edges = 0;
};

struct GeneratedCall {
  std::uint16_t stage = 0;
  std::uint32_t promptTokens = 1;
  std::uint32_t cachedTokens = 0;  ///< < promptTokens: what the workflow has sent or received before
  std::uint32_t outputTokens = 1;
  double toolGapMs = 0;
};

/// Columns of `workload/trace.h` to be written; lengths from the generator's sizes. Null = not wanted, for
/// generators whose calls have none.
struct GeneratedColumns {
  std::uint32_t* firstCall = nullptr;     ///< [workflows + 1]
  std::uint16_t* stage = nullptr;         ///< [calls]
  std::uint32_t* promptTokens = nullptr;  ///< [calls]
  std::uint32_t* outputTokens = nullptr;  ///< [calls]
  std::uint32_t* parentOffset = nullptr;  ///< [calls + 1]
  std::uint32_t* parents = nullptr;       ///< [edges]
  std::uint32_t* cachedTokens = nullptr;  ///< [calls], optional
  double* toolGapMs = nullptr;            ///< [calls], optional
};

/// Appends calls with the parents given. The same code counts a workload and writes it.
class CallWriter {
 public:
  /// Only counts.
  CallWriter() = default;
  explicit CallWriter(const GeneratedColumns& columns) : columns_(columns), writes_(true) {
    columns_.firstCall[0] = 0;
    columns_.parentOffset[0] = 0;
  }

  /// Appends a call of the open workflow; its parents are local indices of earlier ones. Returns its own.
  std::uint32_t call(const GeneratedCall& call, std::span<const std::uint32_t> parents) {
    if (writes_) {
      for (std::size_t i = 0; i < parents.size(); ++i) columns_.parents[edges_ + i] = parents[i];
    }
    edges_ += parents.size();
    return append(call);
  }

  /// The same, with the parents `from` .. `to` - 1.
  std::uint32_t call(const GeneratedCall& call, std::uint32_t from, std::uint32_t to) {
    if (writes_) {
      for (std::uint32_t parent = from; parent < to; ++parent)
        columns_.parents[edges_ + parent - from] = parent;
    }
    edges_ += to - from;
    return append(call);
  }

  void endWorkflow() {
    first_ = calls_;
    ++workflows_;
    if (writes_) columns_.firstCall[workflows_] = static_cast<std::uint32_t>(calls_);
  }

  std::uint64_t calls() const { return calls_; }
  std::uint64_t edges() const { return edges_; }

 private:
  std::uint32_t append(const GeneratedCall& call) {
    if (writes_) {
      columns_.stage[calls_] = call.stage;
      columns_.promptTokens[calls_] = call.promptTokens;
      columns_.outputTokens[calls_] = call.outputTokens;
      if (columns_.cachedTokens != nullptr) columns_.cachedTokens[calls_] = call.cachedTokens;
      if (columns_.toolGapMs != nullptr) columns_.toolGapMs[calls_] = call.toolGapMs;
      columns_.parentOffset[calls_ + 1] = static_cast<std::uint32_t>(edges_);
    }
    return static_cast<std::uint32_t>(calls_++ - first_);
  }

  GeneratedColumns columns_;
  bool writes_ = false;
  std::uint64_t workflows_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t edges_ = 0;
  std::uint64_t first_ = 0;  ///< of the open workflow
};

/// Appends stages of calls; the parents of each call are all calls of the stage before.
class StageWriter {
 public:
  explicit StageWriter(const GeneratedColumns& columns) : writer_(columns) {}

  void stage() {
    previous_ = current_;
    current_ = next_;
  }

  void call(std::uint16_t stage, std::uint32_t prompt, std::uint32_t output) {
    next_ = 1 + writer_.call({stage, prompt, 0, output, 0}, previous_, current_);
  }

  void endWorkflow() {
    writer_.endWorkflow();
    previous_ = current_ = next_ = 0;
  }

 private:
  CallWriter writer_;
  // Local indices.
  std::uint32_t previous_ = 0;  ///< first call of the previous stage
  std::uint32_t current_ = 0;   ///< first call of the current stage
  std::uint32_t next_ = 0;
};

}  // namespace laxity
