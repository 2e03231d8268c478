// The engines of prefill-decode clusters by themselves: scenes worked out by hand, and thousands of random
// ones against engines that visit every iteration (pair_stepping.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/profile.h"
#include "pair_stepping.h"
#include "queueing.h"
#include "simulator/engine.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr Nanos kMs = kMillisecond;

/// (t, what, slot, amount), in order.
using Line = std::array<std::int64_t, 4>;
enum : std::int64_t {
  kPrefilled,
  kOver,
  kRoom,
  kJoined,
  kEvicted,
  kHidden,
  kOverflowed,
  kCapacityKv,
  kCapacitySequences
};

std::string show(const std::vector<Line>& a, const std::vector<Line>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) continue;
    std::string text = "line " + std::to_string(i) + ": ";
    for (const auto* lines : {&a, &b}) {
      text += lines == &a ? "leaping " : ", stepping ";
      if (i >= lines->size()) {
        text += "nothing";
        continue;
      }
      for (const std::int64_t v : (*lines)[i]) text += std::to_string(v) + " ";
    }
    return text;
  }
  return "";
}

LatencyModel randomModel(Random& random, bool round) {
  LatencyModel model;
  if (random.below(4) == 0) {  // pieces a few tokens long
    const auto grid = [&](std::uint32_t firstRow, std::uint32_t firstColumn) {
      ProfileGrid g;
      for (std::uint32_t n = 1 + random.below(4), at = firstRow; n > 0; --n, at += 1 + random.below(4))
        g.rows.push_back(at);
      for (std::uint32_t n = 1 + random.below(6), at = firstColumn; n > 0; --n, at += 1 + random.below(12))
        g.columns.push_back(at);
      const std::size_t width = g.columns.size();
      for (std::size_t i = 0; i < g.rows.size() * width; ++i) {
        Fine floor = fineFromMs(0.5);
        if (i % width > 0) floor = std::max(floor, g.times[i - 1]);
        if (i >= width) floor = std::max(floor, g.times[i - width]);
        g.times.push_back(floor + fineFromMs(round ? 0.5 * random.below(3) : random.uniform()));
      }
      return g;
    };
    REQUIRE(LatencyModel::profile(grid(1, random.below(5)), grid(0, 1), &model) == Status::kOk);
    return model;
  }
  LatencyConstants c;
  c.prefillBaseMs = round ? random.below(3) : random.uniform() * 2;
  c.prefillPerTokenMs = round ? 0.5 * random.below(3) : random.uniform() * 0.3;
  c.decodeBaseMs = round ? 0.5 + 0.5 * random.below(3) : 0.05 + random.uniform();
  c.decodePerSequenceMs = round ? 0.5 * random.below(2) : random.uniform() * 0.2;
  c.decodePerContextMs = random.below(2) == 0 ? 0 : (round ? 0.5 : 0.0123);
  REQUIRE(LatencyModel::constants(c, &model) == Status::kOk);
  return model;
}

struct Totals {
  std::uint64_t calls = 0, batches = 0, evictions = 0, hidden = 0, overflowed = 0, dropped = 0,
                capacities = 0, iterations = 0, backfilled = 0;
};

// --- prefill

struct PrefillScene {
  InstanceSpec spec;
  LatencyModel model;
  std::vector<std::pair<Nanos, stepping::PairJob>> leases;
  std::vector<Nanos> stays;  ///< by slot: from the end of its prefill until the KV leaves
};

EngineCall prefillLeg(const stepping::PairJob& j) {
  EngineCall c;
  c.slot = j.slot;
  c.promptTokens = static_cast<std::uint32_t>(j.prompt);
  c.outputTokens = static_cast<std::uint32_t>(j.output);
  c.kv = j.prompt;
  c.cachedTokens = static_cast<std::uint32_t>(j.cached);
  c.load = j.load;
  return c;
}

