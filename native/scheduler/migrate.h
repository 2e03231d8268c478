// Re-assignment of waiting calls (policies 4.12, "late binding"; CONTRACT 7: off by default, at-reveal only).
//
// An instance that can admit takes a waiting call of another queue where that call would finish much sooner
// here than there. Calls whose attempt has started never move, nor does a breaker's probe. Part of every
// `decide` that considers an instance, after all instances considered have leased from their own queues:
//
//   repeat
//     takers      = instances that accept calls, have an empty queue and an open gate (boundary feedback: an
//                   exact capacity of this instant, or an empty ledger)
//     candidates  = of every other queue of a taker's model the `migrateCandidates` most urgent calls, by the
//                   present order
//     gain(c, m)  = score(c, its queue) - score(c, m), for takers m with credit for c
//     best        = the pair with the largest gain among those with gain > migrateMs
//     without one: stop; else move the call into m's queue with its key there, lease it (it is alone and has
//     credit), and let the instance it left lease from its own queue if its gate is open
//
// score  = the projected finish of placement/finish.h under every placement, with the waiting calls at least
//          as urgent as c under the present order as those ahead, c itself left out of its queue's sums.
//          Where they and c exceed the KV (ex > 0), prefillAhead is theirs and the others are the leased
//          sequences and the calls behind; otherwise an engine drains every waiting prefill first, so
//          prefillAhead is that of the whole queue and the others are all assigned calls (as in
//          policies 4.11).
// Ties   : (gain, the call's rank, t_comp on the taker, perm of the taker).
//
// Time alone moves nothing: an instance that could take is considered again after an event of its own or a
// change of any queue of its model. A call whose projected finish in its queue is not `migrateMs`, or the
// best gain so far, above what it would take alone on a taker, behind what that has in progress, is not
// compared with it; where that holds for every call of a queue, whatever its position, the most urgent ones
// are not looked for.
#pragma once

#include <cstdint>

#include "base/heap.h"
#include "base/ids.h"
#include "base/time.h"
#include "placement/finish.h"

namespace laxity {

/// An instance that could take a call, as far as that does not depend on the call.
struct Taker {
  std::uint32_t instance = kNoSlot;
  std::uint32_t classIndex = 0;  ///< among those of the takers
  double wait = 0;               ///< seconds until its leased prefills end
  double utilisation = 0;
  double stretch = 1;
};

/// The takers of one hardware class: the least of each term.
struct TakerClass {
  std::uint32_t instance = kNoSlot;  ///< one of them
  double wait = 0;
  double stretch = 1;
  FinishFloor floor;  ///< of the call that is looked at
};

/// One pair of call and taker.
struct Move {
  double gain = 0;  ///< seconds
  std::uint64_t rank = 0;
  Nanos exec = 0;
  std::uint64_t tie = 0;
  std::uint32_t call = kNoSlot;
  std::uint32_t instance = kNoSlot;

  bool better(const Move& than) const {
    if (gain != than.gain) return gain > than.gain;
    if (rank != than.rank) return rank < than.rank;
    return exec != than.exec ? exec < than.exec : tie < than.tie;
  }
};

}  // namespace laxity
