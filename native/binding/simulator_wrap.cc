#include "binding/simulator_wrap.h"

#include <cstring>

#include "base/thread_time.h"
#include "binding/bounds_wrap.h"
#include "binding/convert.h"
#include "binding/trace_wrap.h"
#include "binding/tuner_wrap.h"
#include "simulator/tenants.h"
#include "tuner/run_tuner.h"

namespace laxity::binding {
namespace {

/// The workspace, measured after a run of some hundred calls: one of a large trace is used for long.
constexpr std::size_t kHeldBytes = std::size_t{64} << 10;

/// `shared`: JavaScript gets turns before the column is written.
template <class T>
bool output(Napi::Object from, const char* name, napi_typedarray_type type, std::size_t length, bool shared,
            T** out) {
  Column column;
  if (!readColumn(from, name, type, true, &column)) return false;
  if (!column.present) return true;
  if (column.length < length) return fail(from.Env(), std::string("`") + name + "` is too short");
  if (shared && !isShared(from.Env(), from.Get(name)))
    return fail(from.Env(), std::string("Expected a SharedArrayBuffer below `") + name + "`");
  *out = static_cast<T*>(column.data);
  return true;
}

bool readOutputs(Napi::Object from, const Trace& bound, bool shared, std::vector<double>* scaleList,
                 RunOutputs* out) {
  const TraceColumns& trace = bound.columns();
  Column scales;
  if (!readColumn(from, "scales", napi_float64_array, true, &scales)) return false;
  const auto* given = static_cast<const double*>(scales.data);
  scaleList->assign(given, given + scales.length);
  out->scales = *scaleList;
  if (!output(from, "latencyMs", napi_float64_array, trace.workflows, shared, &out->latencyMs) ||
      !output(from, "baseMs", napi_float64_array, trace.workflows, shared, &out->baseMs) ||
      !output(from, "arrivalMs", napi_float64_array, trace.workflows, shared, &out->arrivalMs) ||
      !output(from, "sacrificed", napi_uint8_array, trace.workflows, shared, &out->sacrificed) ||
      !output(from, "instance", napi_uint16_array, trace.calls, shared, &out->instance) ||
      !output(from, "readyMs", napi_float64_array, trace.calls, shared, &out->readyMs) ||
      !output(from, "leasedMs", napi_float64_array, trace.calls, shared, &out->leasedMs) ||
      !output(from, "firstTokenMs", napi_float64_array, trace.calls, shared, &out->firstTokenMs) ||
      !output(from, "finishedMs", napi_float64_array, trace.calls, shared, &out->finishedMs) ||
      !output(from, "decodeInstance", napi_uint16_array, trace.calls, shared, &out->decodeInstance) ||
      !output(from, "transferStartMs", napi_float64_array, trace.calls, shared, &out->transferStartMs) ||
      !output(from, "transferredMs", napi_float64_array, trace.calls, shared, &out->transferredMs) ||
      !output(from, "decodeMs", napi_float64_array, trace.calls, shared, &out->decodeMs) ||
      !output(from, "attainment", napi_float64_array, scales.length, shared, &out->attainment) ||
      !output(from, "control", napi_int32_array, 2, shared, &out->control)) {
    return false;
  }
  const std::size_t tenantCells = bound.tenants() * kTenantColumns;
  double* tenants = nullptr;
  if (!output(from, "tenants", napi_float64_array, tenantCells, shared, &tenants)) return false;
  if (tenants != nullptr) out->tenants = {tenants, tenantCells};
  if (scales.length > 0 && out->attainment == nullptr)
    return fail(from.Env(), "`scales` without `attainment`");
  return true;
}

/// What processes other than Poisson need; all optional.
bool readArrivalShape(Napi::Object from, Arrivals::Options* out) {
  const auto optional = [&from](const char* name, double* value) {
    return from.Get(name).IsUndefined() || readNumber(from, name, value);
  };
  if (!optional("cv", &out->cv) || !optional("burstSize", &out->burstSize) ||
      !optional("burstGapMs", &out->burstGapMs)) {
    return false;
  }
  const Napi::Value step = from.Get("rateStep");
  if (step.IsUndefined()) return true;
  if (!step.IsObject()) return fail(from.Env(), "Expected an object for `rateStep`");
  const Napi::Object o = step.As<Napi::Object>();
  return readNumber(o, "fromMs", &out->step.fromMs) && readNumber(o, "lengthMs", &out->step.lengthMs) &&
         readNumber(o, "factor", &out->step.factor);
}

bool readTenantScales(Napi::Object from, std::vector<double>* out) {
  const Napi::Value value = from.Get("tenantScales");
  if (value.IsUndefined()) return true;
  if (!value.IsArray()) return fail(from.Env(), "Expected an array for `tenantScales`");
  const Napi::Array list = value.As<Napi::Array>();
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value item = list.Get(i);
    const double scale = item.IsNumber() ? item.As<Napi::Number>().DoubleValue() : 0;
    if (!(scale > 0 && scale <= 1e6)) return fail(from.Env(), "`tenantScales` out of range");
    out->push_back(scale);
  }
  return true;
}

/// Asynchronous planning, measured planning, declared remaining times; all optional.
bool readPlanning(Napi::Object from, RunOptions* out) {
  double latencyMs = 0;
  if (!from.Get("planLatencyMs").IsUndefined() && !readNumber(from, "planLatencyMs", &latencyMs))
    return false;
  if (!(latencyMs >= 0 && latencyMs <= 1e9)) return fail(from.Env(), "`planLatencyMs` out of range");
  out->planLatency = fromMs(latencyMs);
  out->timePlans = isTruthy(from.Get("timePlans"));
  const Napi::Value value = from.Get("remaining");
  if (value.IsUndefined()) return true;
  if (!value.IsObject()) return fail(from.Env(), "Expected an object for `remaining`");
  double seed = 0;
  const Napi::Object remaining = value.As<Napi::Object>();
  if (!readNumber(remaining, "sigma", &out->remaining.sigma) || !readNumber(remaining, "seed", &seed))
    return false;
  if (!(out->remaining.sigma >= 0 && out->remaining.sigma <= 10 && seed >= 0 && seed <= 9007199254740991.0))
    return fail(from.Env(), "`remaining` out of range");
  out->remaining.on = true;
  out->remaining.predictor = isTruthy(remaining.Get("predictor"));
  out->remaining.seed = static_cast<std::uint64_t>(seed);
  return true;
}

bool readRun(Napi::Object from, const TraceColumns& trace, RunOptions* out, PlacementFunction* function) {
  static constexpr const char* kArrivals[] = {"poisson", "fixed", "trace", "gamma", "bursts"};
  static constexpr const char* kBases[] = {"template", "exclusive", "horizon"};
  int arrivals = 0;
  int base = 0;
  double seed = 0;
  double replication = 0;
  int stageTemplate = 0;
  static constexpr const char* kTemplates[] = {"mean", "pessimistic"};
  if (!readPolicy(from, out, function) || !readName(from, "arrivals", kArrivals, &arrivals) ||
      !readName(from, "sloBase", kBases, &base) ||
      (from.Has("template") && !readName(from, "template", kTemplates, &stageTemplate)) ||
      !readNumber(from, "rate", &out->arrivals.rate) || !readNumber(from, "seed", &seed) ||
      !readNumber(from, "replication", &replication) || !readNumber(from, "sloScale", &out->sloScale) ||
      !readArrivalShape(from, &out->arrivals) || !readTenantScales(from, &out->tenantScales) ||
      !readPlanning(from, out)) {
    return false;
  }
  if (!(out->sloScale > 0 && out->sloScale <= 1e6)) return fail(from.Env(), "`sloScale` out of range");
  if (!(seed >= 0 && seed <= 9007199254740991.0 && replication >= 0 && replication <= 9007199254740991.0)) {
    return fail(from.Env(), "`seed` or `replication` out of range");
  }
  out->arrivals.process = static_cast<ArrivalProcess>(arrivals);
  out->arrivals.seed = static_cast<std::uint64_t>(seed);
  out->arrivals.replication = static_cast<std::uint64_t>(replication);
  if (trace.arrivalMs != nullptr) out->arrivals.recordedMs = {trace.arrivalMs, trace.workflows};
  out->sloBase = static_cast<SloBase>(base);
  out->stageTemplate = static_cast<std::uint16_t>(stageTemplate);
  out->laws = isTruthy(from.Get("laws"));
  if (!from.Get("deadlines").IsUndefined()) out->deadlines = isTruthy(from.Get("deadlines"));
  return readScript(from, &out->script);
}

Napi::Object resultObject(Napi::Env env, Status status, const RunResult& r, std::uint32_t workflows,
                          bool timed, double cpuMs) {
  Napi::Object o = Napi::Object::New(env);
  o.Set("status", static_cast<int>(status));
  o.Set("workflows", workflows);
  o.Set("completed", r.completed);
  o.Set("calls", static_cast<double>(r.calls));
  o.Set("rejected", static_cast<double>(r.rejected));
  o.Set("evictions", static_cast<double>(r.evictions));
  o.Set("events", static_cast<double>(r.instants));
  o.Set("makespanMs", toMs(r.makespan));
  o.Set("meanMs", r.meanMs);
  o.Set("p50Ms", r.p50Ms);
  o.Set("p95Ms", r.p95Ms);
  o.Set("p99Ms", r.p99Ms);
  o.Set("sloScale95", r.sloScale95);
  o.Set("sloScale99", r.sloScale99);
  o.Set("throughputPerS", r.throughputPerS);
  o.Set("prefillUtilisation", r.prefillUtilisation);
  o.Set("decodeUtilisation", r.decodeUtilisation);
  o.Set("decodeKvPeak", r.decodeKvPeak);
  if (r.plans > 0) {
    o.Set("plans", static_cast<double>(r.plans));
    o.Set("plannedCalls", static_cast<double>(r.plannedCalls));
    if (timed) {
      o.Set("planMeanUs", r.planMeanUs);
      o.Set("planP50Us", r.planP50Us);
      o.Set("planP99Us", r.planP99Us);
    }
  }
  o.Set("hiddenEvictions", static_cast<double>(r.hiddenEvictions));
  o.Set("cacheHits", static_cast<double>(r.cache.hits));
  o.Set("cacheMisses", static_cast<double>(r.cache.misses));
  o.Set("cacheStale", static_cast<double>(r.cache.stale));
  o.Set("cachePromptTokens", static_cast<double>(r.cache.promptTokens));
  o.Set("cacheSharedTokens", static_cast<double>(r.cache.sharedTokens));
  o.Set("cacheFoundTokens", static_cast<double>(r.cache.cachedTokens));
  o.Set("cacheLoadedTokens", static_cast<double>(r.cache.loadedTokens));
  o.Set("cpuMs", cpuMs);
  return o;
}

}  // namespace

