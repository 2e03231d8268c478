// JavaScript values to the core's plain structs. The facade has validated them; here only what would corrupt
// memory or make no sense to the core is checked again, with a TypeError that names the field.
#pragma once

#include <string>
#include <vector>

#include "binding/napi_setup.h"
#include "binding/placement_function.h"
#include "scheduler/scheduler.h"
#include "simulator/simulation.h"
#include "workload/trace.h"

namespace laxity::binding {

/// Throws and returns false on the first problem; every reader below does.
bool fail(Napi::Env env, const std::string& message);

/// A typed array of exactly this element type, over an ArrayBuffer or a SharedArrayBuffer. `length` in
/// elements. `present` is false (and nothing thrown) where an optional field is missing.
struct Column {
  void* data = nullptr;
  std::size_t length = 0;
  bool present = false;
};
bool readColumn(Napi::Object from, const char* name, napi_typedarray_type type, bool optional, Column* out);

bool readNumber(Napi::Object from, const char* name, double* out);
bool readString(Napi::Object from, const char* name, std::string* out);
bool readTrace(Napi::Object from, TraceColumns* out);
bool readLatencies(Napi::Object from, std::vector<LatencyModel>* out);
/// `learned`: those without stages count too, and learn them.
bool readTemplates(Napi::Object from, std::vector<std::vector<TemplateEntry>>* out, bool learned = false);
bool readInstances(Napi::Object from, std::vector<InstanceSpec>* out);
/// `prefixCache` of each of the `instances`; stays empty where none has one.
bool readPrefixCaches(Napi::Object from, std::vector<std::vector<CacheTier>>* out);

/// order, placement, binding, feedback, lookahead, knowledge, parameters, tieSeed, compat; optional
/// placementSeed, migrate, error, pairs. With `pairs` (prefill-decode clusters) `placement` names a pair
/// placement. A placement that is a function is bound to `function`, which must outlive the run.
bool readPolicy(Napi::Object from, RunOptions* out, PlacementFunction* function);

/// A name among those of an enum, by position.
template <std::size_t N>
bool readName(Napi::Object from, const char* field, const char* const (&names)[N], int* out) {
  std::string given;
  if (!readString(from, field, &given)) return false;
  for (std::size_t i = 0; i < N; ++i) {
    if (given == names[i]) {
      *out = static_cast<int>(i);
      return true;
    }
  }
  return fail(from.Env(), "Unknown value \"" + given + "\" for `" + field + "`");
}

}  // namespace laxity::binding
