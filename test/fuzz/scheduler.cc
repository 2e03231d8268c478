// Sequences of events, valid and not, into the scheduler: refused ones leave no trace, the incremental
// ledgers, queues and keys equal their recomputation, everything ends at zero, the log replays.
#define FUZZ_TEST_SOURCE "scheduler_test.cc"
#include "byte_random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3 || size > 8192) return -1;
  fuzz::Input::current().set(data + 3, size - 3);
  const std::uint64_t seed = data[0] + 256u * data[1];
  const Wild wild{.newKinds = (data[2] & 1) != 0, .impossible = (data[2] & 2) != 0};
  WalkTally tally;
  const std::string problem = walk(seed, 20 + static_cast<int>(size / 8), wild, &tally);
  fuzz::require(problem.empty(), problem);
  return 0;
}
