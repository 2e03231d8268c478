#include "model/roofline.h"

#include <algorithm>
#include <cmath>

namespace laxity {
namespace {

constexpr double kElementwiseNs = 6000;  ///< per layer: norms, activation, residuals
constexpr double kElementwiseBandwidth = 0.7;

int parallelIndex(std::uint32_t tp) { return tp == 2 ? 0 : tp == 4 ? 1 : 2; }

bool within(double value, double low, double high) { return value >= low && value <= high; }

/// L40S hosts have no switch: a GPU with one that borrows their kernels takes the A100's all-reduce.
const AllReduceConstants& allReduceOf(const GpuSpec& gpu, std::uint32_t tp) {
  const int at = parallelIndex(tp);
  if (gpu.interconnect == Interconnect::kPcie) return kPcieAllReduce[at];
  const AllReduceConstants& own = kKernelSets[gpu.kernels].allReduce[at];
  return own.bandwidthGBps > 0 ? own : kKernelSets[0].allReduce[at];
}

}  // namespace

Status check(const RooflineSpec& s) {
  if (!ok(check(s.llm)) || !ok(check(s.gpu))) return Status::kBadValue;
  if (!within(s.stack.scale, 0.01, 100) || !within(s.stack.fixedMs, 0, 10'000) ||
      !within(s.stack.perSequenceMs, 0, 100)) {
    return Status::kBadValue;
  }
  const std::uint32_t tp = s.tensorParallel;
  if ((tp != 1 && tp != 2 && tp != 4 && tp != 8) || std::fmod(s.llm.queryHeads, tp) != 0)
    return Status::kBadParallelism;
  const KernelSet& kernels = kKernelSets[s.gpu.kernels];
  if (s.weights == Precision::kFp8) {
    const double measured = s.llm.mixture() ? kernels.mixture8.compute : kernels.gemm8.compute;
    if (s.gpu.flops8 == 0 || measured == 0) return Status::kNotMeasured;
  }
  return Status::kOk;
}

Roofline::Roofline(const RooflineSpec& s)
    : layers_(s.llm.layers), mixture_(s.llm.mixture()), parallel_(s.tensorParallel > 1) {
  const LlmSpec& m = s.llm;
  const KernelSet& kernels = kKernelSets[s.gpu.kernels];
  const double t = s.tensorParallel;
  const double width = s.weightBytes();
  const bool fp8 = s.weights == Precision::kFp8;
  const double flops = fp8 ? s.gpu.flops8 : s.gpu.flops16;
  const double bandwidth = s.gpu.bandwidth;
  const GemmConstants& constants = fp8 ? kernels.gemm8 : kernels.gemm16;
  const auto gemm = [&](double n, double k) { return Gemm(constants, flops, bandwidth, n, k, width); };

  const double queryHeads = m.queryHeads / t;
  const double kvHeads = std::max(1.0, m.kvHeads / t);  // beyond one head per GPU, heads are replicated
  qkv_ = gemm((m.queryHeads + 2 * std::max(m.kvHeads, t)) * m.headDim / t, m.hidden);
  output_ = gemm(m.hidden, m.queryHeads * m.headDim / t);
  if (mixture_) {
    up_ = gemm(m.experts, m.hidden);
    Mixture::Shape shape;
    shape.hidden = m.hidden;
    shape.width = m.expertWidth / t;
    shape.experts = m.experts;
    shape.perToken = m.expertsPerToken;
    shape.shards = t;
    shape.routingShards = t;
    shape.weightBytes = width;
    experts_ = Mixture(fp8 ? kernels.mixture8 : kernels.mixture16, flops, bandwidth, shape);
  } else {
    up_ = gemm((m.gated ? 2 : 1) * m.ffn / t, m.hidden);
    down_ = gemm(m.hidden, m.ffn / t);
  }
  head_ = gemm(m.vocabulary / t, m.hidden);
  if (parallel_) allReduce_ = AllReduce(allReduceOf(s.gpu, s.tensorParallel), m.hidden);
  prefillAttention_ =
      PrefillAttention(kernels.prefill, s.gpu.flops16, bandwidth, queryHeads, kvHeads, m.headDim);
  decodeAttention_ = DecodeAttention(kernels.decode, bandwidth, queryHeads, kvHeads, m.headDim, s.kvBytes());
  const double inner = mixture_ ? m.expertsPerToken * m.expertWidth : m.ffn;
  elementwise_ = 2e9 * (10 * m.hidden + 3 * inner / t) / (kElementwiseBandwidth * bandwidth);
  scale_ = s.stack.scale;
  fixed_ = 1e6 * s.stack.fixedMs;
  perSample_ = 1e6 * s.stack.perSequenceMs;
}

double Roofline::linear(double tokens) const {
  if (!(tokens > 0)) return 0;
  double layer = qkv_.ns(tokens) + output_.ns(tokens) + up_.ns(tokens);
  layer += mixture_ ? experts_.ns(tokens) : down_.ns(tokens);
  if (parallel_) layer += 2 * allReduce_.ns(tokens);
  return layers_ * (layer + kElementwiseNs + elementwise_ * tokens);
}

}  // namespace laxity
