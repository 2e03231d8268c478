#include "pair_stations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "cluster/link.h"
#include "stations.h"
#include "workflow/pair_estimate.h"

namespace laxity::trial {
namespace {

/// One call's way, from the columns.
struct Way {
  Nanos ready, leased, first, sent, there, decode, end;
  std::uint32_t p, d, prompt;
  std::int64_t need, moved;  ///< tokens: on d, over the link
  bool moves;                ///< it has more than the token of its prefill
};

std::vector<Way> waysOf(const OwnedTrace& trace, const RunOptions& options, const Run& r) {
  std::vector<Way> ways;
  for (std::uint32_t row = 0; row < trace.calls(); ++row) {
    const bool moves = trace.output[row] > 1;
    const std::uint32_t expected = trace.predictions ? trace.predicted[row] : trace.output[row];
    const auto at = [&](const std::vector<double>& column) { return moves ? fromMs(column[row]) : -1; };
    ways.push_back({fromMs(r.readyMs[row]), fromMs(r.leasedMs[row]), fromMs(r.firstTokenMs[row]),
                    at(r.transferStartMs), at(r.transferredMs), at(r.decodeMs), fromMs(r.finishedMs[row]),
                    r.instance[row], r.decodeInstance[row], trace.prompt[row],
                    std::int64_t{trace.prompt[row]} + expected,
                    tokensToMove(trace.prompt[row], options.pairs.overlap), moves});
  }
  return ways;
}

struct Counts {
  Count waiting;
  std::vector<Count> prefill, handOver,
      decode;  ///< by instance; with lateDecode all decodes are counted at 0
};

/// L of every station, from the log alone.
Counts countsOf(const EventLog& log, std::size_t instances, bool lateDecode) {
  enum class Where { kPrefill, kHandOver, kDecode };
  struct Place {
    std::uint32_t p, d;
    Where where;
  };
  Counts counts;
  counts.prefill.resize(instances);
  counts.handOver.resize(instances);
  counts.decode.resize(instances);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Place> places;
  const auto place = [&](const CallAttempt& a) -> Place& {
    return places.at({a.call.slot, a.call.generation});
  };
  for (const EventRecord& r : log.records()) {
    const Nanos t = r.header.t;
    if (r.header.kind == EventKind::kReveal && r.reveal.toolPending == 0) counts.waiting.change(t, 1);
    if (r.header.kind == EventKind::kToolDone) counts.waiting.change(t, 1);
    if (r.header.kind == EventKind::kDecision && r.decision.kind == DecisionKind::kLease) {
      const Decision& d = r.decision;
      counts.waiting.change(t, -1);
      counts.prefill[d.instance].change(t, 1);
      places[{d.call.slot, d.call.generation}] = {d.instance, lateDecode ? 0 : d.decodeInstance,
                                                  Where::kPrefill};
    }
    if (r.header.kind == EventKind::kFirstToken) {
      Place& c = place(r.call.attempt);
      counts.prefill[c.p].change(t, -1);
      counts.handOver[c.p].change(t, 1);
      c.where = Where::kHandOver;
    }
    if (r.header.kind == EventKind::kTransferDone) {
      Place& c = place(r.call.attempt);
      counts.handOver[c.p].change(t, -1);
      counts.decode[c.d].change(t, 1);
      c.where = Where::kDecode;
    }
    if (r.header.kind == EventKind::kFinished) {
      const Place& c = place(r.finished.attempt);
      auto& at = c.where == Where::kDecode     ? counts.decode[c.d]
                 : c.where == Where::kHandOver ? counts.handOver[c.p]
                                               : counts.prefill[c.p];
      at.change(t, -1);
    }
  }
  return counts;
}

/// L = lambda W of every station: a run that starts and ends empty makes it an identity of integers.
bool littleHolds(const std::vector<Way>& ways, const Counts& counts, bool lateDecode) {
  const std::size_t n = counts.prefill.size();
  Nanos waits = 0;
  std::vector<Nanos> prefill(n), handOver(n), decode(n);
  for (const Way& w : ways) {
    waits += w.leased - w.ready;
    prefill[w.p] += w.first - w.leased;
    if (!w.moves) continue;
    handOver[w.p] += w.there - w.first;
    decode[lateDecode ? 0 : w.d] += w.end - w.there;
  }
  bool holds = counts.waiting.empty() && counts.waiting.area() == waits;
  for (std::size_t m = 0; m < n; ++m) {
    holds = holds && counts.prefill[m].empty() && counts.prefill[m].area() == prefill[m] &&
            counts.handOver[m].empty() && counts.handOver[m].area() == handOver[m] &&
            counts.decode[m].empty() && counts.decode[m].area() == decode[m];
  }
  return holds;
}

/// The batches of one prefill instance: prompts whose first tokens come together ran together.
struct Batch {
  Nanos start, end;
  std::vector<const Way*> calls;
};

std::vector<Batch> batchesOf(const std::vector<Way>& ways, std::uint32_t p, const ClusterSpec& cluster) {
  std::map<Nanos, std::vector<const Way*>> byEnd;
  for (const Way& w : ways) {
    if (w.p == p) byEnd[w.first].push_back(&w);
  }
  const LatencyModel& latency = cluster.latencies[cluster.instances[p].latency];
  std::vector<Batch> batches;
  std::vector<PrefillChunk> chunks;
  for (const auto& [end, calls] : byEnd) {
    chunks.clear();
    for (const Way* w : calls) chunks.push_back({0, 0, w->prompt});
    batches.push_back({end - latency.prefillBatch(chunks), end, calls});
  }
  return batches;
}

struct Change {
  Nanos t;
  std::int64_t by;
  friend bool operator<(const Change& a, const Change& b) { return a.t != b.t ? a.t < b.t : a.by < b.by; }
};

/// Most of a sum at any time, where what leaves at t makes room for what comes at t.
std::int64_t mostOf(std::vector<Change> changes) {
  std::sort(changes.begin(), changes.end());
  std::int64_t sum = 0, most = 0;
  for (const Change& c : changes) most = std::max(most, sum += c.by);
  return most;
}

/// Batches do not overlap, begin after the leases of their calls, and begin at once unless one is under way:
/// a lease is given only where its KV fits, so that nothing else can keep a prefill waiting.
std::string prefillLaw(const std::vector<Way>& ways, const ClusterSpec& cluster, std::uint32_t p,
                       std::vector<Busy>* busy, Nanos* busyTime, PairStationTally* tally) {
  const InstanceSpec& spec = cluster.instances[p];
  std::vector<Busy> intervals;
  std::vector<Change> kv;
  Nanos free = 0;
  const std::vector<Batch> batches = batchesOf(ways, p, cluster);
  for (const Batch& batch : batches) {
    if (batch.start < free) return "prefill: one batch at a time";
    free = batch.end;
    *busyTime += batch.end - batch.start;
    intervals.push_back({batch.start, batch.end});
    std::int64_t tokens = 0;
    for (const Way* w : batch.calls) {
      tokens += w->prompt;
      kv.push_back({batch.start, w->prompt});
      kv.push_back({w->moves ? w->there : w->first, -std::int64_t{w->prompt}});
      if (batch.start < w->leased) return "prefill: begins after its lease";
    }
    if (batch.calls.size() > 1 && tokens > spec.chunkTokens) return "prefill: budget of a batch";
  }
  if (mostOf(std::move(kv)) > spec.kvTokens) return "prefill: KV capacity";
  *busy = merged(std::move(intervals));
  for (const Batch& batch : batches) {
    for (const Way* w : batch.calls) {
      if (batch.start == w->leased) continue;
      ++tally->queuedOnP;
      if (!covers(*busy, w->leased, batch.start)) return "prefill: idle while a leased call waits";
    }
  }
  return "";
}

/// What one transfer has moved when it ends is what it had to move: at every moment at the pace that the
/// numbers of transfers at its two ends give. No more than the rounding of its end is missing or too much.
std::string linkLaw(const std::vector<Way>& ways, const ClusterSpec& cluster, Links links,
                    PairStationTally* tally) {
  struct Edge {
    Nanos t;
    bool begins;
    std::size_t flow;
  };
  std::vector<Edge> edges;
  std::vector<const Way*> flows;
  for (const Way& w : ways) {
    if (!w.moves) continue;
    ++tally->transfers;
    const InstanceSpec& p = cluster.instances[w.p];
    const InstanceSpec& d = cluster.instances[w.d];
    if (links == Links::kFree || w.moved == 0 || std::max(p.linkPerToken, d.linkPerToken) == 0) {
      const Nanos time = links == Links::kFree ? transferTime(p, d, w.moved) : linkLatency(p, d);
      if (w.there - w.sent != time) return "link: a free transfer takes its time alone";
      continue;
    }
    edges.push_back({w.sent + linkLatency(p, d), true, flows.size()});
    edges.push_back({w.there, false, flows.size()});
    flows.push_back(&w);
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.t != b.t ? a.t < b.t : a.begins != b.begins ? a.begins : a.flow < b.flow;
  });
  std::vector<std::vector<std::size_t>> at(cluster.instances.size());
  std::vector<long double> moved(flows.size());
  std::vector<Nanos> since(flows.size());
  std::vector<char> shared(flows.size());
  const auto pace = [&](const Way& w) {  // ns per token
    const auto one = [&](std::uint32_t m) {
      return static_cast<long double>(cluster.instances[m].linkPerToken) *
             static_cast<long double>(at[m].size());
    };
    return std::max(one(w.p), one(w.d)) / (1 << kFineBits);
  };
  const auto account = [&](std::uint32_t end, Nanos t) {
    for (const std::size_t f : at[end]) {
      if (t > since[f]) {
        moved[f] += static_cast<long double>(t - since[f]) / pace(*flows[f]);
        if (at[flows[f]->p].size() > 1 || at[flows[f]->d].size() > 1) shared[f] = 1;
      }
      since[f] = t;
    }
  };
  for (const Edge& e : edges) {
    const Way& w = *flows[e.flow];
    account(w.p, e.t);
    account(w.d, e.t);
    if (e.begins) {
      at[w.p].push_back(e.flow);
      at[w.d].push_back(e.flow);
      since[e.flow] = e.t;
      continue;
    }
    const long double wrong = (moved[e.flow] - static_cast<long double>(w.moved)) * pace(w);
    if (std::abs(wrong) > 0.51L) return "link: what it moves is what its ends let through";
    std::erase(at[w.p], e.flow);
    std::erase(at[w.d], e.flow);
  }
  for (const char s : shared) tally->shared += s ? 1 : 0;
  return "";
}

/// Sequences and KV within the limits, and never idle while KV waits for room that is there.
std::string decodeLaw(const std::vector<Way>& ways, const ClusterSpec& cluster, const PairOptions& options,
                      std::uint32_t d, std::vector<Busy>* busy, Nanos* busyTime, std::int64_t* peak,
                      PairStationTally* tally) {
  const InstanceSpec& spec = cluster.instances[d];
  const bool staged = options.staging == Staging::kUnlimited;
  std::vector<Busy> intervals;
  std::vector<Change> sequences, kv;
  std::vector<const Way*> own, waiting;
  for (const Way& w : ways) {
    if (w.d != d) continue;
    own.push_back(&w);
    if (!w.moves) continue;
    intervals.push_back({w.decode, w.end});
    sequences.push_back({w.decode, 1});
    sequences.push_back({w.end, -1});
    kv.push_back({w.decode, w.need});
    kv.push_back({w.end, -w.need});
    if (staged ? w.decode > w.there : w.sent > w.first) waiting.push_back(&w);
    if (staged ? w.sent != w.first : w.decode < w.there) return "decode: order of room and transfer";
  }
  if (mostOf(std::move(sequences)) > spec.maxSequences) return "decode: sequences";
  *peak = mostOf(std::move(kv));
  if (*peak > spec.kvTokens) return "decode: KV capacity";
  *busy = merged(std::move(intervals));
  for (const Busy& i : *busy) *busyTime += i.second - i.first;
  tally->waitedForRoom += waiting.size();
  // KV that is there and has room joins at the next boundary, which an idle instance always stands at.
  if (!staged) {
    for (const Way* w : own) {
      if (w->moves && !covers(*busy, w->there, w->decode)) return "decode: idle while KV and room are there";
    }
  }
  // Room: somebody who waits must not fit beside all that may hold room. With lateDecode what held room here
  // is not known.
  if (options.lateDecode) return "";
  for (const Way* w : waiting) {
    const Nanos from = staged ? w->there : w->first, to = staged ? w->decode : w->sent;
    // Moments at which it is idle and may become less full: the edge of each gap, and each end in it.
    for (Nanos t = from; t < to;) {
      const auto after = std::upper_bound(busy->begin(), busy->end(), Busy{t, kNever});
      if (after != busy->begin() && std::prev(after)->second > t) {
        t = std::prev(after)->second;
        continue;
      }
      // Idle at t. Who holds room?
      std::int64_t held = 0, most = 0;
      std::uint32_t count = 0;
      for (const Way* o : own) {
        const Nanos asks = staged ? o->there : o->first, given = staged ? o->decode : o->sent;
        if (o->moves && asks <= t && t < given) {
          most = std::max(most, o->need);
        } else if (o->leased <= t && t < o->end) {
          held += o->need;
          ++count;
        }
      }
      if (held + most <= spec.kvTokens && count + 1 <= spec.maxSequences)
        return "decode: idle while KV waits for room that is there";
      t = after == busy->end() ? to : after->first;
    }
  }
  return "";
}

/// While a call waits for a lease the prefill instance it waits for works; where the queue is shared, all of
/// them do. Deliberate exceptions, which a lease may wait for: KV and sequences of p, room on d, a plan.
std::string leaseLaw(const std::vector<Way>& ways, const ClusterSpec& cluster, const RunOptions& options,
                     const std::vector<std::vector<Busy>>& busy, PairStationTally* tally) {
  const bool plans = std::visit([](const auto& p) { return p.kPlans; }, options.pairPlacement) &&
                     options.binding == Binding::kAtCredit;
  const auto sequences = static_cast<std::int64_t>(ways.size());
  std::int64_t kv = 0;
  for (const Way& w : ways) kv += w.need;
  bool roomy = !plans && options.pairs.planning == Planning::kSync;
  for (const InstanceSpec& spec : cluster.instances)
    roomy = roomy && spec.kvTokens >= kv && spec.maxSequences >= sequences;
  for (const Way& w : ways) {
    if (w.ready == w.leased) continue;
    ++tally->queued;
    if (!roomy) continue;
    ++tally->heldUp;
    for (std::uint32_t m = 0; m < cluster.instances.size(); ++m) {
      if (cluster.instances[m].role != Role::kPrefill) continue;
      if (options.binding == Binding::kAtReveal && m != w.p) continue;
      if (!covers(busy[m], w.ready, w.leased)) return "queue: a prefill instance idles while a call waits";
    }
  }
  return "";
}

}  // namespace

