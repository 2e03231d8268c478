#include "model/polynomial.h"

#include <algorithm>
#include <cmath>

#include "model/latency.h"

namespace laxity {
namespace {

constexpr double kMaxMs = 100'000;
constexpr double kMaxSlopeMs = 100;
constexpr double kLeastMs = 1e-6;

bool within(double ms, double limit) { return std::isfinite(ms) && std::abs(ms) <= limit; }
bool sane(double ms, double limit) { return within(ms, limit) && ms >= 0; }

bool sane(const PrefillRegime& r, const PrefillRegime* next) {
  if (!within(r.baseMs, kMaxMs) || !within(r.perTokenMs, kMaxSlopeMs) ||
      !sane(r.perTokenSquaredMs, kMaxSlopeMs)) {
    return false;
  }
  // The squares are left out: with a cached prefix they may be large, never negative.
  const auto at = [&](double tokens) { return r.baseMs + r.perTokenMs * tokens; };
  if (next == nullptr) return at(r.fromTokens) >= kLeastMs && r.perTokenMs >= 0;
  return next->fromTokens > r.fromTokens && at(r.fromTokens) >= kLeastMs && at(next->fromTokens) >= kLeastMs;
}

bool sane(const DecodeRegime& r, const DecodeRegime* next) {
  return sane(r.baseMs, kMaxMs) && sane(r.perSequenceMs, kMaxSlopeMs) && sane(r.perContextMs, kMaxSlopeMs) &&
         r.baseMs + r.perSequenceMs >= kLeastMs && (next == nullptr || next->fromSequences > r.fromSequences);
}

template <class Regime>
bool saneAll(const std::vector<Regime>& regimes) {
  for (std::size_t i = 0; i < regimes.size(); ++i) {
    if (!sane(regimes[i], i + 1 < regimes.size() ? &regimes[i + 1] : nullptr)) return false;
  }
  return !regimes.empty();
}

Nanos whole(FineSum fine) { return std::clamp<Nanos>(roundFine(fine), 1, fromMs(kMaxMs * 1000)); }

FineSum grown(std::int64_t cached, std::int64_t added) { return FineSum{added} * (2 * cached + added); }

}  // namespace

Status Polynomial::create(const LatencyPolynomial& terms, Polynomial* out) {
  if (!saneAll(terms.prefill) || terms.prefill.front().fromTokens != 1 || !saneAll(terms.decode) ||
      terms.decode.front().fromSequences != 1) {
    return Status::kBadValue;
  }
  Polynomial made;
  for (const PrefillRegime& r : terms.prefill)
    made.prefill_.push_back(
        {r.fromTokens, fineFromMs(r.baseMs), fineFromMs(r.perTokenMs), fineFromMs(r.perTokenSquaredMs)});
  for (const DecodeRegime& r : terms.decode)
    made.decode_.push_back(
        {r.fromSequences, fineFromMs(r.baseMs), fineFromMs(r.perSequenceMs), fineFromMs(r.perContextMs)});
  *out = std::move(made);
  return Status::kOk;
}

const Polynomial::Regime& Polynomial::at(const std::vector<Regime>& regimes, std::int64_t x) {
  std::size_t i = regimes.size() - 1;
  while (i > 0 && regimes[i].from > x) --i;
  return regimes[i];
}

/// `added` tokens of one prompt behind `cached` ones.
FineSum Polynomial::alone(std::int64_t cached, std::int64_t added) const {
  const Regime& r = at(prefill_, added);
  return r.base + FineSum{r.linear} * added + r.other * grown(cached, added);
}

Nanos Polynomial::prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const {
  return whole(alone(cachedTokens, newTokens));
}

Nanos Polynomial::prefill(std::span<const PrefillChunk> prompts) const {
  std::int64_t tokens = 0;
  FineSum squares = 0;
  for (const PrefillChunk& p : prompts) {
    tokens += p.newTokens;
    squares += grown(p.cachedTokens, p.newTokens);
  }
  const Regime& r = at(prefill_, tokens);
  return whole(r.base + FineSum{r.linear} * tokens + r.other * squares);
}

FineSum Polynomial::chunk(const PrefillChunk& c) const {
  const std::int64_t done = c.doneTokens;
  return alone(c.cachedTokens, done + c.newTokens) - (done > 0 ? alone(c.cachedTokens, done) : 0);
}

DecodePiece Polynomial::piece(std::uint32_t batch) const {
  const Regime& r = at(decode_, batch);
  return {r.base + r.linear * static_cast<Fine>(batch), r.other, INT64_MAX};
}

}  // namespace laxity
