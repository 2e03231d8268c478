// An instance's prefix cache as a plain list (simulator/prefix_cache.h): a vector in order of use, scanned
// block by block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/latency.h"
#include "simulator/prefix_cache.h"

namespace laxity {

struct NaiveLine {
  std::vector<CacheTier> tiers;
  std::vector<std::pair<std::uint32_t, std::int64_t>> line;  ///< (workflow, blocks), the latest used first

  void touch(std::uint32_t workflow, std::int64_t tokens) {
    if (tiers.empty()) return;
    std::int64_t blocks = tokens / 16;
    std::vector<std::pair<std::uint32_t, std::int64_t>> next;
    for (const auto& [w, held] : line) {
      if (w == workflow)
        blocks = std::max(blocks, held);
      else
        next.push_back({w, held});
    }
    next.insert(next.begin(), {workflow, blocks});
    std::int64_t room = 0;
    for (const CacheTier& t : tiers) room += t.tokens / 16;
    line.clear();
    for (auto [w, held] : next) {
      held = std::min(held, room);
      room -= held;
      if (held > 0) line.push_back({w, held});
    }
  }

  std::size_t tierAt(std::int64_t block) const {
    std::size_t i = 0;
    for (std::int64_t end = tiers[0].tokens / 16; block >= end; end += tiers[i].tokens / 16) ++i;
    return i;
  }

  FoundPrefix find(std::uint32_t workflow, std::uint32_t tokens, std::uint32_t prompt,
                   const LatencyModel& latency) const {
    std::int64_t before = 0;
    std::int64_t held = 0;
    for (const auto& [w, blocks] : line) {
      if (w == workflow) {
        held = blocks;
        break;
      }
      before += blocks;
    }
    const auto time = [&](const FoundPrefix& f) {
      return latency.prefill(prompt - f.tokens, f.tokens) + f.load;
    };
    FoundPrefix best;
    FoundPrefix all;
    __int128 load = 0;
    for (std::int64_t b = 0; b < held && (b + 1) * 16 <= tokens; ++b) {
      const std::size_t tier = tierAt(before + b);
      all.tokens += 16;
      load += __int128{tiers[tier].perToken} * 16;
      all.load = static_cast<Nanos>((load + (1 << 19)) >> 20);
      const bool ends = b + 1 == held || (b + 2) * 16 > tokens || tierAt(before + b + 1) != tier;
      if (!ends) continue;
      if (all.load > 0 && time(all) >= time(best)) break;
      best = all;
    }
    return best;
  }
};

}  // namespace laxity
