#include "binding/layout.h"

#include <type_traits>

#include "scheduler/events.h"

namespace laxity::binding {
namespace {

template <class T>
const char* typeName() {
  if constexpr (std::is_enum_v<T>)
    return typeName<std::underlying_type_t<T>>();
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return "u8";
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return "u16";
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return "u32";
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return "i16";
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return "i32";
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return "i64";
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return "u64";
  else
    return "f64";
}

class Kind {
 public:
  Kind(Napi::Array kinds, const char* name, EventKind id) : fields_(Napi::Array::New(kinds.Env())) {
    Napi::Object kind = Napi::Object::New(kinds.Env());
    kind.Set("name", name);
    kind.Set("id", static_cast<int>(id));
    kind.Set("fields", fields_);
    kinds.Set(kinds.Length(), kind);
  }
  template <class T>
  Kind& field(const char* name, std::size_t offset) {
    Napi::Object f = Napi::Object::New(fields_.Env());
    f.Set("name", name);
    f.Set("offset", static_cast<double>(offsetof(EventRecord, bytes) + offset));
    f.Set("type", typeName<T>());
    fields_.Set(fields_.Length(), f);
    return *this;
  }
  Kind& attempt(std::size_t offset) {
    return field<std::uint32_t>("call", offset + offsetof(CallAttempt, call.slot))
        .field<std::uint32_t>("callGeneration", offset + offsetof(CallAttempt, call.generation))
        .field<std::uint32_t>("epoch", offset + offsetof(CallAttempt, epoch));
  }
  Kind& workflow(std::size_t offset) {
    return field<std::uint32_t>("workflow", offset + offsetof(Ref, slot))
        .field<std::uint32_t>("workflowGeneration", offset + offsetof(Ref, generation));
  }

