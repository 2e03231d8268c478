#include "bounds/bound.h"

#include <algorithm>
#include <cmath>

#include "bounds/certificate.h"
#include "bounds/packing_lp.h"
#include "bounds/separation.h"

namespace laxity {
namespace bounds {
namespace {

constexpr double kGrid = 1.004;
constexpr std::size_t kRounds = 40;
constexpr std::size_t kCutsPerMachine = 6;
constexpr std::size_t kRememberedCuts = 200;
constexpr std::int64_t kLargestStep = 4096;  ///< 1.004^4096 is 1e7

/// An interval by the items whose windows make its ends, so that it moves with alpha.
struct Cut {
  std::uint32_t machine;
  std::uint32_t from;
  std::uint32_t to;
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// The same rank as base/statistics.h's upperQuantile: the least k with k / n >= tau.
std::size_t rankOf(double tau, std::size_t n) {
  const auto count = static_cast<double>(n);
  auto rank = static_cast<std::size_t>(std::clamp(std::ceil(tau * count), 1.0, count));
  while (rank > 1 && static_cast<double>(rank - 1) / count >= tau) --rank;
  while (rank < n && static_cast<double>(rank) / count < tau) ++rank;
  return rank;
}

class Search {
 public:
  Search(const BoundInstance& instance, const WorkFaults& faults, BoundResult* out)
      : terms_(instance, faults), out_(*out) {}

  /// The least number of workflows on time that is proved out of reach at `alpha`; stops as soon as that is
  /// at most `enough`.
  std::size_t unreachable(double alpha, std::size_t enough) {
    ++out_.evaluations;
    terms_.at(alpha);
    open_ = terms_.mayBeOnTime();
    lp_.reset(open_);
    rows_.clear();
    cuts_.clear();
    prefill_.clear();
    std::size_t best = static_cast<std::size_t>(std::count(open_.begin(), open_.end(), 1)) + 1;
    multipliers_.clear();
    if (best <= enough) return best;
    for (const Cut& cut : remembered_) add(cut);
    std::size_t stalled = 0;
    double lastValue = HUGE_VAL;
    for (std::size_t round = 0; round < kRounds; ++round) {
      lp_.solve();
      ++out_.rounds;
      const std::size_t now = leastUnreachable(rows_, lp_.multipliers(), open_);
      if (now < best) {
        best = now;
        multipliers_.assign(lp_.multipliers().begin(), lp_.multipliers().end());
      }
      if (best <= enough) break;
      // Rounds that gain nothing: what is left cannot be worth them.
      stalled = lp_.value() < lastValue - 1e-3 ? 0 : stalled + 1;
      lastValue = lp_.value();
      if (stalled >= 4 || !separate()) break;
    }
    remember();
    return best;
  }

  /// Shares of capacity by the multipliers of the best proof of the last call.
  void shares(double* out) const {
    double total = 0;
    double part[kWorks] = {0, 0, 0, 0};
    for (std::size_t i = 0; i < multipliers_.size(); ++i) {
      const double capacity = multipliers_[i] * static_cast<double>(rows_[i].capacity);
      if (!(capacity > 0)) continue;
      const Work work = terms_.machines()[cuts_[i].machine].work;
      part[static_cast<std::size_t>(Work::kPrefill)] += capacity * prefill_[i];
      part[static_cast<std::size_t>(work)] += capacity * (1 - prefill_[i]);
      total += capacity;
    }
    for (std::size_t i = 0; i < kWorks; ++i) out[i] = total > 0 ? part[i] / total : 0;
  }

 private:
  bool add(const Cut& cut) {
    const Machine& m = terms_.machines()[cut.machine];
    const ItemGroup& g = terms_.group(m);
    if (g.present[cut.from] == 0 || g.present[cut.to] == 0) return false;
    const Nanos t1 = g.release[cut.from];
    const Nanos t2 = g.deadline[cut.to];
    if (t2 <= t1 || std::find(cuts_.begin(), cuts_.end(), cut) != cuts_.end()) return false;
    PackingRow row;
    row.work.assign(open_.size(), 0);
    row.capacity = __int128_t{m.speed} * (t2 - t1);
    const auto& items = terms_.items(cut.machine);
    double total = 0;
    double prefill = 0;
    for (const std::uint32_t i : g.byRelease) {
      if (g.release[i] < t1) break;
      if (g.deadline[i] > t2 || items[i] == 0) continue;
      std::int64_t& sum = row.work[g.workflow[i]];
      if (__builtin_add_overflow(sum, items[i], &sum)) sum = INT64_MAX;  // less than it is
      total += static_cast<double>(items[i]);
      if (g.partOf(i) == Part::kPrefill) prefill += static_cast<double>(items[i]);
    }
    if (total == 0) return false;
    dense_.assign(row.work.begin(), row.work.end());
    lp_.addRow(dense_, static_cast<double>(row.capacity));
    rows_.push_back(std::move(row));
    cuts_.push_back(cut);
    prefill_.push_back(m.decodes() ? prefill / total : 1);
    return true;
  }

