#include "queueing.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace laxity::trial {
namespace {

template <class T>
bool sameBytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
bool sameBits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

}  // namespace

void OwnedTrace::workflow(Nanos arrival) {
  firstCall.push_back(calls());
  arrivalMs.push_back(toMs(arrival));
  tenant.push_back(0);
  sloMs.push_back(1);
}

std::uint32_t OwnedTrace::call(const CallSpec& c) {
  const std::uint32_t local = calls() - firstCall[workflows() - 1];
  stage.push_back(c.stage);
  model.push_back(c.model);
  prompt.push_back(c.prompt);
  output.push_back(c.output);
  predicted.push_back(c.predicted == 0 ? c.output : c.predicted);
  gapMs.push_back(toMs(c.gap));
  parents.insert(parents.end(), c.parents.begin(), c.parents.end());
  parentOffset.push_back(static_cast<std::uint32_t>(parents.size()));
  firstCall.back() = calls();
  return local;
}

TraceColumns OwnedTrace::columns() const {
  TraceColumns c;
  c.workflows = workflows();
  c.calls = calls();
  c.edges = static_cast<std::uint32_t>(parents.size());
  c.firstCall = firstCall.data();
  c.arrivalMs = recorded ? arrivalMs.data() : nullptr;
  c.tenant = tenant.data();
  c.sloMs = slos ? sloMs.data() : nullptr;
  c.stage = stage.data();
  c.model = model.data();
  c.promptTokens = prompt.data();
  c.outputTokens = output.data();
  c.predictedTokens = predictions ? predicted.data() : nullptr;
  c.toolGapMs = gapMs.data();
  c.parentOffset = parentOffset.data();
  c.parents = parents.data();
  return c;
}

Run run(const OwnedTrace& owned, const ClusterSpec& cluster, RunOptions options, bool log) {
  Run r;
  Trace trace;
  r.status = trace.bind(owned.columns());
  if (!ok(r.status)) return r;
  if (options.arrivals.process == ArrivalProcess::kTrace) options.arrivals.recordedMs = owned.arrivalMs;
  for (auto* column : {&r.latencyMs, &r.baseMs, &r.arrivalMs}) column->resize(owned.workflows());
  for (auto* column : {&r.readyMs, &r.leasedMs, &r.firstTokenMs, &r.finishedMs, &r.transferStartMs,
                       &r.transferredMs, &r.decodeMs})
    column->resize(owned.calls());
  for (auto* column : {&r.instance, &r.decodeInstance}) column->resize(owned.calls());
  RunOutputs out;
  out.latencyMs = r.latencyMs.data();
  out.baseMs = r.baseMs.data();
  out.arrivalMs = r.arrivalMs.data();
  out.instance = r.instance.data();
  out.readyMs = r.readyMs.data();
  out.leasedMs = r.leasedMs.data();
  out.firstTokenMs = r.firstTokenMs.data();
  out.finishedMs = r.finishedMs.data();
  out.transferStartMs = r.transferStartMs.data();
  out.transferredMs = r.transferredMs.data();
  out.decodeMs = r.decodeMs.data();
  out.decodeInstance = r.decodeInstance.data();
  if (log) out.log = &r.log;
  r.status = simulate(trace, cluster, options, out, &r.result);
  return r;
}

bool sameBytes(const Run& a, const Run& b) {
  return a.status == b.status && sameBytes(a.latencyMs, b.latencyMs) && sameBytes(a.baseMs, b.baseMs) &&
         sameBytes(a.arrivalMs, b.arrivalMs) && sameBytes(a.readyMs, b.readyMs) &&
         sameBytes(a.leasedMs, b.leasedMs) && sameBytes(a.firstTokenMs, b.firstTokenMs) &&
         sameBytes(a.finishedMs, b.finishedMs) && sameBytes(a.instance, b.instance) &&
         sameBytes(a.transferStartMs, b.transferStartMs) && sameBytes(a.transferredMs, b.transferredMs) &&
         sameBytes(a.decodeMs, b.decodeMs) && sameBytes(a.decodeInstance, b.decodeInstance) &&
         a.result.completed == b.result.completed && a.result.calls == b.result.calls &&
         a.result.rejected == b.result.rejected && a.result.evictions == b.result.evictions &&
         a.result.makespan == b.result.makespan && sameBits(a.result.meanMs, b.result.meanMs) &&
         sameBits(a.result.p50Ms, b.result.p50Ms) && sameBits(a.result.p95Ms, b.result.p95Ms) &&
         sameBits(a.result.p99Ms, b.result.p99Ms) && sameBits(a.result.sloScale95, b.result.sloScale95) &&
         sameBits(a.result.throughputPerS, b.result.throughputPerS);
}

bool sameLog(const EventLog& a, const EventLog& b) {
  return a.records().size() == b.records().size() &&
         std::memcmp(a.records().data(), b.records().data(), a.records().size() * sizeof(EventRecord)) == 0;
}

