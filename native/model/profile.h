// A measured profile: decode times over (batch, context per sequence) and prefill times over (cached, new)
// tokens, each a full grid of knots, interpolated linearly between them.
//
// Assumes knots that never fall along either axis: the caller levels noise (a running maximum). Procedure:
// decode at batch b interpolates the two neighbouring rows at equal context *per sequence*; in the summed
// context that is linear between columns, which gives exact pieces. Below the first knot the first holds: an
// upper bound. Beyond the last, time grows by the largest slope that the last two knots of any line show, so
// it stays monotone; whether one may go there is the caller's decision. Rounding is downwards in units of
// 2^-20 ns, in the value as in the slope, so no piece ends above the next: times
// never fall with context, new or cached tokens, and with batch (at equal context per sequence) by no more
// than 2^-20 ns per token of context.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fixed.h"
#include "base/status.h"
#include "base/time.h"
#include "model/latency.h"

namespace laxity {

/// Times over two axes of ascending knots, row by row.
struct ProfileGrid {
  std::vector<std::uint32_t> rows;     ///< decode: batch; prefill: cached tokens
  std::vector<std::uint32_t> columns;  ///< decode: context per sequence; prefill: new tokens
  std::vector<Fine> times;             ///< [rows * columns]
};

class Profile {
 public:
  /// kBadValue: an axis that is empty or does not ascend, a time that falls along an axis, below 1 ns or
  /// beyond an hour, a batch or number of new tokens of 0.
  static Status create(ProfileGrid decode, ProfileGrid prefill, Profile* out);

  Nanos prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const;
  DecodePiece piece(std::uint32_t batch, std::int64_t context) const;

  friend bool operator==(const Profile& a, const Profile& b);

 private:
  ProfileGrid decode_;
  ProfileGrid prefill_;
  // Fine per unit beyond the last knot: the largest slope of the last two of any line.
  Fine perBatch_ = 0;
  Fine perContext_ = 0;
  Fine perCached_ = 0;
  Fine perNew_ = 0;
};

}  // namespace laxity
