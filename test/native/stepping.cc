#include "stepping.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

#include "naive_line.h"
#include "pair_stepping.h"

namespace laxity::stepping {
namespace {

/// Sums in units of 2^-20 ns, rounded half up.
Nanos roundOnce(__int128 fine) {
  const __int128 doubled = fine * 2 + (__int128{1} << 20);
  __int128 ns = doubled / (__int128{1} << 21);
  if (doubled < 0 && ns * (__int128{1} << 21) != doubled) --ns;
  return static_cast<Nanos>(ns);
}

struct Job {
  std::uint32_t row = 0;
  std::int64_t prompt = 0;
  std::int64_t output = 0;  ///< true tokens still to emit
  std::int64_t expected = 0;
  std::int64_t kv = 0;
  std::int64_t cached = 0;  ///< of the prompt
  Nanos load = 0;
  bool again = false;  ///< re-queued by the engine itself
};

struct Decoding {
  Job job;
  std::int64_t context = 0;
  std::int64_t emitted = 0;
  std::int64_t nextNeed() const { return std::max(job.kv, context + 1); }
};

/// A prefill of mode chunked.
struct Cut {
  Job job;
  std::int64_t done = 0;
  std::int64_t take = 0;  ///< of the iteration in progress
  std::int64_t left() const { return job.prompt - job.cached - done; }
};

/// Work of mode decode-share, in 2^-20 ns / 1000.
using Work = __int128;
constexpr std::int64_t kWhole = 1000;

struct StepEngine {
  InstanceSpec spec;
  const LatencyModel* latency = nullptr;
  bool requeue = false;
  NaiveLine cache;

  std::deque<Job> queue;
  std::vector<Decoding> running;  ///< in the order in which they joined
  bool prefilling = false;
  bool iterating = false;
  Job current;
  std::vector<Job> batch;  ///< prefilled together with `current`
  Nanos end = kNever;
  bool restart = true;
  Nanos origin = 0;
  __int128 sum = 0;
  std::uint64_t iterations = 0;

  std::vector<Cut> cuts;      ///< chunked: of the iteration in progress, or the one that was cut
  std::vector<Cut> previous;  ///< chunked: of the iteration before
  Nanos loading = 0;          ///< chunked: what the iteration in progress fetches from slower tiers

  std::vector<Job> joining;  ///< decode-share: prefilled during the iteration in progress
  Work prefillLeft = 0;
  Work iterationLeft = 0;
  std::int64_t prefillSpeed = 0;
  std::int64_t decodeSpeed = 0;
  Nanos last = 0;       ///< when both were last brought up to date
  bool stands = false;  ///< decode-share: at a boundary, since something ended at this instant

  // What happened at the boundary just reached.
  std::vector<Job> prefilled;
  std::vector<Decoding> evicted;
  std::vector<Job> finished;
  std::vector<Job> overflowed;
  std::vector<std::uint32_t> hidden;

  bool busy() const { return spec.mode == EngineMode::kDecodeShare ? !stands && !idle() : !idle(); }
  bool idle() const { return !prefilling && !iterating; }
  /// Of running calls at the end of the iteration in progress or to come, and of all that is being prefilled.
  std::int64_t need() const {
    std::int64_t tokens = 0;
    for (const Decoding& d : running) tokens += d.nextNeed();
    for (const Cut& c : cuts) tokens += c.job.kv;
    for (const Job& job : joining) tokens += job.kv;
    if (spec.mode == EngineMode::kDecodeShare && prefilling) tokens += current.kv;
    return tokens;
  }
  std::size_t sequences() const {
    const bool one = spec.mode == EngineMode::kDecodeShare && prefilling;
    return running.size() + cuts.size() + joining.size() + (one ? 1 : 0);
  }
  bool headFits() const {
    return !queue.empty() && sequences() < spec.maxSequences && need() + queue.front().kv <= spec.kvTokens;
  }

  // What it reports at a boundary.
  std::int64_t kvFree() const {
    std::int64_t free = spec.kvTokens - need();
    for (const Job& job : queue) free -= job.kv;
    return std::max<std::int64_t>(0, free);
  }
  std::uint32_t sequencesFree() const {
    const std::size_t taken = sequences() + queue.size();
    return taken < spec.maxSequences ? static_cast<std::uint32_t>(spec.maxSequences - taken) : 0;
  }
  std::uint32_t prefillFree() const {
    if (spec.mode == EngineMode::kPrefillFirst && spec.chunkTokens > 0)
      return queue.empty() && !prefilling ? spec.chunkTokens : 0;
    if (spec.mode != EngineMode::kChunked) return queue.empty() && !prefilling ? 1 : 0;
    std::int64_t free = std::int64_t{spec.chunkTokens} - static_cast<std::int64_t>(running.size());
    for (const Cut& c : cuts) free -= c.left();
    for (const Job& job : queue) free -= job.prompt - job.cached;
    return static_cast<std::uint32_t>(std::max<std::int64_t>(0, free));
  }

  void reach(Nanos t) {
    prefilled.clear();
    evicted.clear();
    finished.clear();
    overflowed.clear();
    hidden.clear();
    if (spec.mode == EngineMode::kDecodeShare) {
      reachShared(t);
      return;
    }
    if (prefilling) {
      endPrefill(current);
      for (const Job& job : batch) endPrefill(job);
      batch.clear();
    } else {
      endIteration();
    }
    prefilling = iterating = false;
    end = kNever;
    evict();
  }

  void endPrefill(const Job& job) {
    prefilled.push_back(job);
    if (job.output == 1)
      finished.push_back(job);
    else
      running.push_back({job, job.prompt + 1, 1});
  }

