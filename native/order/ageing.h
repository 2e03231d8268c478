// Ageing, laid over every order: what has waited longer than A goes first (policies 7, rule 4).
//
// Off where A = 0 (parameter ageingMs, the default). A call is overdue when t - r > A, r its ready time.
// Overdue calls go before all others, oldest ready time first; the others as the order says. Head of line
// stays strict: an overdue call that does not fit lets nothing pass. Evaluated at every pick, O(calls of the
// queue); no cost where off.
//
// Bound. A call c that waits in one queue (of an instance, or shared) whose instances stay up and open is
// leased by
//
//   r + A + S,   S = sum of T_j over the calls j of the queue that are older than c (smaller ready time, then
//                rank) and still wait at r + A, and over those leased on the queue's instances at r + A,
//
// T_j the time j is in service, over all its attempts. After r + A, c is overdue and only calls older than c
// go before it, so all that is leased until c is belongs to the sum. While c waits, the head of the queue is
// c or older and has no credit on any instance that can serve it, which therefore has a call of the sum in
// service; so at every moment of the wait one of the T_j passes. The older calls were all waiting when c
// became ready, and nothing that comes after r + A enters the sum: no arrival stream can starve c.
// (An older call that a lost instance sends to this queue adds its T_j.)
// Ties: (ready time, rank).
#pragma once

#include "workflow/graph.h"

namespace laxity {

inline bool overdue(const Call& c, Nanos now, Nanos ageing) { return now - c.readyAt > ageing; }

/// Among overdue calls: whether `a` goes before `b`.
inline bool older(const Call& a, const Call& b) {
  return a.readyAt != b.readyAt ? a.readyAt < b.readyAt : a.rank < b.rank;
}

}  // namespace laxity
