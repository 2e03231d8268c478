// Where each leased call of a prefill-decode cluster is, and its KV: what only the driver knows (CONTRACT 2).
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace laxity {

/// Of the KV of a call's prompt.
enum class PairKv : std::uint8_t {
  kNone,     ///< no lease
  kPending,  ///< leased; the prefill has not ended
  kHeld,     ///< on p
  kMoving,   ///< on its way, still on p
  kThere,    ///< on d, or beside it
};

/// Of a call on d.
enum class PairRoom : std::uint8_t {
  kNone,
  kAsked,
  kGiven,
  kJoined,  ///< it decodes, or was evicted and waits in the engine unseen
};

struct PairLegs {
  PairKv kv = PairKv::kNone;
  PairRoom room = PairRoom::kNone;
  std::uint32_t p = kNoSlot;
  std::uint32_t d = kNoSlot;
  std::uint32_t promptTokens = 0;  ///< of this attempt: the KV that moves
  std::uint32_t outputTokens = 0;  ///< true tokens still to emit, the first included
  std::uint32_t expectedTokens = 0;
  std::int64_t need = 0;  ///< tokens to reserve on d
};

class PairTruth {
 public:
  PairLegs& lease(std::uint32_t slot) {
    if (slot >= calls_.size()) calls_.resize(slot + std::size_t{1});
    calls_[slot] = PairLegs{};
    calls_[slot].kv = PairKv::kPending;
    ++leased_;
    return calls_[slot];
  }
  void end(std::uint32_t slot) {
    calls_[slot] = PairLegs{};
    --leased_;
  }
  PairLegs& at(std::uint32_t slot) { return calls_[slot]; }
  const std::vector<PairLegs>& calls() const { return calls_; }
  std::size_t leased() const { return leased_; }

 private:
  std::vector<PairLegs> calls_;  ///< by the call's slot
  std::size_t leased_ = 0;
};

}  // namespace laxity
