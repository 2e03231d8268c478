#include "planner/pools.h"

#include <algorithm>
#include <limits>

namespace laxity {
namespace {

/// Gives every known instance its rank by (tie, slot).
template <class Instance>
void rankAll(std::vector<Instance>& instances, std::vector<std::uint32_t>& byRank) {
  byRank.clear();
  for (std::uint32_t i = 0; i < instances.size(); ++i) {
    if (instances[i].known) byRank.push_back(i);
  }
  std::sort(byRank.begin(), byRank.end(), [&](std::uint32_t a, std::uint32_t b) {
    return instances[a].tie != instances[b].tie ? instances[a].tie < instances[b].tie : a < b;
  });
  for (std::uint32_t r = 0; r < byRank.size(); ++r) instances[byRank[r]].rank = r;
}

template <class Instance>
Status place(std::vector<Instance>& instances, std::uint32_t slot, std::uint32_t hardwareClass,
             std::size_t classes) {
  if (hardwareClass >= classes) return Status::kBadValue;
  if (slot >= kMaxInstances) return Status::kTooManyInstances;
  if (slot > instances.size()) return Status::kSlotOutOfRange;
  if (slot == instances.size()) instances.emplace_back();
  return instances[slot].known && instances[slot].present ? Status::kSlotInUse : Status::kOk;
}

}  // namespace

// --- prefill

Status PrefillPool::configure(std::uint32_t classes) {
  if (classes == 0 || classes > kMaxPlannerClasses) return Status::kBadValue;
  instances_.clear();
  members_.assign(classes, {});
  index();
  return Status::kOk;
}

Status PrefillPool::add(std::uint32_t slot, std::uint32_t hardwareClass, std::uint64_t tie) {
  const Status placed = place(instances_, slot, hardwareClass, members_.size());
  if (!ok(placed)) return placed;
  PrefillInstance& p = instances_[slot];
  p = {};
  p.hardwareClass = hardwareClass;
  p.tie = tie;
  p.known = p.present = true;
  index();
  return Status::kOk;
}

Status PrefillPool::setPresent(std::uint32_t slot, bool present) {
  if (!knows(slot)) return Status::kUnknownInstance;
  instances_[slot].present = present;
  index();
  return Status::kOk;
}

Status PrefillPool::setReady(std::uint32_t slot, Nanos ready) {
  if (!knows(slot)) return Status::kUnknownInstance;
  if (ready < 0 || ready > kMaxTime) return Status::kBadTime;
  instances_[slot].ready = ready;
  return Status::kOk;
}

Status PrefillPool::setOpen(std::uint32_t slot, bool open) {
  if (!knows(slot)) return Status::kUnknownInstance;
  PrefillInstance& p = instances_[slot];
  if (p.present && p.open != open) open_ += open ? 1 : static_cast<std::uint32_t>(-1);
  p.open = open;
  return Status::kOk;
}

Status PrefillPool::revise(std::uint32_t slot) {
  if (!knows(slot)) return Status::kUnknownInstance;
  ++instances_[slot].revision;
  return Status::kOk;
}

void PrefillPool::index() {
  rankAll(instances_, byRank_);
  present_ = 0;
  open_ = 0;
  for (std::vector<std::uint32_t>& members : members_) members.clear();
  for (const std::uint32_t slot : byRank_) {
    const PrefillInstance& p = instances_[slot];
    if (!p.present) continue;
    members_[p.hardwareClass].push_back(slot);
    ++present_;
    if (p.open) ++open_;
  }
}

// --- decode

Status DecodePool::configure(std::span<const DecodeClass> classes) {
  if (classes.empty() || classes.size() > kMaxPlannerClasses) return Status::kBadValue;
  for (const DecodeClass& k : classes) {
    if (k.base < 0 || k.perSequence < 0 || k.perContext < 0) return Status::kBadValue;
  }
  instances_.clear();
  held_.clear();
  classes_.assign(classes.begin(), classes.end());
  prices_.assign(classes.size(), 0);
  lists_.assign(classes.size(), {});
  index();
  return Status::kOk;
}

Status DecodePool::add(std::uint32_t slot, std::uint32_t hardwareClass, std::int64_t capacity,
                       std::uint64_t tie) {
  if (capacity < 1 || capacity > kMaxKvTokens) return Status::kBadTokens;
  const Status placed = place(instances_, slot, hardwareClass, classes_.size());
  if (!ok(placed)) return placed;
  DecodeInstance& d = instances_[slot];
  if (d.releases.size() > 0) return Status::kSlotInUse;
  d = {};
  d.hardwareClass = hardwareClass;
  d.tie = tie;
  d.capacity = capacity;
  d.perToken = classes_[hardwareClass].perToken(0, 0);
  d.known = d.present = true;
  index();
  return Status::kOk;
}

Status DecodePool::setPresent(std::uint32_t slot, bool present) {
  if (!knows(slot)) return Status::kUnknownInstance;
  instances_[slot].present = present;
  index();
  return Status::kOk;
}

Status DecodePool::setCapacity(std::uint32_t slot, std::int64_t capacity) {
  if (!knows(slot)) return Status::kUnknownInstance;
  if (capacity < 1 || capacity > kMaxKvTokens) return Status::kBadTokens;
  instances_[slot].capacity = capacity;
  return Status::kOk;
}

Status DecodePool::setPrice(std::uint32_t hardwareClass, double perToken) {
  if (hardwareClass >= prices_.size() || !(perToken >= 0 && perToken <= std::numeric_limits<double>::max()))
    return Status::kBadValue;
  prices_[hardwareClass] = perToken;
  return Status::kOk;
}

Status DecodePool::setClock(std::uint32_t slot, Nanos at, std::int64_t iteration, Nanos perIteration) {
  if (!knows(slot)) return Status::kUnknownInstance;
  if (at < 0 || at > kMaxTime || perIteration < 1 || perIteration > kMaxTime) return Status::kBadTime;
  if (iteration < 0 || iteration > kMaxTime) return Status::kBadValue;
  instances_[slot].releases.setClock(at, iteration, perIteration);
  return Status::kOk;
}

Status DecodePool::revise(std::uint32_t slot) {
  if (!knows(slot)) return Status::kUnknownInstance;
  ++instances_[slot].revision;
  return Status::kOk;
}

Status DecodePool::reserve(std::uint32_t id, std::uint32_t slot, std::int64_t kv, std::int64_t context,
                           std::uint32_t sequences, Nanos finish) {
  if (!knows(slot)) return Status::kUnknownInstance;
  if (holds(id)) return Status::kSlotInUse;
  if (kv < 1 || kv > kMaxKvTokens || context < 0 || context > kMaxKvTokens) return Status::kBadTokens;
  if (finish < 0 || finish > kMaxTime) return Status::kBadTime;
  if (id >= held_.size()) held_.resize(std::size_t{id} + 1);
  held_[id] = {slot, sequences, kv, context, finish, false};
  DecodeInstance& d = instances_[slot];
  d.used += kv;
  d.context += context;
  d.batch += sequences;
  enlist(id);
  reprice(slot);
  return Status::kOk;
}

Status DecodePool::run(std::uint32_t id, std::int64_t iteration) {
  if (!holds(id)) return Status::kUnknownCall;
  if (iteration < 0 || iteration > kMaxTime) return Status::kBadValue;
  delist(id);
  held_[id].running = true;
  held_[id].key = iteration;
  enlist(id);
  return Status::kOk;
}

Status DecodePool::expect(std::uint32_t id, Nanos finish) {
  if (!holds(id)) return Status::kUnknownCall;
  if (held_[id].running) return Status::kBadState;
  if (finish < 0 || finish > kMaxTime) return Status::kBadTime;
  delist(id);
  held_[id].key = finish;
  enlist(id);
  return Status::kOk;
}

Status DecodePool::resize(std::uint32_t id, std::int64_t kv, std::int64_t context) {
  if (!holds(id)) return Status::kUnknownCall;
  if (kv < 1 || kv > kMaxKvTokens || context < 0 || context > kMaxKvTokens) return Status::kBadTokens;
  Held& h = held_[id];
  delist(id);
  DecodeInstance& d = instances_[h.slot];
  d.used += kv - h.kv;
  d.context += context - h.context;
  h.kv = kv;
  h.context = context;
  enlist(id);
  reprice(h.slot);
  return Status::kOk;
}

Status DecodePool::release(std::uint32_t id) {
  if (!holds(id)) return Status::kUnknownCall;
  delist(id);
  Held& h = held_[id];
  DecodeInstance& d = instances_[h.slot];
  d.used -= h.kv;
  d.context -= h.context;
  d.batch -= h.sequences;
  reprice(h.slot);
  h.slot = kNoSlot;
  return Status::kOk;
}

Status DecodePool::setForeign(std::uint32_t slot, std::int64_t kv, std::uint32_t sequences, Nanos until) {
  if (!knows(slot)) return Status::kUnknownInstance;
  if (kv < 0 || kv > kMaxKvTokens) return Status::kBadTokens;
  if (until < 0 || until > kMaxTime) return Status::kBadTime;
  DecodeInstance& d = instances_[slot];
  if (d.foreignKv > 0) d.releases.removeTimed(kNoSlot, d.foreignUntil);
  d.used += kv - d.foreignKv;
  d.context += kv - d.foreignKv;
  d.batch += std::int64_t{sequences} - d.foreignSequences;
  d.foreignKv = kv;
  d.foreignSequences = sequences;
  d.foreignUntil = until;
  if (kv > 0) d.releases.addTimed(kNoSlot, until, kv);
  reprice(slot);
  return Status::kOk;
}

void DecodePool::enlist(std::uint32_t id) {
  const Held& h = held_[id];
  ReleaseList& releases = instances_[h.slot].releases;
  if (h.running)
    releases.addRunning(id, h.key, h.kv);
  else
    releases.addTimed(id, h.key, h.kv);
}

void DecodePool::delist(std::uint32_t id) {
  const Held& h = held_[id];
  ReleaseList& releases = instances_[h.slot].releases;
  if (h.running)
    releases.removeRunning(id, h.key);
  else
    releases.removeTimed(id, h.key);
}

void DecodePool::reprice(std::uint32_t slot) {
  DecodeInstance& d = instances_[slot];
  const Nanos perToken = classes_[d.hardwareClass].perToken(d.batch, d.context);
  if (perToken == d.perToken) return;
  d.perToken = perToken;
  if (!d.present) return;
  std::vector<DecodeCandidate>& list = lists_[d.hardwareClass];
  const DecodeCandidate mine{static_cast<double>(perToken), static_cast<double>(d.rank), slot};
  const auto before = [](const DecodeCandidate& a, const DecodeCandidate& b) {
    return a.perToken < b.perToken || (a.perToken == b.perToken && a.rank < b.rank);
  };
  std::size_t i = d.position;
  const auto move = [&](std::size_t from) {
    list[i] = list[from];
    instances_[list[i].slot].position = static_cast<std::uint32_t>(i);
    i = from;
  };
  while (i + 1 < list.size() && before(list[i + 1], mine)) move(i + 1);
  while (i > 0 && before(mine, list[i - 1])) move(i - 1);
  list[i] = mine;
  d.position = static_cast<std::uint32_t>(i);
}

void DecodePool::index() {
  rankAll(instances_, byRank_);
  for (std::vector<DecodeCandidate>& list : lists_) list.clear();
  for (const std::uint32_t slot : byRank_) {
    const DecodeInstance& d = instances_[slot];
    if (!d.present) continue;
    lists_[d.hardwareClass].push_back({static_cast<double>(d.perToken), static_cast<double>(d.rank), slot});
  }
  for (std::vector<DecodeCandidate>& list : lists_) {
    std::sort(list.begin(), list.end(), [](const DecodeCandidate& a, const DecodeCandidate& b) {
      return a.perToken < b.perToken || (a.perToken == b.perToken && a.rank < b.rank);
    });
    for (std::uint32_t i = 0; i < list.size(); ++i) instances_[list[i].slot].position = i;
  }
}

}  // namespace laxity
