#include "scheduler/lengths.h"

#include <algorithm>
#include <bit>

namespace laxity {

std::uint32_t LengthHistogram::classOf(std::uint32_t tokens) {
  if (tokens < 16) return tokens;
  const std::uint32_t octave = static_cast<std::uint32_t>(std::bit_width(tokens)) - 5;  // 0: 16 .. 31
  return std::min(kClasses - 1, 16 + octave * 8 + ((tokens >> (octave + 1)) & 7));
}

std::uint32_t LengthHistogram::upperEdge(std::uint32_t c) {
  if (c < 16) return c;
  const std::uint32_t octave = (c - 16) / 8;
  return ((8 + (c - 16) % 8 + 1) << (octave + 1)) - 1;
}

void LengthHistogram::add(std::uint32_t tokens) {
  if (count_ >= kFull) {
    count_ = 0;
    for (std::uint32_t& n : counts_) count_ += n /= 2;
    sum_ = sum_ / kFull * count_;
  }
  ++counts_[classOf(tokens)];
  ++count_;
  sum_ += tokens;
}

LengthPrediction LengthHistogram::predict() const {
  if (count_ == 0) return {};
  LengthPrediction p;
  p.mean = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (sum_ + count_ / 2) / count_));
  const std::uint32_t wanted = (count_ * 9 + 9) / 10;
  std::uint32_t seen = 0;
  for (std::uint32_t c = 0; c < kClasses; ++c) {
    seen += counts_[c];
    if (seen < wanted) continue;
    p.high = std::max(p.mean, upperEdge(c));
    break;
  }
  return p;
}

const LengthPredictor::Stage* LengthPredictor::find(std::int32_t stageTemplate, std::uint16_t stage) const {
  const std::size_t row = static_cast<std::size_t>(stageTemplate + 1);
  if (row >= index_.size() || stage >= index_[row].size() || index_[row][stage] == 0) return nullptr;
  return &stages_[index_[row][stage] - 1];
}

LengthPrediction LengthPredictor::predict(std::int32_t stageTemplate, std::uint16_t stage) const {
  if (const Stage* known = find(stageTemplate, stage)) return known->histogram.predict();
  return all_.count() > 0 ? all_.predict() : LengthPrediction{kUnknownMean, kUnknownHigh};
}

void LengthPredictor::observe(std::int32_t stageTemplate, std::uint16_t stage, std::uint32_t tokens,
                              LengthPrediction made) {
  const std::size_t row = static_cast<std::size_t>(stageTemplate + 1);
  if (row >= index_.size()) index_.resize(row + 1);
  if (stage >= index_[row].size()) index_[row].resize(std::size_t{stage} + 1);
  if (index_[row][stage] == 0) {
    stages_.emplace_back();
    index_[row][stage] = static_cast<std::uint32_t>(stages_.size());
  }
  Stage& s = stages_[index_[row][stage] - 1];
  s.histogram.add(tokens);
  all_.add(tokens);
  ++s.error.observed;
  s.error.actual += tokens;
  s.error.absolute += tokens > made.mean ? tokens - made.mean : made.mean - tokens;
  if (tokens > made.high) ++s.error.aboveHigh;
}

std::uint32_t LengthPredictor::observations(std::int32_t stageTemplate, std::uint16_t stage) const {
  const Stage* known = find(stageTemplate, stage);
  return known == nullptr ? 0 : known->histogram.count();
}

LengthRecord LengthPredictor::error(std::int32_t stageTemplate, std::uint16_t stage) const {
  const Stage* known = find(stageTemplate, stage);
  return known == nullptr ? LengthRecord{} : known->error;
}

}  // namespace laxity