  void endIteration() {
    ++iterations;
    std::vector<Decoding> left;
    for (Decoding d : running) {
      ++d.context;
      ++d.emitted;
      if (d.emitted == d.job.output)
        finished.push_back(d.job);
      else
        left.push_back(d);
    }
    if (left.size() != running.size()) restart = true;
    running = left;
    std::vector<Cut> rest;
    previous = cuts;
    for (Cut c : cuts) {
      c.done += c.take;
      if (c.left() > 0) {
        rest.push_back(c);
      } else {
        endPrefill(c.job);
        restart = true;
      }
    }
    cuts = rest;
  }

  void evict() {
    while (!running.empty() && need() > spec.kvTokens) {
      const Decoding d = running.back();
      running.pop_back();
      restart = true;
      if (requeue)
        putBack(d);
      else
        evicted.push_back(d);
    }
  }

  void putBack(const Decoding& d) {
    hidden.push_back(d.job.row);
    Job job = d.job;
    job.again = true;
    if (evictedAfter(&job, d.emitted, spec.kvTokens))
      queue.push_front(job);
    else
      overflowed.push_back(job);
  }

  std::int64_t context() const {
    std::int64_t tokens = 0;
    for (const Decoding& d : running) tokens += d.context;
    return tokens;
  }

  void start(Nanos t) {
    if (spec.mode == EngineMode::kChunked) startChunked(t);
    if (spec.mode == EngineMode::kDecodeShare) startShared(t);
    if (spec.mode != EngineMode::kPrefillFirst) return;
    if (busy()) return;
    if (headFits()) {
      current = queue.front();
      queue.pop_front();
      prefilling = restart = true;
      Nanos load = current.load;
      std::int64_t tokens = current.prompt - current.cached;
      std::int64_t kv = need() + current.kv;
      const auto chunk = [](const Job& job) {
        return PrefillChunk{static_cast<std::uint32_t>(job.cached), 0,
                            static_cast<std::uint32_t>(job.prompt - job.cached)};
      };
      std::vector<PrefillChunk> chunks{chunk(current)};
      while (spec.chunkTokens > 0 && !queue.empty()) {
        const Job& next = queue.front();
        if (tokens + next.prompt - next.cached > spec.chunkTokens) break;
        if (running.size() + chunks.size() >= spec.maxSequences || kv + next.kv > spec.kvTokens) break;
        tokens += next.prompt - next.cached;
        kv += next.kv;
        load += next.load;
        chunks.push_back(chunk(next));
        batch.push_back(next);
        queue.pop_front();
      }
      end = t + load + latency->prefillBatch(chunks);
      return;
    }
    if (running.empty()) return;
    if (restart) {
      restart = false;
      origin = t;
      sum = 0;
    }
    const DecodePiece piece = latency->piece(static_cast<std::uint32_t>(running.size()), context());
    sum += __int128{piece.base} + __int128{piece.perContext} * context();
    iterating = true;
    end = origin + roundOnce(sum);
  }

  // --- chunked

  void startChunked(Nanos t) {
    if (busy()) return;
    std::int64_t budget = spec.chunkTokens;
    for (std::size_t i = 0; i < running.size(); ++i) --budget;
    for (Cut& c : cuts) {
      c.take = std::min(budget, c.left());
      budget -= c.take;
    }
    Nanos load = 0;
    while (budget > 0 && headFits()) {
      Cut c;
      c.job = queue.front();
      queue.pop_front();
      c.take = std::min(budget, c.left());
      budget -= c.take;
      load += c.job.load;
      cuts.push_back(c);
    }
    if (running.empty() && cuts.empty()) return;
    if (restart || load > 0 || loading > 0 || !alike()) {
      restart = false;
      origin = t;
      sum = 0;
    }
    std::vector<PrefillChunk> chunks;
    for (const Cut& c : cuts)
      chunks.push_back({static_cast<std::uint32_t>(c.job.cached), static_cast<std::uint32_t>(c.done),
                        static_cast<std::uint32_t>(c.take)});
    const DecodePiece piece =
        latency->mixed(static_cast<std::uint32_t>(running.size()), context(), chunks).decode;
    loading = load;
    sum += __int128{piece.base} + __int128{piece.perContext} * context() + (__int128{load} << 20);
    iterating = true;
    end = origin + roundOnce(sum);
  }

  /// The iteration to come repeats the one before: no chunks, or one prefill that was cut and will be cut
  /// again at the same size.
  bool alike() const {
    if (cuts.empty() && previous.empty()) return true;
    if (cuts.size() != 1 || previous.size() != 1) return false;
    const Cut& now = cuts.front();
    const Cut& before = previous.front();
    return now.done == before.done + before.take && now.take == before.take && now.left() > now.take;
  }

  // --- decode-share

  static Nanos lasts(Work left, std::int64_t speed) {
    const Work perNano = Work{speed} * (1 << 20);
    Nanos t = static_cast<Nanos>(left / perNano);
    while (Work{t} * perNano < left) ++t;
    return t;
  }

  void bringUpToDate(Nanos t) {
    if (prefilling) prefillLeft -= Work{t - last} * prefillSpeed * (1 << 20);
    if (iterating) iterationLeft -= Work{t - last} * decodeSpeed * (1 << 20);
    last = t;
  }

  void reachShared(Nanos t) {
    bringUpToDate(t);
    stands = true;
    end = kNever;
    if (iterating && iterationLeft <= 0) {
      iterating = false;
      endIteration();
      for (const Job& job : joining) running.push_back({job, job.prompt + 1, 1});
      if (!joining.empty()) restart = true;
      joining.clear();
    }
    if (prefilling && prefillLeft <= 0) {
      prefilling = false;
      prefilled.push_back(current);
      if (current.output == 1) {
        finished.push_back(current);
      } else if (iterating) {
        joining.push_back(current);
      } else {
        running.push_back({current, current.prompt + 1, 1});
        restart = true;
      }
    }
    if (!iterating) evict();
  }

