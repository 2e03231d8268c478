#include "binding/tuner_wrap.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "binding/convert.h"

namespace laxity::binding {
namespace {

constexpr std::size_t kTunerColumns = 11;
constexpr std::size_t kResultNumbers = 15;
constexpr double kLongestMs = 1e15;

/// A window between two threads of one process.
class Packer {
 public:
  template <class T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* from = reinterpret_cast<const unsigned char*>(&v);
    bytes_.insert(bytes_.end(), from, from + sizeof v);
  }
  template <class T>
  void list(const std::vector<T>& values) {
    value(static_cast<std::uint64_t>(values.size()));
    const auto* from = reinterpret_cast<const unsigned char*>(values.data());
    if (!values.empty()) bytes_.insert(bytes_.end(), from, from + values.size() * sizeof(T));
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  std::vector<unsigned char> bytes_;
};

class Unpacker {
 public:
  Unpacker(const unsigned char* data, std::size_t length) : data_(data), length_(length) {}
  template <class T>
  bool value(T* v) {
    if (length_ - at_ < sizeof *v) return false;
    std::memcpy(v, data_ + at_, sizeof *v);
    at_ += sizeof *v;
    return true;
  }
  template <class T>
  bool list(std::vector<T>* values) {
    std::uint64_t count;
    if (!value(&count) || count > (length_ - at_) / sizeof(T)) return false;
    values->resize(count);
    if (count > 0) std::memcpy(values->data(), data_ + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return true;
  }
  bool over() const { return at_ == length_; }

 private:
  const unsigned char* data_;
  std::size_t length_;
  std::size_t at_ = 0;
};

void pack(const SweepInput& in, const std::vector<InstanceSpec>& specs,
          const std::vector<Service::GivenLatency>& latencies, Packer* to) {
  to->value(static_cast<std::uint64_t>(in.bodies.size()));
  for (const WindowWorkflow& w : in.bodies) {
    to->value(w.tenant);
    to->value(w.stageTemplate);
    to->value(w.arrival);
    to->value(w.allowed);
    to->value(w.lastFinish);
    to->list(w.calls);
    to->list(w.parents);
  }
  to->list(in.bases);
  to->list(in.work);
  to->list(in.gaps);
  to->list(in.running);
  to->list(in.factor);
  to->list(std::vector<unsigned char>(in.up.begin(), in.up.end()));
  to->value(in.current);
  to->value(in.number);
  to->value(in.changed);
  to->value(in.calibrate);
  to->list(specs);
  to->list(latencies);
}

bool unpack(Unpacker from, SweepInput* in, std::vector<InstanceSpec>* specs,
            std::vector<Service::GivenLatency>* latencies) {
  std::uint64_t bodies;
  if (!from.value(&bodies) || bodies > 100'000'000) return false;
  for (std::uint64_t i = 0; i < bodies; ++i) {
    WindowWorkflow w;
    if (!from.value(&w.tenant) || !from.value(&w.stageTemplate) || !from.value(&w.arrival) ||
        !from.value(&w.allowed) || !from.value(&w.lastFinish) || !from.list(&w.calls) ||
        !from.list(&w.parents))
      return false;
    for (const WindowCall& c : w.calls) {
      if (c.firstParent > w.parents.size() || c.parentCount > w.parents.size() - c.firstParent) return false;
    }
    in->bodies.push_back(std::move(w));
  }
  std::vector<unsigned char> up;
  if (!from.list(&in->bases) || !from.list(&in->work) || !from.list(&in->gaps) || !from.list(&in->running) ||
      !from.list(&in->factor) || !from.list(&up) || !from.value(&in->current) || !from.value(&in->number) ||
      !from.value(&in->changed) || !from.value(&in->calibrate) || !from.list(specs) ||
      !from.list(latencies) || !from.over())
    return false;
  in->up.assign(up.begin(), up.end());
  return in->bases.size() == bodies && in->work.size() == bodies && bodies > 0 && !in->gaps.empty() &&
         in->factor.size() == specs->size() && in->up.size() == specs->size();
}

/// Models that came by event. Of a learned one the scheduler knows by now how fast it is.
void addLatencies(const std::vector<Service::GivenLatency>& given, SweepInput* input, ClusterSpec* cluster) {
  for (const Service::GivenLatency& g : given) {
    LatencyModel model;
    if (g.index > 0xffff || !ok(LatencyModel::constants(g.constants, &model))) continue;
    bool known = false;
    for (std::size_t m = 0; m < cluster->instances.size(); ++m) {
      if (g.learned == 0 || cluster->instances[m].latency != g.index) continue;
      if (!known) model = model.skewed(input->factor[m], 1);
      known = true;
      input->factor[m] = 1;
    }
    if (g.index >= cluster->latencies.size()) cluster->latencies.resize(std::size_t{g.index} + 1, model);
    cluster->latencies[g.index] = model;
  }
}

/// Of a live engine's prefix cache only hits are known. Where calls were told of any, every instance has one
/// as large as its KV memory.
void assumeCaches(const SweepInput& input, ClusterSpec* cluster) {
  bool any = false;
  for (const WindowWorkflow& w : input.bodies) {
    for (const WindowCall& c : w.calls) any |= c.cachedTokens > 0;
  }
  if (!any) return;
  for (const InstanceSpec& spec : cluster->instances)
    cluster->prefixCaches.push_back({CacheTier{spec.kvTokens, 0}});
}

bool bytesOf(const Napi::CallbackInfo& info, std::size_t i, const unsigned char** data, std::size_t* length) {
  napi_typedarray_type type;
  void* at = nullptr;
  if (!info[i].IsTypedArray() ||
      napi_get_typedarray_info(info.Env(), info[i], &type, length, &at, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array)
    return fail(info.Env(), "Expected a Uint8Array");
  *data = static_cast<const unsigned char*>(at);
  return true;
}

bool readNanos(Napi::Object from, const char* name, Nanos* out) {
  double ms = 0;
  if (!readNumber(from, name, &ms)) return false;
  if (!(ms >= 0 && ms <= kLongestMs / 1e3))
    return fail(from.Env(), std::string("`") + name + "` out of range");
  *out = fromMs(ms);
  return true;
}

bool readCount(Napi::Object from, const char* name, std::uint32_t* out) {
  double value = 0;
  if (!readNumber(from, name, &value)) return false;
  if (!(value >= 0 && value <= 4e9)) return fail(from.Env(), std::string("`") + name + "` out of range");
  *out = static_cast<std::uint32_t>(value);
  return true;
}

void numbersOf(const SweepResult& r, double* out) {
  const double numbers[kResultNumbers] = {static_cast<double>(r.status),
                                          r.apply ? 1.0 : 0.0,
                                          r.value,
                                          r.best,
                                          r.gain,
                                          r.p,
                                          r.regret,
                                          static_cast<double>(r.runs),
                                          r.calibrated ? 1.0 : 0.0,
                                          r.ratio.up,
                                          r.ratio.down,
                                          r.arrivals.up,
                                          r.arrivals.down,
                                          r.work.up,
                                          r.work.down};
  std::memcpy(out, numbers, sizeof numbers);
}

SweepResult resultOf(const double* n) {
  SweepResult r;
  r.status =
      n[0] >= 0 && n[0] <= static_cast<double>(kLastStatus) ? static_cast<Status>(n[0]) : Status::kBadValue;
  r.apply = n[1] != 0;
  r.value = n[2];
  r.best = n[3];
  r.gain = n[4];
  r.p = n[5];
  r.regret = n[6];
  r.runs = n[7] >= 0 && n[7] < 4e9 ? static_cast<std::uint32_t>(n[7]) : 0;
  r.calibrated = n[8] != 0;
  r.ratio = {n[9], n[10]};
  r.arrivals = {n[11], n[12]};
  r.work = {n[13], n[14]};
  return r;
}

}  // namespace

bool readTuner(Napi::Object from, TunerOptions* out) {
  double parameter = 0;
  double seed = 0;
  Column values;
  if (!readNumber(from, "parameter", &parameter) ||
      !readColumn(from, "values", napi_float64_array, false, &values) ||
      !readNanos(from, "windowMs", &out->window) || !readNanos(from, "latencyMs", &out->latency) ||
      !readNanos(from, "periodMs", &out->period) || !readCount(from, "replications", &out->replications) ||
      !readNumber(from, "minGain", &out->minGain) || !readNumber(from, "significance", &out->significance) ||
      !readNumber(from, "agreement", &out->agreement) ||
      !readNumber(from, "falseAlarmsPerHour", &out->falseAlarmsPerHour) ||
      !readCount(from, "calibrationRuns", &out->calibrationRuns) ||
      !readNumber(from, "welchLevel", &out->welchLevel) || !readNumber(from, "seed", &seed))
    return false;
  if (!(parameter >= 0 && parameter < static_cast<double>(kParameters.size())) ||
      !(seed >= 0 && seed <= 9007199254740991.0))
    return fail(from.Env(), "`parameter` or `seed` out of range");
  out->parameter = static_cast<std::uint16_t>(parameter);
  out->seed = static_cast<std::uint64_t>(seed);
  const auto* list = static_cast<const double*>(values.data);
  out->values.assign(list, list + values.length);
  out->welch = isTruthy(from.Get("welch"));
  out->ratio = isTruthy(from.Get("ratio"));
  out->service = isTruthy(from.Get("service"));
  out->load = isTruthy(from.Get("load"));
  if (const Status status = checkTuner(*out); !ok(status))
    return fail(from.Env(), std::string("`autoTune`: ") + reason(status));
  return true;
}

bool readScript(Napi::Object from, std::vector<ScriptStep>* out) {
  static constexpr const char* kKinds[] = {"up", "drain", "down", "speed"};
  const Napi::Value script = from.Get("script");
  if (script.IsUndefined()) return true;
  if (!script.IsArray()) return fail(from.Env(), "Expected an array for `script`");
  const Napi::Array list = script.As<Napi::Array>();
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value item = list.Get(i);
    if (!item.IsObject()) return fail(from.Env(), "Expected objects in `script`");
    const Napi::Object o = item.As<Napi::Object>();
    ScriptStep step;
    int kind = 0;
    if (!readNanos(o, "atMs", &step.t) || !readCount(o, "instance", &step.instance) ||
        !readName(o, "kind", kKinds, &kind))
      return false;
    step.kind = static_cast<ScriptStep::Kind>(kind);
    if (step.kind == ScriptStep::Kind::kSpeed && !readNumber(o, "factor", &step.factor)) return false;
    out->push_back(step);
  }
  return true;
}

Napi::Value tunerEvents(Napi::Env env, const std::vector<TunerEvent>& events, std::size_t first) {
  first = std::min(first, events.size());
  std::vector<double> rows((events.size() - first) * kTunerColumns);
  for (std::size_t i = first; i < events.size(); ++i) {
    const TunerEvent& e = events[i];
    const double row[kTunerColumns] = {toMs(e.t),
                                       static_cast<double>(e.kind),
                                       static_cast<double>(e.reason),
                                       e.instance == kNoSlot ? -1.0 : static_cast<double>(e.instance),
                                       e.statistic,
                                       e.threshold,
                                       e.from,
                                       e.to,
                                       e.gain,
                                       e.p,
                                       e.regret};
    std::memcpy(rows.data() + (i - first) * kTunerColumns, row, sizeof row);
  }
  return numbersArray(env, rows);
}

Napi::Function TunerWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Tuner",
      {InstanceMethod<&TunerWrap::feed>("feed"), InstanceMethod<&TunerWrap::due>("due"),
       InstanceMethod<&TunerWrap::begin>("begin"), InstanceMethod<&TunerWrap::arrived>("arrived"),
       InstanceMethod<&TunerWrap::events>("events"), Accessor<&TunerWrap::nextWakeMs>("nextWakeMs")});
}

