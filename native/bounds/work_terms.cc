#include "bounds/work_terms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace laxity::bounds {
namespace {

constexpr double kMargin = 1e-9;
constexpr double kRounding = 0.5;  ///< ns per iteration
constexpr std::int64_t kMostWork = std::int64_t{1} << 62;
constexpr int kSections = 16;
constexpr double kLowestLogMu = -14;
constexpr double kHighestLogMu = 6;

std::int64_t roundedDown(double work) {
  const double less = work - std::fabs(work) * kMargin - 1;
  if (!(less > 0)) return 0;
  return less >= static_cast<double>(kMostWork) ? kMostWork : static_cast<std::int64_t>(less);
}

/// Tokens of context that its iterations see, summed.
double summedContext(const BoundCall& c) {
  const auto n = static_cast<double>(c.iterations);
  return n * static_cast<double>(c.firstContext) + n * (n - 1) / 2;
}

}  // namespace

WorkTerms::WorkTerms(const PairInstance& instance, const WorkFaults& faults)
    : instance_(instance), faults_(faults) {
  const std::size_t nd = instance.decode.size();
  kvWork_.assign(1, std::vector<double>(instance.calls.size() * nd, 0));
  sequenceWork_.assign(instance.calls.size() * nd, 0);
  for (std::size_t i = 0; i < instance.calls.size(); ++i) {
    const BoundCall& c = instance.calls[i];
    const auto n = static_cast<double>(c.iterations);
    const double context = summedContext(c);
    for (std::size_t k = 0; k < nd; ++k) {
      const BoundClass& d = instance.decode[k];
      const double held = instance.reservesAll ? n * static_cast<double>(c.kv) : context;
      const double own = n * (d.floor.perSequence - kRounding) + d.floor.perContext * context;
      kvWork_[0][i * nd + k] = own + d.floor.base * held / static_cast<double>(d.kvTokens);
      sequenceWork_[i * nd + k] = own + n * d.floor.base / d.maxSequences;
    }
  }

  packings();

  std::vector<std::uint16_t> models;
  for (const BoundClass& k : instance.prefill) models.push_back(k.model);
  for (const BoundClass& k : instance.decode) models.push_back(k.model);
  std::sort(models.begin(), models.end());
  models.erase(std::unique(models.begin(), models.end()), models.end());
  for (const std::uint16_t model : models) {
    std::vector<std::uint32_t> p;
    std::vector<std::uint32_t> d;
    for (std::uint32_t k = 0; k < instance.prefill.size(); ++k) {
      if (instance.prefill[k].model == model) p.push_back(k);
    }
    for (std::uint32_t k = 0; k < nd; ++k) {
      if (instance.decode[k].model == model) d.push_back(k);
    }
    addMachines(Work::kPrefill, 0, p);
    for (std::uint32_t f = 0; f < kvWork_.size(); ++f) addMachines(Work::kKv, f, d);
    for (const Work work : {Work::kSequences, Work::kLatency}) addMachines(work, 0, d);
  }
  items_.resize(machines_.size());
}

/// Work by dual feasible functions, where some share is large enough for them to say more than the identity.
void WorkTerms::packings() {
  if (!instance_.reservesAll) return;
  const std::size_t nd = instance_.decode.size();
  const auto variant = [&](auto&& shareOf) {
    std::vector<double> work = kvWork_[0];
    bool more = false;
    for (std::size_t i = 0; i < instance_.calls.size(); ++i) {
      const BoundCall& c = instance_.calls[i];
      const auto n = static_cast<double>(c.iterations);
      for (std::size_t k = 0; k < nd; ++k) {
        const BoundClass& d = instance_.decode[k];
        if (instance_.decodeTime[i * nd + k] == kNever) continue;
        const double identity = static_cast<double>(c.kv) / static_cast<double>(d.kvTokens);
        const double share = shareOf(c.kv, d.kvTokens);
        more |= n > 0 && share > identity * 1.01;
        work[i * nd + k] += n * d.floor.base * (share - identity);
      }
    }
    if (more) kvWork_.push_back(std::move(work));
  };
  for (std::int64_t m = 1; m <= 4; ++m) {
    variant([m](std::int64_t kv, std::int64_t cap) {
      const std::int64_t parts = (m + 1) * kv / cap;
      if (parts * cap == (m + 1) * kv) return static_cast<double>(kv) / static_cast<double>(cap);
      return static_cast<double>(parts) / static_cast<double>(m);
    });
  }
  for (const std::int64_t tenths : {1, 2, 3, 4}) {
    variant([tenths](std::int64_t kv, std::int64_t cap) {
      if (10 * kv > (10 - tenths) * cap) return 1.0;
      if (10 * kv < tenths * cap) return 0.0;
      return static_cast<double>(kv) / static_cast<double>(cap);
    });
  }
}

