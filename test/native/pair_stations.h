// Laws of every station of a prefill-decode run (validation.md 2, laws 6, 7, 8 and 11): the queue in front of
// the prefill instances, each prefill instance, the hand-over of its KV, the links, each decode instance.
//
// What a run reports it reports twice, by its columns and by its log, and the two do not come from one place:
// the columns are the driver's truth, the log is what the scheduler was told and decided. Busy time and link
// times are recomputed from the columns by the definitions, with plain sweeps.
//
// For runs without rejections, evictions, prefix caches or compatibility settings, whose predictions are not
// short.
#pragma once

#include <string>

#include "queueing.h"

namespace laxity::trial {

struct PairStationTally {
  std::uint64_t calls = 0;
  std::uint64_t transfers = 0;
  std::uint64_t shared = 0;         ///< transfers that shared an end
  std::uint64_t queued = 0;         ///< calls that waited for a lease
  std::uint64_t queuedOnP = 0;      ///< that were leased and waited for their prefill
  std::uint64_t waitedForRoom = 0;  ///< whose KV waited for room on d
  std::uint64_t heldUp = 0;  ///< of the calls that waited for a lease: while all they may wait for worked
};

/// Empty where all laws hold, else the name of the first that does not. `r` holds a log.
std::string brokenLaw(const OwnedTrace& trace, const ClusterSpec& cluster, const RunOptions& options,
                      const Run& r, PairStationTally* tally);

}  // namespace laxity::trial
