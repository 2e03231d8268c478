#include "workload/chess.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/math.h"
#include "base/random.h"
#include "workload/curve.h"

namespace laxity {
namespace {

// Keeps the draws apart from those of other users of the same seed.
constexpr std::uint64_t kChessSeed = 0x6368657373000000u;

// --- Published statistics (workloads.md 2)
// -------------------------------------------------------------------------

/// First candidates are the upper half of the C row: the second lies 3,866 below, and the halves do not
/// overlap. So p50, p90 and p98 are p75, p95 and p99 of the row, and p10 is its p5 + 3,866. The range is
/// published.
constexpr Curve firstCandidate(double min, double p10, double p50, double p90, double p98, double max) {
  Curve c;
  return c.then(0, min).then(0.1, p10).then(0.5, p50).then(0.9, p90).then(0.98, p98).then(1, max);
}

/// Outputs of revisions up to p90; the least is 1 below p1 (assumption).
constexpr Curve reviseOutput(double p1, double p5, double p10, double p25, double p50, double p75,
                             double p90) {
  Curve c;
  c.then(0, p1 - 1).then(0.01, p1).then(0.05, p5).then(0.1, p10).then(0.25, p25);
  return c.then(0.5, p50).then(0.75, p75).then(0.9, p90);
}

/// Evaluations write 22 tokens in this share of calls; p95, p99 and max of the row carry the rest, from 60
/// up.
constexpr Curve evaluateOutput(double plain, double p95, double p99, double max) {
  Curve c;
  c.then(0, 22).then(plain, 22).then(plain, 60);
  return c.then(0.95, p95).then(0.99, p99).then(1, max);
}

/// Input lengths that follow the database which a workflow queries.
struct Database {
  Curve firstCandidate;
  Curve revise;
};

constexpr Database kSmall = {.firstCandidate = firstCandidate(11745, 11745, 11931, 12145, 12218, 12286),
                             .revise = quantileRow(5710, 5766, 5918, 6038, 6274, 6908, 7025)};
constexpr Database kLarge = {.firstCandidate = firstCandidate(13723, 13744, 13879, 14000, 14012, 14131),
                             .revise = quantileRow(7771, 7847, 7897, 8009, 8862, 8904, 8904)};

/// The three couplings are parameters of Gaussian copulas, fitted so that the generated correlations and
/// spreads are the published ones.
struct Preset {
  double keywordShare;    ///< of workflows that have K
  double revise[12];      ///< workflows by number of R
  double evaluate[12];    ///< workflows by number of E; none = no U either
  double countCoupling;   ///< between these two numbers: Pearson .32, .30, .38
  double largeShare;      ///< of workflows that query the large database
  double reviseCoupling;  ///< of R inputs with their workflow: sd inside a workflow 66, 162, 76
  Curve reviseOutput;
  double candidateMu;  ///< candidate outputs are lognormal
  double candidateSigma;
  double candidateByInput;   ///< correlation of a candidate's log output with its position, hence its input
  double candidateCoupling;  ///< between the two outputs of a workflow: Pearson .67-.70
  Curve keywordInput;
  Curve keywordOutput;
  Curve testInput;
  Curve testOutput;
  Curve evaluateInput;
  Curve evaluateOutput;
};

constexpr Preset kPreset1 = {
    .keywordShare = 60.0 / 90,
    .revise = {10, 14, 12, 14, 10, 10, 0, 4, 6, 10},
    .evaluate = {4, 0, 0, 10, 8, 30, 38},
    .countCoupling = 0.41,
    .largeShare = 0,
    .reviseCoupling = 0.968,
    .reviseOutput = reviseOutput(11, 20, 22, 69, 81, 111, 120).then(0.95, 144).then(0.99, 154).then(1, 154),
    .candidateMu = 6.48,
    .candidateSigma = 0.30,
    .candidateByInput = 0.75,
    .candidateCoupling = 0.73,
    .keywordInput = quantileRow(635, 656, 666, 684, 702, 702, 702),
    .keywordOutput = quantileRow(15, 37, 47, 49, 58, 86, 86),
    .testInput = quantileRow(932, 1038, 1130, 1217, 1226, 1387, 1387),
    .testOutput = quantileRow(42, 88, 106, 127, 134, 134, 134),
    .evaluateInput = quantileRow(794, 876, 1005, 1054, 1090, 1205, 1213),
    .evaluateOutput = evaluateOutput(0.94, 72, 167, 357)};

// The published counts of R sum to 108. Without "2: 12" they give the 96 workflows and the mean of 4.38.
constexpr Preset kPreset2 = {
    .keywordShare = 88.0 / 96,
    .revise = {12, 12, 0, 12, 12, 12, 12, 12, 0, 12},
    .evaluate = {0, 0, 0, 0, 36, 22, 30, 0, 2, 0, 0, 6},
    .countCoupling = 0.374,
    .largeShare = 1,
    .reviseCoupling = 0.905,
    .reviseOutput = reviseOutput(10, 13, 18, 103, 116, 150, 173).then(0.95, 312).then(0.99, 312).then(1, 312),
    .candidateMu = 6.56,
    .candidateSigma = 0.31,
    .candidateByInput = 0.78,
    .candidateCoupling = 0.74,
    .keywordInput = quantileRow(654, 682, 692, 711, 750, 750, 750),
    .keywordOutput = quantileRow(32, 53, 58, 72, 93, 119, 119),
    .testInput = quantileRow(886, 1159, 1346, 1439, 1467, 1553, 1553),
    .testOutput = quantileRow(31, 72, 100, 120, 245, 245, 245),
    .evaluateInput = quantileRow(754, 1144, 1260, 1405, 1902, 1909, 1909),
    .evaluateOutput = evaluateOutput(0.91, 118, 169, 177)};

// Revisions that hit the limit begin at share 0.9365, between p90 = 171 and p95 = 1,009: the place that gives
// the published mean of 155.6.
constexpr Preset kPreset3 = {.keywordShare = 88.0 / 110,
                             .revise = {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10},
                             .evaluate = {4, 0, 0, 6, 16, 44, 36, 0, 0, 0, 0, 4},
                             .countCoupling = 0.457,
                             .largeShare = 0.4,
                             .reviseCoupling = 0.972,
                             .reviseOutput = reviseOutput(10, 12, 19, 73, 106, 135, 171)
                                                 .then(0.9365, 171)
                                                 .then(0.9365, 1009)
                                                 .then(0.99, 1045)
                                                 .then(1, 1078),
                             .candidateMu = 6.50,
                             .candidateSigma = 0.29,
                             .candidateByInput = 0.84,
                             .candidateCoupling = 0.70,
                             .keywordInput = quantileRow(645, 660, 675, 694, 711, 750, 750),
                             .keywordOutput = quantileRow(21, 36, 47, 69, 73, 73, 73),
                             .testInput = quantileRow(859, 1048, 1185, 1330, 1460, 1467, 1467),
                             .testOutput = quantileRow(44, 88, 103, 122, 132, 245, 245),
                             .evaluateInput = quantileRow(789, 925, 1076, 1262, 1902, 1909, 1909),
                             .evaluateOutput = evaluateOutput(0.93, 73, 168, 357)};

constexpr std::uint32_t kSecondCandidate = 3866;  // exactly this below the first input, always
constexpr double kCandidateMin = 350;
constexpr double kCandidateMax = 1026;
constexpr double kEvaluateWithin = 4.5;  // sd of E inputs inside one workflow

constexpr Curve kIrInput = quantileRow(301, 303, 306, 309, 312, 312, 312);
constexpr std::uint32_t kTesterInput[3] = {271, 275, 278};
constexpr std::uint32_t kTesterOutput[3] = {6, 4, 4};

const Preset& presetOf(const ChessSpec& spec) {
  return spec.preset == 1 ? kPreset1 : spec.preset == 2 ? kPreset2 : kPreset3;
}

// --- Drawing
// --------------------------------------------------------------------------------------------------------

// The standard normal distribution function to 7.5e-8 (Abramowitz and Stegun 26.2.17), in [0, 1].
double normalShare(double z) {
  const double x = std::abs(z);
  const double t = 1 / (1 + 0.2316419 * x);
  const double series =
      t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  const double tail = 0.39894228040143268 * detExp(-0.5 * x * x) * series;
  return std::clamp(z > 0 ? 1 - tail : tail, 0.0, 1.0);
}

// A standard normal with this correlation to a given one. As a copula it couples draws and keeps their
// distributions.
double correlated(Random& random, double z, double correlation) {
  return correlation * z + std::sqrt(1 - correlation * correlation) * random.normal();
}

struct Shape {
  bool keywords;
  std::uint32_t revise;
  std::uint32_t evaluate;
};

/// Draws the shapes of one preset's workflows. It takes the first draws of a workflow's stream, so that sizes
/// need no lengths.
class Shapes {
 public:
  explicit Shapes(const Preset& preset)
      : preset_(preset), revise_(std::span(preset.revise)), evaluate_(std::span(preset.evaluate)) {}

