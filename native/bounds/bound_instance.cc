#include "bounds/bound_instance.h"

#include <algorithm>

#include "cluster/cluster.h"
#include "simulator/driver.h"

namespace laxity::bounds {
namespace {

constexpr Nanos kTransferSlack = 2;
/// Whatever is longer is held there, so that sums stay representable: less than it is, and so still a bound.
constexpr Nanos kMostOfCall = kMaxTime >> 17;
constexpr Nanos kMostOfPath = kMaxTime >> 3;

Nanos plus(Nanos a, Nanos b) { return a == kNever || b == kNever ? kNever : a + b; }

class Builder {
 public:
  Builder(const Trace& trace, const ClusterSpec& spec, const RunOptions& options, BoundInstance* out)
      : trace_(trace),
        c_(trace.columns()),
        spec_(spec),
        options_(options),
        out_(*out),
        cluster_(spec.latencies, options.tieSeed),
        first_(firstTokenOf(options.compat)),
        overlap_(options.compat == Compat::kNone ? options.pairs.overlap : 0) {}

  Status build() {
    if (!options_.script.empty() || options_.compat == Compat::kHexgenTicks) return Status::kUnsupported;
    out_ = BoundInstance{};
    for (std::uint32_t m = 0; m < spec_.instances.size(); ++m) {
      if (const Status status = cluster_.add(m, spec_.instances[m]); !ok(status)) return status;
      const bool unified = spec_.instances[m].role == Role::kUnified;
      if (m > 0 && unified != out_.unified) return Status::kUnsupported;
      out_.unified = unified;
    }
    out_.reservesAll = reservesAll();
    classes();
    if (const Status status = workflows(); !ok(status)) return status;
    calls();
    paths();
    return Status::kOk;
  }

 private:
  bool reservesAll() const {
    if (isHexgen(options_.compat)) return true;  // the prompt, which is all that is ever charged
    if (options_.error.lengths() || options_.parameters[Parameter::kPredictLengths] >= 1) return false;
    if (options_.knowledge == Knowledge::kOracle || c_.predictedTokens == nullptr) return true;
    for (std::uint32_t row = 0; row < c_.calls; ++row) {
      if (c_.predictedTokens[row] < c_.outputTokens[row]) return false;
    }
    return true;
  }

  void classes() {
    std::int64_t most = 0;
    for (std::uint32_t row = 0; row < c_.calls; ++row)
      most += std::int64_t{c_.promptTokens[row]} + c_.outputTokens[row];
    for (const HardwareClass& k : cluster_.classes()) {
      BoundClass b;
      b.model = k.spec.model;
      b.count = k.present;
      b.kvTokens = k.spec.kvTokens;
      b.maxSequences = k.spec.maxSequences;
      b.latency = &spec_.latencies[k.spec.latency];  // the caller's: it outlives this cluster
      b.spec = k.spec;
      b.exactPrefill = (chunked(b) && b.latency->hasConstants()) || k.spec.chunkTokens == 0;
      for (const std::uint32_t m : k.members)
        b.mayCache |= m < spec_.prefixCaches.size() && !spec_.prefixCaches[m].empty();
      if (k.spec.role != Role::kPrefill) {
        const std::uint32_t batch = std::min(b.maxSequences, c_.calls);
        // Where output takes no KV the context outgrows the cache.
        const std::int64_t context = isHexgen(options_.compat) ? most : std::min(b.kvTokens, most);
        b.floor = decodeFloor(*b.latency, batch, context);
        out_.decode.push_back(b);
      }
      if (k.spec.role != Role::kDecode) out_.prefill.push_back(b);
    }
  }

  Status workflows() {
    if (const Status status = Arrivals::check(options_.arrivals); !ok(status)) return status;
    Arrivals arrivals(options_.arrivals);
    RunOptions own = options_;
    own.pairs.overlap = overlap_;
    AloneTimes alone;
    SloRule rule(trace_, spec_, own);
    rule.price(cluster_, alone);
    for (std::uint32_t w = 0; w < c_.workflows; ++w) {
      BoundWorkflow b;
      b.arrival = arrivals.next();
      if (b.arrival == kNever) return Status::kBadTime;
      b.base = rule.base(w);
      b.firstCall = c_.firstCall[w];
      b.endCall = c_.firstCall[w + 1];
      out_.workflows.push_back(b);
    }
    return Status::kOk;
  }

