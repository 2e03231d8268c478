// Every pair placement against its naive version, through the scheduler: plain lists of calls, every load
// summed anew with the documented formula whenever it is wanted. First come, first served decides who is
// next, so that each choice can be foretold: p when a call becomes ready (binding at-reveal) or among those
// with credit (at-credit), d at each lease.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "scheduler/scheduler.h"

using namespace laxity;

namespace {

enum class Leg { kWaiting, kPrefilling, kOnPrefill, kOnDecode, kOver };

struct PairedCall {
  Ref ref;
  std::int64_t prompt = 0;
  std::int64_t output = 0;
  std::int64_t sequences = 1;
  CachedPrefix cached[2];
  Nanos readyAt = 0;
  Leg leg = Leg::kWaiting;
  std::int32_t p = -1;
  std::int32_t d = -1;
};

struct PairedInstance {
  InstanceSpec spec;
  std::uint64_t perm = 0;
  bool up = true;
  Nanos prefillsEnd = 0;
};

/// Compared part by part, the smallest first.
using Score = std::tuple<std::int64_t, std::int64_t>;

struct NaivePairs {
  std::string placement;
  bool atReveal = true;
  std::uint32_t lookahead = 0;
  std::vector<LatencyModel> latencies;
  std::vector<PairedInstance> instances;
  std::vector<PairedCall> calls;
  std::uint64_t turns[2] = {};
  Nanos now = 0;
  std::uint64_t full = 0;  ///< choices of d where none had room

