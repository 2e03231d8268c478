// A bound trace: keeps the JavaScript columns alive as long as the core reads them.
#pragma once

#include "binding/napi_setup.h"
#include "workload/trace.h"

namespace laxity::binding {

class TraceWrap : public Napi::ObjectWrap<TraceWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit TraceWrap(const Napi::CallbackInfo& info);
  const Trace& trace() const { return trace_; }

 private:
  Napi::Value status(const Napi::CallbackInfo& info);
  Napi::Value workflow(const Napi::CallbackInfo& info);
  Napi::Value call(const Napi::CallbackInfo& info);
  Napi::Value largestCall(const Napi::CallbackInfo& info);

  Napi::ObjectReference columns_;
  Trace trace_;
};

}  // namespace laxity::binding