Napi::Function SimulatorWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Simulator",
      {InstanceMethod<&SimulatorWrap::run>("run"), InstanceMethod<&SimulatorWrap::record>("record"),
       InstanceMethod<&SimulatorWrap::bound>("bound"),
       InstanceMethod<&SimulatorWrap::reference>("reference")});
}

SimulatorWrap::SimulatorWrap(const Napi::CallbackInfo& info) : ObjectWrap<SimulatorWrap>(info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsObject() || !info[1].IsObject()) {
    fail(env, "Expected a trace and a cluster");
    return;
  }
  const TraceWrap* trace = TraceWrap::of(env, info[0]);
  if (trace == nullptr) return;
  if (!ok(trace->trace().problem().status)) {
    fail(env, "Expected a bound trace");
    return;
  }
  const Napi::Object cluster = info[1].As<Napi::Object>();
  if (!readLatencies(cluster, &cluster_.latencies) || !readInstances(cluster, &cluster_.instances) ||
      !readTemplates(cluster, &cluster_.templates) || !readPrefixCaches(cluster, &cluster_.prefixCaches)) {
    return;
  }
  for (const InstanceSpec& spec : cluster_.instances) {
    if (spec.latency >= cluster_.latencies.size()) {
      fail(env, "An instance names a latency model that was not given");
      return;
    }
  }
  traceReference_ = Napi::Persistent(info[0].As<Napi::Object>());
  trace_ = &trace->trace();
  tellHeld(kHeldBytes);
}

