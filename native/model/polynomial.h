// Service times by polynomials, as simulators of prefill-decode serving fit them (DistServe's, Splitwise's):
// prefills in the tokens of the prompts and their squares, decode linear in sequences and context, each with
// other coefficients from some size on. A curve that is linear between measured points is such a polynomial.
//
//   prefill, as one batch, of prompts with q_i new tokens behind c_i present ones
//     base + perToken * sum q_i + perTokenSquared * sum ((c_i + q_i)^2 - c_i^2)
//   decode iteration of n sequences
//     base + perSequence * n + perContext * (summed context)
//
// with the coefficients of the last regime that begins at or below sum q_i, or n. A prefill may get shorter
// with more tokens (measured curves do), but no regime may reach 0. Integers in units of 2^-20 ns: sums of
// iterations are exact, so leaping over them is. Rounding a coefficient costs at most half a unit a token,
// sequence or squared token: below 2 ns for a prompt of 2,000 tokens. At least 1 ns each; prefills beyond
// 100,000 s are held there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/fixed.h"
#include "base/status.h"
#include "base/time.h"

namespace laxity {

struct DecodePiece;
struct PrefillChunk;

/// Coefficients of the decode iterations of `fromSequences` sequences and more.
struct DecodeRegime {
  std::uint32_t fromSequences = 1;
  double baseMs = 0;
  double perSequenceMs = 0;  ///< of every sequence
  double perContextMs = 0;   ///< per token of context over the batch
};

/// Coefficients of the batches of `fromTokens` new tokens and more.
struct PrefillRegime {
  std::uint32_t fromTokens = 1;
  double baseMs = 0;
  double perTokenMs = 0;
  double perTokenSquaredMs = 0;
};

/// Both ascending; the first of each begins at 1.
struct LatencyPolynomial {
  std::vector<PrefillRegime> prefill;
  std::vector<DecodeRegime> decode;
};

class Polynomial {
 public:
  /// kBadValue: a coefficient that is not finite or too large, or negative where it is not the base or slope
  /// of a prefill; a prefill below 1 ns at an end of its regime, or one that falls for ever; an iteration of
  /// one sequence below 1 ns; regimes that do not begin at 1 or do not ascend.
  static Status create(const LatencyPolynomial& terms, Polynomial* out);

  Nanos prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const;
  /// Whole prompts as one batch, less what is present of each.
  Nanos prefill(std::span<const PrefillChunk> prompts) const;
  /// What a chunk adds to an iteration: the prefill of its prompt up to its end, less that up to its start.
  FineSum chunk(const PrefillChunk& chunk) const;
  DecodePiece piece(std::uint32_t batch) const;

  friend bool operator==(const Polynomial&, const Polynomial&) = default;

 private:
  /// base + linear * x + other * y from x = `from` on.
  struct Regime {
    std::uint32_t from = 1;
    Fine base = 0;
    Fine linear = 0;
    Fine other = 0;
    friend bool operator==(const Regime&, const Regime&) = default;
  };

  static const Regime& at(const std::vector<Regime>& regimes, std::int64_t x);
  FineSum alone(std::int64_t cached, std::int64_t added) const;

  std::vector<Regime> prefill_;
  std::vector<Regime> decode_;
};

}  // namespace laxity
