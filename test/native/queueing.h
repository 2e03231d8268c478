// Traces built call by call, runs with all their columns, and random configurations: shared by the queueing
// and the metamorphic tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/random.h"
#include "simulator/simulation.h"

namespace laxity::trial {

/// A trace that owns its columns. Times in ns: toMs and fromMs are inverse to each other below 2^51 ns (26
/// days).
struct OwnedTrace {
  std::vector<std::uint32_t> firstCall{0};
  std::vector<double> arrivalMs;
  std::vector<std::uint16_t> tenant;
  std::vector<double> sloMs;
  std::vector<std::uint16_t> stage;
  std::vector<std::uint16_t> model;
  std::vector<std::uint32_t> prompt;
  std::vector<std::uint32_t> output;
  std::vector<std::uint32_t> predicted;
  std::vector<double> gapMs;
  std::vector<std::uint32_t> parentOffset{0};
  std::vector<std::uint32_t> parents;
  bool recorded = true;      ///< the arrivals are bound
  bool predictions = false;  ///< the predicted lengths are bound
  bool slos = false;         ///< the SLOs are bound

  struct CallSpec {
    std::uint32_t prompt = 1;
    std::uint32_t output = 1;
    std::vector<std::uint32_t> parents = {};
    Nanos gap = 0;
    std::uint16_t stage = 0;
    std::uint16_t model = 0;
    std::uint32_t predicted = 0;  ///< 0 = the output
  };

  /// Opens a workflow; the calls that follow are its calls.
  void workflow(Nanos arrival);
  /// Returns the local index.
  std::uint32_t call(const CallSpec& c);

  std::uint32_t workflows() const { return static_cast<std::uint32_t>(firstCall.size() - 1); }
  std::uint32_t calls() const { return static_cast<std::uint32_t>(prompt.size()); }
  TraceColumns columns() const;
};

/// Everything a run can tell.
struct Run {
  Status status = Status::kOk;
  RunResult result;
  std::vector<double> latencyMs, baseMs, arrivalMs;                 ///< [workflows]
  std::vector<double> readyMs, leasedMs, firstTokenMs, finishedMs;  ///< [calls]
  std::vector<std::uint16_t> instance;                              ///< [calls]
  /// [calls]; of unified clusters NaN and 65535.
  std::vector<double> transferStartMs, transferredMs, decodeMs;
  std::vector<std::uint16_t> decodeInstance;
  EventLog log;
};

/// Arrivals are the recorded ones where the options do not choose another process;
/// `options.arrivals.recordedMs` is set here.
Run run(const OwnedTrace& trace, const ClusterSpec& cluster, RunOptions options, bool log = false);

/// Equal to the bit: columns (NaN equals NaN) and results.
bool sameBytes(const Run& a, const Run& b);
bool sameLog(const EventLog& a, const EventLog& b);
/// The decisions alone, in order: which call, where, why.
std::vector<Decision> decisions(const EventLog& log);
bool sameDecisions(const EventLog& a, const EventLog& b);

/// Costs in whole nanoseconds, so that every prefill and every iteration is one and nothing is ever rounded.
struct WholeCosts {
  Nanos prefillBase = 0;
  Nanos prefillPerToken = 0;
  Nanos decodeBase = 1;
  Nanos decodePerSequence = 0;
  Nanos decodePerContext = 0;
};
LatencyModel latency(const WholeCosts& costs, Nanos scale = 1);
/// By the definition, token by token: t_comp of a call alone.
Nanos aloneTime(const WholeCosts& costs, std::uint32_t prompt, std::uint32_t output);

ClusterSpec clusterOf(std::span<const WholeCosts> costs, std::span<const InstanceSpec> instances,
                      Nanos scale = 1);
InstanceSpec instanceSpec(std::uint16_t latency, std::uint32_t maxSequences, std::int64_t kvTokens,
                          std::uint16_t model = 0);

/// Another engine mode; budget and share are drawn where the mode has one.
InstanceSpec inMode(InstanceSpec spec, EngineMode mode, Random& random);

RunOptions baseOptions(std::string_view order, std::string_view placement, Binding binding);
/// Of a prefill-decode cluster.
RunOptions pairOptions(std::string_view order, std::string_view placement, Binding binding);

/// Uniform in [low, high].
std::uint32_t between(Random& random, std::uint32_t low, std::uint32_t high);

WholeCosts randomCosts(Random& random);

struct TraceShape {
  std::uint32_t workflows = 20;
  std::uint32_t maxCalls = 8;
  std::uint32_t maxPrompt = 2000;
  std::uint32_t maxOutput = 200;
  Nanos meanGap = kSecond;  ///< between arrivals
  double toolShare = 0.3;   ///< calls with a tool gap
  double wrongShare = 0;    ///< calls with a wrong prediction
  bool chains = false;      ///< every call has the previous one as its only parent
  std::uint16_t models = 1;
};
OwnedTrace randomTrace(Random& random, const TraceShape& shape);

}  // namespace laxity::trial
