// Every order and placement against a scheduler written a second time, naively: plain vectors, no heaps, no
// trees, every key, budget, horizon and score recomputed from scratch with the documented formulas whenever
// it is needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/math.h"
#include "base/random.h"
#include "scheduler/scheduler.h"

using namespace laxity;

namespace {

LatencyModel model(const LatencyConstants& constants) {
  LatencyModel m;
  REQUIRE(LatencyModel::constants(constants, &m) == Status::kOk);
  return m;
}

std::int64_t roundHalfUp(__int128 fine) { return static_cast<std::int64_t>((fine + (1 << 19)) >> 20); }

enum class Life { kRevealed, kReady, kWaiting, kPrefilling, kDecoding, kOver };

struct NaiveCall {
  Ref ref;
  std::uint32_t workflow = 0;
  std::uint32_t number = 0;  ///< reveal sequence inside its workflow
  Life life = Life::kRevealed;
  std::uint16_t model = 0;
  std::uint16_t stage = 0;
  std::int64_t prompt = 0;
  std::int64_t predicted = 0;
  CachedPrefix cached[2];
  Nanos declared = -1;
  Nanos readyAt = 0;
  std::vector<std::uint32_t> parents;
  std::uint32_t depth = 0;
  std::int32_t instance = -1;
  Nanos prefill = 0;  ///< its cost there
  Nanos exec = 0;
  Nanos isolatedEnd = 0;
  std::uint32_t isolatedInstance = 0;
};

struct NaiveWorkflow {
  Ref ref;
  Nanos arrival = 0;
  Nanos deadline = kNever;
  Nanos remaining = -1;
  bool templated = false;
  std::vector<TemplateEntry> left;
  std::uint32_t stageDepth = 0;
  std::uint32_t revealed = 0;
  std::vector<Nanos> isolatedReady;  ///< per instance
};

struct NaiveInstance {
  InstanceSpec spec;
  std::uint64_t perm = 0;
  bool up = true;
  Nanos prefillsEnd = 0;
  double used = 0;  ///< decayed utilisation
  Nanos usedAt = 0;
  Nanos everAssigned = 0;  ///< workload-balanced-reference
};

struct Expected {
  std::uint32_t call;
  std::uint32_t instance;
  friend bool operator==(const Expected&, const Expected&) = default;
};

struct Naive {
  std::string order;
  std::string placement;
  Binding binding;
  std::uint32_t lookahead;
  PolicyParameters parameters;
  std::vector<LatencyModel> latencies;
  std::vector<TemplateEntry> stages;  ///< empty: none

  std::vector<NaiveInstance> instances;
  std::vector<NaiveWorkflow> workflows;
  std::vector<NaiveCall> calls;
  std::vector<std::uint32_t> ready;  ///< in event order
  std::int32_t lastChoice = -1;      ///< round robin
  Nanos now = 0;
  __int128 meanSum = 0;
  std::int64_t meanCount = 0;

  // --- costs

  Nanos decodeAlone(const LatencyModel& m, std::int64_t prompt, std::int64_t output) const {
    __int128 sum = 0;
    for (std::int64_t i = 1; i < output; ++i) {
      const DecodePiece piece = m.piece(1, prompt + i);
      sum += __int128{piece.base} + __int128{piece.perContext} * (prompt + i);
    }
    return roundHalfUp(sum);
  }
  std::int64_t limit(const InstanceSpec& s) const {
    return static_cast<std::int64_t>(static_cast<double>(s.kvTokens) * parameters[Parameter::kOvercommit]);
  }
  std::int64_t need(const NaiveCall& c) const { return c.prompt + c.predicted; }
  bool serves(std::uint32_t m, const NaiveCall& c) const {
    const InstanceSpec& s = instances[m].spec;
    return s.model == c.model && need(c) <= std::min(limit(s), s.kvTokens);
  }
  const LatencyModel& latency(std::uint32_t m) const { return latencies[instances[m].spec.latency]; }
  Nanos plainPrefill(std::uint32_t m, const NaiveCall& c) const {
    return latency(m).prefill(static_cast<std::uint32_t>(c.prompt), 0);
  }
  Nanos prefill(std::uint32_t m, const NaiveCall& c) const {
    std::int64_t cached = 0;
    for (const CachedPrefix& p : c.cached) {
      if (p.instance == m && p.tokens > 0) cached = p.tokens;
    }
    return latency(m).prefill(static_cast<std::uint32_t>(c.prompt - cached),
                              static_cast<std::uint32_t>(cached));
  }
  Nanos plainExec(std::uint32_t m, const NaiveCall& c) const {
    return plainPrefill(m, c) + decodeAlone(latency(m), c.prompt, c.predicted);
  }
  Nanos exec(std::uint32_t m, const NaiveCall& c) const {
    return prefill(m, c) + decodeAlone(latency(m), c.prompt, c.predicted);
  }
  Nanos mean(const NaiveCall& c) const {
    __int128 sum = 0;
    std::int64_t n = 0;
    for (std::uint32_t m = 0; m < instances.size(); ++m) {
      if (!serves(m, c)) continue;
      sum += plainExec(m, c);
      ++n;
    }
    return std::max<Nanos>(1, n == 0 ? 0 : static_cast<Nanos>(sum / n));
  }

  // --- workflows

