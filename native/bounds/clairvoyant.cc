#include "bounds/clairvoyant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/random.h"
#include "base/statistics.h"

namespace laxity {
namespace {

constexpr double kFar = 1e6;         ///< times base: the deadline of who is dropped
constexpr double kLatestMs = 1e12;   ///< deadlines from arrival; a trace takes no later ones
constexpr double kTailWeight = 0.3;  ///< of the mean over the last workflows that count
constexpr double kTailShare = 0.05;
constexpr std::array kAlphas{0.55, 0.7, 0.85, 0.95, 1.0, 1.08};

struct PlacementRule {
  std::string_view name;
  Binding binding;
  bool backfill;
};
constexpr std::array<PlacementRule, 4> kUnified{{{"eft", Binding::kAtReveal, false},
                                                 {"eftx", Binding::kAtReveal, false},
                                                 {"eftxp", Binding::kAtReveal, false},
                                                 {"eft", Binding::kAtCredit, false}}};
constexpr std::array<PlacementRule, 3> kPaired{{{"earliest-finish", Binding::kAtCredit, false},
                                                {"earliest-finish", Binding::kAtCredit, true},
                                                {"least-loaded", Binding::kAtCredit, false}}};

struct Candidate {
  std::vector<double> alpha;  ///< by workflow: deadline = arrival + alpha * base
  std::size_t placement = 0;
};

class LocalSearch {
 public:
  LocalSearch(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
              const ReferenceOptions& how, std::vector<Reference>* out)
      : given_(trace), cluster_(cluster), options_(options), how_(how), out_(*out), random_(how.seed, 8) {}

  Status run() {
    if (!options_.script.empty()) return Status::kUnsupported;
    const std::size_t n = given_.columns().workflows;
    if (n == 0) return Status::kOk;
    paired_ = !cluster_.instances.empty() && cluster_.instances[0].role != Role::kUnified;
    latency_.resize(n);
    base_.resize(n);
    slo_.resize(n);
    best_.assign(out_.size(), {});
    if (const Status status = prepare(); !ok(status)) return status;
    for (std::size_t k = 0; k < out_.size() && ok(status_); ++k) {
      used_ = k == 0 ? used_ : 0;
      begin(k);
      improve(k);
    }
    return status_;
  }

 private:
  struct Best {
    Candidate candidate;
    std::vector<double> ratios;
    double cost = HUGE_VAL;
  };

  std::size_t placements() const { return paired_ ? kPaired.size() : kUnified.size(); }

  /// The caller's own run, which tells the base, then the other rules.
  Status prepare() {
    RunOptions own = options_;
    own.observer = nullptr;
    evaluate(given_, own, nullptr, &base_);
    if (!ok(status_)) return status_;
    TraceColumns columns = given_.columns();
    columns.sloMs = slo_.data();
    std::fill(slo_.begin(), slo_.end(), 1);
    if (const Status status = trace_.bind(columns); !ok(status)) return status;
    for (std::size_t p = 0; p < placements() && used_ < how_.evaluations && ok(status_); ++p) {
      RunOptions ratio = optionsOf("ratio", p);
      ratio.remaining = {};
      ratio.remaining.on = true;
      evaluate(given_, ratio, nullptr, nullptr);
    }
    return status_;
  }

  RunOptions optionsOf(std::string_view order, std::size_t placement) const {
    RunOptions o = options_;
    const PlacementRule& rule = paired_ ? kPaired[placement] : kUnified[placement];
    makeOrder(order, &o.order);
    if (paired_)
      makePairPlacement(rule.name, &o.pairPlacement);
    else
      makePlacement(rule.name, &o.placement);
    o.binding = rule.binding;
    o.pairs.backfill = rule.backfill;
    o.knowledge = Knowledge::kOracle;
    o.observer = nullptr;
    o.migrate = false;
    o.planLatency = 0;
    o.timePlans = false;
    o.parameters.set(static_cast<std::uint16_t>(Parameter::kHopeless), 0);
    return o;
  }

