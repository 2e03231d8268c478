// What one plan of the pair planner costs on generated states: for bench alone.
#pragma once

#include "binding/napi_setup.h"

namespace laxity::binding {

/// plannerBench({calls, instances, tight, onePass, scalar, perInstance, plans, repeats, seed}): the thread
/// CPU time of one plan, ns, for each of `repeats` rounds of `plans` plans, each after the events of a step
/// (a call replaced, a release and a reservation on one decode instance, one ready time). `perInstance` < 0:
/// whole plans. {ns: Float64Array, entries, vectorised}; entries = length of the last plan.
Napi::Value plannerBench(const Napi::CallbackInfo& info);

/// plannerState(the same options): the state after `plans` steps as columns {t, prefill, decode, calls}, and
/// the plan made of it {call, prefill, decode, finish}: what another planner must find.
Napi::Value plannerState(const Napi::CallbackInfo& info);

}  // namespace laxity::binding
