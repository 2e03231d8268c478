#include "planner/pair_planner.h"

#include <numeric>

namespace laxity {

bool PairPlanner::begin(Nanos t, const PrefillPool& prefill, const DecodePool& decode,
                        const WaitingCalls& calls, const PlanOptions& options) {
  t_ = t;
  options_ = options;
  decode_ = &decode;
  entries_.clear();
  if (calls.size() == 0 || prefill.present() == 0 || calls.prefillClasses() != prefill.classes() ||
      calls.decodeClasses() != decode.classes()) {
    return false;
  }
  unserved_ = prefill.open();
  below_ = options.perInstance > 0 ? prefill.present() : 0;
  stepLimit_ = std::uint64_t{2} * options.perInstance * prefill.present();
  if (enough()) return false;
  given_.assign(prefill.size(), 0);
  frame_.begin(t, prefill, decode, calls);
  entries_.reserve(frame_.size);
  sequence_.resize(frame_.size);
  std::iota(sequence_.begin(), sequence_.end(), 0u);
  return true;
}

bool PairPlanner::enough() const {
  return !options_.whole && unserved_ == 0 && (below_ == 0 || entries_.size() >= stepLimit_);
}

void PairPlanner::greedy() {
  std::uint32_t i = kernel_->first(frame_);
  while (i != kNoSlot) {
    const Changed changed = commit(i);
    frame_.kill(i);
    if (frame_.live == 0 || enough()) return;
    if (frame_.live * 2 <= frame_.size && frame_.size > 64) frame_.compact();
    i = kernel_->next(frame_, changed);
  }
}

void PairPlanner::place(std::uint32_t i) {
  evaluate(
      frame_, i, [&](std::uint32_t d) { return frame_.waitOf(d, i); },
      [&](std::uint32_t d) { return frame_.waitBound(d, i); });
  if (frame_.decodeRank[i] >= 0) commit(i);
}

Changed PairPlanner::commit(std::uint32_t i) {
  const WaitingCall& call = frame_.call(i);
  const PrefillPool& pool = frame_.prefillPool();
  const std::uint32_t p =
      pool.slotOf(static_cast<std::uint32_t>(frame_.rank[static_cast<std::uint32_t>(frame_.source[i])]));
  const std::uint32_t d = decode_->slotOf(static_cast<std::uint32_t>(frame_.decodeRank[i]));
  const double end = frame_.clip[pool.classes() + p] + frame_.prefillTime(i, p);
  const auto time = [&](double offset) {
    return offset < static_cast<double>(kMaxTime - t_) ? t_ + static_cast<Nanos>(offset) : kMaxTime;
  };
  PlanEntry e;
  e.call = frame_.slot[i];
  e.prefill = p;
  e.decode = d;
  e.prefillRevision = pool.at(p).revision;
  e.decodeRevision = decode_->at(d).revision;
  e.prefillEnd = time(end);
  e.ready = time(frame_.readyOf(i));
  e.finish = time(frame_.finishOf(i));
  e.ratio = static_cast<double>(e.finish - (call.arrival - call.hint)) * call.inverseHorizon;
  entries_.push_back(e);
  if (++given_[p] == 1 && pool.at(p).open) --unserved_;
  if (given_[p] == options_.perInstance) --below_;
  return frame_.commit(i, p, d, end, e.finish);
}

}  // namespace laxity
