// Tool chains after BFCL v3 multi-turn (workloads.md 5): per turn one call for each step of the ground truth
// and a closing one.
#include "base/math.h"
#include "workload/agentic.h"
#include "workload/conversation.h"
#include "workload/curve.h"

namespace laxity {
namespace {

struct Count {
  std::uint32_t value;
  std::uint32_t entries;
};

// Of 800 entries.
constexpr Count kTurns[] = {{1, 6}, {2, 86}, {3, 180}, {4, 200}, {5, 186}, {6, 110}, {7, 28}, {8, 4}};
// Ground-truth calls per turn, of 3,336 turns.
constexpr Count kSteps[] = {{0, 412}, {1, 1900}, {2, 619}, {3, 269}, {4, 78},
                            {5, 44},  {6, 4},    {7, 8},   {34, 2}};
constexpr std::uint32_t kCategories = 4;  ///< base, miss_func, miss_param, long_context: 200 entries each
constexpr std::uint32_t kLongContext = 3;

// Function documentation 2.9-6.9 k, mean 4,975, p95 6,890.
constexpr Curve kDocs = Curve{}.then(0, 2900).then(0.5, 4975).then(0.95, 6890).then(1, 6900);
// p50 30, p95 80, max 207, mean 34.6.
constexpr Curve kUser =
    Curve{}.then(0, 5).then(0.25, 15).then(0.5, 30).then(0.75, 37).then(0.95, 80).then(1, 207);
// p50 12, p95 41, mean 16.
constexpr Curve kCall = Curve{}.then(0, 6).then(0.5, 12).then(0.75, 15).then(0.95, 41).then(1, 80);
// p50 17, p95 62, p99 71, max 125.
constexpr Curve kResult = Curve{}.then(0, 4).then(0.5, 17).then(0.95, 62).then(0.99, 71).then(1, 125);
// p50 20, p95 3,955, p99 20,035, mean 1,090.
constexpr Curve kLongResult =
    Curve{}.then(0, 5).then(0.5, 20).then(0.75, 60).then(0.95, 3955).then(0.99, 20035).then(1, 20035);

// Assumptions: the closing answer, and a tool's latency (log-uniform), which BFCL does not record.
constexpr double kAnswerLow = 30;
constexpr double kAnswerHigh = 80;
constexpr double kToolLowMs = 50;
constexpr double kToolHighMs = 300;

template <std::size_t N>
std::uint32_t draw(Random& random, const Count (&counts)[N]) {
  std::uint32_t total = 0;
  for (const Count& c : counts) total += c.entries;
  std::uint32_t left = random.below(total);
  for (const Count& c : counts) {
    if (left < c.entries) return c.value;
    left -= c.entries;
  }
  return counts[N - 1].value;
}

double logUniform(Random& random, double low, double high) {
  return low * detExp(random.uniform() * detLog(high / low));
}

}  // namespace

void writeBfcl(Random& random, ContextPreset context, CallWriter& writer) {
  const bool longContext = random.below(kCategories) == kLongContext;
  const std::uint32_t turns = draw(random, kTurns);
  std::uint32_t fresh = wholeTokens(kDocs.at(random.uniform()));
  Conversation conversation(context);
  std::uint32_t previous = 0;
  bool first = true;
  const auto call = [&](std::uint16_t stage, std::uint32_t output, double gapMs) {
    const std::span<const std::uint32_t> parents(&previous, first ? 0 : 1);
    previous = writer.call(conversation.next(stage, fresh, output, gapMs), parents);
    first = false;
    fresh = 0;
  };
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    fresh += wholeTokens(kUser.at(random.uniform()));
    double gapMs = 0;
    for (std::uint32_t step = draw(random, kSteps); step > 0; --step) {
      call(kAgenticTool, wholeTokens(kCall.at(random.uniform())), gapMs);
      fresh = wholeTokens((longContext ? kLongResult : kResult).at(random.uniform()));
      gapMs = logUniform(random, kToolLowMs, kToolHighMs);
    }
    call(kAgenticAnswer, wholeTokens(kAnswerLow + (kAnswerHigh - kAnswerLow) * random.uniform()), gapMs);
  }
}

}  // namespace laxity
