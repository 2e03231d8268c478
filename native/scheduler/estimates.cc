// What a call needs of an instance and how long it takes there, by hardware class.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace laxity {

std::int64_t Scheduler::kvNeed(const Call& c) const {
  if (config_.kvNeed == KvNeed::kPrompt16) return (std::int64_t{c.promptTokens} + 15) / 16 * 16;
  return c.promptTokens + std::int64_t{c.predictedTokens} * c.sequences;
}

std::int64_t Scheduler::kvLimit(const InstanceSpec& spec) const {
  return static_cast<std::int64_t>(static_cast<double>(spec.kvTokens) *
                                   config_.parameters[Parameter::kOvercommit]);
}

/// The most one call may need there.
std::int64_t Scheduler::kvRoom(const InstanceSpec& spec) const {
  return std::min(kvLimit(spec), spec.kvTokens);
}

/// The output length that times are computed with. Fixed when the prediction is made, so that what was
/// derived from it can be taken back.
std::uint32_t Scheduler::timedTokens(const Call& c) const {
  const double share = config_.parameters[Parameter::kOutputHigh];
  if (share == 0) return c.predictedTokens;
  return c.predictedTokens + static_cast<std::uint32_t>(share * (c.predictedHigh - c.predictedTokens) + 0.5);
}

/// Fills in the call's estimates and mean; false where no present instance can ever serve it.
bool Scheduler::estimateCall(std::uint32_t slot) {
  if (estimates_.size() < (std::size_t{slot} + 1) * stride_)
    estimates_.resize((std::size_t{slot} + 1) * stride_);
  return estimateInto(graph_.call(slot), estimates_.data() + slot * stride_);
}

bool Scheduler::estimateInto(Call& c, Estimate* out) const {
  if (pairs_ != nullptr) {
    const bool known = c.workflow != kNoSlot && out != previewed_.data();
    Nanos* decodeAlone = known ? pairs_->decodeAlone(static_cast<std::uint32_t>(&c - &graph_.call(0)))
                               : const_cast<Nanos*>(previewedDecode_.data());
    const bool feasible = estimatePair(c, out, decodeAlone, &c.mean);
    if (c.mean < 1) c.mean = 1;
    return feasible;
  }
  const std::int64_t need = kvNeed(c);
  ClusterMean mean;
  for (const ClassTerms& k : classTerms_) {
    Estimate& e = *out++;
    if (k.model != c.model || need > k.kvRoom || c.sequences > k.maxSequences ||
        (c.adapter != 0 && (k.adapters >> (c.adapter - 1) & 1) == 0)) {
      e = {0, kNever};
      continue;
    }
    e.prefill = std::min(kMaxEstimate, k.latency->prefill(c.promptTokens, 0));
    const Nanos decode = decodeTime(*k.latency, config_.firstToken, c.promptTokens, c.timedTokens);
    e.exec = e.prefill + std::min(kMaxEstimate, decode);
    mean.add(e.exec, k.present);
  }
  const Nanos value = mean.value();
  c.mean = value > 1 ? value : 1;
  return value > 0;
}

/// Call whenever the cluster or a limit changes.
void Scheduler::cacheClasses() {
  classTerms_.clear();
  for (const HardwareClass& k : cluster_.classes()) {
    classTerms_.push_back({&cluster_.latency(k), kvLimit(k.spec), kvRoom(k.spec), k.spec.maxSequences,
                           k.present, k.spec.model, k.spec.adapters});
  }
}

void Scheduler::reestimateAll() {
  stride_ = cluster_.classes().size();
  if (pairs_ != nullptr) pairs_->grow(graph_.callSlots(), stride_);
  estimates_.assign(graph_.callSlots() * stride_, {});
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    const CallState state = graph_.call(slot).state;
    if (state != CallState::kFree && !terminal(state)) estimateCall(slot);
  }
  for (std::uint32_t w = 0; w < graph_.workflowSlots(); ++w) {
    if (!graph_.workflow(w).live) continue;
    graph_.workflow(w).tailsStale = true;
    markDirty(w);
  }
}

/// Never feasible, as opposed to not now.
RejectReason Scheduler::impossible(std::uint32_t slot) const {
  bool served = false;
  const auto& classes = cluster_.classes();
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].present == 0 || classes[k].spec.model != graph_.call(slot).model) continue;
    if (estimates(slot)[k].exec != kNever) return RejectReason::kNone;
    served = true;
  }
  if (pairs_ != nullptr) {  // both roles must be there
    for (const Role role : {Role::kPrefill, Role::kDecode}) {
      served = served && std::any_of(classes.begin(), classes.end(), [&](const HardwareClass& k) {
                 return k.present > 0 && k.spec.role == role && k.spec.model == graph_.call(slot).model;
               });
    }
  }
  return served ? RejectReason::kNeverFits : RejectReason::kNoInstance;
}

}  // namespace laxity
