#include "workflow/horizon_learner.h"

#include <algorithm>
#include <bit>

#include "base/math.h"

namespace laxity {
namespace {

constexpr std::uint16_t kNoKind = 0xffff;
constexpr std::uint32_t kProbes = 16;

std::uint64_t hash(std::uint64_t key) { return key * 0x9e3779b97f4a7c15 >> 52; }

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
  Nanos front = 0;
  std::uint32_t calls = 0;
  for (std::uint32_t depth = 0; depth < depths; ++depth) {
    front = std::max(front, fronts_[depth]);
    calls += revealed_[depth];
    if (front < 1) continue;
    Cell& cell = cells[depth];
    const double growth = std::max(1.0, last / static_cast<double>(front));
    if (cell.mean.count > 0) cell.residual.add(growth / factor(cell, w.kind, depth, calls));
    cell.growth.add(growth);
    const double logarithm = detLog(growth);
    cell.mean.add(logarithm);
    FineCell* fine = makeFine(fineKey(w.kind, depth, calls));
    if (fine == nullptr) continue;
    fine->mean.add(logarithm);
    const double prior = kPrior * cell.mean.sum / cell.mean.count;
    fine->factor = detExp((fine->mean.sum + prior) / (fine->mean.count + kPrior));
  }
}

Nanos HorizonLearner::lower(const Workflow& w, const HorizonRules& rules) const {
  double best = 0;
  if (w.predictedHorizon > 0 && outside_.size() >= kLeast)
    best = outside_.at(rules.quantile) * static_cast<double>(w.predictedHorizon);
  if (rules.structural || rules.predictor) {
    if (const Cell* cell = find(w, w.depth)) {
      const auto horizon = static_cast<double>(w.horizon);
      if (rules.structural && cell->growth.size() >= kLeast)
        best = std::max(best, cell->growth.at(rules.quantile) * horizon);
      if (rules.predictor && cell->residual.size() >= kLeast) {
        best = std::max(
            best, cell->residual.at(rules.quantile) * horizon * factor(*cell, w.kind, w.depth, w.revealed));
      }
    }
  }
  return best < static_cast<double>(kMaxTime) ? static_cast<Nanos>(best + 0.5) : kMaxTime;
}

}  // namespace laxity
