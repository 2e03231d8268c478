#include "binding/trace_wrap.h"

#include <cstring>

#include "binding/convert.h"

namespace laxity::binding {

Napi::Function TraceWrap::define(Napi::Env env) {
  return DefineClass(env, "Trace",
                     {Accessor<&TraceWrap::status>("status"), Accessor<&TraceWrap::workflow>("workflow"),
                      Accessor<&TraceWrap::call>("call"), Accessor<&TraceWrap::largestCall>("largestCall")});
}

TraceWrap::TraceWrap(const Napi::CallbackInfo& info) : ObjectWrap<TraceWrap>(info) {
  if (!info[0].IsObject()) {
    fail(info.Env(), "Expected the columns of a trace");
    return;
  }
  // Plain properties: a getter of the caller's could detach what was read before it.
  const Napi::Object given = info[0].As<Napi::Object>();
  Napi::Object plain = Napi::Object::New(info.Env());
  for (const std::string& name : propertyNames(given)) plain.Set(name, given.Get(name));
  TraceColumns c;
  if (info.Env().IsExceptionPending() || !readTrace(plain, &c)) return;
  own(&c.firstCall, std::size_t{c.workflows} + 1);
  own(&c.arrivalMs, c.workflows);
  own(&c.tenant, c.workflows);
  own(&c.sloMs, c.workflows);
  own(&c.stage, c.calls);
  own(&c.model, c.calls);
  own(&c.promptTokens, c.calls);
  own(&c.cachedTokens, c.calls);
  own(&c.outputTokens, c.calls);
  own(&c.predictedTokens, c.calls);
  own(&c.toolGapMs, c.calls);
  own(&c.parentOffset, std::size_t{c.calls} + 1);
  own(&c.parents, c.edges);
  tellHeld(bytes_);
  trace_.bind(c);
}

template <class T>
void TraceWrap::own(const T** column, std::size_t length) {
  if (*column == nullptr) return;
  bytes_ += length * sizeof(T);
  columns_.push_back(std::make_unique_for_overwrite<std::byte[]>(length * sizeof(T)));
  std::memcpy(columns_.back().get(), *column, length * sizeof(T));
  *column = reinterpret_cast<const T*>(columns_.back().get());
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
