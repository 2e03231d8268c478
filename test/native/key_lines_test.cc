// Lines of waiting calls against the keys they stand for, computed one by one as `ratio` and `stretch` do.
#include "scheduler/key_lines.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/fixed.h"
#include "base/random.h"
#include "model/latency.h"

using namespace laxity;

namespace {

struct Waiting {
  std::uint32_t slot;
  Nanos start;
  Nanos prefill;
  double hint;
  double scale;
  std::uint32_t output;
  std::int64_t context;
  bool last;
  std::int64_t kv;

  KeyLines::Line line() const {
    return {start,
            hint + static_cast<double>(prefill),
            scale,
            static_cast<double>(output),
            static_cast<double>(context),
            last,
            prefill,
            kv};
  }
  /// The exact key; larger goes first.
  double key(Nanos now, Nanos ready, const DecodePiece& piece, std::int64_t leased) const {
    if (last) return -std::numeric_limits<double>::infinity();
    const Nanos delta =
        std::max<Nanos>(0, ready - now) + prefill + roundFine(piece.at(leased + context) * output);
    return (static_cast<double>(now - start + delta) + hint) / scale;
  }
};

}  // namespace

TEST_SUITE("key lines") {
  TEST_CASE(
      "the most urgent call is always visited, what is ahead of a key summed, and few calls are asked "
      "about") {
    std::uint64_t queries = 0;
    std::uint64_t missed = 0;
    std::uint64_t visited = 0;
    std::uint64_t present = 0;
    std::uint64_t wrong = 0;
    std::uint64_t asked = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Random random(7, seed);
      const bool ties = seed % 4 == 0;
      const bool tiny = seed % 5 == 0;  // horizons of some ns: keys of 1e9, and rounding that hides much
      const Nanos epoch = seed % 3 == 0 ? Nanos{1} << 57 : 0;  // an uptime of years
      Nanos now = epoch + 1'000'000'000;
      Nanos ready = 0;
      LatencyModel model;
      REQUIRE(LatencyModel::constants({0, 0.0259, 39.1, 0.07, 0.00005}, &model) == Status::kOk);
      KeyLines lines;
      std::vector<std::uint32_t> positions;
      std::vector<Waiting> calls;
      std::uint32_t nextSlot = 0;
      const auto draw = [&](std::uint32_t slot) {
        const Nanos prefill = ties ? 52'000'000 : 1 + random.below(200'000'000);
        const double scale =
            tiny && random.below(3) == 0 ? 1 + random.below(5) : 1e8 + random.uniform() * 3e10;
        return Waiting{slot,
                       now - (ties ? 1000 * random.below(3) : random.below(1'000'000'000)),
                       prefill,
                       random.below(4) == 0 ? random.uniform() * 1e9 : 0,
                       ties ? 4e9 : scale,
                       ties ? 100 : 1 + random.below(2000),
                       ties ? 2000 : 1 + random.below(30'000),
                       random.below(20) == 0,
                       1 + random.below(50'000)};
      };
      for (int step = 0; step < 300; ++step) {
        now += random.below(50'000'000);
        if (random.below(3) == 0) ready = now + random.below(100'000'000);
        const std::uint32_t action = random.below(10);
        if (action < 5 || calls.empty()) {
          calls.push_back(draw(nextSlot));
          lines.add(nextSlot++, calls.back().line(), &positions);
        } else if (action < 8) {
          const std::uint32_t at = random.below(static_cast<std::uint32_t>(calls.size()));
          lines.remove(calls[at].slot, &positions);
          calls[at] = calls.back();
          calls.pop_back();
        } else {
          Waiting& call = calls[random.below(static_cast<std::uint32_t>(calls.size()))];
          call = draw(call.slot);
          lines.change(call.slot, call.line(), positions);
        }
        REQUIRE(lines.size() == calls.size());
        if (calls.empty()) continue;

        const std::int64_t leased = random.below(200'000);
        const DecodePiece piece = model.piece(1 + random.below(64), leased + 1);
        constexpr double kFine = 1.0 / (1 << kFineBits);
        const double perContext = static_cast<double>(piece.perContext) * kFine;
        const KeyLines::Common common{
            std::max(now, ready),
            static_cast<double>(piece.base) * kFine + perContext * static_cast<double>(leased), perContext};
        std::vector<bool> seen(nextSlot, false);
        lines.eachMostUrgent(common, [&](std::uint32_t slot) {
          seen[slot] = true;
          if (!ties && !tiny) ++visited;
        });
        double best = -std::numeric_limits<double>::infinity();
        for (const Waiting& call : calls) best = std::max(best, call.key(now, ready, piece, leased));
        for (const Waiting& call : calls) {
          if (call.key(now, ready, piece, leased) == best && !seen[call.slot]) ++missed;
        }
        // Against the key of one of the calls, or between all of them.
        const Waiting& other = calls[random.below(static_cast<std::uint32_t>(calls.size()))];
        const double key = other.last ? std::max(best, 0.0) / 2 : other.key(now, ready, piece, leased);
        const auto isAhead = [&](const Waiting& call) { return call.key(now, ready, piece, leased) > key; };
        const KeyLines::Ahead ahead = lines.ahead(common, key, [&](std::uint32_t slot) {
          if (!ties && !tiny) ++asked;
          return isAhead(
              *std::find_if(calls.begin(), calls.end(), [&](const Waiting& c) { return c.slot == slot; }));
        });
        KeyLines::Ahead naive;
        for (const Waiting& call : calls) {
          if (!isAhead(call)) continue;
          naive.prefill += call.prefill;
          naive.kv += call.kv;
          ++naive.calls;
        }
        if (ahead.prefill != naive.prefill || ahead.kv != naive.kv || ahead.calls != naive.calls) ++wrong;
        ++queries;
        if (!ties && !tiny) present += calls.size();
      }
    }
    CHECK(queries > 50'000);
    CHECK(missed == 0);
    CHECK(visited * 10 < present);
    CHECK(wrong == 0);
    CHECK(asked * 10 < present);
  }
}
