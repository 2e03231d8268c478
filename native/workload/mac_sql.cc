#include "workload/mac_sql.h"

#include "base/random.h"
#include "workload/curve.h"

namespace laxity {
namespace {

// Keeps the draws apart from those of other users of the same seed.
constexpr std::uint64_t kMacSqlSeed = 0x6d61632d73716c00u;

// Workflows of the source with a Selector, of the 30 for each number of refinements. The published marginals
// (90 of 150 have one; 1 .. 6 calls: 15, 19, 41, 26, 34, 15) leave only this joint distribution.
constexpr std::uint32_t kRefinements = 5;
constexpr std::uint32_t kSourceEach = 30;
constexpr std::uint32_t kWithSelector[kRefinements] = {15, 26, 15, 19, 15};

constexpr Curve kSelectorInput = quantileRow(2094, 2958, 2959, 3316, 3317, 3317, 3317);
constexpr Curve kSelectorOutput = quantileRow(49, 76, 96, 134, 134, 144, 156);
constexpr Curve kDecomposerInput = quantileRow(1321, 1532, 1710, 2415, 2716, 2923, 3072);
constexpr Curve kDecomposerOutput = quantileRow(34, 129, 163, 236, 274, 330, 444);

struct Lengths {
  std::uint32_t input;
  std::uint32_t output;
};

// A refinement has one of three lengths: 1,870 / 389 first, then 928 / 555, then 1,729 / 492. The published
// means and quantiles hold where the fourth is like the third and 32 % of the first ones are too.
constexpr Lengths kFirstRefiner = {1870, 389};
constexpr Lengths kSecondRefiner = {928, 555};
constexpr Lengths kLaterRefiner = {1729, 492};
constexpr double kFirstLikeLater = 0.32;

struct Shape {
  bool selector;
  std::uint32_t refinements;
};

/// Takes the first draws of a workflow's stream, so that sizes need no lengths.
Shape drawShape(Random& random) {
  const std::uint32_t refinements = random.below(kRefinements);
  return {random.below(kSourceEach) < kWithSelector[refinements], refinements};
}

void write(Random& random, StageWriter& writer, MacSqlStage stage, const Curve& input, const Curve& output) {
  const double in = input.at(random.uniform());
  writer.stage();
  writer.call(stage, wholeTokens(in), wholeTokens(output.at(random.uniform())));
}

}  // namespace

Status macSqlCheck(const MacSqlSpec& spec) {
  return spec.workflows >= 1 && spec.workflows <= kMaxMacSqlWorkflows ? Status::kOk : Status::kBadValue;
}

GeneratedSizes macSqlSizes(const MacSqlSpec& spec) {
  GeneratedSizes sizes;
  for (std::uint32_t w = 0; w < spec.workflows; ++w) {
    Random random(spec.seed ^ kMacSqlSeed, w);
    const Shape shape = drawShape(random);
    sizes.calls += 1 + shape.selector + shape.refinements;
    sizes.edges += shape.selector + shape.refinements;
  }
  return sizes;
}

void macSqlFill(const MacSqlSpec& spec, const GeneratedColumns& columns) {
  StageWriter writer(columns);
  for (std::uint32_t w = 0; w < spec.workflows; ++w) {
    Random random(spec.seed ^ kMacSqlSeed, w);
    const Shape shape = drawShape(random);
    if (shape.selector) write(random, writer, kMacSqlSelector, kSelectorInput, kSelectorOutput);
    write(random, writer, kMacSqlDecomposer, kDecomposerInput, kDecomposerOutput);
    for (std::uint32_t round = 0; round < shape.refinements; ++round) {
      const Lengths& lengths = round == 0 && random.uniform() >= kFirstLikeLater ? kFirstRefiner
                               : round == 1                                      ? kSecondRefiner
                                                                                 : kLaterRefiner;
      writer.stage();
      writer.call(kMacSqlRefiner, lengths.input, lengths.output);
    }
    writer.endWorkflow();
  }
}

}  // namespace laxity
