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

}  // namespace laxity::binding
