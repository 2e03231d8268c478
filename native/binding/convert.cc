#include "binding/convert.h"

#include <cmath>
#include <cstring>

#include "binding/model_convert.h"
#include "order/registry.h"
#include "placement/pair_registry.h"
#include "placement/registry.h"

namespace laxity::binding {

bool fail(Napi::Env env, const std::string& message) {
  // Not through Napi::TypeError, which aborts where the environment takes no exception any more.
  if (!env.IsExceptionPending()) napi_throw_type_error(env, "ERR_LAXITY_NATIVE", message.c_str());
  return false;
}

bool readColumn(Napi::Object from, const char* name, napi_typedarray_type type, bool optional, Column* out) {
  const Napi::Env env = from.Env();
  *out = {};
  const Napi::Value value = from.Get(name);
  if (env.IsExceptionPending()) return false;
  if (optional && (value.IsUndefined() || value.IsNull())) return true;
  if (!value.IsTypedArray()) return fail(env, std::string("Expected a typed array for `") + name + "`");
  // Not through Napi::ArrayBuffer: that aborts on an array over a SharedArrayBuffer.
  napi_typedarray_type actual;
  if (napi_get_typedarray_info(env, value, &actual, &out->length, &out->data, nullptr, nullptr) != napi_ok ||
      actual != type) {
    return fail(env, std::string("Wrong element type for `") + name + "`");
  }
  out->present = true;
  return true;
}

bool isShared(Napi::Env env, napi_value array) {
  napi_value buffer = nullptr;
  bool ordinary = true;
  return napi_get_typedarray_info(env, array, nullptr, nullptr, nullptr, &buffer, nullptr) == napi_ok &&
         napi_is_arraybuffer(env, buffer, &ordinary) == napi_ok && !ordinary;
}

Napi::Value arrayOf(Napi::Env env, napi_typedarray_type type, const void* elements, std::size_t bytes,
                    std::size_t count) {
  void* data = nullptr;
  napi_value buffer = nullptr;
  napi_value array = nullptr;
  if (napi_create_arraybuffer(env, bytes, &data, &buffer) != napi_ok || (bytes > 0 && data == nullptr) ||
      napi_create_typedarray(env, type, count, buffer, 0, &array) != napi_ok) {
    return env.Undefined();
  }
  if (bytes > 0) std::memcpy(data, elements, bytes);
  return Napi::Value(env, array);
}

bool isTruthy(const Napi::Value& value) {
  napi_value coerced = nullptr;
  bool out = false;
  return !value.IsEmpty() && napi_coerce_to_bool(value.Env(), value, &coerced) == napi_ok &&
         napi_get_value_bool(value.Env(), coerced, &out) == napi_ok && out;
}

std::uint32_t indexOf(const Napi::Value& value) {
  std::uint32_t out = 0;
  return !value.IsEmpty() && napi_get_value_uint32(value.Env(), value, &out) == napi_ok ? out : 0xffff'ffffu;
}

std::vector<std::string> propertyNames(Napi::Object from) {
  std::vector<std::string> names;
  const Napi::Array list = from.GetPropertyNames();
  if (list.IsEmpty()) return names;
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value name = list.Get(i);
    if (!name.IsString()) return {};
    names.push_back(name.As<Napi::String>().Utf8Value());
  }
  return names;
}

bool readNumber(Napi::Object from, const char* name, double* out) {
  const Napi::Value value = from.Get(name);
  if (from.Env().IsExceptionPending()) return false;
  if (!value.IsNumber()) return fail(from.Env(), std::string("Expected a number for `") + name + "`");
  *out = value.As<Napi::Number>().DoubleValue();
  return true;
}

bool readString(Napi::Object from, const char* name, std::string* out) {
  const Napi::Value value = from.Get(name);
  if (from.Env().IsExceptionPending()) return false;
  if (!value.IsString()) return fail(from.Env(), std::string("Expected a string for `") + name + "`");
  *out = value.As<Napi::String>().Utf8Value();
  return true;
}

