// Workloads of agents: chat chains, tool chains, tree searches, coding sessions, and their mix (workloads.md
// 4 to 8). Drawn from published statistics; no recorded row is used. The numbers without a source are marked
// as assumptions where they are drawn.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/status.h"
#include "workload/call_writer.h"

namespace laxity {

enum class AgenticKind : std::uint8_t {
  kShareGpt = 0,  ///< chat chains (ShareGPT)
  kBfcl = 1,      ///< tool chains (BFCL v3 multi-turn)
  kLats = 2,      ///< tree searches (LATS)
  kMixed = 3,     ///< equal thirds of the three
  kChains = 4,    ///< chains of equally many calls, lengths as in chats
  kAgents = 5,    ///< coding sessions with tool gaps and sub-agents
};

/// What a call's prompt holds.
enum class ContextPreset : std::uint8_t {
  kNew = 0,   ///< the new tokens alone: a prefix cache that never misses
  kFull = 1,  ///< history and new tokens; `cachedTokens` = the history
};

/// Stage ids of generated traces, common to all kinds.
enum AgenticStage : std::uint16_t {
  kAgenticChat = 0,
  kAgenticTool = 1,
  kAgenticAnswer = 2,
  kAgenticExpand = 3,
  kAgenticValue = 4,
  kAgenticStep = 5,
  kAgenticSubAgent = 6,
};

/// Workflow i depends on (kind, seed, i) and the presets alone: a longer trace begins with the shorter one.
struct AgenticSpec {
  AgenticKind kind = AgenticKind::kMixed;
  ContextPreset context = ContextPreset::kNew;
  std::uint32_t workflows = 0;
  std::uint32_t chainCalls = 8;  ///< of kChains
  std::uint64_t seed = 0;
};

/// kBadValue for an unknown kind or preset, no workflows, chains of no or more than 1,000 calls;
/// kTooManyCalls where calls or edges would not fit 32 bits.
Status agenticSizes(const AgenticSpec& spec, GeneratedSizes* out);

/// Writes exactly what `agenticSizes` counted.
void agenticFill(const AgenticSpec& spec, const GeneratedColumns& columns);

// One workflow of each kind.
void writeShareGpt(Random& random, ContextPreset context, CallWriter& writer);
void writeBfcl(Random& random, ContextPreset context, CallWriter& writer);
void writeLats(Random& random, ContextPreset context, CallWriter& writer);
void writeChain(Random& random, ContextPreset context, std::uint32_t calls, CallWriter& writer);
void writeAgent(Random& random, ContextPreset context, CallWriter& writer);

}  // namespace laxity
