// How a generator of dependent calls writes its workflows: the same code counts them and fills the columns.
#pragma once

#include <cstdint>
#include <span>

namespace laxity {

struct GeneratedCall {
  std::uint16_t stage = 0;
  std::uint32_t promptTokens = 1;
  std::uint32_t cachedTokens = 0;  ///< < promptTokens: what the workflow has sent or received before
  std::uint32_t outputTokens = 1;
  double toolGapMs = 0;
};

/// Columns of `workload/trace.h` to be written, all required.
struct CallColumns {
  std::uint32_t* firstCall = nullptr;     ///< [workflows + 1]
  std::uint16_t* stage = nullptr;         ///< [calls]
  std::uint32_t* promptTokens = nullptr;  ///< [calls]
  std::uint32_t* cachedTokens = nullptr;  ///< [calls]
  std::uint32_t* outputTokens = nullptr;  ///< [calls]
  double* toolGapMs = nullptr;            ///< [calls]
  std::uint32_t* parentOffset = nullptr;  ///< [calls + 1]
  std::uint32_t* parents = nullptr;       ///< [edges]
};

class CallWriter {
 public:
  /// Only counts.
  CallWriter() = default;
  explicit CallWriter(const CallColumns& columns) : columns_(columns), writes_(true) {
    columns_.firstCall[0] = 0;
    columns_.parentOffset[0] = 0;
  }

  /// Appends a call of the open workflow; its parents are local indices of earlier ones. Returns its own.
  std::uint32_t call(const GeneratedCall& call, std::span<const std::uint32_t> parents) {
    if (writes_) {
      columns_.stage[calls_] = call.stage;
      columns_.promptTokens[calls_] = call.promptTokens;
      columns_.cachedTokens[calls_] = call.cachedTokens;
      columns_.outputTokens[calls_] = call.outputTokens;
      columns_.toolGapMs[calls_] = call.toolGapMs;
      for (std::size_t i = 0; i < parents.size(); ++i) columns_.parents[edges_ + i] = parents[i];
      columns_.parentOffset[calls_ + 1] = static_cast<std::uint32_t>(edges_ + parents.size());
    }
    edges_ += parents.size();
    return static_cast<std::uint32_t>(calls_++ - first_);
  }

  void endWorkflow() {
    first_ = calls_;
    ++workflows_;
    if (writes_) columns_.firstCall[workflows_] = static_cast<std::uint32_t>(calls_);
  }

  std::uint64_t calls() const { return calls_; }
  std::uint64_t edges() const { return edges_; }

 private:
  CallColumns columns_;
  bool writes_ = false;
  std::uint64_t workflows_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t edges_ = 0;
  std::uint64_t first_ = 0;  ///< of the open workflow
};

}  // namespace laxity
