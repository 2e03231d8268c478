// The pass over four calls at a time. Only this file uses AVX2, and only in functions marked so: it is
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

LAXITY_AVX2 void evaluateGroup(Frame& f, std::uint32_t group) {
  const std::uint32_t lane = group * kLanes;
  const double* block = f.block(group);
  const __m256d infinite = _mm256_set1_pd(kInfinite);
  const __m256d none = _mm256_set1_pd(-1);
  const __m256d output = _mm256_loadu_pd(block);
  const __m256d skip = _mm256_loadu_pd(&f.skip[lane]);
  __m256d bestFinish = infinite;
  __m256d bestReady = _mm256_set1_pd(-kInfinite);
  __m256d bestDecode = none;
  __m256d bestPrefill = none;
  for (std::uint32_t g = 0; g < f.decodeClasses; ++g) {
    const DecodeCandidate* d = f.decode.first(g);
    const DecodeCandidate* last = f.decode.last(g);
    if (d == last) continue;
    __m256d ready = infinite;
    __m256d prefill = none;
    const double* row = block + std::size_t{1 + g * f.prefillClasses} * kLanes;
    for (const Frame::Representative& p : f.representatives) {
      const __m256d r =
          _mm256_add_pd(_mm256_set1_pd(p.clip), _mm256_loadu_pd(row + std::size_t{p.hardwareClass} * kLanes));
      const __m256d less = _mm256_cmp_pd(r, ready, _CMP_LT_OQ);
      ready = _mm256_blendv_pd(ready, r, less);
      prefill = _mm256_blendv_pd(prefill, _mm256_set1_pd(p.rank), less);
    }
    if (f.holders) {
      for (std::uint32_t k = 0; k < 2; ++k) {
        const __m128i p = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&f.holder[k][lane]));
        const __m256d rank = gather(f.rank.data(), p);
        const __m256d r = _mm256_add_pd(
            gather(f.clip.data(), p),
            _mm256_loadu_pd(block + std::size_t{f.holderRow() + k * f.decodeClasses + g} * kLanes));
        const __m256d less = _mm256_or_pd(
            _mm256_cmp_pd(r, ready, _CMP_LT_OQ),
            _mm256_and_pd(_mm256_cmp_pd(r, ready, _CMP_EQ_OQ), _mm256_cmp_pd(rank, prefill, _CMP_LT_OQ)));
        ready = _mm256_blendv_pd(ready, r, less);
        prefill = _mm256_blendv_pd(prefill, rank, less);
      }
    }
    __m256d stopped = _mm256_or_pd(skip, _mm256_cmp_pd(ready, infinite, _CMP_EQ_OQ));
    for (; d != last; ++d) {
      const __m256d service = _mm256_mul_pd(output, _mm256_set1_pd(d->perToken));
      __m256d finish = _mm256_add_pd(ready, service);
      stopped = _mm256_or_pd(stopped, _mm256_cmp_pd(finish, bestFinish, _CMP_GT_OQ));
      if (_mm256_movemask_pd(stopped) == 0xf) break;
      const double* waits = f.waits(d->slot);
      __m256d waiting = _mm256_setzero_pd();
      if (waits != nullptr) {
        waiting = _mm256_loadu_pd(waits + lane);
        finish = _mm256_add_pd(_mm256_max_pd(ready, waiting), service);
      }
      const __m256d rank = _mm256_set1_pd(d->rank);
      const __m256d tie = _mm256_or_pd(_mm256_cmp_pd(ready, bestReady, _CMP_LT_OQ),
                                       _mm256_and_pd(_mm256_cmp_pd(ready, bestReady, _CMP_EQ_OQ),
                                                     _mm256_cmp_pd(rank, bestDecode, _CMP_LT_OQ)));
      const __m256d better = _mm256_or_pd(_mm256_cmp_pd(finish, bestFinish, _CMP_LT_OQ),
                                          _mm256_and_pd(_mm256_cmp_pd(finish, bestFinish, _CMP_EQ_OQ), tie));
      bestFinish = _mm256_blendv_pd(bestFinish, finish, better);
      bestReady = _mm256_blendv_pd(bestReady, ready, better);
      bestDecode = _mm256_blendv_pd(bestDecode, rank, better);
      bestPrefill = _mm256_blendv_pd(bestPrefill, prefill, better);
      if (waits == nullptr) break;  // all fit now: every lane attains its bound
      stopped = _mm256_or_pd(stopped, _mm256_cmp_pd(waiting, ready, _CMP_LE_OQ));
    }
  }
  bestDecode = _mm256_blendv_pd(bestDecode, none, skip);
  bestPrefill = _mm256_blendv_pd(bestPrefill, none, skip);
  const __m256d score = _mm256_mul_pd(_mm256_sub_pd(bestFinish, _mm256_loadu_pd(&f.origin[lane])),
                                      _mm256_loadu_pd(&f.slope[lane]));
  const __m256d absent = _mm256_cmp_pd(bestDecode, _mm256_setzero_pd(), _CMP_LT_OQ);
  _mm256_storeu_pd(&f.finish[lane], bestFinish);
  _mm256_storeu_pd(&f.ready[lane], bestReady);
  _mm256_storeu_pd(&f.bestDecode[lane], bestDecode);
  _mm256_storeu_pd(&f.bestPrefill[lane], bestPrefill);
  _mm256_storeu_pd(&f.score[lane], _mm256_blendv_pd(score, _mm256_set1_pd(-kInfinite), absent));
  for (std::uint32_t k = 0; k < kLanes; ++k) {
    if (f.lockedIn[group] >> k & 1) evaluateFromColumns(f, lane + k);
  }
}

LAXITY_AVX2 std::uint32_t pass(Frame& f, double p, double d, bool all) {
  const __m256d changedPrefill = _mm256_set1_pd(p);
  const __m256d changedDecode = _mm256_set1_pd(d);
  std::uint32_t pick = kNoSlot;
  double best = std::numeric_limits<double>::lowest();
  for (std::uint32_t group = 0; group < f.groups; ++group) {
    if (f.liveIn[group] == 0) continue;
    const std::uint32_t lane = group * kLanes;
    const __m256d touched =
        _mm256_or_pd(_mm256_cmp_pd(_mm256_loadu_pd(&f.bestPrefill[lane]), changedPrefill, _CMP_EQ_OQ),
                     _mm256_cmp_pd(_mm256_loadu_pd(&f.bestDecode[lane]), changedDecode, _CMP_EQ_OQ));
    if (all || _mm256_movemask_pd(touched) != 0) evaluateGroup(f, group);
    const __m256d score = _mm256_loadu_pd(&f.score[lane]);
    int candidates = _mm256_movemask_pd(_mm256_cmp_pd(score, _mm256_set1_pd(best), _CMP_GE_OQ));
    for (; candidates != 0; candidates &= candidates - 1) {
      const std::uint32_t i =
          lane + static_cast<std::uint32_t>(__builtin_ctz(static_cast<unsigned>(candidates)));
      if (f.score[i] > best || (f.score[i] == best && f.before(i, pick))) {
        best = f.score[i];
        pick = i;
      }
    }
  }
  return pick;
}

}  // namespace

Pass passAvx2() { return __builtin_cpu_supports("avx2") ? pass : nullptr; }

}  // namespace laxity

#else

namespace laxity {

Pass passAvx2() { return nullptr; }

}  // namespace laxity

#endif
