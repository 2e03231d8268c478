// Templates that were declared without stages learn them from the workflows that use them.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {
namespace {

/// The calls of a workflow in the order in which they were revealed.
std::vector<std::uint32_t> revealedCalls(const Graph& graph, const Workflow& w) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = w.firstRevealed; slot != kNoSlot; slot = graph.call(slot).nextRevealed)
    slots.push_back(slot);
  std::reverse(slots.begin(), slots.end());
  return slots;
}

}  // namespace

/// A workflow is over. Only one whose calls were all served says what its kind does.
void Scheduler::learnTemplate(const Workflow& w) {
  const auto id = static_cast<std::size_t>(w.stageTemplate);
  if (learners_.size() < templates_.size()) learners_.resize(templates_.size());
  std::vector<TemplateEntry> path;
  std::uint32_t depth = 0;
  for (const std::uint32_t slot : revealedCalls(graph_, w)) {
    const Call& c = graph_.call(slot);
    if (c.state != CallState::kDone) return;
    if (!path.empty() && c.depth <= depth) continue;
    depth = c.depth;
    path.push_back({c.stage, c.promptTokens, c.predictedTokens * c.sequences});
  }
  if (path.empty()) return;
  learners_[id].add(path);
  if (!learners_[id].due()) return;
  std::vector<TemplateEntry> entries = learners_[id].entries();
  for (TemplateEntry& e : entries) {
    if (rules_.predictLengths && live_.lengths.observations(w.stageTemplate, e.stage) > 0)
      e.outputTokens = live_.lengths.predict(w.stageTemplate, e.stage).mean;
  }
  templates_[id] = StageTemplate(std::move(entries));
  templates_[id].price(cluster_, config_.firstToken);
  for (std::uint32_t other = 0; other < graph_.workflowSlots(); ++other) {
    if (graph_.workflow(other).live && graph_.workflow(other).stageTemplate == w.stageTemplate)
      rewindTemplate(other);
  }
}

/// The cursor of a workflow in a template that is another one now.
void Scheduler::rewindTemplate(std::uint32_t workflow) {
  Workflow& w = graph_.workflow(workflow);
  const StageTemplate& stages = templates_[static_cast<std::size_t>(w.stageTemplate)];
  w.cursor = 0;
  w.stageDepth = 0;
  bool first = true;
  for (const std::uint32_t slot : revealedCalls(graph_, w)) {
    const Call& c = graph_.call(slot);
    if (!first && c.depth <= w.stageDepth) continue;
    first = false;
    w.cursor = stages.advance(w.cursor, c.stage);
    w.stageDepth = c.depth;
  }
  markDirty(workflow);
}

}  // namespace laxity
