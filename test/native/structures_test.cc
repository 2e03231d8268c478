// The structures everything stands on: indexed heap, tournament tree, exact durations, latency models.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/fixed.h"
#include "base/heap.h"
#include "base/random.h"
#include "base/tournament.h"
#include "cluster/instance.h"
#include "model/latency.h"

using namespace laxity;

namespace {

/// Counts what does not hold, so that a million comparisons are one assertion.
struct Failures {
  std::uint64_t checks = 0;
  std::uint64_t failed = 0;
  void expect(bool holds) {
    ++checks;
    failed += holds ? 0 : 1;
  }
};

/// The order of waiting calls, written down once more: larger key first, then smaller rank.
bool goesFirst(const HeapEntry& a, const HeapEntry& b) {
  if (a.key > b.key) return true;
  return a.key == b.key && a.rank < b.rank;
}

LatencyModel model(const LatencyConstants& constants) {
  LatencyModel m;
  REQUIRE(LatencyModel::constants(constants, &m) == Status::kOk);
  return m;
}

}  // namespace

TEST_SUITE("indexed heap") {
  TEST_CASE("random pushes, removals and new keys leave the order of a sorted vector") {
    Failures f;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      Random random(1, seed);
      IndexedHeap heap;
      std::vector<HeapEntry> plain;
      constexpr std::uint32_t kSlots = 200;
      std::vector<std::uint32_t> position(kSlots, kNoSlot);
      std::vector<std::uint32_t> free;
      for (std::uint32_t i = 0; i < kSlots; ++i) free.push_back(i);
      const auto moved = [&](std::uint32_t slot, std::uint32_t at) { position[slot] = at; };
      const std::uint32_t keys = 1 + random.below(seed % 3 == 0 ? 4 : 1000);  // few keys: ties are the rule
      const std::uint32_t bias = 30 + random.below(40);
      for (std::uint64_t step = 0; step < 1500; ++step) {
        const bool push = random.below(100) < bias;
        if (push && !free.empty()) {
          const std::uint32_t pickAt = random.below(static_cast<std::uint32_t>(free.size()));
          const std::uint32_t slot = free[pickAt];
          free.erase(free.begin() + pickAt);
          const HeapEntry e{static_cast<Nanos>(random.below(keys)) - 2,
                            seed * 100'000 + (step * 7919) % 65'536, slot};
          heap.push(e, moved);
          plain.push_back(e);
        } else if (!plain.empty()) {
          const std::uint32_t at = random.below(static_cast<std::uint32_t>(plain.size()));
          const std::uint32_t slot = plain[at].slot;
          if (random.below(2) == 0) {
            heap.removeAt(position[slot], moved);
            plain.erase(plain.begin() + at);
            free.push_back(slot);
          } else {
            const auto key = static_cast<Nanos>(random.below(keys)) - 2;
            heap.rekeyAt(position[slot], key, moved);
            plain[at].key = key;
          }
        }
        f.expect(heap.size() == plain.size() && heap.empty() == plain.empty());
        for (const HeapEntry& e : plain) {
          f.expect(position[e.slot] < heap.size() && heap.entries()[position[e.slot]].slot == e.slot &&
                   heap.entries()[position[e.slot]].key == e.key &&
                   heap.entries()[position[e.slot]].rank == e.rank);
        }
        if (!plain.empty()) {
          f.expect(heap.top().slot == std::min_element(plain.begin(), plain.end(), goesFirst)->slot);
        }
      }
      std::sort(plain.begin(), plain.end(), goesFirst);
      for (const HeapEntry& e : plain) {
        f.expect(heap.top().slot == e.slot);
        heap.removeAt(0, moved);
      }
      f.expect(heap.empty());
    }
    CHECK(f.failed == 0);
    CHECK(f.checks > 1'000'000);
  }

  TEST_CASE("equal keys go by rank, however large") {
    IndexedHeap heap;
    const auto untracked = [](std::uint32_t, std::uint32_t) {};
    const std::uint64_t ranks[] = {~std::uint64_t{0}, 3, std::uint64_t{1} << 40, 0,
                                   (std::uint64_t{1} << 63) + 1};
    for (std::uint32_t i = 0; i < 5; ++i) heap.push({7, ranks[i], i}, untracked);
    heap.push({std::numeric_limits<Nanos>::min(), 0, 8}, untracked);
    heap.push({kNever, 9, 9}, untracked);
    for (const std::uint32_t slot : {9u, 3u, 1u, 2u, 4u, 0u, 8u}) {
      CHECK(heap.top().slot == slot);
      heap.removeAt(0, untracked);
    }
  }
}

