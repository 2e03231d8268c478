// States of a prefill-decode cluster for measurements of the planner: a cluster in use, calls that wait, and
// the small changes that come between two plans. Everything follows from the seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "planner/pair_planner.h"

namespace laxity {

/// One class of instances.
struct WorkbenchHardware {
  double prefillMs;  ///< per 1,000 tokens
  double decodeMs, sequenceMs, contextNs;
  std::int64_t kv;
};

/// n prefill and n decode instances; KV 40 % committed (light) or 97 % (tight: the planned calls exceed what
/// is left), by calls that end within the next 10 s.
class PlannerWorkbench {
 public:
  PlannerWorkbench(std::uint32_t calls, std::uint32_t instances, bool tight, std::uint64_t seed)
      : random_(seed), instances_(instances) {
    prefill_.configure(kClasses);
    std::vector<DecodeClass> classes;
    for (const WorkbenchHardware& h : kHardware) {
      classes.push_back({fineFromMs(h.decodeMs), fineFromMs(h.sequenceMs), fineFromMs(h.contextNs * 1e-6)});
    }
    decode_.configure(classes);
    for (std::uint32_t i = 0; i < instances; ++i) {
      const std::uint32_t k = i % kClasses;
      prefill_.add(i, k, 0);
      prefill_.setReady(i, t_ + fromMs(random_.uniform() * 400));
      decode_.add(i, k, kHardware[k].kv, 0);
      decode_.setClock(i, t_, 1000, fromMs(kHardware[k].decodeMs + 5));
      const std::int64_t target = kHardware[k].kv * (tight ? 97 : 40) / 100;
      for (std::int64_t used = 0; used < target;) {
        const std::int64_t kv = std::min(target - used, tokens());
        reserve(i, kv);
        used += kv;
      }
    }
    calls_.configure(kClasses, kClasses);
    for (std::uint32_t slot = 0; slot < calls; ++slot) add(slot);
  }

  void step() {
    t_ += 1'000'000;
    const std::uint32_t id = random_.below(static_cast<std::uint32_t>(held_.size()));
    decode_.release(id);
    reserveAs(id, held_[id].slot, held_[id].kv);
    prefill_.setReady(random_.below(instances_), t_ + fromMs(random_.uniform() * 400));
    const std::uint32_t slot = random_.below(calls_.size());
    calls_.remove(slot);
    add(slot);
  }

  std::span<const PlanEntry> plan(PairPlanner& planner, const PlanOptions& options) {
    return planner.plan(t_, prefill_, decode_, calls_, options);
  }

  Nanos now() const { return t_; }
  const PrefillPool& prefill() const { return prefill_; }
  const DecodePool& decode() const { return decode_; }
  const WaitingCalls& calls() const { return calls_; }

 private:
  /// About Llama-3.1-70B at tensor parallelism 4 on A100, H100 and H200.
  static constexpr WorkbenchHardware kHardware[] = {
      {165, 25.6, 0.16, 5.5, 160'000}, {62, 14.9, 0.09, 3.2, 160'000}, {59, 12.1, 0.07, 2.3, 240'000}};
  static constexpr std::uint32_t kClasses = 3;

  struct Held {
    std::uint32_t slot;
    std::int64_t kv;
  };

  std::int64_t tokens() { return 1 + static_cast<std::int64_t>(random_.lognormal(7.2, 0.7)); }

  void reserve(std::uint32_t slot, std::int64_t kv) {
    reserveAs(static_cast<std::uint32_t>(held_.size()), slot, kv);
    held_.push_back({slot, kv});
  }
  void reserveAs(std::uint32_t id, std::uint32_t slot, std::int64_t kv) {
    const bool runs = random_.below(8) != 0;
    decode_.reserve(id, slot, kv, kv, 1, t_ + fromMs(random_.uniform() * 10'000));
    if (runs) decode_.run(id, 1001 + random_.below(400));
  }

  void add(std::uint32_t slot) {
    WaitingCall c;
    c.arrival = t_ - fromMs(random_.uniform() * 60'000);
    c.rank = rank_++;
    c.inverseHorizon = 1.0 / static_cast<double>(fromMs(2'000 + random_.exponential(20'000)));
    c.output = 1 + static_cast<std::uint32_t>(random_.lognormal(4.5, 0.8));
    const std::int64_t prompt = tokens();
    c.kv = prompt + c.output;
    const double thousands = static_cast<double>(prompt) * 1e-3;
    Nanos prefill[kClasses];
    Nanos transfer[kClasses * kClasses];
    for (std::uint32_t h = 0; h < kClasses; ++h) {
      prefill[h] = fromMs(kHardware[h].prefillMs * thousands);
      for (std::uint32_t g = 0; g < kClasses; ++g) {
        // 320 KiB a token over 18 GB/s with an A100 at an end, 36 GB/s without.
        const double gigabytes = h == 0 || g == 0 ? 18 : 36;
        transfer[h * kClasses + g] = fromMs(1 + 327.68 * thousands / gigabytes);
      }
    }
    calls_.add(slot, c, prefill, transfer);
  }

  Random random_;
  std::uint32_t instances_;
  std::uint64_t rank_ = 0;
  Nanos t_ = 3'600 * kSecond;
  PrefillPool prefill_;
  DecodePool decode_;
  WaitingCalls calls_;
  std::vector<Held> held_;
};

}  // namespace laxity