  void startShared(Nanos t) {
    bringUpToDate(t);
    stands = false;
    if (!prefilling && headFits()) {
      current = queue.front();
      queue.pop_front();
      prefilling = true;
      prefillLeft =
          Work{current.load + latency->prefill(static_cast<std::uint32_t>(current.prompt - current.cached),
                                               static_cast<std::uint32_t>(current.cached))} *
          (1 << 20) * kWhole;
    }
    if (!iterating && !running.empty()) {
      if (restart) iterationLeft = 0;  // else what the last iteration has done of this one
      restart = false;
      const DecodePiece piece = latency->piece(static_cast<std::uint32_t>(running.size()), context());
      iterationLeft += (Work{piece.base} + Work{piece.perContext} * context()) * kWhole;
      iterating = true;
    }
    const bool both = prefilling && iterating;
    decodeSpeed = both ? spec.decodeShare : kWhole;
    prefillSpeed = both ? kWhole - spec.decodeShare : kWhole;
    end = kNever;
    if (prefilling) end = std::min(end, t + lasts(prefillLeft, prefillSpeed));
    if (iterating) end = std::min(end, t + lasts(iterationLeft, decodeSpeed));
  }
};

struct Row {
  bool named = false;
  Ref ref;
  std::uint32_t epoch = 0;
  std::uint32_t generated = 0;
  std::uint32_t pending = 0;
  std::uint32_t workflow = 0;
  std::vector<std::uint32_t> parents;
  std::vector<std::uint32_t> children;

  // prefill-decode: of the present attempt
  std::uint32_t from = kNoSlot;
  std::uint32_t to = kNoSlot;
  std::int64_t prompt = 0;
  std::int64_t output = 0;
  std::int64_t expected = 0;
  bool asked = false;
  bool room = false;
  bool held = false;  ///< its KV waits on p for room
};

struct Flow {
  Ref ref;
  Nanos arrival = 0;
  std::uint32_t unfinished = 0;
  bool aborted = false;
  bool closed = false;
};

struct World {
  const TraceColumns& c;
  const ClusterSpec& cluster;
  const RunOptions& options;
  Scheduler scheduler;
  std::vector<StepEngine> engines;
  std::vector<Row> rows;
  std::vector<Flow> flows;
  std::vector<std::uint32_t> rowOfSlot;
  std::multimap<Nanos, std::uint32_t> gaps;  ///< equal times keep the order of insertion
  std::vector<std::uint32_t> reveals;
  std::vector<std::uint32_t> over;
  std::vector<std::uint32_t> misjudged;  ///< engines whose leases found another prefix than hinted
  std::uint32_t arrived = 0;
  bool news = false;
  Result result;

  bool paired = false;
  std::vector<StepPrefill> prefills;  ///< by instance, as are the next
  std::vector<StepDecode> decodes;
  StepLinks links;

  World(const Trace& trace, const ClusterSpec& clusterSpec, const RunOptions& runOptions,
        SchedulerConfig config)
      : c(trace.columns()), cluster(clusterSpec), options(runOptions), scheduler(std::move(config)) {}

  bool early() const {
    return options.knowledge == Knowledge::kDeclared || options.knowledge == Knowledge::kOracle;
  }
  bool boundary() const { return options.feedback == Feedback::kBoundary; }
  Nanos gapOf(std::uint32_t row) const { return c.toolGapMs == nullptr ? 0 : fromMs(c.toolGapMs[row]); }
  CallAttempt attempt(std::uint32_t row) const { return {rows[row].ref, rows[row].epoch}; }
  void tell(Status s) {
    news = true;
    if (!ok(s) && ok(result.status)) result.status = s;
  }

  /// Prefill plus every decode iteration of the call alone, averaged over the instances of its model.
  Nanos meanTime(std::int32_t model, std::uint32_t prompt, std::uint32_t output) const {
    __int128 total = 0;
    std::int64_t count = 0;
    for (const InstanceSpec& m : cluster.instances) {
      if (model >= 0 && m.model != model) continue;
      const LatencyModel& latency = cluster.latencies[m.latency];
      __int128 decode = 0;
      for (std::int64_t i = 1; i < output; ++i) {
        const std::int64_t context = std::int64_t{prompt} + i;
        const DecodePiece piece = latency.piece(1, context);
        decode += __int128{piece.base} + __int128{piece.perContext} * context;
      }
      total += latency.prefill(prompt, 0) + roundOnce(decode);
      ++count;
    }
    return count == 0 ? 0 : static_cast<Nanos>(total / count);
  }

  static Nanos decodeOf(const LatencyModel& latency, std::uint32_t prompt, std::uint32_t output) {
    __int128 decode = 0;
    for (std::int64_t i = 1; i < output; ++i) {
      const std::int64_t context = std::int64_t{prompt} + i;
      const DecodePiece piece = latency.piece(1, context);
      decode += __int128{piece.base} + __int128{piece.perContext} * context;
    }
    return roundOnce(decode);
  }
  std::int64_t moving(std::int64_t prompt) const {
    return prompt - static_cast<std::int64_t>(options.pairs.overlap * static_cast<double>(prompt));
  }
  Nanos transferAlone(std::uint32_t p, std::uint32_t d, std::int64_t prompt) const {
    const InstanceSpec& a = cluster.instances[p];
    const InstanceSpec& b = cluster.instances[d];
    return std::max(a.linkLatency, b.linkLatency) +
           roundOnce(__int128{std::max(a.linkPerToken, b.linkPerToken)} * moving(prompt));
  }
  bool holds(std::uint32_t m, Role role, std::int32_t model, std::int64_t kv) const {
    const InstanceSpec& i = cluster.instances[m];
    return i.role == role && (model < 0 || (i.model == model && kv <= i.kvTokens));
  }