/// What weights are made of: work that does not depend on alpha.
double WorkTerms::fixedWork(Work work, std::uint32_t packing, std::size_t call, std::size_t k) const {
  const BoundCall& c = instance_.calls[call];
  const std::size_t at = call * instance_.decode.size() + k;
  switch (work) {
    case Work::kPrefill: {
      const Nanos own = instance_.prefillWork[call * instance_.prefill.size() + k];
      return own == kNever ? -1 : static_cast<double>(own);
    }
    case Work::kKv:
      return instance_.decodeOf(call, k) == kNever ? -1 : kvWork_[packing][at];
    case Work::kSequences:
      return instance_.decodeOf(call, k) == kNever ? -1 : sequenceWork_[at];
    case Work::kLatency: {
      const DecodeFloor& f = instance_.decode[k].floor;
      return instance_.decodeOf(call, k) == kNever
                 ? -1
                 : static_cast<double>(c.iterations) *
                       (f.perSequence + f.perContext * static_cast<double>(c.firstContext));
    }
  }
  return -1;
}

void WorkTerms::add(Work work, std::uint32_t packing, const std::vector<std::uint32_t>& classes,
                    const std::vector<double>& weights) {
  Machine m;
  m.work = work;
  m.packing = packing;
  m.classes = classes;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto weight = static_cast<std::int64_t>(std::clamp(weights[i], 0.0, 1.0) * kUnit + 0.5);
    m.weights.push_back(weight);
    const auto& of = work == Work::kPrefill ? instance_.prefill : instance_.decode;
    m.speed += weight * of[classes[i]].count;
  }
  if (m.speed == 0) return;
  for (const Machine& other : machines_) {
    if (other.work == work && other.packing == packing && other.classes == classes &&
        other.weights == m.weights)
      return;
  }
  machines_.push_back(std::move(m));
}

/// Weights: by speed, by speed as its outer deciles over the calls see it, all equal, and by speed without
/// the slowest classes.
void WorkTerms::addMachines(Work work, std::uint32_t packing, const std::vector<std::uint32_t>& classes) {
  if (classes.empty()) return;
  const std::size_t n = classes.size();
  std::vector<double> mean(n, 0);
  std::vector<std::vector<double>> ratios(n);
  std::size_t counted = 0;
  for (std::size_t i = 0; i < instance_.calls.size(); ++i) {
    if (work != Work::kPrefill && instance_.calls[i].iterations == 0) continue;
    bool everywhere = true;
    for (const std::uint32_t k : classes) everywhere &= fixedWork(work, packing, i, k) > 0;
    if (!everywhere) continue;
    for (std::size_t j = 0; j < n; ++j) mean[j] += fixedWork(work, packing, i, classes[j]);
    ++counted;
  }
  if (counted == 0) {
    add(work, packing, classes, std::vector<double>(n, 1));
    return;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return mean[a] < mean[b]; });
  const std::size_t fastest = order[0];
  for (std::size_t i = 0; i < instance_.calls.size(); ++i) {
    if (work != Work::kPrefill && instance_.calls[i].iterations == 0) continue;
    const double fast = fixedWork(work, packing, i, classes[fastest]);
    for (std::size_t j = 0; j < n; ++j) {
      const double own = fixedWork(work, packing, i, classes[j]);
      if (fast > 0 && own > 0) ratios[j].push_back(fast / own);
    }
  }
  std::vector<double> bySpeed(n);
  for (std::size_t j = 0; j < n; ++j) bySpeed[j] = mean[fastest] / mean[j];
  add(work, packing, classes, bySpeed);
  if (n == 1) return;
  for (const double share : {0.1, 0.5, 0.9}) {
    std::vector<double> weights(n);
    for (std::size_t j = 0; j < n; ++j) {
      auto& r = ratios[j];
      const auto place = r.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(r.size() - 1));
      std::nth_element(r.begin(), place, r.end());
      weights[j] = *place;
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    for (double& w : weights) w /= top;
    add(work, packing, classes, weights);
  }
  add(work, packing, classes, std::vector<double>(n, 1));
  std::vector<double> weights = bySpeed;
  for (std::size_t j = n; --j > 0;) {
    weights[order[j]] = 0;
    add(work, packing, classes, weights);
  }
}

