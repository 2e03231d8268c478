// The calibrated roofline of one (model, GPU, tensor parallelism, precision): the time of an engine iteration
// as a closed form, summed over kernels (reference latency-model.md, section 2).
//
// An iteration is described by sums that cost O(1) to maintain. Everything but attention depends on the
// number of tokens and of emitting sequences alone, and decode attention is linear in the summed context:
// what latency.h tabulates and leaps over. Monotone in every sum, and falling in every peak.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "model/gpu.h"
#include "model/kernel_sets.h"
#include "model/kernels.h"
#include "model/llm.h"

namespace laxity {

enum class Precision : std::uint8_t { kBf16 = 0, kFp8 = 1 };

struct RooflineSpec {
  LlmSpec llm;
  GpuSpec gpu;
  std::uint32_t tensorParallel = 1;  ///< 1, 2, 4 or 8, a divisor of the query heads
  Precision weights = Precision::kBf16;
  Precision kv = Precision::kBf16;
  Stack stack = kStacks[0].stack;

  double weightBytes() const { return weights == Precision::kBf16 ? 2 : 1; }
  double kvBytes() const { return kv == Precision::kBf16 ? 2 : 1; }
};

/// kBadValue: a size, peak or stack out of range. kBadParallelism: a tensor parallelism that is not 1, 2, 4
/// or 8, or does not divide the query heads. kNotMeasured: FP8 on a GPU without it, or no kernels of that
/// kind.
Status check(const RooflineSpec& spec);

struct IterationLoad {
  double sequences = 0;  ///< decoding, one new token each
  double context = 0;    ///< their tokens in the KV cache before the iteration, summed
  PrefillLoad prefill;
  double samples = 0;  ///< sequences that emit a token: those that decode, and prompts that end here
};

class Roofline {
 public:
  Roofline() = default;
  /// `spec` must have passed check.
  explicit Roofline(const RooflineSpec& spec);

  /// Everything but attention and the stack, all layers, ns; 0 tokens cost 0.
  double linear(double tokens) const;
  /// Output projection, ns; 0 samples cost 0.
  double head(double samples) const { return samples > 0 ? head_.ns(samples) : 0; }
  double prefillAttention(const PrefillLoad& load) const {
    return load.fresh > 0 ? layers_ * prefillAttention_.ns(load) : 0;
  }
  /// Without the context term.
  double decodeAttention(double sequences) const {
    return sequences > 0 ? layers_ * decodeAttention_.ns(sequences, 0) : 0;
  }
  double perContext() const { return layers_ * decodeAttention_.perContext(); }

  /// The sum of the kernels, ns.
  double kernels(const IterationLoad& load) const {
    return linear(load.sequences + load.prefill.fresh) + head(load.samples) + prefillAttention(load.prefill) +
           decodeAttention(load.sequences) + perContext() * load.context;
  }

  /// `kernels` ns of kernels and `samples` emitting sequences under the serving stack, ns.
  double stacked(double kernels, double samples) const {
    return scale_ * kernels + fixed_ + perSample_ * samples;
  }
  double scale() const { return scale_; }

  double iteration(const IterationLoad& load) const { return stacked(kernels(load), load.samples); }

 private:
  double layers_ = 0;
  bool mixture_ = false;
  bool parallel_ = false;
  Gemm qkv_;
  Gemm output_;
  Gemm up_;  ///< with experts: the router
  Gemm down_;
  Mixture experts_;
  AllReduce allReduce_;
  PrefillAttention prefillAttention_;
  DecodeAttention decodeAttention_;
  Gemm head_;
  double elementwise_ = 0;  ///< ns per token and layer
  double scale_ = 1;
  double fixed_ = 0;
  double perSample_ = 0;
};

}  // namespace laxity
