// Round robin over the prefill instances and, by itself, over the decode instances.
#pragma once

#include <string_view>

#include "placement/pair.h"

namespace laxity {

struct RoundRobinPair {
  static constexpr std::string_view kName = "round-robin";
  static constexpr bool kSharedQueue = false;
  static constexpr bool kPlans = false;

  std::uint32_t choosePrefill(const PairView& v) {
    return next(&prefill_, [&](auto&& visit) { v.eachPrefill(visit); });
  }
  std::uint32_t chooseDecode(const PairView& v, std::uint32_t) {
    return next(&decode_, [&](auto&& visit) { v.eachDecode(visit); });
  }

 private:
  template <class Each>
  static std::uint32_t next(std::uint64_t* counter, Each&& each) {
    std::uint64_t count = 0;
    each([&](std::uint32_t, const Instance&) { ++count; });
    std::uint64_t turn = (*counter)++ % count;
    std::uint32_t chosen = kNoSlot;
    each([&](std::uint32_t m, const Instance&) {
      if (turn-- == 0) chosen = m;
    });
    return chosen;
  }

  std::uint64_t prefill_ = 0;
  std::uint64_t decode_ = 0;
};

}  // namespace laxity
