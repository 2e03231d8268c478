// The leaping simulator against the stepping one, on traces, unified clusters and policies that the input
// describes.
#define FUZZ_TEST_SOURCE "leap_equals_step_test.cc"
#include "byte_random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3 || size > 4096) return -1;
  fuzz::Input::current().set(data + 3, size - 3);
  Shape shape;
  shape.caching = (data[2] & 1) != 0;
  shape.errors = (data[2] & 2) != 0;
  shape.rejections = (data[2] & 4) != 0;
  shape.modes = (data[2] & 8) != 0;
  Tally tally;
  const std::string difference = compare(randomScenario(data[0] + 256u * data[1], shape), &tally);
  fuzz::require(difference.empty(), difference);
  return 0;
}
