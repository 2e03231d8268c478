// What only the driver knows: the workflows that have arrived, which calls of theirs exist, their true
// lengths, and the slots under which the scheduler knows them. Slots are recycled; records live as long as
// the workflow is open.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "workload/trace.h"

namespace laxity {

/// A call that the scheduler knows.
struct CallTruth {
  std::uint32_t generation = 0;
  std::uint32_t row = 0;   ///< in the trace
  std::uint32_t open = 0;  ///< index of its workflow's record
  std::uint32_t epoch = 0;
  std::uint32_t generated = 0;  ///< output tokens of earlier attempts, now part of the prompt
  std::uint32_t cached = 0;     ///< of the prompt: found in the prefix cache at the lease of this attempt
};

/// A workflow that has arrived and not ended.
struct OpenTruth {
  Ref ref;
  std::uint32_t workflow = 0;  ///< row in the trace
  std::uint32_t unfinished = 0;
  std::uint32_t known = 0;     ///< calls revealed so far
  std::uint32_t inFlight = 0;  ///< leased and not ended
  bool aborted = false;        ///< a call was rejected: nothing more is revealed
  bool closed = false;
  bool freed = false;  ///< the record may be used again
  Nanos arrival = 0;
  std::size_t block = 0;  ///< its calls' place in `pending` and `slotOf`
};

/// The memory of a Truth, handed from one run to the next.
struct TruthMemory {
  std::vector<OpenTruth> open;
  std::vector<std::uint32_t> freeOpen;
  std::vector<std::uint32_t> pending;                ///< [block + local call]
  std::vector<std::uint32_t> slotOf;                 ///< [block + local call]
  std::vector<std::vector<std::size_t>> freeBlocks;  ///< by the binary logarithm of their size
  std::vector<CallTruth> calls;
  std::vector<std::uint32_t> freeCalls;
};

class Truth {
 public:
  explicit Truth(const Trace& trace, TruthMemory memory = {});

  /// Ends this object's life.
  TruthMemory takeMemory() { return std::move(m_); }

  std::uint32_t open(std::uint32_t workflow, Nanos t);
  void close(std::uint32_t index);

  OpenTruth& workflow(std::uint32_t index) { return m_.open[index]; }
  CallTruth& call(std::uint32_t slot) { return m_.calls[slot]; }
  const CallTruth& call(std::uint32_t slot) const { return m_.calls[slot]; }

  /// A slot for the call at a row; the scheduler learns of it under the returned reference.
  Ref name(std::uint32_t index, std::uint32_t row);
  /// The reference of a call that was named before.
  Ref refOf(std::uint32_t index, std::uint32_t row) const {
    const std::uint32_t slot = m_.slotOf[at(index, row)];
    return {slot, m_.calls[slot].generation};
  }
  /// Counts down the unfinished parents of a child; true when none is left.
  bool parentEnded(std::uint32_t index, std::uint32_t childRow) {
    return --m_.pending[at(index, childRow)] == 0;
  }

  std::uint32_t firstRow(std::uint32_t index) const {
    return trace_.columns().firstCall[m_.open[index].workflow];
  }
  std::uint32_t endRow(std::uint32_t index) const {
    return trace_.columns().firstCall[m_.open[index].workflow + 1];
  }

 private:
  std::size_t at(std::uint32_t index, std::uint32_t row) const {
    return m_.open[index].block + row - firstRow(index);
  }

  const Trace& trace_;
  TruthMemory m_;
};

}  // namespace laxity