namespace {

template <class Int>
bool readInteger(Napi::Object from, const char* name, double low, double high, Int* out) {
  double value = 0;
  if (!readNumber(from, name, &value)) return false;
  if (!(value >= low && value <= high) || value != std::floor(value)) {
    return fail(from.Env(), std::string("Expected an integer in range for `") + name + "`");
  }
  *out = static_cast<Int>(value);
  return true;
}

bool readList(Napi::Object from, const char* name, Napi::Array* out) {
  const Napi::Value value = from.Get(name);
  if (from.Env().IsExceptionPending()) return false;
  if (!value.IsArray()) return fail(from.Env(), std::string("Expected an array for `") + name + "`");
  *out = value.As<Napi::Array>();
  return true;
}

bool itemOf(Napi::Array list, std::uint32_t i, const char* name, Napi::Object* out) {
  const Napi::Value value = list.Get(i);
  if (list.Env().IsExceptionPending()) return false;
  if (!value.IsObject()) return fail(list.Env(), std::string("Expected objects in `") + name + "`");
  *out = value.As<Napi::Object>();
  return true;
}

template <class T>
bool take(Napi::Object from, const char* name, napi_typedarray_type type, bool optional, std::size_t length,
          const T** out) {
  Column column;
  if (!readColumn(from, name, type, optional, &column)) return false;
  if (column.present && column.length != length) {
    return fail(from.Env(), std::string("Wrong length of `") + name + "`");
  }
  *out = static_cast<const T*>(column.data);
  return true;
}

}  // namespace

bool readTrace(Napi::Object from, TraceColumns* out) {
  Column first;
  Column stage;
  Column parents;
  if (!readColumn(from, "firstCall", napi_uint32_array, false, &first) ||
      !readColumn(from, "stage", napi_uint16_array, false, &stage) ||
      !readColumn(from, "parents", napi_uint32_array, false, &parents)) {
    return false;
  }
  constexpr std::size_t kLimit = 0xffff'fff0u;
  if (first.length == 0 || first.length > kLimit || stage.length > kLimit || parents.length > kLimit) {
    return fail(from.Env(), "Column lengths out of range");
  }
  *out = TraceColumns{};
  out->workflows = static_cast<std::uint32_t>(first.length - 1);
  out->calls = static_cast<std::uint32_t>(stage.length);
  out->edges = static_cast<std::uint32_t>(parents.length);
  out->firstCall = static_cast<const std::uint32_t*>(first.data);
  out->stage = static_cast<const std::uint16_t*>(stage.data);
  out->parents = static_cast<const std::uint32_t*>(parents.data);
  return take(from, "arrivalMs", napi_float64_array, true, out->workflows, &out->arrivalMs) &&
         take(from, "tenant", napi_uint16_array, true, out->workflows, &out->tenant) &&
         take(from, "sloMs", napi_float64_array, true, out->workflows, &out->sloMs) &&
         take(from, "model", napi_uint16_array, true, out->calls, &out->model) &&
         take(from, "promptTokens", napi_uint32_array, false, out->calls, &out->promptTokens) &&
         take(from, "cachedTokens", napi_uint32_array, true, out->calls, &out->cachedTokens) &&
         take(from, "outputTokens", napi_uint32_array, false, out->calls, &out->outputTokens) &&
         take(from, "predictedTokens", napi_uint32_array, true, out->calls, &out->predictedTokens) &&
         take(from, "toolGapMs", napi_float64_array, true, out->calls, &out->toolGapMs) &&
         take(from, "parentOffset", napi_uint32_array, false, std::size_t{out->calls} + 1,
              &out->parentOffset);
}