/// `used`: an engine that has nothing to do any more, of the same spec.
std::vector<Line> leapPrefills(const PrefillScene& s, Nanos* busy, const Engine* used = nullptr) {
  Engine engine;
  if (used != nullptr)
    engine = *used;
  else
    engine.reset(s.spec, s.model, {});
  std::vector<Line> lines;
  std::multimap<Nanos, stepping::PairJob> leaving;
  std::size_t i = 0;
  for (;;) {
    Nanos t = engine.next();
    if (i < s.leases.size()) t = std::min(t, s.leases[i].first);
    if (!leaving.empty()) t = std::min(t, leaving.begin()->first);
    if (t == kNever) break;
    if (engine.next() == t) {
      engine.advance(t);
      for (const EngineCall& c : engine.prefilled()) {
        lines.push_back({t, kPrefilled, c.slot, c.promptTokens});
        if (c.outputTokens > 1) leaving.insert({t + s.stays[c.slot], s.leases[c.slot].second});
      }
      for (const EngineCall& c : engine.finished()) lines.push_back({t, kOver, c.slot, 0});
    }
    while (!leaving.empty() && leaving.begin()->first == t) {
      engine.kvLeft(leaving.begin()->second.prompt);
      leaving.erase(leaving.begin());
    }
    while (i < s.leases.size() && s.leases[i].first == t) engine.lease(prefillLeg(s.leases[i++].second));
    engine.settle(t);
    REQUIRE(engine.kvUsed() <= s.spec.kvTokens);
    lines.push_back({t, kCapacityKv, engine.kvUsed(), engine.held() + engine.holding()});
  }
  REQUIRE(engine.kvUsed() == 0);
  REQUIRE(engine.empty());
  *busy = engine.busy();
  return lines;
}

std::vector<Line> stepPrefills(const PrefillScene& s, Nanos* busy, Totals* totals) {
  stepping::StepPrefill engine;
  engine.spec = s.spec;
  engine.latency = &s.model;
  std::vector<Line> lines;
  std::multimap<Nanos, std::uint32_t> leaving;
  std::size_t i = 0;
  for (;;) {
    Nanos t = engine.end;
    if (i < s.leases.size()) t = std::min(t, s.leases[i].first);
    if (!leaving.empty()) t = std::min(t, leaving.begin()->first);
    if (t == kNever) break;
    if (engine.end == t) {
      engine.reach(t);
      totals->batches += engine.prefilled.size() > 1 ? 1 : 0;
      for (const stepping::PairJob& j : engine.prefilled) {
        lines.push_back({t, kPrefilled, j.slot, j.prompt});
        if (j.output > 1) leaving.insert({t + s.stays[j.slot], j.slot});
      }
      for (const stepping::PairJob& j : engine.prefilled) {
        if (j.output == 1) lines.push_back({t, kOver, j.slot, 0});
      }
    }
    while (!leaving.empty() && leaving.begin()->first == t) {
      engine.left(leaving.begin()->second);
      leaving.erase(leaving.begin());
    }
    while (i < s.leases.size() && s.leases[i].first == t) engine.queue.push_back(s.leases[i++].second);
    engine.start(t);
    lines.push_back(
        {t, kCapacityKv, engine.kvUsed(),
         static_cast<std::int64_t>(engine.queue.size() + engine.batch.size() + engine.keeping.size())});
  }
  *busy = engine.busy;
  return lines;
}

PrefillScene prefillScene(Random& random) {
  PrefillScene s;
  const bool round = random.below(2) == 0;
  s.model = randomModel(random, round);
  std::int64_t largest = 1;
  Nanos t = 0;
  const std::uint32_t calls = 1 + random.below(25);
  const std::uint32_t longest = round ? 6 : 40;
  for (std::uint32_t slot = 0; slot < calls; ++slot) {
    if (random.below(3) != 0) t += round ? kMs * random.below(4) : static_cast<Nanos>(random.uniform() * 6e6);
    stepping::PairJob j;
    j.slot = slot;
    j.prompt = 1 + random.below(longest);
    j.output = 1 + random.below(3);
    j.cached = random.below(3) == 0 ? random.below(static_cast<std::uint32_t>(j.prompt)) : 0;
    j.load = j.cached > 0 && random.below(2) == 0 ? kMs / 2 : 0;
    largest = std::max(largest, j.prompt);
    s.leases.push_back({t, j});
    s.stays.push_back(random.below(3) == 0 ? 0 : (round ? kMs * random.below(6) : random.below(9'000'000)));
  }
  s.spec = instanceSpec(0, random.below(3) == 0 ? 1 + random.below(4) : 1000, largest + random.below(60));
  s.spec.role = Role::kPrefill;
  s.spec.chunkTokens = random.below(3) == 0 ? 0 : 1 + random.below(3 * longest);
  return s;
}

// --- decode

