// The certified lower bound (bounds/bound.h) and the clairvoyant reference (bounds/clairvoyant.h) as plain
// objects.
#pragma once

#include "binding/napi_setup.h"
#include "bounds/bound.h"
#include "bounds/clairvoyant.h"

namespace laxity::binding {

/// `taus`: a Float64Array. Gives { status, bounds: [{ tau, ratio, isolated, shares }], evaluations, rounds,
/// cpuMs }; `shares` = { prefill, kv, sequences, latency }. Throws where the arguments make no sense.
Napi::Object lowerBound(Napi::Env env, const Trace& trace, const ClusterSpec& cluster,
                        const RunOptions& options, Napi::Value taus);

/// `evaluations`: a number >= 1. Gives { status, references: [{ tau, ratio, evaluations }], cpuMs }.
Napi::Object clairvoyant(Napi::Env env, const Trace& trace, const ClusterSpec& cluster,
                         const RunOptions& options, Napi::Value taus, Napi::Value evaluations);

}  // namespace laxity::binding
