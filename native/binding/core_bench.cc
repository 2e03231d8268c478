#include "binding/core_bench.h"

#include <string>
#include <vector>

#include "base/heap.h"
#include "base/random.h"
#include "base/tournament.h"
#include "binding/bench_options.h"
#include "binding/convert.h"
#include "scheduler/workbench.h"

namespace laxity::binding {
namespace {

constexpr std::uint32_t kKeys = 1'000'000'000;

Napi::Value heapRounds(Napi::Env env, std::uint32_t size, double operations, double repeats, Random random) {
  IndexedHeap heap;
  std::vector<std::uint32_t> at(size);
  const auto moved = [&](std::uint32_t slot, std::uint32_t position) { at[slot] = position; };
  std::uint64_t rank = 0;
  for (std::uint32_t slot = 0; slot < size; ++slot) heap.push({random.below(kKeys), rank++, slot}, moved);
  return rounds(env, repeats, operations, [&] {
    for (double i = 0; i < operations; ++i) {
      const std::uint32_t slot = heap.top().slot;
      heap.removeAt(0, moved);
      heap.push({random.below(kKeys), rank++, slot}, moved);
    }
  });
}

Napi::Value tournamentRounds(Napi::Env env, std::uint32_t size, double operations, double repeats,
                             Random random) {
  TournamentTree tree;
  tree.resize(size);
  std::size_t seen = 0;
  const Napi::Value ns = rounds(env, repeats, operations, [&] {
    for (double i = 0; i < operations; ++i) {
      tree.set(random.below(size), random.below(kKeys));
      seen += tree.minIndex();
    }
  });
  return seen == SIZE_MAX ? env.Null() : ns;  // the sum keeps the compiler from dropping the question
}

}  // namespace

Napi::Value structureBench(const Napi::CallbackInfo& info) {
  double v[5];
  if (!readOptions(info,
                   {{"structure", 0, 1},
                    {"size", 1, 1e7},
                    {"operations", 1, 1e8},
                    {"repeats", 1, 1e4},
                    {"seed", 0, 1e9}},
                   v))
    return info.Env().Undefined();
  const auto measure = v[0] == 0 ? heapRounds : tournamentRounds;
  return measure(info.Env(), static_cast<std::uint32_t>(v[1]), v[2], v[3],
                 Random(static_cast<std::uint64_t>(v[4])));
}

Napi::Value dispatchBench(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  double v[6];
  if (!readOptions(info,
                   {{"migrate", 0, 1},
                    {"instances", 1, 65'535},
                    {"waiting", 0, 1e7},
                    {"turns", 1, 1e8},
                    {"repeats", 1, 1e4},
                    {"seed", 0, 1e9}},
                   v))
    return env.Undefined();
  const Napi::Object options = info[0].As<Napi::Object>();
  SchedulerConfig config;
  std::string order;
  std::string placement;
  if (!readString(options, "order", &order) || !readString(options, "placement", &placement))
    return env.Undefined();
  if (!makeOrder(order, &config.order) || !makePlacement(placement, &config.placement)) {
    fail(env, "Expected an order and a placement");
    return env.Undefined();
  }
  config.migrate = v[0] > 0;
  SchedulerWorkbench bench(std::move(config), static_cast<std::uint32_t>(v[1]),
                           static_cast<std::uint32_t>(v[2]), static_cast<std::uint64_t>(v[5]));
  const Napi::Value ns = rounds(env, v[4], v[3], [&] {
    for (double i = 0; i < v[3]; ++i) bench.turn();
  });
  if (bench.refused() > 0) {
    fail(env, "The scheduler refused an event");
    return env.Undefined();
  }
  return ns;
}

Napi::Value placementBench(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  double v[5];
  if (!readOptions(info,
                   {{"instances", 1, 65'535},
                    {"leave", 0, 1},
                    {"operations", 1, 1e8},
                    {"repeats", 1, 1e4},
                    {"seed", 0, 1e9}},
                   v))
    return env.Undefined();
  std::vector<LatencyModel> latencies(2);
  for (std::size_t k = 0; k < latencies.size(); ++k) {
    LatencyConstants c;
    c.prefillPerTokenMs = k == 0 ? 0.026 : 0.033;
    c.decodeBaseMs = k == 0 ? 39 : 56;
    if (!ok(LatencyModel::constants(c, &latencies[k]))) return env.Undefined();
  }
  const auto instances = static_cast<std::uint32_t>(v[0]);
  Cluster cluster(latencies, 0);
  for (std::uint32_t m = 0; m < instances; ++m) {
    InstanceSpec spec;
    spec.latency = static_cast<std::uint16_t>(m % 2);
    spec.kvTokens = 1'000'000;
    if (!ok(cluster.add(m, spec))) return env.Undefined();
    cluster.setCondition(m, Condition::kUp);
  }
  const Call call;
  const Workflow workflow;
  const PolicyParameters parameters;
  const Estimate estimates[] = {{fromMs(26), fromMs(3'900)}, {fromMs(33), fromMs(5'600)}};
  const PlacementView view{call, workflow, cluster, parameters, estimates, nullptr,
                           0,    1,        nullptr, nullptr,    nullptr};
  const CallCost costs[] = {{estimates[0].exec, 0, 0, 0, 1, 0}, {estimates[1].exec, 0, 0, 0, 1, 0}};
  WorkloadBalanced placement;
  Random random(static_cast<std::uint64_t>(v[4]));
  const auto choose = [&] {
    const std::uint32_t m = placement.choose(view);
    cluster.at(m).ledger.assign(costs[cluster.at(m).hardwareClass]);
    cluster.workChanged(m);
    return m;
  };
  std::vector<std::uint32_t> assigned(std::size_t{8} * instances);
  for (std::uint32_t& m : assigned) m = choose();
  if (v[1] == 0) {
    return rounds(env, v[3], v[2], [&] {
      for (double i = 0; i < v[2]; ++i) choose();
    });
  }
  // For each call that comes another ends, so that queues stay as long as they are.
  return rounds(env, v[3], v[2], [&] {
    for (double i = 0; i < v[2]; ++i) {
      std::uint32_t& m = assigned[random.below(static_cast<std::uint32_t>(assigned.size()))];
      cluster.at(m).ledger.unassign(costs[cluster.at(m).hardwareClass]);
      cluster.workChanged(m);
      m = choose();
    }
  });
}

Napi::Object recordBytes(Napi::Env env) {
  Napi::Object bytes = Napi::Object::New(env);
  const auto set = [&](const char* name, std::size_t size) { bytes.Set(name, static_cast<double>(size)); };
  set("event", sizeof(EventRecord));
  set("decision", sizeof(Decision));
  set("call", sizeof(Call));
  set("workflow", sizeof(Workflow));
  set("instance", sizeof(Instance));
  set("queueEntry", sizeof(HeapEntry));
  return bytes;
}

}  // namespace laxity::binding