  Nanos prefillOn(const BoundClass& k, std::uint32_t row) const {
    const std::uint32_t shared = c_.cachedTokens == nullptr ? 0 : c_.cachedTokens[row];
    if ((k.mayCache && shared > 0) || (!k.exactPrefill && !k.latency->hasConstants())) return 0;
    const Nanos alone = k.latency->prefill(c_.promptTokens[row], 0);
    const Nanos rounding = chunked(k) ? c_.promptTokens[row] / 2 + 1 : 0;
    return std::clamp<Nanos>(alone - rounding, 0, kMostOfCall);
  }

  static bool chunked(const BoundClass& k) {
    return k.spec.role == Role::kUnified && k.spec.mode == EngineMode::kChunked;
  }

  Nanos workOn(const BoundClass& k, std::uint32_t row, Nanos alone) const {
    const std::int64_t tokens = c_.promptTokens[row];
    const std::int64_t budget = k.spec.chunkTokens;
    if (k.exactPrefill || alone == 0 || tokens > budget) return alone;  // a larger prompt runs alone
    // Each of the two times is rounded once, and so is that of the batch.
    const Nanos perTokens = k.latency->prefill(static_cast<std::uint32_t>(2 * tokens), 0) - alone - 1;
    const Nanos base = alone - perTokens - 3;
    const auto share = static_cast<Nanos>(static_cast<double>(std::max<Nanos>(0, base)) *
                                          (static_cast<double>(tokens) / static_cast<double>(budget)));
    return std::max<Nanos>(0, perTokens + share - 3);
  }

  Nanos decodeOn(const BoundClass& k, const BoundCall& c) const {
    const Nanos rounding = c.iterations / 2 + 1;
    if (k.floor.aloneIsFastest)
      return std::max<Nanos>(0, k.latency->decodeAlone(c.firstContext, c.iterations) - rounding);
    const auto n = static_cast<double>(c.iterations);
    const double mean = static_cast<double>(c.firstContext) + (n - 1) / 2;
    return std::max<Nanos>(
        0, static_cast<Nanos>(std::min(1e18, n * k.floor.at(1, mean) * (1 - 1e-9))) - rounding);
  }

  void calls() {
    const std::size_t np = out_.prefill.size();
    const std::size_t nd = out_.decode.size();
    out_.calls.resize(c_.calls);
    out_.prefillTime.assign(c_.calls * np, kNever);
    out_.prefillWork.assign(c_.calls * np, kNever);
    out_.prefillAfter.assign(c_.calls * np, kNever);
    out_.decodeTime.assign(c_.calls * nd, kNever);
    out_.decodeBefore.assign(c_.calls * nd, kNever);
    for (std::uint32_t w = 0; w < c_.workflows; ++w) {
      for (std::uint32_t row = c_.firstCall[w]; row < c_.firstCall[w + 1]; ++row) {
        out_.calls[row].workflow = w;
        call(row);
      }
    }
  }

