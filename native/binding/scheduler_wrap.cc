#include "binding/scheduler_wrap.h"

#include <cstring>

#include "binding/convert.h"
#include "scheduler/batch.h"
#include "simulator/driver.h"

namespace laxity::binding {

Napi::Function SchedulerWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Scheduler",
      {InstanceMethod<&SchedulerWrap::decide>("decide"), InstanceMethod<&SchedulerWrap::applyLog>("applyLog"),
       InstanceMethod<&SchedulerWrap::audit>("audit"),
       InstanceAccessor<&SchedulerWrap::decisions>("decisions"),
       InstanceAccessor<&SchedulerWrap::refusals>("refusals"),
       InstanceAccessor<&SchedulerWrap::placementFailure>("placementFailure"),
       InstanceAccessor<&SchedulerWrap::nextWakeMs>("nextWakeMs")});
}

SchedulerWrap::SchedulerWrap(const Napi::CallbackInfo& info) : Napi::ObjectWrap<SchedulerWrap>(info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsObject() || !info[1].IsTypedArray()) {
    fail(env, "Expected a configuration and a Uint8Array over the ring");
    return;
  }
  const Napi::Object given = info[0].As<Napi::Object>();
  RunOptions policy;
  ClusterSpec cluster;
  static constexpr const char* kBases[] = {"template", "exclusive"};
  int base = 1;  // a caller's own deadlines
  if (!readPolicy(given, &policy, &function_) || !readLatencies(given, &cluster.latencies) ||
      !readTemplates(given, &cluster.templates) ||
      (given.Has("sloBase") && !readName(given, "sloBase", kBases, &base))) {
    return;
  }
  policy.sloBase = static_cast<SloBase>(base);
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (napi_get_typedarray_info(env, info[1], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array || length < 2 * sizeof(EventRecord) || length % sizeof(EventRecord) != 0 ||
      reinterpret_cast<std::uintptr_t>(data) % 8 != 0) {
    fail(env, "Expected a ring of at least two whole records");
    return;
  }
  function_.keepIn(info.This().As<Napi::Object>());
  ring_ = static_cast<unsigned char*>(data);
  capacity_ = static_cast<std::uint32_t>(length / sizeof(EventRecord) - 1);
  ringReference_ = Napi::Persistent(info[1].As<Napi::Object>());
  scheduler_ = std::make_unique<Scheduler>(schedulerConfig(cluster, policy));
}

/// Throws and returns true inside a placement that this very scheduler has called.
bool SchedulerWrap::reentered(Napi::Env env) const {
  if (deciding_) fail(env, "The scheduler is deciding: a placement must not call it");
  return deciding_;
}

/// Drains the ring, applies its events in the order of the contract, decides once at the last t.
/// Returns the number of decisions; -1 where the ring was empty, -2 where its counters make no sense, -3
/// where the placement function failed: decisions made before it stand, and the next decide asks again.
Napi::Value SchedulerWrap::decide(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (reentered(env)) return env.Undefined();
  if (!scheduler_) return Napi::Number::New(env, -2);
  std::uint32_t written;
  std::uint32_t drained;
  std::memcpy(&written, ring_, 4);
  std::memcpy(&drained, ring_ + 4, 4);
  const std::uint32_t count = written - drained;
  if (count > capacity_) return Napi::Number::New(env, -2);
  if (count == 0) return Napi::Number::New(env, -1);
  batch_.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = (drained + i) % capacity_;
    std::memcpy(&batch_[i], ring_ + (at + 1) * sizeof(EventRecord), sizeof(EventRecord));
    batch_[i].header.count = drained + i;  // the record's number, for refusals
  }
  std::memcpy(ring_ + 4, &written, 4);
  sortBatch(batch_);
  refusals_.clear();
  Nanos t = scheduler_->now();
  for (const EventRecord& record : batch_) {
    const Status status = scheduler_->apply(record);
    if (ok(status)) {
      t = record.header.t;
    } else {
      refusals_.push_back(record.header.count);
      refusals_.push_back(static_cast<std::uint32_t>(status));
    }
  }
  function_.reset();
  deciding_ = true;
  const auto made = scheduler_->decide(t);
  deciding_ = false;
  publish(env, made);
  if (scheduler_->placementFailed()) return Napi::Number::New(env, -3);
  return Napi::Number::New(env, static_cast<double>(made.size()));
}