  /// Prefill over the prefill instances, decode over the decode instances, transfer over the pairs; a
  /// template's (model < 0) knows neither models nor transfers.
  Nanos meanPair(std::int32_t model, std::uint32_t prompt, std::uint32_t output) const {
    __int128 sum[3] = {0, 0, 0};
    std::int64_t count[3] = {0, 0, 0};
    const std::int64_t kv = std::int64_t{prompt} + output;
    for (std::uint32_t d = 0; d < cluster.instances.size(); ++d) {
      if (!holds(d, Role::kDecode, model, kv)) continue;
      sum[1] += decodeOf(cluster.latencies[cluster.instances[d].latency], prompt, output);
      ++count[1];
    }
    for (std::uint32_t p = 0; p < cluster.instances.size(); ++p) {
      if (!holds(p, Role::kPrefill, model, prompt) || count[1] == 0) continue;
      sum[0] += cluster.latencies[cluster.instances[p].latency].prefill(prompt, 0);
      ++count[0];
      for (std::uint32_t d = 0; d < cluster.instances.size() && model >= 0; ++d) {
        if (!holds(d, Role::kDecode, model, kv)) continue;
        sum[2] += transferAlone(p, d, prompt);
        ++count[2];
      }
    }
    if (count[0] == 0) return 0;
    Nanos mean = 0;
    for (int i = 0; i < 3; ++i) mean += count[i] == 0 ? 0 : static_cast<Nanos>(sum[i] / count[i]);
    return mean;
  }

  /// List scheduling on a private idle cluster: every call, as declared, where it ends first.
  Nanos horizonOf(std::uint32_t w) const {
    std::vector<Nanos> free(cluster.instances.size(), 0);
    std::vector<Nanos> end(c.firstCall[w + 1] - c.firstCall[w], 0);
    Nanos longest = 0;
    for (std::uint32_t row = c.firstCall[w]; row < c.firstCall[w + 1]; ++row) {
      Nanos start = 0;
      for (std::uint32_t p : rows[row].parents) start = std::max(start, end[p - c.firstCall[w]]);
      start += gapOf(row);
      const std::int32_t model = c.model == nullptr ? 0 : c.model[row];
      const std::uint32_t prompt = c.promptTokens[row];
      const std::uint32_t output = c.outputTokens[row];
      const std::int64_t kv = std::int64_t{prompt} + output;
      Nanos bestEnd = kNever, bestExec = kNever, bestPrefill = 0;
      std::uint64_t bestTie = 0;
      std::uint32_t best = kNoSlot;
      for (std::uint32_t m = 0; m < cluster.instances.size(); ++m) {
        const LatencyModel& latency = cluster.latencies[cluster.instances[m].latency];
        const Nanos prefill = latency.prefill(prompt, 0);
        Nanos rest = kNever;
        if (paired) {
          for (std::uint32_t d = 0; d < cluster.instances.size(); ++d) {
            if (!holds(d, Role::kDecode, model, kv)) continue;
            const Nanos decode = decodeOf(cluster.latencies[cluster.instances[d].latency], prompt, output);
            rest = std::min(rest, output == 1 ? 0 : transferAlone(m, d, prompt) + decode);
          }
          if (!holds(m, Role::kPrefill, model, prompt) || rest == kNever) continue;
        } else {
          if (!holds(m, Role::kUnified, model, kv)) continue;
          rest = decodeOf(latency, prompt, output);
        }
        const Nanos finish = std::max(start, free[m]) + prefill + rest;
        const std::uint64_t tie = scheduler.cluster().at(m).tie;
        if (std::tuple(finish, prefill + rest, tie) < std::tuple(bestEnd, bestExec, bestTie)) {
          bestEnd = finish;
          bestExec = prefill + rest;
          bestTie = tie;
          bestPrefill = prefill;
          best = m;
        }
      }
      if (best == kNoSlot) continue;
      free[best] = bestEnd - bestExec + bestPrefill;
      end[row - c.firstCall[w]] = bestEnd;
      longest = std::max(longest, bestEnd);
    }
    return longest;
  }

  bool declaresSlo(std::uint32_t w) const { return c.sloMs != nullptr && c.sloMs[w] == c.sloMs[w]; }

  Nanos baseOf(std::uint32_t w) const {
    if (options.sloBase == SloBase::kHorizon) return horizonOf(w);
    if (declaresSlo(w)) return fromMs(c.sloMs[w]);
    if (options.sloBase == SloBase::kTemplate && !cluster.templates.empty()) {
      Nanos sum = 0;
      for (const TemplateEntry& e : cluster.templates[0]) {
        sum += paired ? meanPair(-1, e.promptTokens, e.outputTokens)
                      : meanTime(-1, e.promptTokens, e.outputTokens);
      }
      if (sum > 0) return sum;
    }
    std::vector<Nanos> end(c.firstCall[w + 1] - c.firstCall[w], 0);
    Nanos longest = 0;
    for (std::uint32_t row = c.firstCall[w]; row < c.firstCall[w + 1]; ++row) {
      Nanos start = 0;
      for (std::uint32_t p : rows[row].parents) start = std::max(start, end[p - c.firstCall[w]]);
      const std::int32_t model = c.model == nullptr ? 0 : c.model[row];
      const Nanos mean = paired ? meanPair(model, c.promptTokens[row], c.outputTokens[row])
                                : meanTime(model, c.promptTokens[row], c.outputTokens[row]);
      end[row - c.firstCall[w]] = start + gapOf(row) + mean;
      longest = std::max(longest, end[row - c.firstCall[w]]);
    }
    return longest;
  }

