// Columns of any content: bound or refused; what is bound runs, and no law breaks.
#include <limits>
#include <vector>

#include "byte_random.h"
#include "order/registry.h"
#include "placement/registry.h"
#include "simulator/simulation.h"

using namespace laxity;

namespace {

/// Small numbers mostly, so that many columns are accepted; the edges of what is, and beyond, at times.
std::uint32_t number(std::uint32_t byte) {
  static constexpr std::uint32_t kEdges[] = {0,          0x7fff'ffff,    0x8000'0000, 0xffff'ffff,
                                             kMaxTokens, kMaxTokens + 1, 65'536,      1u << 24};
  return byte < 248 ? byte : kEdges[byte - 248];
}

double time(std::uint32_t byte) {
  static constexpr double kEdges[] = {-1,
                                      0x1p53,
                                      9.2e12,
                                      4.611686018427e12,
                                      1e300,
                                      0x1p-1074,
                                      std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
  return byte < 248 ? byte * 0.5 : kEdges[byte - 248];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4 || size > 4096) return -1;
  fuzz::Input::current().set(data + 1, size - 1);
  const auto byte = [] {
    std::uint64_t v = 0;
    fuzz::Input::current().take(1, &v);
    return static_cast<std::uint32_t>(v);
  };
  const std::uint32_t workflows = byte() % 16;
  const std::uint32_t calls = byte() % 48;
  const std::uint32_t edges = byte() % 64;
  std::vector<std::uint32_t> firstCall, prompt, cached, output, predicted, parentOffset, parents;
  std::vector<std::uint16_t> stage, model, tenant;
  std::vector<double> arrival, slo, gap;
  // Differences, so that offsets ascend unless a large number overflows them.
  const auto offsets = [&](std::vector<std::uint32_t>* to, std::uint32_t n, std::uint32_t last) {
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      to->push_back(at);
      at += number(byte());
    }
    to->push_back((data[0] & 1) != 0 ? at : last);
  };
  offsets(&firstCall, workflows, calls);
  offsets(&parentOffset, calls, edges);
  for (std::uint32_t e = 0; e < edges; ++e) parents.push_back(number(byte()));
  double clock = 0;
  for (std::uint32_t w = 0; w < workflows; ++w) {
    clock += time(byte());
    arrival.push_back(clock);
    slo.push_back(time(byte()));
    tenant.push_back(static_cast<std::uint16_t>(number(byte())));
  }
  for (std::uint32_t c = 0; c < calls; ++c) {
    stage.push_back(static_cast<std::uint16_t>(number(byte())));
    model.push_back(static_cast<std::uint16_t>(byte() % 8 == 0 ? 1 : 0));
    prompt.push_back(number(byte()));
    cached.push_back(number(byte()) / 4);
    output.push_back(number(byte()));
    predicted.push_back(number(byte()));
    gap.push_back(time(byte()));
  }
  TraceColumns c;
  c.workflows = workflows;
  c.calls = calls;
  c.edges = edges;
  c.firstCall = firstCall.data();
  c.stage = stage.data();
  c.promptTokens = prompt.data();
  c.outputTokens = output.data();
  c.parentOffset = parentOffset.data();
  c.parents = parents.data();
  if ((data[0] & 2) != 0) c.arrivalMs = arrival.data();
  if ((data[0] & 4) != 0) c.sloMs = slo.data();
  if ((data[0] & 8) != 0) c.tenant = tenant.data();
  if ((data[0] & 16) != 0) c.cachedTokens = cached.data();
  if ((data[0] & 32) != 0) c.predictedTokens = predicted.data();
  if ((data[0] & 64) != 0) c.toolGapMs = gap.data();
  if ((data[0] & 128) != 0) c.model = model.data();
  Trace trace;
  if (!ok(trace.bind(c))) return 0;

  ClusterSpec cluster;
  cluster.latencies.emplace_back();
  LatencyModel::constants({1, 0.5, 2, 0.1, 0.001}, &cluster.latencies.back());
  InstanceSpec spec;
  spec.maxSequences = 1 + data[1] % 8;
  spec.kvTokens = (data[1] & 16) != 0 ? 400 : 1'000'000'000;
  cluster.instances = {spec, spec};
  cluster.instances[1].model = (data[1] & 32) != 0 ? 1 : 0;
  RunOptions options;
  const auto orders = orderNames();
  const auto placements = placementNames();
  makeOrder(orders[data[2] % orders.size()], &options.order);
  makePlacement(placements[data[3] % placements.size()], &options.placement);
  options.feedback = (data[1] & 64) != 0 ? Feedback::kLease : Feedback::kBoundary;
  options.knowledge = static_cast<Knowledge>(data[2] / 64);
  options.sloBase = SloBase::kExclusive;
  options.laws = true;
  if (c.arrivalMs != nullptr) {
    options.arrivals.process = ArrivalProcess::kTrace;
    options.arrivals.recordedMs = arrival;
  }
  RunResult result;
  const Status status = simulate(trace, cluster, options, {}, &result);
  fuzz::require(status != Status::kLawBroken, "a law broke");
  fuzz::require(!ok(status) || result.completed <= workflows, "more workflows than there are");
  return 0;
}
