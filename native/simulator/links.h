// The links of a prefill-decode cluster at work: KV on its way from prefill to decode instances
// (cluster/link.h).
//
// Free: every transfer takes its time alone. Contended: first the latency, during which it burdens nobody, then
// its tokens; with n_p transfers at p and n_d at d in that second phase each of them moves a token in
//   max(n_p * linkPerToken_p, n_d * linkPerToken_d)
// and this pace changes only when one of those numbers does.
//
// What is left of a transfer is an integer, 2^-40 tokens. When its pace changes, what it has moved since the
// last change is rounded down, and its end is the nanosecond nearest to where the rest is done: alone it takes
// what link.h says to the bit, and none ends more than half a nanosecond early. Each change of pace costs at
// most 2^-40 tokens, so N equal ones on one end take N times as long as one within a nanosecond. One start or
// end costs O(transfers of the two ends), and a heap.
#pragma once

#include <cstdint>
#include <vector>

#include "base/heap.h"
#include "cluster/link.h"
#include "cluster/pair_options.h"

namespace laxity {

struct Transfer {
  std::uint32_t slot = 0;  ///< the driver's name for the call
  std::uint32_t from = 0;  ///< p
  std::uint32_t to = 0;    ///< d
  std::int64_t tokens = 0;
};

class LinkNetwork {
 public:
  void reset(std::vector<InstanceSpec> ends, Links links);

  /// At t >= every time before. A transfer that takes no time is over with the next `advance` to t.
  void start(const Transfer& transfer, Nanos t);

  /// When it must be advanced next; kNever without a transfer.
  Nanos next() const { return due_.empty() ? kNever : -due_.top().key; }
  /// Moves to t <= next(). Afterwards `done` lists the transfers that ended at t, in the order in which they
  /// started.
  void advance(Nanos t);
  const std::vector<Transfer>& done() const { return done_; }

  std::size_t underWay() const { return due_.size(); }
  std::int64_t sent() const { return sent_; }          ///< tokens, of all transfers started
  std::int64_t received() const { return received_; }  ///< tokens, of all transfers that ended
  /// Recounts what is kept. O(everything); for tests and debug runs.
  bool consistent() const;

 private:
  using Amount = __int128_t;

  struct Flow {
    Transfer transfer;
    std::uint64_t number = 0;  ///< of its start
    std::uint32_t position = 0;
    bool moving = false;  ///< its latency is over
    Amount left = 0;      ///< 2^-40 tokens, as of `since`
    Amount pace = 0;      ///< fine time per token, since `since`
    Nanos since = 0;
  };

  Amount paceOf(const Flow& f) const;
  void retime(std::uint32_t index, Nanos t);
  void due(std::uint32_t index, Nanos t);

  std::vector<InstanceSpec> ends_;
  Links links_ = Links::kContended;
  std::vector<std::vector<std::uint32_t>> moving_;  ///< by instance: flows whose tokens move there
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  IndexedHeap due_;  ///< key = -time, slot = index into flows_
  std::uint64_t started_ = 0;
  std::vector<Transfer> done_;
  std::vector<std::uint32_t> ended_;    ///< scratch
  std::vector<std::uint32_t> changed_;  ///< scratch
  std::int64_t sent_ = 0;
  std::int64_t received_ = 0;
};

}  // namespace laxity