TEST_SUITE("tournament tree") {
  TEST_CASE("the minimum is that of a linear scan, ties to the smallest index, across resizes") {
    Failures f;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      Random random(2, seed);
      TournamentTree tree;
      std::vector<Nanos> plain;
      CHECK(tree.size() == 0);
      CHECK(tree.min() == kNever);
      const std::uint32_t values = 1 + random.below(seed % 2 == 0 ? 5 : 100'000);
      for (int step = 0; step < 400; ++step) {
        const std::uint32_t what = random.below(40);
        if (what == 0 || plain.empty()) {
          const std::uint32_t n = random.below(4) == 0 ? random.below(3) : random.below(70);
          tree.resize(n);
          plain.resize(n, kNever);
        } else {
          const std::uint32_t i = random.below(static_cast<std::uint32_t>(plain.size()));
          const Nanos value = what == 1 ? kNever : static_cast<Nanos>(random.below(values)) - 3;
          tree.set(i, value);
          plain[i] = value;
        }
        f.expect(tree.size() == plain.size());
        Nanos least = kNever;
        std::size_t at = 0;
        for (std::size_t i = 0; i < plain.size(); ++i) {
          f.expect(tree.value(i) == plain[i]);
          if (plain[i] < least) {
            least = plain[i];
            at = i;
          }
        }
        f.expect(tree.min() == least);
        f.expect(tree.minIndex() == at);
      }
    }
    CHECK(f.failed == 0);
    CHECK(f.checks > 1'000'000);
  }
}

TEST_SUITE("exact durations") {
  TEST_CASE("rounding goes to the nearest nanosecond, half up, and saturates") {
    constexpr FineSum kOne = FineSum{1} << kFineBits;
    for (const Nanos ns : {Nanos{0}, Nanos{1}, Nanos{-1}, Nanos{123'456'789}, Nanos{-77}, kMaxTime - 1}) {
      CHECK(roundFine(kOne * ns) == ns);
      CHECK(roundFine(kOne * ns + kOne / 2 - 1) == ns);
      CHECK(roundFine(kOne * ns + kOne / 2) == ns + 1);
      CHECK(roundFine(kOne * ns - kOne / 2) == ns);
      CHECK(roundFine(kOne * ns - kOne / 2 - 1) == ns - 1);
    }
    CHECK(roundFine(kOne * kMaxTime) == kMaxTime);
    CHECK(roundFine(kOne * kMaxTime + kOne) == kMaxTime);
    CHECK(roundFine(kOne * kNever * 8) == kMaxTime);
  }

  TEST_CASE("milliseconds become units of 2^-20 ns, half away from zero") {
    CHECK(fineFromMs(0) == 0);
    CHECK(fineFromMs(1e-6) == Fine{1} << kFineBits);
    CHECK(fineFromMs(1) == Fine{1'000'000} << kFineBits);
    CHECK(fineFromMs(-1) == -(Fine{1'000'000} << kFineBits));
    CHECK(fineFromMs(1.5e-6 / (1 << kFineBits)) == 2);
    CHECK(fineFromMs(-1.5e-6 / (1 << kFineBits)) == -2);
    CHECK(fineFromMs(1.4e-6 / (1 << kFineBits)) == 1);
  }
}

