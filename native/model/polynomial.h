// Service times by polynomials, as simulators of prefill-decode serving fit them (DistServe's, Splitwise's):
// prefills in the tokens of the prompts and their squares, decode linear in sequences and context, with other
// coefficients from some batch size on.
//
//   prefill of prompts L_1 .. L_n as one batch   base + perToken * sum L + perTokenSquared * sum L^2
//   of q new tokens behind c present ones        base + perToken * q + perTokenSquared * ((c + q)^2 - c^2)
//   decode iteration of n sequences              base + perSequence * n + perContext * (summed context)
//
// the last with the coefficients of the last regime that begins at or below n. Integers in units of 2^-20 ns:
// sums of iterations are exact, so leaping over them is. Rounding a coefficient costs at most half a unit a
// token, sequence or squared token: below 2 ns for a prompt of 2,000 tokens. At least 1 ns each; times beyond
// 100 s are held there.
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

struct LatencyPolynomial {
  double prefillBaseMs = 0;
  double prefillPerTokenMs = 0;
  double prefillPerTokenSquaredMs = 0;
  std::vector<DecodeRegime> decode;  ///< ascending; the first begins at 1
};

class Polynomial {
 public:
  /// kBadValue: a coefficient that is negative, not finite or too large, an iteration of one sequence below 1
  /// ns, regimes that do not begin at 1 or do not ascend.
  static Status create(const LatencyPolynomial& terms, Polynomial* out);

  Nanos prefill(std::uint32_t newTokens, std::uint32_t cachedTokens) const;
  /// Whole prompts as one batch, less what is present of each.
  Nanos prefill(std::span<const PrefillChunk> prompts) const;
  /// What a chunk adds to an iteration; the base with the first of its prompt.
  FineSum chunk(const PrefillChunk& chunk) const;
  DecodePiece piece(std::uint32_t batch) const;

  friend bool operator==(const Polynomial&, const Polynomial&) = default;

 private:
  struct Regime {
    std::uint32_t fromSequences = 1;
    Fine base = 0;
    Fine perSequence = 0;
    Fine perContext = 0;
    friend bool operator==(const Regime&, const Regime&) = default;
  };

  FineSum tokens(std::int64_t done, std::int64_t added) const;

  Fine prefillBase_ = 0;
  Fine prefillPerToken_ = 0;
  Fine prefillPerTokenSquared_ = 0;
  std::vector<Regime> decode_;
};

}  // namespace laxity
