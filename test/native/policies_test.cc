// Every order and placement against a scheduler written a second time, naively: plain vectors, no heaps, no
// trees, every key, budget, horizon and score recomputed from scratch with the documented formulas whenever
// it is needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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
  std::int64_t high = 0;
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
  std::uint16_t tenant = 0;
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

/// What `vtc`, `plas` and `atlas` count: replayed from the start whenever it is wanted.
struct TenantEvent {
  enum Kind { kReady, kLeased, kServed, kReturned } kind;
  std::uint32_t call;
  std::int64_t tokens;
  Nanos at;
  Nanos served = 0;
};

/// Compared part by part, larger first. A long double holds every 64-bit integer and every double.
using NaiveKey = std::array<long double, 3>;

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
  std::vector<TenantEvent> tenantEvents;
  std::int32_t lastChoice = -1;  ///< round robin
  Random draws{1, PowerOfTwo::kStream};
  bool migrates = false;
  std::uint64_t moves = 0;
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
  /// The output length that times are computed with.
  std::int64_t timed(const NaiveCall& c) const {
    const double share = parameters[Parameter::kOutputHigh];
    return c.predicted +
           static_cast<std::int64_t>(std::floor(share * static_cast<double>(c.high - c.predicted) + 0.5));
  }
  bool serves(std::uint32_t m, const NaiveCall& c) const {
    const InstanceSpec& s = instances[m].spec;
    return s.model == c.model && need(c) <= std::min(limit(s), s.kvTokens);
  }
  const LatencyModel& latency(std::uint32_t m) const { return latencies[instances[m].spec.latency]; }
  Nanos plainPrefill(std::uint32_t m, const NaiveCall& c) const {
    return latency(m).prefill(static_cast<std::uint32_t>(c.prompt), 0);
  }
  Nanos prefill(std::uint32_t m, const NaiveCall& c) const {
    Nanos least = plainPrefill(m, c);
    for (const CachedPrefix& p : c.cached) {
      if (p.instance != m || p.tokens == 0) continue;
      const Nanos load = Nanos{p.loadUs} * 1000;
      least = std::min(least,
                       load + latency(m).prefill(static_cast<std::uint32_t>(c.prompt) - p.tokens, p.tokens));
    }
    return least;
  }
  Nanos plainExec(std::uint32_t m, const NaiveCall& c) const {
    return plainPrefill(m, c) + decodeAlone(latency(m), c.prompt, timed(c));
  }
  Nanos exec(std::uint32_t m, const NaiveCall& c) const {
    return prefill(m, c) + decodeAlone(latency(m), c.prompt, timed(c));
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
  Nanos deadline(std::uint32_t workflow) const {
    const NaiveWorkflow& w = workflows[workflow];
    const double factor = parameters[Parameter::kHorizonFactor];
    return w.deadline != kNever
               ? w.deadline
               : w.arrival + static_cast<Nanos>(factor * static_cast<double>(horizon(workflow)) + 0.5);
  }
  /// Longest mean-time path that ends with the call.
  Nanos head(std::uint32_t index) const {
    Nanos above = 0;
    for (const std::uint32_t p : calls[index].parents) above = std::max(above, head(p));
    return above + mean(calls[index]);
  }
  /// X of `stretch`.
  Nanos wholePath(std::uint32_t workflow) const {
    const Nanos expected = rest(workflows[workflow]);
    Nanos longest = 0;
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].workflow != workflow) continue;
      const bool stands = !over(calls[i]) && calls[i].declared >= 0;
      longest = std::max(longest, head(i) + (stands ? tail(i) : expected));
    }
    return longest;
  }
  double stretch(std::uint32_t index) const {
    const NaiveCall& c = calls[index];
    const NaiveWorkflow& w = workflows[c.workflow];
    double allowed = static_cast<double>(deadline(c.workflow) - w.arrival);
    if (w.templated) {
      Nanos base = 0;
      for (const TemplateEntry& e : stages) base += entryMean(e);
      allowed = allowed * static_cast<double>(wholePath(c.workflow)) / static_cast<double>(base);
    }
    return static_cast<double>(now - w.arrival + mean(c) + tail(index)) / std::max(1.0, allowed);
  }
  std::int64_t counter(std::uint16_t tenant) const {
    const auto rate = [&](Parameter p) { return static_cast<std::int64_t>(parameters[p] * 1024 + 0.5); };
    std::map<std::uint16_t, std::int64_t> counters;
    std::map<std::uint16_t, int> waiting;
    std::uint16_t last = 0;
    for (const TenantEvent& e : tenantEvents) {
      const NaiveCall& c = calls[e.call];
      const std::uint16_t u = workflows[c.workflow].tenant;
      const std::int64_t charge =
          rate(Parameter::kInputWeight) * c.prompt + rate(Parameter::kOutputWeight) * c.predicted;
      switch (e.kind) {
        case TenantEvent::kReady: {
          std::int64_t least = kNever;
          for (const auto& [other, n] : waiting) {
            if (n > 0) least = std::min(least, counters[other]);
          }
          if (least == kNever) least = counters[last];
          if (waiting[u]++ == 0) counters[u] = std::max(counters[u], least);
          break;
        }
        case TenantEvent::kLeased:
          counters[u] += charge;
          if (--waiting[u] == 0) last = u;
          break;
        case TenantEvent::kServed:
          counters[u] += rate(Parameter::kOutputWeight) * (e.tokens - c.predicted);
          break;
        case TenantEvent::kReturned:
          counters[u] -= charge;
          break;
      }
    }
    return counters[tenant];
  }
  /// policies 2.7: level and ready time.
  NaiveKey attained(std::uint32_t index) const {
    struct Program {
      Nanos attained = 0, service = 0, wait = 0;
    };
    struct State {
      Nanos p = 0, since = 0, waited = 0, carried = 0;
      Program then;  ///< its program when it began to wait
      bool leasedBefore = false;
    };
    std::map<std::uint32_t, Program> programs;
    std::map<std::uint32_t, State> states;
    const auto promotion = [&](const State& s) -> Nanos {
      // The first time at which wait / service reaches beta.
      const double due = parameters[Parameter::kStarvationRatio] * static_cast<double>(s.then.service);
      return s.since + std::max<Nanos>(0, static_cast<Nanos>(std::floor(due + 0.5)) - s.then.wait);
    };
    for (const TenantEvent& e : tenantEvents) {
      Program& program = programs[calls[e.call].workflow];
      State& s = states[e.call];
      switch (e.kind) {
        case TenantEvent::kReady:
          s.p = program.attained;
          s.then = program;
          s.since = s.leasedBefore ? e.at - s.carried : e.at;
          break;
        case TenantEvent::kLeased:
          s.waited = e.at - (promotion(s) <= e.at ? promotion(s) : s.since);
          s.carried = s.waited;
          s.leasedBefore = true;
          break;
        case TenantEvent::kServed:
          if (order == "plas")
            program.attained += e.served;
          else
            program.attained = std::max(program.attained, s.p + e.served);
          program.service += e.served;
          program.wait += s.waited;
          break;
        case TenantEvent::kReturned:
          break;
      }
    }
    const State& s = states[index];
    std::int64_t level = 0;
    if (now < promotion(s)) {
      double from = parameters[Parameter::kServiceLevelMs] * 1e6;
      for (std::int64_t k = 1; k < parameters[Parameter::kServiceLevels]; ++k) {
        if (static_cast<double>(s.p) >= from) level = k;
        from *= parameters[Parameter::kServiceLevelRatio];
      }
    }
    return {static_cast<long double>(-level), static_cast<long double>(-calls[index].readyAt), 0};
  }
  /// policies 2.12; `index` may stand outside the queue (a candidate).
  NaiveKey qlm(std::uint32_t index, std::int32_t m) const {
    struct Group {
      Nanos first = kNever;
      Nanos deadline = kNever;
      __int128 work = 0;
    };
    const NaiveCall& c = calls[index];
    const auto bucket = [&](const NaiveCall& call) {
      return deadline(call.workflow) / fromMs(parameters[Parameter::kBucketMs]);
    };
    std::map<Nanos, Group> groups;
    for (const std::uint32_t i : waitingOn(m, c.model)) {
      Group& g = groups[bucket(calls[i])];
      g.first = std::min(g.first, calls[i].readyAt);
      g.deadline = std::min(g.deadline, deadline(calls[i].workflow));
      g.work += m >= 0 ? calls[i].exec : mean(calls[i]);
    }
    std::int64_t slots = 0;
    for (std::uint32_t i = 0; i < instances.size(); ++i) {
      const bool draws =
          m >= 0 ? i == static_cast<std::uint32_t>(m) : instances[i].up && instances[i].spec.model == c.model;
      if (draws) slots += instances[i].spec.maxSequences;
    }
    bool breaks = false;
    for (const auto& [b, g] : groups) {
      __int128 before = g.work;
      for (const auto& [other, h] : groups) {
        if (other != b && (h.first < g.first || (h.first == g.first && other < b))) before += h.work;
      }
      breaks = breaks || before > __int128{g.deadline - now} * slots;
    }
    const Nanos b = bucket(c);
    Nanos first = c.readyAt;
    if (groups.contains(b)) first = std::min(first, groups[b].first);
    return {static_cast<long double>(breaks ? -b : -first), static_cast<long double>(-b),
            static_cast<long double>(-c.readyAt)};
  }
  Nanos budget(std::uint32_t index) const {
    const NaiveCall& c = calls[index];
    const NaiveWorkflow& w = workflows[c.workflow];
    Nanos path = 0;
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].workflow == c.workflow && !over(calls[i])) path = std::max(path, mean(calls[i]) + tail(i));
    }
    Nanos target = deadline(c.workflow);
    if (target > w.arrival) {
      const double margin = parameters[Parameter::kBudgetMargin];
      target -= static_cast<Nanos>(std::floor(margin * static_cast<double>(target - w.arrival) + 0.5));
    }
    const double share = static_cast<double>(path - tail(index)) / static_cast<double>(path);
    return static_cast<Nanos>(std::round(static_cast<double>(target - c.readyAt) * share));
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
  bool prefillCredit(std::uint32_t m, const NaiveCall& c) const {
    const InstanceSpec& s = instances[m].spec;
    if (s.mode == EngineMode::kPrefillFirst && s.chunkTokens > 0) {
      return unprefilled(m) < 1 + lookahead ||
             unprefilledTokens(m) + toPrefill(m, c) <= (1 + std::int64_t{lookahead}) * s.chunkTokens;
    }
    if (s.mode != EngineMode::kChunked) return unprefilled(m) < 1 + lookahead;
    return unprefilledTokens(m) < (1 + std::int64_t{lookahead}) * s.chunkTokens - running(m);
  }
  bool credit(std::uint32_t m, const NaiveCall& c) const {
    const NaiveInstance& i = instances[m];
    return i.up && leased(m) < i.spec.maxSequences + lookahead && reserved(m) + need(c) <= limit(i.spec) &&
           prefillCredit(m, c);
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
           beside(m, prefillTime, toPrefill(m, c)) + roundHalfUp(perToken * timed(c));
  }
  /// Larger first. m < 0: in the shared queue.
  NaiveKey keyNow(std::uint32_t index, std::int32_t m, Nanos execThere, Nanos prefillThere) const {
    if (order == "vtc") {
      return {static_cast<long double>(-counter(workflows[calls[index].workflow].tenant)),
              static_cast<long double>(-calls[index].readyAt), 0};
    }
    if (order == "qlm") return qlm(index, m);
    if (order == "plas" || order == "atlas") return attained(index);
    return {urgencyNow(index, m, execThere, prefillThere), 0, 0};
  }
  bool aged(std::uint32_t index) const {
    const double ms = parameters[Parameter::kAgeingMs];
    return ms > 0 && static_cast<double>(now - calls[index].readyAt) > ms * 1e6;
  }
  /// Whether call `a` with key `mine` goes before `b` with key `other`.
  bool goesFirst(std::uint32_t a, const NaiveKey& mine, std::uint32_t b, const NaiveKey& other) const {
    if (aged(a) != aged(b)) return aged(a);
    if (aged(a) && calls[a].readyAt != calls[b].readyAt) return calls[a].readyAt < calls[b].readyAt;
    if (!aged(a) && mine != other) return mine > other;
    return earlier(calls[a], calls[b]);
  }
  long double urgencyNow(std::uint32_t index, std::int32_t m, Nanos execThere, Nanos prefillThere) const {
    const NaiveCall& c = calls[index];
    const NaiveWorkflow& w = workflows[c.workflow];
    if (order == "fcfs") return static_cast<long double>(now - c.readyAt);
    if (order == "workflow-fcfs") return static_cast<long double>(now - w.arrival);
    const auto late = [&] { return static_cast<long double>(now - deadline(c.workflow)); };
    const auto remaining = [&] { return static_cast<long double>(mean(c) + tail(index)); };
    if (order == "edf") return late();
    if (order == "edf-path") return late() + static_cast<long double>(tail(index));
    if (order == "llf") return late() + remaining();
    if (order == "llf-call") {
      // Minus the slack of the budget: (r + t_SLO) - now - t_comp
      return -static_cast<long double>(c.readyAt + budget(index) - now - execThere);
    }
    if (order == "sjf") return static_cast<long double>(-execThere);
    if (order == "srpt") return -remaining();
    if (order == "stretch") return stretch(index);
    if (order == "edf-alpha") {
      // alpha* = 2: no workflow of these walks is closed
      return static_cast<long double>(now - w.arrival - 2 * horizon(c.workflow));
    }
    if (order == "urgency") {
      // U(t) = t_comp - (t_SLO - (t - r))
      return static_cast<long double>(execThere - (budget(index) - (now - c.readyAt)));
    }
    // level-ratio is ratio while no workflow has finished
    REQUIRE((order == "ratio" || order == "level-laxity" || order == "level-ratio"));
    Nanos projected = kNever;
    if (m >= 0) {
      projected = delta(c, static_cast<std::uint32_t>(m), prefillThere);
    } else {
      for (std::uint32_t i = 0; i < instances.size(); ++i) {
        if (instances[i].up && serves(i, c)) projected = std::min(projected, delta(c, i, prefill(i, c)));
      }
      if (projected == kNever) projected = mean(c);
    }
    // Declared with the call, else what is left of the workflow's, which was declared before its first call.
    const Nanos revealed = horizon(c.workflow);
    const Nanos left = w.remaining > revealed ? w.remaining - revealed : 0;
    const double hint = static_cast<double>(c.declared >= 0 ? c.declared : left);
    if (order == "level-laxity") {
      // alpha = 1.2: no workflow of these walks is closed
      const double allowed = 1.2 * (static_cast<double>(revealed) + hint);
      return static_cast<double>(now - w.arrival + projected + static_cast<Nanos>(hint - allowed));
    }
    const double whole = static_cast<double>(std::max<Nanos>(1, horizon(c.workflow))) + hint;
    return (static_cast<double>(now - w.arrival + projected) + hint) / whole;
  }
  bool earlier(const NaiveCall& a, const NaiveCall& b) const {
    return a.workflow != b.workflow ? a.workflow < b.workflow : a.number < b.number;
  }
  std::int32_t mostUrgent(const std::vector<std::uint32_t>& waiting, std::int32_t m) const {
    std::int32_t best = -1;
    NaiveKey bestKey{};
    for (const std::uint32_t i : waiting) {
      const NaiveCall& c = calls[i];
      const NaiveKey key = keyNow(i, m, m >= 0 ? c.exec : mean(c), c.prefill);
      if (best < 0 || goesFirst(i, key, static_cast<std::uint32_t>(best), bestKey)) {
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
    const NaiveKey mine = keyNow(index, static_cast<std::int32_t>(m), exec(m, c), prefill(m, c));
    Nanos prefillAll = 0;
    Nanos prefillAhead = 0;
    std::int64_t kvAhead = 0;
    std::int64_t behind = 0;
    for (const std::uint32_t j : waitingOn(static_cast<std::int32_t>(m), c.model)) {
      const NaiveCall& other = calls[j];
      const NaiveKey key = keyNow(j, static_cast<std::int32_t>(m), other.exec, other.prefill);
      prefillAll += other.prefill;
      if (goesFirst(j, key, index, mine)) {
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
    return current + wait + kv + own + static_cast<double>(timed(c)) * perToken * stretch +
           parameters[Parameter::kGamma] * own * others;
  }

  /// Sums over the calls that wait on m, without one.
  template <class Value>
  std::int64_t waitingSum(std::uint32_t m, const NaiveCall& without, Value value) const {
    std::int64_t total = 0;
    for (const NaiveCall& c : calls) {
      if (&c != &without && c.life == Life::kWaiting && c.instance == static_cast<std::int32_t>(m))
        total += value(c);
    }
    return total;
  }
  std::int64_t newTokens(std::uint32_t m, const NaiveCall& c) const {
    std::int64_t cached = 0;
    for (const CachedPrefix& p : c.cached) {
      if (p.instance == m && p.tokens > 0) cached = p.tokens;
    }
    return c.prompt - cached;
  }

  /// EFT (policies 4.9) given who is ahead and how many others are delayed.
  double earliestFinish(std::uint32_t index, std::uint32_t m, Nanos prefillAhead, std::int64_t kvAhead,
                        double others) const {
    const NaiveCall& c = calls[index];
    const NaiveInstance& i = instances[m];
    const bool here = c.life == Life::kWaiting && c.instance == static_cast<std::int32_t>(m);
    const auto n = static_cast<double>(assigned(m) - (here ? 1 : 0));
    const Nanos out = work(m) - (here ? c.exec : 0);
    const double horizonMs = parameters[Parameter::kUtilisationMs];
    const double u =
        i.used == 0 ? 0 : i.used * detExp(-(static_cast<double>(now - i.usedAt) * 1e-6 / horizonMs));
    const double share = i.spec.mode == EngineMode::kDecodeShare ? i.spec.decodeShare / 1000.0 : 0;
    const double wait =
        seconds(std::max<Nanos>(0, i.prefillsEnd - now)) + seconds(prefillAhead) / (1 - share);
    const std::int64_t excess = reserved(m) + kvAhead + need(c) - i.spec.kvTokens;
    double kv = 0;
    if (excess > 0 && n > 0) {
      kv = parameters[Parameter::kKvWeight] * static_cast<double>(excess) /
           static_cast<double>(i.spec.kvTokens) * (seconds(out) / n) / (1 - std::min(0.9, u));
    }
    const double own = seconds(prefill(m, c));
    const std::int64_t tokens = context(m) + need(c);
    const DecodePiece piece = latency(m).piece(static_cast<std::uint32_t>(leased(m) + 1), tokens);
    const double perToken = seconds(roundHalfUp(__int128{piece.base} + __int128{piece.perContext} * tokens));
    const double stretch = 1 / (1 - std::min(share > 0 ? 1 - share : 0.85, u));
    return wait + kv + own + static_cast<double>(timed(c)) * perToken * stretch +
           parameters[Parameter::kGamma] * own * others;
  }

  /// The score of the migration (scheduler/migrate.h): the waiting calls at least as urgent are ahead.
  double migrationScore(std::uint32_t index, std::uint32_t m) const {
    const NaiveCall& c = calls[index];
    const auto instance = static_cast<std::int32_t>(m);
    const NaiveKey mine = c.instance == instance ? keyNow(index, instance, c.exec, c.prefill)
                                                 : keyNow(index, instance, exec(m, c), prefill(m, c));
    Nanos all = 0;
    Nanos ahead = 0;
    std::int64_t kvAhead = 0;
    std::int64_t behind = 0;
    for (const std::uint32_t j : waitingOn(instance, c.model)) {
      if (j == index) continue;
      const NaiveCall& other = calls[j];
      all += other.prefill;
      if (goesFirst(j, keyNow(j, instance, other.exec, other.prefill), index, mine)) {
        ahead += other.prefill;
        kvAhead += need(other);
      } else {
        ++behind;
      }
    }
    const bool contended = reserved(m) + kvAhead + need(c) > instances[m].spec.kvTokens;
    const std::int64_t here = c.instance == instance ? 1 : 0;
    const std::int64_t others = contended ? leased(m) + behind : assigned(m) - here;
    return earliestFinish(index, m, contended ? ahead : all, kvAhead, static_cast<double>(others));
  }

  void migrate(std::vector<Expected>* decisions) {
    for (;;) {
      double bestGain = 0;
      std::int32_t bestCall = -1;
      std::uint32_t bestTaker = 0;
      for (std::uint32_t m = 0; m < instances.size(); ++m) {
        const std::uint16_t name = instances[m].spec.model;
        if (!instances[m].up || !waitingOn(static_cast<std::int32_t>(m), name).empty()) continue;
        for (std::uint32_t s = 0; s < instances.size(); ++s) {
          std::vector<std::uint32_t> waiting = waitingOn(static_cast<std::int32_t>(s), name);
          const auto most = static_cast<std::size_t>(parameters[Parameter::kMigrateCandidates]);
          for (std::size_t k = 0; k < most && !waiting.empty(); ++k) {
            const auto i = static_cast<std::uint32_t>(mostUrgent(waiting, static_cast<std::int32_t>(s)));
            waiting.erase(std::find(waiting.begin(), waiting.end(), i));
            if (!serves(m, calls[i]) || !credit(m, calls[i])) continue;
            const double gain = migrationScore(i, s) - migrationScore(i, m);
            if (!(gain > parameters[Parameter::kMigrateMs] * 1e-3)) continue;
            bool better = bestCall < 0 || gain > bestGain;
            if (!better && gain == bestGain) {
              const auto b = static_cast<std::uint32_t>(bestCall);
              if (b != i) {
                better = earlier(calls[i], calls[b]);
              } else {
                const Nanos mine = exec(m, calls[i]);
                const Nanos theirs = exec(bestTaker, calls[i]);
                better = mine < theirs || (mine == theirs && instances[m].perm < instances[bestTaker].perm);
              }
            }
            if (!better) continue;
            bestGain = gain;
            bestCall = static_cast<std::int32_t>(i);
            bestTaker = m;
          }
        }
      }
      if (bestCall < 0) return;
      const auto i = static_cast<std::uint32_t>(bestCall);
      const auto from = static_cast<std::uint32_t>(calls[i].instance);
      ++moves;
      assign(i, bestTaker);
      lease(i);
      decisions->push_back({i, bestTaker});
      serve(from, decisions);
    }
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
    std::vector<std::uint32_t> sorted = candidates;
    std::sort(sorted.begin(), sorted.end(),
              [&](std::uint32_t a, std::uint32_t b) { return instances[a].perm < instances[b].perm; });
    std::vector<std::uint32_t> considered = candidates;
    if (placement == "power-of-two" && sorted.size() > 1) {
      const auto n = static_cast<std::uint32_t>(sorted.size());
      const std::uint32_t first = draws.below(n);
      considered = {sorted[first]};
      sorted.erase(sorted.begin() + first);
      considered.push_back(sorted[draws.below(n - 1)]);
    }
    if (placement == "workload-balanced-reference") {
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
    Nanos shortest = kNever;
    Nanos leastWork = kNever;
    for (const std::uint32_t m : candidates) {
      shortest = std::min(shortest, exec(m, c));
      leastWork = std::min(leastWork, work(m));
    }
    const auto score = [&](std::uint32_t m) -> long double {  // smaller is better
      if (placement == "global-queue") return 0;
      if (placement == "least-work-left" || placement == "power-of-two")
        return static_cast<long double>(work(m));
      if (placement == "least-loaded") return static_cast<long double>(assigned(m));
      if (placement == "eftxp") return eftxp(index, m);
      if (placement == "normalised") {
        const double queue =
            static_cast<double>(leastWork + shortest) / static_cast<double>(work(m) + shortest);
        const double slowness = static_cast<double>(exec(m, c)) / static_cast<double>(shortest);
        return alpha * slowness - (1 - alpha) * queue;
      }
      const std::int64_t waiting = waitingSum(m, c, [](const NaiveCall&) { return 1; });
      if (placement == "lmetric") {
        const auto tokens = [&](const NaiveCall& other) { return newTokens(m, other); };
        std::int64_t toPrefill = waitingSum(m, c, tokens) + newTokens(m, c);
        toPrefill += sum(m, false, [&](const NaiveCall& other) {
          return other.life == Life::kPrefilling ? tokens(other) : 0;
        });
        return static_cast<long double>(toPrefill * (leased(m) + waiting + 1));
      }
      const std::int64_t demanded = waitingSum(m, c, [&](const NaiveCall& other) { return need(other); });
      if (placement == "freeness") {
        const std::int64_t batch = leased(m) + waiting;
        if (batch == 0) return -std::numeric_limits<long double>::infinity();
        return -static_cast<long double>(instances[m].spec.kvTokens - reserved(m) - demanded) /
               static_cast<long double>(batch);
      }
      if (placement == "eft" || placement == "eftx") {
        const Nanos ahead = waitingSum(m, c, [](const NaiveCall& other) { return other.prefill; });
        return earliestFinish(index, m, ahead, demanded,
                              placement == "eft" ? 0 : static_cast<double>(assigned(m)));
      }
      REQUIRE(placement == "workload-balanced");
      return -(weight / (seconds(work(m)) + guard) - alpha * seconds(exec(m, c)));
    };
    // Inside a class and without a cached prefix only the outstanding work differs: it decides, not the
    // rounded score.
    const bool normalised = placement == "normalised";
    const bool byWork = (placement == "workload-balanced" || normalised) && !atCredit;
    const bool balances = normalised ? alpha < 1 : weight > 0;
    std::int32_t best = -1;
    std::vector<std::uint32_t> left;
    for (const std::uint32_t m : considered) {
      bool dominated = false;
      for (const std::uint32_t other : candidates) {
        if (!byWork || other == m || holds(m, c) || !(instances[other].spec == instances[m].spec)) continue;
        const bool less = balances && work(other) != work(m) ? work(other) < work(m)
                                                             : instances[other].perm < instances[m].perm;
        dominated = dominated || less;
      }
      if (!dominated) left.push_back(m);
    }
    for (const std::uint32_t m : left) {
      if (best >= 0) {
        const auto b = static_cast<std::uint32_t>(best);
        const long double s = score(m);
        const long double sb = score(b);
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
    tenantEvents.push_back({TenantEvent::kReady, i, 0, now});
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
    const Nanos decode = decodeAlone(latency(static_cast<std::uint32_t>(c.instance)), c.prompt, output);
    tenantEvents.push_back({TenantEvent::kServed, i, output, now, c.prefill + decode});
    end(i);
    const LatencyModel& m = latency(c.isolatedInstance);
    c.isolatedEnd += decodeAlone(m, c.prompt, output) - decodeAlone(m, c.prompt, timed(c));
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
        tenantEvents.push_back({TenantEvent::kReturned, i, 0, now});
        tenantEvents.push_back({TenantEvent::kReady, i, 0, now});
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
    tenantEvents.push_back({TenantEvent::kLeased, i, 0, now});
    const auto index = static_cast<std::uint32_t>(c.instance);
    m.prefillsEnd = std::max(m.prefillsEnd, now) + c.prefill + beside(index, c.prefill, toPrefill(index, c));
    if (placement == "eftxp" || placement == "eft" || placement == "eftx" || migrates) {
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
  void serve(std::uint32_t m, std::vector<Expected>* decisions) {
    for (;;) {
      const std::int32_t best = mostUrgent(waitingOn(static_cast<std::int32_t>(m), instances[m].spec.model),
                                           static_cast<std::int32_t>(m));
      if (best < 0 || !credit(m, calls[static_cast<std::uint32_t>(best)])) break;
      lease(static_cast<std::uint32_t>(best));
      decisions->push_back({static_cast<std::uint32_t>(best), m});
    }
  }
  std::vector<Expected> leases(const std::vector<std::uint32_t>& considered) {
    std::vector<Expected> decisions;
    if (binding == Binding::kAtReveal) {
      // By perm: with counters that all queues share it matters.
      for (const std::uint32_t m : byPerm()) {
        if (std::find(considered.begin(), considered.end(), m) == considered.end()) continue;
        serve(m, &decisions);
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
  bool migrates = false;
};

struct Tally {
  std::uint64_t placements = 0;
  std::uint64_t leases = 0;
  std::uint64_t compared = 0;
  std::uint64_t moves = 0;
};

bool isDynamic(std::string_view name) {
  Order order;
  REQUIRE(makeOrder(name, &order));
  return std::visit([](const auto& o) { return std::decay_t<decltype(o)>::kDynamic; }, order);
}

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
  if (random.below(3) == 0) set(Parameter::kBeta, 0.01);
  if (random.below(3) == 0) set(Parameter::kUtilisationMs, 50);
  if (random.below(4) == 0) set(Parameter::kOvercommit, 0.75 + random.below(2) * 0.75);
  if (random.below(3) == 0) set(Parameter::kBudgetMargin, 0.2);
  if (random.below(3) == 0) set(Parameter::kOutputHigh, 0.3 + random.below(2) * 0.7);
  if (random.below(2) == 0) {
    set(Parameter::kInputWeight, 0.3);
    set(Parameter::kOutputWeight, 5);
  }
  if (random.below(2) == 0) set(Parameter::kBucketMs, coarse ? 20 : 50);
  if (random.below(4) != 0) {
    set(Parameter::kServiceLevels, 1 + random.below(6));
    set(Parameter::kServiceLevelMs, coarse ? 8 : 5 + random.below(20));
    set(Parameter::kServiceLevelRatio, 1 + random.below(3) * 0.5);
    set(Parameter::kStarvationRatio, random.below(4) * 0.25);
  }
  // With ageing the first of a queue changes with time alone, which makes nobody look at it.
  const bool ages = (how.binding == Binding::kAtReveal || how.roomy) && random.below(4) == 0;
  if (ages) set(Parameter::kAgeingMs, 1 + random.below(20));
  const bool everyInstance = how.everyInstance && (!ages || how.roomy);
  // Whether a prompt joins a batch depends on its size, so there too the first of a queue matters.
  const bool batches = !(everyInstance && (ages || isDynamic(how.order)));
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
  config.placementSeed = seed + 7;
  naive.draws = Random(config.placementSeed, PowerOfTwo::kStream);
  config.migrate = naive.migrates = how.migrates;
  if (how.migrates) {
    set(Parameter::kMigrateMs, random.below(3) * 2);
    set(Parameter::kMigrateCandidates, 1 + random.below(3));
  }
  config.parameters = naive.parameters;
  config.latencies = naive.latencies;
  if (!naive.stages.empty()) config.templates.push_back(naive.stages);
  Scheduler scheduler(config);

  // With a shared queue per model, which model is served first at one instant is not specified, and a
  // placement that remembers its choices would tell.
  const bool remembers =
      how.placement == "round-robin" || how.placement == "workload-balanced-reference" || how.order == "vtc";
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
      if (batches && i.spec.mode == EngineMode::kPrefillFirst && random.below(2) == 0)
        i.spec.chunkTokens = 1 + random.below(largest);
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
        w.tenant = static_cast<std::uint16_t>(random.below(3));
        w.isolatedReady.assign(count, 0);
        const std::int16_t stages = w.templated ? 0 : -1;
        REQUIRE(scheduler.openWorkflow(t, {w.ref, w.tenant, stages, 0, w.deadline, w.remaining}) ==
                Status::kOk);
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
        c.high = c.predicted + random.below(largest / 2);
        if (random.below(6) == 0) c.declared = random.below(30) * kMillisecond;
        if (c.prompt > 1 && random.below(3) == 0) {
          c.cached[0] = {random.below(count), 1 + random.below(static_cast<std::uint32_t>(c.prompt - 1))};
          if (random.below(2) == 0) c.cached[0].loadUs = random.below(5000);
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
        e.predictedTokens = static_cast<std::uint32_t>(c.predicted);
        e.predictedHigh = static_cast<std::uint32_t>(c.high);
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
      if (everyInstance || std::find(touched.begin(), touched.end(), m) != touched.end())
        considered.push_back(m);
    }
    if (how.migrates) {  // the order of instances is part of the specification
      std::sort(considered.begin(), considered.end(), [&](std::uint32_t a, std::uint32_t b) {
        return naive.instances[a].perm < naive.instances[b].perm;
      });
    }
    const bool decides = !scheduler.touched().empty();
    std::vector<Expected> expected = naive.leases(considered);
    if (how.migrates && decides) naive.migrate(&expected);
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
    if (!how.migrates) {
      std::stable_sort(expected.begin(), expected.end(), byBucket);
      std::stable_sort(got.begin(), got.end(), byBucket);
    }
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
  tally->moves += naive.moves;
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
        walkAll({std::string(order), std::string(placement), Binding::kAtReveal, !isDynamic(order)}, 20,
                &tally);
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
        walkAll({std::string(order), std::string(placement), Binding::kAtCredit, true, true}, 20, &tally);
      }
    }
    MESSAGE("leases " << tally.leases);
    CHECK(tally.leases > 10'000);
  }

  TEST_CASE("migration: every order with every placement") {
    Tally tally;
    for (const auto order : orderNames()) {
      for (const auto placement : placementNames()) {
        const bool dynamic = isDynamic(order);
        Walk how{std::string(order), std::string(placement), Binding::kAtReveal, !dynamic};
        how.migrates = true;
        walkAll(how, 40, &tally);
      }
    }
    MESSAGE("moves " << tally.moves << ", leases " << tally.leases);
    CHECK(tally.moves > 2'000);
    CHECK(tally.leases > 10'000);
  }

  TEST_CASE("chunked and decode-share engines: every order with every placement") {
    Tally tally;
    for (const auto order : orderNames()) {
      for (const auto placement : placementNames()) {
        const bool dynamic = isDynamic(order);
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
    for (const auto order : orderNames()) {
      if (isDynamic(order)) continue;
      for (const auto placement : placementNames()) {
        walkAll({std::string(order), std::string(placement), Binding::kAtCredit, true}, 15, &tally);
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
      : Bench(config(placement, alpha, slow, order, tieSeed, binding, lookahead), slow.size()) {}
  Bench(SchedulerConfig c, std::size_t instances) : scheduler(c) {
    for (std::uint32_t m = 0; m < instances; ++m) {
      InstanceSpec spec;
      spec.latency = static_cast<std::uint16_t>(m);
      for (std::uint32_t k = 0; k < m; ++k) {
        if (c.latencies[k] == c.latencies[m])
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
    const std::uint32_t slot = reveal(prompt, predicted);
    REQUIRE(scheduler.place(t) == Status::kOk);
    return scheduler.graph().call(slot).instance;
  }
  std::uint32_t reveal(std::uint32_t prompt, std::uint32_t predicted = 1) {
    Reveal e{};
    e.call = {calls++, 1};
    e.workflow = {0, 1};
    e.sequences = 1;
    e.promptTokens = prompt;
    e.predictedTokens = e.predictedHigh = predicted;
    e.cached[0] = e.cached[1] = CachedPrefix{};
    e.remaining = -1;
    REQUIRE(scheduler.reveal(t, e, {}) == Status::kOk);
    return e.call.slot;
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

TEST_SUITE("placements") {
  TEST_CASE("normalised: alpha = 0 on equal hardware joins the shortest queue, at any load") {
    for (const std::uint64_t tieSeed : {0u, 3u}) {
      Random random(43, tieSeed);
      Bench a("normalised", 0, {1, 1, 1, 1, 1}, "fcfs", tieSeed);
      Bench b("least-work-left", 0, {1, 1, 1, 1, 1}, "fcfs", tieSeed);
      for (int i = 0; i < 500; ++i) {
        const std::uint32_t prompt = 1 + random.below(300);
        const std::uint32_t output = 1 + random.below(4);
        CHECK(a.place(prompt, output) == b.place(prompt, output));
      }
    }
  }

  TEST_CASE("normalised: scaling every time changes nothing; alpha = 1 is the fastest only") {
    Random random(44);
    Bench a("normalised", 0.2, {1, 2, 2, 3});
    Bench b("normalised", 0.2, {8, 16, 16, 24});
    Bench fastest("normalised", 1, {2, 1, 1, 3});
    for (int i = 0; i < 300; ++i) {
      const std::uint32_t prompt = 1 + random.below(300);
      CHECK(a.place(prompt) == b.place(prompt));
      CHECK(fastest.place(prompt) == 1);
    }
  }

  TEST_CASE("least-loaded counts calls, however long") {
    Bench b("least-loaded", 0, {1, 1, 2});
    CHECK(b.place(9000) == 0);  // equal counts: the fastest, then the first by perm
    CHECK(b.place(1) == 1);
    CHECK(b.place(1) == 2);
    CHECK(b.place(1) == 0);
  }

  TEST_CASE("power-of-two: one candidate needs no draw; of two it is least-work-left; of many it is a pair") {
    Bench one("power-of-two", 0, {1});
    for (int i = 0; i < 20; ++i) CHECK(one.place(10) == 0);
    Random random(45);
    Bench two("power-of-two", 0, {1, 1});
    Bench lwl("least-work-left", 0, {1, 1});
    for (int i = 0; i < 200; ++i) {
      const std::uint32_t prompt = 1 + random.below(300);
      CHECK(two.place(prompt) == lwl.place(prompt));
    }
    // Six instances with distinct work: each pair is equally likely, so the k-th least loaded is kept with
    // probability (5 - k) / 15, k = 0 .. 5. Calls without weight keep the ranking.
    Bench six("power-of-two", 0, {1, 1, 1, 1, 1, 1});
    std::uint32_t kept[6] = {};
    std::vector<std::uint32_t> loaded;
    for (std::uint32_t prompt = 1; loaded.size() < 6; ++prompt) {
      const std::uint32_t m = six.place(1'000'000'0u * prompt / 100);
      if (std::find(loaded.begin(), loaded.end(), m) == loaded.end()) loaded.push_back(m);
    }
    std::vector<std::uint32_t> byWork = {0, 1, 2, 3, 4, 5};
    const auto& cluster = six.scheduler.cluster();
    std::sort(byWork.begin(), byWork.end(), [&](std::uint32_t a, std::uint32_t b) {
      return cluster.at(a).ledger.work < cluster.at(b).ledger.work;
    });
    for (std::size_t k = 1; k < 6; ++k)
      REQUIRE(cluster.at(byWork[k]).ledger.work - cluster.at(byWork[k - 1]).ledger.work >
              6'000 * kMillisecond);
    constexpr int kDraws = 3000;
    for (int i = 0; i < kDraws; ++i) {
      const std::uint32_t m = six.place(1);
      ++kept[std::find(byWork.begin(), byWork.end(), m) - byWork.begin()];
    }
    for (std::uint32_t k = 0; k < 6; ++k) {
      const double expected = kDraws * (5.0 - k) / 15;
      CHECK(std::abs(kept[k] - expected) <= 4 * std::sqrt(expected + 1));
    }
    CHECK(kept[5] == 0);  // the most loaded loses to any other: two distinct ones are drawn
  }

  TEST_CASE("power-of-two replays from its seed, and another seed draws otherwise") {
    const auto choices = [](std::uint64_t seed) {
      SchedulerConfig config =
          Bench::config("power-of-two", 0, {1, 1, 1, 1, 1, 1, 1, 1}, "fcfs", 0, Binding::kAtReveal, 0);
      config.placementSeed = seed;
      Bench b(config, 8);
      std::vector<std::uint32_t> chosen;
      for (std::uint32_t i = 0; i < 100; ++i) chosen.push_back(b.place(1 + i % 7));
      return chosen;
    };
    CHECK(choices(5) == choices(5));
    CHECK(choices(5) != choices(6));
  }

  TEST_CASE("lmetric and freeness weigh what they say, to the token") {
    // 1 ms per token. Instance 0 has a call of 100 tokens waiting or leased, instance 1 one of 98.
    Bench l("lmetric", 0, {1, 1});
    CHECK(l.place(100) == 0);
    CHECK(l.place(98) == 1);
    CHECK(l.place(1) == 1);  // (98 + 1) * 2 < (100 + 1) * 2
    CHECK(l.place(1) == 0);  // (100 + 1) * 2 < (99 + 1) * 3
    Bench f("freeness", 0, {1, 1});
    CHECK(f.place(100) == 0);  // both infinite
    CHECK(f.place(50) == 1);
    CHECK(f.place(10) == 1);  // (1e6 - 51) / 1 > (1e6 - 101) / 1
    CHECK(f.place(10) == 0);  // (1e6 - 101) / 1 > (1e6 - 62) / 2
  }

  TEST_CASE("projected finish: the terms of a decode share") {
    // No engine with a decode share is accepted yet, so the specification is changed behind the cluster.
    Cluster cluster({model({0, 1, 10, 0, 0})}, 0);
    InstanceSpec spec;
    spec.kvTokens = 1000;
    spec.maxSequences = 4;
    REQUIRE(ok(cluster.add(0, spec)));
    Instance& m = cluster.at(0);
    m.utilisation = 0.9;
    m.ledger.prefillsEnd = 300 * kMillisecond;
    Call call;
    call.promptTokens = 100;
    call.predictedTokens = call.timedTokens = 10;
    Workflow workflow;
    PolicyParameters parameters;
    const Estimate e{100 * kMillisecond, 200 * kMillisecond};
    const PlacementView view{.call = call,
                             .workflow = workflow,
                             .cluster = cluster,
                             .parameters = parameters,
                             .estimates = &e,
                             .stageTemplate = nullptr,
                             .now = 100 * kMillisecond,
                             .beta = 1,
                             .withCredit = nullptr,
                             .queueAheadOf = nullptr,
                             .scheduler = nullptr};
    m.utilisationAt = view.now;
    const FinishTerms terms{200 * kMillisecond, 990, 3 * kSecond, 2, 4};
    // 0.4 s ahead; 1,100 of 1,000 tokens, mean work 1.5 s; 10 tokens at 10 ms; gamma 0.5, 4 others.
    const double kv = 3 * 0.1 * 1.5 / (1 - 0.9);
    CHECK(projectedFinish(view, m, e, terms) ==
          doctest::Approx(0.4 + kv + 0.1 + 0.1 / (1 - 0.85) + 0.5 * 0.1 * 4));
    m.spec.mode = EngineMode::kDecodeShare;
    m.spec.decodeShare = 500;
    CHECK(projectedFinish(view, m, e, terms) ==
          doctest::Approx(0.2 + 0.2 / 0.5 + kv + 0.1 + 0.1 / 0.5 + 0.5 * 0.1 * 4));
  }
}

namespace {

/// A placement from outside that fails on demand.
struct Outside {
  std::uint32_t answer = 0;
  std::uint32_t asked = 0;
  static std::uint32_t choose(void* self, const PlacementView&) {
    Outside& o = *static_cast<Outside*>(self);
    ++o.asked;
    return o.answer;
  }
  ExternalPlacement placement() { return {&Outside::choose, this}; }
};

}  // namespace

TEST_SUITE("placements from outside") {
  TEST_CASE("it has no name") {
    Placement placement;
    CHECK(!makePlacement("", &placement));
    for (const auto name : placementNames()) CHECK(!name.empty());
    CHECK(placementNames().size() + 1 == std::variant_size_v<Placement>);
  }

  TEST_CASE("an answer that is no candidate changes nothing; the next decide asks again") {
    for (const std::uint32_t bad : {2u, 7u, kNoSlot}) {
      Outside outside;
      SchedulerConfig config = Bench::config("round-robin", 0, {1, 1, 1}, "fcfs", 0, Binding::kAtReveal, 0);
      config.placement = outside.placement();
      Bench b(config, 3);
      REQUIRE(b.scheduler.instance(0, {2, InstanceChange::kDrain, {}}) == Status::kOk);
      CHECK(b.place(10) == 0);
      outside.answer = bad;
      b.reveal(10);
      b.reveal(10);
      CHECK(b.scheduler.place(0) == Status::kPlacementFailed);
      CHECK(b.scheduler.decide(0).empty());
      CHECK(b.scheduler.placementFailed());
      CHECK(outside.asked == 3);  // one call each time, none behind it
      CHECK(b.scheduler.audit());
      CHECK(b.scheduler.graph().call(1).state == CallState::kReady);
      outside.answer = 1;
      const auto decisions = b.scheduler.decide(0);
      CHECK(!b.scheduler.placementFailed());
      REQUIRE(decisions.size() == 2);
      CHECK(decisions[0].call.slot == 0);
      CHECK(decisions[1].call.slot == 1);
      CHECK(decisions[1].instance == 1);
      CHECK(b.scheduler.audit());
    }
  }

  TEST_CASE("at-credit: what was leased before stands, the head stays where it was") {
    Outside outside;
    SchedulerConfig config = Bench::config("round-robin", 0, {1, 1, 1}, "fcfs", 0, Binding::kAtCredit, 0);
    config.placement = outside.placement();
    Bench b(config, 3);
    for (int i = 0; i < 3; ++i) b.reveal(10);
    // Instance 0 has no credit any more when the second call asks for it.
    const auto first = b.scheduler.decide(0);
    REQUIRE(first.size() == 1);
    CHECK(first[0].instance == 0);
    CHECK(b.scheduler.placementFailed());
    CHECK(b.scheduler.audit());
    CHECK(b.scheduler.graph().call(1).state == CallState::kWaiting);
    outside.answer = 2;
    const auto second = b.scheduler.decide(0);
    REQUIRE(second.size() == 1);
    CHECK(second[0].call.slot == 1);
    CHECK(second[0].instance == 2);
    CHECK(b.scheduler.placementFailed());
    outside.answer = 1;
    CHECK(b.scheduler.decide(0).size() == 1);
    CHECK(!b.scheduler.placementFailed());
    CHECK(b.scheduler.audit());
  }
}

TEST_SUITE("migration") {
  TEST_CASE("an idle instance takes the call with the largest gain, above the threshold only") {
    for (const double threshold : {0.0, 500.0, 1e6}) {
      SchedulerConfig config =
          Bench::config("workload-balanced", 1, {1, 2}, "fcfs", 0, Binding::kAtReveal, 0);
      config.migrate = true;
      config.parameters.set(static_cast<std::uint16_t>(Parameter::kMigrateMs), threshold);
      Bench b(config, 2);
      // alpha = 1: all on the fast instance, which runs one at a time; the slow one stands idle.
      for (int i = 0; i < 3; ++i) b.reveal(1000);
      const auto decisions = b.scheduler.decide(0);
      REQUIRE(decisions.size() == (threshold < 1e6 ? 2u : 1u));
      CHECK(decisions[0].instance == 0);
      CHECK(decisions[0].call.slot == 0);
      if (threshold < 1e6) {
        CHECK(decisions[1].instance == 1);
        // Prefill-first without contention: both wait for every prefill, so the gains are equal, and so the
        // earlier revealed one goes.
        CHECK(decisions[1].call.slot == 1);
      }
      CHECK(b.scheduler.audit());
    }
  }

  TEST_CASE("it is off by default and has no meaning with a shared queue") {
    for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
      SchedulerConfig config = Bench::config("workload-balanced", 1, {1, 2}, "fcfs", 0, binding, 0);
      CHECK(!config.migrate);
      config.migrate = binding == Binding::kAtCredit;
      Bench b(config, 2);
      for (int i = 0; i < 3; ++i) b.reveal(1000);
      const auto decisions = b.scheduler.decide(0);
      CHECK(decisions.size() == (binding == Binding::kAtCredit ? 2u : 1u));
      CHECK(b.scheduler.audit());
    }
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
    for (const auto order : orderNames()) {
      Bench b("round-robin", 0, {1}, std::string(order).c_str());
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
      if (order == "fcfs") CHECK(sequence == std::vector<std::uint32_t>{2, 4, 1, 3, 0, 5});
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
