#include "model/profile.h"

#include <algorithm>

#include "model/rounding.h"

namespace laxity {
namespace {

constexpr std::uint32_t kMaxKnot = 1'000'000'000;

/// Where a value lies among knots: at knot `index` plus part/whole of the way to the next, or `beyond` the
/// last.
struct Place {
  std::size_t index = 0;
  std::int64_t part = 0;
  std::int64_t whole = 1;
  std::int64_t beyond = 0;
};

Place placeOf(const std::vector<std::uint32_t>& knots, std::int64_t value) {
  if (value <= knots.front()) return {};
  if (value >= knots.back()) return {knots.size() - 1, 0, 1, value - knots.back()};
  const auto above = std::upper_bound(knots.begin(), knots.end(), value);
  const auto index = static_cast<std::size_t>(above - knots.begin()) - 1;
  return {index, value - knots[index], std::int64_t{knots[index + 1]} - knots[index], 0};
}

Fine between(Fine low, Fine high, const Place& at) {
  return low + static_cast<Fine>(FineSum{high - low} * at.part / at.whole);
}

Fine saturated(FineSum fine) { return fine < kMaxIteration ? static_cast<Fine>(fine) : kMaxIteration; }

/// A column's time at a place among the rows, without what lies beyond them.
Fine along(const ProfileGrid& grid, const Place& row, std::size_t column) {
  const std::size_t width = grid.columns.size();
  const Fine low = grid.times[row.index * width + column];
  if (row.part == 0) return low;
  return between(low, grid.times[(row.index + 1) * width + column], row);
}

bool valid(const ProfileGrid& grid, bool columnsFromZero, bool rowsFromZero) {
  const std::size_t width = grid.columns.size();
  if (width == 0 || grid.rows.empty() || grid.times.size() != width * grid.rows.size()) return false;
  const auto axis = [](const std::vector<std::uint32_t>& knots, bool fromZero) {
    if (knots.front() == 0 && !fromZero) return false;
    if (knots.back() > kMaxKnot) return false;
    return std::adjacent_find(knots.begin(), knots.end(), std::greater_equal<>()) == knots.end();
  };
  if (!axis(grid.columns, columnsFromZero) || !axis(grid.rows, rowsFromZero)) return false;
  for (std::size_t i = 0; i < grid.times.size(); ++i) {
    const Fine time = grid.times[i];
    if (time < (Fine{1} << kFineBits) || time > kMaxIteration) return false;
    if (i % width > 0 && time < grid.times[i - 1]) return false;
    if (i >= width && time < grid.times[i - width]) return false;
  }
  return true;
}

Fine lastRowSlope(const ProfileGrid& grid) {
  const std::size_t rows = grid.rows.size();
  const std::size_t width = grid.columns.size();
  Fine slope = 0;
  if (rows < 2) return slope;
  for (std::size_t c = 0; c < width; ++c) {
    const Fine rise = grid.times[(rows - 1) * width + c] - grid.times[(rows - 2) * width + c];
    slope = std::max(slope, rise / (grid.rows[rows - 1] - grid.rows[rows - 2]));
  }
  return slope;
}

Fine lastColumnSlope(const ProfileGrid& grid) {
  const std::size_t width = grid.columns.size();
  Fine slope = 0;
  if (width < 2) return slope;
  for (std::size_t r = 0; r < grid.rows.size(); ++r) {
    const Fine rise = grid.times[r * width + width - 1] - grid.times[r * width + width - 2];
    slope = std::max(slope, rise / (grid.columns[width - 1] - grid.columns[width - 2]));
  }
  return slope;
}

/// The piece through `value` at `start` with this slope. A base far below zero would not fit: then flatter.
DecodePiece through(Fine value, Fine slope, std::int64_t start, std::int64_t end) {
  constexpr Fine kLowest = Fine{1} << 61;
  if (start > 0 && FineSum{slope} * start > kLowest) slope = kLowest / start;
  return {value - slope * start, slope, end};
}

}  // namespace

Status Profile::create(ProfileGrid decode, ProfileGrid prefill, Profile* out) {
  if (!valid(decode, true, false) || !valid(prefill, false, true)) return Status::kBadValue;
  out->perBatch_ = lastRowSlope(decode);
  out->perContext_ = lastColumnSlope(decode);
  out->perCached_ = lastRowSlope(prefill);
  out->perNew_ = lastColumnSlope(prefill);
  out->decode_ = std::move(decode);
  out->prefill_ = std::move(prefill);
  return Status::kOk;
}

Nanos Profile::prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const {
  const Place row = placeOf(prefill_.rows, cachedTokens);
  const Place column = placeOf(prefill_.columns, newTokens);
  const Fine low = along(prefill_, row, column.index);
  const Fine inside = column.part == 0 ? low : between(low, along(prefill_, row, column.index + 1), column);
  const FineSum outside = FineSum{perCached_} * row.beyond + FineSum{perNew_} * column.beyond;
  return std::max<Nanos>(1, roundFine(FineSum{inside} + outside));
}

DecodePiece Profile::piece(std::uint32_t batch, std::int64_t context) const {
  const Place row = placeOf(decode_.rows, batch);
  const std::int64_t b = batch;
  const FineSum more = FineSum{perBatch_} * row.beyond;
  const auto timeAt = [&](std::size_t column) { return saturated(along(decode_, row, column) + more); };
  const std::vector<std::uint32_t>& knots = decode_.columns;
  if (context < knots.front() * b) return {timeAt(0), 0, knots.front() * b};
  // The last knot at or below: a knot of context c lies at c * batch summed tokens.
  const auto above =
      std::partition_point(knots.begin(), knots.end(), [&](std::uint32_t c) { return c * b <= context; });
  const auto column = static_cast<std::size_t>(above - knots.begin()) - 1;
  const std::int64_t start = knots[column] * b;
  if (above == knots.end()) return through(timeAt(column), perContext_ / b, start, INT64_MAX);
  const std::int64_t end = *above * b;
  const Fine slope = (timeAt(column + 1) - timeAt(column)) / (end - start);
  return through(timeAt(column), slope, start, end);
}

bool operator==(const Profile& a, const Profile& b) {
  const auto same = [](const ProfileGrid& x, const ProfileGrid& y) {
    return x.rows == y.rows && x.columns == y.columns && x.times == y.times;
  };
  return same(a.decode_, b.decode_) && same(a.prefill_, b.prefill_);
}

}  // namespace laxity
