// What the workflows of one kind did, stage after stage: a template for those to come, where none was
// declared.
//
// Assumes finished workflows as paths: the first call of each depth. Procedure: position i of the template is
// there while at least half of the paths reached it, and is the stage that most of them had there, with the
// mean prompt of those calls. Ties: the stage seen first. Everything is bounded: positions beyond kPositions,
// and stages of a position beyond kStages, are not counted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workflow/template.h"

namespace laxity {

class TemplateLearner {
 public:
  static constexpr std::size_t kPositions = 256;
  static constexpr std::size_t kStages = 16;

  void add(std::span<const TemplateEntry> path) {
    ++paths_;
    for (std::size_t i = 0; i < path.size() && i < kPositions; ++i) {
      if (positions_.size() <= i) positions_.emplace_back();
      Position& p = positions_[i];
      ++p.reached;
      Stage* stage = nullptr;
      for (Stage& s : p.stages) {
        if (s.id == path[i].stage) stage = &s;
      }
      if (stage == nullptr) {
        if (p.stages.size() == kStages) continue;
        stage = &p.stages.emplace_back();
        stage->id = path[i].stage;
      }
      ++stage->count;
      stage->prompt += path[i].promptTokens;
      stage->output += path[i].outputTokens;
    }
  }

  /// Whether the template should be taken anew: after 1, 2, 4, … 64 paths, then after every 64th.
  bool due() const { return paths_ < 64 ? (paths_ & (paths_ - 1)) == 0 : paths_ % 64 == 0; }

  std::vector<TemplateEntry> entries() const {
    std::vector<TemplateEntry> entries;
    for (const Position& p : positions_) {
      if (2 * p.reached < paths_) break;
      const Stage* most = nullptr;
      for (const Stage& s : p.stages) {
        if (most == nullptr || s.count > most->count) most = &s;
      }
      entries.push_back({most->id, static_cast<std::uint32_t>(most->prompt / most->count),
                         static_cast<std::uint32_t>(most->output / most->count)});
    }
    return entries;
  }

 private:
  struct Stage {
    std::uint16_t id = 0;
    std::uint64_t count = 0;
    std::uint64_t prompt = 0;
    std::uint64_t output = 0;
  };
  struct Position {
    std::uint64_t reached = 0;
    std::vector<Stage> stages;
  };

  std::vector<Position> positions_;
  std::uint64_t paths_ = 0;
};

}  // namespace laxity
