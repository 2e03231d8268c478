// Descriptions of hardware and models from JavaScript: plain numbers that the facade has validated.
#pragma once

#include <string>

#include "binding/napi_setup.h"
#include "model/latency.h"
#include "model/roofline.h"

namespace laxity::binding {

/// { llm, gpu, tensorParallel, weights, kv, stack }; throws where a field is missing. The core checks ranges.
bool readRoofline(Napi::Object from, RooflineSpec* out);

/// A latency of kind `roofline` or `profile`; *handled is false for any other kind.
bool readModelled(Napi::Object from, std::uint32_t index, bool* handled, LatencyModel* out);

/// The registry: calibration, gpus, models, kernelSets, stacks.
Napi::Object hardware(Napi::Env env);

}  // namespace laxity::binding
