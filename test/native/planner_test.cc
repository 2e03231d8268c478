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
      c.arrival = ties ? s.t - unit * uniform(r, 0, 8) : s.t - uniform(r, 0, std::int64_t{1} << 38);
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
  for (std::uint32_t i = 0; i < s.calls.size(); ++i) {
    const naive::Call& c = s.calls[i];
    WaitingCall w;
    w.arrival = c.arrival;
    w.rank = c.rank;
    w.inverseHorizon = 1.0 / static_cast<double>(c.horizon + c.hint);
    w.hint = c.hint;
    w.key = c.key;
    w.kv = c.kv;
    w.output = static_cast<std::uint32_t>(c.output);
    w.sequences = static_cast<std::uint32_t>(c.sequences);
    if (c.lock >= 0) w.lock = static_cast<std::uint32_t>(c.lock);
    for (std::size_t k = 0; k < c.holders.size(); ++k) {
      w.holders[k] = {static_cast<std::uint32_t>(c.holders[k].first), c.holders[k].second};
    }
    std::vector<Nanos> prefill;
    std::vector<Nanos> transfer;
    for (std::size_t k = 0; k < x.prefillClasses; ++k) {
      prefill.push_back(orNever(c.prefill[k]));
      for (const std::int64_t time : c.transfer[k]) transfer.push_back(orNever(time));
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

[[maybe_unused]] std::vector<PlanEntry> copy(std::span<const PlanEntry> plan) { return {plan.begin(), plan.end()}; }

[[maybe_unused]] bool equal(const std::vector<PlanEntry>& a, std::span<const PlanEntry> b) {
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
      const std::size_t instances = seed % 40 == 0 ? 16 : 1 + r.below(6);
      const std::size_t calls = seed % 800 == 0 ? 1 + r.below(160) : 1 + r.below(seed % 20 == 0 ? 40 : 10);
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
}