TunerWrap::TunerWrap(const Napi::CallbackInfo& info) : ObjectWrap<TunerWrap>(info) {
  TunerOptions options;
  std::vector<LatencyModel> latencies;
  if (!info[0].IsObject() || !info[1].IsObject() || !info[2].IsNumber()) {
    fail(info.Env(), "Expected options, a cluster and the present value");
    return;
  }
  if (!readTuner(info[0].As<Napi::Object>(), &options) ||
      !readLatencies(info[1].As<Napi::Object>(), &latencies))
    return;
  PairOptions pairs;
  if (const Napi::Value given = info[1].As<Napi::Object>().Get("pairs");
      !given.IsUndefined() && !readPairs(given, &pairs))
    return;
  tuner_ =
      std::make_unique<Tuner>(options, std::move(latencies), info[2].As<Napi::Number>().DoubleValue(), pairs);
}

Napi::Value TunerWrap::feed(const Napi::CallbackInfo& info) {
  const unsigned char* data = nullptr;
  std::size_t length = 0;
  if (!bytesOf(info, 0, &data, &length)) return info.Env().Undefined();
  if (length % sizeof(EventRecord) != 0) {
    fail(info.Env(), "Expected whole records");
    return info.Env().Undefined();
  }
  for (std::size_t at = 0; at < length; at += sizeof(EventRecord)) {
    EventRecord record;
    std::memcpy(&record, data + at, sizeof record);
    tuner_->observe(record);
  }
  return info.Env().Undefined();
}