  void evaluate(const Candidate& c) {
    for (std::size_t w = 0; w < slo_.size(); ++w)
      slo_[w] = std::clamp(c.alpha[w] * base_[w], 1e-3, kLatestMs);
    evaluate(trace_, optionsOf("edf-path", c.placement), &c, nullptr);
  }

  /// One run; notes what it is worth for every tau. Without a candidate its deadlines are those of its
  /// ratios.
  void evaluate(const Trace& trace, const RunOptions& options, const Candidate* c,
                std::vector<double>* base) {
    RunOutputs outputs;
    outputs.latencyMs = latency_.data();
    outputs.baseMs = base == nullptr ? nullptr : base->data();
    RunResult result;
    ++used_;
    ++evaluations_;
    status_ = simulate(trace, cluster_, options, outputs, &result, &workspace_);
    if (!ok(status_)) return;
    if (result.evictions + result.hiddenEvictions > 0 && base == nullptr) return;
    const bool counts = result.evictions + result.hiddenEvictions == 0;
    std::vector<double> ratios(latency_.size());
    for (std::size_t w = 0; w < ratios.size(); ++w)
      ratios[w] = base_[w] > 0 ? latency_[w] / base_[w] : HUGE_VAL;
    for (std::size_t k = 0; k < out_.size(); ++k) {
      const auto [required, cost] = worth(ratios, out_[k].tau);
      if (counts && required < out_[k].ratio) {
        out_[k].ratio = required;
        out_[k].evaluations = evaluations_;
      }
      Best& best = best_[k];
      if (best.ratios.empty() || cost < best.cost || (cost == best.cost && c != nullptr)) {
        best.cost = counts ? cost : HUGE_VAL;
        best.ratios = ratios;
        best.candidate = c != nullptr ? *c : Candidate{ratios, 0};
      }
    }
  }

  /// Req and what the search lessens.
  static std::pair<double, double> worth(std::vector<double> ratios, double tau) {
    const double required = upperQuantile(ratios, tau);
    if (required == HUGE_VAL) return {HUGE_VAL, HUGE_VAL};
    std::sort(ratios.begin(), ratios.end());
    const auto end =
        static_cast<std::size_t>(std::upper_bound(ratios.begin(), ratios.end(), required) - ratios.begin());
    const std::size_t tail =
        std::max<std::size_t>(1, static_cast<std::size_t>(kTailShare * static_cast<double>(end)));
    double sum = 0;
    for (std::size_t i = end - tail; i < end; ++i) sum += ratios[i];
    return {required, required + kTailWeight * sum / static_cast<double>(tail)};
  }

  /// How many may be late.
  std::size_t allowed(double tau) const {
    const auto n = static_cast<double>(base_.size());
    return static_cast<std::size_t>(std::max(0.0, std::floor((1 - tau) * n + 1e-9)));
  }

  /// Deadlines in one proportion to the base, for every drop set and placement.
  void begin(std::size_t k) {
    const std::size_t n = base_.size();
    const double aim = out_[k].ratio < HUGE_VAL ? out_[k].ratio : 5;
    std::vector<std::vector<std::uint32_t>> dropSets(1);
    if (const std::size_t most = allowed(out_[k].tau); most > 0) {
      dropSets.push_back(largest(best_[k].ratios, most));
      dropSets.push_back(largest(work(), most));
    }
    for (const auto& dropped : dropSets) {
      for (std::size_t p = 0; p < placements(); ++p) {
        for (const double factor : kAlphas) {
          if (2 * used_ >= how_.evaluations || !ok(status_)) return;  // the other half is the search's
          Candidate c{std::vector<double>(n, factor * aim), p};
          for (const std::uint32_t w : dropped) c.alpha[w] = kFar;
          evaluate(c);
        }
      }
    }
  }

  std::vector<double> work() const {
    const TraceColumns& c = given_.columns();
    std::vector<double> sum(c.workflows, 0);
    for (std::uint32_t w = 0; w < c.workflows; ++w) {
      for (std::uint32_t i = c.firstCall[w]; i < c.firstCall[w + 1]; ++i) {
        const LatencyModel& latency = cluster_.latencies[cluster_.instances[0].latency];
        sum[w] += static_cast<double>(latency.prefill(c.promptTokens[i], 0));
      }
    }
    return sum;
  }

