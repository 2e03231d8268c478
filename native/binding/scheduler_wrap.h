// The scheduler behind a ring of event records in shared memory.
//
// Ring: two 32-bit counters (records written by JavaScript, records drained here), padding to 128 bytes, then
// the records. Both sides run on one thread; the counters never need more than ordinary loads and stores.
#pragma once

#include <memory>
#include <vector>

#include "binding/napi_setup.h"
#include "binding/placement_function.h"
#include "scheduler/scheduler.h"

namespace laxity::binding {

class SchedulerWrap : public Napi::ObjectWrap<SchedulerWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit SchedulerWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value decide(const Napi::CallbackInfo& info);
  Napi::Value applyLog(const Napi::CallbackInfo& info);
  Napi::Value decisions(const Napi::CallbackInfo& info);
  Napi::Value refusals(const Napi::CallbackInfo& info);
  Napi::Value nextWakeMs(const Napi::CallbackInfo& info);
  Napi::Value audit(const Napi::CallbackInfo& info);
  Napi::Value placementFailure(const Napi::CallbackInfo& info);
  bool reentered(Napi::Env env) const;
  bool publish(Napi::Env env, std::span<const Decision> made);

  PlacementFunction function_;
  bool deciding_ = false;  ///< a placement in JavaScript may try to come back in
  std::unique_ptr<Scheduler> scheduler_;
  Napi::ObjectReference ringReference_;
  unsigned char* ring_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::vector<EventRecord> batch_;
  std::vector<std::uint32_t> refusals_;  ///< pairs (record written, status)
  std::vector<unsigned char> made_;
};

}  // namespace laxity::binding