/// ns
bool TunerWrap::timeOf(const Napi::CallbackInfo& info, Nanos* t) {
  const double ns = info[0].IsNumber() ? info[0].As<Napi::Number>().DoubleValue() : -1;
  if (!(ns >= 0 && ns <= 9007199254740991.0)) return fail(info.Env(), "Expected a time in ns");
  *t = static_cast<Nanos>(ns);
  return true;
}

Napi::Value TunerWrap::due(const Napi::CallbackInfo& info) {
  Nanos t = 0;
  if (!timeOf(info, &t)) return info.Env().Undefined();
  return Napi::Boolean::New(info.Env(), tuner_->due(t));
}

Napi::Value TunerWrap::begin(const Napi::CallbackInfo& info) {
  Nanos t = 0;
  SweepInput input;
  if (!timeOf(info, &t) || tuner_->inFlight() || !tuner_->begin(t, &input)) return info.Env().Undefined();
  std::vector<InstanceSpec> specs;
  const Service& service = tuner_->service();
  for (std::uint32_t m = 0; m < service.instances(); ++m) specs.push_back(service.spec(m));
  Packer packer;
  pack(input, specs, service.given(), &packer);
  return bytesArray(info.Env(), packer.bytes().data(), packer.bytes().size());
}

Napi::Value TunerWrap::arrived(const Napi::CallbackInfo& info) {
  Nanos t = 0;
  if (!timeOf(info, &t)) return info.Env().Undefined();
  if (!info[1].IsTypedArray() || info[1].As<Napi::TypedArray>().TypedArrayType() != napi_float64_array ||
      info[1].As<Napi::TypedArray>().ElementLength() != kResultNumbers) {
    fail(info.Env(), "Expected the numbers of a sweep");
    return info.Env().Undefined();
  }
  tuner_->arrived(t, resultOf(info[1].As<Napi::Float64Array>().Data()));
  return info.Env().Undefined();
}

