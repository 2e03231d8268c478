#include "simulator/links.h"

#include <algorithm>

namespace laxity {
namespace {

constexpr int kAmountBits = 40;
/// Fine time x amount of one token: what `left * pace` counts per nanosecond.
constexpr int kPerNanoBits = kAmountBits + kFineBits;

}  // namespace

void LinkNetwork::reset(std::vector<InstanceSpec> ends, Links links) {
  ends_ = std::move(ends);
  links_ = links;
  moving_.assign(ends_.size(), {});
  flows_.clear();
  free_.clear();
  due_.clear();
  started_ = 0;
  done_.clear();
  sent_ = received_ = 0;
}

void LinkNetwork::due(std::uint32_t index, Nanos t) {
  const auto moved = [this](std::uint32_t flow, std::uint32_t position) { flows_[flow].position = position; };
  Flow& f = flows_[index];
  if (f.position == kNoSlot)
    due_.push({-t, f.number, index}, moved);
  else
    due_.rekeyAt(f.position, -t, moved);
}

void LinkNetwork::start(const Transfer& transfer, Nanos t) {
  std::uint32_t index;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  sent_ += transfer.tokens;
  flows_[index] = {transfer, started_++, kNoSlot, false, Amount{transfer.tokens} << kAmountBits, 0, t};
  const InstanceSpec& p = ends_[transfer.from];
  const InstanceSpec& d = ends_[transfer.to];
  const Nanos alone = links_ == Links::kFree ? transferTime(p, d, transfer.tokens) : linkLatency(p, d);
  due(index, std::min(kMaxTime, t + std::min(kMaxTime - t, alone)));
}

LinkNetwork::Amount LinkNetwork::paceOf(const Flow& f) const {
  const std::uint32_t p = f.transfer.from;
  const std::uint32_t d = f.transfer.to;
  return std::max(Amount{ends_[p].linkPerToken} * static_cast<std::int64_t>(moving_[p].size()),
                  Amount{ends_[d].linkPerToken} * static_cast<std::int64_t>(moving_[d].size()));
}

/// Where the pace of a moving transfer is another one from t on: what it has moved, and its new end.
void LinkNetwork::retime(std::uint32_t index, Nanos t) {
  Flow& f = flows_[index];
  const Amount pace = paceOf(f);
  if (pace == f.pace) return;
  if (f.pace > 0) {
    const Amount moved = (Amount{t - f.since} << kPerNanoBits) / f.pace;
    f.left = moved < f.left ? f.left - moved : 0;
  }
  f.pace = pace;
  f.since = t;
  Amount work;
  Nanos end = kMaxTime;
  // Whatever exceeds 127 bits takes longer than there is time.
  if (!__builtin_mul_overflow(f.left, pace, &work) &&
      !__builtin_add_overflow(work, Amount{1} << (kPerNanoBits - 1), &work)) {
    end = static_cast<Nanos>(std::min<Amount>(kMaxTime, (work >> kPerNanoBits) + t));
  }
  due(index, end);
}

/// What ends and what begins to move at t does so together: only then do paces change. Such a change may let more
/// end at t, whose half nanosecond is over.
void LinkNetwork::advance(Nanos t) {
  done_.clear();
  const auto moved = [this](std::uint32_t flow, std::uint32_t position) { flows_[flow].position = position; };
  while (!due_.empty() && -due_.top().key == t) {
    const std::uint32_t index = due_.top().slot;
    due_.removeAt(0, moved);
    Flow& f = flows_[index];
    f.position = kNoSlot;
    const std::uint32_t ends[] = {f.transfer.from, f.transfer.to};
    const bool free = ends_[ends[0]].linkPerToken == 0 && ends_[ends[1]].linkPerToken == 0;
    if (f.moving || links_ == Links::kFree || f.left == 0 || free)
      ended_.push_back(index);
    else
      f.moving = true;
    for (const std::uint32_t end : ends) {
      if (!f.moving) break;
      auto& flows = moving_[end];
      const auto here = std::find(flows.begin(), flows.end(), index);
      if (here == flows.end())
        flows.push_back(index);
      else
        flows.erase(here);
      changed_.push_back(end);
    }
    if (!due_.empty() && -due_.top().key == t) continue;
    for (const std::uint32_t end : changed_) {
      for (const std::uint32_t flow : moving_[end]) retime(flow, t);
    }
    changed_.clear();
  }
  std::sort(ended_.begin(), ended_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return flows_[a].number < flows_[b].number; });
  for (const std::uint32_t index : ended_) {
    done_.push_back(flows_[index].transfer);
    received_ += flows_[index].transfer.tokens;
    free_.push_back(index);
  }
  ended_.clear();
}

bool LinkNetwork::consistent() const {
  std::int64_t tokens = 0;
  std::vector<std::size_t> moving(ends_.size(), 0);
  for (const HeapEntry& entry : due_.entries()) {
    const Flow& f = flows_[entry.slot];
    tokens += f.transfer.tokens;
    if (!f.moving) continue;
    if (f.pace != paceOf(f)) return false;
    ++moving[f.transfer.from];
    ++moving[f.transfer.to];
  }
  for (std::size_t end = 0; end < ends_.size(); ++end) {
    if (moving[end] != moving_[end].size()) return false;
  }
  return sent_ == received_ + tokens;
}

}  // namespace laxity
