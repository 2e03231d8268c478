// The prefix caches of all instances: which instance still holds how much of which workflow's prefix.
//
// Assumes one prefix per workflow: the tokens it has sent and received so far, in order. A call says how many
// of its first tokens repeat it (the trace's cachedTokens); siblings of a tree are not told apart, the call's
// own number bounds what it may reuse.
//
// Procedure. Everything counts in whole blocks of 16 tokens. An instance keeps one line of prefixes, the most
// recently used first; the first tier holds the first blocks of the line, the next tier those that follow,
// and what reaches beyond the last tier is lost. So a prefix that must give way loses its end first, and what
// remains is always its beginning.
//   touch   at the end of a call's prefill (its prompt) and at its finish (prompt + output): the prefix moves
//           to the front and is max(what is held, that length) long
//   find    at the lease: min(held, asked); what lies in a slower tier costs its tokens x that tier's time
//           per token, rounded once. A tier is left out, with those below it, unless load + prefill of the
//           rest is shorter with it. It changes no recency.
// Nothing is pinned: a running call has its whole context in the KV cache proper, so the line may drop its
// prefix meanwhile; the call keeps what it found at its lease.
//
// Ties: none. Uses of one instance are totally ordered by the driver's order of events (prefill ends,
// finishes in the order of joining), so recency is a total order. Equally fast with and without a slower
// tier: without.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/fixed.h"
#include "base/ids.h"
#include "base/time.h"
#include "model/latency.h"

namespace laxity {

inline constexpr std::uint32_t kPrefixBlock = 16;

struct CacheTier {
  std::int64_t tokens = 0;  ///< capacity, 0 .. kMaxKvTokens; whole blocks of it are used
  Fine perToken = 0;        ///< time to load one token into the first tier, which has 0
};

/// What a call may reuse of a shared prefix: whole blocks, and at least one block's worth of its prompt is
/// computed anew (policies 6.6).
constexpr std::uint32_t reusableTokens(std::uint32_t shared, std::uint32_t prompt) {
  const std::uint32_t most = prompt > kPrefixBlock ? prompt - kPrefixBlock : 0;
  return std::min(shared, most) / kPrefixBlock * kPrefixBlock;
}

struct FoundPrefix {
  std::uint32_t tokens = 0;
  Nanos load = 0;
};

class PrefixCache {
 public:
  /// Empties everything. `instances`: the tiers of each, the fastest first.
  void reset(std::uint32_t workflows, const std::vector<std::vector<CacheTier>>& instances);

  /// What a prefill of `prompt` tokens on `instance`, of that latency, reuses of their first `tokens`.
  FoundPrefix find(std::uint32_t instance, std::uint32_t workflow, std::uint32_t tokens, std::uint32_t prompt,
                   const LatencyModel& latency) const {
    const std::uint32_t e = entryOf(instance, workflow);
    return e == kNoSlot ? FoundPrefix{} : findIn(e, tokens, prompt, latency);
  }

  void touch(std::uint32_t instance, std::uint32_t workflow, std::uint32_t tokens);

  /// visit(instance, found) for every instance that holds some of it, in no meaningful order;
  /// `latencyOf(instance)` as for find.
  template <class LatencyOf, class Visit>
  void eachHolder(std::uint32_t workflow, std::uint32_t tokens, std::uint32_t prompt, LatencyOf&& latencyOf,
                  Visit&& visit) const {
    for (std::uint32_t e = firstHolder_[workflow]; e != kNoSlot; e = entries_[e].nextHolder) {
      const FoundPrefix found = findIn(e, tokens, prompt, latencyOf(entries_[e].instance));
      if (found.tokens > 0) visit(entries_[e].instance, found);
    }
  }

  /// Recomputes all sums. O(everything); for tests and checked runs.
  bool consistent() const;

 private:
  struct Entry {
    std::uint32_t instance;
    std::uint32_t workflow;
    std::uint32_t newer;  ///< neighbours on the line
    std::uint32_t older;
    std::uint32_t nextHolder;  ///< of the same workflow; also the list of free entries
  };
  struct Line {
    std::uint32_t newest;
    std::uint32_t oldest;
    std::uint32_t firstTier;
    std::uint32_t tiers;
  };
  struct Tier {
    std::int64_t capacity;  ///< blocks
    std::int64_t used;
    std::uint32_t last;  ///< the oldest prefix with blocks here
    Fine perToken;
  };

  std::int64_t& held(std::uint32_t e, std::uint32_t tier) { return held_[std::size_t{e} * stride_ + tier]; }
  std::int64_t held(std::uint32_t e, std::uint32_t tier) const {
    return held_[std::size_t{e} * stride_ + tier];
  }
  std::int64_t lengthOf(std::uint32_t e) const;
  FoundPrefix findIn(std::uint32_t e, std::uint32_t tokens, std::uint32_t prompt,
                     const LatencyModel& latency) const;
  std::uint32_t entryOf(std::uint32_t instance, std::uint32_t workflow) const;
  std::uint32_t create(std::uint32_t instance, std::uint32_t workflow);
  void unlink(std::uint32_t e);
  void drop(std::uint32_t e);
  void shift(Line& line);

  std::uint32_t stride_ = 1;  ///< the most tiers of any instance
  std::vector<Line> lines_;
  std::vector<Tier> tiers_;
  std::vector<Entry> entries_;
  std::vector<std::int64_t> held_;  ///< [entry][tier], blocks
  std::vector<std::uint32_t> firstHolder_;
  std::uint32_t freeEntry_ = kNoSlot;
};

}  // namespace laxity