Napi::Value TunerWrap::events(const Napi::CallbackInfo& info) {
  const double first = info[0].IsNumber() ? info[0].As<Napi::Number>().DoubleValue() : 0;
  return tunerEvents(info.Env(), tuner_->events(),
                     first > 0 && first < 1e9 ? static_cast<std::size_t>(first) : 0);
}

Napi::Value TunerWrap::nextWakeMs(const Napi::CallbackInfo& info) {
  const Nanos t = tuner_->nextWake();
  return Napi::Number::New(info.Env(), t == kNever ? -1 : toMs(t));
}

Napi::Value sweepWindowOf(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const unsigned char* data = nullptr;
  std::size_t length = 0;
  if (!bytesOf(info, 0, &data, &length)) return env.Undefined();
  if (!info[1].IsObject() || !info[2].IsObject() || !info[3].IsObject()) {
    fail(env, "Expected a cluster, run options and options of the tuner");
    return env.Undefined();
  }
  SweepInput input;
  ClusterSpec cluster;
  RunOptions run;
  TunerOptions options;
  PlacementFunction function;
  const Napi::Object given = info[1].As<Napi::Object>();
  std::vector<Service::GivenLatency> latencies;
  if (!unpack({data, length}, &input, &cluster.instances, &latencies)) {
    fail(env, "Not a window");
    return env.Undefined();
  }
  if (!readLatencies(given, &cluster.latencies) || !readTemplates(given, &cluster.templates, true) ||
      !readPolicy(info[2].As<Napi::Object>(), &run, &function) ||
      !readTuner(info[3].As<Napi::Object>(), &options))
    return env.Undefined();
  addLatencies(latencies, &input, &cluster);
  for (const InstanceSpec& spec : cluster.instances) {
    if (spec.latency >= cluster.latencies.size()) {
      fail(env, "An instance names a latency model that was not given");
      return env.Undefined();
    }
  }
  assumeCaches(input, &cluster);
  const SweepResult result = sweepWindow(input, cluster, run, options);
  double numbers[kResultNumbers];
  numbersOf(result, numbers);
  return numbersArray(env, numbers);
}

}  // namespace laxity::binding
