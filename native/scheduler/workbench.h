// A scheduler under steady load for measurements: so many calls wait, and every call that ends lets another
// in. Two classes of unified instances by turns. Everything follows from the seed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "scheduler/scheduler.h"

namespace laxity {

class SchedulerWorkbench {
 public:
  static constexpr std::uint32_t kSequences = 8;  ///< that an instance runs at once

  /// `config` brings the policy; its latencies are set here.
  SchedulerWorkbench(SchedulerConfig config, std::uint32_t instances, std::uint32_t waiting,
                     std::uint64_t seed)
      : random_(seed),
        scheduler_(withLatencies(std::move(config))),
        generation_(waiting + 2 * kSequences * instances, 0) {
    for (std::uint32_t m = 0; m < instances; ++m) {
      InstanceEvent e{};
      e.instance = m;
      e.spec.latency = static_cast<std::uint16_t>(m % 2);
      e.spec.maxSequences = kSequences;
      e.spec.kvTokens = 1'000'000;
      note(scheduler_.instance(t_, e));
    }
    scheduler_.decide(t_);
    // Slots are dense: the smallest free one first.
    for (std::uint32_t slot = static_cast<std::uint32_t>(generation_.size()); slot-- > 0;)
      free_.push_back(slot);
    for (std::uint32_t i = 0; i < waiting + instances * kSequences; ++i) open();
    decide();
  }

  /// A lease ends, its workflow with it, another workflow of one call arrives: five events and a decide.
  void turn() {
    if (leased_.empty()) {
      ++refused_;
      return;
    }
    t_ += 100'000;
    const std::uint32_t at = random_.below(static_cast<std::uint32_t>(leased_.size()));
    const CallAttempt attempt = leased_[at];
    leased_[at] = leased_.back();
    leased_.pop_back();
    note(scheduler_.firstToken(t_, {attempt}));
    note(scheduler_.finished(t_, {attempt, 100}));
    note(scheduler_.closeWorkflow(t_, {attempt.call}));
    free_.push_back(attempt.call.slot);
    open();
    decide();
  }

  std::uint64_t leases() const { return leases_; }
  /// Events that the scheduler refused: 0, or what was measured is not what was meant.
  std::uint64_t refused() const { return refused_; }

 private:
  static SchedulerConfig withLatencies(SchedulerConfig config) {
    config.latencies.clear();
    for (const auto& [prefill, decode] : {std::pair{0.026, 39.0}, {0.033, 56.0}}) {
      LatencyConstants c;
      c.prefillPerTokenMs = prefill;
      c.decodeBaseMs = decode;
      c.decodePerSequenceMs = 0.1;
      c.decodePerContextMs = 0.00005;
      LatencyModel model;
      if (ok(LatencyModel::constants(c, &model))) config.latencies.push_back(model);
    }
    return config;
  }

  void open() {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    const Ref ref{slot, ++generation_[slot]};
    note(scheduler_.openWorkflow(t_, {ref, 0, -1, 0, t_ + 60 * kSecond, -1}));
    Reveal e{};
    e.call = ref;
    e.workflow = ref;
    e.sequences = 1;
    e.promptTokens = 200 + random_.below(8000);
    e.predictedTokens = e.predictedHigh = 10 + random_.below(400);
    e.cached[0].instance = e.cached[1].instance = kNoSlot;
    e.remaining = -1;
    note(scheduler_.reveal(t_, e, {}));
  }

  void decide() {
    for (const Decision& d : scheduler_.decide(t_)) {
      if (d.kind != DecisionKind::kLease) continue;
      leased_.push_back({d.call, d.epoch});
      ++leases_;
    }
  }

  void note(Status status) { refused_ += ok(status) ? 0 : 1; }

  Random random_;
  Scheduler scheduler_;
  Nanos t_ = 0;
  std::vector<std::uint32_t> generation_;
  std::vector<std::uint32_t> free_;
  std::vector<CallAttempt> leased_;
  std::uint64_t leases_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace laxity