  bool separate() {
    bool any = false;
    for (std::uint32_t m = 0; m < terms_.machines().size(); ++m) {
      separation_.find(terms_, m, lp_.z(), kCutsPerMachine, &overloads_);
      for (const Overload& o : overloads_) any |= add({m, o.from, o.to});
    }
    return any;
  }

  void remember() {
    std::vector<Cut> kept;
    const auto y = lp_.multipliers();
    for (std::size_t i = 0; i < y.size() && kept.size() < kRememberedCuts; ++i) {
      if (y[i] > 0) kept.push_back(cuts_[i]);
    }
    if (!kept.empty()) remembered_ = std::move(kept);
  }

  WorkTerms terms_;
  BoundResult& out_;
  PackingLp lp_;
  Separation separation_;
  std::vector<std::uint8_t> open_;
  std::vector<PackingRow> rows_;
  std::vector<Cut> cuts_;
  std::vector<double> prefill_;  ///< by row: the part of its work that is prefill
  std::vector<Cut> remembered_;
  std::vector<double> multipliers_;
  std::vector<double> dense_;
  std::vector<Overload> overloads_;
};

/// One tau's way through the grid.
struct Target {
  std::size_t needed = 1;
  std::int64_t proved = -1;          ///< largest step known to be out of reach; -1: none
  std::int64_t open = kLargestStep;  ///< smallest step not proved
  double share[kWorks] = {0, 0, 0, 0};
};

/// By the critical paths alone: latency / H is at least this.
std::vector<double> isolatedRatios(const BoundInstance& instance) {
  std::vector<double> ratios;
  for (const BoundWorkflow& w : instance.workflows) {
    ratios.push_back(w.feasible && w.base > 0
                         ? static_cast<double>(w.critical) / static_cast<double>(w.base) * (1 - 1e-15)
                         : HUGE_VAL);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

}  // namespace
}  // namespace bounds

Status reqLowerBounds(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                      std::span<const double> taus, BoundResult* out, const bounds::WorkFaults& faults) {
  using namespace bounds;
  *out = BoundResult{};
  for (const double tau : taus) {
    if (!(tau > 0 && tau <= 1)) return Status::kBadValue;
  }
  BoundInstance instance;
  if (const Status status = boundInstance(trace, cluster, options, &instance); !ok(status)) return status;
  if (instance.workflows.empty()) {
    for (const double tau : taus) out->bounds.push_back({tau, 0, true, {}});
    return Status::kOk;
  }
  const std::vector<double> isolated = isolatedRatios(instance);
  const double first = isolated.front();
  std::vector<Target> targets;
  for (const double tau : taus) {
    Target t;
    t.needed = rankOf(tau, isolated.size());
    if (isolated[t.needed - 1] == HUGE_VAL) t.open = -1;  // nothing to search
    targets.push_back(t);
  }
  Search search(instance, faults, out);
  const auto alphaOf = [&](std::int64_t step) { return first * std::pow(kGrid, static_cast<double>(step)); };

  // Each ratio looked at serves all targets. A larger target is at least as hard to reach, so going by
  // falling ease leaves the later ones less to do.
  std::vector<std::size_t> order(targets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return targets[a].needed < targets[b].needed; });
  const auto look = [&](std::int64_t step) {
    std::size_t enough = SIZE_MAX;
    for (const Target& t : targets) {
      if (t.proved < step && step < t.open) enough = std::min(enough, t.needed);
    }
    const std::size_t reached = search.unreachable(alphaOf(step), enough);
    for (Target& t : targets) {
      if (t.open < 0) continue;
      if (reached <= t.needed) {
        if (t.proved < step && step < t.open) {
          t.proved = step;
          search.shares(t.share);
        }
      } else if (t.proved < step) {
        t.open = std::min(t.open, step);
      }
    }
  };
  for (const std::size_t i : order) {
    Target& t = targets[i];
    if (t.open < 0) continue;
    // Gallop from what is proved, then halve.
    for (std::int64_t stride = 32; t.open == kLargestStep && t.proved < kLargestStep - 1; stride *= 2)
      look(std::min(kLargestStep - 1, std::max<std::int64_t>(t.proved, 0) + stride));
    while (t.proved + 1 < t.open && t.open < kLargestStep) look(t.proved + (t.open - t.proved) / 2);
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Target& t = targets[i];
    LowerBound b{taus[i], isolated[t.needed - 1], true, {}};
    if (t.proved >= 0 && alphaOf(t.proved) > b.ratio) {
      b.ratio = alphaOf(t.proved);
      b.isolated = false;
      std::copy(std::begin(t.share), std::end(t.share), std::begin(b.share));
    }
    out->bounds.push_back(b);
  }
  return Status::kOk;
}

}  // namespace laxity
