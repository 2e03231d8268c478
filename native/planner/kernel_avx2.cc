// The inner loops over four lanes at a time. Only this file uses AVX2, and only in functions marked so: it is
// compiled for any x86-64 and chosen when the processor has it. Every operation has its scalar twin in
// frame.h, on the same exact integers; lanes that have stopped see further candidates, which lose
// (planner.md, claim 2).
#include "planner/frame.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <immintrin.h>

#define LAXITY_AVX2 __attribute__((target("avx2")))

namespace laxity {
namespace {

LAXITY_AVX2 inline __m256d gather(const double* from, __m128i index) {
  const __m256d zero = _mm256_setzero_pd();
  return _mm256_mask_i32gather_pd(zero, from, index, _mm256_cmp_pd(zero, zero, _CMP_EQ_OQ), 8);
}

LAXITY_AVX2 inline double highest(__m256d v) {
  const __m128d pair = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_max_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

/// Scores of a group's cached pairs now, minus infinity without one; returns the largest. With `charge`:
/// bounds.
LAXITY_AVX2 inline double value(Frame& f, std::uint32_t lane, __m256d ready, __m256d wait, __m256d service,
                                __m256d decodeRank, const __m256d* charge = nullptr) {
  __m256d finish = _mm256_add_pd(_mm256_max_pd(ready, wait), service);
  if (charge != nullptr) finish = _mm256_add_pd(finish, *charge);
  const __m256d score = _mm256_mul_pd(_mm256_sub_pd(finish, _mm256_loadu_pd(f.origin.data() + lane)),
                                      _mm256_loadu_pd(f.slope.data() + lane));
  const __m256d absent = _mm256_cmp_pd(decodeRank, _mm256_setzero_pd(), _CMP_LT_OQ);
  const __m256d result = _mm256_blendv_pd(score, _mm256_set1_pd(-kInfinite), absent);
  _mm256_storeu_pd(f.score.data() + lane, result);
  return highest(result);
}

/// w_d of a group on an instance whose column is out of date: asked only for lanes that could still win with
/// the earlier value, which is a lower bound; the others keep it and lose.
__attribute__((noinline)) void askAgain(Frame& f, std::uint32_t d, double* waits, std::uint32_t lane,
                                        int wanted) {
  for (std::uint32_t k = 0; k < kLanes; ++k) {
    if (wanted >> k & 1) waits[lane + k] = f.decode.wait(d, f.kv[lane + k]);
  }
}

/// All bits of the lanes whose bit is set.
LAXITY_AVX2 inline __m256d lanesOf(std::uint8_t bits) {
  const __m256i own = _mm256_set_epi64x(8, 4, 2, 1);
  return _mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(bits), own), own));
}

template <bool kPriced>
LAXITY_AVX2 inline __m256d cost(__m256d finish, __m256d charge) {
  if constexpr (kPriced) return _mm256_add_pd(finish, charge);
  return finish;
}

