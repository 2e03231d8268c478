// The live tuner, its options, and sweeps of recorded windows on any thread.
#pragma once

#include <memory>

#include "binding/napi_setup.h"
#include "binding/object_wrap.h"
#include "tuner/tuner.h"

namespace laxity::binding {

/// { parameter, values, windowMs, latencyMs, periodMs, replications, minGain, significance, agreement,
/// falseAlarmsPerHour, calibrationRuns, welchLevel, welch, ratio, service, load, seed }
bool readTuner(Napi::Object from, TunerOptions* out);
/// [{ atMs, instance, kind, factor? }] in field `script`, optional.
bool readScript(Napi::Object from, std::vector<ScriptStep>* out);
/// One row of kTunerColumns numbers per event, from the `first` on.
Napi::Value tunerEvents(Napi::Env env, const std::vector<TunerEvent>& events, std::size_t first);

class TunerWrap : public ObjectWrap<TunerWrap> {
 public:
  static constexpr char kName[] = "Tuner";
  static constexpr napi_type_tag kTag{0x58364b97e8b64802, 0x54b794b074166336};
  static Napi::Function define(Napi::Env env);
  explicit TunerWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value feed(const Napi::CallbackInfo& info);
  Napi::Value due(const Napi::CallbackInfo& info);
  Napi::Value begin(const Napi::CallbackInfo& info);
  Napi::Value arrived(const Napi::CallbackInfo& info);
  Napi::Value events(const Napi::CallbackInfo& info);
  Napi::Value nextWakeMs(const Napi::CallbackInfo& info);
  bool timeOf(const Napi::CallbackInfo& info, Nanos* t);

  std::unique_ptr<Tuner> tuner_;
};

/// sweepWindow(window, { latencies, templates }, run, options): what a window that `begin` gave says.
Napi::Value sweepWindowOf(const Napi::CallbackInfo& info);

}  // namespace laxity::binding
