// The decode stage: in which order calls whose prefill is done enter decode, and where the free ones go.
//
// Assumes a pool of the *admitted* calls (running on their instance): a waiting call's own reservation must
// not stand in its way. A locked call has only its d, where its KV was sent; a free call (its d was lost, or
// `lateDecode`) may use any d, at the cost of a transfer.
//
// Procedure (planner.md 2, last paragraph): the greedy of pair_planner.h with
//   ready  = t + transfer_g        (0 where the KV already is)
//   finish = max(ready, w_d(m)) + output * perToken_d
//   R      = (finish - (arrival - hint)) * inverseHorizon
// Ties: instances by (finish, perm[d]); calls by R (the larger first), arrival, rank. A call without a
// feasible instance stays unplanned.
//
// Cached best instances hold until a commit touches them (claim 3); inside a class the scan stops early
// (claim 2). Costs, N calls, D instances: O(N (visited * log releases)) at the start, then per step O(N) and
// one scan for each touched call. Nothing is allocated in steady state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/pools.h"
#include "planner/projection.h"

namespace laxity {

struct WaitingDecode {
  std::uint32_t slot = 0;
  std::uint32_t lock = kNoSlot;
  Nanos arrival = 0;
  std::uint64_t rank = 0;
  double inverseHorizon = 1;
  Nanos hint = 0;
  std::int64_t kv = 0;       ///< m, tokens, >= 1
  std::uint32_t output = 0;  ///< predicted tokens still to come, >= 1
  std::uint32_t sequences = 1;
  /// ns per decode class, kNever where it cannot run; null = 0 everywhere. A locked call's is that of its d's
  /// class.
  const Nanos* transfer = nullptr;
};

struct DecodeEntry {
  std::uint32_t call = 0;  ///< slots
  std::uint32_t decode = 0;
  std::uint32_t decodeRevision = 0;
  Nanos ready = 0;
  Nanos finish = 0;
  double ratio = 0;
};

class DecodePlanner {
 public:
  /// At most `limit` entries; valid until the next plan.
  std::span<const DecodeEntry> plan(Nanos t, const DecodePool& admitted, std::span<const WaitingDecode> calls,
                                    std::uint32_t limit = 0xffff'ffffu);

 private:
  struct Best {
    double finish;
    double ready;
    double rank;  ///< of d, -1 without one
    double score;
    bool done;
  };

  void evaluate(const WaitingDecode& call, Nanos t, Best* best);

  DecodeProjection projection_;
  std::vector<Best> best_;
  std::vector<DecodeEntry> entries_;
};

}  // namespace laxity
