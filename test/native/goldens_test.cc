// Per-request results of two public simulators of prefill-decode serving, through the whole of this one:
// DistServe's (both of its backends) and splitwise-sim. Their data stand beside the repository, in
// ../shared/golden; without them the cases say that they were skipped.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "model/polynomial.h"
#include "queueing.h"
#include "simulator/simulation.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

using Table = std::map<std::string, std::vector<double>>;

/// A CSV of numbers by column; empty where the file is absent.
Table readCsv(const std::string& path) {
  Table table;
  std::ifstream file(path);
  std::string line;
  std::vector<std::string> names;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string cell;
    for (std::size_t i = 0; std::getline(cells, cell, ','); ++i) {
      if (table.size() == names.size() && i < names.size() && !table.empty())
        table[names[i]].push_back(std::stod(cell));
      else
        names.push_back(cell);
    }
    if (table.empty()) {
      for (const std::string& name : names) table[name];
    }
  }
  return table;
}

/// One request, one call, lengths known.
OwnedTrace requests(const Table& table, const std::string& arrival, double toNs) {
  OwnedTrace trace;
  for (std::size_t i = 0; i < table.at("request").size(); ++i) {
    trace.workflow(static_cast<Nanos>(table.at(arrival)[i] * toNs + 0.5));
    trace.call({.prompt = static_cast<std::uint32_t>(table.at("input_tokens")[i]),
                .output = static_cast<std::uint32_t>(table.at("output_tokens")[i])});
  }
  return trace;
}

struct Spec {
  Role role;
  std::uint16_t latency;
  std::uint32_t batchTokens;
  Fine linkPerToken = 0;
};

InstanceSpec instanceOf(const Spec& s) {
  InstanceSpec spec = instanceSpec(s.latency, 65'535, 1'000'000'000);
  spec.role = s.role;
  spec.chunkTokens = s.batchTokens;
  spec.linkPerToken = s.linkPerToken;
  return spec;
}

RunOptions optionsOf(Compat compat, const char* pair) {
  RunOptions options = baseOptions("fcfs", "round-robin", Binding::kAtReveal);
  options.compat = compat;
  options.laws = true;
  REQUIRE(makePairPlacement(pair, &options.pairPlacement));
  return options;
}

LatencyModel polynomial(const LatencyPolynomial& terms) {
  LatencyModel m;
  REQUIRE(ok(LatencyModel::polynomial(terms, &m)));
  return m;
}

double largest(const std::vector<double>& actual, const std::vector<double>& golden) {
  REQUIRE(actual.size() == golden.size());
  double most = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) most = std::max(most, std::abs(actual[i] - golden[i]));
  return most;
}

std::vector<double> minus(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> difference;
  for (std::size_t i = 0; i < a.size(); ++i) difference.push_back(a[i] - b[i]);
  return difference;
}

const std::string kDistserve = "../shared/golden/simdistserve/";
const std::string kSplitwise = "../shared/golden/splitwise/";

/// TTFT, decode and end-to-end times of every request, ms, against a backend's file.
void checkDistserve(const std::string& expected, const ClusterSpec& cluster) {
  const Table golden = readCsv(kDistserve + expected);
  const OwnedTrace trace = requests(readCsv(kDistserve + "requests.csv"), "arrival_ms", 1e6);
  const Run r = run(trace, cluster, optionsOf(Compat::kDistserve, "distserve"));
  REQUIRE(ok(r.status));
  CHECK(r.result.completed == 300);
  const double ttft = largest(minus(r.firstTokenMs, trace.arrivalMs), golden.at("ttft_ms"));
  const double decode = largest(minus(r.finishedMs, r.firstTokenMs), golden.at("decode_ms"));
  const double whole = largest(r.latencyMs, golden.at("e2e_ms"));
  MESSAGE(expected << ": largest difference of TTFT " << ttft << " ms, decode " << decode
                   << " ms, end to end " << whole << " ms");
  CHECK(ttft <= 0.01);
  CHECK(decode <= 0.01);
  CHECK(whole <= 0.01);
}

/// DistServe's coefficients with what its simulator adds: 1 ms of pipeline, 2 ms and 0.0001 ms a token of
/// dispatch; its decode counts a token more than the context of every sequence.
LatencyModel distserveModel(const std::vector<double>& prefill, const std::vector<double>& fewer,
                            const std::vector<double>& more) {
  const auto decode = [](std::uint32_t from, const std::vector<double>& c) {
    return DecodeRegime{from, c[0] + 2, c[1] + c[2], c[1] + 1e-4};
  };
  return polynomial(
      {{{1, prefill[0] + 3, prefill[1] + 1e-4, prefill[2]}}, {decode(1, fewer), decode(95, more)}});
}

}  // namespace