  /// What an endless cache would spare the call.
  std::uint32_t sharedTokens(std::uint32_t row, std::uint32_t prompt) const {
    if (c.cachedTokens == nullptr || prompt < 16) return 0;
    std::uint32_t tokens = c.cachedTokens[row];
    while (tokens % 16 != 0 || tokens > prompt - 16) --tokens;
    return tokens;
  }

  /// The two best holders at this moment.
  void hint(std::uint32_t row, Reveal* e) const {
    std::vector<CachedPrefix> holders;
    for (std::uint32_t m = 0; m < engines.size(); ++m) {
      if (engines[m].spec.model != e->model) continue;
      const FoundPrefix found = engines[m].cache.find(rows[row].workflow, sharedTokens(row, e->promptTokens),
                                                      e->promptTokens, *engines[m].latency);
      if (found.tokens > 0)
        holders.push_back({m, found.tokens, static_cast<std::uint32_t>(std::ceil(found.load / 1000.0L))});
    }
    std::stable_sort(holders.begin(), holders.end(), [](const CachedPrefix& a, const CachedPrefix& b) {
      return a.tokens > b.tokens || (a.tokens == b.tokens && a.loadUs < b.loadUs);
    });
    for (std::size_t i = 0; i < 2 && i < holders.size(); ++i) e->cached[i] = holders[i];
  }

  std::uint32_t wrongly(std::uint32_t tokens, double factor, std::uint32_t row) const {
    std::int64_t room = 0;
    for (const InstanceSpec& m : cluster.instances) {
      if (m.model != (c.model == nullptr ? 0 : c.model[row]) || m.role == Role::kPrefill) continue;
      const double limit =
          std::floor(static_cast<double>(m.kvTokens) * options.parameters[Parameter::kOvercommit]);
      room = std::max(room, std::min(m.kvTokens, static_cast<std::int64_t>(limit)) - c.promptTokens[row]);
    }
    const auto most = static_cast<double>(std::max<std::int64_t>(room, tokens));
    return static_cast<std::uint32_t>(
        std::min(most, std::max(1.0, std::floor(static_cast<double>(tokens) * factor + 0.5))));
  }

  void reveal(std::uint32_t row, Nanos t, bool beforehand) {
    Row& r = rows[row];
    if (flows[r.workflow].aborted) return;
    r.named = true;
    r.ref = {static_cast<std::uint32_t>(rowOfSlot.size()), 7};
    rowOfSlot.push_back(row);
    std::vector<Ref> parents;
    for (std::uint32_t p : r.parents) parents.push_back(rows[p].ref);
    Reveal e{};
    e.call = r.ref;
    e.workflow = flows[r.workflow].ref;
    e.stage = c.stage[row];
    e.model = c.model == nullptr ? 0 : c.model[row];
    e.sequences = 1;
    e.toolPending = beforehand && gapOf(row) > 0 ? 1 : 0;
    e.promptTokens = c.promptTokens[row];
    const bool truth = options.knowledge == Knowledge::kOracle || c.predictedTokens == nullptr;
    e.predictedTokens = e.predictedHigh = truth ? c.outputTokens[row] : c.predictedTokens[row];
    if (options.error.lengths() && options.knowledge != Knowledge::kOracle) {
      const LengthErrors errors(options.error);
      e.predictedTokens = wrongly(e.predictedTokens, errors.factor(r.workflow, row), row);
      e.predictedHigh = wrongly(e.predictedTokens, errors.high(), row);
    }
    e.cached[0] = e.cached[1] = CachedPrefix{};
    hint(row, &e);
    e.remaining = -1;
    tell(scheduler.reveal(t, e, parents));
  }

  void becomesReady(std::uint32_t row, Nanos t) {
    result.calls[row].ready = t + gapOf(row);
    if (gapOf(row) > 0)
      gaps.insert({t + gapOf(row), row});
    else if (!early())
      reveals.push_back(row);
  }

  void engineEvents(Nanos t, const std::vector<std::uint32_t>& due) {
    for (std::uint32_t m : due) engines[m].reach(t);
    for (std::uint32_t m : due) {
      for (const Job& job : engines[m].prefilled) {
        engines[m].cache.touch(rows[job.row].workflow, job.prompt);
        if (job.again) continue;  // unseen: its first token was seen before
        CallResult& r = result.calls[job.row];
        if (r.firstToken < 0) r.firstToken = t;
        tell(scheduler.firstToken(t, {attempt(job.row)}));
      }
      for (std::uint32_t row : engines[m].hidden) ++result.calls[row].hiddenEvictions;
    }
    for (std::uint32_t m : due) {
      for (const Decoding& d : engines[m].evicted) isEvicted(d.job.row, d.emitted, t);
    }
    for (std::uint32_t m : due) {
      for (const Job& job : engines[m].finished) {
        engines[m].cache.touch(rows[job.row].workflow, c.promptTokens[job.row] + c.outputTokens[job.row]);
        isFinished(job.row, t);
      }
    }
    for (std::uint32_t m : due) {
      for (const Job& job : engines[m].overflowed) isOverflowed(job.row, Leg::kUnified, t);
    }
  }

  void isEvicted(std::uint32_t row, std::int64_t emitted, Nanos t) {
    Row& r = rows[row];
    tell(scheduler.evicted(t, {attempt(row), static_cast<std::uint32_t>(emitted)}));
    r.generated += static_cast<std::uint32_t>(emitted);
    ++r.epoch;
    ++result.calls[row].evictions;
    ++result.evictions;
  }

