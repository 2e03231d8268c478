// The planner, scalar and vectorised, against its naive form, on states that the input describes.
#define FUZZ_TEST_SOURCE "planner_test.cc"
#include "byte_random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return -1;
  fuzz::Input::current().set(data, size);
  fuzz::ByteRandom random(1);
  const std::uint32_t instances = 1 + random.below(12);
  const Scenario scenario = draw(random, instances, 1 + random.below(20));
  Fast fast;
  load(scenario, &fast);
  const int perInstance = static_cast<int>(random.below(4)) - 1;
  for (const auto& [mode, slow] : {std::pair{PlanMode::kGreedy, naive::Mode::kGreedy},
                                   std::pair{PlanMode::kOnePass, naive::Mode::kOnePass},
                                   std::pair{PlanMode::kByKey, naive::Mode::kByKey}}) {
    const PlanOptions options{mode, perInstance < 0,
                              perInstance < 0 ? 0 : static_cast<std::uint32_t>(perInstance)};
    const auto expected = naive::plan(scenario.state, slow, perInstance);
    for (const auto path : {PairPlanner::Path::kScalar, PairPlanner::Path::kAuto}) {
      PairPlanner planner(path);
      const auto made = planner.plan(scenario.state.t, fast.prefill, fast.decode, fast.calls, options);
      fuzz::require(same(made, expected), "the plan differs from the naive one, mode " +
                                              std::to_string(static_cast<int>(mode)) +
                                              (path == PairPlanner::Path::kAuto ? ", auto" : ", scalar"));
    }
  }
  return 0;
}
