#include "bounds/certificate.h"

#include <algorithm>
#include <cmath>

namespace laxity::bounds {

std::uint64_t leastUnreachable(std::span<const PackingRow> rows, std::span<const double> multipliers,
                               std::span<const std::uint8_t> mayBeOnTime) {
  constexpr std::int64_t kOne = std::int64_t{1} << kMultiplierBits;
  const std::uint64_t nothing = mayBeOnTime.size() + 1;
  std::vector<__int128_t> left(mayBeOnTime.size());
  for (std::size_t w = 0; w < left.size(); ++w) left[w] = mayBeOnTime[w] != 0 ? kOne : 0;
  __int128_t bound = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double scaled = multipliers[i] * static_cast<double>(kOne);
    if (!(scaled >= 1)) continue;  // clipped, and so is what is not a number
    const std::int64_t y = scaled >= static_cast<double>(kOne) ? kOne : static_cast<std::int64_t>(scaled);
    __int128_t product;
    if (__builtin_mul_overflow(rows[i].capacity, __int128_t{y}, &product) ||
        __builtin_add_overflow(bound, product, &bound)) {
      return nothing;
    }
    for (std::size_t w = 0; w < left.size(); ++w) {
      if (left[w] > 0 && rows[i].work[w] > 0) left[w] -= __int128_t{y} * rows[i].work[w];  // < 2^123
    }
  }
  for (const __int128_t l : left) {
    if (l > 0 && __builtin_add_overflow(bound, l, &bound)) return nothing;
  }
  // sum z is an integer where schedules are concerned: it is at most floor(bound).
  return static_cast<std::uint64_t>(std::min<__int128_t>(bound >> kMultiplierBits, mayBeOnTime.size())) + 1;
}

bool proves(std::span<const PackingRow> rows, std::span<const double> multipliers,
            std::span<const std::uint8_t> mayBeOnTime, std::uint64_t needed) {
  return leastUnreachable(rows, multipliers, mayBeOnTime) <= needed;
}

}  // namespace laxity::bounds
