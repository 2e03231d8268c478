// The scheduler behind a ring of event records in shared memory.
//
// Ring: two 32-bit counters (records written by JavaScript, records drained here), padding to 128 bytes, then
// the records. Both sides run on one thread; the counters never need more than ordinary loads and stores.
#pragma once

#include <memory>
#include <vector>

#include "binding/napi_setup.h"
#include "binding/object_wrap.h"
#include "binding/placement_function.h"
#include "scheduler/batch.h"
#include "scheduler/log.h"
#include "scheduler/scheduler.h"

namespace laxity::binding {

class SchedulerWrap : public ObjectWrap<SchedulerWrap> {
 public:
  static constexpr char kName[] = "Scheduler";
  static constexpr napi_type_tag kTag{0xfd6ab2e298c11de4, 0x9a127df59f61070d};
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
  Napi::Value setLogging(const Napi::CallbackInfo& info);
  Napi::Value takeLog(const Napi::CallbackInfo& info);
  Napi::Value instances(const Napi::CallbackInfo& info);
  Napi::Value totals(const Napi::CallbackInfo& info);
  Napi::Value attained(const Napi::CallbackInfo& info);
  Napi::Value predictedTtftMs(const Napi::CallbackInfo& info);
  Napi::Value callInfo(const Napi::CallbackInfo& info);
  Napi::Value queue(const Napi::CallbackInfo& info);
  Napi::Value preview(const Napi::CallbackInfo& info);
  Napi::Value lengths(const Napi::CallbackInfo& info);
  Napi::Value stages(const Napi::CallbackInfo& info);
  Napi::Value freed(const Napi::CallbackInfo& info);
  Napi::Value horizonMs(const Napi::CallbackInfo& info);
  void publish(std::span<const Decision> made);

  PlacementFunction function_;
  bool deciding_ = false;  ///< a placement in JavaScript may try to come back in
  std::unique_ptr<Scheduler> scheduler_;
  Napi::ObjectReference ringReference_;
  unsigned char* ring_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::vector<EventRecord> batch_;
  std::vector<BatchPlace> places_;       ///< the order of the batch
  std::vector<std::uint32_t> refusals_;  ///< pairs (record written, status)
  std::vector<unsigned char> made_;
  std::vector<std::uint32_t> freed_;  ///< workflow slots since the last decide
  EventLog log_;
  Napi::ObjectReference outReference_;
  unsigned char* out_ = nullptr;  ///< what the last decide gave: OutHeader, then decisions as far as they fit
  std::size_t outBytes_ = 0;
  std::vector<Scheduler::Candidate> candidates_;
};

}  // namespace laxity::binding
