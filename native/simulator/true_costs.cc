#include "simulator/true_costs.h"

#include <algorithm>

namespace laxity {

const Estimate* TrueCosts::of(std::uint32_t row) {
  const TraceColumns& c = trace_.columns();
  const std::uint16_t model = c.model == nullptr ? 0 : c.model[row];
  const std::uint32_t prompt = c.promptTokens[row];
  const std::uint32_t output = c.outputTokens[row];
  const std::int64_t kv = std::int64_t{prompt} + output;
  const auto& classes = cluster_.classes();
  estimates_.assign(classes.size(), {0, kNever});
  decodeAlone_.assign(classes.size(), kNever);
  if (!classes.empty() && classes.front().spec.role != Role::kUnified) {
    pairEstimates(cluster_, {model, 0, prompt, output, kv, 1}, terms_, estimates_.data(),
                  decodeAlone_.data());
    for (Estimate& e : estimates_) {
      const bool over = output <= 1 && terms_.firstToken == FirstToken::kFromPrefill && e.exec != kNever;
      if (over) e.exec = e.prefill;
    }
    return estimates_.data();
  }
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].spec.model != model || kv > classes[k].spec.kvTokens || classes[k].present == 0) continue;
    const LatencyModel& latency = cluster_.latency(classes[k]);
    Estimate& e = estimates_[k];
    e.prefill = latency.prefill(prompt, 0);
    e.exec = e.prefill + decodeTime(latency, terms_.firstToken, prompt, output);
  }
  return estimates_.data();
}

Nanos TrueCosts::least(std::uint32_t row) {
  const Estimate* e = of(row);
  Nanos least = kNever;
  for (std::size_t k = 0; k < estimates_.size(); ++k) least = std::min(least, e[k].exec);
  return least == kNever ? 0 : least;
}

}  // namespace laxity
