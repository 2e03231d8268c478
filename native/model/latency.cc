#include "model/latency.h"

#include <algorithm>
#include <cmath>

#include "model/profile.h"
#include "model/roofline_table.h"

namespace laxity {
namespace {

// Far beyond any hardware, and far from overflow: 2^16 sequences times the second bound still fit a Fine.
constexpr double kMaxMs = 100'000;
constexpr double kMaxSlopeMs = 100;

bool sane(double ms, double limit) { return std::isfinite(ms) && ms >= 0 && ms <= limit; }

bool sane(const LatencyConstants& c) {
  return sane(c.prefillBaseMs, kMaxMs) && sane(c.prefillPerTokenMs, kMaxSlopeMs) &&
         sane(c.decodeBaseMs, kMaxMs) && sane(c.decodePerSequenceMs, kMaxSlopeMs) &&
         sane(c.decodePerContextMs, kMaxSlopeMs) && c.decodeBaseMs >= 1e-6;
}

}  // namespace

Status LatencyModel::constants(const LatencyConstants& c, LatencyModel* out) {
  if (!sane(c)) return Status::kBadValue;
  *out = LatencyModel{};
  out->prefillBase_ = fineFromMs(c.prefillBaseMs);
  out->prefillPerToken_ = fineFromMs(c.prefillPerTokenMs);
  out->decodeBase_ = fineFromMs(c.decodeBaseMs);
  out->decodePerSequence_ = fineFromMs(c.decodePerSequenceMs);
  out->decodePerContext_ = fineFromMs(c.decodePerContextMs);
  return Status::kOk;
}

Status LatencyModel::table(std::vector<PrefillKnot> knots, const LatencyConstants& c, LatencyModel* out) {
  if (knots.empty()) return Status::kBadValue;
  for (std::size_t i = 0; i < knots.size(); ++i) {
    if (knots[i].tokens == 0 || knots[i].time < 1 || knots[i].time > fromMs(kMaxMs * 1000))
      return Status::kBadValue;
    if (i > 0 && (knots[i].tokens <= knots[i - 1].tokens || knots[i].time < knots[i - 1].time)) {
      return Status::kBadValue;
    }
  }
  const Status status = constants(c, out);
  if (!ok(status)) return status;
  out->knots_ = std::move(knots);
  out->kind_ = Kind::kKnots;
  return Status::kOk;
}

Status LatencyModel::roofline(const RooflineSpec& spec, LatencyModel* out) {
  const Status status = check(spec);
  if (!ok(status)) return status;
  *out = LatencyModel{};
  out->kind_ = Kind::kRoofline;
  out->roofline_ = std::make_shared<const RooflineTable>(spec);
  return Status::kOk;
}

Status LatencyModel::profile(ProfileGrid decode, ProfileGrid prefill, LatencyModel* out) {
  Profile profile;
  const Status status = Profile::create(std::move(decode), std::move(prefill), &profile);
  if (!ok(status)) return status;
  *out = LatencyModel{};
  out->kind_ = Kind::kProfile;
  out->profile_ = std::make_shared<const Profile>(std::move(profile));
  return Status::kOk;
}

Nanos LatencyModel::prefillFromTable(std::uint32_t newTokens, std::uint32_t cachedTokens) const {
  switch (kind_) {
    case Kind::kRoofline:
      return roofline_->prefill(newTokens, cachedTokens);
    case Kind::kProfile:
      return profile_->prefill(newTokens, cachedTokens);
    default:
      return prefillFromKnots(newTokens);  // knots price the new tokens alone
  }
}

DecodePiece LatencyModel::pieceFromTable(std::uint32_t batch, std::int64_t context) const {
  return kind_ == Kind::kRoofline ? roofline_->piece(batch) : profile_->piece(batch, context);
}

Nanos LatencyModel::prefillFromKnots(std::uint32_t newTokens) const {
  const auto above = std::lower_bound(knots_.begin(), knots_.end(), newTokens,
                                      [](const PrefillKnot& k, std::uint32_t n) { return k.tokens < n; });
  const PrefillKnot& edge = above == knots_.end() ? knots_.back() : *above;
  if (edge.tokens == newTokens) return edge.time;
  if (above == knots_.begin() || above == knots_.end()) {
    const FineSum scaled = (FineSum{edge.time} << kFineBits) * newTokens / edge.tokens;
    return std::max<Nanos>(1, roundFine(scaled));
  }
  const PrefillKnot& below = *(above - 1);
  const FineSum rise = (FineSum{edge.time - below.time} << kFineBits) * (newTokens - below.tokens) /
                       (edge.tokens - below.tokens);
  return below.time + roundFine(rise);
}

MixedPiece LatencyModel::mixed(std::uint32_t batch, std::int64_t context,
                               std::span<const PrefillChunk> chunks) const {
  MixedPiece mixed{batch > 0 ? piece(batch, context) : DecodePiece{0, 0, kUnbounded}, kUnbounded};
  if (chunks.empty()) return mixed;
  if (kind_ == Kind::kRoofline) return {roofline_->mixed(batch, chunks), 1};
  FineSum sum = mixed.decode.base;
  for (const PrefillChunk& chunk : chunks) {
    const std::uint32_t will = chunk.doneTokens + chunk.newTokens;
    if (kind_ == Kind::kProfile) {
      const std::uint32_t cached = chunk.cachedTokens;
      const Nanos before = chunk.doneTokens > 0 ? profile_->prefill(chunk.doneTokens, cached) : 0;
      sum += FineSum{profile_->prefill(will, cached) - before} << kFineBits;
      mixed.iterations = 1;
    } else if (!knots_.empty()) {
      const Nanos before = chunk.doneTokens > 0 ? prefillFromKnots(chunk.doneTokens) : 0;
      sum += FineSum{prefillFromKnots(will) - before} << kFineBits;
      mixed.iterations = 1;
    } else {
      sum += FineSum{prefillPerToken_} * chunk.newTokens;
      if (chunk.doneTokens > 0 || prefillBase_ == 0) continue;
      sum += prefillBase_;
      mixed.iterations = 1;
    }
  }
  const FineSum least = FineSum{1} << kFineBits;
  mixed.decode.base = static_cast<Fine>(std::clamp(sum, least, FineSum{INT64_MAX}));
  return mixed;
}

Nanos LatencyModel::decodeAcross(std::int64_t context, std::int64_t steps) const {
  FineSum total = 0;
  while (steps > 0) {
    const DecodePiece now = piece(1, context);
    const std::int64_t n = std::min(steps, now.contextEnd - context);
    total += now.sum(context, 1, n);
    context += n;
    steps -= n;
  }
  return roundFine(total);
}

bool operator==(const LatencyModel& a, const LatencyModel& b) {
  const auto same = [](const auto& x, const auto& y) { return x == y || (x && y && *x == *y); };
  return a.kind_ == b.kind_ && same(a.roofline_, b.roofline_) && same(a.profile_, b.profile_) &&
         a.prefillBase_ == b.prefillBase_ && a.prefillPerToken_ == b.prefillPerToken_ &&
         a.decodeBase_ == b.decodeBase_ && a.decodePerSequence_ == b.decodePerSequence_ &&
         a.decodePerContext_ == b.decodePerContext_ &&
         std::equal(a.knots_.begin(), a.knots_.end(), b.knots_.begin(), b.knots_.end(),
                    [](const PrefillKnot& x, const PrefillKnot& y) {
                      return x.tokens == y.tokens && x.time == y.time;
                    });
}

}  // namespace laxity