struct DecodeScene {
  InstanceSpec spec;
  LatencyModel model;
  bool backfill = false;
  bool requeue = false;
  bool kvFirst = false;
  std::vector<std::pair<Nanos, stepping::PairJob>> requests;  ///< by slot
  std::vector<Nanos> travels;                                 ///< by slot: from room to arrival
  std::vector<Nanos> drops;  ///< by slot: when its room is given back, if it has not joined; kNever
  std::vector<Nanos> polls;  ///< when somebody asks for the capacity at the next boundary
};

EngineCall decodeLeg(const stepping::PairJob& j) {
  EngineCall c;
  c.slot = j.slot;
  c.promptTokens = static_cast<std::uint32_t>(j.prompt);
  c.outputTokens = static_cast<std::uint32_t>(j.output);
  c.expectedTokens = static_cast<std::uint32_t>(j.expected);
  c.kv = j.kv;
  return c;
}

/// Both engines behind one face, so that one driver tests both.
struct Leaping {
  Engine engine;
  explicit Leaping(const DecodeScene& s) {
    EngineOptions o;
    o.backfill = s.backfill;
    o.requeueEvicted = s.requeue;
    o.kvFirst = s.kvFirst;
    engine.reset(s.spec, s.model, o);
  }
  explicit Leaping(Engine used) : engine(std::move(used)) {}
  Nanos next() const { return engine.next(); }
  void request(const stepping::PairJob& j) { engine.requestRoom(decodeLeg(j)); }
  void arrived(std::uint32_t slot) { engine.arrived(slot); }
  void drop(std::uint32_t slot, Nanos t) { engine.dropRoom(slot, t); }
  void reach(Nanos t, bool) { engine.advance(t); }
  void join(Nanos t, std::vector<Line>* lines) {
    engine.join(t);
    for (const std::uint32_t slot : engine.joined()) lines->push_back({t, kJoined, slot, 0});
    for (const EvictedCall& e : engine.evicted()) lines->push_back({t, kEvicted, e.call.slot, e.generated});
    for (const EngineCall& c : engine.finished()) lines->push_back({t, kOver, c.slot, 0});
    for (const EngineCall& c : engine.overflowed())
      lines->push_back({t, kOverflowed, c.slot, c.promptTokens});
  }
  bool boundary(Nanos t) { return engine.atBoundaryOrWake(t); }
  bool stands(Nanos t) const { return engine.standsAt(t); }
  bool waits() const { return engine.wakePending(); }
  Line capacity(Nanos t) const { return {t, kCapacityKv, engine.kvFree(), engine.sequencesFree()}; }
  std::vector<std::uint32_t> settle(Nanos t) {
    engine.settle(t);
    return engine.roomGiven();
  }
  Nanos busy() const { return engine.busy(); }
  std::int64_t peak() const { return engine.kvPeak(); }
  bool holdsNothing() const { return engine.empty() && engine.kvUsed() == 0 && engine.rooms() == 0; }
  std::uint64_t hidden() const { return engine.requeued(); }
};

struct Stepping {
  stepping::StepDecode engine;
  std::uint64_t hiddenCount = 0;
  explicit Stepping(const DecodeScene& s) {
    engine.spec = s.spec;
    engine.latency = &s.model;
    engine.backfill = s.backfill;
    engine.requeue = s.requeue;
    engine.kvFirst = s.kvFirst;
  }
  Nanos next() const { return engine.end; }
  void request(const stepping::PairJob& j) { engine.queue.push_back({j, false}); }
  void arrived(std::uint32_t slot) { engine.arrive(slot); }
  void drop(std::uint32_t slot, Nanos) { engine.drop(slot); }
  void reach(Nanos t, bool due) {
    engine.clear();
    if (due) engine.reach(t);
  }
  void join(Nanos t, std::vector<Line>* lines) {
    engine.join(t);
    for (const std::uint32_t slot : engine.joined) lines->push_back({t, kJoined, slot, 0});
    for (const auto& e : engine.evicted) lines->push_back({t, kEvicted, e.job.slot, e.emitted});
    for (const auto& j : engine.finished) lines->push_back({t, kOver, j.slot, 0});
    for (const auto& j : engine.overflowed) lines->push_back({t, kOverflowed, j.slot, j.prompt});
    hiddenCount += engine.hidden.size();
  }
  bool boundary(Nanos t) { return engine.stands(t); }
  bool stands(Nanos t) const { return engine.stands(t); }
  bool waits() const { return false; }
  Line capacity(Nanos t) const { return {t, kCapacityKv, engine.kvFree(), engine.sequencesFree()}; }
  std::vector<std::uint32_t> settle(Nanos t) {
    engine.start(t);
    return engine.given;
  }
  Nanos busy() const { return engine.busy; }
  std::int64_t peak() const { return engine.peak; }
  bool holdsNothing() const { return engine.holdsNothing(); }
  std::uint64_t hidden() const { return hiddenCount; }
};

