// Traces and clusters for the programs of bench. Everything follows from a seed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "generated_trace.h"
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

struct Workload : GeneratedTrace {
  Trace trace;

  void bind() {
    if (!ok(trace.bind(columns()))) fail("trace");
  }
};

inline void chess(std::uint32_t workflows, Workload* w) {
  const ChessSpec spec{workflows, 3, 1};
  const GeneratedSizes sizes = chessSizes(spec);
  chessFill(spec, w->sized(workflows, sizes));
  w->bind();
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