  bool over(const NaiveCall& c) const { return c.life == Life::kOver; }
  Nanos entryMean(const TemplateEntry& e) const {
    __int128 sum = 0;
    for (std::uint32_t m = 0; m < instances.size(); ++m) {
      sum += latency(m).prefill(e.promptTokens, 0) + decodeAlone(latency(m), e.promptTokens, e.outputTokens);
    }
    return static_cast<Nanos>(sum / static_cast<std::int64_t>(instances.size()));
  }
  Nanos rest(const NaiveWorkflow& w) const {
    if (w.remaining >= 0) return w.remaining;
    if (!w.templated) return 0;
    Nanos sum = 0;
    for (const TemplateEntry& e : w.left) sum += entryMean(e);
    return sum;
  }
  Nanos below(std::uint32_t index) const {
    Nanos longest = 0;
    for (std::uint32_t i = index + 1; i < calls.size(); ++i) {
      if (over(calls[i]) || calls[i].workflow != calls[index].workflow) continue;
      if (std::find(calls[i].parents.begin(), calls[i].parents.end(), index) == calls[i].parents.end())
        continue;
      longest = std::max(longest, mean(calls[i]) + below(i));
    }
    return longest;
  }
  Nanos tail(std::uint32_t index) const {
    const NaiveCall& c = calls[index];
    return c.declared < 0 ? below(index) + rest(workflows[c.workflow]) : std::max(below(index), c.declared);
  }
  Nanos horizon(std::uint32_t w) const {
    Nanos h = 0;
    for (const NaiveCall& c : calls) {
      if (c.workflow == w) h = std::max(h, c.isolatedEnd);
    }
    return h;
  }
  Nanos budget(std::uint32_t index) const {
    const NaiveCall& c = calls[index];
    const NaiveWorkflow& w = workflows[c.workflow];
    Nanos path = 0;
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].workflow == c.workflow && !over(calls[i])) path = std::max(path, mean(calls[i]) + tail(i));
    }
    const double factor = parameters[Parameter::kHorizonFactor];
    const Nanos deadline =
        w.deadline != kNever
            ? w.deadline
            : w.arrival + static_cast<Nanos>(factor * static_cast<double>(horizon(c.workflow)) + 0.5);
    const double share = static_cast<double>(path - tail(index)) / static_cast<double>(path);
    return static_cast<Nanos>(std::round(static_cast<double>(deadline - c.readyAt) * share));
  }

  // --- ledgers, summed anew

  template <class Value>
  std::int64_t sum(std::uint32_t m, bool waitingToo, Value value) const {
    std::int64_t total = 0;
    for (const NaiveCall& c : calls) {
      if (c.instance != static_cast<std::int32_t>(m)) continue;
      if (c.life == Life::kPrefilling || c.life == Life::kDecoding ||
          (waitingToo && c.life == Life::kWaiting)) {
        total += value(c);
      }
    }
    return total;
  }
  Nanos work(std::uint32_t m) const {
    return sum(m, true, [](const NaiveCall& c) { return c.exec; });
  }
  std::int64_t assigned(std::uint32_t m) const {
    return sum(m, true, [](const NaiveCall&) { return 1; });
  }
  std::int64_t leased(std::uint32_t m) const {
    return sum(m, false, [](const NaiveCall&) { return 1; });
  }
  std::int64_t reserved(std::uint32_t m) const {
    return sum(m, false, [&](const NaiveCall& c) { return need(c); });
  }
  std::int64_t context(std::uint32_t m) const {
    return sum(m, false, [](const NaiveCall& c) { return c.prompt + c.predicted / 2; });
  }
  std::int64_t unprefilled(std::uint32_t m) const {
    return sum(m, false, [](const NaiveCall& c) { return c.life == Life::kPrefilling ? 1 : 0; });
  }
  Nanos unprefilledWork(std::uint32_t m) const {
    return sum(m, false, [](const NaiveCall& c) { return c.life == Life::kPrefilling ? c.prefill : 0; });
  }
  /// Tokens of the prompt that its prefill computes there.
  std::int64_t toPrefill(std::uint32_t m, const NaiveCall& c) const {
    std::int64_t cached = 0;
    for (const CachedPrefix& p : c.cached) {
      if (p.instance == m && p.tokens > 0) cached = p.tokens;
    }
    return c.prompt - cached;
  }
  std::int64_t unprefilledTokens(std::uint32_t m) const {
    return sum(m, false,
               [&](const NaiveCall& c) { return c.life == Life::kPrefilling ? toPrefill(m, c) : 0; });
  }
  std::int64_t running(std::uint32_t m) const { return leased(m) - unprefilled(m); }
  bool prefillCredit(std::uint32_t m) const {
    const InstanceSpec& s = instances[m].spec;
    if (s.mode != EngineMode::kChunked) return unprefilled(m) < 1 + lookahead;
    return unprefilledTokens(m) < (1 + std::int64_t{lookahead}) * s.chunkTokens - running(m);
  }
  bool credit(std::uint32_t m, const NaiveCall& c) const {
    const NaiveInstance& i = instances[m];
    return i.up && leased(m) < i.spec.maxSequences + lookahead && reserved(m) + need(c) <= limit(i.spec) &&
           prefillCredit(m);
  }
  /// By how much decode delays prefills of `work` and `tokens` (CONTRACT 6, 10).
  Nanos beside(std::uint32_t m, Nanos work, std::int64_t tokens) const {
    const InstanceSpec& s = instances[m].spec;
    const std::int64_t decoding = running(m);
    if (decoding == 0 || s.mode == EngineMode::kPrefillFirst) return 0;
    if (s.mode == EngineMode::kDecodeShare) {
      const __int128 slowed = __int128{work} * 1000 / (1000 - s.decodeShare);
      return static_cast<Nanos>(slowed) - work;
    }
    Nanos delay = 0;
    const DecodePiece piece = latency(m).piece(static_cast<std::uint32_t>(decoding), context(m));
    const Nanos iteration = roundHalfUp(__int128{piece.base} + __int128{piece.perContext} * context(m));
    while (tokens > 0) {  // an iteration after the other, each with the same decodes
      tokens -= std::max<std::int64_t>(1, s.chunkTokens - decoding);
      delay += iteration;
    }
    return delay;
  }

  // --- orders (CONTRACT 10, order/*.h)

  /// Projected finish minus now, on one instance.
  Nanos delta(const NaiveCall& c, std::uint32_t m, Nanos prefillTime) const {
    const std::int64_t tokens = context(m) + c.prompt + c.predicted / 2;
    const DecodePiece piece = latency(m).piece(static_cast<std::uint32_t>(leased(m) + 1), tokens);
    const __int128 perToken = __int128{piece.base} + __int128{piece.perContext} * tokens;
    return std::max<Nanos>(0, instances[m].prefillsEnd - now) + prefillTime +
           beside(m, prefillTime, toPrefill(m, c)) + roundHalfUp(perToken * c.predicted);
  }
  /// Larger first. m < 0: in the shared queue.
  long double urgencyNow(std::uint32_t index, std::int32_t m, Nanos execThere, Nanos prefillThere) const {
    const NaiveCall& c = calls[index];
    const NaiveWorkflow& w = workflows[c.workflow];
    if (order == "fcfs") return static_cast<long double>(now - c.readyAt);
    if (order == "workflow-fcfs") return static_cast<long double>(now - w.arrival);
    if (order == "urgency") {
      // U(t) = t_comp - (t_SLO - (t - r))
      return static_cast<long double>(execThere - (budget(index) - (now - c.readyAt)));
    }
    Nanos projected = kNever;
    if (m >= 0) {
      projected = delta(c, static_cast<std::uint32_t>(m), prefillThere);
    } else {
      for (std::uint32_t i = 0; i < instances.size(); ++i) {
        if (instances[i].up && serves(i, c)) projected = std::min(projected, delta(c, i, plainPrefill(i, c)));
      }
      if (projected == kNever) projected = mean(c);
    }
    const double hint =
        c.declared > 0 ? parameters[Parameter::kHintWeight] * static_cast<double>(c.declared) : 0.0;
    const double whole = static_cast<double>(std::max<Nanos>(1, horizon(c.workflow))) + hint;
    return (static_cast<double>(now - w.arrival + projected) + hint) / whole;
  }
  bool earlier(const NaiveCall& a, const NaiveCall& b) const {
    return a.workflow != b.workflow ? a.workflow < b.workflow : a.number < b.number;
  }
  std::int32_t mostUrgent(const std::vector<std::uint32_t>& waiting, std::int32_t m) const {
    std::int32_t best = -1;
    long double bestKey = 0;
    for (const std::uint32_t i : waiting) {
      const NaiveCall& c = calls[i];
      const long double key = urgencyNow(i, m, m >= 0 ? c.exec : mean(c), c.prefill);
      if (best < 0 || key > bestKey ||
          (key == bestKey && earlier(c, calls[static_cast<std::uint32_t>(best)]))) {
        best = static_cast<std::int32_t>(i);
        bestKey = key;
      }
    }
    return best;
  }
  std::vector<std::uint32_t> waitingOn(std::int32_t m, std::uint16_t modelName) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].life == Life::kWaiting && calls[i].instance == m && calls[i].model == modelName)
        found.push_back(i);
    }
    return found;
  }

  // --- placements (placement/*.h)

  std::vector<std::uint32_t> byPerm() const {
    std::vector<std::uint32_t> all;
    for (std::uint32_t m = 0; m < instances.size(); ++m) all.push_back(m);
    std::sort(all.begin(), all.end(),
              [&](std::uint32_t a, std::uint32_t b) { return instances[a].perm < instances[b].perm; });
    return all;
  }
  double beta(const NaiveWorkflow& w) const {
    const double given = parameters[Parameter::kBeta];
    if (given > 0) return given;
    double seconds = 1;
    if (w.templated && !stages.empty()) {
      Nanos whole = 0;
      for (const TemplateEntry& e : stages) whole += entryMean(e);
      seconds = static_cast<double>(whole) * 1e-9 / static_cast<double>(stages.size());
    } else if (meanCount > 0) {
      seconds = static_cast<double>(static_cast<Nanos>(meanSum / meanCount)) * 1e-9;
    }
    return seconds * seconds;
  }
  double seconds(Nanos t) const { return static_cast<double>(t) * 1e-9; }

  /// The score of eftxp (policies 4.11).
  double eftxp(std::uint32_t index, std::uint32_t m) const {
    const NaiveCall& c = calls[index];
    const NaiveInstance& i = instances[m];
    const long double mine = urgencyNow(index, static_cast<std::int32_t>(m), exec(m, c), prefill(m, c));
    Nanos prefillAll = 0;
    Nanos prefillAhead = 0;
    std::int64_t kvAhead = 0;
    std::int64_t behind = 0;
    for (const std::uint32_t j : waitingOn(static_cast<std::int32_t>(m), c.model)) {
      const NaiveCall& other = calls[j];
      const long double key = urgencyNow(j, static_cast<std::int32_t>(m), other.exec, other.prefill);
      prefillAll += other.prefill;
      if (key > mine || (key == mine && earlier(other, c))) {
        prefillAhead += other.prefill;
        kvAhead += need(other);
      } else {
        ++behind;
      }
    }
    const std::int64_t nr = leased(m);
    const bool chunked = i.spec.mode == EngineMode::kChunked;
    const double share = i.spec.mode == EngineMode::kDecodeShare ? i.spec.decodeShare / 1000.0 : 0;
    double rr = 0;
    if (chunked) {
      const Nanos d0 = roundHalfUp(latency(m).piece(1, 0).base);
      rr = std::min(1.0, seconds(d0) / seconds(latency(m).prefill(i.spec.chunkTokens, 0)));
    }
    const std::int64_t excess = reserved(m) + kvAhead + need(c) - i.spec.kvTokens;
    const double horizonMs = parameters[Parameter::kUtilisationMs];
    const double used =
        i.used == 0 ? 0 : i.used * detExp(-(static_cast<double>(now - i.usedAt) * 1e-6 / horizonMs));
    const bool contended = share > 0 || chunked || excess > 0;
    const double cap = chunked ? 1 : share > 0 ? 1 - share : 0.85;
    const double stretch = 1 / std::max(0.001, 1 - std::min(cap, used) * (1 - rr));
    const double current = seconds(std::max<Nanos>(0, i.prefillsEnd - now));
    const double wait = contended ? seconds(prefillAhead) / (1 - share) : seconds(prefillAll);
    double kv = 0;
    if (excess > 0 && nr > 0) {
      kv = parameters[Parameter::kKvWeight] * static_cast<double>(excess) /
           static_cast<double>(i.spec.kvTokens) * seconds(work(m)) /
           static_cast<double>(std::max<std::int64_t>(1, assigned(m))) * stretch;
    }
    const std::int64_t tokens = context(m) + need(c);
    const DecodePiece piece = latency(m).piece(static_cast<std::uint32_t>(nr + 1), tokens);
    const double perToken = seconds(roundHalfUp(__int128{piece.base} + __int128{piece.perContext} * tokens));
    const double others = contended ? static_cast<double>(nr) * (1 - rr) + static_cast<double>(behind)
                                    : static_cast<double>(assigned(m));
    const double own = seconds(prefill(m, c));
    return current + wait + kv + own + static_cast<double>(c.predicted) * perToken * stretch +
           parameters[Parameter::kGamma] * own * others;
  }

  bool holds(std::uint32_t m, const NaiveCall& c) const {
    for (const CachedPrefix& p : c.cached) {
      if (p.instance == m && p.tokens > 0) return true;
    }
    return false;
  }

  std::uint32_t choose(std::uint32_t index, const std::vector<std::uint32_t>& candidates, bool atCredit) {
    const NaiveCall& c = calls[index];
    REQUIRE(!candidates.empty());
    if (placement == "round-robin") {
      const std::vector<std::uint32_t> cycle = byPerm();
      std::size_t from = 0;
      for (std::size_t i = 0; i < cycle.size(); ++i) {
        if (static_cast<std::int32_t>(cycle[i]) == lastChoice) from = i + 1;
      }
      for (std::size_t i = 0;; ++i) {
        const std::uint32_t m = cycle[(from + i) % cycle.size()];
        if (std::find(candidates.begin(), candidates.end(), m) == candidates.end()) continue;
        lastChoice = static_cast<std::int32_t>(m);
        return m;
      }
    }
    if (placement == "workload-balanced-reference") {
      std::vector<std::uint32_t> sorted = candidates;
      std::sort(sorted.begin(), sorted.end(),
                [&](std::uint32_t a, std::uint32_t b) { return instances[a].perm < instances[b].perm; });
      const auto stageTime = [&](std::uint32_t m) {
        if (workflows[c.workflow].templated) {
          for (const TemplateEntry& e : stages) {
            if (e.stage != c.stage) continue;
            return latency(m).prefill(e.promptTokens, 0) +
                   decodeAlone(latency(m), e.promptTokens, e.outputTokens);
          }
        }
        return exec(m, c);
      };
      const std::uint32_t first = sorted[0];
      std::uint32_t best = first;
      if (instances[first].everAssigned > 0) {
        const double alpha = parameters[Parameter::kAlpha];
        double bestScore = 0;
        for (const std::uint32_t m : sorted) {
          const double time = seconds(stageTime(m));
          const double t0 = seconds(stageTime(first));
          const double factor = time > t0 ? parameters[Parameter::kSlowFactor] : 1;
          const double score = alpha * t0 / time - (1 - alpha) * seconds(instances[m].everAssigned) * factor /
                                                       seconds(instances[first].everAssigned);
          if (m != first && !(score > bestScore)) continue;
          best = m;
          bestScore = score;
        }
      }
      instances[best].everAssigned += stageTime(best);
      return best;
    }

    const double alpha = parameters[Parameter::kAlpha];
    const double weight = (1 - alpha) * beta(workflows[c.workflow]);
    const double guard = parameters[Parameter::kQueueGuardMs] * 1e-3;
    const auto score = [&](std::uint32_t m) -> double {  // smaller is better
      if (placement == "global-queue") return 0;
      if (placement == "least-work-left") return static_cast<double>(work(m));
      if (placement == "eftxp") return eftxp(index, m);
      return -(weight / (seconds(work(m)) + guard) - alpha * seconds(exec(m, c)));
    };
    // Inside a class and without a cached prefix only the outstanding work differs: it decides, not the
    // rounded score.
    const bool byWork = placement == "workload-balanced" && !atCredit;
    std::int32_t best = -1;
    std::vector<std::uint32_t> left;
    for (const std::uint32_t m : candidates) {
      bool dominated = false;
      for (const std::uint32_t other : candidates) {
        if (!byWork || other == m || holds(m, c) || !(instances[other].spec == instances[m].spec)) continue;
        const bool less = weight > 0 && work(other) != work(m) ? work(other) < work(m)
                                                               : instances[other].perm < instances[m].perm;
        dominated = dominated || less;
      }
      if (!dominated) left.push_back(m);
    }
    for (const std::uint32_t m : left) {
      if (best >= 0) {
        const auto b = static_cast<std::uint32_t>(best);
        const double s = score(m);
        const double sb = score(b);
        const bool better =
            s < sb || (s == sb && (exec(m, c) < exec(b, c) ||
                                   (exec(m, c) == exec(b, c) && instances[m].perm < instances[b].perm)));
        if (!better) continue;
      }
      best = static_cast<std::int32_t>(m);
    }
    return static_cast<std::uint32_t>(best);
  }

  // --- events

  void becomeReady(std::uint32_t i) {
    calls[i].life = Life::kReady;
    calls[i].readyAt = now;
    ready.push_back(i);
  }
  void reveal(NaiveCall c) {
    NaiveWorkflow& w = workflows[c.workflow];
    c.number = w.revealed++;
    bool waits = false;
    Nanos start = 0;
    for (const std::uint32_t p : c.parents) {
      waits = waits || !over(calls[p]);
      start = std::max(start, calls[p].isolatedEnd);
      c.depth = std::max(c.depth, calls[p].depth + 1);
    }
    // The isolated finish; these tests have no tool gaps.
    std::int32_t best = -1;
    for (const std::uint32_t m : byPerm()) {
      if (!serves(m, c)) continue;
      const Nanos end = std::max(start, w.isolatedReady[m]) + plainExec(m, c);
      if (best >= 0 &&
          !(end < c.isolatedEnd ||
            (end == c.isolatedEnd && plainExec(m, c) < plainExec(static_cast<std::uint32_t>(best), c)))) {
        continue;
      }
      best = static_cast<std::int32_t>(m);
      c.isolatedEnd = end;
    }
    REQUIRE(best >= 0);
    const auto isolated = static_cast<std::uint32_t>(best);
    w.isolatedReady[isolated] = c.isolatedEnd - plainExec(isolated, c) + plainPrefill(isolated, c);
    c.isolatedInstance = isolated;
    if (w.templated && (c.number == 0 || c.depth > w.stageDepth)) {
      w.stageDepth = c.depth;
      for (std::size_t i = 0; i < w.left.size(); ++i) {
        if (w.left[i].stage != c.stage) continue;
        w.left.erase(w.left.begin(), w.left.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        break;
      }
    }
    meanSum += mean(c);
    ++meanCount;
    calls.push_back(c);
    if (!waits) becomeReady(static_cast<std::uint32_t>(calls.size() - 1));
  }
  void firstToken(std::uint32_t i) {
    calls[i].life = Life::kDecoding;
    const auto m = static_cast<std::uint32_t>(calls[i].instance);
    instances[m].prefillsEnd = now + unprefilledWork(m) + beside(m, unprefilledWork(m), unprefilledTokens(m));
  }
  void end(std::uint32_t i) {
    NaiveCall& c = calls[i];
    if (c.life == Life::kPrefilling) firstToken(i);
    c.life = Life::kOver;
    for (std::uint32_t j = 0; j < calls.size(); ++j) {
      if (calls[j].life != Life::kRevealed) continue;
      const auto& parents = calls[j].parents;
      if (std::find(parents.begin(), parents.end(), i) == parents.end()) continue;
      bool waits = false;
      for (const std::uint32_t p : parents) waits = waits || !over(calls[p]);
      if (!waits) becomeReady(j);
    }
  }
  void finished(std::uint32_t i, std::int64_t output) {
    NaiveCall& c = calls[i];
    end(i);
    const LatencyModel& m = latency(c.isolatedInstance);
    c.isolatedEnd += decodeAlone(m, c.prompt, output) - decodeAlone(m, c.prompt, c.predicted);
  }
  void setUp(std::uint32_t m, bool up, bool lost) {
    instances[m].up = up;
    if (up) return;
    if (lost) {
      for (std::uint32_t i = 0; i < calls.size(); ++i) {
        NaiveCall& c = calls[i];
        if (c.instance != static_cast<std::int32_t>(m) ||
            (c.life != Life::kPrefilling && c.life != Life::kDecoding))
          continue;
        if (c.life == Life::kPrefilling) firstToken(i);
        c.life = Life::kReady;
        c.instance = -1;
        ready.push_back(i);
      }
    }
    std::vector<std::uint32_t> moved;
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].life == Life::kWaiting && calls[i].instance == static_cast<std::int32_t>(m))
        moved.push_back(i);
    }
    std::sort(moved.begin(), moved.end(),
              [&](std::uint32_t a, std::uint32_t b) { return earlier(calls[a], calls[b]); });
    for (const std::uint32_t i : moved) {
      calls[i].life = Life::kReady;
      calls[i].instance = -1;
      ready.push_back(i);
    }
  }

  // --- decisions

  void assign(std::uint32_t i, std::uint32_t m) {
    NaiveCall& c = calls[i];
    c.instance = static_cast<std::int32_t>(m);
    c.prefill = prefill(m, c);
    c.exec = exec(m, c);
  }
  void lease(std::uint32_t i) {
    NaiveCall& c = calls[i];
    NaiveInstance& m = instances[static_cast<std::uint32_t>(c.instance)];
    c.life = Life::kPrefilling;
    const auto index = static_cast<std::uint32_t>(c.instance);
    m.prefillsEnd = std::max(m.prefillsEnd, now) + c.prefill + beside(index, c.prefill, toPrefill(index, c));
    if (placement == "eftxp") {
      const double horizonMs = parameters[Parameter::kUtilisationMs];
      m.used = m.used * detExp(-(static_cast<double>(now - m.usedAt) * 1e-6) / horizonMs) +
               static_cast<double>(c.prefill) * 1e-6 / horizonMs;
      m.usedAt = now;
    }
  }
  void place() {
    for (const std::uint32_t i : ready) {
      NaiveCall& c = calls[i];
      if (c.life != Life::kReady) continue;
      if (binding == Binding::kAtReveal) {
        std::vector<std::uint32_t> candidates;
        for (std::uint32_t m = 0; m < instances.size(); ++m) {
          if (instances[m].up && serves(m, c)) candidates.push_back(m);
        }
        assign(i, choose(i, candidates, false));
      }
      c.life = Life::kWaiting;
    }
    ready.clear();
  }
  std::vector<Expected> leases(const std::vector<std::uint32_t>& considered) {
    std::vector<Expected> decisions;
    if (binding == Binding::kAtReveal) {
      for (const std::uint32_t m : considered) {
        for (;;) {
          const std::int32_t best = mostUrgent(
              waitingOn(static_cast<std::int32_t>(m), instances[m].spec.model), static_cast<std::int32_t>(m));
          if (best < 0 || !credit(m, calls[static_cast<std::uint32_t>(best)])) break;
          lease(static_cast<std::uint32_t>(best));
          decisions.push_back({static_cast<std::uint32_t>(best), m});
        }
      }
      return decisions;
    }
    // Models in the order of their first instance: it matters where a placement keeps state (round robin).
    std::vector<std::uint16_t> names;
    for (const std::uint32_t m : byPerm()) {
      if (std::find(considered.begin(), considered.end(), m) != considered.end())
        names.push_back(instances[m].spec.model);
    }
    for (const std::uint16_t modelName : names) {
      for (;;) {
        const std::int32_t best = mostUrgent(waitingOn(-1, modelName), -1);
        if (best < 0) break;
        const auto i = static_cast<std::uint32_t>(best);
        std::vector<std::uint32_t> candidates;
        for (const std::uint32_t m : considered) {
          if (serves(m, calls[i]) && credit(m, calls[i])) candidates.push_back(m);
        }
        if (candidates.empty()) break;
        const std::uint32_t m = choose(i, candidates, true);
        assign(i, m);
        lease(i);
        decisions.push_back({i, m});
      }
    }
    return decisions;
  }
};

