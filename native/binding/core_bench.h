// What the parts of the core cost on generated states: for bench alone.
#pragma once

#include "binding/napi_setup.h"

namespace laxity::binding {

/// structureBench({structure: 0 heap | 1 tournament, size, operations, repeats, seed}): thread CPU time of
/// one operation, ns, for each of `repeats` rounds. Heap: take the first and put another in. Tournament:
/// change a leaf and ask for the least. Float64Array.
Napi::Value structureBench(const Napi::CallbackInfo& info);

/// dispatchBench({order, placement, migrate, instances, waiting, turns, repeats, seed}): thread CPU time of a
/// whole call in the scheduler (workbench.h), ns, for each of `repeats` rounds of `turns`. Float64Array.
Napi::Value dispatchBench(const Napi::CallbackInfo& info);

/// placementBench({instances, operations, repeats, seed}): thread CPU time of one decision of
/// workload-balanced among instances of two classes, with the change of two queues that it brings (the call
/// that enters one, another that leaves one), ns, for each of `repeats` rounds. Float64Array.
Napi::Value placementBench(const Napi::CallbackInfo& info);

/// Bytes of the records that an event, a decision, a call, a workflow, an instance and a place in a queue
/// take.
Napi::Object recordBytes(Napi::Env env);

}  // namespace laxity::binding
