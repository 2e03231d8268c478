// One drained ring: the events between two decides.
#pragma once

#include <span>
#include <vector>

#include "scheduler/events.h"

namespace laxity {

/// A record's place in the order of CONTRACT 3: by t, then by class, then as written.
struct BatchPlace {
  Nanos t;
  std::uint32_t rank;
  std::uint32_t index;  ///< in the batch
};

/// Records are large and stay where they are: `places` gets their order.
void orderBatch(std::span<const EventRecord> batch, std::vector<BatchPlace>* places);

}  // namespace laxity
