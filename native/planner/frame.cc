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
  prices.resize(decodeClasses);
  for (std::uint32_t g = 0; g < decodeClasses; ++g) prices[g] = decodePool.price(g);
  priced = std::any_of(prices.begin(), prices.end(), [](double price) { return price > 0; });
  columns_.assign(decodePool.size(), {ColumnState::kUnknown, kNoSlot});
  storageUsed_ = 0;

  const std::uint32_t instances = static_cast<std::uint32_t>(prefill.size());
  const std::uint32_t never = prefillClasses + instances;
  clip.resize(std::size_t{never} + 1);
  rank.resize(std::size_t{never} + 1);
  for (std::uint32_t p = 0; p < instances; ++p) {
    const PrefillInstance& instance = prefill.at(p);
    clip[prefillClasses + p] =
        instance.present ? static_cast<double>(std::max<Nanos>(instance.ready - t, 0)) : kInfinite;
    rank[prefillClasses + p] = instance.rank;
  }
  clip[never] = kInfinite;
  rank[never] = instances;
  representatives.clear();
  for (std::uint32_t k = 0; k < prefillClasses; ++k) {
    clip[k] = kInfinite;
    rank[k] = instances;
    if (prefill.members(k).empty()) continue;
    representatives.push_back(k);
    represent(k);
  }
  settle();

  for (std::vector<double>* column :
       {&origin, &slope, &skip, &toReady, &wait, &service, &charge, &decodeRank, &score, &tokens}) {
    column->resize(lanes);
  }
  slot.resize(lanes);
  kv.resize(lanes);
  source.resize(lanes);
  holder[0].resize(lanes);
  holder[1].resize(lanes);
  liveIn.assign(groups, 0);
  lockedIn.assign(groups, 0);
  staleIn.assign(groups, 0);
  best.assign((std::size_t{groups} + kLanes - 1) / kLanes * kLanes, -kInfinite);
  blocks_.resize(lanes * rows_);

  const double ones = allBits();
  const double* links = calls.links();
  const std::uint32_t pairs = prefillClasses * decodeClasses;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t group = i / kLanes;
    const std::uint8_t bit = static_cast<std::uint8_t>(1u << (i % kLanes));
    double* out = blocks_.data() + std::size_t{group} * rows_ * kLanes + i % kLanes;
    kv[i] = calls.byKv()[i].kv;
    tokens[i] = static_cast<double>(kv[i]);
    slot[i] = calls.byKv()[i].slot;
    const WaitingCall& c = calls.at(slot[i]);
    const double* pre = calls.prefill(slot[i]);
    const double* transfer = calls.transfer(slot[i]);
    const double moved = c.moved;
    *out = c.output;
    for (std::uint32_t h = 0; h < prefillClasses; ++h) {
      double* row = out + std::size_t{1 + h} * kLanes;
      for (std::uint32_t g = 0; g < decodeClasses; ++g, row += prefillClasses * kLanes)
        *row = pre[h] + (transfer[h * decodeClasses + g] + moved * links[h * decodeClasses + g]);
    }
    liveIn[group] |= bit;
    skip[i] = 0;
    if (c.lock != kNoSlot) {
      skip[i] = ones;
      lockedIn[group] |= bit;
    }
    if (!holders) continue;
    for (std::uint32_t k = 0; k < 2; ++k) {
      const Holder& h = c.holders[k];
      double* row = out + std::size_t{1 + pairs + k * decodeClasses} * kLanes;
      const bool present = h.instance < instances && prefill.at(h.instance).present;
      holder[k][i] = static_cast<std::int32_t>(present ? prefillClasses + h.instance : never);
      const std::uint32_t hardware = present ? prefill.at(h.instance).hardwareClass : 0;
      const double own = present ? prefillTime(i, h.instance) : kInfinite;
      for (std::uint32_t g = 0; g < decodeClasses; ++g, row += kLanes)
        *row = own + (transfer[hardware * decodeClasses + g] + moved * links[hardware * decodeClasses + g]);
    }
  }
  for (std::uint32_t i = size; i < lanes; ++i) {
    double* out = blocks_.data() + std::size_t{i / kLanes} * rows_ * kLanes + i % kLanes;
    for (std::uint32_t row = 0; row < rows_; ++row) out[std::size_t{row} * kLanes] = 0;
    pad(i);
  }
}