TEST_SUITE("latency model") {
  TEST_CASE("the sum of a piece is the sum of its iterations") {
    Failures f;
    Random random(3);
    for (int round = 0; round < 2000; ++round) {
      const LatencyModel m = model({0, 0, 1e-6 + random.uniform() * 50, random.below(2) * random.uniform(),
                                    random.below(3) == 0 ? 0 : random.uniform() * 1e-2});
      const std::uint32_t batch = 1 + random.below(64);
      std::int64_t context = random.below(1'000'000);
      const std::int64_t from = context;
      const DecodePiece piece = m.piece(batch, context);
      __int128 sum = 0;
      for (std::int64_t n = 0; n < 60; ++n) {
        f.expect(piece.sum(from, batch, n) == sum);
        const DecodePiece now = m.piece(batch, context);
        f.expect(context < piece.contextEnd && now.base == piece.base && now.perContext == piece.perContext);
        sum += __int128{now.base} + __int128{now.perContext} * context;
        context += batch;
      }
      // In two parts it is the same sum.
      const std::int64_t half = random.below(1000);
      const std::int64_t rest = random.below(1000);
      f.expect(piece.sum(from, batch, half) + piece.sum(from + half * batch, batch, rest) ==
               piece.sum(from, batch, half + rest));
    }
    CHECK(f.failed == 0);
  }

  TEST_CASE("the sum is exact up to the documented number of iterations") {
    const LatencyModel m = model({0, 0, 100'000, 0.5, 100});
    for (const std::int64_t n : {std::int64_t{1} << 20, std::int64_t{100'000'000}, std::int64_t{1} << 31,
                                 (std::int64_t{1} << 32) - 1}) {
      for (const std::int64_t context : {std::int64_t{0}, std::int64_t{1'000'000}}) {
        CAPTURE(n);
        CAPTURE(context);
        const DecodePiece piece = m.piece(3, context);
        const __int128 exact = __int128{piece.base} * n + __int128{piece.perContext} * context * n +
                               __int128{piece.perContext} * 3 * (__int128{n} * (n - 1) / 2);
        CHECK((piece.sum(context, 3, n) == exact));
      }
    }
  }

  TEST_CASE("base, sequences beyond the first and context each count once") {
    const LatencyModel m = model({5, 0.25, 2, 0.5, 0.001});
    CHECK(m.prefill(8, 0) == 7 * kMillisecond);
    CHECK(m.prefill(8, 1000) == 7 * kMillisecond);  // constants price new tokens alone
    CHECK(roundFine(m.piece(1, 0).at(0)) == 2 * kMillisecond);
    CHECK(roundFine(m.piece(5, 3000).at(3000)) == 7 * kMillisecond);
    CHECK(m.decodeAlone(1000, 0) == 0);
    CHECK(m.decodeAlone(1000, 1) == 3 * kMillisecond);
    CHECK(m.decodeAlone(1000, 3) == 3 * kMillisecond + 2 * 3'001'000 - 2 * kMillisecond + 2'000'000 + 1'000);
    CHECK(model({0, 0, 1, 0, 0}).prefill(1, 0) == 1);  // time must advance
  }

  TEST_CASE("decodeAlone is the sum of single iterations, rounded once") {
    Failures f;
    Random random(4);
    for (int round = 0; round < 3000; ++round) {
      const LatencyModel m = model({0, 0, 1e-6 + random.uniform(), random.uniform(),
                                    random.below(3) == 0 ? 0 : random.uniform() * 1e-4});
      const std::int64_t context = random.below(100'000);
      const std::int64_t steps = random.below(200);
      __int128 sum = 0;
      for (std::int64_t i = 0; i < steps; ++i) {
        const DecodePiece piece = m.piece(1, context + i);
        sum += __int128{piece.base} + __int128{piece.perContext} * (context + i);
      }
      f.expect(m.decodeAlone(context, steps) == roundFine(sum));
    }
    CHECK(f.failed == 0);
  }

  TEST_CASE("a table is exact at its knots, linear between, proportional outside, and monotone") {
    Failures f;
    Random random(5);
    for (int round = 0; round < 400; ++round) {
      std::vector<PrefillKnot> knots;
      std::uint32_t tokens = 1 + random.below(50);
      Nanos time = 1 + random.below(2) * random.below(10'000'000);
      const std::uint32_t n = 1 + random.below(6);
      for (std::uint32_t i = 0; i < n; ++i) {
        knots.push_back({tokens, time});
        tokens += 1 + random.below(300);
        time += random.below(3) == 0 ? 0 : random.below(50'000'000);
      }
      LatencyModel m;
      REQUIRE(LatencyModel::table(knots, {99, 99, 1, 0, 0}, &m) == Status::kOk);
      for (const PrefillKnot& k : knots) f.expect(m.prefill(k.tokens, 0) == k.time);
      Nanos before = 0;
      for (std::uint32_t x = 1; x < tokens + 100; ++x) {
        const Nanos y = m.prefill(x, 0);
        f.expect(y >= before && y >= 1);
        before = y;
        std::size_t above = 0;
        while (above < knots.size() && knots[above].tokens < x) ++above;
        long double exact;
        if (above == 0 || above == knots.size()) {
          const PrefillKnot& edge = above == 0 ? knots.front() : knots.back();
          exact = static_cast<long double>(edge.time) * x / edge.tokens;
        } else {
          const PrefillKnot& a = knots[above - 1];
          const PrefillKnot& b = knots[above];
          exact = a.time + static_cast<long double>(b.time - a.time) * (x - a.tokens) / (b.tokens - a.tokens);
        }
        f.expect(std::fabs(static_cast<long double>(y) - std::max(exact, 1.0L)) <= 0.501L);
      }
    }
    CHECK(f.failed == 0);
  }

  TEST_CASE("bad constants and tables are refused and leave the model as it was") {
    const LatencyConstants good{1, 0.5, 2, 0.25, 0.125};
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    LatencyModel m = model(good);
    const LatencyModel same = m;
    for (double LatencyConstants::*field :
         {&LatencyConstants::prefillBaseMs, &LatencyConstants::prefillPerTokenMs,
          &LatencyConstants::decodeBaseMs, &LatencyConstants::decodePerSequenceMs,
          &LatencyConstants::decodePerContextMs}) {
      for (const double bad : {-1e-9, kNaN, kInfinity, -kInfinity, 1e6}) {
        LatencyConstants c = good;
        c.*field = bad;
        CHECK(LatencyModel::constants(c, &m) == Status::kBadValue);
        CHECK(LatencyModel::table({{1, 1}}, c, &m) == Status::kBadValue);
      }
    }
    LatencyConstants still = good;
    still.decodeBaseMs = 0.99e-6;
    CHECK(LatencyModel::constants(still, &m) == Status::kBadValue);
    const std::vector<std::vector<PrefillKnot>> tables{{},
                                                       {{0, 5}},
                                                       {{4, 0}},
                                                       {{4, -1}},
                                                       {{4, 5}, {4, 6}},
                                                       {{5, 5}, {4, 6}},
                                                       {{4, 5}, {5, 4}},
                                                       {{4, kMaxTime}}};
    for (const auto& knots : tables) CHECK(LatencyModel::table(knots, good, &m) == Status::kBadValue);
    CHECK(m == same);
    still.decodeBaseMs = 1e-6;
    CHECK(LatencyModel::constants(still, &m) == Status::kOk);
    CHECK(LatencyModel::table({{4, 5}, {5, 5}}, good, &m) == Status::kOk);
    CHECK(LatencyModel::constants({100'000, 100, 100'000, 100, 100}, &m) == Status::kOk);
    CHECK(m.piece(kMaxSequences, 0).base > 0);
  }

  TEST_CASE("models are equal where their numbers are") {
    LatencyModel a = model({1, 2, 3, 4, 5});
    CHECK(a == model({1, 2, 3, 4, 5}));
    for (const LatencyConstants& c :
         {LatencyConstants{2, 2, 3, 4, 5}, LatencyConstants{1, 1, 3, 4, 5}, LatencyConstants{1, 2, 2, 4, 5},
          LatencyConstants{1, 2, 3, 3, 5}, LatencyConstants{1, 2, 3, 4, 4}}) {
      CHECK_FALSE(a == model(c));
    }
    LatencyModel table;
    REQUIRE(LatencyModel::table({{1, 1}}, {1, 2, 3, 4, 5}, &table) == Status::kOk);
    CHECK_FALSE(a == table);
  }
}