std::vector<Decision> decisions(const EventLog& log) {
  std::vector<Decision> all;
  for (const EventRecord& r : log.records()) {
    if (r.header.kind == EventKind::kDecision) all.push_back(r.decision);
  }
  return all;
}

bool sameDecisions(const EventLog& a, const EventLog& b) { return sameBytes(decisions(a), decisions(b)); }

LatencyModel latency(const WholeCosts& c, Nanos x) {
  LatencyModel model;
  const Status status =
      LatencyModel::constants({toMs(x * c.prefillBase), toMs(x * c.prefillPerToken), toMs(x * c.decodeBase),
                               toMs(x * c.decodePerSequence), toMs(x * c.decodePerContext)},
                              &model);
  if (!ok(status)) std::abort();
  return model;
}

Nanos aloneTime(const WholeCosts& c, std::uint32_t prompt, std::uint32_t output) {
  Nanos total = std::max<Nanos>(1, c.prefillBase + c.prefillPerToken * prompt);
  for (Nanos context = Nanos{prompt} + 1; context < Nanos{prompt} + output; ++context) {
    total += c.decodeBase + c.decodePerContext * context;
  }
  return total;
}

ClusterSpec clusterOf(std::span<const WholeCosts> costs, std::span<const InstanceSpec> instances,
                      Nanos scale) {
  ClusterSpec spec;
  for (const WholeCosts& c : costs) spec.latencies.push_back(latency(c, scale));
  spec.instances.assign(instances.begin(), instances.end());
  return spec;
}

InstanceSpec instanceSpec(std::uint16_t latency, std::uint32_t maxSequences, std::int64_t kvTokens,
                          std::uint16_t model) {
  InstanceSpec spec;
  spec.latency = latency;
  spec.maxSequences = maxSequences;
  spec.kvTokens = kvTokens;
  spec.model = model;
  return spec;
}

InstanceSpec inMode(InstanceSpec spec, EngineMode mode, Random& random) {
  spec.mode = mode;
  spec.chunkTokens = mode == EngineMode::kChunked ? between(random, 8, 1024) : 0;
  spec.decodeShare =
      static_cast<std::uint16_t>(mode == EngineMode::kDecodeShare ? between(random, 1, 999) : 0);
  return spec;
}

RunOptions baseOptions(std::string_view order, std::string_view placement, Binding binding) {
  RunOptions options;
  if (!makeOrder(order, &options.order) || !makePlacement(placement, &options.placement)) std::abort();
  options.binding = binding;
  options.knowledge = Knowledge::kOnline;
  options.sloBase = SloBase::kExclusive;
  options.arrivals.process = ArrivalProcess::kTrace;
  return options;
}

RunOptions pairOptions(std::string_view order, std::string_view placement, Binding binding) {
  RunOptions options = baseOptions(order, "round-robin", binding);
  if (!makePairPlacement(placement, &options.pairPlacement)) std::abort();
  return options;
}

std::uint32_t between(Random& random, std::uint32_t low, std::uint32_t high) {
  return low + random.below(high - low + 1);
}

WholeCosts randomCosts(Random& random) {
  return {between(random, 0, 5'000'000), between(random, 10'000, 200'000),
          between(random, 5'000'000, 30'000'000), between(random, 0, 500'000), between(random, 0, 2'000)};
}

OwnedTrace randomTrace(Random& random, const TraceShape& shape) {
  OwnedTrace trace;
  trace.predictions = shape.wrongShare > 0;
  Nanos t = 0;
  for (std::uint32_t w = 0; w < shape.workflows; ++w) {
    t += static_cast<Nanos>(random.exponential(static_cast<double>(shape.meanGap)));
    trace.workflow(t);
    const std::uint32_t calls = between(random, 1, shape.maxCalls);
    const auto model = static_cast<std::uint16_t>(random.below(shape.models));
    for (std::uint32_t i = 0; i < calls; ++i) {
      OwnedTrace::CallSpec c;
      c.prompt = between(random, 1, shape.maxPrompt);
      c.output = between(random, 1, shape.maxOutput);
      c.stage = static_cast<std::uint16_t>(random.below(5));
      c.model = model;
      if (shape.chains) {
        if (i > 0) c.parents = {i - 1};
      } else {
        for (std::uint32_t p = i > 3 ? i - 3 : 0; p < i; ++p) {
          if (random.uniform() < 0.5) c.parents.push_back(p);
        }
      }
      if (random.uniform() < shape.toolShare) c.gap = between(random, 1, 500'000'000);
      if (random.uniform() < shape.wrongShare) {
        const auto guess = static_cast<std::uint32_t>(c.output * random.exponential(0.8));
        c.predicted = std::clamp(guess, 1u, shape.maxOutput);
      }
      trace.call(c);
    }
  }
  return trace;
}

}  // namespace laxity::trial
