// What a call costs on one kind of instance. One interface; the implementations are constants (with measured
// prefill times where there are some), the calibrated roofline (roofline_table.h), a measured profile
// (profile.h) and polynomials (polynomial.h).
//
// Decode is described by exact linear pieces, so that a simulator can leap over iterations: while the summed
// context stays below `contextEnd`, an iteration takes base + perContext * context.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/fixed.h"
#include "base/status.h"
#include "base/time.h"

namespace laxity {

struct DecodePiece {
  Fine base = 0;
  Fine perContext = 0;
  std::int64_t contextEnd = 0;  ///< tokens; the piece holds below it

  FineSum at(std::int64_t context) const { return base + FineSum{perContext} * context; }

  /// Exact sum of `n` < 2^32 iterations of `batch` sequences: the context grows by `batch` with each.
  FineSum sum(std::int64_t context, std::int64_t batch, std::int64_t n) const {
    const FineSum tokens = FineSum{context} * n + FineSum{batch} * (FineSum{n} * (n - 1) / 2);
    return FineSum{base} * n + FineSum{perContext} * tokens;
  }

  /// `offset` plus that sum, rounded. Nearly always 64 bits are enough, and several times cheaper.
  Nanos roundedSum(FineSum offset, std::int64_t context, std::int64_t batch, std::int64_t n) const {
    Fine fine;
    std::int64_t tokens;
    std::int64_t growth;
    if (n < kShort && offset == static_cast<Fine>(offset) && !__builtin_mul_overflow(base, n, &fine) &&
        !__builtin_mul_overflow(batch, n * (n - 1) / 2, &growth) &&
        !__builtin_mul_overflow(context, n, &tokens) && !__builtin_add_overflow(tokens, growth, &tokens) &&
        !__builtin_mul_overflow(perContext, tokens, &tokens) &&
        !__builtin_add_overflow(fine, tokens, &fine) &&
        !__builtin_add_overflow(fine, static_cast<Fine>(offset), &fine)) {
      return roundFine(fine);
    }
    return roundFine(offset + sum(context, batch, n));
  }

 private:
  static constexpr std::int64_t kShort = std::int64_t{1} << 31;  ///< below it n * (n - 1) fits
};

/// What one prefill gets of an iteration.
struct PrefillChunk {
  std::uint32_t cachedTokens = 0;  ///< of its prompt, found in the prefix cache
  std::uint32_t doneTokens = 0;    ///< computed by earlier iterations
  std::uint32_t newTokens = 0;     ///< computed by this one
};

/// Iterations of one composition, decodes and chunks.
struct MixedPiece {
  DecodePiece decode;           ///< with the time of the chunks in its base
  std::int64_t iterations = 0;  ///< for how many it holds; more than one only without chunks, or while a lone
                                ///< chunk is followed by further ones of its size
};

struct LatencyConstants {
  double prefillBaseMs = 0;
  double prefillPerTokenMs = 0;
  double decodeBaseMs = 0;
  double decodePerSequenceMs = 0;  ///< per running sequence beyond the first
  double decodePerContextMs = 0;   ///< per token of context over the batch
};

/// One measured prefill time.
struct PrefillKnot {
  std::uint32_t tokens = 0;
  Nanos time = 0;
};

class Polynomial;
class Profile;
class RooflineTable;
struct LatencyPolynomial;
struct ProfileGrid;
struct RooflineSpec;

/// A value: copies share their tables, which never change.
class LatencyModel {
 public:
  /// Rejects (kBadValue) anything negative, not finite, or too large, and a decode base below 1 ns: time must
  /// advance.
  static Status constants(const LatencyConstants& constants, LatencyModel* out);

  /// Prefill from knots (ascending tokens, non-decreasing times): linear between, proportional outside.
  /// The prefill constants are ignored.
  static Status table(std::vector<PrefillKnot> knots, const LatencyConstants& constants, LatencyModel* out);

  /// The calibrated roofline, tabulated. Refuses what roofline.h's check refuses.
  static Status roofline(const RooflineSpec& spec, LatencyModel* out);

  /// A measured profile. Refuses what profile.h's create refuses.
  static Status profile(ProfileGrid decode, ProfileGrid prefill, LatencyModel* out);

  /// Refuses what polynomial.h's create refuses.
  static Status polynomial(const LatencyPolynomial& terms, LatencyModel* out);

