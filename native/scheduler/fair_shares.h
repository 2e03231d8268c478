// Fair shares of service between tenants, laid over every order (parameter tenantSlack; 0 = off).
//
// Assumes the tenant of a workflow and its weight. A tenant's counter is what it was charged over its weight:
// at a lease w_in * prompt + w_out * predicted output (times the sequences), set right to the true output
// when the attempt is over; a lost attempt is charged back (parameters inputWeight, outputWeight, as in
// order/vtc.h). A tenant that begins to wait while it had nothing waiting is lifted to the least counter of
// those that wait, or, where nobody waits, to that of the tenant whose call left the queues last: idle time
// earns nothing.
// Procedure: in a queue with least counter v, the calls of tenants above v + S go behind all others (S =
// slack); on both sides the order decides. Ageing lies above it, strict head of line below.
//
// Bound, for one queue in which tenants u and x both have calls from t1 to t2, their counters being v at
// predicted lengths, C = w_in * longest prompt + w_out * longest output:
//
//   v_u(t2) - v_x(t2) <= max(v_u(t1) - v_x(t1), S + C / weight_u)
//
// A lease of u while x waits needs v_u <= v_x + S before it, and adds at most C / weight_u; v_x never falls.
// No deadline, hint or priority enters: a tenant that declares tighter SLOs than it needs, or looser ones,
// gets at most S + C / weight more than its share of the service, and costs an honest tenant no more than
// that. What is charged too much or too little while calls run adds w_out * |true - predicted| of these. On
// prefill-decode clusters with a planning placement one plan leases up to one call per prefill instance
// before counters are looked at again: C times that number.
// State: two integers a tenant and one a call. O(calls of the queue) for a pick, O(tenants) when one begins
// to wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace laxity {

class FairShares {
 public:
  static constexpr std::uint32_t kUnitWeight = 1000;

  void clear() {
    tenants_.clear();
    lastLeft_ = ~0u;
  }
  /// In 1/1000; counts from the next charge on.
  void weigh(std::uint16_t tenant, std::uint32_t weight) { at(tenant).weight = std::max(1u, weight); }
  std::int64_t of(std::uint16_t tenant) const {
    return tenant < tenants_.size() ? tenants_[tenant].counter : 0;
  }

  /// One of its calls begins to wait.
  void arrive(std::uint16_t tenant) {
    Tenant& t = at(tenant);
    if (t.waiting++ > 0) return;
    std::int64_t least = kNever;
    for (const Tenant& other : tenants_) {
      if (&other != &t && other.waiting > 0) least = std::min(least, other.counter);
    }
    if (least == kNever) least = lastLeft_ < tenants_.size() ? tenants_[lastLeft_].counter : 0;
    t.counter = std::max(t.counter, least);
  }
  /// One of its calls waits no more.
  void leave(std::uint16_t tenant) {
    Tenant& t = at(tenant);
    if (t.waiting > 0 && --t.waiting == 0) lastLeft_ = tenant;
  }
  /// What `tokens` weighted tokens are to the tenant's counter.
  std::int64_t units(std::uint16_t tenant, double tokens) {
    const double scaled = tokens * kUnits * kUnitWeight / at(tenant).weight;
    return scaled < static_cast<double>(kMost) ? static_cast<std::int64_t>(scaled + 0.5) : kMost;
  }
  void charge(std::uint16_t tenant, std::int64_t by) {
    std::int64_t& counter = at(tenant).counter;
    if (__builtin_add_overflow(counter, by, &counter) || counter > kMost) counter = kMost;
  }
  static std::int64_t slack(double tokens) {
    return tokens * kUnits < static_cast<double>(kMost) ? static_cast<std::int64_t>(tokens * kUnits + 0.5)
                                                        : kMost;
  }

 private:
  static constexpr double kUnits = 1024;  ///< a token of weight 1, of a tenant of weight 1
  static constexpr std::int64_t kMost = kNever / 4;

  struct Tenant {
    std::int64_t counter = 0;
    std::uint32_t waiting = 0;
    std::uint32_t weight = kUnitWeight;
  };

  Tenant& at(std::uint16_t tenant) {
    if (tenant >= tenants_.size()) tenants_.resize(std::size_t{tenant} + 1);
    return tenants_[tenant];
  }

  std::vector<Tenant> tenants_;
  std::uint32_t lastLeft_ = ~0u;
};

}  // namespace laxity
