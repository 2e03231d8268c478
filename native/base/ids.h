// A reference to a recycled slot: the generation tells one owner of the slot from the next.
#pragma once

#include <cstdint>

namespace laxity {

struct Ref {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  friend constexpr bool operator==(const Ref&, const Ref&) = default;
};

inline constexpr std::uint32_t kNoSlot = 0xffff'ffffu;

}  // namespace laxity