  /// Time of a whole prefill that computes `newTokens` on top of `cachedTokens` already present. At least 1
  /// ns.
  Nanos prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const {
    if (kind_ != Kind::kConstants) return prefillFromTable(newTokens, cachedTokens);
    Fine fine;
    const Nanos time = __builtin_mul_overflow(prefillPerToken_, static_cast<Fine>(newTokens), &fine) ||
                               __builtin_add_overflow(fine, prefillBase_, &fine)
                           ? roundFine(FineSum{prefillPerToken_} * newTokens + prefillBase_)
                           : roundFine(fine);
    return time > 1 ? time : 1;
  }

  /// Whole prompts prefilled as one batch that carries no decodes; what is present of each is not computed.
  /// Constants and polynomials: the prefill base once and the terms of each prompt. Tables: the time of all
  /// new tokens together. The roofline prices the iteration as a whole, profiles add the prompts up. One
  /// prompt costs what `prefill` says. At least 1 ns.
  Nanos prefillBatch(std::span<const PrefillChunk> prompts) const;

  /// The piece that holds for `batch` >= 1 sequences at `context` tokens in all.
  DecodePiece piece(std::uint32_t batch, std::int64_t context) const {
    if (kind_ >= Kind::kRoofline) [[unlikely]]
      return pieceFromTable(batch, context);
    return {decodeBase_ + decodePerSequence_ * (static_cast<Fine>(batch) - 1), decodePerContext_, kUnbounded};
  }

  /// An iteration that carries chunks of prefills beside the decodes of `batch` >= 0 sequences. Constants and
  /// tables: the decode iteration, plus for each chunk the rise of the prefill time from the tokens that are
  /// done to those that will be (the prefill base comes with the first chunk), so that a prefill costs the
  /// same in one piece and in many; profiles and polynomials likewise. The roofline prices the iteration as a
  /// whole, as if every chunk ended its prompt. At least 1 ns, at most the longest Fine.
  MixedPiece mixed(std::uint32_t batch, std::int64_t context, std::span<const PrefillChunk> chunks) const;

  /// `steps` iterations of one sequence alone, starting with `context` tokens; rounded once.
  Nanos decodeAlone(std::int64_t context, std::int64_t steps) const {
    const DecodePiece first = piece(1, context);
    if (first.contextEnd - context >= steps) return first.roundedSum(0, context, 1, steps);
    return decodeAcross(context, steps);
  }

  /// This model with every time multiplied by `factor` and the term per further sequence by `perSequence` as
  /// well: what a mistaken scheduler believes. A factor of 1 keeps every bit; results stay within the bounds
  /// of `constants`.
  LatencyModel skewed(double factor, double perSequence) const;

  /// An iteration never gets shorter with more sequences or more context. Measured curves may.
  bool risesWithLoad() const { return kind_ <= Kind::kRoofline && !skewed_; }

  /// Prefills take base + perToken * tokens, also as a batch.
  bool hasConstants() const { return kind_ == Kind::kConstants; }

  friend bool operator==(const LatencyModel& a, const LatencyModel& b);

 private:
  static constexpr std::int64_t kUnbounded = INT64_MAX;

  /// In this order: what needs no table comes first.
  enum class Kind : std::uint8_t { kConstants, kKnots, kRoofline, kProfile, kPolynomial };

  Nanos prefillFromTable(std::uint32_t newTokens, std::uint32_t cachedTokens) const;
  DecodePiece tablePiece(std::uint32_t batch, std::int64_t context) const;
  DecodePiece pieceFromTable(std::uint32_t batch, std::int64_t context) const;
  Nanos prefillFromKnots(std::uint32_t newTokens) const;
  Nanos scaled(Nanos time) const;
  Nanos decodeAcross(std::int64_t context, std::int64_t steps) const;

  // Of the kinds with a table, which all copies share: what `skewed` has multiplied.
  bool skewed_ = false;
  double factor_ = 1;
  double perSequence_ = 1;

  Kind kind_ = Kind::kConstants;
  Fine prefillBase_ = 0;
  Fine prefillPerToken_ = 0;
  Fine decodeBase_ = 0;
  Fine decodePerSequence_ = 0;
  Fine decodePerContext_ = 0;
  std::vector<PrefillKnot> knots_;
  std::shared_ptr<const RooflineTable> roofline_;
  std::shared_ptr<const Profile> profile_;
  std::shared_ptr<const Polynomial> polynomial_;
};

}  // namespace laxity
