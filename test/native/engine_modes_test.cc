// The engine modes by themselves: scenes worked out by hand, exact rates, the price of chunks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "queueing.h"
#include "simulator/engine.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr Nanos kMs = kMillisecond;

EngineCall call(std::uint32_t slot, std::uint32_t prompt, std::uint32_t output) {
  EngineCall c;
  c.slot = slot;
  c.promptTokens = prompt;
  c.outputTokens = c.expectedTokens = output;
  c.kv = std::int64_t{prompt} + output;
  return c;
}

constexpr EngineOptions kOptions{FirstToken::kFromPrefill, true, true};

struct Times {
  std::map<std::uint32_t, Nanos> firstToken, finished;
  friend bool operator==(const Times&, const Times&) = default;
};

using Leases = std::vector<std::pair<Nanos, EngineCall>>;  ///< by time

/// Leases the calls at their times and goes on until nothing happens before `end`.
Times play(Engine& engine, const Leases& leases, Nanos end = kNever) {
  Times times;
  std::size_t i = 0;
  for (;;) {
    const Nanos t = i < leases.size() ? std::min(leases[i].first, engine.next()) : engine.next();
    if (t >= end) return times;
    if (engine.next() == t) {
      engine.advance(t);
      for (const EngineCall& c : engine.prefilled()) times.firstToken[c.slot] = t;
      for (const EngineCall& c : engine.finished()) times.finished[c.slot] = t;
    }
    while (i < leases.size() && leases[i].first == t) engine.lease(leases[i++].second);
    engine.settle(t);
  }
}

/// An engine alone, until its calls have ended.
Times drive(const InstanceSpec& spec, const WholeCosts& costs, const Leases& leases) {
  const LatencyModel model = latency(costs);
  Engine engine;
  engine.reset(spec, model, kOptions);
  const Times times = play(engine, leases);
  CHECK(engine.kvUsed() == 0);
  return times;
}

InstanceSpec chunked(std::uint32_t budget, std::uint32_t sequences = 100) {
  InstanceSpec spec = instanceSpec(0, sequences, 1'000'000);
  spec.mode = EngineMode::kChunked;
  spec.chunkTokens = budget;
  return spec;
}

InstanceSpec shared(std::uint16_t share, std::uint32_t sequences = 100) {
  InstanceSpec spec = instanceSpec(0, sequences, 1'000'000);
  spec.mode = EngineMode::kDecodeShare;
  spec.decodeShare = share;
  return spec;
}

}  // namespace