TEST_SUITE("goldens") {
  TEST_CASE("DistServe's simulator: a prefill and a decode instance, per request") {
    if (readCsv(kDistserve + "requests.csv").empty()) {
      MESSAGE("skipped: " << kDistserve << " is absent");
      return;
    }
    ClusterSpec cluster;
    cluster.latencies = {distserveModel({18.10254647486372, 0.1019122572698738, 7.122264314252114e-06},
                                        {19.934702624895458, 0.0006269356524350583, 0.03850697740828398},
                                        {7.1661889468253595, 0.0005798000403396046, 0.15831096191764046})};
    cluster.instances = {instanceOf({Role::kPrefill, 0, 66'144}), instanceOf({Role::kDecode, 0, 0})};
    checkDistserve("expected_distserve.csv", cluster);
  }

  TEST_CASE("DistServe's simulator: vLLM on one instance, per request") {
    if (readCsv(kDistserve + "requests.csv").empty()) {
      MESSAGE("skipped: " << kDistserve << " is absent");
      return;
    }
    ClusterSpec cluster;
    cluster.latencies = {distserveModel({22.052204789310185, 0.14050923870128956, 8.076584822611088e-06},
                                        {23.475041008414784, 0.000592934466077393, 0.060726861260369455},
                                        {20.206356173691958, 0.0004907727036234946, 0.1200031385587413})};
    cluster.instances = {instanceOf({Role::kUnified, 0, 66'144})};
    checkDistserve("expected_vllm.csv", cluster);
  }

  TEST_CASE("splitwise-sim: a prefill and a decode instance, per request") {
    const Table table = readCsv(kSplitwise + "requests.csv");
    if (table.empty()) {
      MESSAGE("skipped: " << kSplitwise << " is absent");
      return;
    }
    const Table knots = readCsv(kSplitwise + "knots.csv");
    const std::vector<double>& x = knots.at("batch_tokens");
    const auto slope = [&](const std::vector<double>& y, std::size_t i) {
      return (y[i + 1] - y[i]) / (x[i + 1] - x[i]) * 1e3;
    };
    // Linear between the knots, the first and the last segment go on.
    LatencyPolynomial prefill{{}, {{1, 1, 0, 0}}};
    const std::vector<double>& seconds = knots.at("h100_prefill_s");
    for (std::size_t i = 0; i + 1 < x.size(); ++i) {
      const double perToken = slope(seconds, i);
      const auto from = static_cast<std::uint32_t>(i == 0 ? 1 : x[i]);
      prefill.prefill.push_back({from, seconds[i] * 1e3 - perToken * x[i], perToken, 0});
    }
    // The original looks the iteration up at the number of sequences, which lies below the first knot.
    const std::vector<double>& iteration = knots.at("a100_token_s");
    const double perSequence = slope(iteration, 0);
    const LatencyPolynomial decode{{{1, 1, 0, 0}},
                                   {{1, iteration[0] * 1e3 - perSequence * x[0], perSequence, 0}}};
    ClusterSpec cluster;
    cluster.latencies = {polynomial(prefill), polynomial(decode)};
    // 2 * 8192 * 80 * 2 bytes a token over 200 GiB/s.
    const Fine link = fineFromMs(2.0 * 8192 * 80 * 2 / (200.0 * (1 << 30)) * 1e3);
    cluster.instances = {instanceOf({Role::kPrefill, 0, 2'048, link}),
                         instanceOf({Role::kDecode, 1, 0, link})};

    const Table golden = readCsv(kSplitwise + "expected.csv");
    const OwnedTrace trace = requests(table, "arrival_s", 1e9);
    RunOptions options = optionsOf(Compat::kSplitwise, "splitwise");
    options.arrivals.recordedMs = trace.arrivalMs;
    Trace bound;
    REQUIRE(ok(bound.bind(trace.columns())));
    std::vector<double> firstToken(300), whole(300), joined(300);
    RunOutputs out;
    out.firstTokenMs = firstToken.data();
    out.latencyMs = whole.data();
    out.decodeMs = joined.data();
    RunResult result;
    REQUIRE(ok(simulate(bound, cluster, options, out, &result)));
    CHECK(result.completed == 300);
    std::vector<double> ttft = minus(firstToken, trace.arrivalMs);
    std::vector<double> gap = minus(joined, firstToken);  // to the first block of iterations
    for (std::vector<double>* ms : {&ttft, &whole, &gap}) {
      for (double& value : *ms) value *= 1e-3;
    }
    const double first = largest(ttft, golden.at("ttft_s"));
    const double end = largest(whole, golden.at("e2e_s"));
    const double between = largest(gap, golden.at("second_token_gap_s"));
    MESSAGE("largest difference of TTFT " << first << " s, end to end " << end
                                          << " s, of the wait for decode " << between << " s");
    CHECK(first <= 1e-5);
    CHECK(end <= 1e-5);
    CHECK(between <= 1e-5);
  }
}
