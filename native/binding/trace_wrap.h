// A bound trace. It has its own copy of the columns: JavaScript may change, detach or shrink its arrays at
// any time, also from another thread and from a placement in the middle of a run, and what was checked must
// stay what is read. The copy costs some 40 bytes per call, far less than a run's records.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "binding/napi_setup.h"
#include "binding/object_wrap.h"
#include "workload/trace.h"

namespace laxity::binding {

class TraceWrap : public ObjectWrap<TraceWrap> {
 public:
  static constexpr char kName[] = "Trace";
  static constexpr napi_type_tag kTag{0x8998d9104422a344, 0x1ad877ad3b736143};
  static Napi::Function define(Napi::Env env);
  explicit TraceWrap(const Napi::CallbackInfo& info);
  const Trace& trace() const { return trace_; }

 private:
  Napi::Value status(const Napi::CallbackInfo& info);
  Napi::Value workflow(const Napi::CallbackInfo& info);
  Napi::Value call(const Napi::CallbackInfo& info);
  Napi::Value largestCall(const Napi::CallbackInfo& info);

  template <class T>
  void own(const T** column, std::size_t length);

  std::vector<std::unique_ptr<std::byte[]>> columns_;
  std::size_t bytes_ = 0;  ///< of the columns
  Trace trace_;
};

}  // namespace laxity::binding