template <bool kPriced>
LAXITY_AVX2 void evaluateGroup(Frame& f, std::uint32_t group) {
  const std::uint32_t lane = group * kLanes;
  const double* block = f.block(group);
  const double* clip = f.clip.data();
  const double* ranks = f.rank.data();
  const std::uint32_t* representatives = f.representatives.data();
  const std::size_t sources = f.representatives.size();
  const __m256d infinite = _mm256_set1_pd(kInfinite);
  const __m256d none = _mm256_set1_pd(-1);
  const __m256d never = _mm256_set1_pd(static_cast<double>(f.clip.size() - 1));
  const __m256d output = _mm256_loadu_pd(block);
  const __m256d skip = _mm256_loadu_pd(f.skip.data() + lane);
  __m256d bestFinish = infinite;
  __m256d bestCost = infinite;  // kPriced; else the finish is the cost
  __m256d bestCharge = _mm256_setzero_pd();
  __m256d bestReady = _mm256_set1_pd(-kInfinite);
  __m256d bestDecode = none;
  __m256d bestSource = never;
  __m256d bestWait = infinite;
  __m256d bestService = infinite;
  for (std::uint32_t g = 0; g < f.decodeClasses; ++g) {
    const DecodeCandidate* d = f.decode.first(g);
    const DecodeCandidate* last = f.decode.last(g);
    if (d == last) continue;
    __m256d ready = infinite;
    __m256d source = never;
    const double* row = block + std::size_t{1 + g * f.prefillClasses} * kLanes;
    for (std::size_t k = 0; k < sources; ++k) {
      const std::uint32_t p = representatives[k];
      const __m256d r =
          _mm256_add_pd(_mm256_broadcast_sd(clip + p), _mm256_loadu_pd(row + std::size_t{p} * kLanes));
      const __m256d less = _mm256_cmp_pd(r, ready, _CMP_LT_OQ);
      ready = _mm256_min_pd(r, ready);
      source = _mm256_blendv_pd(source, _mm256_set1_pd(p), less);
    }
    if (f.holders) {
      __m256d rank = gather(ranks, _mm256_cvtpd_epi32(source));
      for (std::uint32_t k = 0; k < 2; ++k) {
        const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(f.holder[k].data() + lane));
        const __m256d rankH = gather(ranks, h);
        const __m256d r = _mm256_add_pd(
            gather(clip, h),
            _mm256_loadu_pd(block + std::size_t{f.holderRow() + k * f.decodeClasses + g} * kLanes));
        const __m256d less = _mm256_or_pd(
            _mm256_cmp_pd(r, ready, _CMP_LT_OQ),
            _mm256_and_pd(_mm256_cmp_pd(r, ready, _CMP_EQ_OQ), _mm256_cmp_pd(rankH, rank, _CMP_LT_OQ)));
        ready = _mm256_blendv_pd(ready, r, less);
        rank = _mm256_blendv_pd(rank, rankH, less);
        source = _mm256_blendv_pd(source, _mm256_cvtepi32_pd(h), less);
      }
    }
    __m256d stopped = _mm256_or_pd(skip, _mm256_cmp_pd(ready, infinite, _CMP_EQ_OQ));
    const __m256d share =
        kPriced ? _mm256_mul_pd(_mm256_broadcast_sd(&f.prices[g]), _mm256_loadu_pd(f.tokens.data() + lane))
                : _mm256_setzero_pd();
    for (; d != last; ++d) {
      const __m256d service = _mm256_mul_pd(output, _mm256_broadcast_sd(&d->perToken));
      const __m256d bound = _mm256_add_pd(ready, service);
      const __m256d charge = kPriced ? _mm256_mul_pd(service, share) : _mm256_setzero_pd();
      const __m256d& least = kPriced ? bestCost : bestFinish;
      stopped = _mm256_or_pd(stopped, _mm256_cmp_pd(cost<kPriced>(bound, charge), least, _CMP_GT_OQ));
      const int open = ~_mm256_movemask_pd(stopped) & 0xf;
      if (open == 0) break;
      double* waits = f.waits(d->slot, false);
      __m256d waiting = _mm256_setzero_pd();
      __m256d finish = bound;
      if (waits != nullptr) {
        waiting = _mm256_loadu_pd(waits + lane);
        finish = _mm256_add_pd(_mm256_max_pd(ready, waiting), service);
        int wanted =
            _mm256_movemask_pd(_mm256_cmp_pd(cost<kPriced>(finish, charge), least, _CMP_LE_OQ)) & open;
        if (wanted != 0 && !f.waitsAreExact(d->slot)) {
          askAgain(f, d->slot, waits, lane, wanted);
          waiting = _mm256_loadu_pd(waits + lane);
          finish = _mm256_add_pd(_mm256_max_pd(ready, waiting), service);
          wanted = _mm256_movemask_pd(_mm256_cmp_pd(cost<kPriced>(finish, charge), least, _CMP_LE_OQ)) & open;
        }
        if (wanted == 0) continue;  // nobody wins here, and nobody attains its bound
      }
      const __m256d rank = _mm256_broadcast_sd(&d->rank);
      const __m256d tie = _mm256_or_pd(_mm256_cmp_pd(ready, bestReady, _CMP_LT_OQ),
                                       _mm256_and_pd(_mm256_cmp_pd(ready, bestReady, _CMP_EQ_OQ),
                                                     _mm256_cmp_pd(rank, bestDecode, _CMP_LT_OQ)));
      __m256d wins = _mm256_or_pd(_mm256_cmp_pd(finish, bestFinish, _CMP_LT_OQ),
                                  _mm256_and_pd(_mm256_cmp_pd(finish, bestFinish, _CMP_EQ_OQ), tie));
      if constexpr (kPriced) {
        wins = _mm256_or_pd(
            _mm256_cmp_pd(cost<kPriced>(finish, charge), bestCost, _CMP_LT_OQ),
            _mm256_and_pd(_mm256_cmp_pd(cost<kPriced>(finish, charge), bestCost, _CMP_EQ_OQ), wins));
      }
      const __m256d better = _mm256_andnot_pd(stopped, wins);
      if constexpr (kPriced) {
        bestCost = _mm256_blendv_pd(bestCost, cost<kPriced>(finish, charge), better);
        bestCharge = _mm256_blendv_pd(bestCharge, charge, better);
      }
      bestFinish = _mm256_blendv_pd(bestFinish, finish, better);
      bestReady = _mm256_blendv_pd(bestReady, ready, better);
      bestDecode = _mm256_blendv_pd(bestDecode, rank, better);
      bestSource = _mm256_blendv_pd(bestSource, source, better);
      bestWait = _mm256_blendv_pd(bestWait, waiting, better);
      bestService = _mm256_blendv_pd(bestService, service, better);
      if (waits == nullptr) break;  // all fit now: every lane attains its bound
      stopped = _mm256_or_pd(stopped, _mm256_cmp_pd(waiting, ready, _CMP_LE_OQ));
    }
  }
  const __m128i source = _mm256_cvtpd_epi32(bestSource);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(f.source.data() + lane), source);
  _mm256_storeu_pd(f.toReady.data() + lane, _mm256_sub_pd(bestReady, gather(clip, source)));
  _mm256_storeu_pd(f.wait.data() + lane, bestWait);
  _mm256_storeu_pd(f.service.data() + lane, bestService);
  if constexpr (kPriced) _mm256_storeu_pd(f.charge.data() + lane, bestCharge);
  _mm256_storeu_pd(f.decodeRank.data() + lane, bestDecode);
  f.best[group] = value(f, lane, bestReady, bestWait, bestService, bestDecode);
  f.staleIn[group] = 0;
  if (f.lockedIn[group] == 0) return;
  for (std::uint32_t k = 0; k < kLanes; ++k) {
    if (!(f.lockedIn[group] >> k & 1)) continue;
    evaluateLane(f, lane + k);
    f.best[group] = std::max(f.best[group], f.score[lane + k]);
  }
}

