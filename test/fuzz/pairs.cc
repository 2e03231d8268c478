// The same on prefill-decode clusters.
#define FUZZ_TEST_SOURCE "pair_simulation_test.cc"
#include "byte_random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 4096) return -1;
  fuzz::Input::current().set(data + 2, size - 2);
  const Scenario scenario = randomScenario(data[0] + 256u * data[1]);
  Tally tally;
  const std::string difference = compare(scenario, &tally);
  fuzz::require(difference.empty(), difference + "; " + describe(scenario));
  return 0;
}
