#include "planner/projection.h"

#include <algorithm>
#include <cstring>

namespace laxity {

void DecodeProjection::begin(const DecodePool& pool, Nanos t, std::uint32_t steps) {
  pool_ = &pool;
  t_ = t;
  const std::uint32_t n = static_cast<std::uint32_t>(pool.size());
  state_.resize(n);
  if (own_.size() < n) own_.resize(n);
  planned_.clear();
  planned_.reserve(steps);
  for (std::uint32_t i = 0; i < n; ++i) {
    const DecodeInstance& d = pool.at(i);
    State& s = state_[i];
    s.capacity = d.capacity;
    s.used = d.used;
    s.context = d.context;
    s.batch = d.batch;
    s.hardwareClass = d.hardwareClass;
    s.pending = kNoSlot;
    s.present = d.known && d.present;
    s.loaded = s.own = false;
  }
  list_.clear();
  firsts_.clear();
  firsts_.push_back(0);
  for (std::uint32_t k = 0; k < pool.classes(); ++k) {
    const std::vector<DecodeCandidate>& list = pool.list(k);
    for (const DecodeCandidate& c : list) {
      state_[c.slot].position = static_cast<std::uint32_t>(list_.size());
      list_.push_back(c);
    }
    firsts_.push_back(static_cast<std::uint32_t>(list_.size()));
  }
}

void DecodeProjection::waits(std::uint32_t slot, std::span<const std::int64_t> kv, std::int64_t free,
                             double* out) {
  const ReleaseWindow& releases = window(slot);
  if (releases.overdue() || kv.size() * 8 < releases.size()) {
    for (std::size_t i = 0; i < kv.size(); ++i) out[i] = offset(releases.at(kv[i] - free));
    return;
  }
  const Timeline line = releases.timeline();
  const std::int64_t* need = kv.data();
  const std::size_t n = kv.size();
  const Nanos t = t_;
  std::size_t i = 0;
  for (std::uint32_t k = 0; k < line.size && i < n; ++k) {
    const std::int64_t room = free + line.released[k];
    if (need[i] > room) continue;
    const double wait = static_cast<double>(line.time[k] - t);
    do out[i++] = wait;
    while (i < n && need[i] <= room);
  }
  for (; i < n; ++i) out[i] = kInfinite;
}

void DecodeProjection::commit(std::uint32_t slot, std::int64_t kv, std::uint32_t sequences, Nanos finish) {
  State& d = state_[slot];
  d.used += kv;
  d.context += kv;
  d.batch += sequences;
  planned_.push_back({finish, kv, d.pending});
  d.pending = static_cast<std::uint32_t>(planned_.size()) - 1;

  const DecodeClass& hardware = pool_->hardware(d.hardwareClass);
  DecodeCandidate mine = list_[d.position];
  mine.perToken = static_cast<double>(hardware.perToken(d.batch, d.context));
  const std::uint32_t end = firsts_[d.hardwareClass + 1];
  std::uint32_t i = d.position;
  while (i + 1 < end && (list_[i + 1].perToken < mine.perToken ||
                         (list_[i + 1].perToken == mine.perToken && list_[i + 1].rank < mine.rank))) {
    list_[i] = list_[i + 1];
    state_[list_[i].slot].position = i;
    ++i;
  }
  list_[i] = mine;
  d.position = i;
}

void DecodeProjection::load(std::uint32_t slot) {
  State& d = state_[slot];
  const DecodeInstance& instance = pool_->at(slot);
  if (!d.loaded) {
    d.window.set(instance.releases.timeline(), t_, instance.releases.perIteration());
    d.loaded = true;
  }
  if (d.pending == kNoSlot) return;
  Releases& own = own_[slot];
  if (!d.own) {
    const Timeline base = instance.releases.timeline();
    own.time.assign(base.time, base.time + base.size);
    own.released.assign(base.released, base.released + base.size);
    d.own = true;
  }
  for (; d.pending != kNoSlot; d.pending = planned_[d.pending].previous) {
    const Planned call = planned_[d.pending];
    const std::size_t n = own.time.size();
    const std::size_t at = static_cast<std::size_t>(
        std::upper_bound(own.time.begin(), own.time.end(), call.finish) - own.time.begin());
    own.time.push_back(0);
    own.released.push_back(0);
    Nanos* time = own.time.data() + at;
    std::int64_t* released = own.released.data() + at;
    const std::size_t later = n - at;
    std::memmove(time + 1, time, later * sizeof *time);
    std::memmove(released + 1, released, later * sizeof *released);
    *time = call.finish;
    *released = (at > 0 ? released[-1] : 0) + call.kv;
    std::size_t i = 1;
    for (; i + 4 <= later + 1; i += 4) {
      for (std::size_t k = 0; k < 4; ++k) released[i + k] += call.kv;
    }
    for (; i < later + 1; ++i) released[i] += call.kv;
    d.window.inserted({own.time.data(), own.released.data(), static_cast<std::uint32_t>(n + 1)}, call.finish);
  }
}

}  // namespace laxity
