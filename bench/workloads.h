// Traces and clusters for the programs of bench. Everything follows from a seed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "simulator/simulation.h"
#include "workload/chess.h"

namespace laxity {

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

inline LatencyModel constants(double prefill, double decode) {
  LatencyConstants c;
  c.prefillPerTokenMs = prefill;
  c.decodeBaseMs = decode;
  c.decodePerSequenceMs = 0.1;
  c.decodePerContextMs = 0.00005;
  LatencyModel model;
  if (!ok(LatencyModel::constants(c, &model))) fail("constants");
  return model;
}

/// Columns that own their memory.
struct Workload {
  std::vector<std::uint32_t> firstCall, prompt, output, parentOffset, parents, cached;
  std::vector<std::uint16_t> stage;
  std::vector<double> gap;
  Trace trace;

  GeneratedColumns sized(std::uint32_t workflows, const GeneratedSizes& sizes) {
    firstCall.resize(workflows + 1);
    parentOffset.resize(sizes.calls + 1);
    parents.resize(sizes.edges);
    for (auto* column : {&prompt, &output, &cached}) column->resize(sizes.calls);
    stage.resize(sizes.calls);
    gap.resize(sizes.calls);
    return {firstCall.data(),    stage.data(),   prompt.data(), output.data(),
            parentOffset.data(), parents.data(), cached.data(), gap.data()};
  }
  void bind(std::uint32_t workflows, const GeneratedSizes& sizes) {
    TraceColumns c;
    c.workflows = workflows;
    c.calls = sizes.calls;
    c.edges = sizes.edges;
    c.firstCall = firstCall.data();
    c.stage = stage.data();
    c.promptTokens = prompt.data();
    c.outputTokens = output.data();
    c.toolGapMs = gap.data();
    c.parentOffset = parentOffset.data();
    c.parents = parents.data();
    if (!ok(trace.bind(c))) fail("trace");
  }
};

inline void chess(std::uint32_t workflows, Workload* w) {
  const ChessSpec spec{workflows, 3, 1};
  const GeneratedSizes sizes = chessSizes(spec);
  chessFill(spec, w->sized(workflows, sizes));
  w->bind(workflows, sizes);
}

/// HexGen-Flow's second heterogeneous cluster, as often as `instances` has room for it.
inline ClusterSpec unified(std::uint32_t instances, EngineMode mode) {
  ClusterSpec cluster;
  cluster.latencies = {constants(0.026, 39), constants(0.037, 60), constants(0.033, 56)};
  for (std::uint32_t i = 0; i < instances; ++i) {
    constexpr std::uint16_t kLatency[] = {0, 0, 1, 2};
    InstanceSpec spec;
    spec.mode = mode;
    spec.latency = kLatency[i % 4];
    spec.maxSequences = 256;
    spec.chunkTokens = mode == EngineMode::kChunked ? 512 : 0;
    spec.kvTokens = 1'500'000;
    cluster.instances.push_back(spec);
  }
  return cluster;
}

}  // namespace laxity
