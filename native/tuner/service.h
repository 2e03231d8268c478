// How long calls take against what the latency model says of the batch they ran in.
//
// For every instance a counter of expected iterations runs: while B sequences decode there with C tokens of
// context, it grows by one per iteration time of (B, C). Prefill-first: it stands still while a prefill runs;
// decode-share: it grows at the decode share; chunked: an iteration carries a full chunk beside the decodes.
// A call that emitted n tokens after its first while the counter grew by E was slower than predicted by E /
// n, whatever the load was. Its prefill (prefill-first only) counts from its lease, or from the first token
// before it there. Observation: ln(actual / predicted) of the call's whole service; calls that were evicted,
// failed or lost, whose first token was not seen, or with less than kLeastTokens are none. What the reveal
// said of a cached prefix on the instance is not prefilled.
//
// Prefill-decode: p's observation is the prefill, where p runs one at a time; d's is the decode from the end
// of the transfer on, where a call joins then (`followsDecode`).
//
// The factor of an instance is the exponential mean (weight 1/16) of those: what its engine's times are
// multiples of, as a sweep has to know.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/instance.h"
#include "model/latency.h"
#include "scheduler/events.h"

namespace laxity {

struct ServiceSample {
  std::uint32_t instance = kNoSlot;
  double logRatio = 0;  ///< ln(actual / predicted)
  Nanos leasedAt = 0;
};

class Service {
 public:
  static constexpr std::uint32_t kLeastTokens = 4;

  explicit Service(std::vector<LatencyModel> latencies, bool followsDecode = true)
      : latencies_(std::move(latencies)), followsDecode_(followsDecode) {}

  /// True where a call ended that says something.
  bool observe(const EventRecord& record, ServiceSample* sample);

  std::size_t instances() const { return instances_.size(); }
  const InstanceSpec& spec(std::uint32_t m) const { return instances_[m].spec; }
  Condition condition(std::uint32_t m) const { return instances_[m].condition; }
  /// A latency model that came by event. `learned`: the scheduler corrects it by what it observes.
  struct GivenLatency {
    std::uint32_t index = 0;
    std::uint32_t learned = 0;
    LatencyConstants constants;
  };
  const std::vector<GivenLatency>& given() const { return given_; }
  /// actual / predicted of an instance, 1 where nothing is known; within 1/64 .. 64.
  double factor(std::uint32_t m) const;
  /// Time of a call alone, averaged over the instances of its model that are up.
  Nanos alone(std::uint16_t model, std::uint32_t promptTokens, std::uint32_t outputTokens) const;

 private:
  struct Seen {
    std::uint32_t generation = 0;
    std::uint32_t epoch = 0;
    std::uint32_t instance = kNoSlot;  ///< leased there; prefill-decode: p, none between p and d, d
    std::uint32_t decode = kNoSlot;    ///< prefill-decode: d
    std::uint32_t promptTokens = 0;
    CachedPrefix cached[2];
    Nanos leasedAt = 0;
    Nanos prefillFrom = 0;
    Nanos firstTokenAt = -1;
    std::int64_t expectedAtFirst = 0;
    bool joined = false;  ///< counted in `running`
    bool disturbed = false;
  };
  struct Meter {
    InstanceSpec spec;
    Condition condition = Condition::kAbsent;
    std::vector<std::uint32_t> leases;  ///< call slots
    std::uint32_t unprefilled = 0;
    std::uint32_t running = 0;
    std::int64_t contextAtFirst = 0;  ///< of the running calls, at their first tokens
    std::int64_t expectedAtFirst = 0;
    std::int64_t expected = 0;  ///< iterations since the beginning, in units of 2^-16
    Nanos at = 0;
    Nanos lastFirstToken = 0;
    double logFactor = 0;
    std::uint32_t samples = 0;
  };

  void advance(Meter& m, Nanos t) const;
  void leave(std::uint32_t slot, Nanos t);
  bool firstToken(const CallAttempt& attempt, Nanos t, ServiceSample* sample);
  void join(Seen& call);
  bool finished(const Finished& e, Nanos t, ServiceSample* sample);
  bool observed(std::uint32_t m, double actual, double predicted, Nanos leasedAt, ServiceSample* sample);
  Nanos prefillOf(const Seen& call, std::uint32_t m) const;
  Seen* find(const Ref& call) {
    if (call.slot >= calls_.size() || calls_[call.slot].generation != call.generation) return nullptr;
    return &calls_[call.slot];
  }

  std::vector<LatencyModel> latencies_;
  bool followsDecode_;
  std::vector<GivenLatency> given_;
  std::vector<Meter> instances_;
  std::vector<Seen> calls_;
};

}  // namespace laxity
