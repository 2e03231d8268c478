// A fuzzer's input in the place of random numbers: the generators of the native tests, steered byte by byte.
//
// A target defines FUZZ_TEST_SOURCE, includes this file, and gets the helpers of that test file with every
// `Random` in it drawing from the input; its test cases are compiled out. So the differential tests and their
// fuzz targets cannot drift apart. Behind the last byte the draws go on from the seed the test gave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/random.h"

namespace fuzz {

class Input {
 public:
  static Input& current() {
    static Input input;
    return input;
  }
  void set(const std::uint8_t* data, std::size_t size) {
    data_ = data;
    size_ = size;
  }
  std::size_t left() const { return size_; }
  bool take(std::size_t bytes, std::uint64_t* out) {
    if (size_ < bytes) {
      size_ = 0;
      return false;
    }
    *out = 0;
    for (std::size_t i = 0; i < bytes; ++i) *out |= std::uint64_t{data_[i]} << (8 * i);
    data_ += bytes;
    size_ -= bytes;
    return true;
  }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

class ByteRandom : public laxity::Random {
 public:
  using laxity::Random::Random;
  std::uint64_t next() {
    std::uint64_t v = 0;
    return Input::current().take(8, &v) ? v : laxity::Random::next();
  }
  std::uint32_t below(std::uint32_t n) {
    std::uint64_t v = 0;
    const std::size_t bytes = n <= 0x100 ? 1 : n <= 0x10000 ? 2 : 4;
    return n > 1 && Input::current().take(bytes, &v) ? static_cast<std::uint32_t>(v % n)
                                                     : laxity::Random::below(n);
  }
  double uniform() {
    std::uint64_t v = 0;
    return Input::current().take(2, &v) ? static_cast<double>(v) * 0x1p-16 : laxity::Random::uniform();
  }
};

/// Ends the process, so that every fuzzer keeps the input.
inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

}  // namespace fuzz

// Test cases become templates that nobody instantiates; what their helpers require must still happen.
#define DOCTEST_CONFIG_DISABLE
#include <doctest/doctest.h>
#undef REQUIRE
#undef CHECK
#define REQUIRE(...) fuzz::require(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__)
#define CHECK(...) REQUIRE(__VA_ARGS__)

namespace laxity {
using fuzz::ByteRandom;
}
#ifdef FUZZ_TEST_SOURCE
#define Random ByteRandom
#include FUZZ_TEST_SOURCE
#undef Random
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