struct DecodeOutcome {
  std::vector<Line> lines;
  Nanos busy = 0;
  std::int64_t peak = 0;
  std::uint64_t hidden = 0;
  std::uint64_t dropped = 0;
  std::uint64_t iterations = 0;
};

template <class Face>
DecodeOutcome drive(const DecodeScene& s, Face face) {
  DecodeOutcome out;
  std::multimap<Nanos, std::uint32_t> travelling;
  std::vector<int> state(s.requests.size(), 0);  // 1 asked, 2 has room, 3 joined or gone
  std::size_t request = 0;
  std::size_t poll = 0;
  std::uint32_t asking = 0;
  std::multimap<Nanos, std::uint32_t> drops;
  for (std::uint32_t slot = 0; slot < s.drops.size(); ++slot) {
    if (s.drops[slot] != kNever) drops.insert({s.drops[slot], slot});
  }
  int rounds = 0;
  for (Nanos last = -1;;) {
    Nanos t = face.next();
    if (request < s.requests.size()) t = std::min(t, s.requests[request].first);
    if (!travelling.empty()) t = std::min(t, travelling.begin()->first);
    if (poll < s.polls.size()) t = std::min(t, s.polls[poll]);
    if (!drops.empty()) t = std::min(t, drops.begin()->first);
    if (t == kNever) break;
    rounds = t == last ? rounds + 1 : 0;
    REQUIRE(rounds < 1000);
    last = t;
    face.reach(t, face.next() == t);
    while (!drops.empty() && drops.begin()->first == t) {
      const std::uint32_t slot = drops.begin()->second;
      drops.erase(drops.begin());
      if (state[slot] != 1 && state[slot] != 2) continue;
      if (s.kvFirst && state[slot] == 2) continue;
      face.drop(slot, t);
      state[slot] = 3;
      ++out.dropped;
      for (auto i = travelling.begin(); i != travelling.end(); ++i) {
        if (i->second != slot) continue;
        travelling.erase(i);
        break;
      }
    }
    while (!travelling.empty() && travelling.begin()->first == t) {
      face.arrived(travelling.begin()->second);
      state[travelling.begin()->second] = 3;
      travelling.erase(travelling.begin());
    }
    face.join(t, &out.lines);
    while (request < s.requests.size() && s.requests[request].first == t) {
      face.request(s.requests[request].second);
      state[request++] = 1;
    }
    while (poll < s.polls.size() && s.polls[poll] == t) {
      ++poll;
      ++asking;
    }
    // Whoever waits for a boundary gets it here, once per instant for all.
    if (asking > 0 && !face.waits() && face.boundary(t)) {
      REQUIRE(face.stands(t));
      out.lines.push_back(face.capacity(t));
      asking = 0;
    }
    for (const std::uint32_t slot : face.settle(t)) {
      out.lines.push_back({t, kRoom, slot, 0});
      state[slot] = 2;
      if (!s.kvFirst) travelling.insert({t + s.travels[slot], slot});
    }
  }
  REQUIRE(face.holdsNothing());
  out.busy = face.busy();
  out.peak = face.peak();
  out.hidden = face.hidden();
  return out;
}