  const LatencyModel& latency(std::uint32_t m) const { return latencies[instances[m].spec.latency]; }
  std::int64_t newTokens(const PairedCall& c, std::uint32_t p) const {
    std::int64_t tokens = c.prompt;
    for (const CachedPrefix& hint : c.cached) tokens -= hint.instance == p ? hint.tokens : 0;
    return tokens;
  }
  Nanos prefill(const PairedCall& c, std::uint32_t p) const {
    Nanos least = latency(p).prefill(static_cast<std::uint32_t>(c.prompt), 0);
    for (const CachedPrefix& hint : c.cached) {
      if (hint.instance != p || hint.tokens == 0) continue;
      const auto rest = static_cast<std::uint32_t>(c.prompt) - hint.tokens;
      least = std::min(least, latency(p).prefill(rest, hint.tokens) + Nanos{hint.loadUs} * 1'000);
    }
    return least;
  }
  std::int64_t need(const PairedCall& c) const { return c.prompt + c.output * c.sequences; }

  template <class Value>
  std::int64_t sumOnPrefill(std::uint32_t p, std::vector<Leg> legs, Value value) const {
    std::int64_t sum = 0;
    for (const PairedCall& c : calls) {
      if (c.p == static_cast<std::int32_t>(p) && std::count(legs.begin(), legs.end(), c.leg)) sum += value(c);
    }
    return sum;
  }
  template <class Value>
  std::int64_t sumOnDecode(std::uint32_t d, Value value) const {
    std::int64_t sum = 0;
    for (const PairedCall& c : calls) {
      if (c.d == static_cast<std::int32_t>(d) && c.leg != Leg::kOver) sum += value(c);
    }
    return sum;
  }
  std::int64_t pendingTokens(std::uint32_t p) const {
    return sumOnPrefill(p, {Leg::kWaiting, Leg::kPrefilling},
                        [&](const PairedCall& c) { return newTokens(c, p); });
  }
  std::int64_t waitingWork(std::uint32_t p) const {
    return sumOnPrefill(p, {Leg::kWaiting}, [&](const PairedCall& c) { return prefill(c, p); });
  }
  std::int64_t count(std::uint32_t p, std::vector<Leg> legs) const {
    return sumOnPrefill(p, std::move(legs), [](const PairedCall&) { return 1; });
  }
  std::int64_t sequencesOn(std::uint32_t d) const {
    return sumOnDecode(d, [](const PairedCall& c) { return c.sequences; });
  }
  std::int64_t reserved(std::uint32_t d) const {
    return sumOnDecode(d, [&](const PairedCall& c) { return need(c); });
  }
  bool room(const PairedCall& c, std::uint32_t d) const {
    return reserved(d) + need(c) <= instances[d].spec.kvTokens &&
           sequencesOn(d) + c.sequences <= instances[d].spec.maxSequences;
  }
  Nanos perToken(const PairedCall& c, std::uint32_t d) const {
    const std::int64_t context = reserved(d) + need(c);
    const DecodePiece piece =
        latency(d).piece(static_cast<std::uint32_t>(sequencesOn(d) + c.sequences), context);
    return static_cast<Nanos>(
        (__int128{piece.base} + __int128{piece.perContext} * context + (Fine{1} << (kFineBits - 1))) >>
        kFineBits);
  }

  Score prefillScore(const PairedCall& c, std::uint32_t p) const {
    const std::int64_t leftOver = std::max<Nanos>(0, instances[p].prefillsEnd - now);
    if (placement == "least-loaded") return {count(p, {Leg::kWaiting, Leg::kPrefilling, Leg::kOnPrefill}), 0};
    if (placement == "global-queue")
      return {count(p, {Leg::kPrefilling}), count(p, {Leg::kWaiting, Leg::kPrefilling, Leg::kOnPrefill})};
    if (placement == "splitwise" || placement == "distserve") return {pendingTokens(p), 0};
    REQUIRE((placement == "mooncake" || placement == "earliest-finish" || placement == "kv-price"));
    return {leftOver + waitingWork(p) + prefill(c, p), 0};
  }
  Score decodeScore(const PairedCall& c, std::uint32_t p, std::uint32_t d) const {
    const std::int64_t noRoom = room(c, d) ? 0 : 1;
    if (placement == "splitwise") return {noRoom, reserved(d)};
    if (placement == "mooncake") return {noRoom, perToken(c, d)};
    if (placement == "earliest-finish" || placement == "kv-price") {
      const Fine slower = std::max(instances[p].spec.linkPerToken, instances[d].spec.linkPerToken);
      const Nanos transfer = instances[p].spec.linkLatency + (slower >> kFineBits) * c.prompt;
      return {transfer + perToken(c, d) * c.output, 0};
    }
    return {sequencesOn(d), 0};
  }
  /// The first by (score, perm), or the next turn.
  template <class ScoreOf>
  std::uint32_t best(std::vector<std::uint32_t> candidates, std::uint64_t* turn, ScoreOf score) {
    REQUIRE(!candidates.empty());
    std::sort(candidates.begin(), candidates.end(),
              [&](std::uint32_t a, std::uint32_t b) { return instances[a].perm < instances[b].perm; });
    if (placement == "round-robin") return candidates[(*turn)++ % candidates.size()];
    return *std::min_element(candidates.begin(), candidates.end(),
                             [&](std::uint32_t a, std::uint32_t b) { return score(a) < score(b); });
  }
  std::vector<std::uint32_t> accepting(Role role) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t m = 0; m < instances.size(); ++m) {
      if (instances[m].spec.role == role && instances[m].up) found.push_back(m);
    }
    return found;
  }
  std::uint32_t choosePrefill(const PairedCall& c, const std::vector<std::uint32_t>& candidates) {
    return best(candidates, &turns[0], [&](std::uint32_t p) { return prefillScore(c, p); });
  }
  std::uint32_t chooseDecode(const PairedCall& c, std::uint32_t p) {
    const std::vector<std::uint32_t> all = accepting(Role::kDecode);
    full += std::none_of(all.begin(), all.end(), [&](std::uint32_t d) { return room(c, d); }) ? 1 : 0;
    return best(all, &turns[1], [&](std::uint32_t d) { return decodeScore(c, p, d); });
  }

