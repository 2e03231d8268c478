#include "simulator/truth.h"

namespace laxity {

std::uint32_t Truth::open(std::uint32_t workflow, Nanos t) {
  std::uint32_t index;
  if (freeOpen_.empty()) {
    index = static_cast<std::uint32_t>(open_.size());
    open_.emplace_back();
    pending_.resize(open_.size() * stride_);
    slotOf_.resize(open_.size() * stride_);
  } else {
    index = freeOpen_.back();
    freeOpen_.pop_back();
  }
  const TraceColumns& c = trace_.columns();
  OpenTruth& w = open_[index];
  const std::uint32_t generation = w.ref.generation + 1;
  w = OpenTruth{};
  w.ref = {index, generation};
  w.workflow = workflow;
  w.arrival = t;
  const std::uint32_t first = c.firstCall[workflow];
  w.unfinished = c.firstCall[workflow + 1] - first;
  for (std::uint32_t i = 0; i < w.unfinished; ++i) {
    pending_[index * stride_ + i] = c.parentOffset[first + i + 1] - c.parentOffset[first + i];
    slotOf_[index * stride_ + i] = kNoSlot;
  }
  return index;
}

void Truth::close(std::uint32_t index) {
  const std::uint32_t n = endRow(index) - firstRow(index);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t slot = slotOf_[index * stride_ + i];
    if (slot != kNoSlot) freeCalls_.push_back(slot);
  }
  open_[index].freed = true;
  freeOpen_.push_back(index);
}

Ref Truth::name(std::uint32_t index, std::uint32_t row) {
  std::uint32_t slot;
  if (freeCalls_.empty()) {
    slot = static_cast<std::uint32_t>(calls_.size());
    calls_.emplace_back();
  } else {
    slot = freeCalls_.back();
    freeCalls_.pop_back();
  }
  CallTruth& c = calls_[slot];
  const std::uint32_t generation = c.generation + 1;
  c = CallTruth{};
  c.generation = generation;
  c.row = row;
  c.open = index;
  slotOf_[index * stride_ + local(index, row)] = slot;
  ++open_[index].known;
  return {slot, generation};
}

}  // namespace laxity