  void isFinished(std::uint32_t row, Nanos t) {
    Row& r = rows[row];
    tell(scheduler.finished(t, {attempt(row), c.outputTokens[row] - r.generated}));
    result.calls[row].finished = t;
    ++result.finished;
    Flow& w = flows[r.workflow];
    if (!w.aborted) {
      for (std::uint32_t child : r.children) {
        if (--rows[child].pending == 0) becomesReady(child, t);
      }
    }
    if (--w.unfinished == 0) over.push_back(r.workflow);
  }

  void isOverflowed(std::uint32_t row, Leg leg, Nanos t) {
    Row& r = rows[row];
    tell(scheduler.failed(t, {attempt(row), FailureClass::kFault, leg, 0, 0, 0, 0}));
    // Final with the third failure (CONTRACT 3), or where nobody needs the call any more.
    if (!ok(scheduler.graph().findCall(r.ref)) || terminal(scheduler.graph().call(r.ref.slot).state)) {
      flows[r.workflow].aborted = true;
      over.push_back(r.workflow);
    } else {
      ++r.epoch;
      ++result.evictions;
    }
  }

  // --- prefill-decode clusters (CONTRACT 2, 8)

  void ask(std::uint32_t row) {
    Row& r = rows[row];
    r.asked = true;
    decodes[r.to].queue.push_back(
        {{row, r.prompt, r.output, r.expected, r.prompt + r.expected, 0, 0}, false});
  }

  void send(std::uint32_t row, Nanos t) {
    Row& r = rows[row];
    r.held = false;
    links.start(row, r.from, r.to, moving(r.prompt), t);
    result.calls[row].transferStart = t;
  }

  void pairPrefilled(std::uint32_t row, Nanos t) {
    Row& r = rows[row];
    engines[r.from].cache.touch(r.workflow, static_cast<std::uint32_t>(r.prompt));
    if (result.calls[row].firstToken < 0) result.calls[row].firstToken = t;
    tell(scheduler.firstToken(t, {attempt(row)}));
    const PairOptions& o = options.pairs;
    if (r.output == 1) {
      decodes[r.to].drop(row);
      return;
    }
    const std::uint32_t d = scheduler.pairs()->call(r.ref.slot).decode;
    if (d != r.to) {
      decodes[r.to].drop(row);
      r.asked = r.room = false;
      r.to = d;
      result.calls[row].decodeInstance = d;
    }
    r.held = true;
    if (o.staging == Staging::kUnlimited || r.room)
      send(row, t);
    else if (o.admission == DecodeAdmission::kEngine && !r.asked)
      ask(row);
  }

  void pairEvents(Nanos t) {
    for (std::uint32_t m = 0; m < engines.size(); ++m) {
      prefills[m].prefilled.clear();
      decodes[m].clear();
      if (prefills[m].end == t) prefills[m].reach(t);
      if (decodes[m].end == t) decodes[m].reach(t);
    }
    for (StepPrefill& p : prefills) {
      for (const PairJob& j : p.prefilled) pairPrefilled(j.slot, t);
    }
    if (links.next() == t) {
      for (const StepLinks::Flow& f : links.advance(t)) {
        tell(scheduler.transferDone(t, {attempt(f.slot)}));
        result.calls[f.slot].transferred = t;
        prefills[f.from].left(f.slot);
        if (options.pairs.staging == Staging::kNone)
          decodes[f.to].arrive(f.slot);
        else if (options.pairs.admission == DecodeAdmission::kEngine)
          ask(f.slot);
      }
    }
    for (StepDecode& d : decodes) {
      d.join(t);
      for (const std::uint32_t row : d.joined) result.calls[row].decode = t;
      for (const std::uint32_t row : d.hidden) ++result.calls[row].hiddenEvictions;
    }
    for (StepDecode& d : decodes) {
      for (const auto& e : d.evicted) isEvicted(e.job.slot, e.emitted, t);
    }
    for (std::uint32_t m = 0; m < engines.size(); ++m) {
      for (const PairJob& j : prefills[m].prefilled) {
        if (j.output == 1) isFinished(j.slot, t);
      }
      for (const PairJob& j : decodes[m].finished) isFinished(j.slot, t);
    }
    for (StepDecode& d : decodes) {
      for (const PairJob& j : d.overflowed) isOverflowed(j.slot, Leg::kDecode, t);
    }
  }

  void pairCarryOut(Nanos t, std::span<const Decision> decisions) {
    for (const Decision& d : decisions) {
      const std::uint32_t row = rowOfSlot[d.call.slot];
      Row& r = rows[row];
      if (d.kind == DecisionKind::kReject) {
        rejected(r.workflow);
        continue;
      }
      if (d.kind == DecisionKind::kAdmitDecode) {
        if (r.asked || r.to != d.decodeInstance || r.from != d.instance) result.status = Status::kLawBroken;
        ask(row);
        continue;
      }
      const Call& call = scheduler.graph().call(d.call.slot);
      r.from = d.instance;
      r.to = d.decodeInstance;
      r.prompt = call.promptTokens;
      r.output = c.outputTokens[row] - r.generated;
      r.expected = call.predictedTokens;
      r.asked = r.room = r.held = false;
      Job job;
      job.row = row;
      job.prompt = r.prompt;
      lookUp(call, d.instance, &job);
      prefills[r.from].queue.push_back({row, r.prompt, r.output, r.expected, r.prompt, job.cached, job.load});
      const PairOptions& o = options.pairs;
      if (o.admission == DecodeAdmission::kEngine && o.staging == Staging::kNone &&
          o.reserve == Reserve::kEarly)
        ask(row);
      result.calls[row].instance = r.from;
      result.calls[row].decodeInstance = r.to;
      if (d.epoch == 0) result.calls[row].leased = t;
    }
  }

