#include "simulator/truth.h"

#include <bit>

namespace laxity {

Truth::Truth(const Trace& trace, TruthMemory memory) : trace_(trace), m_(std::move(memory)) {
  m_.open.clear();
  m_.freeOpen.clear();
  m_.pending.clear();
  m_.slotOf.clear();
  m_.calls.clear();
  m_.freeCalls.clear();
  m_.freeBlocks.assign(33, {});
}

std::uint32_t Truth::open(std::uint32_t workflow, Nanos t) {
  std::uint32_t index;
  if (m_.freeOpen.empty()) {
    index = static_cast<std::uint32_t>(m_.open.size());
    m_.open.emplace_back();
  } else {
    index = m_.freeOpen.back();
    m_.freeOpen.pop_back();
  }
  const TraceColumns& c = trace_.columns();
  OpenTruth& w = m_.open[index];
  const std::uint32_t generation = w.ref.generation + 1;
  w = OpenTruth{};
  w.ref = {index, generation};
  w.workflow = workflow;
  w.arrival = t;
  const std::uint32_t first = c.firstCall[workflow];
  w.unfinished = c.firstCall[workflow + 1] - first;
  // Blocks of powers of two, recycled: one huge workflow must not make room for all as large.
  auto& blocks = m_.freeBlocks[static_cast<std::size_t>(std::bit_width(w.unfinished - 1))];
  if (blocks.empty()) {
    w.block = m_.pending.size();
    m_.pending.resize(w.block + std::bit_ceil(w.unfinished));
    m_.slotOf.resize(m_.pending.size());
  } else {
    w.block = blocks.back();
    blocks.pop_back();
  }
  for (std::uint32_t i = 0; i < w.unfinished; ++i) {
    m_.pending[w.block + i] = c.parentOffset[first + i + 1] - c.parentOffset[first + i];
    m_.slotOf[w.block + i] = kNoSlot;
  }
  return index;
}

void Truth::close(std::uint32_t index) {
  const std::uint32_t n = endRow(index) - firstRow(index);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t slot = m_.slotOf[m_.open[index].block + i];
    if (slot != kNoSlot) m_.freeCalls.push_back(slot);
  }
  m_.freeBlocks[static_cast<std::size_t>(std::bit_width(n - 1))].push_back(m_.open[index].block);
  m_.open[index].freed = true;
  m_.freeOpen.push_back(index);
}

Ref Truth::name(std::uint32_t index, std::uint32_t row) {
  std::uint32_t slot;
  if (m_.freeCalls.empty()) {
    slot = static_cast<std::uint32_t>(m_.calls.size());
    m_.calls.emplace_back();
  } else {
    slot = m_.freeCalls.back();
    m_.freeCalls.pop_back();
  }
  CallTruth& c = m_.calls[slot];
  const std::uint32_t generation = c.generation + 1;
  c = CallTruth{};
  c.generation = generation;
  c.row = row;
  c.open = index;
  m_.slotOf[at(index, row)] = slot;
  ++m_.open[index].known;
  return {slot, generation};
}

}  // namespace laxity
