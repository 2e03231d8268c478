#include "simulator/final_horizon.h"

namespace laxity {

void FinalHorizon::estimate(std::uint32_t row) {
  const TraceColumns& c = trace_.columns();
  const std::uint16_t model = c.model == nullptr ? 0 : c.model[row];
  const std::uint32_t prompt = c.promptTokens[row];
  const std::uint32_t output = c.outputTokens[row];
  const std::int64_t kv = std::int64_t{prompt} + output;
  const auto& classes = cluster_.classes();
  estimates_.assign(classes.size(), {0, kNever});
  decodeAlone_.assign(classes.size(), kNever);
  if (!classes.empty() && classes.front().spec.role != Role::kUnified) {
    pairEstimates(cluster_, {model, 0, prompt, output, kv, 1}, terms_, estimates_.data(), decodeAlone_.data());
    for (Estimate& e : estimates_) {
      const bool over = output <= 1 && terms_.firstToken == FirstToken::kFromPrefill && e.exec != kNever;
      if (over) e.exec = e.prefill;
    }
    return;
  }
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].spec.model != model || kv > classes[k].spec.kvTokens || classes[k].present == 0) continue;
    const LatencyModel& latency = cluster_.latency(classes[k]);
    Estimate& e = estimates_[k];
    e.prefill = latency.prefill(prompt, 0);
    e.exec = e.prefill + decodeTime(latency, terms_.firstToken, prompt, output);
  }
}

Nanos FinalHorizon::of(std::uint32_t workflow) {
  const TraceColumns& c = trace_.columns();
  graph_.clear();
  const Ref w{0, 1};
  graph_.open(w, 0, 0);
  const std::uint32_t first = c.firstCall[workflow];
  for (std::uint32_t row = first; row < c.firstCall[workflow + 1]; ++row) {
    parents_.clear();
    for (std::uint32_t e = c.parentOffset[row]; e < c.parentOffset[row + 1]; ++e)
      parents_.push_back({c.parents[e], 1});
    const std::uint32_t slot = row - first;
    graph_.reveal({slot, 1}, w, parents_, false, 0);
    estimate(row);
    const Nanos gap = c.toolGapMs == nullptr ? 0 : fromMs(c.toolGapMs[row]);
    horizons_.reveal(graph_, cluster_, slot, estimates_.data(), gap);
  }
  const Nanos horizon = graph_.workflow(0).horizon;
  horizons_.close(graph_.workflow(0));
  return horizon;
}

}  // namespace laxity
