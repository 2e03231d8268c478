#include "binding/core_bench.h"

#include <string>
#include <vector>

#include "base/heap.h"
#include "base/random.h"
#include "base/thread_time.h"
#include "base/tournament.h"
#include "binding/convert.h"
#include "scheduler/workbench.h"

namespace laxity::binding {
namespace {

struct Option {
  const char* name;
  double low, high;
};

template <std::size_t N>
bool readOptions(const Napi::CallbackInfo& info, const Option (&options)[N], double (&out)[N]) {
  if (!info[0].IsObject()) return fail(info.Env(), "Expected the options of a benchmark");
  const Napi::Object object = info[0].As<Napi::Object>();
  for (std::size_t i = 0; i < N; ++i) {
    if (!readNumber(object, options[i].name, &out[i])) return false;
    if (!(out[i] >= options[i].low && out[i] <= options[i].high))
      return fail(info.Env(), std::string("Option out of range: `") + options[i].name + "`");
  }
  return true;
}

/// ns of one of `operations` in each of `repeats` rounds; a first one lets arrays grow and is not counted.
template <class Round>
Napi::Value rounds(Napi::Env env, double repeats, double operations, Round&& round) {
  std::vector<double> ns(static_cast<std::size_t>(repeats));
  round();
  for (double& each : ns) {
    const std::int64_t before = threadCpuNs();
    round();
    each = static_cast<double>(threadCpuNs() - before) / operations;
  }
  return numbersArray(env, ns);
}

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

}  // namespace laxity::binding