DecodeScene decodeScene(Random& random) {
  DecodeScene s;
  const bool round = random.below(2) == 0;
  s.model = randomModel(random, round);
  s.backfill = random.below(3) == 0;
  s.requeue = random.below(2) == 0;
  s.kvFirst = random.below(3) == 0;
  const std::uint32_t longest = round ? 6 : 30;
  const std::uint32_t calls = 1 + random.below(25);
  const std::uint32_t predicts = random.below(3);
  std::int64_t largest = 1;
  Nanos t = 0;
  for (std::uint32_t slot = 0; slot < calls; ++slot) {
    if (random.below(3) != 0)
      t += round ? kMs / 2 * random.below(6) : static_cast<Nanos>(random.uniform() * 6e6);
    stepping::PairJob j;
    j.slot = slot;
    j.prompt = 1 + random.below(longest);
    j.output = 2 + random.below(longest);
    j.expected = j.output;
    if (predicts == 1) j.expected = 1 + random.below(1 + static_cast<std::uint32_t>(j.output) / 3);
    if (predicts == 2) j.expected = 1 + random.below(2 * longest);
    j.kv = j.prompt + j.expected;
    largest = std::max({largest, j.kv, random.below(10) == 0 ? j.kv : j.prompt + j.output});
    s.requests.push_back({t, j});
    s.travels.push_back(random.below(3) == 0 ? 0
                                             : (round ? kMs / 2 * random.below(9) : random.below(9'000'000)));
    const bool drops = random.below(8) == 0;
    s.drops.push_back(drops ? t + (round ? kMs / 2 * random.below(9) : random.below(9'000'000)) : kNever);
    if (random.below(2) == 0)
      s.polls.push_back(t + (round ? kMs / 2 * random.below(9) : random.below(9'000'000)));
  }
  std::sort(s.polls.begin(), s.polls.end());
  s.spec = instanceSpec(0, random.below(3) == 0 ? 1 + random.below(4) : 1000, largest + random.below(60));
  s.spec.role = Role::kDecode;
  return s;
}

DecodeScene decodeAlone(std::int64_t kv, std::uint32_t sequences = 100) {
  DecodeScene s;
  s.spec = instanceSpec(0, sequences, kv);
  s.spec.role = Role::kDecode;
  s.model = latency(WholeCosts{0, kMs, 10 * kMs, 0, 0});  // 1 ms per prompt token, 10 ms per iteration
  return s;
}

void ask(DecodeScene* s, Nanos t, std::int64_t prompt, std::int64_t output, Nanos travel,
         std::int64_t expected = 0) {
  stepping::PairJob j;
  j.slot = static_cast<std::uint32_t>(s->requests.size());
  j.prompt = prompt;
  j.output = output;
  j.expected = expected > 0 ? expected : output;
  j.kv = prompt + j.expected;
  s->requests.push_back({t, j});
  s->travels.push_back(travel);
  s->drops.push_back(kNever);
}

std::vector<Line> only(const std::vector<Line>& lines, std::int64_t what) {
  std::vector<Line> result;
  for (const Line& line : lines) {
    if (line[1] == what) result.push_back({line[0], line[2], line[3], 0});
  }
  return result;
}

}  // namespace