  static std::vector<std::uint32_t> largest(const std::vector<double>& of, std::size_t count) {
    std::vector<std::uint32_t> order(of.size());
    for (std::uint32_t w = 0; w < order.size(); ++w) order[w] = w;
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return of[a] > of[b]; });
    order.resize(std::min(count, order.size()));
    return order;
  }

  void improve(std::size_t k) {
    while (used_ < how_.evaluations && ok(status_)) {
      Candidate c = best_[k].candidate;
      change(best_[k].ratios, out_[k].ratio, &c);
      evaluate(c);
    }
  }

  void change(const std::vector<double>& ratios, double required, Candidate* c) {
    const auto n = static_cast<std::uint32_t>(c->alpha.size());
    const auto dropped = [&](std::uint32_t w) { return c->alpha[w] >= kFar; };
    const double kind = random_.uniform();
    if (kind < 0.4) {  // who decides Req: earlier
      std::vector<std::uint32_t> near;
      for (std::uint32_t w = 0; w < n; ++w) {
        if (!dropped(w) && ratios[w] >= 0.9 * required && ratios[w] <= required) near.push_back(w);
      }
      for (std::uint32_t i = 1 + random_.below(3); i > 0 && !near.empty(); --i)
        c->alpha[near[random_.below(static_cast<std::uint32_t>(near.size()))]] *=
            0.6 + 0.35 * random_.uniform();
    } else if (kind < 0.55) {  // all to the ratio aimed at
      const double strength = 0.2 + 0.6 * random_.uniform();
      for (std::uint32_t w = 0; w < n; ++w) {
        if (!dropped(w) && ratios[w] < HUGE_VAL) c->alpha[w] *= std::pow(required / ratios[w], strength);
      }
    } else if (kind < 0.8) {
      for (std::uint32_t i = 1 + n / 20; i > 0; --i) {
        const std::uint32_t w = random_.below(n);
        if (!dropped(w)) c->alpha[w] *= random_.lognormal(0, 0.3);
      }
    } else if (kind < 0.95) {  // exchange
      std::vector<std::uint32_t> out;
      for (std::uint32_t w = 0; w < n; ++w) {
        if (dropped(w)) out.push_back(w);
      }
      const std::uint32_t kept = random_.below(n);
      if (!out.empty() && !dropped(kept)) {
        std::swap(c->alpha[out[random_.below(static_cast<std::uint32_t>(out.size()))]], c->alpha[kept]);
      } else if (out.empty()) {
        std::swap(c->alpha[random_.below(n)], c->alpha[kept]);
      }
    } else {
      c->placement = random_.below(static_cast<std::uint32_t>(placements()));
    }
    for (double& alpha : c->alpha) alpha = std::clamp(alpha, 1e-3, kFar);
  }

  const Trace& given_;
  const ClusterSpec& cluster_;
  const RunOptions& options_;
  const ReferenceOptions& how_;
  std::vector<Reference>& out_;
  Random random_;
  bool paired_ = false;
  Trace trace_;               ///< the given one with `slo_` as its deadlines
  std::vector<double> slo_;   ///< ms, by workflow
  std::vector<double> base_;  ///< ms
  std::vector<double> latency_;
  std::vector<Best> best_;  ///< by tau
  Workspace workspace_;
  std::uint32_t used_ = 0;  ///< of this tau's budget
  std::uint32_t evaluations_ = 0;
  Status status_ = Status::kOk;
};

}  // namespace

Status clairvoyantSearch(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                         std::span<const double> taus, const ReferenceOptions& how,
                         std::vector<Reference>* out) {
  out->clear();
  for (const double tau : taus) {
    if (!(tau > 0 && tau <= 1)) return Status::kBadValue;
    out->push_back({tau, HUGE_VAL, 0});
  }
  if (how.evaluations == 0) return Status::kBadValue;
  return LocalSearch(trace, cluster, options, how, out).run();
}

}  // namespace laxity
