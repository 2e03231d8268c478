#include "planner/frame.h"

#include <cstring>

namespace laxity {
namespace {

double allBits() {
  const std::uint64_t ones = ~std::uint64_t{0};
  double value;
  std::memcpy(&value, &ones, sizeof value);
  return value;
}

}  // namespace

void Frame::begin(Nanos t, const PrefillPool& prefill, const DecodePool& decodePool,
                  const WaitingCalls& calls) {
  prefill_ = &prefill;
  calls_ = &calls;
  prefillClasses = prefill.classes();
  decodeClasses = decodePool.classes();
  holders = calls.withHolders() > 0;
  rows_ = holderRow() + (holders ? 2 * decodeClasses : 0);
  size = live = calls.size();
  groups = (size + kLanes - 1) / kLanes;
  const std::size_t lanes = std::size_t{groups} * kLanes;

  decode.begin(decodePool, t, size);
  columns_.assign(decodePool.size(), {ColumnState::kUnknown, kNoSlot});
  storageUsed_ = 0;

  const std::uint32_t instances = static_cast<std::uint32_t>(prefill.size());
  clip.resize(std::size_t{instances} + 1);
  rank.resize(std::size_t{instances} + 1);
  for (std::uint32_t p = 0; p < instances; ++p) {
    const PrefillInstance& instance = prefill.at(p);
    clip[p] = instance.present ? static_cast<double>(std::max<Nanos>(instance.ready - t, 0)) : kInfinite;
    rank[p] = instance.rank;
  }
  clip[instances] = kInfinite;
  rank[instances] = instances;
  representatives.clear();
  for (std::uint32_t k = 0; k < prefillClasses; ++k) {
    if (prefill.members(k).empty()) continue;
    representatives.emplace_back();
    represent(k, &representatives.back());
    settle();
  }

  slot.resize(lanes);
  kv.resize(lanes);
  for (std::vector<double>* column :
       {&origin, &slope, &skip, &finish, &ready, &bestPrefill, &bestDecode, &score})
    column->resize(lanes);
  alive.resize(lanes);
  liveIn.resize(groups);
  lockedIn.resize(groups);
  if (holders) {
    holder[0].resize(lanes);
    holder[1].resize(lanes);
  }
  blocks_.resize(lanes * rows_);

  const double ones = allBits();
  const std::uint32_t pairs = prefillClasses * decodeClasses;
  std::fill(liveIn.begin(), liveIn.end(), 0);
  std::fill(lockedIn.begin(), lockedIn.end(), 0);
  for (std::uint32_t i = 0; i < lanes; ++i) {
    const std::uint32_t group = i / kLanes;
    double* out = blocks_.data() + std::size_t{group} * rows_ * kLanes + i % kLanes;
    if (i >= size) {
      for (std::uint32_t row = 0; row < rows_; ++row) out[std::size_t{row} * kLanes] = 0;
      kv[i] = kv[size - 1];
      slot[i] = slot[size - 1];
      alive[i] = 0;
      skip[i] = ones;
      score[i] = -kInfinite;
      origin[i] = slope[i] = 0;
      bestPrefill[i] = bestDecode[i] = -1;
      if (holders) holder[0][i] = holder[1][i] = static_cast<std::int32_t>(instances);
      continue;
    }
    kv[i] = calls.byKv()[i].kv;
    slot[i] = calls.byKv()[i].slot;
    const WaitingCall& c = calls.at(slot[i]);
    const double* pre = calls.prefill(slot[i]);
    const double* transfer = calls.transfer(slot[i]);
    *out = c.output;
    for (std::uint32_t h = 0; h < prefillClasses; ++h) {
      double* row = out + std::size_t{1 + h} * kLanes;
      for (std::uint32_t g = 0; g < decodeClasses; ++g, row += prefillClasses * kLanes)
        *row = pre[h] + transfer[h * decodeClasses + g];
    }
    alive[i] = 1;
    skip[i] = 0;
    ++liveIn[group];
    if (c.lock != kNoSlot) {
      skip[i] = ones;
      lockedIn[group] |= static_cast<std::uint8_t>(1u << (i % kLanes));
    }
    if (!holders) continue;
    for (std::uint32_t k = 0; k < 2; ++k) {
      const Holder& h = c.holders[k];
      double* row = out + std::size_t{1 + pairs + k * decodeClasses} * kLanes;
      const bool present = h.instance < instances && prefill.at(h.instance).present;
      holder[k][i] = static_cast<std::int32_t>(present ? h.instance : instances);
      const std::uint32_t hardware = present ? prefill.at(h.instance).hardwareClass : 0;
      const double own = present ? prefillTime(i, h.instance) : kInfinite;
      for (std::uint32_t g = 0; g < decodeClasses; ++g, row += kLanes)
        *row = own + transfer[hardware * decodeClasses + g];
    }
  }
}

double Frame::prefillTime(std::uint32_t i, std::uint32_t p) const {
  const double ofClass = calls_->prefill(slot[i])[prefill_->at(p).hardwareClass];
  double time = ofClass;
  if (ofClass == kInfinite) return time;
  for (const Holder& h : call(i).holders) {
    if (h.instance == p) time = std::min(time, static_cast<double>(h.prefill));
  }
  return time;
}

void Frame::represent(std::uint32_t hardwareClass, Representative* out) const {
  double least = kInfinite;
  std::uint32_t best = prefill_->members(hardwareClass).front();
  for (const std::uint32_t p :
       prefill_->members(hardwareClass)) {  // ascending rank: the first of equals stays
    if (clip[p] < least) {
      least = clip[p];
      best = p;
    }
  }
  *out = {least, rank[best], hardwareClass};
}

/// Puts one changed representative back into the order of ranks.
void Frame::settle() {
  for (std::size_t i = 1; i < representatives.size(); ++i) {
    for (std::size_t j = i; j > 0 && representatives[j].rank < representatives[j - 1].rank; --j)
      std::swap(representatives[j], representatives[j - 1]);
  }
}

void Frame::occupy(std::uint32_t p, double until) {
  clip[p] = until;
  const std::uint32_t hardwareClass = prefill_->at(p).hardwareClass;
  for (Representative& r : representatives) {
    if (r.hardwareClass != hardwareClass) continue;
    if (r.rank == rank[p]) {
      represent(hardwareClass, &r);
      settle();
    }
    return;
  }
}

void Frame::reserve(std::uint32_t d, std::uint32_t i, Nanos finishAt) {
  decode.commit(d, kv[i], call(i).sequences, finishAt);
  Column& c = columns_[d];
  if (c.state == ColumnState::kExact) c.state = ColumnState::kStale;
  if (c.state == ColumnState::kFree) c.state = ColumnState::kUnknown;
}

void Frame::kill(std::uint32_t i) {
  alive[i] = 0;
  skip[i] = allBits();
  score[i] = -kInfinite;
  bestPrefill[i] = bestDecode[i] = -1;
  --liveIn[i / kLanes];
  lockedIn[i / kLanes] &= static_cast<std::uint8_t>(~(1u << (i % kLanes)));
  --live;
}

const double* Frame::refresh(std::uint32_t d) {
  Column& c = columns_[d];
  const std::int64_t free = decode.free(d);
  const std::int64_t capacity = decode.capacity(d);
  const std::size_t lanes = std::size_t{groups} * kLanes;
  if (kv[lanes - 1] <= free) {
    c.state = ColumnState::kFree;
    return nullptr;
  }
  if (c.at == kNoSlot) {
    c.at = storageUsed_++;
    if (storage_.size() < storageUsed_) storage_.emplace_back();
    if (storage_[c.at].size() < lanes) storage_[c.at].resize(lanes);
  }
  double* out = storage_[c.at].data();
  std::size_t i = 0;
  for (; i < lanes && kv[i] <= free; ++i) out[i] = 0;
  if (i < lanes && kv[i] <= capacity) {
    const ReleaseWindow& window = decode.window(d);
    std::uint32_t cursor = 0;
    if ((lanes - i) * 8 < window.size()) {
      for (; i < lanes && kv[i] <= capacity; ++i) out[i] = decode.offset(window.at(kv[i] - free));
    } else {
      for (; i < lanes && kv[i] <= capacity; ++i) out[i] = decode.offset(window.next(kv[i] - free, &cursor));
    }
  }
  for (; i < lanes; ++i) out[i] = kInfinite;
  c.state = ColumnState::kExact;
  return out;
}

void Frame::compact() {
  const std::size_t block = std::size_t{rows_} * kLanes;
  std::uint32_t to = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (!alive[i]) continue;
    if (to != i) {
      const double* source = blocks_.data() + i / kLanes * block + i % kLanes;
      double* target = blocks_.data() + to / kLanes * block + to % kLanes;
      for (std::uint32_t row = 0; row < rows_; ++row) target[row * kLanes] = source[row * kLanes];
      slot[to] = slot[i];
      kv[to] = kv[i];
      for (std::vector<double>* column :
           {&origin, &slope, &skip, &finish, &ready, &bestPrefill, &bestDecode, &score})
        (*column)[to] = (*column)[i];
      if (holders) {
        holder[0][to] = holder[0][i];
        holder[1][to] = holder[1][i];
      }
      for (Column& c : columns_) {
        if (c.at != kNoSlot) storage_[c.at][to] = storage_[c.at][i];
      }
    }
    ++to;
  }
  size = to;
  groups = (size + kLanes - 1) / kLanes;
  const std::uint32_t lanes = groups * kLanes;
  std::fill(liveIn.begin(), liveIn.begin() + groups, 0);
  std::fill(lockedIn.begin(), lockedIn.begin() + groups, 0);
  for (std::uint32_t i = 0; i < lanes; ++i) {
    if (i < size) {
      alive[i] = 1;
      ++liveIn[i / kLanes];
      if (call(i).lock != kNoSlot) lockedIn[i / kLanes] |= static_cast<std::uint8_t>(1u << (i % kLanes));
      continue;
    }
    alive[i] = 0;
    slot[i] = slot[size - 1];
    kv[i] = kv[size - 1];
    skip[i] = allBits();
    score[i] = -kInfinite;
    bestPrefill[i] = bestDecode[i] = -1;
    for (Column& c : columns_) {
      if (c.at != kNoSlot) storage_[c.at][i] = storage_[c.at][size - 1];
    }
  }
}

std::uint32_t passScalar(Frame& f, double p, double d, bool all) {
  std::uint32_t pick = kNoSlot;
  double best = std::numeric_limits<double>::lowest();
  for (std::uint32_t i = 0; i < f.size; ++i) {
    if (!f.alive[i]) continue;
    if (all || f.bestPrefill[i] == p || f.bestDecode[i] == d) evaluateFromColumns(f, i);
    const double score = f.score[i];
    if (score > best || (score == best && f.before(i, pick))) {
      best = score;
      pick = i;
    }
  }
  return pick;
}

}  // namespace laxity
