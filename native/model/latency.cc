#include "model/latency.h"

#include <algorithm>
#include <cmath>

#include "model/polynomial.h"
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

Status LatencyModel::polynomial(const LatencyPolynomial& terms, LatencyModel* out) {
  Polynomial polynomial;
  const Status status = Polynomial::create(terms, &polynomial);
  if (!ok(status)) return status;
  *out = LatencyModel{};
  out->kind_ = Kind::kPolynomial;
  out->polynomial_ = std::make_shared<const Polynomial>(std::move(polynomial));
  return Status::kOk;
}

Nanos LatencyModel::prefillFromTable(std::uint32_t newTokens, std::uint32_t cachedTokens) const {
  if (kind_ == Kind::kKnots) return prefillFromKnots(newTokens);  // they price the new tokens alone
  const Nanos time = kind_ == Kind::kRoofline  ? roofline_->prefill(newTokens, cachedTokens)
                     : kind_ == Kind::kProfile ? profile_->prefill(newTokens, cachedTokens)
                                               : polynomial_->prefill(newTokens, cachedTokens);
  return skewed_ ? scaled(time) : time;
}

/// `skewed` of a whole time.
Nanos LatencyModel::scaled(Nanos time) const {
  const double wrong = static_cast<double>(time) * factor_ + 0.5;
  return wrong < static_cast<double>(kMaxTime) ? std::max<Nanos>(1, static_cast<Nanos>(wrong)) : kMaxTime;
}

DecodePiece LatencyModel::tablePiece(std::uint32_t batch, std::int64_t context) const {
  if (kind_ == Kind::kRoofline) return roofline_->piece(batch);
  return kind_ == Kind::kProfile ? profile_->piece(batch, context) : polynomial_->piece(batch);
}

DecodePiece LatencyModel::pieceFromTable(std::uint32_t batch, std::int64_t context) const {
  DecodePiece p = tablePiece(batch, context);
  if (!skewed_) return p;
  // What further sequences add at this context, then everything; never below 1 ns.
  double base = static_cast<double>(p.base);
  if (perSequence_ != 1 && batch > 1) {
    const FineSum alone = tablePiece(1, context).at(context);
    base += (perSequence_ - 1) * static_cast<double>(p.at(context) - alone);
  }
  const double perContext = static_cast<double>(p.perContext) * factor_;
  const double least = static_cast<double>(Fine{1} << kFineBits) - perContext * static_cast<double>(context);
  const auto whole = [](double value) {
    constexpr double kMost = 4e18;
    return static_cast<Fine>(std::clamp(value, -kMost, kMost));
  };
  p.base = whole(std::max(least, base * factor_));
  p.perContext = whole(perContext);
  return p;
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

Nanos LatencyModel::prefillBatch(std::span<const PrefillChunk> prompts) const {
  if (prompts.size() == 1) return prefill(prompts.front().newTokens, prompts.front().cachedTokens);
  if (kind_ == Kind::kRoofline || kind_ == Kind::kProfile)
    return std::max<Nanos>(1, roundFine(mixed(0, 0, prompts).decode.at(0)));
  if (kind_ == Kind::kPolynomial) {
    const Nanos time = polynomial_->prefill(prompts);
    return skewed_ ? scaled(time) : time;
  }
  std::uint64_t tokens = 0;
  for (const PrefillChunk& p : prompts) tokens += p.newTokens;
  return prefill(static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, UINT32_MAX)), 0);
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
    } else if (kind_ == Kind::kPolynomial) {
      sum += polynomial_->chunk(chunk);
      mixed.iterations = 1;
    } else if (kind_ == Kind::kKnots) {
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

LatencyModel LatencyModel::skewed(double factor, double perSequence) const {
  const auto times = [](Fine value, double by, Fine least, Fine most) {
    if (by == 1) return value;
    const double product = static_cast<double>(value) * by;
    if (!(product < static_cast<double>(most))) return most;
    return std::max(least, static_cast<Fine>(product + 0.5));
  };
  const Fine most = fineFromMs(kMaxMs);
  const Fine mostSlope = fineFromMs(kMaxSlopeMs);
  LatencyModel out = *this;
  if (kind_ >= Kind::kRoofline) {
    out.factor_ *= factor;
    out.perSequence_ *= perSequence;
    out.skewed_ = out.factor_ != 1 || out.perSequence_ != 1;
    return out;
  }
  out.prefillBase_ = times(prefillBase_, factor, 0, most);
  out.prefillPerToken_ = times(prefillPerToken_, factor, 0, mostSlope);
  out.decodeBase_ = times(decodeBase_, factor, fineFromMs(1e-6), most);
  out.decodePerSequence_ = times(decodePerSequence_, factor * perSequence, 0, mostSlope);
  out.decodePerContext_ = times(decodePerContext_, factor, 0, mostSlope);
  for (PrefillKnot& knot : out.knots_) knot.time = times(knot.time, factor, 1, fromMs(kMaxMs * 1000));
  return out;
}

bool operator==(const LatencyModel& a, const LatencyModel& b) {
  const auto same = [](const auto& x, const auto& y) { return x == y || (x && y && *x == *y); };
  return a.kind_ == b.kind_ && a.factor_ == b.factor_ && a.perSequence_ == b.perSequence_ &&
         same(a.roofline_, b.roofline_) && same(a.profile_, b.profile_) &&
         same(a.polynomial_, b.polynomial_) && a.prefillBase_ == b.prefillBase_ &&
         a.prefillPerToken_ == b.prefillPerToken_ && a.decodeBase_ == b.decodeBase_ &&
         a.decodePerSequence_ == b.decodePerSequence_ && a.decodePerContext_ == b.decodePerContext_ &&
         std::equal(a.knots_.begin(), a.knots_.end(), b.knots_.begin(), b.knots_.end(),
                    [](const PrefillKnot& x, const PrefillKnot& y) {
                      return x.tokens == y.tokens && x.time == y.time;
                    });
}

}  // namespace laxity
