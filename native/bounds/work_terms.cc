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

Machine machineOf(Work work, std::uint32_t packing, const std::vector<std::uint32_t>& classes) {
  Machine m;
  m.work = work;
  m.packing = packing;
  m.classes = classes;
  return m;
}

}  // namespace

WorkTerms::WorkTerms(const BoundInstance& instance, const WorkFaults& faults)
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
    if (!instance.unified) addMachines(machineOf(Work::kPrefill, 0, p));
    for (std::uint32_t f = 0; f < kvWork_.size(); ++f) addMachines(machineOf(Work::kKv, f, d));
    for (const Work work : {Work::kSequences, Work::kLatency}) addMachines(machineOf(work, 0, d));
  }
  buildGroups();
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

Nanos WorkTerms::timeOn(const Machine& m, std::size_t call, std::size_t k) const {
  const std::size_t np = instance_.prefill.size();
  const std::size_t nd = instance_.decode.size();
  const Nanos first =
      m.prefills() ? instance_.prefillTime[call * np + k] : instance_.decodeBefore[call * nd + k];
  const Nanos second =
      m.prefills() ? instance_.prefillAfter[call * np + k] : instance_.decodeTime[call * nd + k];
  return first == kNever || second == kNever ? kNever : first + second;
}

double WorkTerms::prefillWork(std::size_t call, std::size_t k) const {
  return static_cast<double>(instance_.prefillWork[call * instance_.prefill.size() + k]) *
         faults_.work[static_cast<std::size_t>(Work::kPrefill)];
}

/// Of the KV, packing and sequence terms, which do not depend on alpha.
double WorkTerms::heldWork(const Machine& m, std::size_t call, std::size_t k) const {
  const std::size_t at = call * instance_.decode.size() + k;
  return std::max(0.0, m.work == Work::kKv ? kvWork_[m.packing][at] : sequenceWork_[at]);
}

/// `slack`: what prefill, transfer and decode may take together.
double WorkTerms::latencyWork(std::size_t call, std::size_t k, Nanos slack) const {
  const BoundCall& c = instance_.calls[call];
  const DecodeFloor& f = instance_.decode[k].floor;
  const auto n = static_cast<double>(c.iterations);
  const double g = f.perSequence + f.perContext * static_cast<double>(c.firstContext);
  const Nanos before = instance_.decodeBefore[call * instance_.decode.size() + k];
  const double longest = static_cast<double>(slack - before) * (1 + kMargin) / n + kRounding;
  if (longest <= f.base) return 0;  // only within the rounding
  return std::max(0.0, n * (g * longest / (longest - f.base) - kRounding));
}

/// 1, unless a test breaks the decode term of the machine.
double WorkTerms::decodeFault(const Machine& m) const {
  return faults_.work[static_cast<std::size_t>(m.work)] * (m.packing > 0 ? faults_.packing : 1);
}

/// What weights are made of: work that does not depend on alpha; negative where it cannot run.
double WorkTerms::fixedWork(const Machine& m, std::size_t call, std::size_t k) const {
  const BoundCall& c = instance_.calls[call];
  if (timeOn(m, call, k) == kNever) return -1;
  double sum = m.prefills() ? prefillWork(call, k) : 0;
  if (!m.decodes() || c.iterations == 0) return sum;
  const DecodeFloor& f = instance_.decode[k].floor;
  const double own = m.work == Work::kLatency
                         ? static_cast<double>(c.iterations) *
                               (f.perSequence + f.perContext * static_cast<double>(c.firstContext))
                         : heldWork(m, call, k);
  return sum + own * decodeFault(m);
}

void WorkTerms::add(Machine m, const std::vector<double>& weights) {
  for (std::size_t i = 0; i < m.classes.size(); ++i) {
    const auto weight = static_cast<std::int64_t>(std::clamp(weights[i], 0.0, 1.0) * kUnit + 0.5);
    m.weights.push_back(weight);
    m.speed += weight * classesOf(m)[m.classes[i]].count;
  }
  if (m.speed == 0) return;
  for (const Machine& other : machines_) {
    if (other.work == m.work && other.packing == m.packing && other.classes == m.classes &&
        other.weights == m.weights)
      return;
  }
  machines_.push_back(std::move(m));
}

