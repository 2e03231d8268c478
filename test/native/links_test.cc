// The links by themselves: against a version that recounts everything, against the fluid they stand for, and
// scenes worked out by hand.
#include "simulator/links.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "pair_stepping.h"

using namespace laxity;

namespace {

InstanceSpec end(Nanos perToken, Nanos latency = 0) {
  InstanceSpec spec;
  spec.linkPerToken = perToken << kFineBits;
  spec.linkLatency = latency;
  return spec;
}

struct Start {
  Nanos t;
  Transfer transfer;
};

using Ends = std::vector<std::tuple<Nanos, std::uint32_t>>;  ///< (t, slot), in order

Ends drive(const std::vector<InstanceSpec>& ends, Links links, const std::vector<Start>& starts) {
  LinkNetwork network;
  network.reset(ends, links);
  Ends result;
  std::size_t i = 0;
  while (i < starts.size() || network.next() != kNever) {
    const Nanos t = i < starts.size() ? std::min(starts[i].t, network.next()) : network.next();
    while (i < starts.size() && starts[i].t == t) network.start(starts[i++].transfer, t);
    if (network.next() == t) {
      network.advance(t);
      for (const Transfer& done : network.done()) result.push_back({t, done.slot});
    }
    REQUIRE(network.consistent());
  }
  REQUIRE(network.sent() == network.received());
  REQUIRE(network.underWay() == 0);
  return result;
}

Ends naive(const std::vector<InstanceSpec>& ends, Links links, const std::vector<Start>& starts) {
  stepping::StepLinks network;
  network.ends = ends;
  network.contended = links == Links::kContended;
  Ends result;
  std::size_t i = 0;
  while (i < starts.size() || network.next() != kNever) {
    const Nanos t = i < starts.size() ? std::min(starts[i].t, network.next()) : network.next();
    for (; i < starts.size() && starts[i].t == t; ++i) {
      const Transfer& f = starts[i].transfer;
      network.start(f.slot, f.from, f.to, f.tokens, t);
    }
    for (const auto& done : network.advance(t)) result.push_back({t, done.slot});
  }
  return result;
}

/// The fluid itself, in continuous time: when each transfer would end.
std::vector<long double> fluid(const std::vector<InstanceSpec>& ends, const std::vector<Start>& starts) {
  struct Flow {
    long double from, left;
    std::uint32_t p, d;
    bool over;
  };
  std::vector<Flow> flows;
  for (const Start& s : starts) {
    const Nanos latency = linkLatency(ends[s.transfer.from], ends[s.transfer.to]);
    flows.push_back({static_cast<long double>(s.t + latency), static_cast<long double>(s.transfer.tokens),
                     s.transfer.from, s.transfer.to, false});
  }
  std::vector<long double> result(flows.size(), 0);
  long double t = 0;
  for (;;) {
    long double next = HUGE_VALL;
    std::vector<long double> rate(flows.size(), 0);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].over) continue;
      if (flows[i].from > t) {
        next = std::min(next, flows[i].from);
        continue;
      }
      std::int64_t atP = 0;
      std::int64_t atD = 0;
      for (const Flow& g : flows) {
        atP += !g.over && g.from <= t && g.p == flows[i].p ? 1 : 0;
        atD += !g.over && g.from <= t && g.d == flows[i].d ? 1 : 0;
      }
      const long double perToken = std::max(static_cast<long double>(ends[flows[i].p].linkPerToken) * atP,
                                            static_cast<long double>(ends[flows[i].d].linkPerToken) * atD) /
                                   (1 << kFineBits);
      rate[i] = perToken > 0 ? 1 / perToken : HUGE_VALL;
      next = std::min(next, perToken > 0 ? t + flows[i].left * perToken : t);
    }
    if (next == HUGE_VALL) return result;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (rate[i] == 0) continue;
      flows[i].left = rate[i] == HUGE_VALL ? 0 : flows[i].left - (next - t) * rate[i];
      if (flows[i].left * (rate[i] == HUGE_VALL ? 0 : 1 / rate[i]) > 1e-6L) continue;
      flows[i].over = true;
      result[i] = next;
    }
    t = next;
  }
}

}  // namespace

