// The hot paths, each as a fixed piece of work whose instructions are counted (main.js). Only `measured`
// counts: what is built before it, and a first round that lets arrays grow, does not.
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "../workloads.h"
#include "base/heap.h"
#include "base/random.h"
#include "base/tournament.h"
#include "planner/workbench.h"
#include "scheduler/workbench.h"
#include "workload/agentic.h"

using namespace laxity;

/// The counter is switched on at its entry and off at its end.
extern "C" __attribute__((noinline)) void measured(const std::function<void()>& work) { work(); }

namespace {

/// Both times the same work on a state that has settled.
void twice(const std::function<void()>& work) {
  work();
  measured(work);
}

// --- structures

void heapPath() {
  constexpr std::uint32_t kEntries = 4096;
  Random random(1);
  IndexedHeap heap;
  std::vector<std::uint32_t> at(kEntries);
  const auto moved = [&](std::uint32_t slot, std::uint32_t position) { at[slot] = position; };
  std::uint64_t rank = 0;
  for (std::uint32_t slot = 0; slot < kEntries; ++slot)
    heap.push({random.below(1'000'000), rank++, slot}, moved);
  twice([&] {
    for (int i = 0; i < 50'000; ++i) {
      const std::uint32_t slot = heap.top().slot;
      heap.removeAt(0, moved);
      heap.push({random.below(1'000'000), rank++, slot}, moved);
      heap.rekeyAt(at[random.below(kEntries)], random.below(1'000'000), moved);
    }
  });
}

void tournamentPath() {
  constexpr std::uint32_t kLeaves = 4096;
  Random random(1);
  TournamentTree tree;
  tree.resize(kLeaves);
  Nanos sum = 0;
  twice([&] {
    for (int i = 0; i < 100'000; ++i) {
      tree.set(random.below(kLeaves), random.below(1'000'000));
      sum += tree.min();
    }
  });
  if (sum == 0) fail("the tree is empty");
}

// --- planner

void planPath(std::uint32_t calls, std::uint32_t instances, bool tight, PlanMode mode, int plans) {
  PlannerWorkbench bench(calls, instances, tight, 1);
  PairPlanner planner;
  twice([&] {
    for (int i = 0; i < plans; ++i) {
      bench.step();
      bench.plan(planner, {mode, true, 0});
    }
  });
}

// --- the scheduler under load: every call done lets another in

struct Policy {
  const char* order;
  const char* placement;
  bool migrate;
};
constexpr Policy kHexgenFlow{"urgency", "workload-balanced", false};
constexpr Policy kLaxity{"ratio", "eftxp", true};

void dispatchPath(const Policy& policy, std::uint32_t instances, std::uint32_t waiting, int turns) {
  SchedulerConfig config;
  if (!makeOrder(policy.order, &config.order) || !makePlacement(policy.placement, &config.placement))
    fail("no such policy");
  config.migrate = policy.migrate;
  SchedulerWorkbench bench(std::move(config), instances, waiting, 1);
  twice([&] {
    for (int i = 0; i < turns; ++i) bench.turn();
  });
  if (bench.refused() > 0) fail("an event was refused");
}

// --- the simulator

void bfcl(std::uint32_t workflows, Workload* w) {
  AgenticSpec spec;
  spec.kind = AgenticKind::kBfcl;
  spec.workflows = workflows;
  spec.seed = 1;
  GeneratedSizes sizes;
  if (!ok(agenticSizes(spec, &sizes))) fail("workload");
  agenticFill(spec, w->sized(workflows, sizes));
  w->bind();
}

void simulatePath(const Workload& workload, const ClusterSpec& cluster, RunOptions options) {
  options.arrivals.seed = 1;
  Workspace workspace;
  twice([&] {
    RunResult result;
    if (!ok(simulate(workload.trace, cluster, options, {}, &result, &workspace)) || result.completed == 0)
      fail("the simulation fails");
  });
}

void unifiedPath(const Policy& policy, EngineMode mode) {
  Workload workload;
  chess(110, &workload);
  const ClusterSpec cluster = unified(4, mode);
  RunOptions options;
  if (!makeOrder(policy.order, &options.order) || !makePlacement(policy.placement, &options.placement))
    fail("no such policy");
  options.migrate = policy.migrate;
  options.knowledge = Knowledge::kOnline;
  options.sloBase = SloBase::kExclusive;
  options.arrivals.rate = 0.5;
  simulatePath(workload, cluster, options);
}

void pairsPath() {
  Workload workload;
  bfcl(150, &workload);
  ClusterSpec cluster;
  cluster.latencies = {constants(0.165, 25.6), constants(0.06, 12.1)};
  for (const Role role : {Role::kPrefill, Role::kDecode})
    for (std::uint32_t i = 0; i < 8; ++i) {
      InstanceSpec spec;
      spec.role = role;
      spec.latency = static_cast<std::uint16_t>(i % 2);
      spec.maxSequences = 256;
      spec.kvTokens = 200'000;
      cluster.instances.push_back(spec);
    }
  RunOptions options;
  if (!makeOrder("ratio", &options.order) || !makePairPlacement("earliest-finish", &options.pairPlacement))
    fail("no such policy");
  options.knowledge = Knowledge::kOnline;
  options.sloBase = SloBase::kHorizon;
  options.arrivals.rate = 5;
  simulatePath(workload, cluster, options);
}

struct HotPath {
  const char* suite;  ///< of npm run bench: where the same path is timed
  const char* name;
  void (*run)();
};

constexpr HotPath kHotPaths[] = {
    {"structures", "heap", heapPath},
    {"structures", "tournament", tournamentPath},
    {"planner", "plan-greedy-light", [] { planPath(128, 8, false, PlanMode::kGreedy, 30); }},
    {"planner", "plan-greedy-tight", [] { planPath(128, 8, true, PlanMode::kGreedy, 30); }},
    {"planner", "plan-onepass", [] { planPath(512, 16, true, PlanMode::kOnePass, 30); }},
    {"dispatch", "dispatch-64", [] { dispatchPath(kHexgenFlow, 64, 2000, 5000); }},
    {"dispatch", "dispatch-1024", [] { dispatchPath(kHexgenFlow, 1024, 2000, 5000); }},
    {"dispatch", "dispatch-laxity", [] { dispatchPath(kLaxity, 64, 2000, 2000); }},
    {"sweep", "simulate-hexgen-flow", [] { unifiedPath(kHexgenFlow, EngineMode::kPrefillFirst); }},
    {"sweep", "simulate-chunked", [] { unifiedPath(kHexgenFlow, EngineMode::kChunked); }},
    {"simulator", "simulate-laxity", [] { unifiedPath(kLaxity, EngineMode::kPrefillFirst); }},
    {"pairs", "simulate-hexagent", pairsPath},
};

}  // namespace

int main(int argc, char** argv) {
  for (const HotPath& path : kHotPaths) {
    if (argc < 2) {
      std::printf("%s %s\n", path.suite, path.name);
    } else if (std::strcmp(argv[1], path.name) == 0) {
      path.run();
      return 0;
    }
  }
  return argc < 2 ? 0 : 2;
}
