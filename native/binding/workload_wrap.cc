#include "binding/workload_wrap.h"

#include "binding/convert.h"
#include "workload/agentic.h"
#include "workload/chess.h"
#include "workload/mac_sql.h"

namespace laxity::binding {
namespace {

constexpr double kMostSeed = 9007199254740991.0;  ///< the largest whole number that a double counts to

/// An option and what it may be.
struct Range {
  const char* name;
  double low;
  double high;
};

/// Reads numbers, each in its range, in the order of `ranges`.
template <std::size_t N>
bool readRanges(const Napi::CallbackInfo& info, const Range (&ranges)[N], double (&out)[N]) {
  if (!info[0].IsObject()) return fail(info.Env(), "Expected the options of a workload");
  const Napi::Object options = info[0].As<Napi::Object>();
  for (std::size_t i = 0; i < N; ++i) {
    if (!readNumber(options, ranges[i].name, &out[i])) return false;
    if (!(out[i] >= ranges[i].low && out[i] <= ranges[i].high))
      return fail(info.Env(), "Workload options out of range");
  }
  return true;
}

bool checked(const Napi::CallbackInfo& info, Status status) {
  return ok(status) || fail(info.Env(), status == Status::kTooManyCalls ? "The workload has too many calls"
                                                                        : "Workload options out of range");
}

bool readSpec(const Napi::CallbackInfo& info, ChessSpec* out) {
  double v[3];
  if (!readRanges(info, {{"workflows", 1, kMaxChessWorkflows}, {"preset", 1, 3}, {"seed", 0, kMostSeed}}, v))
    return false;
  *out = {static_cast<std::uint32_t>(v[0]), static_cast<int>(v[1]), static_cast<std::uint64_t>(v[2])};
  return checked(info, chessCheck(*out));
}

bool readSpec(const Napi::CallbackInfo& info, MacSqlSpec* out) {
  double v[2];
  if (!readRanges(info, {{"workflows", 1, kMaxMacSqlWorkflows}, {"seed", 0, kMostSeed}}, v)) return false;
  *out = {static_cast<std::uint32_t>(v[0]), static_cast<std::uint64_t>(v[1])};
  return checked(info, macSqlCheck(*out));
}

/// Also counts the workload: that is how its limits are checked.
bool readSpec(const Napi::CallbackInfo& info, AgenticSpec* out, GeneratedSizes* sizes) {
  double v[5];
  if (!readRanges(info,
                  {{"kind", 0, 5},
                   {"context", 0, 1},
                   {"workflows", 1, UINT32_MAX},
                   {"chainCalls", 1, UINT32_MAX},
                   {"seed", 0, kMostSeed}},
                  v)) {
    return false;
  }
  out->kind = static_cast<AgenticKind>(v[0]);
  out->context = static_cast<ContextPreset>(v[1]);
  out->workflows = static_cast<std::uint32_t>(v[2]);
  out->chainCalls = static_cast<std::uint32_t>(v[3]);
  out->seed = static_cast<std::uint64_t>(v[4]);
  return checked(info, agenticSizes(*out, sizes));
}

template <class T>
bool writable(Napi::Object from, const char* name, napi_typedarray_type type, std::size_t length, T** out) {
  Column column;
  if (!readColumn(from, name, type, false, &column)) return false;
  if (column.length != length) return fail(from.Env(), std::string("Wrong length of `") + name + "`");
  *out = static_cast<T*>(column.data);
  return true;
}

Napi::Value sizeObject(Napi::Env env, std::uint32_t workflows, const GeneratedSizes& sizes) {
  Napi::Object o = Napi::Object::New(env);
  o.Set("workflows", workflows);
  o.Set("calls", sizes.calls);
  o.Set("edges", sizes.edges);
  return o;
}

/// `all`: also those that only some generators write.
bool readColumns(const Napi::CallbackInfo& info, std::uint32_t workflows, const GeneratedSizes& sizes,
                 bool all, GeneratedColumns* out) {
  if (!info[1].IsObject()) return fail(info.Env(), "Expected the columns to fill");
  const Napi::Object columns = info[1].As<Napi::Object>();
  return writable(columns, "firstCall", napi_uint32_array, std::size_t{workflows} + 1, &out->firstCall) &&
         writable(columns, "stage", napi_uint16_array, sizes.calls, &out->stage) &&
         writable(columns, "promptTokens", napi_uint32_array, sizes.calls, &out->promptTokens) &&
         writable(columns, "outputTokens", napi_uint32_array, sizes.calls, &out->outputTokens) &&
         writable(columns, "parentOffset", napi_uint32_array, std::size_t{sizes.calls} + 1,
                  &out->parentOffset) &&
         writable(columns, "parents", napi_uint32_array, sizes.edges, &out->parents) &&
         (!all || (writable(columns, "cachedTokens", napi_uint32_array, sizes.calls, &out->cachedTokens) &&
                   writable(columns, "toolGapMs", napi_float64_array, sizes.calls, &out->toolGapMs)));
}

}  // namespace

Napi::Value chessSize(const Napi::CallbackInfo& info) {
  ChessSpec spec;
  if (!readSpec(info, &spec)) return info.Env().Undefined();
  return sizeObject(info.Env(), spec.workflows, chessSizes(spec));
}

Napi::Value chessFillColumns(const Napi::CallbackInfo& info) {
  ChessSpec spec;
  GeneratedColumns out;
  if (readSpec(info, &spec) && readColumns(info, spec.workflows, chessSizes(spec), false, &out))
    chessFill(spec, out);
  return info.Env().Undefined();
}

Napi::Value macSqlSize(const Napi::CallbackInfo& info) {
  MacSqlSpec spec;
  if (!readSpec(info, &spec)) return info.Env().Undefined();
  return sizeObject(info.Env(), spec.workflows, macSqlSizes(spec));
}

Napi::Value macSqlFillColumns(const Napi::CallbackInfo& info) {
  MacSqlSpec spec;
  GeneratedColumns out;
  if (readSpec(info, &spec) && readColumns(info, spec.workflows, macSqlSizes(spec), false, &out))
    macSqlFill(spec, out);
  return info.Env().Undefined();
}

Napi::Value agenticSize(const Napi::CallbackInfo& info) {
  AgenticSpec spec;
  GeneratedSizes sizes;
  if (!readSpec(info, &spec, &sizes)) return info.Env().Undefined();
  return sizeObject(info.Env(), spec.workflows, sizes);
}

Napi::Value agenticFillColumns(const Napi::CallbackInfo& info) {
  AgenticSpec spec;
  GeneratedSizes sizes;
  GeneratedColumns out;
  if (readSpec(info, &spec, &sizes) && readColumns(info, spec.workflows, sizes, true, &out))
    agenticFill(spec, out);
  return info.Env().Undefined();
}

}  // namespace laxity::binding
