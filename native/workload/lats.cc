// Tree searches after LATS (workloads.md 6). An iteration walks down five levels: five sibling calls expand a
// node, one environment step follows each, one call values each distinct child; the next level, and the next
// iteration, wait for all of it.
#include "workload/agentic.h"
#include "workload/conversation.h"
#include "workload/curve.h"

namespace laxity {
namespace {

constexpr std::uint32_t kSiblings = 5;
constexpr std::uint32_t kLevels = 5;  ///< an expansion and a rollout to depth 4: 17-19 requests an iteration

// Iterations: mean 4, so that siblings counted singly give the published 160 calls; most searches end at once
// or run to their limit (the bimodal effort of the programming searches, scaled; an assumption).
constexpr double kOneIteration = 0.47;
constexpr double kFew = 0.65;  ///< below it: 2 .. 6
constexpr std::uint32_t kLimit = 8;

// HotpotQA: the root's prompt, and what a level adds.
constexpr std::uint32_t kRootPrompt = 1'563;
constexpr std::uint32_t kLevelTokens = 88;
// Expansion p50 42; the spread gives, with the valuations (p50 53, mean 59), the published mean of 72.6
// output tokens.
constexpr double kExpandMu = 3.738;
constexpr double kExpandSigma = 1.135;
constexpr double kValueMu = 3.970;
constexpr double kValueSigma = 0.46;
// A valuation's prompt beyond the node's own: the published mean of 467 new tokens per call holds
// (assumption).
constexpr std::uint32_t kValueLow = 500;
constexpr std::uint32_t kValueHigh = 714;
// An environment step: a Wikipedia search takes about 0.9 s.
constexpr double kStepLowMs = 600;
constexpr double kStepHighMs = 1'200;

std::uint32_t between(Random& random, std::uint32_t low, std::uint32_t high) {
  return low + random.below(high - low + 1);
}

std::uint32_t drawIterations(Random& random) {
  const double u = random.uniform();
  if (u < kOneIteration) return 1;
  return u < kFew ? between(random, 2, 6) : kLimit;
}

}  // namespace

void writeLats(Random& random, ContextPreset context, CallWriter& writer) {
  const bool full = context == ContextPreset::kFull;
  std::uint32_t waits[2 * kSiblings];  // what the next level waits for
  std::uint32_t waiting = 0;
  for (std::uint32_t left = drawIterations(random); left > 0; --left) {
    std::uint32_t history = 0;  // the path from the root to the node
    for (std::uint32_t level = 0; level < kLevels; ++level) {
      const std::uint32_t fresh = level == 0 ? kRootPrompt : kLevelTokens;
      const std::uint32_t prompt = history + fresh;
      std::uint32_t children[kSiblings];
      for (std::uint32_t i = 0; i < kSiblings; ++i) {
        GeneratedCall call{kAgenticExpand, fresh, 0, wholeTokens(random.lognormal(kExpandMu, kExpandSigma)),
                           0};
        if (full) {
          call.promptTokens = prompt;
          call.cachedTokens = i == 0 ? history : prompt - 1;  // siblings send the same prompt
        }
        children[i] = writer.call(call, {waits, waiting});
      }
      waiting = 0;
      const std::uint32_t distinct = 1 + random.below(kSiblings);  // duplicates are not valued again
      for (std::uint32_t i = 0; i < kSiblings; ++i) {
        if (i >= distinct) {
          waits[waiting++] = children[i];
          continue;
        }
        const std::uint32_t extra = between(random, kValueLow, kValueHigh);
        const double gapMs = kStepLowMs + (kStepHighMs - kStepLowMs) * random.uniform();
        GeneratedCall call{kAgenticValue, extra, 0, wholeTokens(random.lognormal(kValueMu, kValueSigma)),
                           gapMs};
        if (full) {
          call.promptTokens = prompt + extra;
          call.cachedTokens = prompt;
        }
        waits[waiting++] = writer.call(call, {&children[i], 1});
      }
      history = prompt;
    }
  }
}

}  // namespace laxity
