#include "planner/waiting_calls.h"

#include <algorithm>
#include <limits>

#include "cluster/instance.h"

namespace laxity {
namespace {

/// Durations beyond this are cut: a projected finish stays an exact integer in a double.
constexpr Nanos kLongest = Nanos{1} << 50;

double duration(Nanos time) {
  if (time == kNever) return std::numeric_limits<double>::infinity();
  return static_cast<double>(std::min(time, kLongest));
}

bool anyHolder(const WaitingCall& call) {
  return call.holders[0].instance != kNoSlot || call.holders[1].instance != kNoSlot;
}

bool valid(const Holder& h) { return h.instance == kNoSlot || h.prefill >= 0; }

}  // namespace

void WaitingCalls::configure(std::uint32_t prefillClasses, std::uint32_t decodeClasses) {
  prefillClasses_ = prefillClasses;
  decodeClasses_ = decodeClasses;
  locked_ = withHolders_ = 0;
  calls_.clear();
  prefill_.clear();
  transfer_.clear();
  links_.assign(std::size_t{prefillClasses} * decodeClasses, 0);
  byKv_.clear();
}

Status WaitingCalls::add(std::uint32_t slot, WaitingCall call, std::span<const Nanos> prefill,
                         std::span<const Nanos> transfer) {
  const std::size_t pairs = std::size_t{prefillClasses_} * decodeClasses_;
  if (holds(slot)) return Status::kSlotInUse;
  if (call.kv < 1 || call.kv > kMaxKvTokens || call.output < 1 || call.moved > kMaxMoved)
    return Status::kBadTokens;
  if (call.arrival < 0 || call.arrival > kMaxTime || call.hint < 0 || call.hint > kMaxTime)
    return Status::kBadTime;
  if (!(call.inverseHorizon > 0 && call.inverseHorizon <= 1) || !valid(call.holders[0]) ||
      !valid(call.holders[1]) || prefill.size() != prefillClasses_ || transfer.size() != pairs) {
    return Status::kBadValue;
  }
  for (const Nanos time : prefill) {
    if (time < 0) return Status::kBadTime;
  }
  for (const Nanos time : transfer) {
    if (time < 0) return Status::kBadTime;
  }
  if (slot >= calls_.size()) {
    const std::size_t n = std::size_t{slot} + 1;
    calls_.resize(n);
    prefill_.resize(n * prefillClasses_);
    transfer_.resize(n * pairs);
  }
  calls_[slot] = call;
  double* pre = prefill_.data() + std::size_t{slot} * prefillClasses_;
  for (std::size_t k = 0; k < prefill.size(); ++k) pre[k] = duration(prefill[k]);
  double* xfer = transfer_.data() + std::size_t{slot} * pairs;
  for (std::size_t k = 0; k < pairs; ++k) xfer[k] = duration(transfer[k]);
  const auto at = std::upper_bound(byKv_.begin(), byKv_.end(), call.kv,
                                   [](std::int64_t kv, const ByKv& e) { return kv < e.kv; });
  byKv_.insert(at, {call.kv, slot});
  count(call, 1);
  return Status::kOk;
}

Status WaitingCalls::remove(std::uint32_t slot) {
  if (!holds(slot)) return Status::kUnknownCall;
  WaitingCall& call = calls_[slot];
  auto at = std::lower_bound(byKv_.begin(), byKv_.end(), call.kv,
                             [](const ByKv& e, std::int64_t kv) { return e.kv < kv; });
  while (at->slot != slot) ++at;
  byKv_.erase(at);
  count(call, static_cast<std::uint32_t>(-1));
  call.kv = 0;
  return Status::kOk;
}

void WaitingCalls::count(const WaitingCall& call, std::uint32_t by) {
  if (call.lock != kNoSlot) locked_ += by;
  if (anyHolder(call)) withHolders_ += by;
}

Status WaitingCalls::setLink(std::uint32_t prefillClass, std::uint32_t decodeClass, Nanos perToken) {
  if (prefillClass >= prefillClasses_ || decodeClass >= decodeClasses_) return Status::kBadValue;
  if (perToken < 0) return Status::kBadTime;
  links_[std::size_t{prefillClass} * decodeClasses_ + decodeClass] =
      static_cast<double>(std::min(perToken, kMaxLinkTime));
  return Status::kOk;
}

Status WaitingCalls::setHorizon(std::uint32_t slot, double inverseHorizon, Nanos hint) {
  if (!holds(slot)) return Status::kUnknownCall;
  if (!(inverseHorizon > 0 && inverseHorizon <= 1)) return Status::kBadValue;
  if (hint < -kMaxTime / 2 || hint > kMaxTime) return Status::kBadTime;
  calls_[slot].inverseHorizon = inverseHorizon;
  calls_[slot].hint = hint;
  return Status::kOk;
}

Status WaitingCalls::setKey(std::uint32_t slot, std::int64_t key) {
  if (!holds(slot)) return Status::kUnknownCall;
  calls_[slot].key = key;
  return Status::kOk;
}

Status WaitingCalls::setLock(std::uint32_t slot, std::uint32_t lock) {
  if (!holds(slot)) return Status::kUnknownCall;
  count(calls_[slot], static_cast<std::uint32_t>(-1));
  calls_[slot].lock = lock;
  count(calls_[slot], 1);
  return Status::kOk;
}

Status WaitingCalls::setHolders(std::uint32_t slot, Holder first, Holder second) {
  if (!holds(slot)) return Status::kUnknownCall;
  if (!valid(first) || !valid(second)) return Status::kBadTime;
  count(calls_[slot], static_cast<std::uint32_t>(-1));
  calls_[slot].holders[0] = first;
  calls_[slot].holders[1] = second;
  count(calls_[slot], 1);
  return Status::kOk;
}

}  // namespace laxity
