// Lower estimates of the final horizon of a workflow, learnt online from finished ones.
//
// Why lower ones: an estimate above the truth makes a workflow late that ends before it; Req at a share tau
// forgives 1 - tau of them, so a q-quantile with q near 1 - tau costs nothing there, and a mean makes half of
// the workflows late.
//
// Of a finished workflow every depth gives one observation of each cell below, the kind being what the first
// call shows: (template, stage). q is the parameter horizonQuantile.
//   structural minimum  E the largest isolated end among its calls of depth d, s = H(final) / E >= 1; cells
//                       (kind, d), and (kind, d, stage) with E over the calls of that stage. A call says that
//                       its workflow's final horizon is at least
//                         its own isolated end * lower q-quantile of the last 300 s,
//                       of its stage's cell from 20 observations, before that of its depth's. A workflow
//                       keeps the largest that its calls said when they were revealed
//                                                                                       (structuralMinimum)
//   own predictor       H(D) the horizon when everything down to depth D is revealed, s = H(final) / H(D),
//                       m = H(t) * exp(mean ln s), the mean over the finer cells (kind, D, octave of the
//                       first prompt, octave of the number of calls), drawn towards that of (kind, D) by
//                       kPrior observations; times the lower q-quantile of H(final) / m over the last 200
//                       times that it was asked of the cell, each before the observation entered the means
//                                                                                       (predictHorizons)
//   a predictor from outside (Workflow::predictedHorizon)  times the lower q-quantile of H(final) / m over
//                       the last 200 finished workflows that had one
// The largest in force counts; below H(t) they say nothing. The predictors are silent before 20 observations.
//
// The q-quantile of n < 1/q - 1 observations would lie below them all. No s is below 1, so the structural
// minimum goes in a line from 1 at rank 0 to the smallest s at rank 1 with the rank q (n + 1): few
// observations say little, and none is believed too early.
//
// One observation for each workflow and depth, not one for each call: siblings end alike, and 300 calls of a
// wide search are few workflows, of which a q-quantile is not one (docs/horizon.md).
//
// Bounds: 64 kinds (a later kind is not learnt), depths below 128, 4 stages of a depth (a later one has the
// depth's cell), 4,096 finer cells (full: the cell's own mean). Sums fade: halved at 1,024 observations.
// Deterministic: detLog, detExp, no clock, no draw.
#pragma once

#include <cstdint>
#include <vector>

#include "base/lower_quantile.h"
#include "workflow/graph.h"

namespace laxity {

/// What is asked for; of the parameters.
struct HorizonRules {
  bool structural = false;
  bool predictor = false;
  double quantile = 0.02;
};

class HorizonLearner {
 public:
  static constexpr std::uint32_t kLeast = 20;
  static constexpr std::uint32_t kStructural = 300;
  static constexpr std::uint32_t kCalibration = 200;
  static constexpr std::uint32_t kKinds = 64;
  static constexpr std::uint32_t kDepths = 128;
  static constexpr std::uint32_t kStages = 4;
  static constexpr std::uint32_t kFineCells = 4096;
  static constexpr double kPrior = 8;
  static constexpr std::uint32_t kFull = 1024;

  /// Of a workflow, when its first call is revealed.
  WorkflowKind kind(std::int32_t stageTemplate, std::uint16_t firstStage, std::uint32_t firstPrompt);

  /// `c` of `w` has its isolated end. O(1).
  void revealed(Workflow& w, const Call& c, const HorizonRules& rules) const;

  /// Every call of `w` is done. O(calls + depth * kStructural).
  void finished(const Graph& graph, const Workflow& w);

  /// A lower estimate of the final horizon of `w` as its call `c` knows it, 0 without one. O(1).
  Nanos lower(const Workflow& w, const Call& c, const HorizonRules& rules) const;

 private:
  struct Mean {
    double sum = 0;
    std::uint32_t count = 0;
    void add(double value);
  };
  struct StageCell {
    std::uint16_t stage;
    LowerQuantile growth{kStructural};
  };
  struct Cell {
    LowerQuantile growth{kStructural};
    std::vector<StageCell> stages;  ///< at most kStages
    LowerQuantile residual{kCalibration};
    Mean mean;
  };
  struct FineCell {
    std::uint64_t key = 0;  ///< 0 = free
    Mean mean;
    double factor = 1;  ///< exp of the drawn mean
  };

  const Cell* find(const Workflow& w, std::uint32_t depth) const;
  static std::uint32_t stageOf(const Cell& cell, std::uint16_t stage);
  /// What `c` says of the final horizon by the structural minimum, ns; 0 = nothing.
  double structural(const Workflow& w, const Call& c, double q) const;
  void learnStructure(const Graph& graph, const Workflow& w, std::vector<Cell>& cells, std::uint32_t depths);
  const FineCell* findFine(std::uint64_t key) const;
  FineCell* makeFine(std::uint64_t key);
  static std::uint64_t fineKey(const WorkflowKind& kind, std::uint32_t depth, std::uint32_t calls);
  /// Of the own predictor, 1 before the first observation of the cell.
  double factor(const Cell& cell, const WorkflowKind& kind, std::uint32_t depth, std::uint32_t calls) const;

  std::vector<std::uint32_t> kinds_;      ///< (template + 1) << 16 | stage, by index
  std::vector<std::vector<Cell>> cells_;  ///< [kind][depth]
  std::vector<FineCell> fine_;            ///< open addressing, sized with the first
  LowerQuantile outside_{kCalibration};
  std::vector<Nanos> fronts_;            ///< scratch: largest isolated end of a depth
  std::vector<Nanos> stageEnds_;         ///< scratch: the same of each of its stages
  std::vector<std::uint32_t> revealed_;  ///< scratch: calls down to a depth
};

}  // namespace laxity
