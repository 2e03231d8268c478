// The instances, grouped into hardware classes that share every estimate.
//
// A class is (role, mode and its budget or share, model, latency, sequences, KV). Inside a class t_comp is
// constant, so the instance with the least outstanding work is the best of it for every score that falls with
// that work: one tournament tree per class.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/tournament.h"
#include "cluster/instance.h"
#include "model/latency.h"

namespace laxity {

/// What the tournament trees compare: the outstanding work, or the number of assigned calls.
enum class Load : std::uint8_t { kWork, kCalls };

struct HardwareClass {
  InstanceSpec spec;
  std::vector<std::uint32_t> members;  ///< instance slots by ascending (tie, slot)
  TournamentTree work;                 ///< load of each member that is up, kNever of the others
  std::uint32_t up = 0;                ///< members that accept calls
  std::uint32_t present = 0;           ///< members not removed: they count in means over the cluster
};

class Cluster {
 public:
  Cluster(std::vector<LatencyModel> latencies, std::uint64_t tieSeed)
      : latencies_(std::move(latencies)), tieSeed_(tieSeed) {}

  /// Slots are dense; a removed slot may be added again, also with another specification.
  Status add(std::uint32_t slot, const InstanceSpec& spec);
  void setCondition(std::uint32_t slot, Condition condition);
  void setMask(std::uint32_t slot, bool masked);
  /// A new model at the end, or another one in the place of a known one.
  Status setLatency(std::uint32_t index, const LatencyModel& model);

  std::size_t size() const { return instances_.size(); }
  bool known(std::uint32_t slot) const {
    return slot < instances_.size() && instances_[slot].condition != Condition::kAbsent;
  }
  Instance& at(std::uint32_t slot) { return instances_[slot]; }
  const Instance& at(std::uint32_t slot) const { return instances_[slot]; }
  const std::vector<Instance>& instances() const { return instances_; }
  const std::vector<HardwareClass>& classes() const { return classes_; }
  const LatencyModel& latency(const Instance& m) const { return latencies_[m.spec.latency]; }
  const LatencyModel& latency(const HardwareClass& k) const { return latencies_[k.spec.latency]; }
  std::size_t latencies() const { return latencies_.size(); }

  /// Changes whenever an instance joins, leaves or changes its condition: what was derived from means is
  /// stale then.
  std::uint64_t revision() const { return revision_; }

  /// What the classes' trees compare from now on.
  void balance(Load load);
  Nanos load(const Instance& m) const {
    return load_ == Load::kWork ? m.ledger.work : Nanos{m.ledger.assigned};
  }

  /// Call after any change of the ledger's work or number of assigned calls.
  void workChanged(std::uint32_t slot) {
    const Instance& m = instances_[slot];
    if (m.accepts()) classes_[m.hardwareClass].work.set(m.memberIndex, load(m));
  }

  /// How much later than alone prefills worth `work` and `tokens` end on m, since the sequences that decode
  /// there now go on beside them; at most 2.4 hours. Prefill-first: 0. Decode-share: work * s / (1 - s).
  /// Chunked: one decode iteration of the running sequences for every b - running tokens begun.
  Nanos besideDecode(const Instance& m, Nanos work, std::int64_t tokens) const {
    return m.spec.mode == EngineMode::kPrefillFirst || m.ledger.running() == 0 ? 0 : delay(m, work, tokens);
  }

  /// Instances by ascending (tie, slot): the order in which equal choices are made.
  const std::vector<std::uint32_t>& byTie() const { return byTie_; }

 private:
  std::uint32_t classOf(const InstanceSpec& spec);
  void reindex(HardwareClass& k);
  Nanos delay(const Instance& m, Nanos work, std::int64_t tokens) const;

  std::vector<LatencyModel> latencies_;
  std::uint64_t tieSeed_;
  std::uint64_t revision_ = 0;
  Load load_ = Load::kWork;
  std::vector<Instance> instances_;
  std::vector<HardwareClass> classes_;
  std::vector<std::uint32_t> byTie_;
};

}  // namespace laxity
