// Virtual token counters: fair shares of service among tenants (VTC, policies 2.8).
// Assumes the tenant of a workflow. Counters are the scheduler's, over all its queues (tenant_credits.h).
// Procedure: the tenant with the least counter among those with a call in the queue goes first, inside a
// tenant by ready time. Strict head of line: a call that does not fit holds the others back (no skip-ahead).
//   At the lease the tenant is charged w_in * prompt + w_out * predicted output (times the sequences), when
//   the attempt is over w_out * (true - predicted output): exact in total, while the paper charges each token
//   as it is generated. An attempt that is lost is charged back. A call that fails for good or is cancelled
//   after its lease keeps its charge, so that cancelling late earns nothing. An evicted attempt is charged
//   its prompt and what it had generated; the next attempt prefills both again and pays again.
// Bound, for one queue and two tenants that both have calls in it throughout an interval: their charges for
// the leased calls (at true lengths) differ by at most 2 (C + w_out E),
//   C = w_in * longest prompt + w_out * longest output,
//   E = sum of |true - predicted output| over the calls that run at once.
// With v = s + d, s the charge at true lengths of what was leased (and the lifts), d what the running calls
// are charged too much: |d_u - d_x| <= w_out E. A lease of u has v_u <= v_x, so s_u - s_x <= w_out E before
// and C + w_out E after it; s_x never falls, so this holds at any time; an interval compares two times. The
// paper's 2 max(w_in * longest prompt, w_out * M), M tokens of KV cache, counts the output as it comes; what
// was delivered by then differs from s by the running calls alone, at most max(w_in, w_out) * M a tenant and
// end of the interval.
// State: two integers a tenant. O(log tenants) for an event; a pick looks at every call of the queue.
// Ties: (counter, ready time, rank).
#pragma once

#include <compare>

#include "order/order.h"
#include "order/tenant_credits.h"

namespace laxity {

struct VtcKey {
  std::int64_t credit;  ///< minus the tenant's counter
  Nanos ready;          ///< minus the ready time
  std::int64_t leading() const { return credit; }
  friend auto operator<=>(const VtcKey&, const VtcKey&) = default;
};

class Vtc {
 public:
  static constexpr const char* kName = "vtc";
  static constexpr bool kDynamic = true;
  static constexpr bool kNeedsBudget = false;
  static constexpr bool kNeedsHorizon = false;
  static constexpr bool kNeedsDelta = false;

  VtcKey key(const OrderView& v) const { return {-credits_.of(v.workflow.tenant), -v.call.readyAt}; }

  void observe(const Observation& o, Call& c, const Workflow& w, const PolicyParameters& p) {
    switch (o.step) {
      case CallStep::kReady:
        credits_.arrive(w.tenant);
        break;
      case CallStep::kWithdrawn:
        credits_.leave(w.tenant);
        break;
      case CallStep::kLeased:
        c.charged = cost(c, p, c.predictedTokens);
        credits_.charge(w.tenant, c.charged);
        credits_.leave(w.tenant);
        break;
      case CallStep::kServed:
        credits_.charge(w.tenant, cost(c, p, o.tokens) - c.charged);
        c.charged = 0;
        break;
      case CallStep::kReturned:
        credits_.charge(w.tenant, -c.charged);
        c.charged = 0;
        break;
    }
  }

  const TenantCredits& credits() const { return credits_; }

 private:
  static std::int64_t cost(const Call& c, const PolicyParameters& p, std::uint32_t output) {
    return TenantCredits::rate(p[Parameter::kInputWeight]) * c.promptTokens +
           TenantCredits::rate(p[Parameter::kOutputWeight]) * (std::int64_t{output} * c.sequences);
  }

  TenantCredits credits_;
};

}  // namespace laxity