TEST_SUITE("engine modes") {
  TEST_CASE("chunked: several prefills share an iteration, the last is cut, decodes ride along") {
    // 1 ms per prompt token, 40 ms per iteration of decodes, whatever the batch.
    const WholeCosts costs{0, kMs, 40 * kMs, 0, 0};
    const Times t = drive(chunked(16), costs, {{0, call(0, 10, 3)}, {0, call(1, 20, 2)}, {0, call(2, 4, 1)}});
    // 0 .. 16: ten tokens of 0 and six of 1. 16 .. 71: 0 decodes; 14 of 1 and one of 2 fill the 15 left.
    CHECK(t.firstToken.at(0) == 16 * kMs);
    CHECK(t.firstToken.at(1) == 71 * kMs);
    // 71 .. 114: 0 and 1 decode; the last three of 2, whose only token comes with them.
    CHECK(t.firstToken.at(2) == 114 * kMs);
    CHECK(t.finished.at(0) == 114 * kMs);
    CHECK(t.finished.at(1) == 114 * kMs);
    CHECK(t.finished.at(2) == 114 * kMs);
  }

  TEST_CASE("chunked: a budget as small as the batch stops prefills, never decodes") {
    const WholeCosts costs{0, kMs, 40 * kMs, 0, 0};
    const Times t = drive(chunked(2), costs, {{0, call(0, 1, 4)}, {0, call(1, 1, 3)}, {0, call(2, 2, 1)}});
    // 0 .. 2: both prompts. Then both decode and leave nothing for 2, until 1 ends at 82: one token beside 0,
    // and when 0 has ended the other.
    CHECK(t.firstToken.at(1) == 2 * kMs);
    CHECK(t.finished.at(1) == 82 * kMs);
    CHECK(t.finished.at(0) == 123 * kMs);
    CHECK(t.firstToken.at(2) == 124 * kMs);
  }

  TEST_CASE("decode-share: speeds change in mid-iteration and nothing of the work is lost") {
    const WholeCosts costs{0, kMs, 40 * kMs, 0, 0};
    // 0 .. 10 prefill of 0 alone. Its iteration has 30 ms left at 20, when the prefill of 1 (30 ms) begins
    // and takes three quarters: it ends at 60, the iteration has 20 ms left and ends at 80. Then both decode.
    const Times t = drive(shared(250), costs, {{0, call(0, 10, 3)}, {20 * kMs, call(1, 30, 2)}});
    CHECK(t.firstToken.at(0) == 10 * kMs);
    CHECK(t.firstToken.at(1) == 60 * kMs);
    CHECK(t.finished.at(0) == 120 * kMs);
    CHECK(t.finished.at(1) == 120 * kMs);
  }

  TEST_CASE("decode-share: ends are the first nanosecond at which the work is done") {
    // Speeds 1/3 and 2/3 in thousandths: 333 and 667. The iteration of 0 (10 ns from 1 on) has 9 left at 2.
    const WholeCosts costs{0, 1, 10, 0, 0};
    const Times t = drive(shared(333), costs, {{0, call(0, 1, 2)}, {2, call(1, 5, 1)}});
    // 5 / 0.667 = 7.497: the prefill ends at 2 + 8; 8 * 0.333 = 2.664 are done, 6.336 are left: 17.
    CHECK(t.firstToken.at(1) == 10);
    CHECK(t.finished.at(0) == 17);
  }

  TEST_CASE("an engine that was lost in mid-work is as new, whatever it held") {
    const LatencyModel model = latency(WholeCosts{0, kMs, 40 * kMs, 0, 0});
    const Leases before{{0, call(0, 10, 3)}, {15 * kMs, call(1, 5, 9)}, {20 * kMs, call(2, 30, 2)}};
    const Leases after{{200 * kMs, call(3, 10, 3)}, {220 * kMs, call(4, 20, 5)}};
    for (const InstanceSpec& spec : {instanceSpec(0, 100, 1'000'000), chunked(16), shared(250)}) {
      CAPTURE(static_cast<int>(spec.mode));
      Engine fresh;
      fresh.reset(spec, model, kOptions);
      const Times expected = play(fresh, after);
      REQUIRE(expected.finished.size() == 2);
      for (Nanos lost = kMs; lost < 200 * kMs; lost += kMs) {
        Engine engine;
        engine.reset(spec, model, kOptions);
        play(engine, before, lost);
        engine.lost();
        REQUIRE(engine.empty());
        REQUIRE(engine.next() == kNever);
        REQUIRE(engine.kvUsed() == 0);
        CAPTURE(lost);
        REQUIRE(play(engine, after) == expected);
        REQUIRE(engine.busy() == fresh.busy());
      }
    }
  }

  TEST_CASE("chunked: budget opens where there was none, and is news once") {
    // 16 tokens an iteration: 0 takes two whole ones and 8 of the third, which leaves 8.
    const LatencyModel model = latency(WholeCosts{0, kMs, 40 * kMs, 0, 0});
    Engine engine;
    engine.reset(chunked(16), model, kOptions);
    engine.lease(call(0, 40, 3));
    engine.settle(0);
    CHECK(engine.prefillFree() == 0);
    std::vector<bool> opened;
    while (engine.next() != kNever) {
      const Nanos t = engine.next();
      engine.advance(t);
      opened.push_back(engine.budgetOpened());
      engine.settle(t);
    }
    // The two whole iterations are one leap. Then the last chunk, and the two tokens that follow it.
    CHECK(opened == std::vector<bool>{true, false, false});
  }

  // validation.md 1, row 11.
  TEST_CASE("a fixed batch decodes at exactly its iteration time in every mode") {
    const WholeCosts costs{0, 1, 10'200'000, 200'000, 0};
    for (const std::uint32_t batch : {1u, 8u, 64u}) {
      const Nanos iteration = 10 * kMs + batch * 200'000;
      const Nanos alone = 10'200'000, n = 99;
      const double perSecond = batch == 1 ? 98.039 : batch == 8 ? 689.655 : 2807.018;
      CHECK(std::abs(batch * 1e9 / static_cast<double>(iteration) - perSecond) < 5e-4);
      std::vector<std::pair<Nanos, EngineCall>> leases;
      for (std::uint32_t i = 0; i < batch; ++i) leases.push_back({0, call(i, 1, 100)});
      const auto last = batch - 1;
      for (const InstanceSpec& spec : {instanceSpec(0, 100, 1'000'000), chunked(64), chunked(1000)}) {
        const Times t = drive(spec, costs, leases);
        for (std::uint32_t i = 0; i < batch; ++i)
          CHECK(t.finished.at(i) - t.firstToken.at(last) == n * iteration);
      }
      // The first call decodes once alone, beside the prefills of the others, which take half the speed.
      const Times t = drive(shared(500), costs, leases);
      const Nanos full = 1 + alone + last;
      CHECK(t.finished.at(0) == full + (n - 1) * iteration);
      if (batch > 1) CHECK(t.finished.at(last) == t.finished.at(0) + iteration - 200'000);
    }
  }

  TEST_CASE("a prefill costs the same in one piece and in many") {
    Random random(51);
    for (int round = 0; round < 2000; ++round) {
      LatencyModel model;
      const LatencyConstants constants{random.below(2) * 3 * random.uniform(), random.uniform(), 1, 0.1,
                                       1e-4};
      if (random.below(2) == 0) {
        REQUIRE(ok(LatencyModel::constants(constants, &model)));
      } else {
        std::vector<PrefillKnot> knots;
        for (std::uint32_t k = 0, tokens = 0; k < 4; ++k)
          knots.push_back({tokens += between(random, 1, 500), kMs * (k + 1) + random.below(900'000)});
        REQUIRE(ok(LatencyModel::table(knots, constants, &model)));
      }
      const std::uint32_t prompt = between(random, 1, 3000);
      const std::uint32_t batch = random.below(5);
      const std::int64_t context = batch * 1000;
      const Fine decode = batch > 0 ? model.piece(batch, context).base : 0;
      FineSum sum = 0;
      for (PrefillChunk chunk; chunk.doneTokens < prompt; chunk.doneTokens += chunk.newTokens) {
        chunk.newTokens = between(random, 1, prompt - chunk.doneTokens);
        const MixedPiece mixed = model.mixed(batch, context, std::span(&chunk, 1));
        REQUIRE(mixed.iterations >= 1);
        sum += mixed.decode.base - decode;
        // Where the piece holds for more, the next chunk of this size has the same price.
        PrefillChunk next = chunk;
        next.doneTokens += chunk.newTokens;
        if (mixed.iterations > 1)
          CHECK(model.mixed(batch, context, std::span(&next, 1)).decode.base == mixed.decode.base);
      }
      CHECK(roundFine(sum) == model.prefill(prompt, 0));
    }
  }

  TEST_CASE("an iteration of nothing but free chunks takes a nanosecond") {
    LatencyModel model;
    REQUIRE(ok(LatencyModel::constants({0, 0, 1, 0, 0}, &model)));
    const PrefillChunk chunk{0, 0, 5};
    CHECK(roundFine(model.mixed(0, 0, std::span(&chunk, 1)).decode.base) == 1);
    CHECK(model.mixed(3, 30, std::span(&chunk, 1)).decode.base == model.piece(3, 30).base);
  }
}
