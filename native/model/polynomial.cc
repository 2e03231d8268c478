#include "model/polynomial.h"

#include <algorithm>
#include <cmath>

#include "model/latency.h"

namespace laxity {
namespace {

constexpr double kMaxMs = 100'000;
constexpr double kMaxSlopeMs = 100;

bool sane(double ms, double limit) { return std::isfinite(ms) && ms >= 0 && ms <= limit; }

Nanos whole(FineSum fine) { return std::clamp<Nanos>(roundFine(fine), 1, fromMs(kMaxMs)); }

}  // namespace

Status Polynomial::create(const LatencyPolynomial& terms, Polynomial* out) {
  if (!sane(terms.prefillBaseMs, kMaxMs) || !sane(terms.prefillPerTokenMs, kMaxSlopeMs) ||
      !sane(terms.prefillPerTokenSquaredMs, kMaxSlopeMs) || terms.decode.empty() ||
      terms.decode.front().fromSequences != 1) {
    return Status::kBadValue;
  }
  Polynomial made;
  made.prefillBase_ = fineFromMs(terms.prefillBaseMs);
  made.prefillPerToken_ = fineFromMs(terms.prefillPerTokenMs);
  made.prefillPerTokenSquared_ = fineFromMs(terms.prefillPerTokenSquaredMs);
  for (const DecodeRegime& r : terms.decode) {
    if (!sane(r.baseMs, kMaxMs) || !sane(r.perSequenceMs, kMaxSlopeMs) ||
        !sane(r.perContextMs, kMaxSlopeMs) || r.baseMs + r.perSequenceMs < 1e-6) {
      return Status::kBadValue;
    }
    if (!made.decode_.empty() && r.fromSequences <= made.decode_.back().fromSequences)
      return Status::kBadValue;
    made.decode_.push_back(
        {r.fromSequences, fineFromMs(r.baseMs), fineFromMs(r.perSequenceMs), fineFromMs(r.perContextMs)});
  }
  *out = std::move(made);
  return Status::kOk;
}

/// `added` tokens behind `done` ones.
FineSum Polynomial::tokens(std::int64_t done, std::int64_t added) const {
  return FineSum{prefillPerToken_} * added +
         FineSum{prefillPerTokenSquared_} * (FineSum{added} * (2 * done + added));
}

Nanos Polynomial::prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const {
  return whole(prefillBase_ + tokens(cachedTokens, newTokens));
}

Nanos Polynomial::prefill(std::span<const PrefillChunk> prompts) const {
  FineSum sum = prefillBase_;
  for (const PrefillChunk& p : prompts)
    sum += tokens(std::int64_t{p.cachedTokens} + p.doneTokens, p.newTokens);
  return whole(sum);
}

FineSum Polynomial::chunk(const PrefillChunk& c) const {
  return tokens(std::int64_t{c.cachedTokens} + c.doneTokens, c.newTokens) +
         (c.doneTokens == 0 ? prefillBase_ : 0);
}

DecodePiece Polynomial::piece(std::uint32_t batch) const {
  std::size_t i = decode_.size() - 1;
  while (i > 0 && decode_[i].fromSequences > batch) --i;
  const Regime& r = decode_[i];
  return {r.base + r.perSequence * static_cast<Fine>(batch), r.perContext, INT64_MAX};
}

}  // namespace laxity
