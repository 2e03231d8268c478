// The pair planner against its naive oracle (naive_planner.h), on the paths this processor has.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "base/random.h"
#include "naive_planner.h"
#include "planner/decode_planner.h"
#include "planner/pair_planner.h"

using namespace laxity;

namespace {

thread_local bool counting = false;
thread_local std::uint64_t allocations = 0;

void* allocate(std::size_t size) {
  if (counting) ++allocations;
  void* p = std::malloc(size > 0 ? size : 1);
  if (p == nullptr) std::abort();
  return p;
}

}  // namespace

// Counts what plans allocate. Replaced for the whole test program; counts nothing unless a test asks.
void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace {

/// The same state for the planner: pools and calls driven by their events.
struct Fast {
  PrefillPool prefill;
  DecodePool decode;
  WaitingCalls calls;
  std::uint64_t refused = 0;

  void check(Status s) { refused += ok(s) ? 0 : 1; }
};

struct Running {
  std::uint32_t d;
  std::int64_t kv, sequences;
  bool timed;
  std::int64_t key;  // time, or iteration
};

/// One random instance: the naive state, and what the planner's events need beyond it.
struct Scenario {
  naive::State state;
  std::size_t prefillClasses = 0;
  std::vector<Running> running;
  std::vector<std::int64_t> clockAt, clockIteration;
};

std::int64_t uniform(Random& r, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(r.next() % static_cast<std::uint64_t>(high - low + 1));
}

/// `coarse` > 1 makes every time a multiple of it from a small set, so that ties are the rule.
Scenario draw(Random& r, std::size_t instances, std::size_t calls) {
  Scenario x;
  naive::State& s = x.state;
  const bool ties = r.below(2) == 0;
  const std::int64_t unit = ties ? 1 + r.below(3) : 1;
  const auto time = [&](std::int64_t small, std::int64_t large) {
    return ties ? unit * uniform(r, 0, small) : uniform(r, 0, large);
  };
  s.t = ties ? 1000 : uniform(r, 1, std::int64_t{1} << 45);
  x.prefillClasses = 1 + r.below(4);
  const std::size_t decodeClasses = 1 + r.below(4);
  const std::size_t prefills = 1 + r.below(static_cast<std::uint32_t>(instances));
  const std::size_t decodes = 1 + r.below(static_cast<std::uint32_t>(instances));
  const bool absent = r.below(5) == 0;
  for (std::size_t p = 0; p < prefills; ++p) {
    const int k = static_cast<int>(r.below(static_cast<std::uint32_t>(x.prefillClasses)));
    const std::int64_t ready =
        std::max<std::int64_t>(0, s.t + time(6, 1'000'000'000) - (ties ? 3 * unit : 300'000'000));
    s.prefill.push_back({k, r.below(3), ready, !(absent && r.below(3) == 0), r.below(2) == 0});
  }
  const bool equalTokens = r.below(3) == 0;  // equal time per token across classes
  for (std::size_t k = 0; k < decodeClasses; ++k) {
    if (equalTokens && k > 0) {
      s.decodeClasses.push_back(s.decodeClasses[0]);
    } else if (ties) {
      s.decodeClasses.push_back(
          {uniform(r, 0, 4) << 20, uniform(r, 0, 2) << 19, r.below(2) == 0 ? 0 : uniform(r, 0, 1 << 16)});
    } else {
      s.decodeClasses.push_back({uniform(r, 0, std::int64_t{1} << 44), uniform(r, 0, std::int64_t{1} << 38),
                                 uniform(r, 0, std::int64_t{1} << 26)});
    }
  }
  // Of one token: the whole KV of an instance costs up to 15 times the decode.
  if (r.below(2) == 0) {
    for (naive::DecodeClass& k : s.decodeClasses) {
      if (r.below(3) > 0)
        k.price = ties ? 0.125 * static_cast<double>(r.below(4)) : r.uniform() * 15 / 40'000;
    }
  }
  const std::uint32_t fill = r.below(6);  // 0 empty … 5 committed beyond the capacity
  for (std::size_t d = 0; d < decodes; ++d) {
    naive::Decode e{};
    e.hardwareClass = static_cast<int>(r.below(static_cast<std::uint32_t>(decodeClasses)));
    e.tie = r.below(3);
    e.capacity = ties ? uniform(r, 10, 60) : uniform(r, 5'000, 40'000);
    e.present = !(absent && r.below(3) == 0);
    e.perIteration = ties ? unit * uniform(r, 1, 4) : uniform(r, 1'000'000, 60'000'000);
    const std::int64_t at =
        std::max<std::int64_t>(0, s.t - (r.below(2) == 0 ? 0 : uniform(r, 0, 2 * e.perIteration)));
    const std::int64_t iteration = uniform(r, 5, 100);
    x.clockAt.push_back(at);
    x.clockIteration.push_back(iteration);
    const std::int64_t target = e.capacity * fill / 4;
    while (e.used < target) {
      Running c{};
      c.d = static_cast<std::uint32_t>(d);
      c.kv = std::min(target - e.used, ties ? uniform(r, 1, 20) : uniform(r, 1, e.capacity / 4));
      c.sequences = 1 + (r.below(8) == 0 ? r.below(3) : 0);
      c.timed = r.below(3) == 0;
      std::int64_t release;
      if (c.timed) {
        release = c.key = std::max<std::int64_t>(0, s.t - 3 * unit + time(12, 2'000'000'000));
      } else {
        c.key = std::max<std::int64_t>(0, iteration + uniform(r, -3, ties ? 6 : 60));  // some overrun
        release = at + (c.key - iteration) * e.perIteration;
      }
      e.used += c.kv;
      e.context += c.kv;
      e.batch += c.sequences;
      e.releases.emplace_back(release, c.kv);
      x.running.push_back(c);
    }
    s.decode.push_back(e);
  }
  const bool holders = r.below(2) == 0;
  const bool locks = r.below(3) == 0;
  for (std::size_t i = 0; i < calls; ++i) {
    naive::Call c{};
    const bool twin = i > 0 && r.below(4) == 0;  // the same call of the same workflow, or of an equal one
    if (twin) {
      c = s.calls[r.below(static_cast<std::uint32_t>(i))];
    } else {
      c.arrival = ties ? s.t - unit * uniform(r, 0, 8)
                       : std::max<std::int64_t>(0, s.t - uniform(r, 0, std::int64_t{1} << 38));
      c.horizon = ties ? std::int64_t{1} << r.below(5) : uniform(r, 1'000'000, 100'000'000'000);
      c.hint = r.below(4) == 0 ? (ties ? c.horizon : uniform(r, 0, 10'000'000'000)) : 0;
      c.output = ties ? uniform(r, 1, 4) : uniform(r, 1, 2000);
      c.sequences = 1 + (r.below(10) == 0 ? r.below(3) : 0);
      const naive::Decode& e = s.decode[r.below(static_cast<std::uint32_t>(decodes))];
      switch (r.below(6)) {
        case 0:
          c.kv = e.capacity - e.used;
          break;  // m = free
        case 1:
          c.kv = e.capacity - e.used + 1;
          break;
        case 2:
          c.kv = e.capacity;
          break;  // m = capacity
        case 3:
          c.kv = r.below(4) == 0 ? e.capacity + 1 : uniform(r, 1, 10);
          break;
        default:
          c.kv = ties ? uniform(r, 1, 15) : uniform(r, 1, 8'000);
          break;
      }
      c.kv = std::max<std::int64_t>(1, c.kv);
      for (std::size_t k = 0; k < x.prefillClasses; ++k) {
        c.prefill.push_back(r.below(25) == 0 ? -1 : time(4, 800'000'000));
        c.transfer.emplace_back();
        for (std::size_t g = 0; g < decodeClasses; ++g)
          c.transfer[k].push_back(r.below(40) == 0 ? -1 : time(3, 100'000'000));
      }
      if (holders && r.below(2) == 0) {
        for (std::uint32_t k = 0; k <= r.below(2); ++k) {
          const int p = static_cast<int>(r.below(static_cast<std::uint32_t>(prefills)));
          const std::int64_t whole =
              c.prefill[static_cast<std::size_t>(s.prefill[static_cast<std::size_t>(p)].hardwareClass)];
          c.holders.emplace_back(p, r.below(8) == 0 ? whole + 5 : whole / (1 + r.below(4)));
          if (c.holders.back().second < 0) c.holders.back().second = 0;
        }
      }
      if (locks && r.below(3) == 0) c.lock = static_cast<int>(r.below(static_cast<std::uint32_t>(decodes)));
    }
    c.key = uniform(r, -3, 3);
    c.rank = i ^ 5;
    s.calls.push_back(c);
  }
  return x;
}

void load(const Scenario& x, Fast* f) {
  const naive::State& s = x.state;
  f->check(f->prefill.configure(static_cast<std::uint32_t>(x.prefillClasses)));
  for (std::uint32_t p = 0; p < s.prefill.size(); ++p) {
    const naive::Prefill& q = s.prefill[p];
    f->check(f->prefill.add(p, static_cast<std::uint32_t>(q.hardwareClass), q.tie));
    f->check(f->prefill.setReady(p, q.ready));
    f->check(f->prefill.setOpen(p, q.open));
    f->check(f->prefill.setPresent(p, q.present));
  }
  std::vector<DecodeClass> classes;
  for (const naive::DecodeClass& k : s.decodeClasses)
    classes.push_back({k.base, k.perSequence, k.perContext});
  f->check(f->decode.configure(classes));
  for (std::uint32_t d = 0; d < s.decode.size(); ++d) {
    const naive::Decode& e = s.decode[d];
    f->check(f->decode.add(d, static_cast<std::uint32_t>(e.hardwareClass), e.capacity, e.tie));
    f->check(f->decode.setPrice(static_cast<std::uint32_t>(e.hardwareClass),
                                s.decodeClasses[static_cast<std::size_t>(e.hardwareClass)].price));
    f->check(f->decode.setClock(d, x.clockAt[d], x.clockIteration[d], e.perIteration));
    f->check(f->decode.setPresent(d, e.present));
  }
  for (std::uint32_t i = 0; i < x.running.size(); ++i) {
    const Running& c = x.running[i];
    f->check(
        f->decode.reserve(i, c.d, c.kv, c.kv, static_cast<std::uint32_t>(c.sequences), c.timed ? c.key : 0));
    if (!c.timed) f->check(f->decode.run(i, c.key));
  }
  f->calls.configure(static_cast<std::uint32_t>(x.prefillClasses),
                     static_cast<std::uint32_t>(s.decodeClasses.size()));
  const auto orNever = [](std::int64_t time) { return time < 0 ? kNever : time; };
  // A part of each transfer is what its tokens take on the link at its present load.
  const auto link = [&](std::size_t k, std::size_t g) {
    return (s.t + static_cast<std::int64_t>(7 * k + 3 * g)) % 4;
  };
  for (std::size_t k = 0; k < x.prefillClasses; ++k) {
    for (std::size_t g = 0; g < s.decodeClasses.size(); ++g)
      f->check(f->calls.setLink(static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(g), link(k, g)));
  }
  for (std::uint32_t i = 0; i < s.calls.size(); ++i) {
    const naive::Call& c = s.calls[i];
    std::int64_t moved = i % 3 == 0 ? 0 : kMaxMoved;
    for (std::size_t k = 0; k < x.prefillClasses; ++k) {
      for (std::size_t g = 0; g < s.decodeClasses.size(); ++g) {
        if (c.transfer[k][g] >= 0 && link(k, g) > 0) moved = std::min(moved, c.transfer[k][g] / link(k, g));
      }
    }
    WaitingCall w;
    w.arrival = c.arrival;
    w.rank = c.rank;
    w.inverseHorizon = 1.0 / static_cast<double>(c.horizon + c.hint);
    w.hint = c.hint;
    w.key = c.key;
    w.kv = c.kv;
    w.output = static_cast<std::uint32_t>(c.output);
    w.sequences = static_cast<std::uint32_t>(c.sequences);
    w.moved = static_cast<std::uint32_t>(moved);
    if (c.lock >= 0) w.lock = static_cast<std::uint32_t>(c.lock);
    for (std::size_t k = 0; k < c.holders.size(); ++k) {
      w.holders[k] = {static_cast<std::uint32_t>(c.holders[k].first), c.holders[k].second};
    }
    std::vector<Nanos> prefill;
    std::vector<Nanos> transfer;
    for (std::size_t k = 0; k < x.prefillClasses; ++k) {
      prefill.push_back(orNever(c.prefill[k]));
      for (std::size_t g = 0; g < s.decodeClasses.size(); ++g) {
        const std::int64_t time = c.transfer[k][g];
        transfer.push_back(orNever(time < 0 ? time : time - moved * link(k, g)));
      }
    }
    f->check(f->calls.add(i, w, prefill, transfer));
  }
}

bool same(std::span<const PlanEntry> fast, const std::vector<naive::Entry>& slow) {
  if (fast.size() != slow.size()) return false;
  for (std::size_t i = 0; i < slow.size(); ++i) {
    const PlanEntry& e = fast[i];
    const naive::Entry mine{static_cast<int>(e.call),
                            static_cast<int>(e.prefill),
                            static_cast<int>(e.decode),
                            e.prefillEnd,
                            e.ready,
                            e.finish,
                            e.ratio};
    if (!(mine == slow[i])) return false;
  }
  return true;
}

std::vector<PlanEntry> copy(std::span<const PlanEntry> plan) { return {plan.begin(), plan.end()}; }

bool equal(const std::vector<PlanEntry>& a, std::span<const PlanEntry> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PlanEntry& x, const PlanEntry& y) {
    return x.call == y.call && x.prefill == y.prefill && x.decode == y.decode &&
           x.prefillEnd == y.prefillEnd && x.ready == y.ready && x.finish == y.finish && x.ratio == y.ratio;
  });
}

/// The worked example of planner.md 2.
struct Example {
  Fast f;
  Example() {
    f.check(f.prefill.configure(2));
    f.check(f.prefill.add(0, 0, 0));
    f.check(f.prefill.add(1, 1, 0));
    f.check(f.prefill.setReady(0, 1000));
    f.check(f.prefill.setReady(1, 1100));
    const Fine ns = Fine{1} << 20;
    const DecodeClass classes[] = {{25 * ns, ns, 0}, {10 * ns, ns, 0}};
    f.check(f.decode.configure(classes));
    f.check(f.decode.add(0, 0, 100, 0));
    f.check(f.decode.add(1, 1, 60, 0));
    f.check(f.decode.reserve(0, 1, 20, 20, 1, 1500));
    f.check(f.decode.reserve(1, 1, 20, 20, 1, 1900));
    f.calls.configure(2, 2);
    const auto add = [&](std::uint32_t slot, Nanos arrival, double horizon, Nanos prompt,
                         std::uint32_t output) {
      WaitingCall c;
      c.arrival = arrival;
      c.rank = slot;
      c.inverseHorizon = 1 / horizon;
      c.output = output;
      c.kv = prompt + output;
      const Nanos prefill[] = {8 * prompt, 3 * prompt};
      const Nanos transfer[] = {10 + prompt, 10 + prompt, 10 + prompt, 10 + prompt / 2};
      f.check(f.calls.add(slot, c, prefill, transfer));
    };
    add(0, 400, 1000, 20, 10);
    add(1, 0, 2000, 30, 20);
    add(2, 900, 300, 10, 5);
    add(3, 900, 300, 10, 5);
  }
};

}  // namespace

TEST_SUITE("planner") {
  TEST_CASE("the worked example of the reference") {
    Example x;
    const std::vector<naive::Entry> expected{{0, 0, 0, 1160, 1190, 1450, (1450 - 400) * (1 / 1000.0)},
                                             {2, 1, 1, 1130, 1145, 1210, (1210 - 900) * (1 / 300.0)},
                                             {3, 1, 1, 1160, 1175, 1280, (1280 - 900) * (1 / 300.0)},
                                             {1, 1, 0, 1250, 1290, 1830, 1830 * (1 / 2000.0)}};
    for (const auto path : {PairPlanner::Path::kScalar, PairPlanner::Path::kVector}) {
      PairPlanner planner(path);
      for (const PlanMode mode : {PlanMode::kAuto, PlanMode::kGreedy, PlanMode::kOnePass}) {
        CHECK(same(planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, {mode, true, 0}), expected));
      }
    }
    CHECK(x.f.refused == 0);
  }

  TEST_CASE("equal to the naive planner on random instances, all modes, scalar and vector") {
    PairPlanner scalar(PairPlanner::Path::kScalar);
    PairPlanner vector(PairPlanner::Path::kVector);
    MESSAGE("vector path: " << std::string(vector.vectorised() ? "AVX2" : "none, both scalar"));
    std::uint64_t different = 0;
    std::uint64_t refused = 0;
    std::uint64_t plans = 0;
    std::uint64_t entries = 0;
    const std::uint64_t seeds = 24'000;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      Random r(71, seed);
      const std::size_t instances = seed % 20 == 0 ? 16 : 1 + r.below(6);
      const std::size_t calls = seed % 150 == 0 ? 1 + r.below(160) : 1 + r.below(seed % 20 == 0 ? 40 : 10);
      const Scenario x = draw(r, instances, calls);
      Fast f;
      load(x, &f);
      refused += f.refused;
      const int k = static_cast<int>(r.below(4));
      struct Case {
        naive::Mode naiveMode;
        PlanMode mode;
        int perInstance;
      };
      const Case cases[] = {
          {naive::Mode::kGreedy, PlanMode::kGreedy, -1},
          {naive::Mode::kOnePass, PlanMode::kOnePass, -1},
          {naive::Mode::kByKey, PlanMode::kAuto, -1},
          {static_cast<naive::Mode>(seed % 3), seed % 3 == 1 ? PlanMode::kOnePass : PlanMode::kGreedy, k}};
      for (const Case& c : cases) {
        const std::vector<naive::Entry> slow = naive::plan(x.state, c.naiveMode, c.perInstance);
        const PlanOptions options{c.mode, c.perInstance < 0,
                                  static_cast<std::uint32_t>(std::max(0, c.perInstance))};
        for (PairPlanner* planner : {&scalar, &vector}) {
          const bool keyed = c.naiveMode == naive::Mode::kByKey;
          const auto fast = keyed
                                ? planner->plan(x.state.t, f.prefill, f.decode, f.calls, options, KeyOrder{})
                                : planner->plan(x.state.t, f.prefill, f.decode, f.calls, options);
          ++plans;
          entries += slow.size();
          if (!same(fast, slow)) ++different;
        }
      }
    }
    CHECK(refused == 0);
    CHECK(different == 0);
    CHECK(plans == seeds * 8);
    CHECK(entries > plans * 3);
  }

  TEST_CASE("planning changes nothing: the same plan again, the state as before") {
    std::uint64_t different = 0;
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      Random r(72, seed);
      const Scenario x = draw(r, 8, 1 + r.below(40));
      Fast f;
      load(x, &f);
      const auto state = [&] {
        std::vector<double> all;
        for (std::uint32_t p = 0; p < f.prefill.size(); ++p)
          all.push_back(static_cast<double>(f.prefill.at(p).ready));
        for (std::uint32_t d = 0; d < f.decode.size(); ++d) {
          const DecodeInstance& e = f.decode.at(d);
          for (const std::int64_t v : {e.used, e.context, e.batch, e.perToken})
            all.push_back(static_cast<double>(v));
          const Timeline line = e.releases.timeline();
          for (std::uint32_t i = 0; i < line.size; ++i) {
            all.push_back(static_cast<double>(line.time[i]));
            all.push_back(static_cast<double>(line.released[i]));
          }
        }
        for (std::uint32_t k = 0; k < f.decode.classes(); ++k) {
          for (const DecodeCandidate& c : f.decode.list(k)) {
            all.push_back(c.perToken);
            all.push_back(c.slot);
          }
        }
        return all;
      };
      const std::vector<double> before = state();
      PairPlanner planner;
      const PlanOptions options{r.below(2) == 0 ? PlanMode::kGreedy : PlanMode::kOnePass, true, 0};
      const std::vector<PlanEntry> first =
          copy(planner.plan(x.state.t, f.prefill, f.decode, f.calls, options));
      // Another state in between: scratch of an earlier plan must not shine through.
      Fast other;
      load(draw(r, 12, 1 + r.below(60)), &other);
      planner.plan(x.state.t, other.prefill, other.decode, other.calls, options);
      if (!equal(first, planner.plan(x.state.t, f.prefill, f.decode, f.calls, options))) ++different;
      if (state() != before) ++different;
    }
    CHECK(different == 0);
  }

  TEST_CASE("a shorter plan is a prefix of the whole one") {
    std::uint64_t different = 0;
    std::uint64_t shorter = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      Random r(73, seed);
      const Scenario x = draw(r, 6, 1 + r.below(40));
      Fast f;
      load(x, &f);
      PairPlanner planner;
      const PlanMode mode = r.below(2) == 0 ? PlanMode::kGreedy : PlanMode::kOnePass;
      const auto whole = copy(planner.plan(x.state.t, f.prefill, f.decode, f.calls, {mode, true, 0}));
      const auto head = planner.plan(x.state.t, f.prefill, f.decode, f.calls, {mode, false, r.below(3)});
      if (head.size() > whole.size() ||
          !equal({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(head.size())}, head))
        ++different;
      shorter += head.size() < whole.size() ? 1 : 0;
    }
    CHECK(different == 0);
    CHECK(shorter > 500);
  }

  TEST_CASE("equal ratios of different workflows go by arrival, then rank") {
    Example x;
    for (std::uint32_t c = 0; c < 4; ++c) REQUIRE(x.f.calls.remove(c) == Status::kOk);
    // Each alone finishes at 1000 + 80 + 10 + 26 = 1116: R = 1116/2048 and 558/1024 are one number.
    const auto add = [&](std::uint32_t slot, std::uint64_t rank, Nanos arrival, double horizon) {
      WaitingCall c;
      c.arrival = arrival;
      c.rank = rank;
      c.inverseHorizon = 1 / horizon;
      c.output = 1;
      c.kv = 1;
      const Nanos prefill[] = {80, 90};
      const Nanos transfer[] = {10, 1000, 10, 1000};
      REQUIRE(x.f.calls.add(slot, c, prefill, transfer) == Status::kOk);
    };
    add(0, 1, 558, 1024);
    add(1, 3, 0, 2048);
    add(2, 2, 0, 2048);
    for (const auto path : {PairPlanner::Path::kScalar, PairPlanner::Path::kVector}) {
      PairPlanner planner(path);
      const auto plan = planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, {PlanMode::kGreedy, false, 1});
      REQUIRE(plan.size() >= 1);
      CHECK(plan[0].call == 2);
      CHECK(plan[0].ratio == 1116 / 2048.0);
    }
  }

  TEST_CASE("stop rules: idle instances, look-ahead and its bound") {
    Example x;
    PairPlanner planner;
    const auto size = [&](std::uint32_t perInstance) {
      return planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, {PlanMode::kGreedy, false, perInstance})
          .size();
    };
    CHECK(size(0) == 0);  // nothing is open
    x.f.prefill.setOpen(0, true);
    CHECK(size(0) == 1);  // call 0 goes to P0
    x.f.prefill.setOpen(0, false);
    x.f.prefill.setOpen(1, true);
    CHECK(size(0) == 2);  // P1 gets the second
    CHECK(size(1) == 2);
    x.f.prefill.setPresent(1, false);
    CHECK(size(0) == 0);
    x.f.prefill.setOpen(1, false);
    x.f.prefill.setPresent(1, true);
    // P0 never gets a second call: given up after 2 * 2 * 2 steps, beyond the four calls there are.
    CHECK(size(2) == 4);
    x.f.prefill.setReady(0, 1'000'000);  // P0 is out of the question: 2 * 1 * 2 steps
    CHECK(size(1) == 4);
    REQUIRE(x.f.calls.add(4, x.f.calls.at(3), std::vector<Nanos>{80, 30},
                          std::vector<Nanos>{20, 20, 20, 15}) == Status::kOk);
    CHECK(size(1) == 4);
    x.f.prefill.setOpen(0, true);  // an idle one is not given up: all five
    CHECK(size(1) == 5);
  }

  TEST_CASE("calls that fit nowhere, absent classes and empty clusters leave calls unplanned") {
    Example x;
    PairPlanner planner;
    const PlanOptions whole{PlanMode::kGreedy, true, 0};
    x.f.decode.setPresent(0, false);
    x.f.decode.setPresent(1, false);
    CHECK(planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, whole).empty());
    CHECK(planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, {PlanMode::kOnePass, true, 0}).empty());
    x.f.decode.setPresent(1, true);
    CHECK(planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, whole).size() == 4);
    x.f.decode.setCapacity(1, 30);
    CHECK(planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, whole).size() == 3);  // call 1 needs 50
    x.f.prefill.setPresent(0, false);
    x.f.prefill.setPresent(1, false);
    CHECK(planner.plan(1000, x.f.prefill, x.f.decode, x.f.calls, whole).empty());
    WaitingCalls other;
    other.configure(1, 2);
    CHECK(planner.plan(1000, x.f.prefill, x.f.decode, other, whole).empty());
  }

  TEST_CASE("foreign KV and sequences go as they came") {
    const DecodeClass one[] = {{Fine{1000}, Fine{10}, Fine{1}}};
    DecodePool pool;
    REQUIRE(pool.configure(one) == Status::kOk);
    REQUIRE(pool.add(0, 0, 1000, 0) == Status::kOk);
    CHECK(pool.setForeign(0, -1, 0, 100) == Status::kBadTokens);
    CHECK(pool.setForeign(0, 300, 2, 100) == Status::kOk);
    CHECK(pool.at(0).used == 300);
    CHECK(pool.at(0).context == 300);
    CHECK(pool.at(0).batch == 2);
    CHECK(pool.setForeign(0, 0, 0, 200) == Status::kOk);
    CHECK(pool.at(0).used == 0);
    CHECK(pool.at(0).context == 0);
    CHECK(pool.at(0).batch == 0);
  }

  TEST_CASE("bad input is refused with its reason and changes nothing") {
    Example x;
    const Nanos two[] = {1, 1};
    const Nanos four[] = {1, 1, 1, 1};
    WaitingCall c;
    CHECK(x.f.calls.add(9, c, two, four) == Status::kBadTokens);
    c.kv = 1;
    CHECK(x.f.calls.add(9, c, two, four) == Status::kBadTokens);
    c.output = 1;
    CHECK(x.f.calls.add(0, c, two, four) == Status::kSlotInUse);
    CHECK(x.f.calls.add(9, c, two, two) == Status::kBadValue);
    c.inverseHorizon = 2;
    CHECK(x.f.calls.add(9, c, two, four) == Status::kBadValue);
    c.inverseHorizon = 1;
    c.arrival = -1;
    CHECK(x.f.calls.add(9, c, two, four) == Status::kBadTime);
    c.arrival = 0;
    c.hint = -1;
    CHECK(x.f.calls.add(9, c, two, four) == Status::kBadTime);
    CHECK(x.f.calls.remove(9) == Status::kUnknownCall);
    CHECK(x.f.calls.size() == 4);
    CHECK(x.f.prefill.add(0, 0, 0) == Status::kSlotInUse);
    CHECK(x.f.prefill.add(3, 0, 0) == Status::kSlotOutOfRange);
    CHECK(x.f.prefill.add(kMaxInstances, 0, 0) == Status::kTooManyInstances);
    CHECK(x.f.prefill.add(2, 2, 0) == Status::kBadValue);
    CHECK(x.f.prefill.setReady(2, 0) == Status::kUnknownInstance);
    CHECK(x.f.prefill.setReady(0, -1) == Status::kBadTime);
    CHECK(x.f.decode.add(2, 0, 0, 0) == Status::kBadTokens);
    CHECK(x.f.decode.reserve(0, 0, 1, 1, 1, 5) == Status::kSlotInUse);
    CHECK(x.f.decode.reserve(7, 0, 0, 0, 1, 5) == Status::kBadTokens);
    CHECK(x.f.decode.release(7) == Status::kUnknownCall);
    CHECK(x.f.decode.run(7, 0) == Status::kUnknownCall);
    x.f.decode.setPresent(1, false);
    CHECK(x.f.decode.add(1, 0, 10, 0) == Status::kSlotInUse);  // still holds two calls
    const DecodeClass negative[] = {{-1, 0, 0}};
    CHECK(x.f.decode.configure(negative) == Status::kBadValue);
    CHECK(x.f.prefill.configure(0) == Status::kBadValue);
  }

  TEST_CASE("values at the edge of what is accepted do not overflow, and both paths agree") {
    const Nanos t = kMaxTime / 2;
    PrefillPool prefill;
    DecodePool decode;
    WaitingCalls calls;
    REQUIRE(prefill.configure(1) == Status::kOk);
    REQUIRE(prefill.add(0, 0, 0) == Status::kOk);
    REQUIRE(prefill.setReady(0, kMaxTime) == Status::kOk);
    const DecodeClass classes[] = {{INT64_MAX, INT64_MAX, INT64_MAX}};
    REQUIRE(decode.configure(classes) == Status::kOk);
    REQUIRE(decode.add(0, 0, kMaxKvTokens, 0) == Status::kOk);
    REQUIRE(decode.setClock(0, t, 0, kMaxTime) == Status::kOk);
    REQUIRE(decode.reserve(0, 0, kMaxKvTokens, kMaxKvTokens, 60'000, kMaxTime) == Status::kOk);
    REQUIRE(decode.run(0, kMaxTime) == Status::kOk);
    calls.configure(1, 1);
    const Nanos time[] = {kMaxTime};
    for (std::uint32_t i = 0; i < 9; ++i) {
      WaitingCall c;
      c.arrival = i % 3 == 0 ? kMaxTime : 0;
      c.rank = i;
      c.hint = i % 2 == 0 ? kMaxTime : 0;
      c.inverseHorizon = 1;
      c.kv = kMaxKvTokens;
      c.output = 0xffff'ffffu;
      REQUIRE(calls.add(i, c, time, time) == Status::kOk);
    }
    PairPlanner scalar(PairPlanner::Path::kScalar);
    PairPlanner vector(PairPlanner::Path::kVector);
    for (const PlanMode mode : {PlanMode::kGreedy, PlanMode::kOnePass}) {
      const auto plan = copy(scalar.plan(t, prefill, decode, calls, {mode, true, 0}));
      CHECK(plan.size() == 9);
      for (const PlanEntry& e : plan) CHECK((e.finish >= t && e.finish <= kMaxTime));
      CHECK(equal(plan, vector.plan(t, prefill, decode, calls, {mode, true, 0})));
    }
  }

  TEST_CASE("steady state allocates nothing") {
    std::uint64_t steady = 0;
    for (const bool tight : {false, true}) {
      Random r(74, tight);
      // Fixed sizes; calls come and go, releases move, clocks advance.
      PrefillPool prefill;
      DecodePool decode;
      WaitingCalls calls;
      REQUIRE(prefill.configure(3) == Status::kOk);
      const std::vector<DecodeClass> classes{{Fine{20'000'000} << 20, Fine{100'000} << 20, Fine{10} << 20},
                                             {Fine{15'000'000} << 20, Fine{90'000} << 20, Fine{8} << 20},
                                             {Fine{12'000'000} << 20, Fine{80'000} << 20, Fine{6} << 20}};
      REQUIRE(decode.configure(classes) == Status::kOk);
      for (std::uint32_t i = 0; i < 8; ++i) {
        REQUIRE(prefill.add(i, i % 3, 0) == Status::kOk);
        REQUIRE(decode.add(i, i % 3, 100'000, 0) == Status::kOk);
      }
      calls.configure(3, 3);
      PairPlanner scalar(PairPlanner::Path::kScalar);
      PairPlanner vector(PairPlanner::Path::kVector);
      const std::uint32_t perInstance = tight ? 60 : 20;
      Nanos t = kSecond;
      std::uint64_t refused = 0;
      const auto check = [&](Status s) { refused += ok(s) ? 0 : 1; };
      const auto addCall = [&](std::uint32_t slot) {
        WaitingCall c;
        c.arrival = t - r.below(1'000'000'000);
        c.rank = r.next();
        c.inverseHorizon = 1e-9 / (1 + r.below(100));
        c.output = 1 + r.below(300);
        c.kv = c.output + 200 + r.below(3000);
        if (r.below(3) == 0) c.holders[0] = {r.below(8), Nanos{1'000'000}};
        Nanos pre[3];
        Nanos transfer[9];
        for (Nanos& x : pre) x = r.below(500'000'000);
        for (Nanos& x : transfer) x = r.below(100'000'000);
        check(calls.add(slot, c, pre, transfer));
      };
      for (std::uint32_t i = 0; i < 8 * perInstance; ++i)
        check(decode.reserve(i, i % 8, 1500, 1500, 1, t + r.below(2'000'000'000)));
      for (std::uint32_t i = 0; i < 128; ++i) addCall(i);
      for (std::uint32_t round = 0; round < 1500; ++round) {
        counting = round >= 1200;  // every call has run by then, and the largest plan has been made
        allocations = 0;
        t += 1'000'000;
        const std::uint32_t id = round % (8 * perInstance);
        check(decode.release(id));
        check(decode.reserve(id, id % 8, 1500, 1500, 1, t + r.below(2'000'000'000)));
        check(decode.run(id, 10 + r.below(100)));
        for (std::uint32_t d = 0; d < 8; ++d)
          check(decode.setClock(d, t, round / 20, 20'000'000 + r.below(1000)));
        const std::uint32_t slot = r.below(128);
        check(calls.remove(slot));
        addCall(slot);
        check(prefill.setReady(r.below(8), t + r.below(1'000'000'000)));
        const PlanMode mode = round % 2 == 0 ? PlanMode::kGreedy : PlanMode::kOnePass;
        scalar.plan(t, prefill, decode, calls, {mode, true, 0});
        vector.plan(t, prefill, decode, calls, {mode, true, 0});
        vector.plan(t, prefill, decode, calls, {mode, true, 0}, KeyOrder{});
        counting = false;
        steady += allocations;
      }
      CHECK(refused == 0);
    }
    CHECK(steady == 0);
    counting = true;
    allocations = 0;
    std::vector<int> one(1);
    counting = false;
    CHECK(allocations == 1);  // the counter counts
  }

  TEST_CASE("the release list under random events equals its recomputation") {
    std::uint64_t different = 0;
    std::uint64_t refused = 0;
    std::uint64_t asked = 0;
    std::uint64_t overdue = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      Random r(75, seed);
      const auto check = [&](Status s) { refused += ok(s) ? 0 : 1; };
      DecodePool pool;
      const DecodeClass classes[] = {{Fine{5} << 20, Fine{1} << 19, Fine{1} << 14}};
      check(pool.configure(classes));
      check(pool.add(0, 0, 200, 0));
      struct Held {
        bool live = false, running = false;
        std::int64_t kv = 0, context = 0, key = 0, sequences = 0;
      };
      std::vector<Held> held(40);
      Nanos t = 100;
      Nanos at = 100;
      std::int64_t iteration = 3;
      Nanos perIteration = 7;
      check(pool.setClock(0, at, iteration, perIteration));
      for (int step = 0; step < 200; ++step) {
        t += r.below(4);
        const std::uint32_t id = r.below(40);
        Held& h = held[id];
        const std::int64_t kv = 1 + r.below(30);
        const std::int64_t finish = std::max<std::int64_t>(0, t - 5 + r.below(60));
        const std::int64_t last = std::max<std::int64_t>(0, iteration - 2 + r.below(12));
        switch (r.below(6)) {
          case 0:
            if (h.live) {
              check(pool.release(id));
              h.live = false;
            } else {
              h = {true, false, kv, kv / 2, finish, 1 + r.below(3)};
              check(pool.reserve(id, 0, kv, kv / 2, static_cast<std::uint32_t>(h.sequences), finish));
            }
            break;
          case 1:
            if (!h.live) break;
            check(pool.run(id, last));
            h.running = true;
            h.key = last;
            break;
          case 2:
            if (!h.live || h.running) break;
            check(pool.expect(id, finish));
            h.key = finish;
            break;
          case 3:
            if (!h.live) break;
            check(pool.resize(id, kv, kv));
            h.kv = h.context = kv;
            break;
          case 4:  // the clock moves on along its line, or not
            if (r.below(2) == 0) {
              ++iteration;
              at += perIteration;
              t = std::max(t, at);
            } else {
              at = t;
              perIteration = 1 + r.below(12);
            }
            check(pool.setClock(0, at, iteration, perIteration));
            break;
          default:
            break;
        }
        naive::Decode slow{};
        slow.capacity = 200;
        slow.perIteration = perIteration;
        for (const Held& c : held) {
          if (!c.live) continue;
          slow.used += c.kv;
          slow.context += c.context;
          slow.batch += c.sequences;
          const std::int64_t release = c.running ? at + (c.key - iteration) * perIteration : c.key;
          slow.releases.emplace_back(release, c.kv);
          overdue += release <= t ? 1 : 0;
        }
        const DecodeInstance& d = pool.at(0);
        if (d.used != slow.used || d.context != slow.context || d.batch != slow.batch) ++different;
        DecodeProjection projection;
        projection.begin(pool, t, 0);
        for (int k = 0; k < 6; ++k) {
          const std::int64_t need = 1 + r.below(210);
          const std::int64_t expected = naive::fits(slow, t, need);
          const double wait = projection.wait(0, need);
          ++asked;
          if (expected < 0 ? wait != kInfinite : wait != static_cast<double>(expected - t)) ++different;
        }
      }
      for (std::uint32_t id = 0; id < held.size(); ++id) {
        if (held[id].live) check(pool.release(id));
      }
      const DecodeInstance& d = pool.at(0);
      if (d.used != 0 || d.context != 0 || d.batch != 0 || d.releases.size() != 0) ++different;
    }
    CHECK(refused == 0);
    CHECK(different == 0);
    CHECK(asked == 300 * 200 * 6);
    CHECK(overdue > 1000);
  }

  TEST_CASE("the decode stage equals its naive form") {
    std::uint64_t different = 0;
    std::uint64_t refused = 0;
    std::uint64_t entries = 0;
    DecodePlanner planner;
    for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
      Random r(76, seed);
      Scenario x = draw(r, seed % 20 == 0 ? 16 : 5, 1 + r.below(seed % 50 == 0 ? 60 : 8));
      Fast f;
      load(x, &f);
      refused += f.refused;
      std::vector<naive::DecodeCall> slow;
      std::vector<WaitingDecode> fast;
      std::vector<std::vector<Nanos>> transfers(x.state.calls.size());
      for (std::uint32_t i = 0; i < x.state.calls.size(); ++i) {
        const naive::Call& c = x.state.calls[i];
        const int lock = r.below(2) == 0
                             ? static_cast<int>(r.below(static_cast<std::uint32_t>(x.state.decode.size())))
                             : -1;
        std::vector<std::int64_t> transfer(x.state.decodeClasses.size(), 0);
        const bool here = r.below(2) == 0;
        if (!here) transfer = c.transfer[0];
        slow.push_back({c.arrival, c.rank, c.horizon, c.hint, c.kv, c.output, c.sequences, lock, transfer});
        for (const std::int64_t time : transfer) transfers[i].push_back(time < 0 ? kNever : time);
        WaitingDecode w;
        w.slot = i;
        if (lock >= 0) w.lock = static_cast<std::uint32_t>(lock);
        w.arrival = c.arrival;
        w.rank = c.rank;
        w.inverseHorizon = 1.0 / static_cast<double>(c.horizon + c.hint);
        w.hint = c.hint;
        w.kv = c.kv;
        w.output = static_cast<std::uint32_t>(c.output);
        w.sequences = static_cast<std::uint32_t>(c.sequences);
        if (!here) w.transfer = transfers[i].data();
        fast.push_back(w);
      }
      const std::vector<naive::Entry> expected = naive::planDecode(x.state, slow);
      const auto plan = planner.plan(x.state.t, f.decode, fast);
      entries += expected.size();
      bool equalPlans = plan.size() == expected.size();
      for (std::size_t i = 0; equalPlans && i < plan.size(); ++i) {
        const naive::Entry& e = expected[i];
        equalPlans = static_cast<int>(plan[i].call) == e.call &&
                     static_cast<int>(plan[i].decode) == e.decode && plan[i].ready == e.ready &&
                     plan[i].finish == e.finish && plan[i].ratio == e.ratio;
      }
      if (!equalPlans) ++different;
      if (planner.plan(x.state.t, f.decode, fast, 1).size() != std::min<std::size_t>(1, expected.size()))
        ++different;
    }
    CHECK(refused == 0);
    CHECK(different == 0);
    CHECK(entries > 40'000);
  }
}
