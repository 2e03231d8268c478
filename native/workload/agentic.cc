#include "workload/agentic.h"

namespace laxity {
namespace {

// Keeps the draws apart from those of other users of the same seed.
constexpr std::uint64_t kAgenticSeed = 0x6167656e74696300u;
constexpr std::uint32_t kMostChainCalls = 1'000;

void writeWorkflow(const AgenticSpec& spec, AgenticKind kind, Random& random, CallWriter& writer) {
  switch (kind) {
    case AgenticKind::kShareGpt:
      return writeShareGpt(random, spec.context, writer);
    case AgenticKind::kBfcl:
      return writeBfcl(random, spec.context, writer);
    case AgenticKind::kLats:
      return writeLats(random, spec.context, writer);
    case AgenticKind::kMixed:
      return writeWorkflow(spec, static_cast<AgenticKind>(random.below(3)), random, writer);
    case AgenticKind::kChains:
      return writeChain(random, spec.context, spec.chainCalls, writer);
    case AgenticKind::kAgents:
      return writeAgent(random, spec.context, writer);
  }
}

void writeAll(const AgenticSpec& spec, CallWriter& writer) {
  const std::uint64_t seed = spec.seed ^ kAgenticSeed ^ static_cast<std::uint64_t>(spec.kind);
  for (std::uint32_t w = 0; w < spec.workflows; ++w) {
    Random random(seed, w);
    writeWorkflow(spec, spec.kind, random, writer);
    writer.endWorkflow();
    if (writer.calls() > UINT32_MAX || writer.edges() > UINT32_MAX) return;
  }
}

}  // namespace

Status agenticSizes(const AgenticSpec& spec, GeneratedSizes* out) {
  if (spec.kind > AgenticKind::kAgents || spec.context > ContextPreset::kFull || spec.workflows == 0 ||
      spec.chainCalls == 0 || spec.chainCalls > kMostChainCalls) {
    return Status::kBadValue;
  }
  CallWriter counter;
  writeAll(spec, counter);
  if (counter.calls() > UINT32_MAX || counter.edges() > UINT32_MAX) return Status::kTooManyCalls;
  *out = {static_cast<std::uint32_t>(counter.calls()), static_cast<std::uint32_t>(counter.edges())};
  return Status::kOk;
}

void agenticFill(const AgenticSpec& spec, const GeneratedColumns& columns) {
  CallWriter writer(columns);
  writeAll(spec, writer);
}

}  // namespace laxity
