// Language models as the latency model sees them: the sizes of a decoder-only transformer with grouped-query
// attention, dense or mixture-of-experts.
//
// Source of the table: the models' published configurations (reference latency-model.md, section 4).
#pragma once

#include <array>
#include <string_view>

#include "base/status.h"

namespace laxity {

struct LlmSpec {
  double layers = 0;
  double hidden = 0;
  double queryHeads = 0;
  double kvHeads = 0;
  double headDim = 0;
  double ffn = 0;  ///< width of a dense feed-forward layer; 0 with experts
  double vocabulary = 0;
  bool gated = true;            ///< gate and up projections (SwiGLU) instead of up alone
  bool tiedEmbeddings = false;  ///< one matrix for input and output
  double experts = 0;           ///< 0 = dense
  double expertsPerToken = 0;
  double expertWidth = 0;

  bool mixture() const { return experts > 0; }
};

struct LlmEntry {
  std::string_view id;
  LlmSpec spec;
};

/// kBadValue where a size is not a whole number in a sane range, or sizes contradict each other.
Status check(const LlmSpec& llm);

/// Weights, all layers and embeddings; norms and biases (below 0.1 %) are left out.
double parameters(const LlmSpec& llm);
/// The same with only the experts that one token uses.
double activeParameters(const LlmSpec& llm);

/// Bytes of keys and values that one token leaves behind, over all GPUs.
inline double kvBytesPerToken(const LlmSpec& llm, double bytesPerElement) {
  return 2 * llm.layers * llm.kvHeads * llm.headDim * bytesPerElement;
}

inline constexpr std::array<LlmEntry, 9> kLlms{{
    {"llama-3.1-8b", {32, 4096, 32, 8, 128, 14336, 128256}},
    {"llama-3.1-70b", {80, 8192, 64, 8, 128, 28672, 128256}},
    {"llama2-70b", {80, 8192, 64, 8, 128, 28672, 32000}},
    {"qwen3-32b", {64, 5120, 64, 8, 128, 25600, 151936}},
    {"qwen3-30b-a3b", {48, 2048, 32, 4, 128, 0, 151936, true, false, 128, 8, 768}},
    {"qwen3-235b-a22b", {94, 4096, 64, 4, 128, 0, 151936, true, false, 128, 8, 1536}},
    {"opt-13b", {40, 5120, 40, 40, 128, 20480, 50272, false, true}},
    {"opt-66b", {64, 9216, 72, 72, 128, 36864, 50272, false, true}},
    {"bloom-176b", {70, 14336, 112, 112, 128, 57344, 250880, false, true}},
}};

/// Null where no model has this id.
const LlmEntry* findLlm(std::string_view id);

}  // namespace laxity