Napi::Value SimulatorWrap::run(const Napi::CallbackInfo& info) { return simulate(info, nullptr); }

Napi::Value SimulatorWrap::record(const Napi::CallbackInfo& info) {
  EventLog log;
  const Napi::Value result = simulate(info, &log);
  if (info.Env().IsExceptionPending()) return info.Env().Undefined();
  Napi::Object both = Napi::Object::New(info.Env());
  both.Set("result", result);
  both.Set("log", bytesArray(info.Env(), log.records().data(), log.records().size() * sizeof(EventRecord)));
  return both;
}

Napi::Value SimulatorWrap::bound(const Napi::CallbackInfo& info) {
  return timed(info, [&](const RunOptions& options, const PlacementFunction&) {
    return lowerBound(info.Env(), *trace_, cluster_, options, info[1]);
  });
}

Napi::Value SimulatorWrap::reference(const Napi::CallbackInfo& info) {
  return timed(info, [&](const RunOptions& options, const PlacementFunction& function) {
    if (!function.bound()) return clairvoyant(info.Env(), *trace_, cluster_, options, info[1], info[2]);
    fail(info.Env(), "A placement function has no reference");
    return Napi::Object::New(info.Env());
  });
}

/// `compute` on the run options that come first, with the thread CPU time it took.
template <class Compute>
Napi::Value SimulatorWrap::timed(const Napi::CallbackInfo& info, Compute&& compute) {
  const Napi::Env env = info.Env();
  PlacementFunction function;
  RunOptions options;
  if (trace_ == nullptr || !info[0].IsObject()) {
    fail(env, "Expected run options");
    return env.Undefined();
  }
  if (!readRun(info[0].As<Napi::Object>(), trace_->columns(), &options, &function)) return env.Undefined();
  const std::int64_t before = threadCpuNs();
  Napi::Object result = compute(options, function);
  if (env.IsExceptionPending()) return env.Undefined();
  result.Set("cpuMs", static_cast<double>(threadCpuNs() - before) * 1e-6);
  return result;
}

