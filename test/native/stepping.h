// A second simulator, as naive as possible: it visits every iteration and every instant with plain loops, and
// shares no code with the leaping engine, its driver or their truth beyond the latency interface. Only the
// Scheduler is the same object, because policies are written once. Used to show that leaping equals stepping.
//
// Rules it follows (CONTRACT 3, 5, 6; engine.h, driver.h):
//   - at a boundary a waiting lease that fits is prefilled alone and whole, otherwise all running calls
//   decode one token;
//   - the first token comes from the prefill, so output n takes n - 1 iterations;
//   - a call holds max(its reservation, its context); before an iteration that would exceed the KV capacity
//   the calls
//     that joined last are evicted;
//   - chunked: each iteration has a budget; decodes take a token each, the rest goes to prefills in the order
//   of their leases, the last one cut; sums restart where an iteration is not like the one before;
//   - decode-share: a prefill and an iteration run side by side at speeds 1 - s and s, alone at 1; either
//   ends at the first nanosecond at which its work is done; a prefilled call joins at the end of the
//   iteration in progress;
//   - iteration times are summed exactly since the batch last changed or a prefill last began, and rounded
//   once;
//   - boundary feedback: every engine that ends an iteration or a prefill, or is idle, reports its exact
//   capacity;
//   - prefix caches are lists scanned linearly (naive_line.h); length errors are the declared factors,
//   rounded and
//     bounded here;
//   - prefill-decode: engines and links of pair_stepping.h, calls and KV between them as CONTRACT 2 and 8 say; the
//     scheduler decides after an event, or where a decode engine whose queue it wants to see stands at a boundary;
//   - a rejection closes its workflow at once, and the calls this sets free are decided upon at the same
//   instant.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/simulation.h"

namespace laxity::stepping {

struct CallResult {
  Nanos ready = -1;
  Nanos leased = -1;      ///< of the first attempt
  Nanos firstToken = -1;  ///< the first one ever
  Nanos finished = -1;
  std::uint32_t instance = kNoSlot;
  std::uint32_t decodeInstance = kNoSlot;
  Nanos transferStart = -1;           ///< prefill-decode, as are the next two: of the last attempt
  Nanos transferred = -1;
  Nanos decode = -1;
  std::uint32_t evictions = 0;        ///< seen by the scheduler
  std::uint32_t hiddenEvictions = 0;  ///< lease mode: the engine's own business
};

struct Result {
  Status status = Status::kOk;
  std::vector<CallResult> calls;
  std::vector<Nanos> latency;  ///< per workflow, kNever where it did not complete
  std::vector<Nanos> base;
  std::uint64_t evictions = 0;
  std::uint64_t rejected = 0;
  std::uint64_t finished = 0;
  std::uint64_t iterations = 0;
  CacheResult cache;
  std::vector<Nanos> busy;  ///< prefill-decode: by instance
  std::vector<std::int64_t> peak;
};

/// Arrivals come from options.arrivals.recordedMs.
Result run(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options, EventLog* log);

}  // namespace laxity::stepping
