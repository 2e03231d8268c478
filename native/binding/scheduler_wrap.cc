#include "binding/scheduler_wrap.h"

#include <algorithm>
#include <cstring>

#include "binding/convert.h"
#include "scheduler/batch.h"
#include "simulator/driver.h"

namespace laxity::binding {
namespace {

/// In front of the decisions in the array bound for them.
struct OutHeader {
  std::uint32_t decisions;
  std::uint32_t refusals;
  std::uint32_t freed;
  std::uint32_t plans;  ///< made since the beginning, modulo 2^32
  double nextWake;      ///< ns, -1 = never
};
static_assert(sizeof(OutHeader) == 24);

/// Measured over some hundred calls in mid-work. What a scheduler grows to beyond it, it keeps for a long
/// life.
constexpr std::size_t kHeldBytes = std::size_t{128} << 10;
constexpr std::size_t kInstanceColumns = 22;
constexpr std::size_t kCallColumns = 20;

bool floats(const Napi::CallbackInfo& info, std::size_t i, Column* out) {
  napi_typedarray_type type;
  return info[i].IsTypedArray() &&
         napi_get_typedarray_info(info.Env(), info[i], &type, &out->length, &out->data, nullptr, nullptr) ==
             napi_ok &&
         type == napi_float64_array;
}

}  // namespace

Napi::Function SchedulerWrap::define(Napi::Env env) {
  return DefineClass(env, "Scheduler",
                     {InstanceMethod<&SchedulerWrap::decide>("decide"),
                      InstanceMethod<&SchedulerWrap::applyLog>("applyLog"),
                      InstanceMethod<&SchedulerWrap::audit>("audit"),
                      InstanceMethod<&SchedulerWrap::setLogging>("setLogging"),
                      InstanceMethod<&SchedulerWrap::takeLog>("takeLog"),
                      InstanceMethod<&SchedulerWrap::instances>("instances"),
                      InstanceMethod<&SchedulerWrap::totals>("totals"),
                      InstanceMethod<&SchedulerWrap::attained>("attained"),
                      InstanceMethod<&SchedulerWrap::predictedTtftMs>("predictedTtftMs"),
                      InstanceMethod<&SchedulerWrap::callInfo>("callInfo"),
                      InstanceMethod<&SchedulerWrap::queue>("queue"),
                      InstanceMethod<&SchedulerWrap::preview>("preview"),
                      InstanceMethod<&SchedulerWrap::lengths>("lengths"),
                      InstanceMethod<&SchedulerWrap::stages>("stages"),
                      Accessor<&SchedulerWrap::freed>("freed"),
                      InstanceMethod<&SchedulerWrap::horizonMs>("horizonMs"),
                      Accessor<&SchedulerWrap::decisions>("decisions"),
                      Accessor<&SchedulerWrap::refusals>("refusals"),
                      Accessor<&SchedulerWrap::placementFailure>("placementFailure"),
                      Accessor<&SchedulerWrap::nextWakeMs>("nextWakeMs")});
}

SchedulerWrap::SchedulerWrap(const Napi::CallbackInfo& info) : ObjectWrap<SchedulerWrap>(info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsObject() || !info[1].IsTypedArray()) {
    fail(env, "Expected a configuration and a Uint8Array over the ring");
    return;
  }
  const Napi::Object given = info[0].As<Napi::Object>();
  RunOptions policy;
  ClusterSpec cluster;
  static constexpr const char* kBases[] = {"template", "exclusive", "horizon"};
  int base = 1;  // a caller's own deadlines
  if (!readPolicy(given, &policy, &function_) || !readLatencies(given, &cluster.latencies) ||
      !readTemplates(given, &cluster.templates, true) ||
      (given.Has("sloBase") && !readName(given, "sloBase", kBases, &base))) {
    return;
  }
  policy.sloBase = static_cast<SloBase>(base);
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (napi_get_typedarray_info(env, info[1], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array || length < 2 * sizeof(EventRecord) || length % sizeof(EventRecord) != 0 ||
      reinterpret_cast<std::uintptr_t>(data) % 8 != 0 || !isShared(env, info[1])) {
    fail(env, "Expected a ring of at least two whole records over a SharedArrayBuffer");
    return;
  }
  function_.keepIn(info.This().As<Napi::Object>());
  ring_ = static_cast<unsigned char*>(data);
  capacity_ = static_cast<std::uint32_t>(length / sizeof(EventRecord) - 1);
  ringReference_ = Napi::Persistent(info[1].As<Napi::Object>());
  if (info[2].IsTypedArray()) {
    if (napi_get_typedarray_info(env, info[2], &type, &length, &data, nullptr, nullptr) != napi_ok ||
        type != napi_uint8_array || length < sizeof(OutHeader) ||
        reinterpret_cast<std::uintptr_t>(data) % 8 != 0 || !isShared(env, info[2])) {
      fail(env, "Expected a Uint8Array over a SharedArrayBuffer with room for what decide gives");
      return;
    }
    out_ = static_cast<unsigned char*>(data);
    outBytes_ = length;
    outReference_ = Napi::Persistent(info[2].As<Napi::Object>());
  }
  scheduler_ = std::make_unique<Scheduler>(schedulerConfig(cluster, policy));
  scheduler_->setFreed(&freed_);
  scheduler_->sumAttained();
  tellHeld(kHeldBytes);
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
  // An event written later in the same turn may belong in front.
  orderBatch(batch_, &places_);
  refusals_.clear();
  freed_.clear();
  Nanos t = scheduler_->now();
  for (const BatchPlace& place : places_) {
    const EventRecord& record = batch_[place.index];
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
  publish(made);
  if (scheduler_->placementFailed()) return Napi::Number::New(env, -3);
  return Napi::Number::New(env, static_cast<double>(made.size()));
}

void SchedulerWrap::publish(std::span<const Decision> made) {
  made_.resize(made.size_bytes());
  if (!made.empty()) std::memcpy(made_.data(), made.data(), made.size_bytes());
  if (out_ == nullptr) return;
  OutHeader header{};
  header.decisions = static_cast<std::uint32_t>(made.size());
  header.refusals = static_cast<std::uint32_t>(refusals_.size() / 2);
  header.freed = static_cast<std::uint32_t>(freed_.size());
  if (scheduler_->pairs() != nullptr)
    header.plans = static_cast<std::uint32_t>(scheduler_->pairs()->planCount());
  const Nanos wake = scheduler_->nextWake();
  header.nextWake = wake == kNever ? -1 : static_cast<double>(wake);
  std::memcpy(out_, &header, sizeof header);
  const std::size_t fits =
      std::min(made_.size(), (outBytes_ - sizeof header) / sizeof(Decision) * sizeof(Decision));
  if (fits > 0) std::memcpy(out_ + sizeof header, made_.data(), fits);
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
  return bytesArray(info.Env(), made_.data(), made_.size());
}

Napi::Value SchedulerWrap::refusals(const Napi::CallbackInfo& info) {
  return countsArray(info.Env(), refusals_);
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

Napi::Value SchedulerWrap::setLogging(const Napi::CallbackInfo& info) {
  if (scheduler_) scheduler_->setLog(isTruthy(info[0]) ? &log_ : nullptr);
  return info.Env().Undefined();
}

/// The records since the last call, or an empty array.
Napi::Value SchedulerWrap::takeLog(const Napi::CallbackInfo& info) {
  const auto& records = log_.records();
  const Napi::Value out = bytesArray(info.Env(), records.data(), records.size() * sizeof(EventRecord));
  log_.clear();
  return out;
}

/// Writes kInstanceColumns numbers per instance, as far as they fit; returns the number of instances.
Napi::Value SchedulerWrap::instances(const Napi::CallbackInfo& info) {
  Column out;
  if (!scheduler_ || !floats(info, 0, &out)) return Napi::Number::New(info.Env(), 0);
  const Cluster& cluster = scheduler_->cluster();
  const LiveState& live = scheduler_->live();
  double* at = static_cast<double*>(out.data);
  for (std::uint32_t m = 0; m < cluster.size() && (m + 1) * kInstanceColumns <= out.length; ++m) {
    const Instance& i = cluster.at(m);
    const Ledger& l = i.ledger;
    const Breaker breaker = m < live.breakers.size() ? live.breakers[m] : Breaker{};
    const Nanos now = scheduler_->now();
    const DecodePiece piece = cluster.latency(i).piece(std::max(1u, l.leased), l.context);
    const Pairs* pairs = scheduler_->pairs();
    const bool decodes = pairs != nullptr && i.spec.role == Role::kDecode;
    const double columns[kInstanceColumns] = {static_cast<double>(i.condition),
                                              i.masked ? 1.0 : 0.0,
                                              static_cast<double>(breaker.state),
                                              static_cast<double>(breaker.transitions),
                                              static_cast<double>(l.assigned),
                                              toMs(l.work),
                                              static_cast<double>(l.leased),
                                              static_cast<double>(l.reservedKv),
                                              static_cast<double>(l.unprefilled),
                                              toMs(l.unprefilledWork),
                                              toMs(std::max<Nanos>(0, l.prefillsEnd - now)),
                                              static_cast<double>(scheduler_->waiting(m)),
                                              toMs(std::max<Nanos>(0, i.closedUntil - now)),
                                              toMs(i.correction),
                                              static_cast<double>(i.spec.maxSequences),
                                              static_cast<double>(i.spec.kvTokens),
                                              toMs(cluster.latency(i).prefill(1000, 0)) / 1000,
                                              toMs(roundFine(piece.at(l.context))),
                                              static_cast<double>(i.spec.role),
                                              decodes ? static_cast<double>(pairs->admittedKv(m)) : 0,
                                              decodes ? static_cast<double>(pairs->admittedSequences(m)) : 0,
                                              decodes ? static_cast<double>(pairs->foreign(m).kv) : 0};
    at = std::copy(std::begin(columns), std::end(columns), at);
  }
  return Napi::Number::New(info.Env(), static_cast<double>(cluster.size()));
}

/// [now ms, leases granted, live workflows, calls ready without a lease, retries refused, retry tokens,
/// leases whose KV expired, leases revoked, plans made, calls that they looked at]
Napi::Value SchedulerWrap::totals(const Napi::CallbackInfo& info) {
  Column out;
  if (!scheduler_ || !floats(info, 0, &out) || out.length < 10) return info.Env().Undefined();
  const LiveState& live = scheduler_->live();
  double* at = static_cast<double*>(out.data);
  at[0] = toMs(scheduler_->now());
  at[1] = static_cast<double>(scheduler_->leases());
  at[2] = scheduler_->graph().liveWorkflows();
  at[3] = live.queued.size();
  at[4] = static_cast<double>(live.retriesRefused);
  at[5] = live.retryTokens;
  at[6] = static_cast<double>(live.kvExpired);
  at[7] = static_cast<double>(live.revoked);
  const Pairs* pairs = scheduler_->pairs();
  at[8] = pairs == nullptr ? 0 : static_cast<double>(pairs->planCount());
  at[9] = pairs == nullptr ? 0 : static_cast<double>(pairs->plannedCalls());
  return info.Env().Undefined();
}

/// [weighted tokens of what was finished, weight] by tenant.
Napi::Value SchedulerWrap::attained(const Napi::CallbackInfo& info) {
  if (!scheduler_) return numbersArray(info.Env(), {});
  const std::vector<double>& tokens = scheduler_->live().attained;
  std::vector<double> out(tokens.size() * 2);
  for (std::size_t tenant = 0; tenant < tokens.size(); ++tenant) {
    out[tenant * 2] = tokens[tenant];
    out[tenant * 2 + 1] = scheduler_->weightOf(static_cast<std::uint16_t>(tenant)) / 1000.0;
  }
  return numbersArray(info.Env(), out);
}

/// Of a call that was leased in this decide: from now to its first token, as projected.
Napi::Value SchedulerWrap::predictedTtftMs(const Napi::CallbackInfo& info) {
  const std::uint32_t slot = indexOf(info[0]);
  if (!scheduler_ || slot >= scheduler_->live().calls.size()) return Napi::Number::New(info.Env(), -1);
  const LiveCall& call = scheduler_->live().calls[slot];
  return Napi::Number::New(info.Env(), toMs(std::max<Nanos>(0, call.firstTokenDue - call.leasedAt)));
}

/// (slot, generation, out) -> status; writes kCallColumns numbers.
Napi::Value SchedulerWrap::callInfo(const Napi::CallbackInfo& info) {
  Column out;
  if (!scheduler_ || !floats(info, 2, &out) || out.length < kCallColumns)
    return Napi::Number::New(info.Env(), static_cast<int>(Status::kBadValue));
  const laxity::Ref ref{indexOf(info[0]), indexOf(info[1])};
  const Graph& graph = scheduler_->graph();
  const Status found = graph.findCall(ref);
  if (ok(found)) {
    const Call& c = graph.call(ref.slot);
    const Workflow& w = graph.workflow(c.workflow);
    const bool waits = c.state == CallState::kWaiting;
    const bool placed = c.instance != kNoSlot;
    const Pairs* pairs = scheduler_->pairs();
    const std::uint32_t decode = pairs == nullptr ? kNoSlot : pairs->call(ref.slot).decode;
    const double columns[kCallColumns] = {
        static_cast<double>(c.state),
        static_cast<double>(c.epoch),
        placed ? static_cast<double>(c.instance) : -1,
        toMs(c.revealedAt),
        toMs(c.readyAt),
        toMs(c.mean),
        toMs(c.cost.prefill),
        toMs(c.cost.exec),
        toMs(c.budget),
        waits ? scheduler_->keyOf(ref.slot) : 0,
        placed ? toMs(scheduler_->projection(ref.slot)) : -1,
        static_cast<double>(c.predictedTokens),
        static_cast<double>(c.predictedHigh),
        static_cast<double>(c.retries),
        toMs(w.arrival),
        toMs(w.deadline),
        toMs(w.horizon),
        c.demoted ? 1.0 : 0.0,
        placed ? toMs(std::max<Nanos>(
                     0, scheduler_->cluster().at(c.instance).ledger.prefillsEnd - scheduler_->now()))
               : -1,
        decode != kNoSlot ? static_cast<double>(decode) : -1};
    std::copy(std::begin(columns), std::end(columns), static_cast<double*>(out.data));
  }
  return Napi::Number::New(info.Env(), static_cast<int>(found));
}

/// Waiting calls of an instance in the order in which they would be picked: [slot, generation, key, ...].
Napi::Value SchedulerWrap::queue(const Napi::CallbackInfo& info) {
  const std::uint32_t m = indexOf(info[0]);
  if (!scheduler_ || !scheduler_->cluster().known(m)) return numbersArray(info.Env(), {});
  const auto slots = scheduler_->queueInOrder(m);
  std::vector<double> out(slots.size() * 3);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    out[i * 3] = slots[i];
    out[i * 3 + 1] = scheduler_->graph().call(slots[i]).generation;
    out[i * 3 + 2] = scheduler_->keyOf(slots[i]);
  }
  return numbersArray(info.Env(), out);
}

/// A reveal's record -> [status, chosen, then per candidate: instance, prefill ms, exec ms, projected finish
/// ms].
Napi::Value SchedulerWrap::preview(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (reentered(env)) return env.Undefined();
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (!scheduler_ || !info[0].IsTypedArray() ||
      napi_get_typedarray_info(env, info[0], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array || length != sizeof(EventRecord)) {
    fail(env, "Expected one record");
    return env.Undefined();
  }
  EventRecord record;
  std::memcpy(&record, data, sizeof record);
  std::uint32_t chosen = kNoSlot;
  function_.reset();
  deciding_ = true;
  const Status status = record.header.kind == EventKind::kReveal
                            ? scheduler_->preview(record.reveal, &candidates_, &chosen)
                            : Status::kBadValue;
  deciding_ = false;
  std::vector<double> out(2 + candidates_.size() * 4);
  out[0] = static_cast<int>(status);
  out[1] = chosen == kNoSlot ? -1.0 : static_cast<double>(chosen);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Scheduler::Candidate& c = candidates_[i];
    out[2 + i * 4] = c.instance;
    out[3 + i * 4] = toMs(c.cost.prefill);
    out[4 + i * 4] = toMs(c.cost.exec);
    out[5 + i * 4] = toMs(c.delta);
  }
  return numbersArray(env, out);
}

/// (template) -> [stage, prompt tokens, output tokens] for each of its stages, as they are now.
Napi::Value SchedulerWrap::stages(const Napi::CallbackInfo& info) {
  const std::uint32_t id = indexOf(info[0]);
  if (!scheduler_ || id >= scheduler_->templates().size()) return info.Env().Undefined();
  const std::vector<TemplateEntry>& entries = scheduler_->templates()[id].entries();
  std::vector<double> out(entries.size() * 3);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    out[3 * i] = entries[i].stage;
    out[3 * i + 1] = entries[i].promptTokens;
    out[3 * i + 2] = entries[i].outputTokens;
  }
  return numbersArray(info.Env(), out);
}

/// (template, stage, out) -> [observations, mean, high, observed calls, their tokens, summed error, above the
/// high]
Napi::Value SchedulerWrap::lengths(const Napi::CallbackInfo& info) {
  Column out;
  if (!scheduler_ || !floats(info, 2, &out) || out.length < 7) return info.Env().Undefined();
  const auto stages = static_cast<std::int32_t>(indexOf(info[0]));
  const auto stage = static_cast<std::uint16_t>(indexOf(info[1]));
  const LengthPredictor& lengths = scheduler_->live().lengths;
  if (stages < -1 || stages > 32767) return info.Env().Undefined();
  const LengthPrediction p = lengths.predict(stages, stage);
  const LengthRecord e = lengths.error(stages, stage);
  double* at = static_cast<double*>(out.data);
  at[0] = lengths.observations(stages, stage);
  at[1] = p.mean;
  at[2] = p.high;
  at[3] = static_cast<double>(e.observed);
  at[4] = static_cast<double>(e.actual);
  at[5] = static_cast<double>(e.absolute);
  at[6] = static_cast<double>(e.aboveHigh);
  return info.Env().Undefined();
}

/// H of an open workflow's slot, 0 where there is none.
Napi::Value SchedulerWrap::horizonMs(const Napi::CallbackInfo& info) {
  const std::uint32_t slot = indexOf(info[0]);
  const bool known = scheduler_ && slot < scheduler_->graph().workflowSlots();
  return Napi::Number::New(info.Env(), known ? toMs(scheduler_->graph().workflow(slot).horizon) : 0);
}

Napi::Value SchedulerWrap::freed(const Napi::CallbackInfo& info) { return countsArray(info.Env(), freed_); }

}  // namespace laxity::binding