  bool credit(const PairedCall& c, std::uint32_t p) const {
    const PairedInstance& i = instances[p];
    const std::vector<Leg> held{Leg::kPrefilling, Leg::kOnPrefill};
    const auto prompts = sumOnPrefill(p, held, [](const PairedCall& o) { return o.prompt; });
    const auto sequences = sumOnPrefill(p, held, [](const PairedCall& o) { return o.sequences; });
    if (!i.up || prompts + c.prompt > i.spec.kvTokens) return false;
    if (sequences + c.sequences > std::int64_t{i.spec.maxSequences} + lookahead) return false;
    if (count(p, {Leg::kPrefilling}) < 1 + std::int64_t{lookahead}) return true;
    const auto tokens =
        sumOnPrefill(p, {Leg::kPrefilling}, [&](const PairedCall& o) { return newTokens(o, p); });
    return i.spec.chunkTokens > 0 &&
           tokens + newTokens(c, p) <= (1 + std::int64_t{lookahead}) * i.spec.chunkTokens;
  }
  /// The call that waits longest, on p or (p < 0) in the shared queue; -1 without one.
  std::int32_t head(std::int32_t p) const {
    std::int32_t first = -1;
    for (std::uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].leg != Leg::kWaiting || calls[i].p != p) continue;
      if (first < 0 || calls[i].readyAt < calls[static_cast<std::uint32_t>(first)].readyAt)
        first = static_cast<std::int32_t>(i);
    }
    return first;
  }
  void lease(PairedCall& c, std::uint32_t p, std::uint32_t d) {
    c.p = static_cast<std::int32_t>(p);
    c.d = static_cast<std::int32_t>(d);
    c.leg = Leg::kPrefilling;
    instances[p].prefillsEnd = std::max(instances[p].prefillsEnd, now) + prefill(c, p);
  }
  void firstToken(PairedCall& c) {
    if (c.leg != Leg::kPrefilling) return;
    c.leg = Leg::kOnPrefill;
    const auto p = static_cast<std::uint32_t>(c.p);
    instances[p].prefillsEnd =
        now + sumOnPrefill(p, {Leg::kPrefilling}, [&](const PairedCall& o) { return prefill(o, p); });
  }
};

struct PairTally {
  std::uint64_t prefills = 0;
  std::uint64_t decodes = 0;
  std::uint64_t full = 0;
};

LatencyModel constants(const LatencyConstants& values) {
  LatencyModel m;
  REQUIRE(ok(LatencyModel::constants(values, &m)));
  return m;
}

