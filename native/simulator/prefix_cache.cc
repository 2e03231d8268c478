#include "simulator/prefix_cache.h"

namespace laxity {

void PrefixCache::reset(std::uint32_t workflows, const std::vector<std::vector<CacheTier>>& instances) {
  stride_ = 1;
  lines_.clear();
  tiers_.clear();
  entries_.clear();
  held_.clear();
  firstHolder_.assign(workflows, kNoSlot);
  freeEntry_ = kNoSlot;
  for (const std::vector<CacheTier>& tiers : instances) {
    const auto count = static_cast<std::uint32_t>(tiers.size());
    stride_ = std::max(stride_, count);
    lines_.push_back({kNoSlot, kNoSlot, static_cast<std::uint32_t>(tiers_.size()), count});
    for (const CacheTier& t : tiers) tiers_.push_back({t.tokens / kPrefixBlock, 0, kNoSlot, t.perToken});
  }
}

std::int64_t PrefixCache::lengthOf(std::uint32_t e) const {
  std::int64_t blocks = 0;
  for (std::uint32_t i = 0; i < stride_; ++i) blocks += held(e, i);
  return blocks;
}

std::uint32_t PrefixCache::entryOf(std::uint32_t instance, std::uint32_t workflow) const {
  std::uint32_t e = firstHolder_[workflow];
  while (e != kNoSlot && entries_[e].instance != instance) e = entries_[e].nextHolder;
  return e;
}

/// Its beginning lies in the fastest tier that holds any of it.
FoundPrefix PrefixCache::findIn(std::uint32_t e, std::uint32_t tokens, std::uint32_t prompt,
                                const LatencyModel& latency) const {
  const Line& line = lines_[entries_[e].instance];
  std::int64_t left = tokens / kPrefixBlock;
  FoundPrefix found;
  FoundPrefix best;
  FineSum load = 0;
  const auto time = [&](const FoundPrefix& f) {
    return latency.prefill(prompt - f.tokens, f.tokens) + f.load;
  };
  for (std::uint32_t i = 0; i < line.tiers && left > 0; ++i) {
    const std::int64_t blocks = std::min(left, held(e, i));
    if (blocks == 0) continue;
    left -= blocks;
    found.tokens += static_cast<std::uint32_t>(blocks * kPrefixBlock);
    load += FineSum{tiers_[line.firstTier + i].perToken} * blocks * kPrefixBlock;
    found.load = roundFine(load);
    if (found.load > 0 && time(found) >= time(best)) break;
    best = found;
  }
  return best;
}

void PrefixCache::touch(std::uint32_t instance, std::uint32_t workflow, std::uint32_t tokens) {
  Line& line = lines_[instance];
  if (line.tiers == 0) return;
  std::uint32_t e = entryOf(instance, workflow);
  std::int64_t blocks = tokens / kPrefixBlock;
  if (e != kNoSlot) {
    blocks = std::max(blocks, lengthOf(e));
    unlink(e);
  } else if (blocks == 0) {
    return;
  } else {
    e = create(instance, workflow);
  }
  entries_[e].newer = kNoSlot;
  entries_[e].older = line.newest;
  if (line.newest != kNoSlot)
    entries_[line.newest].newer = e;
  else
    line.oldest = e;
  line.newest = e;
  Tier& first = tiers_[line.firstTier];
  held(e, 0) = blocks;
  first.used += blocks;
  if (first.last == kNoSlot) first.last = e;
  shift(line);
}

/// Blocks beyond a tier's capacity move on, the oldest prefix's last ones first. A tier's blocks are
/// consecutive on the line, so the neighbour of an emptied `last` is the next, where any are left.
void PrefixCache::shift(Line& line) {
  for (std::uint32_t i = 0; i < line.tiers; ++i) {
    Tier& tier = tiers_[line.firstTier + i];
    while (tier.used > tier.capacity) {
      const std::uint32_t e = tier.last;
      const std::int64_t blocks = std::min(held(e, i), tier.used - tier.capacity);
      held(e, i) -= blocks;
      tier.used -= blocks;
      if (held(e, i) == 0) tier.last = tier.used > 0 ? entries_[e].newer : kNoSlot;
      if (i + 1 < line.tiers) {
        Tier& next = tiers_[line.firstTier + i + 1];
        held(e, i + 1) += blocks;
        next.used += blocks;
        if (next.last == kNoSlot) next.last = e;
      } else if (lengthOf(e) == 0) {
        unlink(e);
        drop(e);
      }
    }
  }
}

std::uint32_t PrefixCache::create(std::uint32_t instance, std::uint32_t workflow) {
  std::uint32_t e = freeEntry_;
  if (e == kNoSlot) {
    e = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
    held_.resize(held_.size() + stride_, 0);
  } else {
    freeEntry_ = entries_[e].nextHolder;
  }
  entries_[e] = {instance, workflow, kNoSlot, kNoSlot, firstHolder_[workflow]};
  firstHolder_[workflow] = e;
  return e;
}

/// Takes a prefix off its line, with its blocks.
void PrefixCache::unlink(std::uint32_t e) {
  const Entry& entry = entries_[e];
  Line& line = lines_[entry.instance];
  for (std::uint32_t i = 0; i < line.tiers; ++i) {
    Tier& tier = tiers_[line.firstTier + i];
    tier.used -= held(e, i);
    held(e, i) = 0;
    if (tier.last == e) tier.last = tier.used > 0 ? entry.newer : kNoSlot;
  }
  if (entry.newer != kNoSlot)
    entries_[entry.newer].older = entry.older;
  else
    line.newest = entry.older;
  if (entry.older != kNoSlot)
    entries_[entry.older].newer = entry.newer;
  else
    line.oldest = entry.newer;
}

void PrefixCache::drop(std::uint32_t e) {
  std::uint32_t* link = &firstHolder_[entries_[e].workflow];
  while (*link != e) link = &entries_[*link].nextHolder;
  *link = entries_[e].nextHolder;
  entries_[e].nextHolder = freeEntry_;
  freeEntry_ = e;
}

bool PrefixCache::consistent() const {
  for (const Line& line : lines_) {
    std::vector<std::int64_t> used(line.tiers, 0);
    std::vector<std::uint32_t> last(line.tiers, kNoSlot);
    std::uint32_t before = kNoSlot;
    for (std::uint32_t e = line.newest; e != kNoSlot; e = entries_[e].older) {
      if (entries_[e].newer != before || lengthOf(e) == 0) return false;
      if (entryOf(entries_[e].instance, entries_[e].workflow) != e) return false;
      before = e;
      for (std::uint32_t i = 0; i < line.tiers; ++i) {
        if (held(e, i) < 0) return false;
        if (held(e, i) == 0) continue;
        used[i] += held(e, i);
        last[i] = e;
      }
    }
    if (before != line.oldest) return false;
    for (std::uint32_t i = 0; i < line.tiers; ++i) {
      const Tier& tier = tiers_[line.firstTier + i];
      if (used[i] != tier.used || used[i] > tier.capacity || last[i] != tier.last) return false;
      // Dense: nothing lies further down while there is room above.
      if (i > 0 && used[i] > 0 && used[i - 1] < tiers_[line.firstTier + i - 1].capacity) return false;
    }
  }
  return true;
}

}  // namespace laxity
