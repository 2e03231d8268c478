// The oracles of the native tests as slow rivals, measured on the inputs of the fast ones. One JSON object on
// stdout; times are thread CPU time, ns.
//
//   oracles stepping INSTANCES WORKFLOWS REPEATS   {calls, iterations, stepping: [ns], leaping: [ns]} of a
//   run oracles naive CALLS INSTANCES TIGHT REPEATS    {entries, ns: [ns]} of a plan
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../workloads.h"
#include "base/thread_time.h"
#include "naive_planner.h"
#include "planner/workbench.h"
#include "stepping.h"

using namespace laxity;

namespace {

template <class Work>
std::vector<std::int64_t> rounds(int repeats, Work&& work) {
  std::vector<std::int64_t> ns;
  for (int i = 0; i < repeats; ++i) {
    const std::int64_t before = threadCpuNs();
    work();
    ns.push_back(threadCpuNs() - before);
  }
  return ns;
}

void print(const char* name, const std::vector<std::int64_t>& ns) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < ns.size(); ++i)
    std::printf("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(ns[i]));
  std::printf("]");
}

void simulations(std::uint32_t instances, std::uint32_t workflows, int repeats) {
  Workload workload;
  chess(workflows, &workload);
  RunOptions options;
  if (!makeOrder("urgency", &options.order) || !makePlacement("workload-balanced", &options.placement))
    fail("no such policy");
  options.knowledge = Knowledge::kOnline;
  options.sloBase = SloBase::kExclusive;
  options.arrivals.seed = 1;
  options.arrivals.rate = 0.125 * instances;
  std::vector<double> arrivals(workflows);
  Arrivals process(options.arrivals);
  for (double& ms : arrivals) ms = static_cast<double>(process.next()) * 1e-6;
  options.arrivals.process = ArrivalProcess::kTrace;
  options.arrivals.recordedMs = arrivals;
  const ClusterSpec cluster = unified(instances, EngineMode::kPrefillFirst);
  stepping::Result steps;
  RunResult leaps;
  Workspace workspace;
  const auto slow =
      rounds(repeats, [&] { steps = stepping::run(workload.trace, cluster, options, nullptr); });
  const auto leap = [&] {
    if (!ok(simulate(workload.trace, cluster, options, {}, &leaps, &workspace))) fail("the simulation fails");
  };
  leap();
  const auto fast = rounds(5 * repeats, leap);
  if (steps.finished != leaps.calls) fail("the simulators disagree");
  std::printf("{\"calls\": %llu, \"iterations\": %llu, ", static_cast<unsigned long long>(leaps.calls),
              static_cast<unsigned long long>(steps.iterations));
  print("stepping", slow);
  std::printf(", ");
  print("leaping", fast);
  std::puts("}");
}

naive::State stateOf(const PlannerWorkbench& bench) {
  naive::State s;
  s.t = bench.now();
  for (std::uint32_t i = 0; i < bench.prefill().size(); ++i) {
    const PrefillInstance& p = bench.prefill().at(i);
    s.prefill.push_back({static_cast<int>(p.hardwareClass), p.tie, p.ready});
  }
  const DecodePool& pool = bench.decode();
  for (std::uint32_t k = 0; k < pool.classes(); ++k)
    s.decodeClasses.push_back(
        {pool.hardware(k).base, pool.hardware(k).perSequence, pool.hardware(k).perContext});
  for (std::uint32_t i = 0; i < pool.size(); ++i) {
    const DecodeInstance& d = pool.at(i);
    naive::Decode decode{};
    decode.hardwareClass = static_cast<int>(d.hardwareClass);
    decode.tie = d.tie;
    decode.capacity = d.capacity;
    decode.used = d.used;
    decode.batch = d.batch;
    decode.context = d.context;
    decode.perIteration = d.releases.perIteration();
    const Timeline timeline = d.releases.timeline();
    for (std::uint32_t k = 0; k < timeline.size; ++k)
      decode.releases.push_back(
          {timeline.time[k], timeline.released[k] - (k == 0 ? 0 : timeline.released[k - 1])});
    s.decode.push_back(decode);
  }
  const WaitingCalls& calls = bench.calls();
  const std::uint32_t prefills = calls.prefillClasses();
  const std::uint32_t decodes = calls.decodeClasses();
  for (std::uint32_t slot = 0; slot < calls.size(); ++slot) {
    const WaitingCall& w = calls.at(slot);
    naive::Call c{};
    c.arrival = w.arrival;
    c.rank = w.rank;
    c.horizon = std::llround(1 / w.inverseHorizon);
    c.kv = w.kv;
    c.output = w.output;
    for (std::uint32_t h = 0; h < prefills; ++h) {
      c.prefill.push_back(static_cast<std::int64_t>(calls.prefill(slot)[h]));
      std::vector<std::int64_t> row;
      for (std::uint32_t g = 0; g < decodes; ++g)
        row.push_back(static_cast<std::int64_t>(calls.transfer(slot)[h * decodes + g]));
      c.transfer.push_back(row);
    }
    s.calls.push_back(c);
  }
  return s;
}

void naivePlans(std::uint32_t calls, std::uint32_t instances, bool tight, int repeats) {
  PlannerWorkbench bench(calls, instances, tight, 1);
  PairPlanner planner;
  std::size_t entries = 0;
  std::vector<std::int64_t> ns;
  for (int i = 0; i < repeats; ++i) {
    bench.step();
    const naive::State state = stateOf(bench);
    const auto one = rounds(1, [&] { entries = naive::plan(state, naive::Mode::kGreedy, -1).size(); });
    ns.push_back(one.front());
    if (entries != bench.plan(planner, {PlanMode::kGreedy, true, 0}).size()) fail("the planners disagree");
  }
  std::printf("{\"entries\": %zu, ", entries);
  print("ns", ns);
  std::puts("}");
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i) { return i < argc ? static_cast<std::uint32_t>(std::atoi(argv[i])) : 0u; };
  if (argc == 5 && std::strcmp(argv[1], "stepping") == 0)
    simulations(number(2), number(3), static_cast<int>(number(4)));
  else if (argc == 6 && std::strcmp(argv[1], "naive") == 0)
    naivePlans(number(2), number(3), number(4) > 0, static_cast<int>(number(5)));
  else
    return 2;
  return 0;
}
