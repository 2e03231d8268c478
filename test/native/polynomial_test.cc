// Polynomial latencies against their formulas in floating point, and prefills of several prompts as one
// batch.
#include "model/polynomial.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "model/latency.h"

using namespace laxity;

namespace {

LatencyModel make(const LatencyPolynomial& terms) {
  LatencyModel m;
  REQUIRE(ok(LatencyModel::polynomial(terms, &m)));
  return m;
}

const LatencyPolynomial kTerms{{{1, 18.1, 0.102, 7.1e-6}},
                               {{1, 19.9, 0.0385, 0.000627}, {95, 7.2, 0.158, 0.00058}}};

}  // namespace

TEST_SUITE("polynomial") {
  TEST_CASE("prefill, batch and iteration are the documented formulas") {
    Random random(11);
    for (int round = 0; round < 2'000; ++round) {
      const auto prefill = [&](std::uint32_t from) {
        return PrefillRegime{from, 1 + random.uniform() * 30, random.uniform(), random.uniform() * 1e-4};
      };
      const auto decode = [&](std::uint32_t from) {
        return DecodeRegime{from, 1e-6 + random.uniform() * 20, random.uniform(), random.uniform() * 1e-2};
      };
      const LatencyPolynomial terms{{prefill(1), prefill(2 + random.below(4'000))},
                                    {decode(1), decode(2 + random.below(90))}};
      const LatencyModel m = make(terms);
      std::vector<PrefillChunk> prompts;
      const auto regime = [&](std::uint32_t tokens) {
        return terms.prefill[tokens >= terms.prefill[1].fromTokens ? 1 : 0];
      };
      std::uint32_t tokens = 0;
      double squares = 0;
      double parts = 0;
      const std::uint32_t n = 1 + random.below(5);
      for (std::uint32_t i = 0; i < n; ++i) {
        const PrefillChunk p{random.below(2) * random.below(500), 0, 1 + random.below(2'000)};
        prompts.push_back(p);
        const double whole = p.cachedTokens + p.newTokens;
        const double square = whole * whole - static_cast<double>(p.cachedTokens) * p.cachedTokens;
        const PrefillRegime r = regime(p.newTokens);
        const double alone = r.baseMs + r.perTokenMs * p.newTokens + r.perTokenSquaredMs * square;
        CHECK(std::abs(toMs(m.prefill(p.newTokens, p.cachedTokens)) - alone) < 1e-5);
        parts += alone;
        squares += square;
        tokens += p.newTokens;
      }
      const PrefillRegime together = regime(tokens);
      const double sum =
          together.baseMs + together.perTokenMs * tokens + together.perTokenSquaredMs * squares;
      CHECK(std::abs(toMs(m.prefillBatch(prompts)) - sum) < 1e-5);
      CHECK(std::abs(toMs(roundFine(m.mixed(0, 0, prompts).decode.at(0))) - parts) < 1e-5);

      const std::uint32_t batch = 1 + random.below(120);
      const std::int64_t context = random.below(100'000);
      const DecodeRegime& r = terms.decode[batch >= terms.decode[1].fromSequences ? 1 : 0];
      const double iteration =
          r.baseMs + r.perSequenceMs * batch + r.perContextMs * static_cast<double>(context);
      CHECK(std::abs(toMs(roundFine(m.piece(batch, context).at(context))) - iteration) < 1e-5);
    }
  }

  TEST_CASE("a prompt costs the same in one piece and in many, with a cached prefix or without") {
    Random random(12);
    LatencyPolynomial terms = kTerms;
    terms.prefill.push_back({1'000, 1, 0.2, 0});
    const LatencyModel m = make(terms);
    for (int round = 0; round < 500; ++round) {
      const std::uint32_t cached = random.below(2) * random.below(1'000);
      const std::uint32_t prompt = 1 + random.below(3'000);
      FineSum sum = 0;
      for (std::uint32_t done = 0; done < prompt;) {
        const PrefillChunk c{cached, done, std::min(prompt - done, 1 + random.below(700))};
        sum += m.mixed(0, 0, {&c, 1}).decode.at(0);
        done += c.newTokens;
      }
      CHECK(roundFine(sum) == m.prefill(prompt, cached));
    }
  }

  TEST_CASE("decode alone is the exact sum of its iterations, and 95 sequences take the second regime") {
    const LatencyModel m = make(kTerms);
    FineSum sum = 0;
    for (std::int64_t context = 700; context < 700 + 333; ++context) sum += m.piece(1, context).at(context);
    CHECK(m.decodeAlone(700, 333) == roundFine(sum));
    CHECK(std::abs(toMs(roundFine(m.piece(94, 0).base)) - (19.9 + 94 * 0.0385)) < 1e-6);
    CHECK(std::abs(toMs(roundFine(m.piece(95, 0).base)) - (7.2 + 95 * 0.158)) < 1e-6);
  }

  TEST_CASE("a mistaken scheduler's copy multiplies every time") {
    const LatencyModel m = make(kTerms);
    const LatencyModel wrong = m.skewed(1.25, 1);
    CHECK(std::abs(toMs(wrong.prefill(1'000, 0)) - 1.25 * toMs(m.prefill(1'000, 0))) < 1e-5);
    const std::vector<PrefillChunk> two{{0, 0, 300}, {0, 0, 900}};
    CHECK(std::abs(toMs(wrong.prefillBatch(two)) - 1.25 * toMs(m.prefillBatch(two))) < 1e-5);
    CHECK(std::abs(toMs(roundFine(wrong.piece(10, 5'000).at(5'000))) -
                   1.25 * toMs(roundFine(m.piece(10, 5'000).at(5'000)))) < 1e-5);
    CHECK(m == make(kTerms));
    CHECK(!(m == wrong));
  }

  TEST_CASE("what cannot be is refused") {
    LatencyModel m;
    const auto refused = [&](auto change) {
      LatencyPolynomial terms = kTerms;
      change(terms);
      return LatencyModel::polynomial(terms, &m) == Status::kBadValue;
    };
    CHECK(refused([](auto& t) { t.decode.clear(); }));
    CHECK(refused([](auto& t) { t.decode[0].fromSequences = 2; }));
    CHECK(refused([](auto& t) { t.decode[1].fromSequences = 1; }));
    CHECK(refused([](auto& t) { t.decode[1].baseMs = -1; }));
    CHECK(refused([](auto& t) { t.decode[0].baseMs = t.decode[0].perSequenceMs = 0; }));
    CHECK(refused([](auto& t) { t.prefill.clear(); }));
    CHECK(refused([](auto& t) { t.prefill[0].perTokenSquaredMs = std::nan(""); }));
    CHECK(refused([](auto& t) { t.prefill[0].baseMs = 1e9; }));
    CHECK(refused([](auto& t) { t.prefill[0].perTokenMs = -0.001; }));  // falls for ever
    CHECK(refused([](auto& t) { t.prefill = {{1, 5, -0.001, 0}, {5'001, 1, 0.001, 0}}; }));
    CHECK(!refused([](auto& t) { t.prefill = {{1, 5, -0.001, 0}, {4'001, 1, 0.001, 0}}; }));
    CHECK(!refused([](auto& t) { t.prefill[0].baseMs = 0; }));
  }

  TEST_CASE("prompts as one batch: constants pay the base once, tables the time of all tokens together") {
    LatencyModel constants;
    REQUIRE(ok(LatencyModel::constants({5, 0.5, 10, 0, 0}, &constants)));
    LatencyModel table;
    REQUIRE(ok(LatencyModel::table({{100, 10 * kMillisecond}, {1'000, 30 * kMillisecond}}, {0, 0, 1, 0, 0},
                                   &table)));
    const std::vector<PrefillChunk> prompts{{0, 0, 100}, {50, 0, 200}, {0, 0, 250}};
    CHECK(constants.prefillBatch(prompts) == fromMs(5 + 0.5 * 550));
    CHECK(table.prefillBatch(prompts) == 20 * kMillisecond);
    CHECK(constants.prefillBatch({&prompts[1], 1}) == constants.prefill(200, 50));
  }
}