/// ns; negative where the call cannot be on time there. `slack`: D - head - tail.
double WorkTerms::workWithin(const Machine& m, std::size_t call, std::size_t k, Nanos slack) const {
  const BoundCall& c = instance_.calls[call];
  if (m.work == Work::kPrefill) {
    const std::size_t at = call * instance_.prefill.size() + k;
    const Nanos time = instance_.prefillTime[at];
    if (time == kNever || time + instance_.prefillAfter[at] > slack) return -1;
    return static_cast<double>(instance_.prefillWork[at]);
  }
  const std::size_t at = call * instance_.decode.size() + k;
  const Nanos time = instance_.decodeTime[at];
  const Nanos before = instance_.decodeBefore[at];
  if (time == kNever || before == kNever || before + time > slack) return -1;
  if (m.work == Work::kKv) return std::max(0.0, kvWork_[m.packing][at]);
  if (m.work == Work::kSequences) return std::max(0.0, sequenceWork_[at]);
  const DecodeFloor& f = instance_.decode[k].floor;
  const auto n = static_cast<double>(c.iterations);
  const double g = f.perSequence + f.perContext * static_cast<double>(c.firstContext);
  const double longest = static_cast<double>(slack - before) * (1 + kMargin) / n + kRounding;
  if (longest <= f.base) return 0;  // only within the rounding
  return std::max(0.0, n * (g * longest / (longest - f.base) - kRounding));
}

void WorkTerms::windows() {
  const std::size_t calls = instance_.calls.size();
  const std::size_t items = calls + instance_.workflows.size();
  for (ItemGroup& g : groups_) {
    g.release.assign(items, 0);
    g.deadline.assign(items, 0);
    g.present.assign(items, 0);
  }
  for (std::size_t w = 0; w < instance_.workflows.size(); ++w) {
    const BoundWorkflow& wf = instance_.workflows[w];
    if (open_[w] == 0) continue;
    const Nanos due = due_[w];
    for (std::uint32_t i = wf.firstCall; i < wf.endCall; ++i) {
      const BoundCall& c = instance_.calls[i];
      const Nanos latest = wf.arrival + due - c.tail;
      groups_[0].release[i] = wf.arrival + c.head;
      groups_[0].deadline[i] = latest - c.afterwards;
      groups_[0].present[i] = 1;
      if (c.iterations == 0) continue;
      groups_[1].release[i] = wf.arrival + c.head + c.least;
      groups_[1].deadline[i] = latest;
      groups_[1].present[i] = 1;
    }
    if (faults_.window != 1) {
      for (ItemGroup& g : groups_) {
        for (std::uint32_t i = wf.firstCall; i < wf.endCall; ++i)
          g.deadline[i] =
              g.release[i] +
              static_cast<Nanos>(faults_.window * static_cast<double>(g.deadline[i] - g.release[i]));
      }
    }
    for (ItemGroup& g : groups_) {
      const std::size_t path = calls + w;
      for (std::uint32_t s = wf.firstStep; s < wf.endStep; ++s) {
        const std::uint32_t i = instance_.path[s];
        if (g.present[i] == 0) continue;
        g.release[path] = g.present[path] != 0 ? std::min(g.release[path], g.release[i]) : g.release[i];
        g.deadline[path] = g.present[path] != 0 ? std::max(g.deadline[path], g.deadline[i]) : g.deadline[i];
        g.present[path] = 1;
      }
    }
  }
  for (ItemGroup& g : groups_) {
    g.byRelease.clear();
    for (std::uint32_t i = 0; i < items; ++i) {
      if (g.present[i] != 0) g.byRelease.push_back(i);
    }
    g.byDeadline = g.byRelease;
    std::sort(g.byRelease.begin(), g.byRelease.end(), [&](std::uint32_t a, std::uint32_t b) {
      return g.release[a] != g.release[b] ? g.release[a] > g.release[b] : a < b;
    });
    std::sort(g.byDeadline.begin(), g.byDeadline.end(), [&](std::uint32_t a, std::uint32_t b) {
      return g.deadline[a] != g.deadline[b] ? g.deadline[a] < g.deadline[b] : a < b;
    });
    g.deadlineRank.assign(items, 0);
    for (std::uint32_t r = 0; r < g.byDeadline.size(); ++r) g.deadlineRank[g.byDeadline[r]] = r;
  }
}

