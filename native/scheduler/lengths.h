// Output lengths, learned online per (template, stage).
//
// Assumes the output tokens of finished calls. Procedure: a histogram of 128 classes, exact below 16 tokens
// and eight to an octave above (12.5 % wide), and the sum of what it holds; both are halved at 4,096
// observations, so that the past fades. Mean = sum / count; high = upper edge of the class that holds the
// ceil(0.9 n)-th smallest. A stage without observations takes those of all stages, and where there are none a
// constant. Integers only.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace laxity {

struct LengthPrediction {
  std::uint32_t mean = 0;
  std::uint32_t high = 0;
};

class LengthHistogram {
 public:
  void add(std::uint32_t tokens);
  std::uint32_t count() const { return count_; }
  LengthPrediction predict() const;

 private:
  static constexpr std::uint32_t kClasses = 128;
  static constexpr std::uint32_t kFull = 4096;
  static std::uint32_t classOf(std::uint32_t tokens);
  static std::uint32_t upperEdge(std::uint32_t c);

  std::array<std::uint32_t, kClasses> counts_{};
  std::uint32_t count_ = 0;
  std::uint64_t sum_ = 0;
};

/// How far predictions of one stage were off.
struct LengthRecord {
  std::uint64_t observed = 0;
  std::uint64_t actual = 0;     ///< tokens, summed
  std::uint64_t absolute = 0;   ///< |predicted - actual|, summed
  std::uint64_t aboveHigh = 0;  ///< actual > predicted high
};

class LengthPredictor {
 public:
  static constexpr std::uint32_t kUnknownMean = 256;
  static constexpr std::uint32_t kUnknownHigh = 1024;

  LengthPrediction predict(std::int32_t stageTemplate, std::uint16_t stage) const;
  void observe(std::int32_t stageTemplate, std::uint16_t stage, std::uint32_t tokens, LengthPrediction made);
  std::uint32_t observations(std::int32_t stageTemplate, std::uint16_t stage) const;
  LengthRecord error(std::int32_t stageTemplate, std::uint16_t stage) const;

 private:
  struct Stage {
    LengthHistogram histogram;
    LengthRecord error;
  };
  const Stage* find(std::int32_t stageTemplate, std::uint16_t stage) const;

  std::vector<std::vector<std::uint32_t>> index_;  ///< [template + 1][stage], position + 1
  std::vector<Stage> stages_;
  LengthHistogram all_;
};

}  // namespace laxity