bool readLatencies(Napi::Object from, std::vector<LatencyModel>* out) {
  Napi::Array list;
  if (!readList(from, "latencies", &list)) return false;
  if (list.Length() > 0xffff) return fail(from.Env(), "Too many latency models");
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    Napi::Object item;
    if (!itemOf(list, i, "latencies", &item)) return false;
    LatencyModel modelled;
    bool handled = false;
    if (!readModelled(item, i, &handled, &modelled)) return false;
    if (handled) {
      out->push_back(std::move(modelled));
      continue;
    }
    static constexpr const char* kKinds[] = {"constants", "table"};
    int kind = 0;
    LatencyConstants c;
    if (!readName(item, "kind", kKinds, &kind) || !readNumber(item, "decodeBaseMs", &c.decodeBaseMs) ||
        !readNumber(item, "decodePerSequenceMs", &c.decodePerSequenceMs) ||
        !readNumber(item, "decodePerContextMs", &c.decodePerContextMs)) {
      return false;
    }
    LatencyModel model;
    Status status;
    if (kind == 0) {
      if (!readNumber(item, "prefillBaseMs", &c.prefillBaseMs) ||
          !readNumber(item, "prefillPerTokenMs", &c.prefillPerTokenMs)) {
        return false;
      }
      status = LatencyModel::constants(c, &model);
    } else {
      Column tokens;
      Column times;
      if (!readColumn(item, "tokens", napi_float64_array, false, &tokens) ||
          !readColumn(item, "prefillMs", napi_float64_array, false, &times)) {
        return false;
      }
      if (tokens.length != times.length)
        return fail(from.Env(), "Lengths of `tokens` and `prefillMs` differ");
      std::vector<PrefillKnot> knots(tokens.length);
      for (std::size_t k = 0; k < knots.size(); ++k) {
        const double n = static_cast<const double*>(tokens.data)[k];
        const double ms = static_cast<const double*>(times.data)[k];
        if (!(n >= 1 && n <= kMaxTokens) || !(ms > 0 && ms < 1e9))
          return fail(from.Env(), "Prefill knot out of range");
        knots[k] = {static_cast<std::uint32_t>(n), fromMs(ms)};
      }
      status = LatencyModel::table(std::move(knots), c, &model);
    }
    if (!ok(status))
      return fail(from.Env(), "Latency model " + std::to_string(i) + " has a value out of range");
    out->push_back(std::move(model));
  }
  return true;
}

bool readTemplates(Napi::Object from, std::vector<std::vector<TemplateEntry>>* out, bool learned) {
  Napi::Array list;
  if (!readList(from, "templates", &list)) return false;
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value value = list.Get(i);
    if (!value.IsArray()) return fail(from.Env(), "Expected arrays in `templates`");
    const Napi::Array stages = value.As<Napi::Array>();
    std::vector<TemplateEntry> entries(stages.Length());
    for (std::uint32_t s = 0; s < stages.Length(); ++s) {
      Napi::Object item;
      if (!itemOf(stages, s, "templates", &item) ||
          !readInteger(item, "stage", 0, 65535, &entries[s].stage) ||
          !readInteger(item, "promptTokens", 1, kMaxTokens, &entries[s].promptTokens) ||
          !readInteger(item, "outputTokens", 1, kMaxTokens, &entries[s].outputTokens)) {
        return false;
      }
    }
    if (learned || !entries.empty()) out->push_back(std::move(entries));
  }
  return true;
}

namespace {

/// Role and link of an instance; all optional, a unified one has none of them.
bool readRole(Napi::Object item, InstanceSpec* spec) {
  static constexpr const char* kRoles[] = {"unified", "prefill", "decode"};
  const auto given = [&item](const char* name) { return !item.Get(name).IsUndefined(); };
  int role = 0;
  double perToken = 0;
  double latency = 0;
  if ((given("role") && !readName(item, "role", kRoles, &role)) ||
      (given("linkMsPerToken") && !readNumber(item, "linkMsPerToken", &perToken)) ||
      (given("linkLatencyMs") && !readNumber(item, "linkLatencyMs", &latency))) {
    return false;
  }
  if (!(perToken >= 0 && perToken <= 1000)) return fail(item.Env(), "`linkMsPerToken` out of range");
  if (!(latency >= 0 && latency <= toMs(kMaxLinkLatency)))
    return fail(item.Env(), "`linkLatencyMs` out of range");
  spec->role = static_cast<Role>(role);
  spec->linkPerToken = fineFromMs(perToken);
  spec->linkLatency = fromMs(latency);
  return true;
}

}  // namespace

