#include "binding/placement_function.h"

#include <algorithm>
#include <cmath>

namespace laxity::binding {
namespace {

Napi::Object describeCall(Napi::Env env, const PlacementView& view) {
  const Call& c = view.call;
  const Workflow& w = view.workflow;
  Napi::Object o = Napi::Object::New(env);
  o.Set("workflow", static_cast<double>(w.sequence));
  o.Set("tenant", w.tenant);
  o.Set("arrivedAtMs", toMs(w.arrival));
  o.Set("deadlineMs", w.hasDeadline ? Napi::Value(Napi::Number::New(env, toMs(w.deadline))) : env.Null());
  o.Set("stage", c.stage);
  o.Set("model", c.model);
  o.Set("promptTokens", c.promptTokens);
  o.Set("predictedOutputTokens", c.predictedTokens);
  o.Set("sequences", c.sequences);
  o.Set("waitedMs", toMs(view.now - c.readyAt));
  o.Set("attempt", c.epoch);
  return o;
}

Napi::Object describeCandidate(Napi::Env env, const PlacementView& view, std::uint32_t m, const Instance& i,
                               const Estimate& e) {
  const Ledger& ledger = i.ledger;
  Napi::Object o = Napi::Object::New(env);
  o.Set("instance", m);
  o.Set("hardwareClass", i.hardwareClass);
  o.Set("prefillMs", toMs(e.prefill));
  o.Set("execMs", toMs(e.exec));
  o.Set("cachedTokens", view.call.promptTokens - view.newTokens(m));
  o.Set("queuedWorkMs", toMs(ledger.work));
  o.Set("assigned", ledger.assigned);
  o.Set("waiting", i.backlog.waiting);
  o.Set("leased", ledger.leased);
  o.Set("unprefilled", ledger.unprefilled);
  o.Set("backlogMs", toMs(std::max<Nanos>(0, ledger.prefillsEnd - view.now) + i.backlog.prefill));
  o.Set("backlogTokens", static_cast<double>(i.backlog.tokens));
  o.Set("reservedKv", static_cast<double>(ledger.reservedKv));
  o.Set("waitingKv", static_cast<double>(i.backlog.kv));
  o.Set("kvTokens", static_cast<double>(i.spec.kvTokens));
  o.Set("contextTokens", static_cast<double>(ledger.context));
  o.Set("maxSequences", i.spec.maxSequences);
  o.Set("utilisation", utilisationOf(i, view));
  return o;
}

}  // namespace

void PlacementFunction::keepIn(Napi::Object owner) {
  if (!bound()) return;
  owner.DefineProperty(Napi::PropertyDescriptor::Value("placement", function_.Value(), napi_default));
  function_.Unref();
}

void PlacementFunction::reset() {
  failed_ = false;
  failure_.Reset();
}

Napi::Value PlacementFunction::failure(Napi::Env env) const {
  if (!failed_) return env.Null();
  return failure_.IsEmpty() ? env.Null() : failure_.Value().As<Napi::Value>();
}

std::uint32_t PlacementFunction::choose(void* self, const PlacementView& view) {
  return static_cast<PlacementFunction*>(self)->ask(view);
}

std::uint32_t PlacementFunction::ask(const PlacementView& view) {
  if (failed_) return kNoSlot;
  const Napi::Env env = function_.Env();
  const Napi::HandleScope scope(env);
  Napi::Array candidates = Napi::Array::New(env);
  view.eachCandidate([&](std::uint32_t m, const Instance& i, const Estimate& e) {
    candidates.Set(candidates.Length(), describeCandidate(env, view, m, i, e));
  });
  Napi::Object argument = Napi::Object::New(env);
  argument.Set("nowMs", toMs(view.now));
  argument.Set("call", describeCall(env, view));
  argument.Set("candidates", candidates);

  const napi_value arguments[] = {argument};
  napi_value answer = nullptr;
  if (napi_call_function(env, env.Undefined(), function_.Value(), 1, arguments, &answer) != napi_ok) {
    bool pending = false;
    napi_value thrown = env.Undefined();
    // A worker that is being terminated has no exception to take.
    if (napi_is_exception_pending(env, &pending) == napi_ok && pending)
      napi_get_and_clear_last_exception(env, &thrown);
    return fail(env, true, thrown);
  }
  double chosen = -1;
  napi_valuetype type;
  if (napi_typeof(env, answer, &type) != napi_ok || type != napi_number ||
      napi_get_value_double(env, answer, &chosen) != napi_ok || !(chosen >= 0 && chosen < kNoSlot) ||
      chosen != std::floor(chosen) || !view.isCandidate(static_cast<std::uint32_t>(chosen))) {
    return fail(env, false, answer);
  }
  return static_cast<std::uint32_t>(chosen);
}

std::uint32_t PlacementFunction::fail(Napi::Env env, bool threw, napi_value value) {
  failed_ = true;
  Napi::Object failure = Napi::Object::New(env);
  failure.Set("threw", threw);
  failure.Set("value", Napi::Value(env, value));
  failure_ = Napi::Persistent(failure);
  return kNoSlot;
}

}  // namespace laxity::binding
