// Chat chains, and chains of equally many calls with the same lengths (workloads.md 4).
#include <algorithm>

#include "workload/agentic.h"
#include "workload/conversation.h"
#include "workload/curve.h"

namespace laxity {
namespace {

// Turns: 1 with this share, else 2 + geometric; mean 6.66, as published (6.66 calls mean, 80 max). 73 % of
// conversations have several turns.
constexpr double kSingleTurn = 0.27;
constexpr double kExtraTurns = 6.75;
constexpr std::uint32_t kMostTurns = 80;

// Published means 256 and 277; the spreads are assumptions. mu = ln(mean) - sigma^2 / 2.
constexpr double kUserMu = 4.94;
constexpr double kUserSigma = 1.1;
constexpr double kAnswerMu = 5.22;
constexpr double kAnswerSigma = 0.9;

/// Support 0, 1, 2, …
std::uint32_t geometric(Random& random, double mean, std::uint32_t most) {
  const double stop = 1 / (1 + mean);
  std::uint32_t n = 0;
  while (n < most && random.uniform() >= stop) ++n;
  return n;
}

void writeTurns(Random& random, ContextPreset context, std::uint32_t turns, CallWriter& writer) {
  Conversation conversation(context);
  std::uint32_t previous = 0;
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    const std::uint32_t user = wholeTokens(random.lognormal(kUserMu, kUserSigma));
    const std::uint32_t answer = wholeTokens(random.lognormal(kAnswerMu, kAnswerSigma));
    const std::span<const std::uint32_t> parents(&previous, turn == 0 ? 0 : 1);
    previous = writer.call(conversation.next(kAgenticChat, user, answer, 0), parents);
  }
}

}  // namespace

void writeShareGpt(Random& random, ContextPreset context, CallWriter& writer) {
  std::uint32_t turns = 1;
  if (random.uniform() >= kSingleTurn)
    turns = std::min(kMostTurns, 2 + geometric(random, kExtraTurns, kMostTurns));
  writeTurns(random, context, turns, writer);
}

void writeChain(Random& random, ContextPreset context, std::uint32_t calls, CallWriter& writer) {
  writeTurns(random, context, calls, writer);
}

}  // namespace laxity
