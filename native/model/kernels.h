// What one kernel takes on one GPU: a smooth roofline (reference latency-model.md, section 2).
//
// Each kernel is the smooth maximum pn(a, b) = (a^p + b^p)^(1/p) of its arithmetic and its memory traffic at
// fitted fractions of the peaks, plus a launch time. A measured GEMM near the ridge lies 15-30 % above both
// roofs, which is what p models; at TP 8 over half of a decode layer is launch time, which a pure roofline
// leaves out. Times are ns, token counts real numbers (a tensor-parallel share need not be whole).
//
// Only IEEE +, -, *, /, sqrt and base/math.h: the same bits on every platform.
#pragma once

#include <cmath>

#include "base/math.h"

namespace laxity {

struct GemmConstants {
  double compute = 0;  ///< fraction of the peak FLOP/s
  double memory = 0;   ///< fraction of the peak bandwidth
  double launchUs = 0;
  int p = 1;  ///< 1, 2 or 3
};

struct MixtureConstants {
  double compute = 0;
  double memory = 0;
  double launchUs = 0;
  double pad = 0;         ///< tokens of padding per loaded expert
  double skew = 1;        ///< how unevenly the router loads experts; 1 = evenly
  double perTokenNs = 0;  ///< routing
};

struct PrefillAttentionConstants {
  double compute = 0;
  double memory = 0;
  double launchUs = 0;
  double extra = 0;  ///< L0: context tokens that every new token pays for on top
};

struct DecodeAttentionConstants {
  double memory = 0;
  double launchUs = 0;
  double perHead = 0;  ///< b0: bytes per sequence and query head
};

struct AllReduceConstants {
  double launchUs = 0;
  double bandwidthGBps = 0;  ///< bytes reduced per second
};

inline double smoothMaximum(double a, double b, int p) {
  if (p == 1) return a + b;
  if (p == 2) return std::sqrt(a * a + b * b);
  return detCbrt(a * a * a + b * b * b);
}

class Gemm {
 public:
  Gemm() = default;
  /// [tokens, k] x [k, n]; weights of `width` bytes, activations of 2.
  Gemm(const GemmConstants& c, double flops, double bandwidth, double n, double k, double width)
      : launch_(1e3 * c.launchUs),
        compute_(2e9 * n * k / (c.compute * flops)),
        weights_(1e9 * width * n * k / (c.memory * bandwidth)),
        activations_(2e9 * (n + k) / (c.memory * bandwidth)),
        p_(c.p) {}

  double ns(double tokens) const {
    return launch_ + smoothMaximum(compute_ * tokens, weights_ + activations_ * tokens, p_);
  }

 private:
  double launch_ = 0;
  double compute_ = 0;
  double weights_ = 0;
  double activations_ = 0;
  int p_ = 1;
};

class Mixture {
 public:
  struct Shape {
    double hidden = 0;
    double width = 0;  ///< of an expert on one GPU
    double experts = 0;
    double perToken = 0;
    double shards = 1;  ///< tensor-parallel GPUs, which share the activations
    double groups = 1;  ///< expert-parallel GPUs, which share the experts
    double weightBytes = 2;
    double routingShards = 1;
  };

  Mixture() = default;
  Mixture(const MixtureConstants& c, double flops, double bandwidth, const Shape& s)
      : launch_(1e3 * c.launchUs),
        computePerToken_(6e9 * s.hidden * s.width * s.perToken / s.groups / (c.compute * flops)),
        computePerExpert_(6e9 * s.hidden * s.width * c.pad / (c.compute * flops)),
        weightsPerExpert_(3e9 * s.hidden * s.width * s.weightBytes / (c.memory * bandwidth)),
        activations_(2e9 * s.perToken / (s.shards * s.groups) * (2 * s.hidden + 3 * s.width * s.shards) /
                     (c.memory * bandwidth)),
        experts_(s.experts / s.groups),
        logMiss_(c.skew * detLog1p(-s.perToken / s.experts)),
        routing_(c.perTokenNs / s.routingShards) {}

  /// Expected distinct experts loaded: E (1 - (1 - k/E)^(skew T)).
  double loaded(double tokens) const { return tokens > 0 ? experts_ * (1 - detExp(logMiss_ * tokens)) : 0; }

  double ns(double tokens) const {
    const double hit = loaded(tokens);
    return launch_ +
           smoothMaximum(computePerToken_ * tokens + computePerExpert_ * hit,
                         weightsPerExpert_ * hit + activations_ * tokens, 3) +
           routing_ * tokens;
  }

 private:
  double launch_ = 0;
  double computePerToken_ = 0;
  double computePerExpert_ = 0;
  double weightsPerExpert_ = 0;
  double activations_ = 0;
  double experts_ = 0;
  double logMiss_ = 0;
  double routing_ = 0;
};

/// The prompts of an iteration, as three sums over them: q new tokens on top of c cached ones.
struct PrefillLoad {
  double pairs = 0;    ///< sum of q (2 c + q) / 2: pairs of tokens that attend to each other
  double fresh = 0;    ///< sum of q
  double touched = 0;  ///< sum of c + q

  void add(double q, double c) {
    pairs += q * (2 * c + q) / 2;
    fresh += q;
    touched += c + q;
  }
};

class PrefillAttention {
 public:
  PrefillAttention() = default;
  /// `flops` is the BF16 peak whatever the weights are; heads per GPU.
  PrefillAttention(const PrefillAttentionConstants& c, double flops, double bandwidth, double queryHeads,
                   double kvHeads, double headDim)
      : launch_(1e3 * c.launchUs),
        compute_(4e9 * queryHeads * headDim / (c.compute * flops)),
        queries_(4e9 * queryHeads * headDim / (c.memory * bandwidth)),
        keys_(4e9 * kvHeads * headDim / (c.memory * bandwidth)),
        extra_(c.extra / 2) {}

  double ns(const PrefillLoad& load) const {
    return launch_ + smoothMaximum(compute_ * (load.pairs + extra_ * load.fresh),
                                   queries_ * load.fresh + keys_ * load.touched, 2);
  }

 private:
  double launch_ = 0;
  double compute_ = 0;
  double queries_ = 0;
  double keys_ = 0;
  double extra_ = 0;
};

class DecodeAttention {
 public:
  DecodeAttention() = default;
  DecodeAttention(const DecodeAttentionConstants& c, double bandwidth, double queryHeads, double kvHeads,
                  double headDim, double kvWidth)
      : launch_(1e3 * c.launchUs),
        perContext_(2e9 * kvHeads * headDim * kvWidth / (c.memory * bandwidth)),
        perSequence_(1e9 * queryHeads * c.perHead / (c.memory * bandwidth)) {}

  double launch() const { return launch_; }
  double perContext() const { return perContext_; }  ///< linear: this is why a simulator can leap
  double perSequence() const { return perSequence_; }

  double ns(double sequences, double context) const {
    return launch_ + perContext_ * context + perSequence_ * sequences;
  }

 private:
  double launch_ = 0;
  double perContext_ = 0;
  double perSequence_ = 0;
};

class AllReduce {
 public:
  AllReduce() = default;
  AllReduce(const AllReduceConstants& c, double hidden)
      : launch_(1e3 * c.launchUs), perToken_(2 * hidden / c.bandwidthGBps) {}

  double ns(double tokens) const { return launch_ + perToken_ * tokens; }

 private:
  double launch_ = 0;
  double perToken_ = 0;
};

}  // namespace laxity
