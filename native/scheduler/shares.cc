// Fair shares in the scheduler: who is charged when, and who is over his share of a queue (fair_shares.h).
#include <algorithm>

#include "scheduler/scheduler.h"
#include "scheduler/waiting_calls.h"

namespace laxity {

void Scheduler::observeShares(CallStep step, const Call& c, std::uint32_t tokens) {
  const auto slot = static_cast<std::uint32_t>(&c - &graph_.call(0));
  const std::uint16_t tenant = graph_.workflow(c.workflow).tenant;
  if (shareCharged_.size() <= slot) shareCharged_.resize(graph_.callSlots(), 0);
  const auto cost = [&](std::uint32_t output) {
    const PolicyParameters& p = config_.parameters;
    return shares_.units(tenant, p[Parameter::kInputWeight] * c.promptTokens +
                                     p[Parameter::kOutputWeight] * output * c.sequences);
  };
  switch (step) {
    case CallStep::kReady:
      shares_.arrive(tenant);
      break;
    case CallStep::kWithdrawn:
      shares_.leave(tenant);
      break;
    case CallStep::kLeased:
      shareCharged_[slot] = cost(c.predictedTokens);
      shares_.charge(tenant, shareCharged_[slot]);
      shares_.leave(tenant);
      break;
    case CallStep::kServed:
      shares_.charge(tenant, cost(tokens) - shareCharged_[slot]);
      shareCharged_[slot] = 0;
      break;
    case CallStep::kReturned:
      shares_.charge(tenant, -shareCharged_[slot]);
      shareCharged_[slot] = 0;
      break;
  }
}

/// Switched on or off while calls wait: counters start anew.
void Scheduler::sharesChanged(std::int64_t before) {
  if ((before > 0) == (shareSlack_ > 0)) return;
  shares_.clear();
  std::fill(shareCharged_.begin(), shareCharged_.end(), 0);
  for (const auto& [tenant, weight] : shareWeights_) shares_.weigh(tenant, weight);
  if (shareSlack_ == 0) return;
  for (std::uint32_t slot = 0; slot < graph_.callSlots(); ++slot) {
    const Call& c = graph_.call(slot);
    if (c.state == CallState::kReady || c.state == CallState::kWaiting)
      shares_.arrive(graph_.workflow(c.workflow).tenant);
  }
}

void Scheduler::weighTenant(std::uint16_t tenant, std::uint32_t weight) {
  if (weight == 0) return;
  const auto known = std::find_if(shareWeights_.begin(), shareWeights_.end(),
                                  [&](const auto& entry) { return entry.first == tenant; });
  if (known != shareWeights_.end())
    known->second = weight;
  else
    shareWeights_.emplace_back(tenant, weight);
  shares_.weigh(tenant, weight);
}

std::uint32_t Scheduler::weightOf(std::uint16_t tenant) const {
  const auto known = std::find_if(shareWeights_.begin(), shareWeights_.end(),
                                  [&](const auto& entry) { return entry.first == tenant; });
  return known == shareWeights_.end() ? FairShares::kUnitWeight : known->second;
}

/// Before the calls of one queue are compared; `another` is about to join it.
void Scheduler::limitShares(const IndexedHeap& queue, const Call* another) const {
  if (shareSlack_ == 0) return;
  std::int64_t least = kNever;
  for (const HeapEntry& entry : queue.entries())
    least = std::min(least, shares_.of(graph_.workflow(graph_.call(entry.slot).workflow).tenant));
  if (another != nullptr && another->workflow != kNoSlot)
    least = std::min(least, shares_.of(graph_.workflow(another->workflow).tenant));
  shareLimit_ = least == kNever ? kNever : least + shareSlack_;
}

/// The most urgent call, each compared with the best so far.
std::uint32_t Scheduler::pickShared(const IndexedHeap& queue) const {
  limitShares(queue, nullptr);
  return std::visit(
      [&](const auto& order) {
        const WaitingCalls waiting{*this, queue};
        if constexpr (requires { order.prepare(waiting); }) order.prepare(waiting);
        const HeapEntry* best = nullptr;
        for (const HeapEntry& entry : queue.entries()) {
          if (best == nullptr || goesBefore(order, entry, *best)) best = &entry;
        }
        return best->slot;
      },
      config_.order);
}

}  // namespace laxity