  /// Decode engines at a boundary whose queue the scheduler wants to look at; true where there is one.
  bool pairReport(Nanos t, bool again) {
    bool any = false;
    const std::vector<std::uint32_t> touched = scheduler.touched();
    for (const std::uint32_t m : touched) {
      const StepDecode& d = decodes[m];
      if (cluster.instances[m].role != Role::kDecode || d.holdsNothing() || !d.stands(t) || d.pausing)
        continue;
      if (again && scheduler.cluster().at(m).exact.at == t) continue;
      any = true;
      const Status status = scheduler.capacity(t, {m, d.sequencesFree(), d.kvFree(), 1, 1});
      if (!ok(status) && ok(result.status)) result.status = status;
    }
    return any;
  }

  void pairInstant(Nanos t) {
    news = false;
    reveals.clear();
    pairEvents(t);
    arrivals(t);
    toolEnds(t);
    for (std::uint32_t row : reveals) reveal(row, t, false);
    closeEnded(t);
    const Status placed = scheduler.place(t);
    if (!ok(placed) && ok(result.status)) result.status = placed;
    bool reported = boundary() && pairReport(t, false);
    while (news || reported) {
      news = false;
      pairCarryOut(t, scheduler.decide(t));
      closeEnded(t);
      reported = boundary() && pairReport(t, true);
    }
    for (StepPrefill& p : prefills) p.start(t);
    for (StepDecode& d : decodes) {
      d.start(t);
      for (const std::uint32_t row : d.given) {
        rows[row].room = true;
        if (options.pairs.staging == Staging::kUnlimited)
          result.calls[row].decode = t;
        else if (rows[row].held)
          send(row, t);
      }
    }
  }

  void arrivals(Nanos t) {
    std::vector<std::uint32_t> opened;
    while (arrived < c.workflows && fromMs(options.arrivals.recordedMs[arrived]) <= t)
      opened.push_back(arrived++);
    for (std::uint32_t w : opened) {
      Flow& f = flows[w];
      f.ref = {w, 3};
      f.arrival = t;
      result.base[w] = baseOf(w);
      const double scale = declaresSlo(w) ? 1 : options.sloScale;
      const Nanos deadline = t + static_cast<Nanos>(scale * static_cast<double>(result.base[w]) + 0.5);
      const std::int16_t stages = cluster.templates.empty() ? -1 : 0;
      const std::uint16_t tenant = c.tenant == nullptr ? 0 : c.tenant[w];
      tell(scheduler.openWorkflow(t, {f.ref, tenant, stages, 0, deadline, -1}));
    }
    for (std::uint32_t w : opened) {
      if (early()) {
        for (std::uint32_t row = c.firstCall[w]; row < c.firstCall[w + 1]; ++row) reveal(row, t, true);
      }
      for (std::uint32_t row = c.firstCall[w]; row < c.firstCall[w + 1]; ++row) {
        if (!rows[row].parents.empty()) continue;
        result.calls[row].ready = t + gapOf(row);
        if (gapOf(row) > 0)
          gaps.insert({t + gapOf(row), row});
        else if (!early())
          reveal(row, t, false);
      }
    }
  }

  void toolEnds(Nanos t) {
    while (!gaps.empty() && gaps.begin()->first == t) {
      const std::uint32_t row = gaps.begin()->second;
      gaps.erase(gaps.begin());
      if (flows[rows[row].workflow].aborted) continue;
      if (early())
        tell(scheduler.toolDone(t, {attempt(row)}));
      else
        reveals.push_back(row);
    }
  }

  void closeEnded(Nanos t) {
    for (std::uint32_t w : over) {
      Flow& f = flows[w];
      if (f.closed) continue;
      f.closed = true;
      tell(scheduler.closeWorkflow(t, {f.ref}));
      if (!f.aborted) result.latency[w] = t - f.arrival;
    }
    over.clear();
  }

  void rejected(std::uint32_t workflow) {
    ++result.rejected;
    flows[workflow].aborted = true;
    over.push_back(workflow);
  }

  void carryOut(Nanos t, std::span<const Decision> decisions) {
    for (const Decision& d : decisions) {
      const std::uint32_t row = rowOfSlot[d.call.slot];
      Row& r = rows[row];
      if (d.kind == DecisionKind::kReject) {
        rejected(r.workflow);
        continue;
      }
      const Call& call = scheduler.graph().call(d.call.slot);
      Job job;
      job.row = row;
      job.prompt = call.promptTokens;
      job.output = c.outputTokens[row] - r.generated;
      job.expected = call.predictedTokens;
      job.kv = call.cost.kv;
      lookUp(call, d.instance, &job);
      engines[d.instance].queue.push_back(job);
      if (call.cost.prefillTokens != job.prompt - job.cached) misjudged.push_back(d.instance);
      result.calls[row].instance = d.instance;
      if (d.epoch == 0) result.calls[row].leased = t;
    }
    for (const std::uint32_t m : misjudged) {
      const StepEngine& e = engines[m];
      if (!boundary() || e.spec.mode != EngineMode::kChunked) continue;
      const Status status = scheduler.capacity(t, {m, e.sequencesFree(), e.kvFree(), e.prefillFree(), 1});
      if (!ok(status) && ok(result.status)) result.status = status;
    }
    misjudged.clear();
  }

  void lookUp(const Call& call, std::uint32_t m, Job* job) {
    bool any = false;
    for (const std::vector<CacheTier>& tiers : cluster.prefixCaches) {
      for (const CacheTier& tier : tiers) any = any || tier.tokens >= 16;
    }
    if (!any) return;
    result.cache.promptTokens += call.promptTokens;
    const std::uint32_t shared = sharedTokens(job->row, call.promptTokens);
    if (shared == 0) return;
    const FoundPrefix found =
        engines[m].cache.find(rows[job->row].workflow, shared, call.promptTokens, *engines[m].latency);
    job->cached = found.tokens;
    job->load = found.load;
    result.cache.sharedTokens += shared;
    result.cache.cachedTokens += found.tokens;
    result.cache.loadedTokens += found.load > 0 ? found.tokens : 0;
    result.cache.hits += found.tokens > 0 ? 1 : 0;
    result.cache.misses += found.tokens > 0 ? 0 : 1;
    for (const CachedPrefix& promised : call.cached)
      result.cache.stale += promised.instance == m && promised.tokens > found.tokens ? 1 : 0;
  }