struct Walk {
  std::string order;
  std::string placement;
  Binding binding = Binding::kAtReveal;
  bool everyInstance = false;  ///< consider all instances at each decide, touched or not
  bool roomy = false;          ///< KV never binds
  bool modes = false;          ///< engines of all modes
  int steps = 120;
};

struct Tally {
  std::uint64_t placements = 0;
  std::uint64_t leases = 0;
  std::uint64_t compared = 0;
};

/// A random run of both schedulers; empty where they agree throughout, else the first difference.
std::string walk(const Walk& how, std::uint64_t seed, Tally* tally) {
  Random random(41, seed);
  Naive naive;
  naive.order = how.order;
  naive.placement = how.placement;
  naive.binding = how.binding;
  naive.lookahead = random.below(3);
  const bool coarse = random.below(2) == 0;  // equal times, equal scores
  const std::uint32_t kinds = 1 + random.below(3);
  for (std::uint32_t k = 0; k < kinds; ++k) {
    naive.latencies.push_back(coarse ? model({1, 1, 1.0 + random.below(2), random.below(2) * 0.5, 0})
                                     : model({random.uniform() * 3, random.uniform(), 0.1 + random.uniform(),
                                              random.uniform() * 0.2, 1e-3}));
  }
  const auto set = [&](Parameter p, double value) {
    naive.parameters.set(static_cast<std::uint16_t>(p), value);
  };
  const double alphas[] = {0, 0.3, 0.5, 0.9, 1};
  set(Parameter::kAlpha, alphas[random.below(5)]);
  set(Parameter::kHintWeight, random.below(2) * 0.5);
  if (random.below(3) == 0) set(Parameter::kBeta, 0.01);
  if (random.below(3) == 0) set(Parameter::kUtilisationMs, 50);
  if (random.below(4) == 0) set(Parameter::kOvercommit, 0.75 + random.below(2) * 0.75);
  if (random.below(2) == 0) {
    const std::uint32_t size = 1 + random.below(4);
    for (std::uint32_t i = 0; i < size; ++i) {
      naive.stages.push_back(
          {static_cast<std::uint16_t>(random.below(4)), 1 + random.below(20), 1 + random.below(20)});
    }
  }

  SchedulerConfig config;
  REQUIRE(makeOrder(how.order, &config.order));
  REQUIRE(makePlacement(how.placement, &config.placement));
  config.binding = how.binding;
  config.lookahead = naive.lookahead;
  config.tieSeed = random.below(3);
  config.parameters = naive.parameters;
  config.latencies = naive.latencies;
  if (!naive.stages.empty()) config.templates.push_back(naive.stages);
  Scheduler scheduler(config);

  // With a shared queue per model, which model is served first at one instant is not specified, and a
  // placement that remembers its choices would tell.
  const bool remembers = how.placement == "round-robin" || how.placement == "workload-balanced-reference";
  const std::uint32_t models = remembers && how.binding == Binding::kAtCredit ? 1 : 1 + random.below(2);
  const std::uint32_t count = models + random.below(7);
  const std::uint32_t largest = coarse ? 16 : 80;
  for (std::uint32_t m = 0; m < count; ++m) {
    NaiveInstance i;
    i.spec.model = static_cast<std::uint16_t>(m < models ? m : random.below(models));
    i.spec.latency = static_cast<std::uint16_t>(random.below(kinds));
    i.spec.maxSequences = 1 + random.below(4);
    // The first of each model takes any call and stays up; others may be too small for some.
    i.spec.kvTokens =
        m < models ? 4 * largest : largest / 2 + random.below(coarse ? 2 : 4 * largest) * largest / 4 + 2;
    if (m >= models && random.below(2) == 0)
      i.spec = naive.instances[random.below(m)].spec;  // equal hardware
    if (how.roomy) i.spec.kvTokens = 1'000'000;
    if (how.modes) {
      i.spec.mode = static_cast<EngineMode>(random.below(3));
      i.spec.chunkTokens = i.spec.decodeShare = 0;
      if (i.spec.mode == EngineMode::kChunked) i.spec.chunkTokens = 1 + random.below(largest);
      if (i.spec.mode == EngineMode::kDecodeShare)
        i.spec.decodeShare = static_cast<std::uint16_t>(1 + random.below(999));
    }
    REQUIRE(scheduler.instance(0, {m, InstanceChange::kAdd, i.spec}) == Status::kOk);
    i.perm = scheduler.cluster().at(m).tie;
    naive.instances.push_back(i);
  }

  Nanos t = 0;
  for (int step = 0; step < how.steps; ++step) {
    if (random.below(3) != 0) t += coarse ? random.below(3) * kMillisecond : random.below(8'000'000);
    naive.now = t;
    std::uint32_t live = 0;
    for (const NaiveCall& c : naive.calls) live += naive.over(c) ? 0 : 1;
    const std::uint32_t what = random.below(20);
    std::vector<std::uint32_t> running;
    for (std::uint32_t i = 0; i < naive.calls.size(); ++i) {
      if (naive.calls[i].life == Life::kPrefilling || naive.calls[i].life == Life::kDecoding)
        running.push_back(i);
    }
    const auto attempt = [&](std::uint32_t i) {
      return CallAttempt{naive.calls[i].ref, scheduler.graph().call(naive.calls[i].ref.slot).epoch};
    };
    if (what < 9 && live < 30) {
      // Several calls at one instant, each seeing the ones before it.
      if (naive.workflows.empty() || random.below(4) == 0) {
        NaiveWorkflow w;
        w.ref = {static_cast<std::uint32_t>(naive.workflows.size()), 1};
        w.arrival = t;
        if (random.below(4) != 0)
          w.deadline = t + (coarse ? random.below(100) * kMillisecond : random.below(300'000'000));
        if (random.below(5) == 0) w.remaining = random.below(20) * kMillisecond;
        w.templated = !naive.stages.empty() && random.below(3) != 0;
        w.left = naive.stages;
        w.isolatedReady.assign(count, 0);
        const std::int16_t stages = w.templated ? 0 : -1;
        REQUIRE(scheduler.openWorkflow(t, {w.ref, 0, stages, 0, w.deadline, w.remaining}) == Status::kOk);
        naive.workflows.push_back(w);
      }
      const std::uint32_t batch = 1 + random.below(4);
      for (std::uint32_t b = 0; b < batch; ++b) {
        NaiveCall c;
        c.ref = {static_cast<std::uint32_t>(naive.calls.size()), 1};
        const auto open = static_cast<std::uint32_t>(naive.workflows.size());
        c.workflow = open - 1 - random.below(std::min(open, 3u));
        c.model = static_cast<std::uint16_t>(random.below(models));
        c.stage = static_cast<std::uint16_t>(random.below(5));
        c.prompt = 1 + random.below(largest / 2);
        c.predicted = 1 + random.below(largest / 2);
        if (random.below(6) == 0) c.declared = random.below(30) * kMillisecond;
        if (c.prompt > 1 && random.below(3) == 0) {
          c.cached[0] = {random.below(count), 1 + random.below(static_cast<std::uint32_t>(c.prompt - 1))};
          if (random.below(2) == 0 && count > 1) c.cached[1] = {(c.cached[0].instance + 1) % count, 1};
        }
        std::vector<Ref> parents;
        for (std::uint32_t i = 0; i < naive.calls.size(); ++i) {
          if (naive.calls[i].workflow != c.workflow || random.below(5) > 0) continue;
          c.parents.push_back(i);
          parents.push_back(naive.calls[i].ref);
        }
        Reveal e{};
        e.call = c.ref;
        e.workflow = naive.workflows[c.workflow].ref;
        e.stage = c.stage;
        e.model = c.model;
        e.sequences = 1;
        e.promptTokens = static_cast<std::uint32_t>(c.prompt);
        e.predictedTokens = e.predictedHigh = static_cast<std::uint32_t>(c.predicted);
        e.cached[0] = c.cached[0];
        e.cached[1] = c.cached[1];
        e.remaining = c.declared;
        // Tool gaps are the business of other tests: a child is revealed while a parent runs, or as its last
        // one ends.
        bool late = !c.parents.empty();
        for (const std::uint32_t p : c.parents) late = late && naive.over(naive.calls[p]);
        if (late) continue;
        REQUIRE(scheduler.reveal(t, e, parents) == Status::kOk);
        naive.reveal(c);
      }
    } else if (what < 12 && !running.empty()) {
      const std::uint32_t i = running[random.below(static_cast<std::uint32_t>(running.size()))];
      REQUIRE(scheduler.firstToken(t, {attempt(i)}) == Status::kOk);
      if (naive.calls[i].life == Life::kPrefilling) naive.firstToken(i);
    } else if (what < 17 && !running.empty()) {
      const std::uint32_t i = running[random.below(static_cast<std::uint32_t>(running.size()))];
      const std::uint32_t output = 1 + random.below(2 * static_cast<std::uint32_t>(naive.calls[i].predicted));
      REQUIRE(scheduler.finished(t, {attempt(i), output}) == Status::kOk);
      naive.finished(i, output);
    } else if (what == 17 && count > models) {
      const std::uint32_t m = models + random.below(count - models);
      if (!naive.instances[m].up) {
        REQUIRE(scheduler.instance(t, {m, InstanceChange::kUp, {}}) == Status::kOk);
        naive.setUp(m, true, false);
      } else {
        const bool lost =
            naive.leased(m) <= 1;  // which of several lost calls is placed first is not specified
        REQUIRE(scheduler.instance(t, {m, lost ? InstanceChange::kDown : InstanceChange::kDrain, {}}) ==
                Status::kOk);
        naive.setUp(m, false, lost);
      }
    } else if (what == 18) {
      const double alpha = alphas[random.below(5)];
      REQUIRE(scheduler.setParameter(t, {static_cast<std::uint32_t>(Parameter::kAlpha), 0, alpha}) ==
              Status::kOk);
      set(Parameter::kAlpha, alpha);
    }

    const std::string where = "step " + std::to_string(step) + ": ";
    tally->placements += naive.ready.size();
    naive.place();
    REQUIRE(scheduler.place(t) == Status::kOk);
    for (std::uint32_t i = 0; i < naive.calls.size(); ++i) {
      const NaiveCall& c = naive.calls[i];
      const Call& real = scheduler.graph().call(c.ref.slot);
      if (c.life != Life::kWaiting) continue;
      ++tally->compared;
      const std::uint32_t chosen = c.instance < 0 ? kNoSlot : static_cast<std::uint32_t>(c.instance);
      if (real.state != CallState::kWaiting || real.instance != chosen) {
        return where + "call " + std::to_string(i) + " placed on " +
               std::to_string(static_cast<int>(real.instance)) + ", naive " + std::to_string(c.instance);
      }
      if (c.instance >= 0 && (real.cost.exec != c.exec || real.cost.prefill != c.prefill))
        return where + "cost";
    }
    std::vector<std::uint32_t> considered;
    for (std::uint32_t m = 0; m < count; ++m) {
      const auto& touched = scheduler.touched();
      if (how.everyInstance || std::find(touched.begin(), touched.end(), m) != touched.end())
        considered.push_back(m);
    }
    std::vector<Expected> expected = naive.leases(considered);
    std::vector<Expected> got;
    for (const Decision& d : scheduler.decide(t)) {
      if (d.kind != DecisionKind::kLease) return where + "a rejection";
      got.push_back({d.call.slot, d.instance});
    }
    tally->leases += expected.size();
    // Which of two instances (or models) is considered first does not matter: compare the sequence of each.
    const auto bucket = [&](const Expected& e) {
      return how.binding == Binding::kAtReveal ? e.instance : naive.calls[e.call].model;
    };
    const auto byBucket = [&](const Expected& a, const Expected& b) { return bucket(a) < bucket(b); };
    std::stable_sort(expected.begin(), expected.end(), byBucket);
    std::stable_sort(got.begin(), got.end(), byBucket);
    if (expected != got) {
      std::string text = where + "leases";
      for (const Expected& e : got) text += " " + std::to_string(e.call) + "@" + std::to_string(e.instance);
      text += ", naive";
      for (const Expected& e : expected)
        text += " " + std::to_string(e.call) + "@" + std::to_string(e.instance);
      return text;
    }
    if (!scheduler.audit()) return where + "audit";
  }
  return "";
}

