// The context of a thread of calls: what each next call sends beyond what was sent or received before.
#pragma once

#include <cstdint>

#include "workload/agentic.h"

namespace laxity {

class Conversation {
 public:
  explicit Conversation(ContextPreset context, std::uint32_t history = 0)
      : context_(context), history_(history) {}

  std::uint32_t history() const { return history_; }

  /// The next call of the thread: `fresh` >= 1 tokens are appended, `output` come back.
  GeneratedCall next(std::uint16_t stage, std::uint32_t fresh, std::uint32_t output, double toolGapMs) {
    GeneratedCall call{stage, fresh, 0, output, toolGapMs};
    if (context_ == ContextPreset::kFull) {
      call.promptTokens += history_;
      call.cachedTokens = history_;
    }
    history_ += fresh + output;
    return call;
  }

 private:
  ContextPreset context_;
  std::uint32_t history_;
};

}  // namespace laxity