bool readInstances(Napi::Object from, std::vector<InstanceSpec>* out) {
  Napi::Array list;
  if (!readList(from, "instances", &list)) return false;
  if (list.Length() > kMaxInstances) return fail(from.Env(), "Too many instances");
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    Napi::Object item;
    InstanceSpec spec;
    static constexpr const char* kModes[] = {"prefill-first", "chunked", "decode-share"};
    int mode = 0;
    if (!itemOf(list, i, "instances", &item) || !readName(item, "mode", kModes, &mode) ||
        !readInteger(item, "latency", 0, 65535, &spec.latency) ||
        !readInteger(item, "model", 0, 65535, &spec.model) ||
        !readInteger(item, "kvTokens", 1, static_cast<double>(kMaxKvTokens), &spec.kvTokens) ||
        !readInteger(item, "maxSequences", 1, kMaxSequences, &spec.maxSequences) ||
        !readInteger(item, "chunkTokens", 0, kMaxChunkTokens, &spec.chunkTokens) ||
        !readInteger(item, "decodeShare", 0, kDecodeShareUnit - 1, &spec.decodeShare) ||
        !readRole(item, &spec)) {
      return false;
    }
    spec.mode = static_cast<EngineMode>(mode);
    out->push_back(spec);
  }
  return true;
}

bool readPrefixCaches(Napi::Object from, std::vector<std::vector<CacheTier>>* out) {
  Napi::Array list;
  if (!readList(from, "instances", &list)) return false;
  bool any = false;
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    Napi::Object instance;
    Napi::Array given;
    out->emplace_back();
    if (!itemOf(list, i, "instances", &instance)) return false;
    if (instance.Get("prefixCache").IsUndefined()) continue;
    any = true;
    if (!readList(instance, "prefixCache", &given)) return false;
    if (given.Length() > 64) return fail(from.Env(), "Too many tiers in `prefixCache`");
    for (std::uint32_t k = 0; k < given.Length(); ++k) {
      Napi::Object item;
      CacheTier tier;
      double perToken = 0;
      if (!itemOf(given, k, "prefixCache", &item) ||
          !readInteger(item, "tokens", 0, static_cast<double>(kMaxKvTokens), &tier.tokens) ||
          !readNumber(item, "msPerToken", &perToken)) {
        return false;
      }
      if (!(perToken >= 0 && perToken <= 100)) return fail(from.Env(), "`msPerToken` out of range");
      tier.perToken = fineFromMs(perToken);
      out->back().push_back(tier);
    }
  }
  if (!any) out->clear();
  return true;
}

namespace {

bool readError(Napi::Object from, PredictionError* out) {
  const Napi::Value value = from.Get("error");
  if (from.Env().IsExceptionPending()) return false;
  if (value.IsUndefined()) return true;
  if (!value.IsObject()) return fail(from.Env(), "Expected an object for `error`");
  const Napi::Object error = value.As<Napi::Object>();
  static constexpr const char* kLengths[] = {"none",    "lognormal", "mean-absolute",
                                             "uniform", "bias",      "heavy-tail"};
  int length = 0;
  if (!readName(error, "length", kLengths, &length) || !readNumber(error, "size", &out->size) ||
      !readNumber(error, "share", &out->share) || !readNumber(error, "correlation", &out->correlation) ||
      !readNumber(error, "gpu", &out->gpu) || !readNumber(error, "batch", &out->batch) ||
      !readInteger(error, "seed", 0, 9007199254740991.0, &out->seed)) {
    return false;
  }
  out->length = static_cast<LengthError>(length);
  return ok(checkError(*out)) || fail(from.Env(), "`error` out of range");
}

}  // namespace

bool readPairs(Napi::Value value, PairOptions* out) {
  if (!value.IsObject()) return fail(value.Env(), "Expected an object for `pairs`");
  static constexpr const char* kReserves[] = {"early", "late"};
  static constexpr const char* kStagings[] = {"none", "unlimited"};
  static constexpr const char* kAdmissions[] = {"scheduler", "engine"};
  static constexpr const char* kLinks[] = {"contended", "free"};
  static constexpr const char* kPlannings[] = {"sync", "async", "async-paper"};
  const Napi::Object pairs = value.As<Napi::Object>();
  int reserve = 0;
  int staging = 0;
  int admission = 0;
  int links = 0;
  int planning = 0;
  if (!readName(pairs, "reserve", kReserves, &reserve) || !readName(pairs, "staging", kStagings, &staging) ||
      !readName(pairs, "decodeAdmission", kAdmissions, &admission) ||
      !readName(pairs, "links", kLinks, &links) ||
      (!pairs.Get("planning").IsUndefined() && !readName(pairs, "planning", kPlannings, &planning)) ||
      !readNumber(pairs, "overlap", &out->overlap)) {
    return false;
  }
  if (!(out->overlap >= 0 && out->overlap <= 1)) return fail(value.Env(), "`overlap` out of range");
  out->reserve = static_cast<Reserve>(reserve);
  out->staging = static_cast<Staging>(staging);
  out->admission = static_cast<DecodeAdmission>(admission);
  out->links = static_cast<Links>(links);
  out->planning = static_cast<Planning>(planning);
  out->backfill = isTruthy(pairs.Get("backfill"));
  out->lateDecode = isTruthy(pairs.Get("lateDecode"));
  return true;
}

