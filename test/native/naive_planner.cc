#include "naive_planner.h"

#include <algorithm>
#include <tuple>

namespace naive {
namespace {

std::int64_t perToken(const State& s, const Decode& d) {
  const DecodeClass& k = s.decodeClasses[static_cast<std::size_t>(d.hardwareClass)];
  const __int128 fine = static_cast<__int128>(k.base) + static_cast<__int128>(k.perSequence) * (d.batch + 1) +
                        static_cast<__int128>(k.perContext) * d.context;
  const std::int64_t whole = static_cast<std::int64_t>(fine / 1048576);
  return std::max<std::int64_t>(1, whole + (fine % 1048576 >= 524288 ? 1 : 0));
}

struct Pair {
  double cost = 0;
  std::int64_t finish = -1, ready = 0, end = 0;
  int p = -1, d = -1;
};

/// The least (cost, finish, ready, decode tie, prefill tie) over all pairs.
Pair bestPair(const State& s, const Call& c) {
  Pair best;
  for (std::size_t d = 0; d < s.decode.size(); ++d) {
    const Decode& e = s.decode[d];
    if (!e.present || (c.lock >= 0 && c.lock != static_cast<int>(d))) continue;
    const std::int64_t room = fits(e, s.t, c.kv);
    if (room < 0) continue;
    for (std::size_t p = 0; p < s.prefill.size(); ++p) {
      const Prefill& q = s.prefill[p];
      const std::int64_t transfer =
          c.transfer[static_cast<std::size_t>(q.hardwareClass)][static_cast<std::size_t>(e.hardwareClass)];
      std::int64_t prefill = c.prefill[static_cast<std::size_t>(q.hardwareClass)];
      if (!q.present || transfer < 0 || prefill < 0) continue;
      for (const auto& [holder, time] : c.holders) {
        if (holder == static_cast<int>(p)) prefill = std::min(prefill, time);
      }
      Pair x;
      x.end = std::max(q.ready, s.t) + prefill;
      x.ready = x.end + transfer;
      const std::int64_t service = c.output * perToken(s, e);
      x.finish = std::max(x.ready, room) + service;
      x.cost =
          static_cast<double>(x.finish - s.t) +
          static_cast<double>(service) *
              (s.decodeClasses[static_cast<std::size_t>(e.hardwareClass)].price * static_cast<double>(c.kv));
      x.p = static_cast<int>(p);
      x.d = static_cast<int>(d);
      const auto order = [&](const Pair& y) {
        return std::make_tuple(y.cost, y.finish, y.ready, s.decode[static_cast<std::size_t>(y.d)].tie, y.d,
                               s.prefill[static_cast<std::size_t>(y.p)].tie, y.p);
      };
      if (best.d < 0 || order(x) < order(best)) best = x;
    }
  }
  return best;
}

double ratio(const State&, const Call& c, std::int64_t finish) {
  return static_cast<double>(finish - (c.arrival - c.hint)) * (1.0 / static_cast<double>(c.horizon + c.hint));
}

bool tieFirst(const Call& a, const Call& b) {
  return std::tie(a.arrival, a.rank) < std::tie(b.arrival, b.rank);
}

void commit(State& s, int d, std::int64_t kv, std::int64_t sequences, std::int64_t finish) {
  Decode& e = s.decode[static_cast<std::size_t>(d)];
  e.used += kv;
  e.context += kv;
  e.batch += sequences;
  e.releases.emplace_back(finish, kv);
}

}  // namespace

std::int64_t fits(const Decode& d, std::int64_t t, std::int64_t kv) {
  if (kv > d.capacity) return -1;
  std::int64_t free = d.capacity - d.used;
  if (kv <= free) return t;
  auto releases = d.releases;
  for (auto& [time, tokens] : releases) {
    if (time <= t) time = t + d.perIteration;
  }
  std::sort(releases.begin(), releases.end());
  for (const auto& [time, tokens] : releases) {
    free += tokens;
    if (kv <= free) return time;
  }
  return -1;
}

std::vector<Entry> plan(State s, Mode mode, int perInstance) {
  std::vector<Entry> plan;
  std::vector<int> left;
  for (std::size_t c = 0; c < s.calls.size(); ++c) left.push_back(static_cast<int>(c));
  const auto call = [&](int c) -> const Call& { return s.calls[static_cast<std::size_t>(c)]; };
  if (mode == Mode::kOnePass) {
    std::vector<double> score(s.calls.size(), -1e300);
    for (const int c : left) {
      const Pair b = bestPair(s, call(c));
      if (b.d >= 0) score[static_cast<std::size_t>(c)] = ratio(s, call(c), b.finish);
    }
    std::stable_sort(left.begin(), left.end(), [&](int a, int b) {
      const double x = score[static_cast<std::size_t>(a)], y = score[static_cast<std::size_t>(b)];
      return x != y ? x > y : tieFirst(call(a), call(b));
    });
  } else if (mode == Mode::kByKey) {
    std::stable_sort(left.begin(), left.end(), [&](int a, int b) {
      return call(a).key != call(b).key ? call(a).key > call(b).key : tieFirst(call(a), call(b));
    });
  }
  const auto enough = [&] {
    if (perInstance < 0) return false;
    int present = 0, below = 0;
    for (std::size_t p = 0; p < s.prefill.size(); ++p) {
      if (!s.prefill[p].present) continue;
      ++present;
      const auto given = std::count_if(plan.begin(), plan.end(),
                                       [&](const Entry& e) { return e.prefill == static_cast<int>(p); });
      if (s.prefill[p].open && given == 0) return false;
      if (given < perInstance) ++below;
    }
    return perInstance == 0 || below == 0 || static_cast<int>(plan.size()) >= 2 * perInstance * present;
  };
  while (!left.empty() && !enough()) {
    std::size_t pick = left.size();
    Pair pair;
    double best = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const Pair b = bestPair(s, call(left[i]));
      if (b.d < 0) continue;
      const double r = ratio(s, call(left[i]), b.finish);
      if (pick == left.size() ||
          (mode == Mode::kGreedy && (r > best || (r == best && tieFirst(call(left[i]), call(left[pick])))))) {
        pick = i;
        pair = b;
        best = r;
      }
      if (mode != Mode::kGreedy) break;
    }
    if (pick == left.size()) break;
    const int c = left[pick];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
    plan.push_back({c, pair.p, pair.d, pair.end, pair.ready, pair.finish, ratio(s, call(c), pair.finish)});
    s.prefill[static_cast<std::size_t>(pair.p)].ready = pair.end;
    commit(s, pair.d, call(c).kv, call(c).sequences, pair.finish);
  }
  return plan;
}