  void call(std::uint32_t row) {
    const std::size_t np = out_.prefill.size();
    const std::size_t nd = out_.decode.size();
    BoundCall& c = out_.calls[row];
    const std::int64_t firstTokens = first_ == FirstToken::kFromPrefill ? 1 : 0;
    c.model = c_.model == nullptr ? 0 : c_.model[row];
    c.prompt = c_.promptTokens[row];
    c.iterations = c_.outputTokens[row] - firstTokens;
    c.firstContext = c.prompt + firstTokens;
    c.kv = std::int64_t{c.prompt} + (isHexgen(options_.compat) ? 0 : c_.outputTokens[row]);
    c.gap = c_.toolGapMs == nullptr ? 0 : std::min(kMostOfPath, fromMs(c_.toolGapMs[row]));
    // What it holds when its last iteration begins decides whether it can run; a reservation asks for all.
    const std::int64_t holds = out_.reservesAll ? c.kv : c.kv - 1;
    for (std::size_t d = 0; d < nd; ++d) {
      const BoundClass& k = out_.decode[d];
      if (k.model == c.model && holds <= k.kvTokens)
        out_.decodeTime[row * nd + d] = std::min(kMostOfCall, decodeOn(k, c));
    }
    const std::int64_t moved = tokensToMove(c.prompt, overlap_);
    c.best = c.least = c.afterwards = kNever;
    for (std::size_t p = 0; p < np; ++p) {
      const BoundClass& from = out_.prefill[p];
      if (from.model != c.model || c.prompt > from.kvTokens) continue;
      const Nanos prefill = prefillOn(from, row);
      Nanos after = c.iterations == 0 ? 0 : kNever;
      for (std::size_t d = 0; d < nd && c.iterations > 0; ++d) {
        const Nanos decode = out_.decodeTime[row * nd + d];
        if (decode == kNever || (out_.unified && p != d)) continue;
        const Nanos transfer =
            out_.unified
                ? 0
                : std::clamp<Nanos>(transferTime(from.spec, out_.decode[d].spec, moved) - kTransferSlack, 0,
                                    kMostOfCall);
        after = std::min(after, transfer + decode);
        Nanos& before = out_.decodeBefore[row * nd + d];
        before = std::min(before, prefill + transfer);
        c.least = std::min(c.least, prefill + transfer);
      }
      if (after == kNever) continue;
      out_.prefillTime[row * np + p] = prefill;
      out_.prefillWork[row * np + p] = workOn(from, row, prefill);
      out_.prefillAfter[row * np + p] = after;
      c.best = std::min(c.best, prefill + after);
      c.afterwards = std::min(c.afterwards, after);
      if (c.iterations == 0) c.least = std::min(c.least, prefill);
    }
    c.feasible = c.best != kNever;
    if (!c.feasible) c.best = c.least = c.afterwards = 0;
  }

  /// Heads, tails and the critical path. Parents come before their children.
  void paths() {
    std::vector<std::uint32_t> before(c_.calls, kNoSlot);
    for (BoundWorkflow& w : out_.workflows) {
      std::uint32_t last = kNoSlot;
      for (std::uint32_t row = w.firstCall; row < w.endCall; ++row) {
        BoundCall& c = out_.calls[row];
        w.feasible &= c.feasible;
        for (std::uint32_t e = c_.parentOffset[row]; e < c_.parentOffset[row + 1]; ++e) {
          const std::uint32_t parent = w.firstCall + c_.parents[e];
          const Nanos end = plus(out_.calls[parent].head, out_.calls[parent].best);
          if (before[row] == kNoSlot || end > c.head) before[row] = parent;
          c.head = std::max(c.head, end);
        }
        c.head = std::min(kMostOfPath, c.head + c.gap);
        if (last == kNoSlot || c.head + c.best > w.critical) last = row;
        w.critical = std::max(w.critical, c.head + c.best);
      }
      for (std::uint32_t row = w.endCall; row-- > w.firstCall;) {
        const Nanos through = out_.calls[row].gap + out_.calls[row].best + out_.calls[row].tail;
        for (std::uint32_t e = c_.parentOffset[row]; e < c_.parentOffset[row + 1]; ++e) {
          BoundCall& parent = out_.calls[w.firstCall + c_.parents[e]];
          parent.tail = std::min(kMostOfPath, std::max(parent.tail, through));
        }
      }
      w.firstStep = static_cast<std::uint32_t>(out_.path.size());
      for (std::uint32_t row = last; row != kNoSlot; row = before[row]) {
        out_.path.push_back(row);
        w.pathTools = std::min(kMostOfPath, w.pathTools + out_.calls[row].gap);
      }
      w.endStep = static_cast<std::uint32_t>(out_.path.size());
    }
  }

  const Trace& trace_;
  const TraceColumns& c_;
  const ClusterSpec& spec_;
  const RunOptions& options_;
  BoundInstance& out_;
  Cluster cluster_;
  FirstToken first_;
  double overlap_;  ///< the other simulators' quirks have options of their own (simulate())
};

}  // namespace

Status boundInstance(const Trace& trace, const ClusterSpec& cluster, const RunOptions& options,
                     BoundInstance* out) {
  return Builder(trace, cluster, options, out).build();
}

}  // namespace laxity::bounds