bool readPolicy(Napi::Object from, RunOptions* out, PlacementFunction* function) {
  static constexpr const char* kBindings[] = {"at-reveal", "at-credit"};
  static constexpr const char* kFeedbacks[] = {"boundary", "lease"};
  static constexpr const char* kKnowledge[] = {"online", "template", "declared", "oracle"};
  static constexpr const char* kCompat[] = {"none", "hexgen", "hexgen-ticks", "distserve", "splitwise"};
  std::string order;
  std::string placement;
  int bindingId = 0;
  int feedback = 0;
  int knowledge = 0;
  int compat = 0;
  const Napi::Value placer = from.Get("placement");
  if (from.Env().IsExceptionPending()) return false;
  if (!readString(from, "order", &order) ||
      (!placer.IsFunction() && !readString(from, "placement", &placement)) ||
      !readName(from, "binding", kBindings, &bindingId) ||
      !readName(from, "feedback", kFeedbacks, &feedback) ||
      !readName(from, "knowledge", kKnowledge, &knowledge) || !readName(from, "compat", kCompat, &compat) ||
      !readInteger(from, "lookahead", 0, 1000, &out->lookahead) ||
      !readInteger(from, "tieSeed", 0, 9007199254740991.0, &out->tieSeed) || !readError(from, &out->error)) {
    return false;
  }
  if (!makeOrder(order, &out->order)) return fail(from.Env(), "Unknown order \"" + order + "\"");
  const Napi::Value pairs = from.Get("pairs");
  if (!pairs.IsUndefined()) {
    if (placer.IsFunction()) return fail(from.Env(), "A function cannot place pairs");
    if (!makePairPlacement(placement, &out->pairPlacement))
      return fail(from.Env(), "Unknown pair placement \"" + placement + "\"");
    if (!readPairs(pairs, &out->pairs)) return false;
  } else if (placer.IsFunction()) {
    function->bind(placer.As<Napi::Function>());
    out->placement = function->placement();
  } else if (!makePlacement(placement, &out->placement)) {
    return fail(from.Env(), "Unknown placement \"" + placement + "\"");
  }
  if (from.Has("placementSeed") && !from.Get("placementSeed").IsUndefined() &&
      !readInteger(from, "placementSeed", 0, 9007199254740991.0, &out->placementSeed)) {
    return false;
  }
  out->migrate = isTruthy(from.Get("migrate"));
  out->binding = static_cast<Binding>(bindingId);
  out->feedback = static_cast<Feedback>(feedback);
  out->knowledge = static_cast<Knowledge>(knowledge);
  out->compat = static_cast<Compat>(compat);

  const Napi::Value parameters = from.Get("parameters");
  if (!parameters.IsObject()) return fail(from.Env(), "Expected an object for `parameters`");
  const Napi::Object values = parameters.As<Napi::Object>();
  for (const std::string& name : propertyNames(values)) {
    double value = 0;
    if (!readNumber(values, name.c_str(), &value)) return false;
    const int id = PolicyParameters::find(name);
    if (id < 0) return fail(from.Env(), "Unknown parameter \"" + name + "\"");
    if (!out->parameters.set(static_cast<std::uint16_t>(id), value)) {
      return fail(from.Env(), "Value out of range for parameter \"" + name + "\"");
    }
  }
  return true;
}

}  // namespace laxity::binding
