// The virtual token counters of tenants (VTC, policies 2.8): how much service each has been charged.
//
// A charge is rate * tokens, rates being integers, so that a correction to other tokens leaves exactly the
// charge of those. Rates are (weight of the token kind) / (weight f of the tenant); f is 1 for every tenant
// so far.
//
// A tenant that begins to wait while it had nothing waiting is lifted: to the least counter of the tenants
// that have waiting calls, or, where nobody waits, to the present counter of the tenant whose call left the
// queues last. So idle time earns nothing. Counters saturate at kNever / 2.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/tournament.h"

namespace laxity {

class TenantCredits {
 public:
  /// The integer rate of a token kind: units per token, rounded.
  static std::int64_t rate(double weight) { return static_cast<std::int64_t>(weight * kUnits + 0.5); }

  std::int64_t of(std::uint16_t tenant) const { return tenant < counters_.size() ? counters_[tenant] : 0; }

  /// One of its calls begins to wait.
  void arrive(std::uint16_t tenant) {
    grow(tenant);
    if (waiting_[tenant]++ > 0) return;
    std::int64_t least = backlogged_.min();
    if (least == kNever) least = lastLeft_ < counters_.size() ? counters_[lastLeft_] : 0;
    counters_[tenant] = std::max(counters_[tenant], least);
    backlogged_.set(tenant, counters_[tenant]);
  }
  /// One of its calls waits no more.
  void leave(std::uint16_t tenant) {
    if (--waiting_[tenant] > 0) return;
    backlogged_.set(tenant, kNever);
    lastLeft_ = tenant;
  }
  /// Also of a tenant none of whose calls has waited here: its lease is older than this order.
  void charge(std::uint16_t tenant, std::int64_t units) {
    grow(tenant);
    std::int64_t& counter = counters_[tenant];
    if (__builtin_add_overflow(counter, units, &counter) || counter > kMost) counter = kMost;
    if (waiting_[tenant] > 0) backlogged_.set(tenant, counter);
  }

 private:
  static constexpr double kUnits = 1024;  ///< a token of weight 1
  static constexpr std::int64_t kMost = kNever / 2;

  void grow(std::uint16_t tenant) {
    if (tenant < counters_.size()) return;
    counters_.resize(std::size_t{tenant} + 1, 0);
    waiting_.resize(counters_.size(), 0);
    backlogged_.resize(counters_.size());
  }

  std::vector<std::int64_t> counters_;  ///< [tenant]
  std::vector<std::uint32_t> waiting_;  ///< [tenant] its waiting calls
  TournamentTree backlogged_;           ///< counters of the tenants that have any, kNever of the others
  std::uint32_t lastLeft_ = ~0u;
};

}  // namespace laxity