  Shape draw(Random& random) const {
    const bool keywords = random.uniform() < preset_.keywordShare;
    const double z = random.normal();
    const std::uint32_t revise = revise_.at(normalShare(z));
    const std::uint32_t evaluate = evaluate_.at(normalShare(correlated(random, z, preset_.countCoupling)));
    return {keywords, revise, evaluate};
  }

 private:
  const Preset& preset_;
  Discrete revise_;
  Discrete evaluate_;
};

void writeRetrievers(Random& random, const Preset& preset, bool keywords, StageWriter& writer) {
  // The four inputs grow with the position: each takes its quarter of the distribution.
  const double u = random.uniform();
  for (int k = 0; k < 4; ++k) {
    std::uint32_t output = k == 3 ? 4 : 5;
    if (k == 0 && random.below(3) == 0) output = 24 + random.below(19);
    writer.stage();
    writer.call(kChessIr, wholeTokens(kIrInput.at((k + u) / 4)), output);
    if (k == 0 && keywords) {
      const double input = preset.keywordInput.at(random.uniform());
      writer.stage();
      writer.call(kChessKeywords, wholeTokens(input), wholeTokens(preset.keywordOutput.at(random.uniform())));
    }
  }
}

void writeCandidates(Random& random, const Preset& preset, const Database& database, StageWriter& writer) {
  const std::uint32_t first = wholeTokens(database.firstCandidate.at(random.uniform()));
  // Inputs of the two differ by 3,866 and hardly within a position, so the correlation of output with input
  // is that with the position: +-shift around mu. The pair shares the rest.
  const double shift = preset.candidateByInput * preset.candidateSigma;
  const double spread =
      std::sqrt(1 - preset.candidateByInput * preset.candidateByInput) * preset.candidateSigma;
  const double z = random.normal();
  const double second = correlated(random, z, preset.candidateCoupling);
  const auto length = [&preset](double deviation) {
    return wholeTokens(std::clamp(detExp(preset.candidateMu + deviation), kCandidateMin, kCandidateMax));
  };
  writer.stage();
  writer.call(kChessCandidate, first, length(shift + spread * z));
  writer.call(kChessCandidate, first - kSecondCandidate, length(-shift + spread * second));
}

void writeRevisions(Random& random, const Preset& preset, const Database& database, std::uint32_t count,
                    StageWriter& writer) {
  const double z = random.normal();
  for (std::uint32_t i = 0; i < count; ++i) {
    const double input = database.revise.at(normalShare(correlated(random, z, preset.reviseCoupling)));
    writer.stage();
    writer.call(kChessRevise, wholeTokens(input), wholeTokens(preset.reviseOutput.at(random.uniform())));
  }
}

void writeTester(int position, StageWriter& writer) {
  writer.stage();
  writer.call(kChessUnitTester, kTesterInput[position], kTesterOutput[position]);
}

void writeWorkflow(Random& random, const Preset& preset, const Shape& shape, StageWriter& writer) {
  const Database& database = random.uniform() < preset.largeShare ? kLarge : kSmall;
  writeRetrievers(random, preset, shape.keywords, writer);
  writeCandidates(random, preset, database, writer);
  writeRevisions(random, preset, database, shape.revise, writer);
  writeTester(0, writer);
  if (shape.evaluate > 0) {
    const double input = preset.testInput.at(random.uniform());
    writer.stage();
    writer.call(kChessGenerateUnitTest, wholeTokens(input),
                wholeTokens(preset.testOutput.at(random.uniform())));
  }
  writeTester(1, writer);
  if (shape.evaluate > 0) {
    const double input = preset.evaluateInput.at(random.uniform());
    writer.stage();
    for (std::uint32_t i = 0; i < shape.evaluate; ++i) {
      const double own = input + kEvaluateWithin * random.normal();
      writer.call(kChessEvaluate, wholeTokens(own), wholeTokens(preset.evaluateOutput.at(random.uniform())));
    }
  }
  writeTester(2, writer);
  writer.endWorkflow();
}

}  // namespace

Status chessCheck(const ChessSpec& spec) {
  const bool good =
      spec.preset >= 1 && spec.preset <= 3 && spec.workflows >= 1 && spec.workflows <= kMaxChessWorkflows;
  return good ? Status::kOk : Status::kBadValue;
}

GeneratedSizes chessSizes(const ChessSpec& spec) {
  const Shapes shapes(presetOf(spec));
  GeneratedSizes sizes;
  for (std::uint32_t w = 0; w < spec.workflows; ++w) {
    Random random(spec.seed ^ kChessSeed, w);
    const Shape shape = shapes.draw(random);
    const bool tested = shape.evaluate > 0;
    sizes.calls += 9 + shape.keywords + shape.revise + tested + shape.evaluate;
    // One per call for the chain IR .. IR, C, then R, T, [U], T, where the first call after C has one more;
    // then E hangs on one T, and the last T on every E or on that T.
    sizes.edges += 8 + shape.keywords + shape.revise + tested + (tested ? 2 * shape.evaluate : 1);
  }
  return sizes;
}

void chessFill(const ChessSpec& spec, const GeneratedColumns& columns) {
  const Preset& preset = presetOf(spec);
  const Shapes shapes(preset);
  StageWriter writer(columns);
  for (std::uint32_t w = 0; w < spec.workflows; ++w) {
    Random random(spec.seed ^ kChessSeed, w);
    const Shape shape = shapes.draw(random);
    writeWorkflow(random, preset, shape, writer);
  }
}

}  // namespace laxity
