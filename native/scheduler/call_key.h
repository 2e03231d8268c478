// What the order's key becomes once hopeless calls stand behind all others (admission.cc): a demoted call is
// less urgent than every call that is not, demoted calls go by (ready time, rank). Ties in the key: rank.
#pragma once

#include "workflow/graph.h"

namespace laxity {

/// Under an order whose keys move with time: `key` counts where the call is not demoted, `ready` where it is.
template <class Key>
struct CallKey {
  Key key{};
  Nanos ready = 0;
  bool demoted = false;

  friend bool operator==(const CallKey& a, const CallKey& b) {
    return a.demoted == b.demoted && (a.demoted ? a.ready == b.ready : a.key == b.key);
  }
  friend bool operator>(const CallKey& a, const CallKey& b) {
    if (a.demoted != b.demoted) return b.demoted;
    return a.demoted ? a.ready < b.ready : a.key > b.key;
  }
};

template <class Order, class View>
auto callKey(const Order& order, const View& view) {
  CallKey<decltype(order.key(view))> k;
  k.demoted = view.call.demoted;
  if (k.demoted)
    k.ready = view.call.readyAt;
  else
    k.key = order.key(view);
  return k;
}

/// Under an order with static keys: below every key of a call that is not demoted.
inline Nanos demotedKey(const Call& c) { return -kMaxTime - c.readyAt; }

}  // namespace laxity