 private:
  Napi::Array fields_;
};

#define LAXITY_FIELD(Struct, member) field<decltype(Struct::member)>(#member, offsetof(Struct, member))

}  // namespace

Napi::Object eventLayout(Napi::Env env) {
  Napi::Object layout = Napi::Object::New(env);
  Napi::Array kinds = Napi::Array::New(env);
  layout.Set("recordBytes", static_cast<double>(sizeof(EventRecord)));
  layout.Set("inlineParents", static_cast<double>(kInlineParents));
  layout.Set("parentsOffset", static_cast<double>(offsetof(EventRecord, bytes) + offsetof(Reveal, parents)));
  layout.Set("moreParents", static_cast<double>(kMoreParents));
  layout.Set("moreParentsOffset",
             static_cast<double>(offsetof(EventRecord, bytes) + offsetof(MoreParents, parents)));
  layout.Set("decisionBytes", static_cast<double>(sizeof(Decision)));
  layout.Set("kinds", kinds);

  Kind(kinds, "instance", EventKind::kInstance)
      .LAXITY_FIELD(InstanceEvent, instance)
      .LAXITY_FIELD(InstanceEvent, change)
      .field<Role>("role", offsetof(InstanceEvent, spec.role))
      .field<EngineMode>("mode", offsetof(InstanceEvent, spec.mode))
      .field<std::uint16_t>("model", offsetof(InstanceEvent, spec.model))
      .field<std::uint16_t>("latency", offsetof(InstanceEvent, spec.latency))
      .field<std::uint16_t>("decodeShare", offsetof(InstanceEvent, spec.decodeShare))
      .field<std::uint32_t>("maxSequences", offsetof(InstanceEvent, spec.maxSequences))
      .field<std::uint32_t>("chunkTokens", offsetof(InstanceEvent, spec.chunkTokens))
      .field<std::int64_t>("kvTokens", offsetof(InstanceEvent, spec.kvTokens))
      .field<std::uint64_t>("adapters", offsetof(InstanceEvent, spec.adapters))
      .field<std::int64_t>("linkPerToken", offsetof(InstanceEvent, spec.linkPerToken))
      .field<std::int64_t>("linkLatency", offsetof(InstanceEvent, spec.linkLatency))
      .LAXITY_FIELD(InstanceEvent, revocable);
  Kind(kinds, "firstToken", EventKind::kFirstToken).attempt(0);
  Kind(kinds, "progress", EventKind::kProgress).attempt(0).LAXITY_FIELD(Progress, tokens);
  Kind(kinds, "transferDone", EventKind::kTransferDone).attempt(0);
  Kind(kinds, "evicted", EventKind::kEvicted).attempt(0).LAXITY_FIELD(Evicted, generated);
  Kind(kinds, "finished", EventKind::kFinished).attempt(0).LAXITY_FIELD(Finished, outputTokens);
  Kind(kinds, "failed", EventKind::kFailed)
      .attempt(0)
      .LAXITY_FIELD(Failed, failure)
      .LAXITY_FIELD(Failed, leg)
      .LAXITY_FIELD(Failed, kvOnPrefill)
      .LAXITY_FIELD(Failed, clientBytes)
      .LAXITY_FIELD(Failed, retryAfter);
  Kind(kinds, "openWorkflow", EventKind::kOpenWorkflow)
      .workflow(0)
      .LAXITY_FIELD(OpenWorkflow, tenant)
      .LAXITY_FIELD(OpenWorkflow, stageTemplate)
      .LAXITY_FIELD(OpenWorkflow, weight)
      .LAXITY_FIELD(OpenWorkflow, deadline)
      .LAXITY_FIELD(OpenWorkflow, remaining)
      .LAXITY_FIELD(OpenWorkflow, predictedHorizon)
      .LAXITY_FIELD(OpenWorkflow, exactRemaining);
  Kind(kinds, "updateWorkflow", EventKind::kUpdateWorkflow)
      .workflow(0)
      .LAXITY_FIELD(UpdateWorkflow, deadline)
      .LAXITY_FIELD(UpdateWorkflow, remaining)
      .LAXITY_FIELD(UpdateWorkflow, predictedHorizon)
      .LAXITY_FIELD(UpdateWorkflow, exactRemaining);
  Kind(kinds, "moreParents", EventKind::kMoreParents).LAXITY_FIELD(MoreParents, count);
  Kind(kinds, "reveal", EventKind::kReveal)
      .field<std::uint32_t>("call", offsetof(Reveal, call.slot))
      .field<std::uint32_t>("callGeneration", offsetof(Reveal, call.generation))
      .workflow(offsetof(Reveal, workflow))
      .LAXITY_FIELD(Reveal, stage)
      .LAXITY_FIELD(Reveal, model)
      .LAXITY_FIELD(Reveal, sequences)
      .LAXITY_FIELD(Reveal, frontier)
      .LAXITY_FIELD(Reveal, toolPending)
      .LAXITY_FIELD(Reveal, silent)
      .LAXITY_FIELD(Reveal, parentCount)
      .LAXITY_FIELD(Reveal, adapter)
      .LAXITY_FIELD(Reveal, promptTokens)
      .LAXITY_FIELD(Reveal, predictedTokens)
      .LAXITY_FIELD(Reveal, predictedHigh)
      .field<std::uint32_t>("cachedOn0", offsetof(Reveal, cached[0].instance))
      .field<std::uint32_t>("cachedTokens0", offsetof(Reveal, cached[0].tokens))
      .field<std::uint32_t>("cachedLoadUs0", offsetof(Reveal, cached[0].loadUs))
      .field<std::uint32_t>("cachedOn1", offsetof(Reveal, cached[1].instance))
      .field<std::uint32_t>("cachedTokens1", offsetof(Reveal, cached[1].tokens))
      .field<std::uint32_t>("cachedLoadUs1", offsetof(Reveal, cached[1].loadUs))
      .LAXITY_FIELD(Reveal, remaining)
      .LAXITY_FIELD(Reveal, exactRemaining);
  Kind(kinds, "toolDone", EventKind::kToolDone).attempt(0);
  Kind(kinds, "cancel", EventKind::kCancel).attempt(0);
  Kind(kinds, "closeWorkflow", EventKind::kCloseWorkflow).workflow(0);
  Kind(kinds, "setParameter", EventKind::kSetParameter)
      .LAXITY_FIELD(SetParameter, parameter)
      .LAXITY_FIELD(SetParameter, value);
  Kind(kinds, "planArrived", EventKind::kPlanArrived);
  Kind(kinds, "capacity", EventKind::kCapacity)
      .LAXITY_FIELD(Capacity, instance)
      .LAXITY_FIELD(Capacity, sequencesFree)
      .LAXITY_FIELD(Capacity, kvFree)
      .LAXITY_FIELD(Capacity, prefillFree)
      .LAXITY_FIELD(Capacity, exact);
  Kind(kinds, "timer", EventKind::kTimer);
  Kind(kinds, "setLatency", EventKind::kSetLatency)
      .LAXITY_FIELD(SetLatency, latency)
      .LAXITY_FIELD(SetLatency, learned)
      .LAXITY_FIELD(SetLatency, prefillBaseMs)
      .LAXITY_FIELD(SetLatency, prefillPerTokenMs)
      .LAXITY_FIELD(SetLatency, decodeBaseMs)
      .LAXITY_FIELD(SetLatency, decodePerSequenceMs)
      .LAXITY_FIELD(SetLatency, decodePerContextMs);
  Kind(kinds, "telemetry", EventKind::kTelemetry)
      .LAXITY_FIELD(Telemetry, instance)
      .LAXITY_FIELD(Telemetry, present)
      .LAXITY_FIELD(Telemetry, waiting)
      .LAXITY_FIELD(Telemetry, running)
      .LAXITY_FIELD(Telemetry, kvUsage);
  Kind(kinds, "setPolicy", EventKind::kSetPolicy)
      .LAXITY_FIELD(SetPolicy, order)
      .LAXITY_FIELD(SetPolicy, placement)
      .LAXITY_FIELD(SetPolicy, binding)
      .LAXITY_FIELD(SetPolicy, migrate);
  Kind(kinds, "decide", EventKind::kDecide)
      .field<std::uint32_t>("count", offsetof(EventHeader, count) - offsetof(EventRecord, bytes));
  Kind(kinds, "decision", EventKind::kDecision)
      .LAXITY_FIELD(Decision, kind)
      .LAXITY_FIELD(Decision, rejectReason)
      .LAXITY_FIELD(Decision, leaseReason)
      .LAXITY_FIELD(Decision, epoch)
      .field<std::uint32_t>("call", offsetof(Decision, call.slot))
      .field<std::uint32_t>("callGeneration", offsetof(Decision, call.generation))
      .LAXITY_FIELD(Decision, instance)
      .LAXITY_FIELD(Decision, decodeInstance)
      .LAXITY_FIELD(Decision, enginePriority)
      .LAXITY_FIELD(Decision, leaseNumber);
  return layout;
}

}  // namespace laxity::binding