/// A random world; empty where the scheduler chose as the naive placement throughout.
std::string walkPairs(const std::string& placement, bool atReveal, std::uint64_t seed, PairTally* tally) {
  Random random(91, seed);
  NaivePairs naive;
  naive.placement = placement;
  naive.atReveal = atReveal;
  naive.lookahead = random.below(3);
  const bool coarse = random.below(2) == 0;  // equal times, equal loads
  naive.latencies = {constants({1, 0.05, 20, 0.5, 0.001}),
                     coarse ? constants({1, 0.05, 20, 0.5, 0.001}) : constants({2, 0.11, 31, 0.2, 0.0004})};

  SchedulerConfig config;
  REQUIRE(makeOrder("fcfs", &config.order));
  REQUIRE(makePairPlacement(placement, &config.pairPlacement));
  config.binding = atReveal ? Binding::kAtReveal : Binding::kAtCredit;
  config.lookahead = naive.lookahead;
  config.tieSeed = random.below(3);
  config.pairs.reserve = static_cast<Reserve>(random.below(2));
  config.pairs.admission = static_cast<DecodeAdmission>(random.below(2));
  config.latencies = naive.latencies;
  Scheduler scheduler(config);

  const std::uint32_t prefills = 1 + random.below(4);
  const std::uint32_t decodes = 1 + random.below(4);
  for (std::uint32_t m = 0; m < prefills + decodes; ++m) {
    PairedInstance i;
    i.spec.role = m < prefills ? Role::kPrefill : Role::kDecode;
    i.spec.latency = static_cast<std::uint16_t>(random.below(2));
    i.spec.kvTokens = 1'300 + 300 * random.below(5);
    i.spec.maxSequences = 2 + random.below(5);
    i.spec.linkPerToken = Fine{1'000 * (1 + random.below(3))} << kFineBits;
    i.spec.linkLatency = 10'000;
    if (i.spec.role == Role::kPrefill && random.below(3) == 0) i.spec.chunkTokens = 900;
    REQUIRE(ok(scheduler.instance(0, {m, InstanceChange::kAdd, i.spec})));
    i.perm = scheduler.cluster().at(m).tie;
    naive.instances.push_back(i);
  }

  Nanos t = 0;
  for (int step = 0; step < 120; ++step) {
    const std::string where = "step " + std::to_string(step) + ": ";
    if (random.below(4) != 0) t += coarse ? random.below(3) * 10 * kMillisecond : random.below(30'000'000);
    naive.now = t;
    std::vector<std::uint32_t> ready;  // in event order
    std::vector<std::uint32_t> running;
    std::uint32_t waiting = 0;
    for (std::uint32_t i = 0; i < naive.calls.size(); ++i) {
      const Leg leg = naive.calls[i].leg;
      if (leg == Leg::kWaiting) ++waiting;
      if (leg != Leg::kWaiting && leg != Leg::kOver) running.push_back(i);
    }
    const std::uint32_t what = random.below(20);
    const auto any = [&] { return running[random.below(static_cast<std::uint32_t>(running.size()))]; };
    const auto attempt = [&](std::uint32_t i) { return CallAttempt{naive.calls[i].ref, 0}; };
    if (what < 7 && waiting < 20) {
      const std::uint32_t batch = 1 + random.below(3);
      for (std::uint32_t b = 0; b < batch; ++b) {
        const auto id = static_cast<std::uint32_t>(naive.calls.size());
        PairedCall c;
        c.ref = {id, 1};
        c.prompt = coarse ? 100 * (1 + random.below(4)) : 1 + random.below(600);
        c.output = coarse ? 50 : 1 + random.below(150);
        c.sequences = 1 + random.below(4) / 3;
        c.readyAt = t;
        if (c.prompt > 2 && random.below(2) == 0) {
          c.cached[0] = {random.below(prefills), 1 + random.below(static_cast<std::uint32_t>(c.prompt - 2)),
                         random.below(2) * random.below(20'000)};
          if (prefills > 1 && random.below(2) == 0) c.cached[1] = {(c.cached[0].instance + 1) % prefills, 1};
        }
        REQUIRE(ok(scheduler.openWorkflow(t, {c.ref, 0, -1, 0, kNever, -1})));
        Reveal e{};
        e.call = e.workflow = c.ref;
        e.sequences = static_cast<std::uint16_t>(c.sequences);
        e.promptTokens = static_cast<std::uint32_t>(c.prompt);
        e.predictedTokens = e.predictedHigh = static_cast<std::uint32_t>(c.output);
        e.cached[0] = c.cached[0];
        e.cached[1] = c.cached[1];
        e.remaining = -1;
        REQUIRE(ok(scheduler.reveal(t, e, {})));
        ready.push_back(id);
        naive.calls.push_back(c);
      }
    } else if (what < 12 && !running.empty()) {
      const std::uint32_t i = any();
      REQUIRE(ok(scheduler.firstToken(t, {attempt(i)})));
      naive.firstToken(naive.calls[i]);
    } else if (what < 14 && !running.empty()) {
      const std::uint32_t i = any();
      if (scheduler.graph().call(i).state == CallState::kTransferring) {
        REQUIRE(ok(scheduler.transferDone(t, {attempt(i)})));
        naive.calls[i].leg = Leg::kOnDecode;
      }
    } else if (what < 18 && !running.empty()) {
      const std::uint32_t i = any();
      REQUIRE(ok(scheduler.finished(t, {attempt(i), 1 + random.below(200)})));
      naive.firstToken(naive.calls[i]);
      naive.calls[i].leg = Leg::kOver;
    } else if (what == 18) {
      // The first of each role stays.
      const std::uint32_t m = random.below(prefills + decodes);
      if (m == 0 || m == prefills) continue;
      PairedInstance& i = naive.instances[m];
      i.up = !i.up;
      REQUIRE(ok(scheduler.instance(t, {m, i.up ? InstanceChange::kUp : InstanceChange::kDrain, {}})));
      if (!i.up) {
        for (std::uint32_t c = 0; c < naive.calls.size(); ++c) {
          if (naive.calls[c].leg != Leg::kWaiting || naive.calls[c].p != static_cast<std::int32_t>(m))
            continue;
          naive.calls[c].p = -1;
          ready.push_back(c);
        }
      }
    }

    REQUIRE(ok(scheduler.place(t)));
    if (atReveal) {
      // Those that wait to be placed count nowhere.
      for (const std::uint32_t i : ready) {
        const std::uint32_t p = naive.choosePrefill(naive.calls[i], naive.accepting(Role::kPrefill));
        naive.calls[i].p = static_cast<std::int32_t>(p);
        ++tally->prefills;
        if (scheduler.graph().call(i).instance != p) {
          return where + "call " + std::to_string(i) + " waits on " +
                 std::to_string(static_cast<int>(scheduler.graph().call(i).instance)) + ", naive " +
                 std::to_string(p);
        }
      }
    }
    for (const Decision& decision : scheduler.decide(t)) {
      if (decision.kind == DecisionKind::kAdmitDecode) continue;
      REQUIRE(decision.kind == DecisionKind::kLease);
      const std::uint32_t i = decision.call.slot;
      PairedCall& c = naive.calls[i];
      if (naive.head(c.p) != static_cast<std::int32_t>(i)) return where + "not the head";
      std::uint32_t p = decision.instance;
      if (!atReveal) {
        std::vector<std::uint32_t> open;
        for (const std::uint32_t m : naive.accepting(Role::kPrefill)) {
          if (naive.credit(c, m)) open.push_back(m);
        }
        if (open.empty()) return where + "a lease without credit";
        p = naive.choosePrefill(c, open);
        ++tally->prefills;
      } else if (!naive.credit(c, p)) {
        return where + "a lease without credit";
      }
      const std::uint32_t d = naive.chooseDecode(c, p);
      ++tally->decodes;
      if (decision.instance != p || decision.decodeInstance != d) {
        return where + "call " + std::to_string(i) + " leased to " + std::to_string(decision.instance) + "+" +
               std::to_string(decision.decodeInstance) + ", naive " + std::to_string(p) + "+" +
               std::to_string(d);
      }
      naive.lease(c, p, d);
    }
    // Nobody who could go on waits.
    for (const std::uint32_t p : naive.accepting(Role::kPrefill)) {
      const std::int32_t first = naive.head(atReveal ? static_cast<std::int32_t>(p) : -1);
      if (first >= 0 && naive.credit(naive.calls[static_cast<std::uint32_t>(first)], p))
        return where + "the head waits for an instance with credit";
    }
    if (!scheduler.audit()) return where + "audit";
  }
  tally->full += naive.full;
  return "";
}

}  // namespace

TEST_SUITE("pair-placements") {
  TEST_CASE("every placement chooses p and d as its naive version, under both bindings") {
    for (const std::string_view name : pairPlacementNames()) {
      for (const bool atReveal : {true, false}) {
        const std::string placement(name);
        // With credit the planner chooses both (planner_test.cc).
        if ((placement == "earliest-finish" || placement == "kv-price") && !atReveal) continue;
        CAPTURE(placement);
        CAPTURE(atReveal);
        PairTally tally;
        std::uint32_t failures = 0;
        for (std::uint64_t seed = 0; seed < 300 && failures < 3; ++seed) {
          const std::string difference = walkPairs(placement, atReveal, seed, &tally);
          if (difference.empty()) continue;
          ++failures;
          CAPTURE(seed);
          CHECK_MESSAGE(false, difference);
        }
        CHECK(tally.prefills > 2'000);
        CHECK(tally.decodes > 2'000);
        CHECK(tally.full > 100);
      }
    }
  }

  TEST_CASE("default bindings: one shared queue for global-queue, else p when a call becomes ready") {
    for (const std::string_view name : pairPlacementNames()) {
      PairPlacement placement;
      REQUIRE(makePairPlacement(name, &placement));
      const bool shared =
          std::visit([](const auto& p) { return std::decay_t<decltype(p)>::kSharedQueue; }, placement);
      CHECK(shared == (name == "global-queue" || name == "earliest-finish" || name == "kv-price"));
    }
  }
}