LAXITY_AVX2 std::uint32_t pick(Frame& f) {
  const double* best = f.best.data();
  for (;;) {
    __m256d top4 = _mm256_set1_pd(-kInfinite);
    for (std::uint32_t group = 0; group < f.groups; group += kLanes)
      top4 = _mm256_max_pd(top4, _mm256_loadu_pd(best + group));
    const double top = highest(top4);
    if (top == -kInfinite) return kNoSlot;
    top4 = _mm256_set1_pd(top);
    std::uint32_t chosen = kNoSlot;
    for (std::uint32_t group = 0; group < f.groups; group += kLanes) {
      int equal = _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(best + group), top4, _CMP_EQ_OQ));
      for (; equal != 0; equal &= equal - 1) {
        const std::uint32_t g =
            group + static_cast<std::uint32_t>(__builtin_ctz(static_cast<unsigned>(equal)));
        chosen = firstOf(f, g, top, chosen);
      }
    }
    if (!stale(f, chosen)) return chosen;
    const std::uint32_t g = chosen / kLanes;
    evaluateLane(f, chosen);  // alone: the others of its group seldom come out first before they change again
    f.staleIn[g] &= static_cast<std::uint8_t>(~(1u << (chosen % kLanes)));
    f.best[g] = highest(_mm256_loadu_pd(f.score.data() + std::size_t{g} * kLanes));
  }
}

LAXITY_AVX2 std::uint32_t first(Frame& f) {
  for (std::uint32_t group = 0; group < f.groups; ++group) {
    if (f.priced)
      evaluateGroup<true>(f, group);
    else
      evaluateGroup<false>(f, group);
  }
  return pick(f);
}

