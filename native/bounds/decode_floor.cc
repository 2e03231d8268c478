#include "bounds/decode_floor.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace laxity::bounds {
namespace {

constexpr double kNanosPerFine = 1.0 / (1 << kFineBits);
constexpr std::size_t kMostPieces = 2'000'000;

/// A linear piece for `batch` sequences, between two contexts inclusive.
struct Segment {
  std::uint32_t batch;
  std::int64_t from;
  std::int64_t to;
  double timeFrom;  ///< ns
  double timeTo;
};

double nanos(FineSum fine) { return static_cast<double>(fine) * kNanosPerFine; }

/// False where there are too many.
bool allSegments(const LatencyModel& model, std::uint32_t maxBatch, std::int64_t maxContext,
                 std::vector<Segment>* out) {
  for (std::uint32_t batch = 1; batch <= maxBatch; ++batch) {
    for (std::int64_t k = batch; k <= maxContext;) {
      const DecodePiece piece = model.piece(batch, k);
      const std::int64_t last = std::max(k, std::min(piece.contextEnd - 1, maxContext));
      out->push_back({batch, k, last, nanos(piece.at(k)), nanos(piece.at(last))});
      if (out->size() > kMostPieces) return false;
      if (last == maxContext) break;
      k = last + 1;
    }
  }
  return true;
}

double slope(const Segment& a, const Segment& b) {
  return b.to > a.from ? (b.timeTo - a.timeFrom) / static_cast<double>(b.to - a.from) : 0;
}

bool aloneIsFastest(const LatencyModel& model, const std::vector<Segment>& segments) {
  double before = 0;
  for (const Segment& s : segments) {
    if (s.batch > 1) break;
    if (s.timeFrom < before || s.timeTo < s.timeFrom) return false;
    before = s.timeTo;
  }
  // With T(1, K) rising in K, comparing at equal summed context is enough.
  for (const Segment& s : segments) {
    if (s.batch == 1) continue;
    for (std::int64_t k = s.from; k <= s.to;) {
      const DecodePiece own = model.piece(s.batch, k);
      const DecodePiece alone = model.piece(1, k);
      const std::int64_t last = std::max(k, std::min(s.to, alone.contextEnd - 1));
      if (own.at(k) < alone.at(k) || own.at(last) < alone.at(last)) return false;
      k = last + 1;
    }
  }
  return true;
}

/// How close it is at batches of 1, 2, 4, ... with contexts of a middle size: small batches count as much as
/// large ones.
double quality(const DecodeFloor& floor, const LatencyModel& model, std::size_t maxBatch,
               std::int64_t maxContext) {
  const std::int64_t each = std::max<std::int64_t>(1, maxContext / static_cast<std::int64_t>(2 * maxBatch));
  double product = 1;
  for (std::size_t b = 1; b <= maxBatch; b *= 2) {
    const std::int64_t context = each * static_cast<std::int64_t>(b);
    const double time = nanos(model.piece(static_cast<std::uint32_t>(b), context).at(context));
    product *= floor.at(static_cast<double>(b), static_cast<double>(context)) / std::max(1.0, time);
  }
  return product;
}

}  // namespace

DecodeFloor decodeFloor(const LatencyModel& model, std::uint32_t maxBatch, std::int64_t maxContext) {
  std::vector<Segment> segments;
  maxBatch = static_cast<std::uint32_t>(std::min<std::int64_t>(maxBatch, maxContext));
  if (maxBatch == 0 || !allSegments(model, maxBatch, maxContext, &segments)) return {};

  // The first and the last segment of every batch size.
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (i == 0 || segments[i].batch != segments[i - 1].batch) first.push_back(i);
  }
  first.push_back(segments.size());
  double least = slope(segments.front(), segments.front());
  for (const Segment& s : segments) {
    if (s.to > s.from) least = std::min(least, slope(s, s));
  }
  const std::size_t sizes = first.size() - 1;
  const double chords[] = {0, least, slope(segments[first[0]], segments[first[1] - 1]),
                           slope(segments[first[sizes - 1]], segments[first[sizes] - 1])};

  DecodeFloor best;
  double bestScore = -1;
  std::vector<double> intercept(sizes);
  for (double perContext : chords) {
    perContext = std::max(0.0, perContext);
    for (std::size_t b = 0; b < sizes; ++b) {
      double lowest = segments[first[b]].timeFrom - perContext * static_cast<double>(segments[first[b]].from);
      for (std::size_t i = first[b]; i < first[b + 1]; ++i) {
        const Segment& s = segments[i];
        lowest = std::min({lowest, s.timeFrom - perContext * static_cast<double>(s.from),
                           s.timeTo - perContext * static_cast<double>(s.to)});
      }
      intercept[b] = lowest;
    }
    double leastRise = sizes > 1 ? intercept[1] - intercept[0] : 0;
    for (std::size_t b = 1; b < sizes; ++b)
      leastRise = std::min(leastRise, (intercept[b] - intercept[0]) / static_cast<double>(b));
    const double meanRise =
        sizes > 1 ? (intercept[sizes - 1] - intercept[0]) / static_cast<double>(sizes - 1) : 0;
    double throughOrigin = intercept[0];
    for (std::size_t b = 1; b < sizes; ++b)
      throughOrigin = std::min(throughOrigin, intercept[b] / static_cast<double>(b + 1));
    throughOrigin -= 2e-3 + std::fabs(throughOrigin) * 2e-9;  // leaves a base of no less than 0
    std::vector<double> rises{0, leastRise, meanRise, throughOrigin};
    for (std::size_t b = 1; 2 * b <= sizes; b *= 2)  // chords between batches of b and 2 b
      rises.push_back((intercept[2 * b - 1] - intercept[b - 1]) / static_cast<double>(b));
    for (double perSequence : rises) {
      perSequence = std::max(0.0, perSequence);
      double base = intercept[0] - perSequence;
      for (std::size_t b = 1; b < sizes; ++b)
        base = std::min(base, intercept[b] - perSequence * static_cast<double>(b + 1));
      // Sums and differences of times below 1e13 ns: doubles are good to about 1e-3.
      base -= 1e-3 + base * 1e-9;
      if (base < 0) continue;
      const DecodeFloor floor{base, perSequence, perContext, false};
      const double score = quality(floor, model, sizes, maxContext);
      if (score > bestScore) {
        bestScore = score;
        best = floor;
      }
    }
  }
  best.aloneIsFastest = aloneIsFastest(model, segments);
  return best;
}

}  // namespace laxity::bounds