TEST_SUITE("links") {
  TEST_CASE("two transfers at one end share it, a slower other end does not matter to them") {
    // 10 ns per token at p (0), 15 at d (1), 2 at d (2). Alone: 15 and 10 per token.
    const std::vector<InstanceSpec> ends{end(10), end(15), end(2)};
    const Ends ends1 = drive(ends, Links::kContended, {{0, {7, 0, 1, 100}}, {500, {8, 0, 2, 100}}});
    // Slot 7: 15 ns per token until 500, then 20: 33.33 tokens moved, 66.67 left: 1833.3. Slot 8: 20 per
    // token, 66.67 tokens by 1833; then alone 10: 33.33 tokens: 2166.7.
    CHECK(ends1 == Ends{{1833, 7}, {2167, 8}});
    const Ends free = drive(ends, Links::kFree, {{0, {7, 0, 1, 100}}, {500, {8, 0, 2, 100}}});
    CHECK(free == Ends{{1500, 7}, {1500, 8}});
  }

  TEST_CASE("the latency burdens nobody and is not shared") {
    const std::vector<InstanceSpec> ends{end(10, 300), end(5, 100)};
    // Slot 0 moves from 300 to 1300 alone, though slot 1 starts at 1000: its latency lasts until 1300.
    CHECK(drive(ends, Links::kContended, {{0, {0, 0, 1, 100}}, {1000, {1, 0, 1, 100}}}) ==
          Ends{{1300, 0}, {2300, 1}});
  }

  TEST_CASE("N equal transfers on one end take N times as long, within a nanosecond each") {
    for (const std::uint32_t n : {1u, 2u, 3u, 7u, 64u, 333u}) {
      for (const bool sameDecode : {false, true}) {
        std::vector<InstanceSpec> ends{end(1), end(1)};
        ends[0].linkPerToken = 7'654'321'123;  // 7.3 us per token
        ends[1].linkPerToken = 1'234'567;
        std::vector<Start> together;
        for (std::uint32_t i = 0; i < n; ++i) {
          if (!sameDecode) ends.push_back(ends[1]);
          together.push_back({5, {i, 0, sameDecode ? 1 : i + 2, 4321}});
        }
        const Nanos one = transferTime(ends[0], ends[1], 4321);
        const FineSum exact = FineSum{ends[0].linkPerToken} * 4321 * n;
        const Ends result = drive(ends, Links::kContended, together);
        REQUIRE(result.size() == n);
        for (const auto& [t, slot] : result) {
          CHECK(t - 5 == roundFine(exact));
          CHECK(std::abs(t - 5 - one * n) <= n);
        }
      }
    }
  }

  TEST_CASE("alone a transfer takes what the planner believes, to the bit") {
    Random random(1);
    for (int i = 0; i < 2000; ++i) {
      std::vector<InstanceSpec> ends(2);
      for (InstanceSpec& e : ends) {
        e.linkPerToken =
            static_cast<Fine>(random.uniform() * static_cast<double>(1LL << (20 + random.below(30))));
        e.linkLatency = random.below(3) == 0 ? 0 : random.below(1'000'000);
      }
      const std::int64_t tokens = 1 + random.below(200'000);
      const Ends result =
          drive(ends, random.below(2) == 0 ? Links::kContended : Links::kFree, {{11, {0, 0, 1, tokens}}});
      CHECK(result == Ends{{11 + transferTime(ends[0], ends[1], tokens), 0}});
    }
  }

  TEST_CASE("the least time per token that there is, 2^-20 ns, is shared like any other") {
    InstanceSpec least;
    least.linkPerToken = 1;
    constexpr std::int64_t kTokens = 1 << 26;  // 64 ns alone
    CHECK(drive({least, least, least}, Links::kContended,
                {{0, {0, 0, 1, kTokens}}, {32, {1, 0, 2, kTokens}}}) == Ends{{96, 0}, {128, 1}});
  }

  TEST_CASE("random transfers: the same nanoseconds as a version that recounts everything, and the fluid's") {
    std::uint64_t transfers = 0;
    std::uint64_t shared = 0;
    for (std::uint32_t n = 0; n < 4000; ++n) {
      Random random(100 + n);
      const std::uint32_t prefills = 1 + random.below(4);
      const std::uint32_t decodes = 1 + random.below(4);
      const bool round = random.below(2) == 0;
      std::vector<InstanceSpec> ends;
      for (std::uint32_t m = 0; m < prefills + decodes; ++m) {
        InstanceSpec e =
            end(round ? random.below(5) : 0, random.below(2) == 0 ? 0 : random.below(round ? 20 : 5000));
        if (!round) e.linkPerToken = static_cast<Fine>(random.uniform() * static_cast<double>(1LL << 34));
        ends.push_back(e);
      }
      std::vector<Start> starts;
      Nanos t = 0;
      const std::uint32_t count = 1 + random.below(40);
      for (std::uint32_t i = 0; i < count; ++i) {
        if (random.below(3) != 0) t += random.below(round ? 60 : 400'000);
        const std::int64_t tokens = random.below(10) == 0 ? 0 : 1 + random.below(round ? 20 : 300);
        starts.push_back({t, {i, random.below(prefills), prefills + random.below(decodes), tokens}});
      }
      const Links links = random.below(5) == 0 ? Links::kFree : Links::kContended;
      const Ends leap = drive(ends, links, starts);
      REQUIRE(leap == naive(ends, links, starts));
      REQUIRE(leap.size() == count);
      transfers += count;
      if (links == Links::kFree) continue;
      const std::vector<long double> exact = fluid(ends, starts);
      for (const auto& [when, slot] : leap) {
        // Each end before it may have been off by half a nanosecond.
        CHECK(std::abs(static_cast<long double>(when) - exact[slot]) <= 0.5L * count + 0.51L);
        const Transfer& f = starts[slot].transfer;
        shared += when - starts[slot].t > transferTime(ends[f.from], ends[f.to], f.tokens) + 1 ? 1 : 0;
      }
    }
    CHECK(transfers > 70'000);
    CHECK(shared > 20'000);
  }
}
