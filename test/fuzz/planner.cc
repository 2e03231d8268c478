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
  fuzz::require(fast.refused == 0, "a state was refused");
  const int perInstance = static_cast<int>(random.below(4)) - 1;
  for (const auto mode : {naive::Mode::kGreedy, naive::Mode::kOnePass, naive::Mode::kByKey}) {
    const PlanOptions options{mode == naive::Mode::kOnePass ? PlanMode::kOnePass : PlanMode::kGreedy,
                              perInstance < 0, static_cast<std::uint32_t>(std::max(0, perInstance))};
    const auto expected = naive::plan(scenario.state, mode, perInstance);
    for (const auto path : {PairPlanner::Path::kScalar, PairPlanner::Path::kVector}) {
      PairPlanner planner(path);
      const auto made =
          mode == naive::Mode::kByKey
              ? planner.plan(scenario.state.t, fast.prefill, fast.decode, fast.calls, options, KeyOrder{})
              : planner.plan(scenario.state.t, fast.prefill, fast.decode, fast.calls, options);
      fuzz::require(same(made, expected),
                    "the plan differs from the naive one, mode " + std::to_string(static_cast<int>(mode)));
    }
  }
  return 0;
}
