// Coding sessions after the WEKA traces of Claude Code (workloads.md 8): a long chain whose context grows,
// tools and people between the calls, now and then a fork into sub-agents that are joined again.
#include <algorithm>

#include "workload/agentic.h"
#include "workload/conversation.h"
#include "workload/curve.h"

namespace laxity {
namespace {

// Calls of a run: p50 43, p95 230, p99 330, max 561, mean 68; the lower part is an assumption.
constexpr Curve kCalls =
    Curve{}.then(0, 2).then(0.25, 16).then(0.5, 43).then(0.75, 72).then(0.95, 230).then(0.99, 330).then(1,
                                                                                                        561);

constexpr double kFirstMu = 10.144;            ///< p50 25,439
constexpr double kFirstSigma = 0.4;            ///< assumption
constexpr std::uint32_t kFirstLeast = 14'400;  ///< tool schemas and system text
constexpr double kNewMu = 6.86;
constexpr double kNewSigma = 1.30;
constexpr double kOutputMu = 5.59;
constexpr double kOutputSigma = 0.88;
/// Runs are cut where a model of 131,072 tokens would refuse.
constexpr std::uint32_t kContextLimit = 131'072;

// Gaps: after a tool, and after the end of a turn (5.7 of 91.4 calls). The tails are cut at the published p95
// times 4 and at the published p95: the fits are heavier than the data.
constexpr double kEndOfTurn = 0.0624;
constexpr double kToolMu = 2.53;
constexpr double kToolSigma = 1.21;
constexpr double kToolMostS = 608;
constexpr double kTurnMu = 5.43;
constexpr double kTurnSigma = 2.11;
constexpr double kTurnMostS = 6'816;

// 12 of 355 runs fork, 27 joins in them: widths 1 / 2 / 3: 16 / 5 / 6. A sub-agent makes 10.9 calls from
// 42,724 tokens.
constexpr double kForks = 12.0 / 355;
constexpr double kForksEach = 27.0 / 12;
constexpr std::uint32_t kWidths[] = {16, 5, 6};
constexpr double kSubCalls = 10.9;
constexpr std::uint32_t kSubFirst = 42'724;

double gapMs(Random& random) {
  const bool turn = random.uniform() < kEndOfTurn;
  const double s = turn ? std::min(kTurnMostS, random.lognormal(kTurnMu, kTurnSigma))
                        : std::min(kToolMostS, random.lognormal(kToolMu, kToolSigma));
  return s * 1000;
}

std::uint32_t drawWidth(Random& random) {
  const std::uint32_t u = random.below(kWidths[0] + kWidths[1] + kWidths[2]);
  return u < kWidths[0] ? 1 : u < kWidths[0] + kWidths[1] ? 2 : 3;
}

struct Thread {
  Conversation conversation;
  std::uint32_t last = 0;

  std::uint32_t call(Random& random, CallWriter& writer, std::uint16_t stage, std::uint32_t fresh, double gap,
                     std::span<const std::uint32_t> parents) {
    const std::uint32_t output = wholeTokens(random.lognormal(kOutputMu, kOutputSigma));
    return last = writer.call(conversation.next(stage, fresh, output, gap), parents);
  }
};

std::uint32_t freshTokens(Random& random) { return wholeTokens(random.lognormal(kNewMu, kNewSigma)); }

/// The sub-agent's last call.
std::uint32_t writeSubAgent(Random& random, ContextPreset context, std::uint32_t fork, CallWriter& writer) {
  Thread agent{Conversation(context)};
  agent.call(random, writer, kAgenticSubAgent, kSubFirst, 0, {&fork, 1});
  while (random.uniform() >= 1 / kSubCalls && agent.conversation.history() < kContextLimit / 2) {
    const std::uint32_t parent = agent.last;
    agent.call(random, writer, kAgenticSubAgent, freshTokens(random), gapMs(random), {&parent, 1});
  }
  return agent.last;
}

}  // namespace

void writeAgent(Random& random, ContextPreset context, CallWriter& writer) {
  const std::uint32_t calls = wholeTokens(kCalls.at(random.uniform()));
  const double forkShare = random.uniform() < kForks ? kForksEach / calls : 0;
  Thread root{Conversation(context)};
  root.call(random, writer, kAgenticStep,
            std::max(kFirstLeast, wholeTokens(random.lognormal(kFirstMu, kFirstSigma))), 0, {});
  for (std::uint32_t i = 1; i < calls; ++i) {
    const std::uint32_t fresh = freshTokens(random);
    if (root.conversation.history() + fresh > kContextLimit) break;
    std::uint32_t parents[4] = {root.last};
    std::uint32_t joined = 1;
    if (forkShare > 0 && random.uniform() < forkShare) {
      for (std::uint32_t width = drawWidth(random); width > 0; --width) {
        const std::uint32_t fork = root.last;
        parents[joined++] = writeSubAgent(random, context, fork, writer);
      }
    }
    root.call(random, writer, kAgenticStep, fresh, gapMs(random), {parents, joined});
  }
}

}  // namespace laxity
