// A trace and a cluster, ready to run policies over.
#pragma once

#include "binding/napi_setup.h"
#include "binding/object_wrap.h"
#include "simulator/simulation.h"

namespace laxity::binding {

class SimulatorWrap : public ObjectWrap<SimulatorWrap> {
 public:
  static constexpr char kName[] = "Simulator";
  static constexpr napi_type_tag kTag{0xc409f178a80f7827, 0x9de30c32a136530a};
  static Napi::Function define(Napi::Env env);
  explicit SimulatorWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value run(const Napi::CallbackInfo& info);
  Napi::Value record(const Napi::CallbackInfo& info);
  Napi::Value bound(const Napi::CallbackInfo& info);
  Napi::Value reference(const Napi::CallbackInfo& info);
  template <class Compute>
  Napi::Value timed(const Napi::CallbackInfo& info, Compute&& compute);
  Napi::Value simulate(const Napi::CallbackInfo& info, EventLog* log);

  Napi::ObjectReference traceReference_;
  const Trace* trace_ = nullptr;
  ClusterSpec cluster_;
  Workspace workspace_;
  bool running_ = false;  ///< a placement in JavaScript may try to run this simulator again
};

}  // namespace laxity::binding