Napi::Value SimulatorWrap::simulate(const Napi::CallbackInfo& info, EventLog* log) {
  const Napi::Env env = info.Env();
  if (trace_ == nullptr || !info[0].IsObject() || !info[1].IsObject()) {
    fail(env, "Expected run options and outputs");
    return env.Undefined();
  }
  if (running_) {
    fail(env, "This simulator is running: a placement must not run it again");
    return env.Undefined();
  }
  PlacementFunction function;
  RunOptions options;
  RunOutputs outputs;
  std::vector<double> scales;
  if (!readRun(info[0].As<Napi::Object>(), trace_->columns(), &options, &function) ||
      !readOutputs(info[1].As<Napi::Object>(), *trace_, function.bound(), &scales, &outputs)) {
    return env.Undefined();
  }
  if (options.stageTemplate > 0 && options.stageTemplate >= cluster_.templates.size()) {
    fail(env, "The cluster has no such template");
    return env.Undefined();
  }
  outputs.log = log;
  std::unique_ptr<RunTuner> tuner;
  if (const Napi::Value tune = info[0].As<Napi::Object>().Get("autoTune"); tune.IsObject()) {
    TunerOptions tuning;
    if (!readTuner(tune.As<Napi::Object>(), &tuning)) return env.Undefined();
    if (function.bound()) {
      fail(env, "`autoTune` cannot replay a placement function");
      return env.Undefined();
    }
    if (!cluster_.prefixCaches.empty() && options.knowledge >= Knowledge::kDeclared) {
      fail(env,
           "`autoTune` with prefix caches needs `knowledge` online or template: calls that are declared "
           "at once are revealed before anything of theirs is cached");
      return env.Undefined();
    }
    tuner = std::make_unique<RunTuner>(tuning, cluster_, options);
    options.observer = tuner.get();
  }
  RunResult result;
  const std::int64_t before = threadCpuNs();
  running_ = true;
  const Status status = laxity::simulate(*trace_, cluster_, options, outputs, &result, &workspace_);
  const double cpuMs = static_cast<double>(threadCpuNs() - before) * 1e-6;
  running_ = false;
  Napi::Object object =
      resultObject(env, status, result, trace_->columns().workflows, options.timePlans, cpuMs);
  object.Set("lostLeases", static_cast<double>(result.lostLeases));
  if (tuner != nullptr) {
    if (ok(status) && !ok(tuner->status())) object.Set("status", static_cast<int>(tuner->status()));
    object.Set("tunerEvents", tunerEvents(env, tuner->tuner().events(), 0));
    object.Set("tunerRuns", static_cast<double>(tuner->sweepRuns()));
  }
  if (function.failed()) object.Set("placementFailure", function.failure(env));
  return object;
}

}  // namespace laxity::binding
