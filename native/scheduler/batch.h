// One drained ring: the events between two decides.
#pragma once

#include <span>

#include "scheduler/events.h"

namespace laxity {

/// Into the order of CONTRACT 3: by t, then by class, then as written.
void sortBatch(std::span<EventRecord> batch);

}  // namespace laxity