std::vector<Entry> planDecode(State s, const std::vector<DecodeCall>& calls) {
  std::vector<Entry> plan;
  std::vector<bool> done(calls.size(), false);
  for (;;) {
    Entry best{-1, -1, -1, 0, 0, 0, 0};
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (done[i]) continue;
      const DecodeCall& c = calls[i];
      Entry mine{-1, -1, -1, 0, 0, 0, 0};
      for (std::size_t d = 0; d < s.decode.size(); ++d) {
        const Decode& e = s.decode[d];
        const std::int64_t room = fits(e, s.t, c.kv);
        const std::int64_t transfer = c.transfer[static_cast<std::size_t>(e.hardwareClass)];
        if (!e.present || room < 0 || transfer < 0 || (c.lock >= 0 && c.lock != static_cast<int>(d)))
          continue;
        const std::int64_t ready = s.t + transfer;
        const std::int64_t finish = std::max(ready, room) + c.output * perToken(s, e);
        if (mine.call < 0 ||
            std::make_tuple(finish, e.tie, static_cast<int>(d)) <
                std::make_tuple(mine.finish, s.decode[static_cast<std::size_t>(mine.decode)].tie,
                                mine.decode)) {
          mine = {static_cast<int>(i), -1, static_cast<int>(d), s.t, ready, finish, 0};
        }
      }
      if (mine.call < 0) continue;
      mine.ratio = static_cast<double>(mine.finish - (c.arrival - c.hint)) *
                   (1.0 / static_cast<double>(c.horizon + c.hint));
      if (best.call < 0 || mine.ratio > best.ratio ||
          (mine.ratio == best.ratio &&
           std::tie(c.arrival, c.rank) < std::tie(calls[static_cast<std::size_t>(best.call)].arrival,
                                                  calls[static_cast<std::size_t>(best.call)].rank))) {
        best = mine;
      }
    }
    if (best.call < 0) return plan;
    const DecodeCall& c = calls[static_cast<std::size_t>(best.call)];
    done[static_cast<std::size_t>(best.call)] = true;
    plan.push_back(best);
    commit(s, best.decode, c.kv, c.sequences, best.finish);
  }
}

}  // namespace naive
