// Engines of prefill-decode clusters and their links, as naive as possible: every iteration and every
// transfer is visited with plain loops. Of the code under test they use the latency interface alone.
//
// A decode engine here begins an iteration whenever it can; one that began at t is taken back where something
// else happens at the same t, so that "an iteration ends at t" holds for the whole of that instant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "cluster/instance.h"
#include "cluster/pair_options.h"
#include "model/latency.h"

namespace laxity::stepping {

/// 2^-20 ns to ns, half up.
inline Nanos roundedOnce(__int128 fine) {
  __int128 ns = fine / (__int128{1} << 20);
  if (fine - ns * (__int128{1} << 20) >= (__int128{1} << 19)) ++ns;
  return static_cast<Nanos>(ns);
}

struct PairJob {
  std::uint32_t slot = 0;
  std::int64_t prompt = 0;
  std::int64_t output = 0;  ///< true tokens still to emit
  std::int64_t expected = 0;
  std::int64_t kv = 0;
  std::int64_t cached = 0;
  Nanos load = 0;
};

/// The engine's own eviction: what was emitted is prefilled with the prompt. False where no KV is left for a
/// token more.
template <class Job>
bool evictedAfter(Job* job, std::int64_t emitted, std::int64_t kvTokens) {
  job->prompt += emitted;
  job->cached = 0;
  job->load = 0;
  job->output -= emitted;
  job->expected = job->expected > emitted ? job->expected - emitted : emitted;
  const std::int64_t room = kvTokens - job->prompt;
  if (room < 1) return false;
  job->kv = job->prompt + std::min(job->expected, room);
  return true;
}

struct StepPrefill {
  InstanceSpec spec;
  const LatencyModel* latency = nullptr;
  std::deque<PairJob> queue;
  std::vector<PairJob> batch;
  std::vector<PairJob> keeping;  ///< prefilled, their KV still here
  Nanos began = 0;
  Nanos end = kNever;
  Nanos busy = 0;

  std::vector<PairJob> prefilled;

