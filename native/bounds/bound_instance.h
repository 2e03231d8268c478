// A finite instance, as its lower bound sees it (bound.h): what every call takes on every hardware class at
// least, and when it may run at all.
//
// Prefill-decode clusters have classes of both roles and a call chooses (p, d). On unified clusters both
// lists hold the same classes and a call chooses one, so p = d and the transfer takes nothing.
//
// Every time here is a lower bound on what any schedule of the machine needs:
//   prefill_p   alone on class p. 0 where p has a prefix cache that may hold part of the prompt, or batches
//               prompts by a model without constants, also in chunks. Chunked: less half a nanosecond per
//               token, since every iteration may be rounded
//   work_p      of an instance of p: the same; in batches of at most b tokens by constants: perToken * tokens
//               + base * tokens / b, since the tokens of a batch share its base
//   transfer    alone on both ends, less 2 ns for the rounding of shared links
//   decode_d    at batch 1, less half a nanosecond per iteration: engines round each stretch of iterations
//               once. By the affine floor (decode_floor.h) where a larger batch might be faster
//   best        min over feasible (p, d) of their sum; a call whose only token comes with its prefill: of
//               prefill
//   head, tail  longest path of best times and tool gaps before (with the call's own gap) and after a call
// Feasible: of the call's model, its prompt fits p and its KV fits d.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "bounds/decode_floor.h"
#include "simulator/simulation.h"

namespace laxity::bounds {

/// A hardware class of one role.
struct BoundClass {
  std::uint16_t model = 0;
  std::uint32_t count = 0;
  std::int64_t kvTokens = 0;
  std::uint32_t maxSequences = 1;
  bool exactPrefill = true;  ///< a prompt costs what it costs alone, whatever is beside it
  bool mayCache = false;     ///< some member has a prefix cache
  const LatencyModel* latency = nullptr;
  InstanceSpec spec;
  DecodeFloor floor;
};

struct BoundCall {
  std::uint32_t workflow = 0;
  std::uint16_t model = 0;
  std::uint32_t prompt = 0;
  std::int64_t iterations = 0;    ///< of decode
  std::int64_t firstContext = 0;  ///< tokens of context in the first of them
  std::int64_t kv = 0;  ///< where it decodes: reserved if `reservesAll`, else what it holds in the end
  Nanos gap = 0;
  Nanos head = 0;
  Nanos tail = 0;
  Nanos best = 0;
  Nanos least = 0;        ///< min prefill + transfer; without decode: min prefill
  Nanos afterwards = 0;   ///< min transfer + decode; without decode: 0
  bool feasible = false;  ///< somewhere
};

struct BoundWorkflow {
  Nanos arrival = 0;
  Nanos base = 0;       ///< what its ratio divides by; 0 = its ratio is infinite
  Nanos critical = 0;   ///< longest path of best times and gaps
  Nanos pathTools = 0;  ///< gaps on that path
  std::uint32_t firstCall = 0;
  std::uint32_t endCall = 0;
  std::uint32_t firstStep = 0;  ///< its critical path in BoundInstance::path
  std::uint32_t endStep = 0;
  bool feasible = true;
};

struct BoundInstance {
  bool unified = false;
  std::vector<BoundClass> prefill;
  std::vector<BoundClass> decode;  ///< unified: as `prefill`
  std::vector<BoundCall> calls;
  std::vector<BoundWorkflow> workflows;
  std::vector<std::uint32_t> path;  ///< calls

  // By call and class; kNever where it cannot run.
  std::vector<Nanos> prefillTime;   ///< [calls x prefill classes]
  std::vector<Nanos> prefillWork;   ///< [calls x prefill classes]
  std::vector<Nanos> prefillAfter;  ///< [calls x prefill classes] min transfer + decode from there
  std::vector<Nanos> decodeTime;    ///< [calls x decode classes]
  std::vector<Nanos> decodeBefore;  ///< [calls x decode classes] min prefill + transfer to there

  bool reservesAll = true;  ///< a call holds its `kv` as long as it decodes

  Nanos decodeOf(std::size_t call, std::size_t k) const { return decodeTime[call * decode.size() + k]; }
};

/// kUnsupported: a cluster of both kinds, a script, or compat hexgen-ticks, whose calls start before their
/// parents' end; else as simulate() would refuse the input.
Status boundInstance(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                     BoundInstance* out);

}  // namespace laxity::bounds
