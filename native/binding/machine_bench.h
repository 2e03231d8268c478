// What the machine itself charges: memory, and the boundary between JavaScript and native code. For bench
// alone.
#pragma once

#include "binding/napi_setup.h"

namespace laxity::binding {

/// memoryBench({kind: 0 load | 1 copy, bytes, operations, repeats, seed}): thread CPU time, ns, for each of
/// `repeats` rounds. Load: one load whose address the load before it gave, from a random cycle over the cache
/// lines of `bytes`. Copy: one byte of traffic (read or written) where half of `bytes` is copied to the other
/// half, `operations` times. Float64Array.
Napi::Value memoryBench(const Napi::CallbackInfo& info);

/// Calls that do nothing but cross: empty(), sixIn({a, b, c, d, e, f}), columnIn(Float64Array(6)),
/// eightOut().
Napi::Object crossings(Napi::Env env);

}  // namespace laxity::binding
