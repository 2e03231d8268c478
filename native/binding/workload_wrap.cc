#include "binding/workload_wrap.h"

#include "binding/convert.h"
#include "workload/chess.h"
#include "workload/mac_sql.h"

namespace laxity::binding {
namespace {

bool readSpec(const Napi::CallbackInfo& info, ChessSpec* out) {
  if (!info[0].IsObject()) return fail(info.Env(), "Expected the options of a workload");
  const Napi::Object options = info[0].As<Napi::Object>();
  double workflows = 0;
  double preset = 0;
  double seed = 0;
  if (!readNumber(options, "workflows", &workflows) || !readNumber(options, "preset", &preset) ||
      !readNumber(options, "seed", &seed)) {
    return false;
  }
  if (!(workflows >= 1 && workflows <= kMaxChessWorkflows) || !(preset >= 1 && preset <= 3) ||
      !(seed >= 0 && seed <= 9007199254740991.0)) {
    return fail(info.Env(), "Workload options out of range");
  }
  *out = {static_cast<std::uint32_t>(workflows), static_cast<int>(preset), static_cast<std::uint64_t>(seed)};
  return ok(chessCheck(*out)) || fail(info.Env(), "Workload options out of range");
}

template <class T>
bool writable(Napi::Object from, const char* name, napi_typedarray_type type, std::size_t length, T** out) {
  Column column;
  if (!readColumn(from, name, type, false, &column)) return false;
  if (column.length != length) return fail(from.Env(), std::string("Wrong length of `") + name + "`");
  *out = static_cast<T*>(column.data);
  return true;
}

bool readSpec(const Napi::CallbackInfo& info, MacSqlSpec* out) {
  if (!info[0].IsObject()) return fail(info.Env(), "Expected the options of a workload");
  const Napi::Object options = info[0].As<Napi::Object>();
  double workflows = 0;
  double seed = 0;
  if (!readNumber(options, "workflows", &workflows) || !readNumber(options, "seed", &seed)) return false;
  if (!(workflows >= 1 && workflows <= kMaxMacSqlWorkflows) || !(seed >= 0 && seed <= 9007199254740991.0)) {
    return fail(info.Env(), "Workload options out of range");
  }
  *out = {static_cast<std::uint32_t>(workflows), static_cast<std::uint64_t>(seed)};
  return ok(macSqlCheck(*out)) || fail(info.Env(), "Workload options out of range");
}

Napi::Value sizeObject(Napi::Env env, std::uint32_t workflows, const GeneratedSizes& sizes) {
  Napi::Object o = Napi::Object::New(env);
  o.Set("workflows", workflows);
  o.Set("calls", sizes.calls);
  o.Set("edges", sizes.edges);
  return o;
}

bool readColumns(const Napi::CallbackInfo& info, std::uint32_t workflows, const GeneratedSizes& sizes,
                 GeneratedColumns* out) {
  if (!info[1].IsObject()) return fail(info.Env(), "Expected the columns to fill");
  const Napi::Object columns = info[1].As<Napi::Object>();
  return writable(columns, "firstCall", napi_uint32_array, std::size_t{workflows} + 1, &out->firstCall) &&
         writable(columns, "stage", napi_uint16_array, sizes.calls, &out->stage) &&
         writable(columns, "promptTokens", napi_uint32_array, sizes.calls, &out->promptTokens) &&
         writable(columns, "outputTokens", napi_uint32_array, sizes.calls, &out->outputTokens) &&
         writable(columns, "parentOffset", napi_uint32_array, std::size_t{sizes.calls} + 1,
                  &out->parentOffset) &&
         writable(columns, "parents", napi_uint32_array, sizes.edges, &out->parents);
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
  if (readSpec(info, &spec) && readColumns(info, spec.workflows, chessSizes(spec), &out))
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
  if (readSpec(info, &spec) && readColumns(info, spec.workflows, macSqlSizes(spec), &out))
    macSqlFill(spec, out);
  return info.Env().Undefined();
}

}  // namespace laxity::binding
