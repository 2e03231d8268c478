#include "binding/trace_wrap.h"

#include "binding/convert.h"

namespace laxity::binding {

Napi::Function TraceWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Trace",
      {InstanceAccessor<&TraceWrap::status>("status"), InstanceAccessor<&TraceWrap::workflow>("workflow"),
       InstanceAccessor<&TraceWrap::call>("call"), InstanceAccessor<&TraceWrap::largestCall>("largestCall")});
}

TraceWrap::TraceWrap(const Napi::CallbackInfo& info) : Napi::ObjectWrap<TraceWrap>(info) {
  if (!info[0].IsObject()) {
    fail(info.Env(), "Expected the columns of a trace");
    return;
  }
  const Napi::Object given = info[0].As<Napi::Object>();
  TraceColumns columns;
  if (!readTrace(given, &columns)) return;
  // A copy of the object: later assignments to the caller's cannot drop an array that is read here.
  Napi::Object kept = Napi::Object::New(info.Env());
  const Napi::Array names = given.GetPropertyNames();
  for (std::uint32_t i = 0; i < names.Length(); ++i) kept.Set(names.Get(i), given.Get(names.Get(i)));
  columns_ = Napi::Persistent(kept);
  trace_.bind(columns);
}

Napi::Value TraceWrap::status(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<int>(trace_.problem().status));
}
Napi::Value TraceWrap::workflow(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), trace_.problem().workflow);
}
Napi::Value TraceWrap::call(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), trace_.problem().call);
}
Napi::Value TraceWrap::largestCall(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), trace_.largestCall());
}

}  // namespace laxity::binding