TEST_SUITE("pair engines") {
  TEST_CASE(
      "prefill: one at a time in order, and a blocked head waits for KV, not for later calls that fit") {
    PrefillScene s;
    s.spec = instanceSpec(0, 100, 100);
    s.spec.role = Role::kPrefill;
    s.model = latency(WholeCosts{5 * kMs, kMs, kMs, 0, 0});
    s.leases = {{0, {0, 60, 2}}, {0, {1, 50, 2}}, {0, {2, 10, 1}}};
    s.stays = {20 * kMs, 0, 0};
    Nanos busy = 0;
    const std::vector<Line> lines = leapPrefills(s, &busy);
    // 0 .. 65; the KV of 0 leaves at 85; 85 .. 140; 140 .. 155, and the last call is over with its prefill.
    CHECK(only(lines, kPrefilled) ==
          std::vector<Line>{{65 * kMs, 0, 60, 0}, {140 * kMs, 1, 50, 0}, {155 * kMs, 2, 10, 0}});
    CHECK(only(lines, kOver) == std::vector<Line>{{155 * kMs, 2, 0, 0}});
    CHECK(busy == 135 * kMs);
  }

  TEST_CASE("prefill: prompts share a batch up to its budget, a larger one runs alone") {
    PrefillScene s;
    s.spec = instanceSpec(0, 100, 1000);
    s.spec.role = Role::kPrefill;
    s.spec.chunkTokens = 50;
    s.model = latency(WholeCosts{5 * kMs, kMs, kMs, 0, 0});
    s.leases = {{0, {0, 70, 2}}, {0, {1, 20, 2}}, {0, {2, 30, 2}}, {0, {3, 1, 2}}};
    s.stays = {0, 0, 0, 0};
    Nanos busy = 0;
    const std::vector<Line> lines = leapPrefills(s, &busy);
    // 75 alone; then 20 + 30 with one base; then the last.
    CHECK(only(lines, kPrefilled) ==
          std::vector<Line>{
              {75 * kMs, 0, 70, 0}, {130 * kMs, 1, 20, 0}, {130 * kMs, 2, 30, 0}, {136 * kMs, 3, 1, 0}});
  }

  TEST_CASE("decode: room in order at boundaries only, KV joins at the next one") {
    DecodeScene s = decodeAlone(40);
    ask(&s, 0, 10, 3, 4 * kMs);  // room at 0, joins at 4: iterations end at 14 and 24
    ask(&s, 6 * kMs, 20, 2,
        3 * kMs);                // fits (13 + 22 <= 40): room at 14, arrives at 17, joins at 24, over at 34
    ask(&s, 7 * kMs, 10, 2, 0);  // does not: waits until 0 has left at 24; arrives at 24 at once
    const DecodeOutcome o = drive(s, Leaping(s));
    CHECK(only(o.lines, kRoom) == std::vector<Line>{{0, 0, 0, 0}, {14 * kMs, 1, 0, 0}, {24 * kMs, 2, 0, 0}});
    CHECK(only(o.lines, kJoined) ==
          std::vector<Line>{{4 * kMs, 0, 0, 0}, {24 * kMs, 1, 0, 0}, {24 * kMs, 2, 0, 0}});
    CHECK(only(o.lines, kOver) ==
          std::vector<Line>{{24 * kMs, 0, 0, 0}, {34 * kMs, 1, 0, 0}, {34 * kMs, 2, 0, 0}});
    CHECK(o.busy == 30 * kMs);
    CHECK(o.peak == 35);
  }

  TEST_CASE("decode: strict order holds a small call behind a large one, backfill lets it pass") {
    DecodeScene s = decodeAlone(40);
    ask(&s, 0, 20, 4, 0);
    ask(&s, kMs, 30, 2, 0);
    ask(&s, kMs, 5, 2, 0);
    CHECK(only(drive(s, Leaping(s)).lines, kRoom) ==
          std::vector<Line>{{0, 0, 0, 0}, {30 * kMs, 1, 0, 0}, {30 * kMs, 2, 0, 0}});
    s.backfill = true;
    CHECK(only(drive(s, Leaping(s)).lines, kRoom) ==
          std::vector<Line>{{0, 0, 0, 0}, {10 * kMs, 2, 0, 0}, {30 * kMs, 1, 0, 0}});
  }

  TEST_CASE("decode: the last to join gives way; unseen, it is prefilled again where it was") {
    DecodeScene s = decodeAlone(25);
    ask(&s, 0, 10, 5, 0, 1);  // grows from the first iteration on: 11 reserved
    ask(&s, 0, 10, 4, 0, 3);  // 13 reserved: together 24, one token is left
    const DecodeOutcome seen = drive(s, Leaping(s));
    // At 0 both join; 11 + 1 + 13 fit the first iteration, not a second: 1 goes with what it has emitted, 2.
    CHECK(only(seen.lines, kEvicted) == std::vector<Line>{{10 * kMs, 1, 2, 0}});
    CHECK(only(seen.lines, kOver) == std::vector<Line>{{40 * kMs, 0, 0, 0}});
    s.requeue = true;
    const DecodeOutcome unseen = drive(s, Leaping(s));
    CHECK(unseen.hidden == 1);
    // 12 + 1 (expected 3 - 2) = 13 fit when 0 has left at 40 (15 + 13 > 25): prefill 40 .. 52 emits its
    // third, one iteration the fourth.
    CHECK(only(unseen.lines, kOver) == std::vector<Line>{{40 * kMs, 0, 0, 0}, {62 * kMs, 1, 0, 0}});
  }

  TEST_CASE("prefill: an engine that was lost in mid-work is as new") {
    for (std::uint32_t n = 0; n < 200; ++n) {
      Random random(500 + n);
      const PrefillScene s = prefillScene(random);
      Engine engine;
      engine.reset(s.spec, s.model, {});
      // As many prefills as end, and what was leased with them, the KV of all still here.
      for (const auto& [t, job] : s.leases) engine.lease(prefillLeg(job));
      engine.settle(0);
      for (std::uint32_t ends = random.below(4); ends > 0 && engine.next() != kNever; --ends) {
        const Nanos t = engine.next();
        engine.advance(t);
        engine.settle(t);
      }
      engine.lost();
      CHECK(engine.empty());
      CHECK(engine.next() == kNever);
      CHECK(engine.kvUsed() == 0);
      CHECK(engine.holding() == 0);
      CHECK(engine.prefilled().empty());
      Nanos busy = 0;
      Nanos busyNew = 0;
      const std::vector<Line> again = leapPrefills(s, &busy, &engine);
      REQUIRE(again == leapPrefills(s, &busyNew));
      CHECK(busy == busyNew);
    }
  }

  TEST_CASE("decode: an engine that was lost in mid-work is as new") {
    std::uint32_t joined = 0;
    for (std::uint32_t n = 0; n < 300; ++n) {
      Random random(900 + n);
      const DecodeScene s = decodeScene(random);
      Leaping face(s);
      Engine& engine = face.engine;
      // Some calls have joined, some have arrived, some have room or wait for it.
      for (const auto& [t, job] : s.requests) face.request(job);
      face.settle(0);
      const std::uint32_t steps = 1 + random.below(4);
      for (std::uint32_t step = 1; step <= steps; ++step) {
        const Nanos t = std::min(engine.next(), Nanos{50} * kMs * step);
        const std::vector<std::uint32_t> given = engine.roomGiven();
        engine.advance(t);
        for (const std::uint32_t slot : given) {
          if (!s.kvFirst && random.below(2) == 0) engine.arrived(slot);
        }
        engine.join(t);
        if (step < steps || random.below(2) == 0) engine.settle(t);
      }
      joined += engine.joined().size();
      engine.lost();
      CHECK(face.holdsNothing());
      CHECK(engine.next() == kNever);
      CHECK(engine.roomGiven().empty());
      CHECK(engine.joined().empty());
      CHECK(engine.finished().empty());
      const DecodeOutcome again = drive(s, Leaping(engine));
      const DecodeOutcome fresh = drive(s, Leaping(s));
      REQUIRE_MESSAGE(again.lines == fresh.lines, "scene ", n);
      CHECK(again.busy == fresh.busy);
      CHECK(again.peak == fresh.peak);
      CHECK(again.hidden == fresh.hidden);
    }
    CHECK(joined > 50);
  }

  TEST_CASE("random prefill engines: leaping equals stepping") {
    Totals totals;
    for (std::uint32_t n = 0; n < 4000; ++n) {
      Random random(7000 + n);
      const PrefillScene s = prefillScene(random);
      Nanos leapBusy = 0;
      Nanos stepBusy = 0;
      const std::vector<Line> leap = leapPrefills(s, &leapBusy);
      const std::vector<Line> step = stepPrefills(s, &stepBusy, &totals);
      REQUIRE_MESSAGE(leap == step, "scene ", n, " ", show(leap, step));
      REQUIRE(leapBusy == stepBusy);
      totals.calls += s.leases.size();
    }
    CHECK(totals.calls > 40'000);
    CHECK(totals.batches > 3000);
  }

  TEST_CASE("random decode engines: leaping equals stepping") {
    Totals totals;
    for (std::uint32_t n = 0; n < 6000; ++n) {
      Random random(90'000 + n);
      const DecodeScene s = decodeScene(random);
      const DecodeOutcome leap = drive(s, Leaping(s));
      const DecodeOutcome step = drive(s, Stepping(s));
      REQUIRE_MESSAGE(leap.lines == step.lines, "scene ", n, " ", show(leap.lines, step.lines));
      REQUIRE(leap.busy == step.busy);
      REQUIRE(leap.peak == step.peak);
      REQUIRE(leap.hidden == step.hidden);
      totals.calls += s.requests.size();
      totals.hidden += leap.hidden;
      totals.dropped += leap.dropped;
      totals.evictions += only(leap.lines, kEvicted).size();
      totals.overflowed += only(leap.lines, kOverflowed).size();
      totals.capacities += only(leap.lines, kCapacityKv).size();
    }
    CHECK(totals.calls > 60'000);
    CHECK(totals.evictions > 3000);
    CHECK(totals.hidden > 3000);
    CHECK(totals.dropped > 1000);
    CHECK(totals.overflowed > 10);
    CHECK(totals.capacities > 10'000);
  }
}
