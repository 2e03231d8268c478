// A tap on the scheduler: every event, decide mark and decision as one 128-byte record. Off by default.
#pragma once

#include <vector>

#include "scheduler/events.h"

namespace laxity {

class EventLog {
 public:
  EventRecord& add(Nanos t, EventKind kind) {
    records_.emplace_back();
    records_.back().header.t = t;
    records_.back().header.kind = kind;
    return records_.back();
  }
  const std::vector<EventRecord>& records() const { return records_; }
  void clear() { records_.clear(); }

 private:
  std::vector<EventRecord> records_;
};

}  // namespace laxity
