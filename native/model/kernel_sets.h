// Fitted kernel constants: calibration `laxity-cal-1`.
//
// Estimated from NVIDIA aiconfigurator's public kernel tables (Apache-2.0; A100 measured under vLLM 0.14.0,
// H100, H200 and L40S under vLLM 0.24.0) by robust least squares in log space; held-out errors per kernel
// stand in docs/accuracy.md. FP8 GEMMs are per-tensor ones: the tables of block-scaled GEMMs hold 70-120 us
// of eager quantisation that engines with CUDA graphs do not pay.
#pragma once

#include <array>
#include <string_view>

#include "model/kernels.h"

namespace laxity {

inline constexpr std::string_view kCalibration = "laxity-cal-1";

struct KernelSet {
  std::string_view id;
  GemmConstants gemm16;
  GemmConstants gemm8;  ///< compute 0 = not measured
  PrefillAttentionConstants prefill;
  DecodeAttentionConstants decode;
  MixtureConstants mixture16;
  MixtureConstants mixture8;        ///< block-scaled FP8; compute 0 = not measured
  AllReduceConstants allReduce[3];  ///< TP 2, 4, 8, the engines' own kernel; bandwidth 0 = not measured
};

inline constexpr std::array<KernelSet, 4> kKernelSets{{
    {"a100",
     {0.793753, 0.760624, 5.706999, 2},
     {},
     {0.551941, 0.330798, 12.768473, 182.836997},
     {0.743742, 16.272926, 3866.95497},
     {0.350305, 0.97, 38.468899, 54.586153, 0.755968, 41.929119},
     {},
     {{4.954993, 182.011108}, {5.643034, 125.062926}, {7.164563, 111.089392}}},
    {"h100",
     {0.81721, 0.881779, 3.658332, 3},
     {0.66033, 0.94002, 6.431951, 1},
     {0.646072, 0.512458, 12.591686, 559.395569},
     {0.889567, 11.787666, 4604.24724},
     {0.55092, 0.860455, 31.273505, 59.476644, 0.785622, 46.387524},
     {0.254686, 0.782057, 29.286752, 20.278088, 0.818851, 43.957142},
     {{4.275255, 270.04948}, {4.830697, 201.707077}, {5.54094, 211.975187}}},
    {"h200",
     {0.825724, 0.843544, 4.127628, 3},
     {0.644571, 0.857418, 6.86519, 1},
     {0.639573, 0.381012, 12.477347, 561.656305},
     {0.85157, 11.596305, 6995.47502},
     {0.662982, 0.869742, 31.722573, 70.482082, 0.752573, 48.304958},
     {0.269283, 0.741671, 30.223301, 28.051572, 0.791942, 42.052485},
     {{4.47515, 276.871731}, {4.818497, 207.111272}, {5.446882, 223.543188}}},
    {"l40s",
     {0.623046, 0.768866, 1, 3},
     {0.618262, 0.787735, 4.772996, 1},
     {0.498048, 0.890033, 8.138828, 135.035665},
     {0.802797, 10.413282, 1154.92539},
     {0.476972, 0.816933, 3.462455, 128, 0.746467, 89.911768},
     {0.457776, 0.79801, 7.652839, 1, 0.776068, 144.071158},
     {{}, {}, {}}},
}};

/// Hosts without a switch, TP 2, 4, 8: launch times as measured on an L40S host, bandwidth assumed (a bus of
/// 12 GB/s; the measured host had no peer-to-peer path).
inline constexpr AllReduceConstants kPcieAllReduce[3] = {{5.3, 12}, {12.9, 8}, {23.7, 12.0 * 8 / 14}};

/// What an engine adds to its kernels: time = scale * kernels + fixed + perSequence * sequences that emit a
/// token.
struct Stack {
  double scale = 1;
  double fixedMs = 0;
  double perSequenceMs = 0;
};

struct StackEntry {
  std::string_view id;
  Stack stack;
};

/// Fitted to 908 public serving measurements (H100, H200). `sglang` lies on a bound of its fit: prefer
/// `default`. `none` is the sum of the kernels.
inline constexpr std::array<StackEntry, 5> kStacks{{
    {"default", {0.910994211, 1.1514339, 0.0198938069}},
    {"vllm", {1.06896535, 0.761328748, 0.0297767905}},
    {"trtllm", {0.900970452, 0.82813819, 0.0284638336}},
    {"sglang", {0.8, 2.47566234, 0.0182478025}},
    {"none", {1, 0, 0}},
}};

}  // namespace laxity