std::string brokenLaw(const OwnedTrace& trace, const ClusterSpec& cluster, const RunOptions& options,
                      const Run& r, PairStationTally* tally) {
  const std::vector<Way> ways = waysOf(trace, options, r);
  tally->calls += ways.size();
  for (const Way& w : ways) {
    const bool causal =
        w.ready <= w.leased && w.leased < w.first &&
        (w.moves ? w.first <= w.sent && w.sent <= w.there && w.there <= w.decode && w.decode < w.end
                 : w.first == w.end);
    if (!causal) return "causality";
  }
  const std::size_t n = cluster.instances.size();
  if (!littleHolds(ways, countsOf(r.log, n, options.pairs.lateDecode), options.pairs.lateDecode))
    return "Little";

  std::vector<std::vector<Busy>> busy(n);
  std::array<double, 2> time{};
  std::array<int, 2> count{};
  double peak = 0;
  for (std::uint32_t m = 0; m < n; ++m) {
    const InstanceSpec& spec = cluster.instances[m];
    const bool decodes = spec.role == Role::kDecode;
    Nanos busyTime = 0;
    std::int64_t most = 0;
    const std::string broken =
        decodes ? decodeLaw(ways, cluster, options.pairs, m, &busy[m], &busyTime, &most, tally)
                : prefillLaw(ways, cluster, m, &busy[m], &busyTime, tally);
    if (!broken.empty()) return broken;
    time[decodes] += static_cast<double>(busyTime);
    ++count[decodes];
    if (decodes) peak = std::max(peak, static_cast<double>(most) / static_cast<double>(spec.kvTokens));
  }
  const auto makespan = static_cast<double>(r.result.makespan);
  if (makespan > 0 && r.result.prefillUtilisation != time[0] / count[0] / makespan)
    return "prefill: busy time is the sum of its batches";
  if (makespan > 0 && r.result.decodeUtilisation != time[1] / count[1] / makespan)
    return "decode: busy while and only while its batch is not empty";
  if (r.result.decodeKvPeak < peak || r.result.decodeKvPeak > 1) return "decode: KV peak";
  if (std::string broken = linkLaw(ways, cluster, options.pairs.links, tally); !broken.empty()) return broken;
  return leaseLaw(ways, cluster, options, busy, tally);
}

}  // namespace laxity::trial