/// Weights: by speed, by speed as its outer deciles over the calls see it, all equal, and by speed without
/// the slowest classes.
void WorkTerms::addMachines(Machine kind) {
  const std::vector<std::uint32_t>& classes = kind.classes;
  if (classes.empty()) return;
  kind.unified = instance_.unified;
  const std::size_t n = classes.size();
  std::vector<double> mean(n, 0);
  std::vector<std::vector<double>> ratios(n);
  std::size_t counted = 0;
  for (std::size_t i = 0; i < instance_.calls.size(); ++i) {
    if (!kind.prefills() && instance_.calls[i].iterations == 0) continue;
    bool everywhere = true;
    for (const std::uint32_t k : classes) everywhere &= fixedWork(kind, i, k) > 0;
    if (!everywhere) continue;
    for (std::size_t j = 0; j < n; ++j) mean[j] += fixedWork(kind, i, classes[j]);
    ++counted;
  }
  if (counted == 0) {
    add(kind, std::vector<double>(n, 1));
    return;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return mean[a] < mean[b]; });
  const std::size_t fastest = order[0];
  for (std::size_t i = 0; i < instance_.calls.size(); ++i) {
    if (!kind.prefills() && instance_.calls[i].iterations == 0) continue;
    const double fast = fixedWork(kind, i, classes[fastest]);
    for (std::size_t j = 0; j < n; ++j) {
      const double own = fixedWork(kind, i, classes[j]);
      if (fast > 0 && own > 0) ratios[j].push_back(fast / own);
    }
  }
  std::vector<double> bySpeed(n);
  for (std::size_t j = 0; j < n; ++j) bySpeed[j] = mean[fastest] / mean[j];
  add(kind, bySpeed);
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
    add(kind, weights);
  }
  add(kind, std::vector<double>(n, 1));
  std::vector<double> weights = bySpeed;
  for (std::size_t j = n; --j > 0;) {
    weights[order[j]] = 0;
    add(kind, weights);
  }
}

void WorkTerms::buildGroups() {
  groups_[0].parts = {Part::kPrefill};
  groups_[1].parts = {Part::kDecode};
  groups_[2].parts = {Part::kPrefill, Part::kDecode, Part::kBoth};
  for (ItemGroup& g : groups_) {
    g.calls = instance_.calls.size();
    for (std::size_t part = 0; part < g.parts.size(); ++part) {
      for (const BoundCall& c : instance_.calls) g.workflow.push_back(c.workflow);
    }
    for (std::uint32_t w = 0; w < instance_.workflows.size(); ++w) g.workflow.push_back(w);
  }
}

