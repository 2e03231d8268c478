// The certified lower bound as a plain object (bounds/bound.h).
#pragma once

#include "binding/napi_setup.h"
#include "bounds/bound.h"

namespace laxity::binding {

/// `taus`: a Float64Array. Gives { status, bounds: [{ tau, ratio, isolated, shares }], evaluations, rounds,
/// cpuMs }; `shares` = { prefill, kv, sequences, latency }. Throws where the arguments make no sense.
Napi::Object lowerBound(Napi::Env env, const Trace& trace, const ClusterSpec& cluster,
                        const RunOptions& options, Napi::Value taus);

}  // namespace laxity::binding
