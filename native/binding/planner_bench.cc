#include "binding/planner_bench.h"

#include <vector>

#include "base/thread_time.h"
#include "binding/convert.h"
#include "planner/pair_planner.h"
#include "planner/workbench.h"

namespace laxity::binding {
namespace {

/// What a measurement is of: the cluster, the calls that wait, and how to plan.
struct Setting {
  double calls = 0, instances = 0, tight = 0, onePass = 0, scalar = 0, perInstance = 0, plans = 0,
         repeats = 0, seed = 0;

  bool read(const Napi::CallbackInfo& info) {
    const Napi::Env env = info.Env();
    if (!info[0].IsObject()) return fail(env, "Expected the options of a planner benchmark");
    const Napi::Object options = info[0].As<Napi::Object>();
    const struct {
      const char* name;
      double* value;
      double low, high;
    } fields[] = {{"calls", &calls, 1, 1e5},       {"instances", &instances, 1, 5000},
                  {"tight", &tight, 0, 1},         {"onePass", &onePass, 0, 1},
                  {"scalar", &scalar, 0, 1},       {"perInstance", &perInstance, -1, 1000},
                  {"plans", &plans, 1, 1e6},       {"repeats", &repeats, 1, 1e5},
                  {"seed", &seed, 0, 4294967295.0}};
    for (const auto& field : fields) {
      if (!readNumber(options, field.name, field.value)) return false;
      if (!(*field.value >= field.low && *field.value <= field.high))
        return fail(env, std::string("Option out of range: `") + field.name + "`");
    }
    return true;
  }
  PlannerWorkbench bench() const {
    return PlannerWorkbench(static_cast<std::uint32_t>(calls), static_cast<std::uint32_t>(instances),
                            tight > 0, static_cast<std::uint64_t>(seed));
  }
  PlanOptions options() const {
    return {onePass > 0 ? PlanMode::kOnePass : PlanMode::kGreedy, perInstance < 0,
            perInstance < 0 ? 0 : static_cast<std::uint32_t>(perInstance)};
  }
};

/// A column of whole numbers below 2^53.
class Column64 {
 public:
  void push(double value) { values_.push_back(value); }
  void set(Napi::Object out, const char* name) const { out.Set(name, numbersArray(out.Env(), values_)); }

