// What the measurements run on: a workbench that changes would be taken for a change of what it measures.
#include "planner/workbench.h"

#include <doctest/doctest.h>

#include <bit>
#include <utility>

#include "scheduler/workbench.h"

using namespace laxity;

namespace {

/// FNV-1a over 64-bit words.
struct Digest {
  std::uint64_t value = 0xcbf29ce484222325u;
  void add(std::uint64_t word) { value = (value ^ word) * 0x100000001b3u; }
};

}  // namespace

TEST_SUITE("workbenches") {
  TEST_CASE("a planner's workbench makes the same states everywhere") {
    Digest digest;
    for (const bool tight : {false, true}) {
      PlannerWorkbench bench(96, 7, tight, 1);
      PairPlanner planner;
      CHECK(bench.calls().size() == 96);
      std::size_t planned = 0;
      for (int i = 0; i < 40; ++i) {
        bench.step();
        CHECK(bench.calls().size() == 96);
        for (const PlanEntry& e : bench.plan(planner, {PlanMode::kGreedy, true, 0})) {
          ++planned;
          digest.add(e.call);
          digest.add(e.prefill);
          digest.add(e.decode);
          digest.add(static_cast<std::uint64_t>(e.prefillEnd - bench.now()));
          digest.add(static_cast<std::uint64_t>(e.ready));
          digest.add(static_cast<std::uint64_t>(e.finish));
          digest.add(std::bit_cast<std::uint64_t>(e.ratio));
        }
      }
      CHECK(planned > 40);
    }
    CHECK(digest.value == 6008084974767534014u);
  }

  TEST_CASE("a scheduler's workbench lets a call in for each that ends, and is refused nothing") {
    struct Case {
      const char* order;
      const char* placement;
      bool migrate;
      std::uint32_t waiting;
      std::uint64_t leases;
    };
    // With 2,000 calls KV is short for those that wait: positions in queues count.
    for (const auto& [order, placement, migrate, waiting, leases] :
         {Case{"urgency", "workload-balanced", false, 16, 408}, Case{"ratio", "eftxp", false, 16, 407},
          Case{"ratio", "eftxp", true, 2000, 408}}) {
      SchedulerConfig config;
      REQUIRE(makeOrder(order, &config.order));
      REQUIRE(makePlacement(placement, &config.placement));
      config.migrate = migrate;
      SchedulerWorkbench bench(std::move(config), 4, waiting, 1);
      for (int i = 0; i < 400; ++i) bench.turn();
      CHECK(bench.leases() == leases);
      CHECK(bench.refused() == 0);
    }
  }
}
