#include "binding/planner_bench.h"

#include <ctime>
#include <vector>

#include "base/random.h"
#include "binding/convert.h"
#include "planner/pair_planner.h"

namespace laxity::binding {
namespace {

/// Three classes of instances, about Llama-3.1-70B at tensor parallelism 4 on A100, H100 and H200.
struct Hardware {
  double prefillMs;  ///< per 1,000 tokens
  double decodeMs, sequenceMs, contextNs;
  std::int64_t kv;
};
constexpr Hardware kHardware[] = {
    {165, 25.6, 0.16, 5.5, 160'000}, {62, 14.9, 0.09, 3.2, 160'000}, {59, 12.1, 0.07, 2.3, 240'000}};
constexpr std::uint32_t kClasses = 3;

/// n prefill and n decode instances; KV 40 % committed (light) or 97 % (tight: the planned calls exceed what
/// is left), by calls that end within the next 10 s.
class Workbench {
 public:
  Workbench(std::uint32_t calls, std::uint32_t instances, bool tight, std::uint64_t seed)
      : random_(seed), instances_(instances) {
    prefill_.configure(kClasses);
    std::vector<DecodeClass> classes;
    for (const Hardware& h : kHardware) {
      classes.push_back({fineFromMs(h.decodeMs), fineFromMs(h.sequenceMs), fineFromMs(h.contextNs * 1e-6)});
    }
    decode_.configure(classes);
    for (std::uint32_t i = 0; i < instances; ++i) {
      const std::uint32_t k = i % kClasses;
      prefill_.add(i, k, 0);
      prefill_.setReady(i, t_ + fromMs(random_.uniform() * 400));
      decode_.add(i, k, kHardware[k].kv, 0);
      decode_.setClock(i, t_, 1000, fromMs(kHardware[k].decodeMs + 5));
      const std::int64_t target = kHardware[k].kv * (tight ? 97 : 40) / 100;
      for (std::int64_t used = 0; used < target;) {
        const std::int64_t kv = std::min(target - used, tokens());
        reserve(i, kv);
        used += kv;
      }
    }
    calls_.configure(kClasses, kClasses);
    for (std::uint32_t slot = 0; slot < calls; ++slot) add(slot);
  }

  void step() {
    t_ += 1'000'000;
    const std::uint32_t id = random_.below(static_cast<std::uint32_t>(held_.size()));
    decode_.release(id);
    reserveAs(id, held_[id].slot, held_[id].kv);
    prefill_.setReady(random_.below(instances_), t_ + fromMs(random_.uniform() * 400));
    const std::uint32_t slot = random_.below(calls_.size());
    calls_.remove(slot);
    add(slot);
  }

  std::span<const PlanEntry> plan(PairPlanner& planner, const PlanOptions& options) {
    return planner.plan(t_, prefill_, decode_, calls_, options);
  }

 private:
  struct Held {
    std::uint32_t slot;
    std::int64_t kv;
  };

  std::int64_t tokens() { return 1 + static_cast<std::int64_t>(random_.lognormal(7.2, 0.7)); }

  void reserve(std::uint32_t slot, std::int64_t kv) {
    reserveAs(static_cast<std::uint32_t>(held_.size()), slot, kv);
    held_.push_back({slot, kv});
  }
  void reserveAs(std::uint32_t id, std::uint32_t slot, std::int64_t kv) {
    const bool runs = random_.below(8) != 0;
    decode_.reserve(id, slot, kv, kv, 1, t_ + fromMs(random_.uniform() * 10'000));
    if (runs) decode_.run(id, 1001 + random_.below(400));
  }

  void add(std::uint32_t slot) {
    WaitingCall c;
    c.arrival = t_ - fromMs(random_.uniform() * 60'000);
    c.rank = rank_++;
    c.inverseHorizon = 1.0 / static_cast<double>(fromMs(2'000 + random_.exponential(20'000)));
    c.output = 1 + static_cast<std::uint32_t>(random_.lognormal(4.5, 0.8));
    const std::int64_t prompt = tokens();
    c.kv = prompt + c.output;
    const double thousands = static_cast<double>(prompt) * 1e-3;
    Nanos prefill[kClasses];
    Nanos transfer[kClasses * kClasses];
    for (std::uint32_t h = 0; h < kClasses; ++h) {
      prefill[h] = fromMs(kHardware[h].prefillMs * thousands);
      for (std::uint32_t g = 0; g < kClasses; ++g) {
        // 320 KiB a token over 18 GB/s with an A100 at an end, 36 GB/s without.
        const double gigabytes = h == 0 || g == 0 ? 18 : 36;
        transfer[h * kClasses + g] = fromMs(1 + 327.68 * thousands / gigabytes);
      }
    }
    calls_.add(slot, c, prefill, transfer);
  }

  Random random_;
  std::uint32_t instances_;
  std::uint64_t rank_ = 0;
  Nanos t_ = 3'600 * kSecond;
  PrefillPool prefill_;
  DecodePool decode_;
  WaitingCalls calls_;
  std::vector<Held> held_;
};

double threadCpuNs() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
#else
  return static_cast<double>(std::clock()) * (1e9 / CLOCKS_PER_SEC);
#endif
}

}  // namespace

Napi::Value plannerBench(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  double calls = 0, instances = 0, tight = 0, onePass = 0, scalar = 0, perInstance = 0, plans = 0,
         repeats = 0, seed = 0;
  if (!info[0].IsObject()) {
    fail(env, "Expected the options of a planner benchmark");
    return env.Undefined();
  }
  const Napi::Object options = info[0].As<Napi::Object>();
  const struct {
    const char* name;
    double* value;
    double low, high;
  } fields[] = {{"calls", &calls, 1, 1e5},       {"instances", &instances, 1, 1000},
                {"tight", &tight, 0, 1},         {"onePass", &onePass, 0, 1},
                {"scalar", &scalar, 0, 1},       {"perInstance", &perInstance, -1, 1000},
                {"plans", &plans, 1, 1e6},       {"repeats", &repeats, 1, 1e5},
                {"seed", &seed, 0, 4294967295.0}};
  for (const auto& field : fields) {
    if (!readNumber(options, field.name, field.value)) return env.Undefined();
    if (!(*field.value >= field.low && *field.value <= field.high)) {
      fail(env, std::string("Option out of range: `") + field.name + "`");
      return env.Undefined();
    }
  }
  Workbench bench(static_cast<std::uint32_t>(calls), static_cast<std::uint32_t>(instances), tight > 0,
                  static_cast<std::uint64_t>(seed));
  PairPlanner planner(scalar > 0 ? PairPlanner::Path::kScalar : PairPlanner::Path::kAuto);
  const PlanOptions planOptions{onePass > 0 ? PlanMode::kOnePass : PlanMode::kGreedy, perInstance < 0,
                                perInstance < 0 ? 0 : static_cast<std::uint32_t>(perInstance)};
  std::size_t entries = 0;
  std::vector<double> ns(static_cast<std::size_t>(repeats));
  for (double& each : ns) {
    const double before = threadCpuNs();
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(plans); ++i) {
      bench.step();
      entries = bench.plan(planner, planOptions).size();
    }
    each = (threadCpuNs() - before) / plans;
  }
  Napi::Object result = Napi::Object::New(env);
  result.Set("ns", numbersArray(env, ns));
  result.Set("entries", static_cast<double>(entries));
  result.Set("vectorised", planner.vectorised());
  return result;
}

}  // namespace laxity::binding
