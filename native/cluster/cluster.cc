#include "cluster/cluster.h"

#include <algorithm>

namespace laxity {
namespace {

// splitmix64's finaliser: a bijection, so two slots never share a tie.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool validMode(const InstanceSpec& spec) {
  if (spec.linkPerToken < 0 || spec.linkPerToken > kMaxLinkPerToken || spec.linkLatency < 0 ||
      spec.linkLatency > kMaxLinkLatency) {
    return false;
  }
  if (spec.role != Role::kUnified) {
    return spec.mode == EngineMode::kPrefillFirst &&
           spec.chunkTokens <= (spec.role == Role::kPrefill ? kMaxChunkTokens : 0);
  }
  switch (spec.mode) {
    case EngineMode::kPrefillFirst:
      return spec.chunkTokens <= kMaxChunkTokens;
    case EngineMode::kChunked:
      return spec.chunkTokens >= 1 && spec.chunkTokens <= kMaxChunkTokens;
    case EngineMode::kDecodeShare:
      return spec.decodeShare >= 1 && spec.decodeShare < kDecodeShareUnit;
  }
  return false;
}

}  // namespace

Status Cluster::add(std::uint32_t slot, const InstanceSpec& spec) {
  if (slot >= kMaxInstances) return Status::kTooManyInstances;
  if (slot > instances_.size()) return Status::kSlotOutOfRange;
  if (spec.role > Role::kDecode || !validMode(spec)) return Status::kBadValue;
  // A cluster is unified or prefill-decode as a whole.
  for (const Instance& other : instances_) {
    if (other.condition == Condition::kAbsent || other.condition == Condition::kRemoved) continue;
    if ((other.spec.role == Role::kUnified) != (spec.role == Role::kUnified)) return Status::kUnsupported;
  }
  if (spec.latency >= latencies_.size()) return Status::kUnknownModel;
  if (spec.kvTokens < 1 || spec.kvTokens > kMaxKvTokens) return Status::kBadValue;
  if (spec.maxSequences < 1 || spec.maxSequences > kMaxSequences) return Status::kBadValue;
  if (slot < instances_.size() && instances_[slot].condition != Condition::kRemoved)
    return Status::kSlotInUse;

  if (slot == instances_.size()) {
    instances_.emplace_back();
    instances_[slot].tie = tieSeed_ == 0 ? slot : mix(mix(tieSeed_) ^ slot);
    const auto place = std::lower_bound(
        byTie_.begin(), byTie_.end(), slot,
        [&](std::uint32_t a, std::uint32_t b) { return instances_[a].tie < instances_[b].tie; });
    byTie_.insert(place, slot);
  } else {
    HardwareClass& old = classes_[instances_[slot].hardwareClass];
    old.members.erase(std::find(old.members.begin(), old.members.end(), slot));
    reindex(old);
  }
  Instance& m = instances_[slot];
  m.spec = spec;
  m.condition = Condition::kUp;  // a returning slot keeps its ledger: its leases are re-adopted
  m.hardwareClass = classOf(spec);
  HardwareClass& k = classes_[m.hardwareClass];
  const auto place = std::lower_bound(
      k.members.begin(), k.members.end(), slot,
      [&](std::uint32_t a, std::uint32_t b) { return instances_[a].tie < instances_[b].tie; });
  k.members.insert(place, slot);
  reindex(k);
  ++revision_;
  return Status::kOk;
}

Nanos Cluster::delay(const Instance& m, Nanos work, std::int64_t tokens) const {
  constexpr FineSum kLongest = kMaxTime >> 19;
  FineSum later;
  if (m.spec.mode == EngineMode::kDecodeShare) {
    later = FineSum{work} * m.spec.decodeShare / (kDecodeShareUnit - m.spec.decodeShare);
  } else {
    const std::uint32_t running = m.ledger.running();
    const std::int64_t budget = m.spec.chunkTokens > running ? m.spec.chunkTokens - running : 1;
    const std::int64_t iterations = (tokens + budget - 1) / budget;
    const std::int64_t context = m.ledger.context;
    later = FineSum{roundFine(latency(m).piece(running, context).at(context))} * iterations;
  }
  return static_cast<Nanos>(std::min(later, kLongest));
}

void Cluster::setCondition(std::uint32_t slot, Condition condition) {
  Instance& m = instances_[slot];
  m.condition = condition;
  reindex(classes_[m.hardwareClass]);
  ++revision_;
}

void Cluster::balance(Load load) {
  if (load_ == load) return;
  load_ = load;
  for (HardwareClass& k : classes_) reindex(k);
}

void Cluster::setMask(std::uint32_t slot, bool masked) {
  Instance& m = instances_[slot];
  if (m.masked == masked) return;
  m.masked = masked;
  reindex(classes_[m.hardwareClass]);
  ++revision_;
}

Status Cluster::setLatency(std::uint32_t index, const LatencyModel& model) {
  if (index > latencies_.size() || index > 0xffff) return Status::kSlotOutOfRange;
  if (index == latencies_.size())
    latencies_.push_back(model);
  else
    latencies_[index] = model;
  ++revision_;
  return Status::kOk;
}

std::uint32_t Cluster::classOf(const InstanceSpec& spec) {
  for (std::size_t k = 0; k < classes_.size(); ++k) {
    if (classes_[k].spec == spec) return static_cast<std::uint32_t>(k);
  }
  classes_.push_back({spec, {}, {}, 0, 0});
  return static_cast<std::uint32_t>(classes_.size() - 1);
}

void Cluster::reindex(HardwareClass& k) {
  k.work.resize(k.members.size());
  k.up = 0;
  k.present = 0;
  for (std::size_t i = 0; i < k.members.size(); ++i) {
    Instance& m = instances_[k.members[i]];
    m.memberIndex = static_cast<std::uint32_t>(i);
    k.work.set(i, m.accepts() ? load(m) : kNever);
    if (m.accepts()) ++k.up;
    if (m.condition != Condition::kRemoved) ++k.present;
  }
}

}  // namespace laxity