/// A lane without a call, after the last one.
void Frame::pad(std::uint32_t i) {
  slot[i] = slot[size - 1];
  kv[i] = kv[size - 1];
  tokens[i] = tokens[size - 1];
  skip[i] = allBits();
  source[i] = static_cast<std::int32_t>(clip.size()) - 1;
  holder[0][i] = holder[1][i] = source[i];
  decodeRank[i] = -1;
  score[i] = -kInfinite;
  origin[i] = slope[i] = toReady[i] = wait[i] = service[i] = charge[i] = 0;
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

void Frame::represent(std::uint32_t hardwareClass) {
  const std::vector<std::uint32_t>& members = prefill_->members(hardwareClass);
  const double* clips = clip.data() + prefillClasses;
  std::uint32_t chosen = members.front();
  for (const std::uint32_t p : members) {  // ascending rank: the first of equals stays
    if (clips[p] < clips[chosen]) chosen = p;
  }
  clip[hardwareClass] = clips[chosen];
  rank[hardwareClass] = rank[prefillClasses + chosen];
}

void Frame::settle() {
  for (std::size_t i = 1; i < representatives.size(); ++i) {
    for (std::size_t j = i; j > 0 && rank[representatives[j]] < rank[representatives[j - 1]]; --j)
      std::swap(representatives[j], representatives[j - 1]);
  }
}

Changed Frame::commit(std::uint32_t i, std::uint32_t p, std::uint32_t d, double end, Nanos finish) {
  Changed changed;
  changed.instance = static_cast<std::int32_t>(prefillClasses + p);
  changed.decode = d;
  changed.decodeRank = decodeRank[i];
  const std::uint32_t k = prefill_->at(p).hardwareClass;
  clip[prefillClasses + p] = end;
  if (rank[k] == rank[prefillClasses + p]) {
    represent(k);
    settle();
    changed.representative = static_cast<std::int32_t>(k);
  }
  decode.commit(d, kv[i], call(i).sequences, finish);
  Column& c = columns_[d];
  if (c.state == ColumnState::kExact) c.state = ColumnState::kStale;
  if (c.state == ColumnState::kFree) c.state = ColumnState::kUnknown;
  return changed;
}

void Frame::kill(std::uint32_t i) {
  const std::uint32_t group = i / kLanes;
  const std::uint8_t others = static_cast<std::uint8_t>(~(1u << (i % kLanes)));
  liveIn[group] &= others;
  lockedIn[group] &= others;
  staleIn[group] &= others;
  skip[i] = allBits();
  source[i] = static_cast<std::int32_t>(clip.size()) - 1;
  decodeRank[i] = -1;
  score[i] = -kInfinite;
  const double* lane = &score[std::size_t{group} * kLanes];
  best[group] = std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3]));
  --live;
}

double* Frame::refresh(std::uint32_t d) {
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
    std::size_t end = lanes;
    while (kv[end - 1] > capacity) --end;
    decode.waits(d, {kv.data() + i, end - i}, free, out + i);
    i = end;
  }
  std::fill(out + i, out + lanes, kInfinite);
  c.state = ColumnState::kExact;
  return out;
}

void Frame::compact() {
  const std::size_t block = std::size_t{rows_} * kLanes;
  moved_.clear();
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t group = i / kLanes;
    const std::uint32_t lane = i % kLanes;
    if (!(liveIn[group] >> lane & 1)) continue;
    const std::uint32_t to = static_cast<std::uint32_t>(moved_.size());
    moved_.push_back({(staleIn[group] >> lane & 1) != 0, (lockedIn[group] >> lane & 1) != 0});
    if (to == i) continue;
    const double* from = blocks_.data() + group * block + lane;
    double* target = blocks_.data() + to / kLanes * block + to % kLanes;
    for (std::uint32_t row = 0; row < rows_; ++row) target[row * kLanes] = from[row * kLanes];
    slot[to] = slot[i];
    kv[to] = kv[i];
    tokens[to] = tokens[i];
    source[to] = source[i];
    holder[0][to] = holder[0][i];
    holder[1][to] = holder[1][i];
    for (std::vector<double>* column :
         {&origin, &slope, &skip, &toReady, &wait, &service, &charge, &decodeRank, &score}) {
      (*column)[to] = (*column)[i];
    }
    for (std::uint32_t k = 0; k < storageUsed_; ++k) storage_[k][to] = storage_[k][i];
  }
  size = static_cast<std::uint32_t>(moved_.size());
  groups = (size + kLanes - 1) / kLanes;
  for (std::uint32_t i = size; i < groups * kLanes; ++i) {
    pad(i);
    for (std::uint32_t k = 0; k < storageUsed_; ++k) storage_[k][i] = storage_[k][size - 1];
  }
  std::fill(best.begin(), best.end(), -kInfinite);
  for (std::uint32_t group = 0; group < groups; ++group) {
    liveIn[group] = staleIn[group] = lockedIn[group] = 0;
    for (std::uint32_t i = group * kLanes; i < size && i < (group + 1) * kLanes; ++i) {
      const std::uint8_t bit = static_cast<std::uint8_t>(1u << (i % kLanes));
      liveIn[group] |= bit;
      if (moved_[i].stale) staleIn[group] |= bit;
      if (moved_[i].locked) lockedIn[group] |= bit;
      best[group] = std::max(best[group], score[i]);
    }
  }
}

}  // namespace laxity