  std::int64_t kvUsed() const {
    std::int64_t tokens = 0;
    for (const PairJob& j : batch) tokens += j.prompt;
    for (const PairJob& j : keeping) tokens += j.prompt;
    return tokens;
  }
  void reach(Nanos t) {
    prefilled = batch;
    batch.clear();
    end = kNever;
    busy += t - began;
    for (const PairJob& j : prefilled) {
      if (j.output > 1) keeping.push_back(j);
    }
  }
  void left(std::uint32_t slot) {
    for (std::size_t i = 0; i < keeping.size(); ++i) {
      if (keeping[i].slot == slot) {
        keeping.erase(keeping.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
    }
  }
  void start(Nanos t) {
    if (!batch.empty()) return;
    std::int64_t tokens = 0;
    while (!queue.empty() && batch.size() < spec.maxSequences) {
      const PairJob& j = queue.front();
      if (kvUsed() + j.prompt > spec.kvTokens) break;
      if (!batch.empty() && tokens + j.prompt - j.cached > spec.chunkTokens) break;
      tokens += j.prompt - j.cached;
      batch.push_back(j);
      queue.pop_front();
    }
    if (batch.empty()) return;
    Nanos load = 0;
    std::vector<PrefillChunk> chunks;
    for (const PairJob& j : batch) {
      load += j.load;
      chunks.push_back(
          {static_cast<std::uint32_t>(j.cached), 0, static_cast<std::uint32_t>(j.prompt - j.cached)});
    }
    const Nanos time = batch.size() > 1 ? latency->prefillBatch(chunks)
                                        : latency->prefill(chunks[0].newTokens, chunks[0].cachedTokens);
    began = t;
    end = t + time + load;
  }
};

struct StepDecode {
  struct Decoding {
    PairJob job;
    std::int64_t context = 0;
    std::int64_t emitted = 0;
  };
  struct Waiting {
    PairJob job;
    bool again = false;
  };

  InstanceSpec spec;
  const LatencyModel* latency = nullptr;
  bool requeue = false;
  bool backfill = false;
  bool kvFirst = false;

  std::deque<Waiting> queue;
  std::vector<PairJob> rooms;
  std::vector<PairJob> arrivals;
  std::vector<Decoding> running;  ///< in the order in which they joined
  bool prefilling = false;
  bool iterating = false;
  bool pausing = false;  ///< what joined last does not fit the next iteration: another round of this instant
  PairJob current;
  Nanos began = 0;
  Nanos end = kNever;
  bool restart = true;
  Nanos origin = 0;
  __int128 sum = 0;
  __int128 sumBefore = 0;
  Nanos busy = 0;
  std::int64_t peak = 0;
  std::uint64_t iterations = 0;

  // With the last reach, join or start.
  std::vector<PairJob> finished;
  std::vector<Decoding> evicted;
  std::vector<std::uint32_t> hidden;
  std::vector<PairJob> overflowed;
  std::vector<std::uint32_t> joined;
  std::vector<std::uint32_t> given;

  bool holdsNothing() const {
    return queue.empty() && rooms.empty() && arrivals.empty() && running.empty() && !prefilling;
  }
  std::int64_t kvUsed() const { return kv(0); }
  /// With the iteration to come.
  std::int64_t need() const { return kv(1); }
  std::size_t sequences() const {
    return running.size() + rooms.size() + arrivals.size() + (prefilling ? 1 : 0);
  }
  bool stands(Nanos t) const { return !prefilling && (!iterating || began == t); }
  std::int64_t kvFree() const {
    std::int64_t free = spec.kvTokens - need();
    for (const Waiting& w : queue) free -= w.job.kv;
    return std::max<std::int64_t>(0, free);
  }
  std::uint32_t sequencesFree() const {
    const std::size_t taken = sequences() + queue.size();
    return taken < spec.maxSequences ? static_cast<std::uint32_t>(spec.maxSequences - taken) : 0;
  }

  void clear() {
    finished.clear();
    evicted.clear();
    hidden.clear();
    overflowed.clear();
    joined.clear();
  }

  /// Something of its own ends at t.
  void reach(Nanos t) {
    end = kNever;
    if (pausing) {
      pausing = false;
      return;
    }
    busy += t - began;
    if (prefilling) {
      prefilling = false;
      restart = true;
      if (current.output == 1)
        finished.push_back(current);
      else
        running.push_back({current, current.prompt + 1, 1});
      note();
      return;
    }
    iterating = false;
    ++iterations;
    for (Decoding& d : running) {
      ++d.context;
      ++d.emitted;
    }
    note();
    std::vector<Decoding> left;
    for (const Decoding& d : running) {
      if (d.emitted == d.job.output)
        finished.push_back(d.job);
      else
        left.push_back(d);
    }
    if (left.size() != running.size()) restart = true;
    running = left;
  }

  void join(Nanos t) {
    if (!stands(t)) return;
    if (arrivals.empty() && need() <= spec.kvTokens) return;
    takeBack(t);
    for (const PairJob& j : arrivals) {
      running.push_back({j, j.prompt + 1, 1});
      joined.push_back(j.slot);
      restart = true;
    }
    arrivals.clear();
    while (!running.empty() && need() > spec.kvTokens) {
      const Decoding d = running.back();
      running.pop_back();
      restart = true;
      if (!requeue)
        evicted.push_back(d);
      else
        putBack(d);
    }
  }

  void drop(std::uint32_t slot) {
    std::deque<Waiting> queued;
    for (const Waiting& w : queue) {
      if (w.again || w.job.slot != slot) queued.push_back(w);
    }
    queue = queued;
    for (std::vector<PairJob>* jobs : {&rooms, &arrivals}) {
      for (std::size_t i = jobs->size(); i-- > 0;) {
        if ((*jobs)[i].slot == slot) jobs->erase(jobs->begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  void arrive(std::uint32_t slot) {
    for (std::size_t i = 0; i < rooms.size(); ++i) {
      if (rooms[i].slot != slot) continue;
      arrivals.push_back(rooms[i]);
      rooms.erase(rooms.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  void start(Nanos t) {
    given.clear();
    if (!stands(t) || pausing) return;
    takeBack(t);
    bool chosen = false;
    for (std::size_t i = 0; i < queue.size();) {
      const Waiting w = queue[i];
      const bool fits = sequences() < spec.maxSequences && need() + w.job.kv <= spec.kvTokens;
      if (!fits || (w.again && chosen)) {
        if (!backfill) break;
        ++i;
        continue;
      }
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
      if (w.again) {
        chosen = prefilling = true;
        current = w.job;
      } else if (kvFirst) {
        running.push_back({w.job, w.job.prompt + 1, 1});
        given.push_back(w.job.slot);
        restart = true;
      } else {
        rooms.push_back(w.job);
        given.push_back(w.job.slot);
      }
      note();
    }
    began = t;
    if (prefilling) {
      end = t + current.load +
            latency->prefill(static_cast<std::uint32_t>(current.prompt - current.cached),
                             static_cast<std::uint32_t>(current.cached));
      return;
    }
    if (running.empty()) return;
    if (need() > spec.kvTokens) {
      pausing = true;
      end = t;
      return;
    }
    if (restart) {
      restart = false;
      origin = t;
      sum = 0;
    }
    std::int64_t context = 0;
    for (const Decoding& d : running) context += d.context;
    const DecodePiece piece = latency->piece(static_cast<std::uint32_t>(running.size()), context);
    sumBefore = sum;
    sum += __int128{piece.base} + __int128{piece.perContext} * context;
    iterating = true;
    end = origin + roundedOnce(sum);
  }

 private:
  std::int64_t kv(std::int64_t ahead) const {
    std::int64_t tokens = prefilling ? current.kv : 0;
    for (const Decoding& d : running) tokens += std::max(d.job.kv, d.context + ahead);
    for (const PairJob& j : rooms) tokens += j.kv;
    for (const PairJob& j : arrivals) tokens += j.kv;
    return tokens;
  }
  void note() { peak = std::max(peak, kvUsed()); }
  void takeBack(Nanos t) {
    if (!iterating || began != t) return;
    iterating = false;
    end = kNever;
    sum = sumBefore;
  }
  void putBack(const Decoding& d) {
    hidden.push_back(d.job.slot);
    PairJob job = d.job;
    if (evictedAfter(&job, d.emitted, spec.kvTokens))
      queue.push_front({job, true});
    else
      overflowed.push_back(job);
  }
};

struct StepLinks {
  struct Flow {
    std::uint32_t slot = 0, from = 0, to = 0;
    std::int64_t tokens = 0;
    std::uint64_t number = 0;
    Nanos moves = 0;  ///< from then on
    bool moving = false;
    __int128 left = 0;  ///< 2^-40 tokens
    __int128 pace = 0;
    Nanos since = 0;
    Nanos end = kNever;
  };
  std::vector<InstanceSpec> ends;
  bool contended = true;
  std::vector<Flow> flows;  ///< in the order in which they started

  void start(std::uint32_t slot, std::uint32_t from, std::uint32_t to, std::int64_t tokens, Nanos t) {
    Flow f{slot, from, to, tokens, started_++};
    const Nanos latency = std::max(ends[from].linkLatency, ends[to].linkLatency);
    const __int128 alone = __int128{std::max(ends[from].linkPerToken, ends[to].linkPerToken)} * tokens;
    f.moves = t + latency;
    f.left = __int128{tokens} << 40;
    if (!contended || alone == 0) {
      f.moves = kNever;
      f.end = t + latency + roundedOnce(alone);
    }
    flows.push_back(f);
  }
  Nanos next() const {
    Nanos t = kNever;
    for (const Flow& f : flows) t = std::min(t, f.moving || f.moves == kNever ? f.end : f.moves);
    return t;
  }
  std::vector<Flow> advance(Nanos t) {
    std::vector<Flow> done;
    while (next() == t) step(t, &done);  // a transfer may end as soon as its latency is over
    std::sort(done.begin(), done.end(), [](const Flow& a, const Flow& b) { return a.number < b.number; });
    return done;
  }

 private:
  std::uint64_t started_ = 0;

  void step(Nanos t, std::vector<Flow>* done) {
    std::vector<Flow> rest;
    for (Flow f : flows) {
      if (!f.moving && f.moves == t) f.moving = true;
      if (f.end == t)
        done->push_back(f);
      else
        rest.push_back(f);
    }
    flows = rest;
    for (Flow& f : flows) {
      if (!f.moving) continue;
      std::int64_t atFrom = 0;
      std::int64_t atTo = 0;
      for (const Flow& g : flows) {
        atFrom += g.moving && g.from == f.from ? 1 : 0;
        atTo += g.moving && g.to == f.to ? 1 : 0;
      }
      const __int128 pace =
          std::max(__int128{ends[f.from].linkPerToken} * atFrom, __int128{ends[f.to].linkPerToken} * atTo);
      if (pace == f.pace) continue;
      if (f.pace != 0) f.left = std::max<__int128>(0, f.left - ((__int128{t - f.since} << 60) / f.pace));
      f.pace = pace;
      f.since = t;
      f.end = t + static_cast<Nanos>((f.left * pace + (__int128{1} << 59)) >> 60);
    }
  }
};

}  // namespace laxity::stepping
