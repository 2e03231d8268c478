// The roofline behind LatencyModel: what depends on token counts alone, tabulated.
//
// An entry is the closed form's own value, so a lookup and a computation beyond the table agree to the bit; a
// decode iteration is base[batch] + perContext * context, both rounded once to 2^-20 ns, and that is the
// model: stepping and leaping sum the same integers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/fixed.h"
#include "base/time.h"
#include "model/latency.h"
#include "model/roofline.h"

namespace laxity {

class RooflineTable {
 public:
  /// `spec` must have passed check.
  explicit RooflineTable(const RooflineSpec& spec);

  Nanos prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const;
  DecodePiece piece(std::uint32_t batch) const {
    return {batch < base_.size() ? base_[batch] : decodeBase(batch), perContext_, INT64_MAX};
  }
  /// Decodes and chunks together; every chunk counts as a sequence that emits a token.
  DecodePiece mixed(std::uint32_t batch, std::span<const PrefillChunk> chunks) const;

  const Roofline& roofline() const { return roofline_; }

  /// Sums no shorter than these are computed.
  static constexpr std::uint32_t kTokens = 8192;
  static constexpr std::uint32_t kBatch = 2048;

  friend bool operator==(const RooflineTable& a, const RooflineTable& b) {
    return a.linear_ == b.linear_ && a.base_ == b.base_ && a.head_ == b.head_ &&
           a.perContext_ == b.perContext_ && a.probe_ == b.probe_;
  }

 private:
  double linear(double tokens) const {
    return tokens <= kTokens && tokens == static_cast<std::uint32_t>(tokens)
               ? linear_[static_cast<std::uint32_t>(tokens)]
               : roofline_.linear(tokens);
  }
  Fine decodeBase(std::uint32_t batch) const;

  Roofline roofline_;
  std::vector<double> linear_;  ///< [tokens], ns, unscaled
  std::vector<double> head_;    ///< [samples], ns, unscaled
  std::vector<Fine> base_;      ///< [batch]
  Fine perContext_ = 0;
  double probe_ = 0;  ///< a prefill's attention: tells apart tables that agree elsewhere
};

}  // namespace laxity
