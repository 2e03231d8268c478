// What worker threads do: each has traces, simulators and schedulers of its own; they share the code, the
// columns they copied from, and the two numbers of `control`. Meant for TSan (scripts/sanitize.sh), a test
// anywhere.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "generated_trace.h"
#include "order/registry.h"
#include "placement/registry.h"
#include "simulator/simulation.h"
#include "workload/chess.h"

using namespace laxity;

namespace {

GeneratedTrace chess(const ChessSpec& spec) {
  GeneratedTrace trace;
  chessFill(spec, trace.sized(spec.workflows, chessSizes(spec)));
  return trace;
}

ClusterSpec fourInstances() {
  ClusterSpec cluster;
  cluster.latencies.resize(2);
  REQUIRE(ok(LatencyModel::constants({0, 0.2, 20, 0.5, 0.0001}, &cluster.latencies[0])));
  REQUIRE(ok(LatencyModel::constants({0, 0.4, 35, 0.8, 0.0002}, &cluster.latencies[1])));
  for (std::uint16_t m = 0; m < 4; ++m) {
    InstanceSpec spec;
    spec.latency = m % 2;
    spec.maxSequences = 16;
    spec.kvTokens = 200'000;
    cluster.instances.push_back(spec);
  }
  return cluster;
}

RunOptions optionsOf(std::size_t n) {
  RunOptions o;
  REQUIRE(makeOrder(orderNames()[n % orderNames().size()], &o.order));
  REQUIRE(makePlacement(placementNames()[n % placementNames().size()], &o.placement));
  o.arrivals.rate = 2;
  o.sloBase = SloBase::kExclusive;
  return o;
}

constexpr std::size_t kThreads = 4;

}  // namespace

TEST_SUITE("threads") {
  TEST_CASE("the same runs side by side over the same columns") {
    const GeneratedTrace columns = chess({40, 1, 7});
    const ClusterSpec cluster = fourInstances();
    std::vector<double> alone(24);
    const auto meanOf = [&](const Trace& trace, std::size_t n, Workspace* workspace) {
      RunResult result;
      const Status status = simulate(trace, cluster, optionsOf(n), {}, &result, workspace);
      return ok(status) ? result.meanMs : -1;
    };
    Trace trace;
    REQUIRE(ok(trace.bind(columns.columns())));
    Workspace workspace;
    for (std::size_t n = 0; n < alone.size(); ++n) alone[n] = meanOf(trace, n, &workspace);
    std::vector<std::vector<double>> seen(kThreads, std::vector<double>(alone.size()));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Trace own;
        own.bind(columns.columns());
        Workspace memory;
        for (std::size_t n = 0; n < alone.size(); ++n) seen[i][n] = meanOf(own, n, &memory);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<double>& means : seen) CHECK(means == alone);
  }

  TEST_CASE("a run is watched and stopped from another thread") {
    const GeneratedTrace columns = chess({4000, 1, 7});
    Trace trace;
    REQUIRE(ok(trace.bind(columns.columns())));
    std::int32_t control[2] = {0, 0};
    std::atomic<int> status = -1;
    std::thread runner([&] {
      RunOutputs out;
      out.control = control;
      RunResult result;
      status = static_cast<int>(simulate(trace, fourInstances(), optionsOf(0), out, &result));
    });
    while (std::atomic_ref(control[1]).load() < 5) std::this_thread::yield();
    std::atomic_ref(control[0]).store(1);
    runner.join();
    CHECK(status == static_cast<int>(Status::kCancelled));
    CHECK(control[1] < 4000);
  }
}
