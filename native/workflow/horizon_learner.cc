#include "workflow/horizon_learner.h"

#include <algorithm>
#include <bit>

#include "base/math.h"

namespace laxity {
namespace {

constexpr std::uint16_t kNoKind = 0xffff;
constexpr std::uint32_t kProbes = 16;

std::uint64_t hash(std::uint64_t key) { return key * 0x9e3779b97f4a7c15 >> 52; }

/// The lower q-quantile of values that are at least 1, drawn towards 1 where there are too few for it.
double lowerGrowth(const LowerQuantile& growth, double q) {
  const double least = growth.at(q);
  const double rank = q * static_cast<double>(growth.size() + 1);
  return rank < 1 ? 1 + (least - 1) * rank : least;
}

}  // namespace

void HorizonLearner::Mean::add(double value) {
  if (count >= kFull) {
    sum /= 2;
    count /= 2;
  }
  sum += value;
  ++count;
}

WorkflowKind HorizonLearner::kind(std::int32_t stageTemplate, std::uint16_t firstStage,
                                  std::uint32_t firstPrompt) {
  const auto key = static_cast<std::uint32_t>(stageTemplate + 1) << 16 | firstStage;
  auto at = std::find(kinds_.begin(), kinds_.end(), key);
  if (at == kinds_.end()) {
    if (kinds_.size() == kKinds) return {};
    kinds_.push_back(key);
    cells_.emplace_back();
    at = kinds_.end() - 1;
  }
  return {static_cast<std::uint16_t>(at - kinds_.begin()),
          static_cast<std::uint8_t>(std::bit_width(firstPrompt))};
}

std::uint64_t HorizonLearner::fineKey(const WorkflowKind& kind, std::uint32_t depth, std::uint32_t calls) {
  return std::uint64_t{1} << 40 | std::uint64_t{kind.index} << 24 | std::uint64_t{depth} << 16 |
         std::uint64_t{kind.promptOctave} << 8 | static_cast<std::uint64_t>(std::bit_width(calls));
}

const HorizonLearner::Cell* HorizonLearner::find(const Workflow& w, std::uint32_t depth) const {
  if (w.kind.index == kNoKind || depth >= cells_[w.kind.index].size()) return nullptr;
  return &cells_[w.kind.index][depth];
}

const HorizonLearner::FineCell* HorizonLearner::findFine(std::uint64_t key) const {
  if (fine_.empty()) return nullptr;
  for (std::uint32_t i = 0; i < kProbes; ++i) {
    const FineCell& cell = fine_[(hash(key) + i) % kFineCells];
    if (cell.key == key) return &cell;
    if (cell.key == 0) return nullptr;
  }
  return nullptr;
}

HorizonLearner::FineCell* HorizonLearner::makeFine(std::uint64_t key) {
  if (fine_.empty()) fine_.resize(kFineCells);
  for (std::uint32_t i = 0; i < kProbes; ++i) {
    FineCell& cell = fine_[(hash(key) + i) % kFineCells];
    if (cell.key == 0) cell.key = key;
    if (cell.key == key) return &cell;
  }
  return nullptr;
}

double HorizonLearner::factor(const Cell& cell, const WorkflowKind& kind, std::uint32_t depth,
                              std::uint32_t calls) const {
  if (const FineCell* fine = findFine(fineKey(kind, depth, calls))) return fine->factor;
  return cell.mean.count == 0 ? 1 : detExp(cell.mean.sum / cell.mean.count);
}

void HorizonLearner::finished(const Graph& graph, const Workflow& w) {
  if (w.horizon < 1) return;
  const auto last = static_cast<double>(w.horizon);
  if (w.predictedHorizon > 0) outside_.add(last / static_cast<double>(w.predictedHorizon));
  if (w.kind.index == kNoKind) return;
  const std::uint32_t depths = std::min(w.depth + 1, kDepths);
  fronts_.assign(depths, 0);
  revealed_.assign(depths, 0);
  for (std::uint32_t slot = w.firstRevealed; slot != kNoSlot; slot = graph.call(slot).nextRevealed) {
    const Call& c = graph.call(slot);
    if (c.depth >= depths) continue;
    fronts_[c.depth] = std::max(fronts_[c.depth], c.isolatedEnd);
    ++revealed_[c.depth];
  }
  std::vector<Cell>& cells = cells_[w.kind.index];
  if (cells.size() < depths) cells.resize(depths);
  learnStructure(graph, w, cells, depths);
  Nanos front = 0;
  std::uint32_t calls = 0;
  for (std::uint32_t depth = 0; depth < depths; ++depth) {
    front = std::max(front, fronts_[depth]);
    calls += revealed_[depth];
    if (front < 1) continue;
    Cell& cell = cells[depth];
    const double growth = std::max(1.0, last / static_cast<double>(front));
    if (cell.mean.count > 0) cell.residual.add(growth / factor(cell, w.kind, depth, calls));
    const double logarithm = detLog(growth);
    cell.mean.add(logarithm);
    FineCell* fine = makeFine(fineKey(w.kind, depth, calls));
    if (fine == nullptr) continue;
    fine->mean.add(logarithm);
    const double prior = kPrior * cell.mean.sum / cell.mean.count;
    fine->factor = detExp((fine->mean.sum + prior) / (fine->mean.count + kPrior));
  }
}

std::uint32_t HorizonLearner::stageOf(const Cell& cell, std::uint16_t stage) {
  std::uint32_t i = 0;
  while (i < cell.stages.size() && cell.stages[i].stage != stage) ++i;
  return i;
}

/// With `fronts_` of the workflow.
void HorizonLearner::learnStructure(const Graph& graph, const Workflow& w, std::vector<Cell>& cells,
                                    std::uint32_t depths) {
  stageEnds_.assign(std::size_t{depths} * kStages, 0);
  for (std::uint32_t slot = w.firstRevealed; slot != kNoSlot; slot = graph.call(slot).nextRevealed) {
    const Call& c = graph.call(slot);
    if (c.depth >= depths || c.isolatedEnd < 1) continue;
    Cell& cell = cells[c.depth];
    const std::uint32_t stage = stageOf(cell, c.stage);
    if (stage == kStages) continue;
    if (stage == cell.stages.size()) cell.stages.push_back({c.stage});
    Nanos& end = stageEnds_[c.depth * kStages + stage];
    end = std::max(end, c.isolatedEnd);
  }
  const auto last = static_cast<double>(w.horizon);
  for (std::uint32_t depth = 0; depth < depths; ++depth) {
    Cell& cell = cells[depth];
    if (fronts_[depth] > 0) cell.growth.add(std::max(1.0, last / static_cast<double>(fronts_[depth])));
    for (std::uint32_t i = 0; i < cell.stages.size(); ++i) {
      const Nanos end = stageEnds_[depth * kStages + i];
      if (end > 0) cell.stages[i].growth.add(std::max(1.0, last / static_cast<double>(end)));
    }
  }
}

double HorizonLearner::structural(const Workflow& w, const Call& c, double q) const {
  const Cell* cell = find(w, c.depth);
  if (cell == nullptr) return 0;
  const auto end = static_cast<double>(c.isolatedEnd);
  const std::uint32_t stage = stageOf(*cell, c.stage);
  if (stage < cell->stages.size() && cell->stages[stage].growth.size() >= kLeast)
    return end * lowerGrowth(cell->stages[stage].growth, q);
  return cell->growth.size() > 0 ? end * lowerGrowth(cell->growth, q) : 0;
}

void HorizonLearner::revealed(Workflow& w, const Call& c, const HorizonRules& rules) const {
  if (!rules.structural) return;
  const double own = std::min(structural(w, c, rules.quantile), static_cast<double>(kMaxTime));
  w.learntHorizon = std::max(w.learntHorizon, static_cast<Nanos>(own + 0.5));
}

Nanos HorizonLearner::lower(const Workflow& w, const Call& c, const HorizonRules& rules) const {
  double best = 0;
  if (w.predictedHorizon > 0 && outside_.size() >= kLeast)
    best = outside_.at(rules.quantile) * static_cast<double>(w.predictedHorizon);
  if (rules.structural)
    best = std::max({best, static_cast<double>(w.learntHorizon), structural(w, c, rules.quantile)});
  if (rules.predictor) {
    const Cell* cell = find(w, w.depth);
    if (cell != nullptr && cell->residual.size() >= kLeast) {
      best = std::max(best, cell->residual.at(rules.quantile) * static_cast<double>(w.horizon) *
                                factor(*cell, w.kind, w.depth, w.revealed));
    }
  }
  return best < static_cast<double>(kMaxTime) ? static_cast<Nanos>(best + 0.5) : kMaxTime;
}

}  // namespace laxity