void walkAll(const Walk& how, std::uint64_t seeds, Tally* tally) {
  std::uint32_t failures = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const std::string difference = walk(how, seed, tally);
    if (difference.empty()) continue;
    if (++failures > 2) continue;
    CAPTURE(how.order);
    CAPTURE(how.placement);
    CAPTURE(seed);
    CHECK_MESSAGE(false, difference);
  }
  CHECK(failures == 0);
}

}  // namespace

TEST_SUITE("policies against a naive scheduler") {
  TEST_CASE("at-reveal: every order with every placement") {
    Tally tally;
    for (const auto order : orderNames()) {
      for (const auto placement : placementNames()) {
        // Keys that do not move with time: no lease may depend on which instances an event happened to touch.
        const bool dynamic = order == "ratio";
        walkAll({std::string(order), std::string(placement), Binding::kAtReveal, !dynamic}, 40, &tally);
      }
    }
    MESSAGE("placements " << tally.placements << ", leases " << tally.leases << ", waiting calls compared "
                          << tally.compared);
    CHECK(tally.placements > 30'000);
    CHECK(tally.leases > 10'000);
  }

  // An instance that has room while calls wait is a candidate, whichever instances an event happened to
  // touch.
  TEST_CASE("at-credit: every order with every placement") {
    Tally tally;
    for (const auto order : orderNames()) {
      for (const auto placement : placementNames()) {
        walkAll({std::string(order), std::string(placement), Binding::kAtCredit, true, true}, 40, &tally);
      }
    }
    MESSAGE("leases " << tally.leases);
    CHECK(tally.leases > 10'000);
  }

  TEST_CASE("chunked and decode-share engines: every order with every placement") {
    Tally tally;
    for (const auto order : orderNames()) {
      for (const auto placement : placementNames()) {
        const bool dynamic = order == "ratio";
        walkAll({std::string(order), std::string(placement), Binding::kAtReveal, !dynamic, false, true}, 40,
                &tally);
        walkAll({std::string(order), std::string(placement), Binding::kAtCredit, true, true, true}, 40,
                &tally);
      }
    }
    MESSAGE("placements " << tally.placements << ", leases " << tally.leases);
    CHECK(tally.placements > 60'000);
    CHECK(tally.leases > 20'000);
  }

  TEST_CASE("at-credit: an instance never waits while the head of the queue fits its free KV") {
    Tally tally;
    for (const char* order : {"fcfs", "workflow-fcfs", "urgency"}) {
      for (const auto placement : placementNames()) {
        walkAll({order, std::string(placement), Binding::kAtCredit, true}, 40, &tally);
      }
    }
    MESSAGE("leases " << tally.leases);
    CHECK(tally.leases > 10'000);
  }
}

namespace {

/// Instances with 1 ms per prompt token and 1 ms per iteration times `slow`, and one workflow to reveal calls
/// in.
struct Bench {
  Scheduler scheduler;
  std::uint32_t calls = 0;
  Nanos t = 0;

  Bench(const char* placement, double alpha, const std::vector<double>& slow, const char* order = "fcfs",
        std::uint64_t tieSeed = 0, Binding binding = Binding::kAtReveal, std::uint32_t lookahead = 0)
      : scheduler(config(placement, alpha, slow, order, tieSeed, binding, lookahead)) {
    for (std::uint32_t m = 0; m < slow.size(); ++m) {
      InstanceSpec spec;
      spec.latency = static_cast<std::uint16_t>(m);
      for (std::uint32_t k = 0; k < m; ++k) {
        if (slow[k] == slow[m])
          spec.latency = static_cast<std::uint16_t>(std::min<std::uint32_t>(spec.latency, k));
      }
      spec.kvTokens = 1'000'000;
      spec.maxSequences = 1;
      REQUIRE(scheduler.instance(0, {m, InstanceChange::kAdd, spec}) == Status::kOk);
    }
    REQUIRE(scheduler.openWorkflow(0, {{0, 1}, 0, -1, 0, 1'000 * kSecond, -1}) == Status::kOk);
  }
  static SchedulerConfig config(const char* placement, double alpha, const std::vector<double>& slow,
                                const char* order, std::uint64_t tieSeed, Binding binding,
                                std::uint32_t lookahead) {
    SchedulerConfig c;
    REQUIRE(makeOrder(order, &c.order));
    REQUIRE(makePlacement(placement, &c.placement));
    c.parameters.set(static_cast<std::uint16_t>(Parameter::kAlpha), alpha);
    c.tieSeed = tieSeed;
    c.binding = binding;
    c.lookahead = lookahead;
    for (const double s : slow) c.latencies.push_back(model({0, s, s, 0, 0}));
    return c;
  }
  std::uint32_t place(std::uint32_t prompt, std::uint32_t predicted = 1) {
    Reveal e{};
    e.call = {calls++, 1};
    e.workflow = {0, 1};
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = predicted;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    REQUIRE(scheduler.reveal(t, e, {}) == Status::kOk);
    REQUIRE(scheduler.place(t) == Status::kOk);
    return scheduler.graph().call(e.call.slot).instance;
  }
};

}  // namespace

TEST_SUITE("workload-balanced") {
  TEST_CASE("alpha = 1 is the fastest instance only, however long its queue") {
    Bench b("workload-balanced", 1, {2, 1, 1, 3});
    for (int i = 0; i < 20; ++i) CHECK(b.place(100) == 1);
  }

  TEST_CASE("alpha = 0 is the shortest queue only, however slow its instance") {
    Bench b("workload-balanced", 0, {9, 1, 1});
    CHECK(b.place(100) == 1);  // all queues empty: the fastest, then the first by perm
    CHECK(b.place(100) == 2);
    CHECK(b.place(100) == 0);  // 900 ms of work now
    for (int i = 0; i < 16; ++i) CHECK(b.place(100) == (i % 2 == 0 ? 1u : 2u));
    // All three hold 900 ms now: equal queues go to the faster instance, then to the first by perm.
    CHECK(b.place(1) == 1);
    CHECK(b.place(1) == 2);
    CHECK(b.place(1) == 0);
  }

  TEST_CASE(
      "an empty queue has a finite score: the guard decides between an idle slow and a busy fast instance") {
    // Score = (1 - alpha) beta / (t_queue + guard) - alpha t_comp, with beta = 1 s^2.
    for (const double guardMs : {1.0, 1000.0}) {
      Bench b("workload-balanced", 0.5, {1, 4});
      const auto set = [&](Parameter p, double value) {
        REQUIRE(b.scheduler.setParameter(0, {static_cast<std::uint32_t>(p), 0, value}) == Status::kOk);
      };
      set(Parameter::kBeta, 1);
      set(Parameter::kQueueGuardMs, guardMs);
      CHECK(b.place(1000) == 0);
      // fast: 0.5 / (1 + g) - 0.5; slow: 0.5 / g - 2. g = 0.001: 500 against 0; g = 1: -1.5 against -0.25.
      CHECK(b.place(1000) == (guardMs == 1 ? 1u : 0u));
    }
  }

  TEST_CASE("beta is the squared mean stage time of the template, else of what was revealed") {
    Bench b("workload-balanced", 0.5, {1, 1});
    CHECK(b.scheduler.beta(nullptr) == 1);
    b.place(1000);
    b.place(3000);
    CHECK(b.scheduler.beta(nullptr) == doctest::Approx(4));
  }
}

TEST_SUITE("orders") {
  TEST_CASE("urgency recomputed at any time gives the pick of the static keys") {
    // The keys were issued at different times; U(t) = t_comp - (t_SLO - (t - r)) is evaluated now.
    std::uint32_t picks = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      Random random(42, seed);
      Bench b("round-robin", 0, {1}, "urgency");
      std::vector<std::uint32_t> waiting;
      std::vector<Ref> running;
      for (std::uint32_t w = 1; w < 6; ++w) {
        REQUIRE(b.scheduler.openWorkflow(
                    0, {{w, 1}, 0, -1, 0, static_cast<Nanos>(random.below(5000)) * kMillisecond, -1}) ==
                Status::kOk);
      }
      for (int step = 0; step < 30; ++step) {
        b.t += random.below(400) * kMillisecond;
        Reveal e{};
        e.call = {b.calls++, 1};
        e.workflow = {random.below(6), 1};
        e.sequences = 1;
        e.promptTokens = 1 + random.below(500);
        e.predictedTokens = e.predictedHigh = 1 + random.below(500);
        e.cached[0] = e.cached[1] = CachedPrefix{};
        e.remaining = random.below(3) == 0 ? static_cast<Nanos>(random.below(900)) * kMillisecond : -1;
        REQUIRE(b.scheduler.reveal(b.t, e, {}) == Status::kOk);
        waiting.push_back(e.call.slot);
        if (!running.empty() && random.below(2) == 0) {
          REQUIRE(b.scheduler.finished(b.t, {{running.back(), 0}, 1}) == Status::kOk);
          running.pop_back();
        }
        REQUIRE(b.scheduler.place(b.t) == Status::kOk);
        std::int64_t best = -1;
        Nanos most = 0;
        for (const std::uint32_t slot : waiting) {
          const Call& c = b.scheduler.graph().call(slot);
          const Nanos u = c.cost.exec - (c.budget - (b.t - c.readyAt));
          if (best < 0 || u > most ||
              (u == most && c.rank < b.scheduler.graph().call(static_cast<std::uint32_t>(best)).rank)) {
            best = slot;
            most = u;
          }
        }
        for (const Decision& d : b.scheduler.decide(b.t)) {
          CHECK(d.call.slot == best);
          ++picks;
          running.push_back(d.call);
          waiting.erase(std::find(waiting.begin(), waiting.end(), d.call.slot));
        }
      }
    }
    CHECK(picks > 3'000);
  }

  TEST_CASE("equal keys go by workflow, then by reveal, never by slot") {
    for (const char* order : {"fcfs", "workflow-fcfs", "urgency", "ratio"}) {
      Bench b("round-robin", 0, {1}, order);
      for (const std::uint32_t w : {1u, 2u}) {
        REQUIRE(b.scheduler.openWorkflow(0, {{w, 1}, 0, -1, 0, 1'000 * kSecond, -1}) == Status::kOk);
      }
      // Slots 0 .. 5 in an order of workflows that is not theirs.
      for (const std::uint32_t w : {2u, 1u, 0u, 1u, 0u, 2u}) {
        Reveal e{};
        e.call = {b.calls++, 1};
        e.workflow = {w, 1};
        e.sequences = 1;
        e.promptTokens = e.predictedTokens = e.predictedHigh = 10;
        e.cached[0] = e.cached[1] = CachedPrefix{};
        e.remaining = -1;
        REQUIRE(b.scheduler.reveal(0, e, {}) == Status::kOk);
      }
      std::vector<std::uint32_t> sequence;
      for (Nanos t = 0; t < 6; ++t) {
        for (const Decision& d : b.scheduler.decide(t)) {
          sequence.push_back(d.call.slot);
          REQUIRE(b.scheduler.finished(t, {{d.call, 0}, 10}) == Status::kOk);
        }
      }
      CAPTURE(order);
      if (std::string(order) == "fcfs") CHECK(sequence == std::vector<std::uint32_t>{2, 4, 1, 3, 0, 5});
      CHECK(sequence.size() == 6);
      // Inside a workflow the earlier revealed goes first.
      const auto at = [&](std::uint32_t slot) { return std::find(sequence.begin(), sequence.end(), slot); };
      CHECK(at(2) < at(4));
      CHECK(at(1) < at(3));
      CHECK(at(0) < at(5));
    }
  }
}

TEST_SUITE("shared queues") {
  TEST_CASE("when its head goes elsewhere an idle instance takes the next call") {
    // Instance 0 is large and busy, instance 1 is small and idle. The head fits only 0, the one behind it
    // fits both.
    SchedulerConfig config;
    REQUIRE(makeOrder("fcfs", &config.order));
    REQUIRE(makePlacement("global-queue", &config.placement));
    config.binding = Binding::kAtCredit;
    config.lookahead = 0;
    config.latencies.push_back(model({0, 1, 1, 0, 0}));
    Scheduler s(config);
    InstanceSpec large;
    large.maxSequences = 1;
    large.kvTokens = 1000;
    InstanceSpec small = large;
    small.kvTokens = 100;
    REQUIRE(s.instance(0, {0, InstanceChange::kAdd, large}) == Status::kOk);
    REQUIRE(s.instance(0, {1, InstanceChange::kAdd, small}) == Status::kOk);
    REQUIRE(s.openWorkflow(0, {{0, 1}, 0, -1, 0, kNever, -1}) == Status::kOk);
    const auto reveal = [&](std::uint32_t slot, std::uint32_t prompt) {
      Reveal e{};
      e.call = {slot, 1};
      e.workflow = {0, 1};
      e.sequences = 1;
      e.promptTokens = prompt;
      e.predictedTokens = e.predictedHigh = 1;
      e.cached[0] = e.cached[1] = CachedPrefix{};
      e.remaining = -1;
      REQUIRE(s.reveal(0, e, {}) == Status::kOk);
    };
    reveal(0, 500);
    REQUIRE(s.decide(0).size() == 1);
    reveal(1, 500);
    reveal(2, 10);
    CHECK(s.decide(0).size() == 0);  // strict: the head holds back the call behind it
    REQUIRE(s.finished(1, {{{0, 1}, 0}, 1}) == Status::kOk);
    const auto decisions = s.decide(1);
    REQUIRE(decisions.size() == 2);
    CHECK(decisions[0].call.slot == 1);
    CHECK(decisions[0].instance == 0);
    CHECK(decisions[1].call.slot == 2);
    CHECK(decisions[1].instance == 1);
  }
}
