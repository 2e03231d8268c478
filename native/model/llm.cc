#include "model/llm.h"

#include <cmath>

namespace laxity {
namespace {

bool whole(double value, double low, double high) {
  return value >= low && value <= high && value == std::floor(value);
}

double attentionWeights(const LlmSpec& m) {
  return m.hidden * m.headDim * (2 * m.queryHeads + 2 * m.kvHeads);
}

double total(const LlmSpec& m, double experts) {
  const double mlp =
      m.mixture() ? experts * 3 * m.hidden * m.expertWidth : (m.gated ? 3 : 2) * m.hidden * m.ffn;
  const double embeddings = (m.tiedEmbeddings ? 1 : 2) * m.vocabulary * m.hidden;
  return m.layers * (attentionWeights(m) + mlp) + embeddings;
}

}  // namespace

Status check(const LlmSpec& m) {
  const bool sizes = whole(m.layers, 1, 1000) && whole(m.hidden, 1, 1e6) && whole(m.queryHeads, 1, 4096) &&
                     whole(m.kvHeads, 1, 4096) && whole(m.headDim, 1, 4096) && whole(m.vocabulary, 1, 1e7);
  if (!sizes || m.kvHeads > m.queryHeads) return Status::kBadValue;
  if (!m.mixture()) return whole(m.ffn, 1, 1e7) && m.experts == 0 ? Status::kOk : Status::kBadValue;
  const bool experts = whole(m.experts, 1, 1e5) && whole(m.expertsPerToken, 1, m.experts) &&
                       whole(m.expertWidth, 1, 1e7) && m.ffn == 0 && m.gated;
  return experts ? Status::kOk : Status::kBadValue;
}

double parameters(const LlmSpec& m) { return total(m, m.experts); }
double activeParameters(const LlmSpec& m) { return total(m, m.expertsPerToken); }

const LlmEntry* findLlm(std::string_view id) {
  for (const LlmEntry& entry : kLlms) {
    if (entry.id == id) return &entry;
  }
  return nullptr;
}

}  // namespace laxity