/// sum_c min_k (u_k work_k + mu time_k) - mu * budget in 1/1024 ns, less a margin. `mu` in 1/1024.
double WorkTerms::pathWork(const Machine& m, const BoundWorkflow& w, double budget, double mu) const {
  double sum = 0;
  for (std::uint32_t s = w.firstStep; s < w.endStep; ++s) {
    const std::uint32_t i = instance_.path[s];
    const BoundCall& c = instance_.calls[i];
    const auto n = static_cast<double>(c.iterations);
    if (m.decodes() && c.iterations == 0) {
      sum += mu * static_cast<double>(c.least);
      continue;
    }
    double least = HUGE_VAL;
    for (std::size_t j = 0; j < m.classes.size(); ++j) {
      const std::uint32_t k = m.classes[j];
      const auto u = static_cast<double>(m.weights[j]);
      double cost;
      if (m.work == Work::kPrefill) {
        const std::size_t at = i * instance_.prefill.size() + k;
        const Nanos time = instance_.prefillTime[at];
        if (time == kNever) continue;
        cost = u * static_cast<double>(instance_.prefillWork[at]) +
               mu * static_cast<double>(time + instance_.prefillAfter[at]);
      } else {
        const std::size_t at = i * instance_.decode.size() + k;
        if (instance_.decodeTime[at] == kNever || instance_.decodeBefore[at] == kNever) continue;
        const auto before = static_cast<double>(instance_.decodeBefore[at]);
        if (m.work == Work::kLatency) {
          const DecodeFloor& f = instance_.decode[k].floor;
          const double g = f.perSequence + f.perContext * static_cast<double>(c.firstContext);
          const double root = std::sqrt(u * g) + std::sqrt(mu * f.base);
          cost = n * (root * root - (u + mu) * kRounding) + mu * before;
        } else {
          const double work = m.work == Work::kKv ? kvWork_[m.packing][at] : sequenceWork_[at];
          cost = u * work + mu * (before + static_cast<double>(instance_.decodeTime[at]));
        }
      }
      least = std::min(least, cost);
    }
    if (least < HUGE_VAL) sum += least;
  }
  return sum - mu * budget - kMargin * (std::fabs(sum) + mu * budget);
}

/// The largest over mu: concave in mu, so golden sections of ln mu find it. Any mu is a valid bound.
double WorkTerms::pathBound(const Machine& m, const BoundWorkflow& w, double budget) const {
  constexpr double kGolden = 0.6180339887498949;
  const auto value = [&](double logMu) {
    return pathWork(m, w, budget, std::exp(logMu) * static_cast<double>(kUnit));
  };
  double low = kLowestLogMu;
  double high = kHighestLogMu;
  double a = high - kGolden * (high - low);
  double b = low + kGolden * (high - low);
  double atA = value(a);
  double atB = value(b);
  for (int i = 0; i < kSections; ++i) {
    if (atA < atB) {
      low = a;
      a = b;
      atA = atB;
      b = low + kGolden * (high - low);
      atB = value(b);
    } else {
      high = b;
      b = a;
      atB = atA;
      a = high - kGolden * (high - low);
      atA = value(a);
    }
  }
  return std::max(atA, atB);
}

void WorkTerms::machineItems(std::size_t index) {
  const Machine& m = machines_[index];
  const ItemGroup& g = group(m);
  const std::size_t calls = instance_.calls.size();
  auto& items = items_[index];
  items.assign(calls + instance_.workflows.size(), 0);
  const double fault = faults_.work[static_cast<std::size_t>(m.work)] * (m.packing > 0 ? faults_.packing : 1);
  for (std::size_t w = 0; w < instance_.workflows.size(); ++w) {
    if (open_[w] == 0) continue;
    const BoundWorkflow& wf = instance_.workflows[w];
    for (std::uint32_t i = wf.firstCall; i < wf.endCall; ++i) {
      if (g.present[i] == 0) continue;
      const BoundCall& c = instance_.calls[i];
      const Nanos slack = due_[w] - c.head - c.tail;
      double least = HUGE_VAL;
      for (std::size_t j = 0; j < m.classes.size(); ++j) {
        const double work = workWithin(m, i, m.classes[j], slack);
        if (work >= 0) least = std::min(least, static_cast<double>(m.weights[j]) * work);
      }
      if (least < HUGE_VAL) items[i] = roundedDown(least * fault);
    }
    if (g.present[calls + w] == 0) continue;
    double own = 0;
    bool whole = true;  // of one model, as the machine is
    for (std::uint32_t s = wf.firstStep; s < wf.endStep; ++s) {
      own += static_cast<double>(items[instance_.path[s]]);
      const auto& of = m.decodes() ? instance_.decode : instance_.prefill;
      whole &= instance_.calls[instance_.path[s]].model == of[m.classes[0]].model;
    }
    if (!whole) continue;
    const double path = pathBound(m, wf, static_cast<double>(due_[w] - wf.pathTools));
    items[calls + w] = roundedDown(path * fault * faults_.path - own * (1 + kMargin));
  }
}

void WorkTerms::at(double alpha) {
  const std::size_t n = instance_.workflows.size();
  open_.assign(n, 0);
  due_.assign(n, 0);
  for (std::size_t w = 0; w < n; ++w) {
    const BoundWorkflow& wf = instance_.workflows[w];
    if (!wf.feasible || wf.horizon <= 0) continue;
    const double due = std::ceil(alpha * static_cast<double>(wf.horizon) * (1 + 1e-15)) + 1;
    due_[w] = due < static_cast<double>(kMaxTime / 4) ? static_cast<Nanos>(due) : kMaxTime / 4;
    open_[w] = wf.critical <= due_[w] ? 1 : 0;
  }
  windows();
  for (std::size_t i = 0; i < machines_.size(); ++i) machineItems(i);
}

}  // namespace laxity::bounds