bool SchedulerWrap::publish(Napi::Env, std::span<const Decision> made) {
  made_.resize(made.size_bytes());
  if (!made.empty()) std::memcpy(made_.data(), made.data(), made.size_bytes());
  return true;
}

/// Replays the records of a log without the ring: events are applied, every decide mark decides, and the
/// decisions that follow it are compared byte for byte. Returns { decisions, firstMismatch } (a record
/// number, or -1).
Napi::Value SchedulerWrap::applyLog(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (reentered(env)) return env.Undefined();
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (!scheduler_ || !info[0].IsTypedArray() ||
      napi_get_typedarray_info(env, info[0], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array || length % sizeof(EventRecord) != 0) {
    fail(env, "Expected whole records");
    return env.Undefined();
  }
  const std::size_t count = length / sizeof(EventRecord);
  double decisions = 0;
  double mismatch = -1;
  std::size_t next = 0;
  std::span<const Decision> made;
  for (std::size_t i = 0; i < count && mismatch < 0; ++i) {
    EventRecord record;
    std::memcpy(&record, static_cast<const unsigned char*>(data) + i * sizeof(EventRecord),
                sizeof(EventRecord));
    if (record.header.kind == EventKind::kDecision) {
      if (next >= made.size() || std::memcmp(&made[next], &record.decision, sizeof(Decision)) != 0) {
        mismatch = static_cast<double>(i);
      }
      ++next;
      ++decisions;
      continue;
    }
    if (next != made.size()) mismatch = static_cast<double>(i);
    if (record.header.kind == EventKind::kDecide) {
      function_.reset();
      deciding_ = true;
      made = scheduler_->decide(record.header.t);
      deciding_ = false;
      next = 0;
      if (made.size() != record.header.count) mismatch = static_cast<double>(i);
    } else if (!ok(scheduler_->apply(record))) {
      mismatch = static_cast<double>(i);
    } else {
      made = {};
      next = 0;
    }
  }
  Napi::Object result = Napi::Object::New(env);
  result.Set("decisions", decisions);
  result.Set("firstMismatch", mismatch);
  return result;
}

Napi::Value SchedulerWrap::decisions(const Napi::CallbackInfo& info) {
  Napi::Uint8Array out = Napi::Uint8Array::New(info.Env(), made_.size());
  if (!made_.empty()) std::memcpy(out.Data(), made_.data(), made_.size());
  return out;
}

Napi::Value SchedulerWrap::refusals(const Napi::CallbackInfo& info) {
  Napi::Uint32Array out = Napi::Uint32Array::New(info.Env(), refusals_.size());
  for (std::size_t i = 0; i < refusals_.size(); ++i) out[i] = refusals_[i];
  return out;
}

/// Why the last decide returned -3: { threw, value }, else null.
Napi::Value SchedulerWrap::placementFailure(const Napi::CallbackInfo& info) {
  return function_.failure(info.Env());
}

Napi::Value SchedulerWrap::nextWakeMs(const Napi::CallbackInfo& info) {
  const Nanos wake = scheduler_ ? scheduler_->nextWake() : kNever;
  if (wake == kNever) return info.Env().Null();
  return Napi::Number::New(info.Env(), toMs(wake));
}

Napi::Value SchedulerWrap::audit(const Napi::CallbackInfo& info) {
  if (reentered(info.Env())) return info.Env().Undefined();
  return Napi::Boolean::New(info.Env(), scheduler_ && scheduler_->audit());
}

}  // namespace laxity::binding
