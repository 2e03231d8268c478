// The whole export list of the addon. State hangs from its objects: nothing here is static, so that any
// number of environments (worker threads) can load it.
#include "base/statistics.h"
#include "base/thread_time.h"
#include "binding/convert.h"
#include "binding/core_bench.h"
#include "binding/latency_wrap.h"
#include "binding/layout.h"
#include "binding/machine_bench.h"
#include "binding/model_convert.h"
#include "binding/napi_setup.h"
#include "binding/planner_bench.h"
#include "binding/scheduler_wrap.h"
#include "binding/simulator_wrap.h"
#include "binding/trace_wrap.h"
#include "binding/tuner_wrap.h"
#include "binding/workload_wrap.h"
#include "order/registry.h"
#include "placement/pair_registry.h"
#include "placement/registry.h"

namespace laxity::binding {
namespace {

template <class Names>
Napi::Array nameList(Napi::Env env, const Names& names) {
  Napi::Array list = Napi::Array::New(env);
  for (const auto& name : names) list.Set(list.Length(), Napi::String::New(env, std::string(name)));
  return list;
}

bool samples(const Napi::CallbackInfo& info, std::size_t i, std::span<const double>* out) {
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (!info[i].IsTypedArray() ||
      napi_get_typedarray_info(info.Env(), info[i], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_float64_array) {
    return fail(info.Env(), "Expected a Float64Array");
  }
  *out = {static_cast<const double*>(data), length};
  return true;
}

Napi::Value pairedTest(const Napi::CallbackInfo& info) {
  std::span<const double> a;
  std::span<const double> b;
  if (!samples(info, 0, &a) || !samples(info, 1, &b)) return info.Env().Undefined();
  const TTest test = pairedT(a, b);
  Napi::Object o = Napi::Object::New(info.Env());
  o.Set("mean", test.mean);
  o.Set("low", test.low);
  o.Set("high", test.high);
  o.Set("p", test.pTwoSided);
  return o;
}

Napi::Value interval(const Napi::CallbackInfo& info) {
  std::span<const double> a;
  if (!samples(info, 0, &a)) return info.Env().Undefined();
  const Interval i = meanInterval(a);
  Napi::Object o = Napi::Object::New(info.Env());
  o.Set("mean", i.mean);
  o.Set("low", i.low);
  o.Set("high", i.high);
  return o;
}

/// ms that the calling thread has run: for bench/busy.js alone.
Napi::Value cpuOfThread(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(threadCpuNs()) * 1e-6);
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  std::vector<std::string_view> parameters;
  for (const ParameterInfo& p : kParameters) parameters.push_back(p.name);
  std::vector<std::string_view> reasons;
  for (int s = 0; s <= static_cast<int>(kLastStatus); ++s)
    reasons.emplace_back(reason(static_cast<Status>(s)));
  exports.Set("orders", nameList(env, orderNames()));
  exports.Set("placements", nameList(env, placementNames()));
  exports.Set("pairPlacements", nameList(env, pairPlacementNames()));
  exports.Set("parameters", nameList(env, parameters));
  std::vector<double> defaults;
  for (const ParameterInfo& p : kParameters) defaults.push_back(p.byDefault);
  exports.Set("parameterDefaults", numbersArray(env, defaults));
  exports.Set("statusReasons", nameList(env, reasons));
  exports.Set("eventLayout", eventLayout(env));
  exports.Set("Trace", TraceWrap::define(env));
  exports.Set("Simulator", SimulatorWrap::define(env));
  exports.Set("Scheduler", SchedulerWrap::define(env));
  exports.Set("Tuner", TunerWrap::define(env));
  exports.Set("sweepWindow", Napi::Function::New<sweepWindowOf>(env, "sweepWindow"));
  exports.Set("Latency", LatencyWrap::define(env));
  exports.Set("Roofline", RooflineWrap::define(env));
  exports.Set("hardware", hardware(env));
  exports.Set("kernelTimes", Napi::Function::New<kernelTimes>(env, "kernelTimes"));
  exports.Set("chessSize", Napi::Function::New<chessSize>(env, "chessSize"));
  exports.Set("chessFill", Napi::Function::New<chessFillColumns>(env, "chessFill"));
  exports.Set("macSqlSize", Napi::Function::New<macSqlSize>(env, "macSqlSize"));
  exports.Set("macSqlFill", Napi::Function::New<macSqlFillColumns>(env, "macSqlFill"));
  exports.Set("agenticSize", Napi::Function::New<agenticSize>(env, "agenticSize"));
  exports.Set("agenticFill", Napi::Function::New<agenticFillColumns>(env, "agenticFill"));
  exports.Set("plannerBench", Napi::Function::New<plannerBench>(env, "plannerBench"));
  exports.Set("structureBench", Napi::Function::New<structureBench>(env, "structureBench"));
  exports.Set("dispatchBench", Napi::Function::New<dispatchBench>(env, "dispatchBench"));
  exports.Set("placementBench", Napi::Function::New<placementBench>(env, "placementBench"));
  exports.Set("recordBytes", recordBytes(env));
  exports.Set("memoryBench", Napi::Function::New<memoryBench>(env, "memoryBench"));
  exports.Set("crossings", crossings(env));
  exports.Set("plannerState", Napi::Function::New<plannerState>(env, "plannerState"));
  exports.Set("threadCpuMs", Napi::Function::New<cpuOfThread>(env, "threadCpuMs"));
  exports.Set("pairedT", Napi::Function::New<pairedTest>(env, "pairedT"));
  exports.Set("meanInterval", Napi::Function::New<interval>(env, "meanInterval"));
  return exports;
}

}  // namespace

NODE_API_MODULE(laxity, init)

}  // namespace laxity::binding