template <bool kPriced>
LAXITY_AVX2 std::uint32_t next(Frame& f, const Changed& changed) {
  const std::int32_t* source = f.source.data();
  const double* decodeRank = f.decodeRank.data();
  const __m256d decode = _mm256_set1_pd(changed.decodeRank);
  const __m128i representative = _mm_set1_epi32(changed.representative);
  const __m128i instance = _mm_set1_epi32(changed.instance);
  double* waits = nullptr;
  bool exact = true;
  if (!f.allFit(changed.decode)) {
    int asking = 0;
    for (std::uint32_t lane = 0; lane < f.groups * kLanes; lane += kLanes) {
      asking += __builtin_popcount(static_cast<unsigned>(
          _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(decodeRank + lane), decode, _CMP_EQ_OQ))));
    }
    f.expectWaits(changed.decode, static_cast<std::uint32_t>(asking));
    waits = f.waits(changed.decode, false);
    exact = f.waitsAreExact(changed.decode);
  }
  const __m256d perToken = _mm256_broadcast_sd(&f.decode.candidate(changed.decode)->perToken);
  const __m256d price = _mm256_broadcast_sd(&f.prices[f.decode.classOf(changed.decode)]);
  const double* clip = f.clip.data();
  double* toReady = f.toReady.data();
  double* wait = f.wait.data();
  double* service = f.service.data();
  for (std::uint32_t group = 0; group < f.groups; ++group) {
    const std::uint32_t lane = group * kLanes;
    const __m128i from = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + lane));
    const __m128i moved =
        _mm_or_si128(_mm_cmpeq_epi32(from, representative), _mm_cmpeq_epi32(from, instance));
    const __m256d rank = _mm256_loadu_pd(decodeRank + lane);
    const __m256d here = _mm256_cmp_pd(rank, decode, _CMP_EQ_OQ);
    const int on = _mm256_movemask_pd(here);
    const int touched = on | _mm_movemask_ps(_mm_castsi128_ps(moved));
    if (touched == 0) continue;
    __m256d waiting = _mm256_loadu_pd(wait + lane);
    __m256d serving = _mm256_loadu_pd(service + lane);
    if (on != 0) {
      __m256d now = _mm256_setzero_pd();
      if (waits != nullptr) {
        if (!exact) askAgain(f, changed.decode, waits, lane, on);
        now = _mm256_loadu_pd(waits + lane);
      }
      waiting = _mm256_blendv_pd(waiting, now, here);
      serving = _mm256_blendv_pd(serving, _mm256_mul_pd(_mm256_loadu_pd(f.block(group)), perToken), here);
      _mm256_storeu_pd(wait + lane, waiting);
      _mm256_storeu_pd(service + lane, serving);
    }
    f.staleIn[group] |= static_cast<std::uint8_t>(touched);
    const __m256d ready = _mm256_add_pd(gather(clip, from), _mm256_loadu_pd(toReady + lane));
    if constexpr (kPriced) {
      const __m256d share = _mm256_mul_pd(price, _mm256_loadu_pd(f.tokens.data() + lane));
      const __m256d charge =
          _mm256_blendv_pd(_mm256_loadu_pd(f.charge.data() + lane), _mm256_mul_pd(serving, share), here);
      _mm256_storeu_pd(f.charge.data() + lane, charge);
      const __m256d above = _mm256_and_pd(charge, lanesOf(f.staleIn[group]));  // exact scores stay
      f.best[group] = value(f, lane, ready, waiting, serving, rank, &above);
    } else {
      f.best[group] = value(f, lane, ready, waiting, serving, rank);
    }
  }
  return pick(f);
}

std::uint32_t nextOf(Frame& f, const Changed& changed) {
  return f.priced ? next<true>(f, changed) : next<false>(f, changed);
}

constexpr Kernel kAvx2{first, nextOf};

}  // namespace

const Kernel* avx2Kernel() { return __builtin_cpu_supports("avx2") ? &kAvx2 : nullptr; }

}  // namespace laxity

#else

namespace laxity {

const Kernel* avx2Kernel() { return nullptr; }

}  // namespace laxity

#endif
