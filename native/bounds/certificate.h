// What proves a bound: multipliers of packing rows, in integers.
//
// The rows are sum_w a_w z_w <= b with a_w >= 0 and 0 <= z_w <= 1. For any multipliers y >= 0
//
//     sum_w z_w <= sum_i y_i b_i + sum_w max(0, 1 - sum_i y_i a_iw) U_w,     U_w = 1 where w may be on time
//
// by weak duality, whoever found y. Multipliers are cut to multiples of 2^-60 and clipped below at 0; the
// right side is then computed without any rounding, so that an inexact solver can weaken the bound and cannot
// break it. Where a sum does not fit in 127 bits the answer is "nothing proved".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace laxity::bounds {

struct PackingRow {
  std::vector<std::int64_t> work;  ///< by workflow, >= 0: rounded down
  __int128_t capacity = 0;         ///< rounded up
};

inline constexpr int kMultiplierBits = 60;

/// True where the multipliers (by row) prove sum z < needed.
bool proves(std::span<const PackingRow> rows, std::span<const double> multipliers,
            std::span<const std::uint8_t> mayBeOnTime, std::uint64_t needed);

/// The least integer that sum z cannot reach by these multipliers; the number of workflows + 1 if none.
std::uint64_t leastUnreachable(std::span<const PackingRow> rows, std::span<const double> multipliers,
                               std::span<const std::uint8_t> mayBeOnTime);

}  // namespace laxity::bounds