  void report(Nanos t) {
    for (std::uint32_t m = 0; m < engines.size(); ++m) {
      const StepEngine& e = engines[m];
      if (e.busy()) continue;
      const Status status = scheduler.capacity(t, {m, e.sequencesFree(), e.kvFree(), e.prefillFree(), 1});
      if (!ok(status) && ok(result.status)) result.status = status;
    }
  }

  void instant(Nanos t) {
    news = false;
    reveals.clear();
    std::vector<std::uint32_t> due;
    for (std::uint32_t m = 0; m < engines.size(); ++m) {
      if (engines[m].end == t) due.push_back(m);
    }
    engineEvents(t, due);
    arrivals(t);
    toolEnds(t);
    for (std::uint32_t row : reveals) reveal(row, t, false);
    closeEnded(t);
    if (boundary()) news = true;
    while (news) {  // in lease mode only events wake the scheduler
      news = false;
      if (boundary()) report(t);
      const std::span<const Decision> decisions = scheduler.decide(t);
      const bool decided = !decisions.empty();
      carryOut(t, decisions);
      closeEnded(t);
      // A decision may have touched an instance that stands at a boundary: it is considered at this very
      // instant too.
      for (const std::uint32_t m : scheduler.touched())
        news = news || (boundary() && decided && !engines[m].busy());
    }
    for (StepEngine& e : engines) e.start(t);
  }

  void run() {
    for (std::uint32_t m = 0; m < cluster.instances.size(); ++m) {
      tell(scheduler.instance(0, {m, InstanceChange::kAdd, cluster.instances[m]}));
      StepEngine e;
      e.spec = cluster.instances[m];
      e.latency = &cluster.latencies[e.spec.latency];
      e.requeue = !boundary();
      if (!cluster.prefixCaches.empty()) e.cache.tiers = cluster.prefixCaches[m];
      engines.push_back(e);
      paired = paired || e.spec.role != Role::kUnified;
      StepPrefill prefill;
      prefill.spec = e.spec;
      prefill.latency = e.latency;
      prefills.push_back(prefill);
      StepDecode decode;
      decode.spec = e.spec;
      decode.latency = e.latency;
      decode.requeue = !boundary();
      decode.backfill = options.pairs.backfill;
      decode.kvFirst = options.pairs.staging == Staging::kUnlimited;
      decodes.push_back(decode);
    }
    links.ends = cluster.instances;
    links.contended = options.pairs.links == Links::kContended;
    rows.resize(c.calls);
    flows.resize(c.workflows);
    result.calls.resize(c.calls);
    result.latency.assign(c.workflows, kNever);
    result.base.assign(c.workflows, 0);
    for (std::uint32_t w = 0; w < c.workflows; ++w) {
      flows[w].unfinished = c.firstCall[w + 1] - c.firstCall[w];
      for (std::uint32_t row = c.firstCall[w]; row < c.firstCall[w + 1]; ++row) {
        rows[row].workflow = w;
        for (std::uint32_t e = c.parentOffset[row]; e < c.parentOffset[row + 1]; ++e) {
          rows[row].parents.push_back(c.firstCall[w] + c.parents[e]);
          rows[c.firstCall[w] + c.parents[e]].children.push_back(row);
        }
        rows[row].pending = static_cast<std::uint32_t>(rows[row].parents.size());
      }
    }
    for (;;) {
      Nanos t = kNever;
      for (const StepEngine& e : engines) t = std::min(t, e.end);
      if (arrived < c.workflows) t = std::min(t, fromMs(options.arrivals.recordedMs[arrived]));
      if (!gaps.empty()) t = std::min(t, gaps.begin()->first);
      if (paired) {
        for (const StepPrefill& e : prefills) t = std::min(t, e.end);
        for (const StepDecode& e : decodes) t = std::min(t, e.end);
        t = std::min(t, links.next());
      }
      if (t == kNever || !ok(result.status)) break;
      if (paired)
        pairInstant(t);
      else
        instant(t);
    }
    for (std::uint32_t m = 0; m < engines.size(); ++m) {
      result.iterations += decodes[m].iterations;
      result.busy.push_back(prefills[m].busy + decodes[m].busy);
      result.peak.push_back(decodes[m].peak);
    }
    for (const StepEngine& e : engines) result.iterations += e.iterations;
  }
};

}  // namespace

Result run(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options, EventLog* log) {
  SchedulerConfig config;
  config.order = options.order;
  config.placement = options.placement;
  config.binding = options.binding;
  config.feedback = options.feedback;
  config.lookahead = options.lookahead;
  config.useTemplates = options.knowledge == Knowledge::kTemplate;
  config.templateSlo = options.sloBase == SloBase::kTemplate;
  config.tieSeed = options.tieSeed;
  config.placementSeed = options.placementSeed;
  config.pairPlacement = options.pairPlacement;
  config.pairs = options.pairs;
  config.migrate = options.migrate;
  config.parameters = options.parameters;
  config.latencies =
      options.error.times() ? believedLatencies(cluster.latencies, options.error) : cluster.latencies;
  config.templates = cluster.templates;
  World world(trace, cluster, options, std::move(config));
  world.scheduler.setLog(log);
  world.run();
  return std::move(world.result);
}

}  // namespace laxity::stepping
