// JavaScript values to the core's plain structs. The facade has validated them; here only what would corrupt
// memory or make no sense to the core is checked again, with a coded TypeError that names the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "binding/napi_setup.h"
#include "binding/object_wrap.h"
#include "binding/placement_function.h"
#include "scheduler/scheduler.h"
#include "simulator/simulation.h"
#include "workload/trace.h"

namespace laxity::binding {

// Every reader throws (object_wrap.h) and returns false on the first problem.

/// A typed array of exactly this element type, over an ArrayBuffer or a SharedArrayBuffer. `length` in
/// elements. `present` is false (and nothing thrown) where an optional field is missing.
struct Column {
  void* data = nullptr;
  std::size_t length = 0;
  bool present = false;
};
bool readColumn(Napi::Object from, const char* name, napi_typedarray_type type, bool optional, Column* out);

/// Whether a typed array lies over a SharedArrayBuffer, which can be neither detached nor shrunk. Required of
/// all memory that is used after JavaScript had a turn.
bool isShared(Napi::Env env, napi_value array);

/// A new array with a copy of the `count` elements; undefined where the environment is being terminated,
/// which makes no more arrays (Napi::TypedArray::New would give one without memory).
Napi::Value arrayOf(Napi::Env env, napi_typedarray_type type, const void* elements, std::size_t bytes,
                    std::size_t count);
inline Napi::Value bytesArray(Napi::Env env, const void* data, std::size_t bytes) {
  return arrayOf(env, napi_uint8_array, data, bytes, bytes);
}
inline Napi::Value numbersArray(Napi::Env env, std::span<const double> values) {
  return arrayOf(env, napi_float64_array, values.data(), values.size_bytes(), values.size());
}
inline Napi::Value countsArray(Napi::Env env, std::span<const std::uint32_t> values) {
  return arrayOf(env, napi_uint32_array, values.data(), values.size_bytes(), values.size());
}

// Conversions that take an empty value for undefined: a worker that is being terminated reads nothing but
// those, and node-addon-api's own (ToBoolean, ToNumber, ToString, Length of an empty array) then abort the
// process.

bool isTruthy(const Napi::Value& value);
/// 2^32 - 1, which is no slot and no instance, for what is no number.
std::uint32_t indexOf(const Napi::Value& value);
/// Own and inherited enumerable names; empty where something is pending.
std::vector<std::string> propertyNames(Napi::Object from);

bool readNumber(Napi::Object from, const char* name, double* out);
bool readString(Napi::Object from, const char* name, std::string* out);
bool readTrace(Napi::Object from, TraceColumns* out);
bool readLatencies(Napi::Object from, std::vector<LatencyModel>* out);
/// `learned`: those without stages count too, and learn them.
bool readTemplates(Napi::Object from, std::vector<std::vector<TemplateEntry>>* out, bool learned = false);
bool readInstances(Napi::Object from, std::vector<InstanceSpec>* out);
/// `prefixCache` of each of the `instances`; stays empty where none has one.
bool readPrefixCaches(Napi::Object from, std::vector<std::vector<CacheTier>>* out);

/// `pairs`, which a run on a prefill-decode cluster has.
bool readPairs(Napi::Value value, PairOptions* out);
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
