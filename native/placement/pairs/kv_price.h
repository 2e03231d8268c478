// Earliest finish with a price on scarce KV.
// Procedure: as earliest-finish, but the plan chooses the pair (p, d) with the least
//   finish + price_k * m / capacity_k * output * perToken_d,    k the class of d, m the call's KV
// (price: scheduler/kv_pressure.h; 0, and so every decision earliest-finish's, while the class has room).
// Orders compare the plain finish of that pair.
// Earliest finish lets a call with a large context take a tenth of a fast instance's KV because it ends there
// a little sooner; the price sends it to the slow class and keeps the fast one for many small ones.
// Without a plan (binding at-reveal) there is no price. Ties: (cost, finish, ready, perm[d], perm[p]).
#pragma once

#include <string_view>

#include "placement/pairs/earliest_finish.h"

namespace laxity {

struct KvPricePair : EarliestFinishPair {
  static constexpr std::string_view kName = "kv-price";
  static constexpr bool kPricesKv = true;
};

}  // namespace laxity