 private:
  std::vector<double> values_;
};

double number(std::int64_t value) { return static_cast<double>(value); }

Napi::Object prefillColumns(Napi::Env env, const PrefillPool& pool) {
  Column64 hardwareClass, rank, ready;
  for (std::uint32_t i = 0; i < pool.size(); ++i) {
    hardwareClass.push(pool.at(i).hardwareClass);
    rank.push(pool.at(i).rank);
    ready.push(number(pool.at(i).ready));
  }
  Napi::Object out = Napi::Object::New(env);
  hardwareClass.set(out, "hardwareClass");
  rank.set(out, "rank");
  ready.set(out, "ready");
  return out;
}

/// `releaseTime` and `releaseKv` hold the releases of instance i at releaseOffset[i] .. releaseOffset[i + 1]
/// - 1.
Napi::Object decodeColumns(Napi::Env env, const DecodePool& pool, Nanos t) {
  Column64 hardwareClass, rank, capacity, used, context, batch, releaseOffset, releaseTime, releaseKv;
  Column64 base, perSequence, perContext;
  double releases = 0;
  for (std::uint32_t i = 0; i < pool.size(); ++i) {
    const DecodeInstance& d = pool.at(i);
    hardwareClass.push(d.hardwareClass);
    rank.push(d.rank);
    capacity.push(number(d.capacity));
    used.push(number(d.used));
    context.push(number(d.context));
    batch.push(number(d.batch));
    releaseOffset.push(releases);
    const Timeline timeline = d.releases.timeline();
    for (std::uint32_t k = 0; k < timeline.size; ++k) {
      const Nanos at = timeline.time[k];
      releaseTime.push(number(at <= t ? t + d.releases.perIteration() : at));
      releaseKv.push(number(timeline.released[k] - (k == 0 ? 0 : timeline.released[k - 1])));
    }
    releases += timeline.size;
  }
  releaseOffset.push(releases);
  for (std::uint32_t k = 0; k < pool.classes(); ++k) {
    base.push(number(pool.hardware(k).base));
    perSequence.push(number(pool.hardware(k).perSequence));
    perContext.push(number(pool.hardware(k).perContext));
  }
  Napi::Object out = Napi::Object::New(env);
  hardwareClass.set(out, "hardwareClass");
  rank.set(out, "rank");
  capacity.set(out, "capacity");
  used.set(out, "used");
  context.set(out, "context");
  batch.set(out, "batch");
  releaseOffset.set(out, "releaseOffset");
  releaseTime.set(out, "releaseTime");
  releaseKv.set(out, "releaseKv");
  base.set(out, "base");
  perSequence.set(out, "perSequence");
  perContext.set(out, "perContext");
  return out;
}

/// `prefill` is [call][prefill class], `transfer` [call][prefill class][decode class].
Napi::Object callColumns(Napi::Env env, const WaitingCalls& calls) {
  Column64 arrival, rank, inverseHorizon, kv, output, prefill, transfer;
  for (std::uint32_t slot = 0; slot < calls.size(); ++slot) {
    const WaitingCall& c = calls.at(slot);
    arrival.push(number(c.arrival));
    rank.push(static_cast<double>(c.rank));
    inverseHorizon.push(c.inverseHorizon);
    kv.push(number(c.kv));
    output.push(c.output);
    for (std::uint32_t h = 0; h < calls.prefillClasses(); ++h) prefill.push(calls.prefill(slot)[h]);
    for (std::uint32_t i = 0; i < calls.prefillClasses() * calls.decodeClasses(); ++i)
      transfer.push(calls.transfer(slot)[i]);
  }
  Napi::Object out = Napi::Object::New(env);
  arrival.set(out, "arrival");
  rank.set(out, "rank");
  inverseHorizon.set(out, "inverseHorizon");
  kv.set(out, "kv");
  output.set(out, "output");
  prefill.set(out, "prefill");
  transfer.set(out, "transfer");
  return out;
}

}  // namespace

Napi::Value plannerState(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Setting setting;
  if (!setting.read(info)) return env.Undefined();
  PlannerWorkbench bench = setting.bench();
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(setting.plans); ++i) bench.step();
  Napi::Object out = Napi::Object::New(env);
  out.Set("t", number(bench.now()));
  out.Set("prefill", prefillColumns(env, bench.prefill()));
  out.Set("decode", decodeColumns(env, bench.decode(), bench.now()));
  out.Set("calls", callColumns(env, bench.calls()));
  PairPlanner planner;
  Column64 call, prefill, decode, finish;
  for (const PlanEntry& entry : bench.plan(planner, setting.options())) {
    call.push(entry.call);
    prefill.push(entry.prefill);
    decode.push(entry.decode);
    finish.push(number(entry.finish));
  }
  Napi::Object plan = Napi::Object::New(env);
  call.set(plan, "call");
  prefill.set(plan, "prefill");
  decode.set(plan, "decode");
  finish.set(plan, "finish");
  out.Set("plan", plan);
  return out;
}

Napi::Value plannerBench(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Setting setting;
  if (!setting.read(info)) return env.Undefined();
  PlannerWorkbench bench = setting.bench();
  PairPlanner planner(setting.scalar > 0 ? PairPlanner::Path::kScalar : PairPlanner::Path::kAuto);
  std::size_t entries = 0;
  std::vector<double> ns(static_cast<std::size_t>(setting.repeats));
  for (double& each : ns) {
    const std::int64_t before = threadCpuNs();
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(setting.plans); ++i) {
      bench.step();
      entries = bench.plan(planner, setting.options()).size();
    }
    each = static_cast<double>(threadCpuNs() - before) / setting.plans;
  }
  Napi::Object result = Napi::Object::New(env);
  result.Set("ns", numbersArray(env, ns));
  result.Set("entries", static_cast<double>(entries));
  result.Set("vectorised", planner.vectorised());
  return result;
}

}  // namespace laxity::binding