void WorkTerms::windows(ItemGroup& g) {
  const std::size_t calls = instance_.calls.size();
  const std::size_t items = g.workflow.size();
  g.release.assign(items, 0);
  g.deadline.assign(items, 0);
  g.present.assign(items, 0);
  for (std::size_t w = 0; w < instance_.workflows.size(); ++w) {
    const BoundWorkflow& wf = instance_.workflows[w];
    if (open_[w] == 0) continue;
    for (std::size_t part = 0; part < g.parts.size(); ++part) {
      const bool decodes = g.parts[part] != Part::kPrefill;
      const bool prefills = g.parts[part] != Part::kDecode;
      for (std::uint32_t c = wf.firstCall; c < wf.endCall; ++c) {
        const BoundCall& call = instance_.calls[c];
        if (decodes && call.iterations == 0) continue;
        const std::size_t i = part * calls + c;
        g.release[i] = wf.arrival + call.head + (prefills ? 0 : call.least);
        g.deadline[i] = wf.arrival + due_[w] - call.tail - (decodes ? 0 : call.afterwards);
        g.present[i] = 1;
        if (faults_.window == 1) continue;
        g.deadline[i] = g.release[i] + static_cast<Nanos>(faults_.window *
                                                          static_cast<double>(g.deadline[i] - g.release[i]));
      }
    }
    const std::size_t path = items - instance_.workflows.size() + w;
    for (std::uint32_t s = wf.firstStep; s < wf.endStep; ++s) {
      for (std::size_t i = instance_.path[s]; i < g.parts.size() * calls; i += calls) {
        if (g.present[i] == 0) continue;
        g.release[path] = g.present[path] != 0 ? std::min(g.release[path], g.release[i]) : g.release[i];
        g.deadline[path] = g.present[path] != 0 ? std::max(g.deadline[path], g.deadline[i]) : g.deadline[i];
        g.present[path] = 1;
      }
    }
  }
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

/// What the calls of the critical path of w cost on each class, as A + B mu + C sqrt(mu) in 1/1024 ns.
void WorkTerms::pathCosts(const Machine& m, const BoundWorkflow& w) {
  pathCosts_.clear();
  pathEnds_.clear();
  for (std::uint32_t s = w.firstStep; s < w.endStep; ++s) {
    const std::uint32_t i = instance_.path[s];
    const BoundCall& c = instance_.calls[i];
    const auto n = static_cast<double>(c.iterations);
    if (!m.prefills() && c.iterations == 0) pathCosts_.push_back({0, static_cast<double>(c.least), 0});
    for (std::size_t j = 0; j < m.classes.size() && (m.prefills() || c.iterations > 0); ++j) {
      const std::uint32_t k = m.classes[j];
      const Nanos time = timeOn(m, i, k);
      if (time == kNever) continue;
      const auto u = static_cast<double>(m.weights[j]);
      PathCost cost{m.prefills() ? u * prefillWork(i, k) : 0, static_cast<double>(time), 0};
      if (m.decodes() && c.iterations > 0 && m.work != Work::kLatency) {
        cost.fixed += u * decodeFault(m) * heldWork(m, i, k);
      } else if (m.decodes() && c.iterations > 0) {
        // n (sqrt(u g) + sqrt(mu base))^2, less half a nanosecond per iteration of work and of time.
        const DecodeFloor& f = instance_.decode[k].floor;
        const double weight = u * decodeFault(m);
        const double g = f.perSequence + f.perContext * static_cast<double>(c.firstContext);
        cost.fixed += n * weight * (g - kRounding);
        cost.perMu = static_cast<double>(instance_.decodeBefore[i * instance_.decode.size() + k]) +
                     n * (f.base - kRounding);
        cost.perRoot = 2 * n * std::sqrt(weight * g * f.base);
      }
      pathCosts_.push_back(cost);
    }
    pathEnds_.push_back(static_cast<std::uint32_t>(pathCosts_.size()));
  }
}

/// sum_c min_k (u_k work_k + mu time_k) - mu * budget in 1/1024 ns, less a margin. `mu` in 1/1024.
double WorkTerms::pathWork(double budget, double mu) const {
  const double root = std::sqrt(mu);
  double sum = 0;
  std::uint32_t from = 0;
  for (const std::uint32_t end : pathEnds_) {
    double least = HUGE_VAL;
    for (; from < end; ++from) {
      const PathCost& c = pathCosts_[from];
      least = std::min(least, c.fixed + mu * c.perMu + root * c.perRoot);
    }
    if (least < HUGE_VAL) sum += least;
  }
  return sum - mu * budget - kMargin * (std::fabs(sum) + mu * budget);
}

/// The largest over mu: concave in mu, so golden sections of ln mu find it. Any mu is a valid bound.
double WorkTerms::pathBound(const Machine& m, const BoundWorkflow& w, double budget) {
  constexpr double kGolden = 0.6180339887498949;
  pathCosts(m, w);
  const auto value = [&](double logMu) {
    return pathWork(budget, std::exp(logMu) * static_cast<double>(kUnit));
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

/// The items of one call. `slack`: D - head - tail.
void WorkTerms::callItems(std::size_t index, std::uint32_t call, Nanos slack) {
  const Machine& m = machines_[index];
  const bool decodes = m.decodes() && instance_.calls[call].iterations > 0;
  double prefill = HUGE_VAL;
  double decode = HUGE_VAL;
  double both = HUGE_VAL;
  for (std::size_t j = 0; j < m.classes.size(); ++j) {
    const std::uint32_t k = m.classes[j];
    const Nanos time = timeOn(m, call, k);
    if (time == kNever || time > slack) continue;  // cannot be on time there
    const auto u = static_cast<double>(m.weights[j]);
    const double first = m.prefills() ? u * prefillWork(call, k) : 0;
    double second = 0;
    if (decodes) {
      const double own = m.work == Work::kLatency ? latencyWork(call, k, slack) : heldWork(m, call, k);
      second = u * own * decodeFault(m);
    }
    prefill = std::min(prefill, first);
    decode = std::min(decode, second);
    both = std::min(both, first + second);
  }
  if (both == HUGE_VAL) return;
  auto& items = items_[index];
  if (!m.unified) {
    items[call] = roundedDown(both);
    return;
  }
  const std::size_t calls = instance_.calls.size();
  items[call] = roundedDown(prefill);
  if (!decodes) return;
  items[calls + call] = roundedDown(decode);
  const double parts = static_cast<double>(items[call]) + static_cast<double>(items[calls + call]);
  items[2 * calls + call] = roundedDown(both * (1 - kMargin) - parts);
}

void WorkTerms::machineItems(std::size_t index) {
  const Machine& m = machines_[index];
  const ItemGroup& g = group(m);
  const std::size_t calls = instance_.calls.size();
  const std::size_t parts = g.parts.size();
  auto& items = items_[index];
  items.assign(g.workflow.size(), 0);
  for (std::size_t w = 0; w < instance_.workflows.size(); ++w) {
    if (open_[w] == 0) continue;
    const BoundWorkflow& wf = instance_.workflows[w];
    for (std::uint32_t i = wf.firstCall; i < wf.endCall; ++i) {
      const BoundCall& c = instance_.calls[i];
      if (g.present[i] != 0) callItems(index, i, due_[w] - c.head - c.tail);
    }
    const std::size_t path = parts * calls + w;
    if (g.present[path] == 0) continue;
    double own = 0;
    bool whole = true;  // of one model, as the machine is
    for (std::uint32_t s = wf.firstStep; s < wf.endStep; ++s) {
      for (std::size_t i = instance_.path[s]; i < parts * calls; i += calls)
        own += static_cast<double>(items[i]);
      whole &= instance_.calls[instance_.path[s]].model == classesOf(m)[m.classes[0]].model;
    }
    if (!whole) continue;
    const double least = pathBound(m, wf, static_cast<double>(due_[w] - wf.pathTools));
    items[path] = roundedDown(least * faults_.path - own * (1 + kMargin));
  }
}

void WorkTerms::at(double alpha) {
  const std::size_t n = instance_.workflows.size();
  open_.assign(n, 0);
  due_.assign(n, 0);
  for (std::size_t w = 0; w < n; ++w) {
    const BoundWorkflow& wf = instance_.workflows[w];
    if (!wf.feasible || wf.base <= 0) continue;
    const double due = std::ceil(alpha * static_cast<double>(wf.base) * (1 + 1e-15)) + 1;
    due_[w] = due < static_cast<double>(kMaxTime / 4) ? static_cast<Nanos>(due) : kMaxTime / 4;
    open_[w] = wf.critical <= due_[w] ? 1 : 0;
  }
  if (instance_.unified) {
    windows(groups_[2]);
  } else {
    windows(groups_[0]);
    windows(groups_[1]);
  }
  for (std::size_t i = 0; i < machines_.size(); ++i) machineItems(i);
}

}  // namespace laxity::bounds
