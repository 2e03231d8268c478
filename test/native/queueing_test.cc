// The simulator against exact queueing theory (validation.md 1, rows 1 to 6, 9, 10, 12) and its conservation
// laws (section 2).
//
// How a queue is configured: workflows of one call with one output token, so that a call is its prefill;
// batch limit 1; 1 us per prompt token. Service times are exponential of mean 1 s, rounded to whole tokens
// (1e-6 of the mean, at least one token: the mean moves by less than 1e-12, far below any interval); arrivals
// are the package's own Poisson stream, rounded to ns.
//
// Statistics: 30 independent replications with fixed seeds, each started empty and cut by 2,000 jobs (28
// relaxation times of M/M/1, the slowest), all jobs completed. Student-t intervals over the replications,
// jointly 99 % over the kNumbers numbers of this file (Bonferroni). Fails where an interval misses its target
// or is wider than 3 % on a side.
//
// Control variates make 2 % visible. All are functions of the inputs alone with exactly known means, and
// their coefficients are constants fixed beforehand, so the estimates are unbiased and the intervals ordinary
// whatever the coefficients are:
//   - mean service and mean inter-arrival time; coefficients: derivatives of the target by them (central
//   differences);
//   - the product control q = mean of x'(i) y(i), y(i) = sum of 0.95^k x(i - 1 - k), x = (S - 1) - c (A -
//   1/lambda),
//     x'(i) = (S(i) - 1) - c (A(i) - 1/lambda): zero mean since x'(i) and y(i) are independent; it follows
//     clusters of long services and short gaps. Coefficients: rounded, from a pilot of the plain recursions
//     with other seeds.
#include "queueing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/statistics.h"
#include "simulator/engine.h"
#include "simulator/simulation.h"

using namespace laxity;
using namespace laxity::trial;

namespace {

constexpr int kReplications = 30;
constexpr int kLeaseReplications = 5;  ///< a million jobs
constexpr std::uint32_t kWarmUp = 2000;
constexpr double kLoad = 0.8;
constexpr double kFilter = 0.95;
/// M/M/1: W, Wq, L, P95, P99; M/D/1: W, Wq, L; M/M/2, 4, 8: W, Wq, L, P(wait). The lease runs give the same
/// bytes. M/G/1: Wq; two classes: Wq of each; SJF: T; fork-join: T; closed loop at three sizes: X, R.
constexpr int kNumbers = 5 + 3 + 3 * 4 + 1 + 2 + 1 + 1 + 3 * 2;
constexpr double kConfidence = 1 - 0.01 / kNumbers;

// --- theory, for a mean service time s, a mean inter-arrival time a and c servers

struct Queue {
  int servers;
  bool deterministic;
};

/// Erlang C.
double waitProbability(const Queue& q, double s, double a) {
  const double offered = s / a;
  double term = 1, below = 0;
  for (int k = 0; k < q.servers; ++k) {
    below += term;
    term *= offered / (k + 1);
  }
  const double full = term / (1 - offered / q.servers);
  return full / (below + full);
}
double waitTime(const Queue& q, double s, double a) {
  const double wait = waitProbability(q, s, a) * s / (q.servers * (1 - s / a / q.servers));
  return q.deterministic ? wait / 2 : wait;  // Pollaczek and Khinchine; deterministic for one server only
}
double sojournTime(const Queue& q, double s, double a) { return waitTime(q, s, a) + s; }
double inSystem(const Queue& q, double s, double a) { return sojournTime(q, s, a) / a; }
double sojourn95(const Queue&, double s, double a) { return -std::log(0.05) * s / (1 - s / a); }
double sojourn99(const Queue&, double s, double a) { return -std::log(0.01) * s / (1 - s / a); }

using Formula = double (*)(const Queue&, double, double);

// --- measurement

struct System {
  const char* name;
  Queue queue;
  std::uint32_t jobs;  ///< per replication, after the warm-up
  double product;      ///< coefficient of the product control for Wq and W
  std::uint64_t seed;
};

constexpr System kMM1{"M/M/1", {1, false}, 200'000, 2.6, 1001};
constexpr System kMD1{"M/D/1", {1, true}, 90'000, 1.4, 1002};
constexpr System kMM2{"M/M/2", {2, false}, 150'000, 1.5, 1003};
constexpr System kMM4{"M/M/4", {4, false}, 210'000, 0.63, 1004};
constexpr System kMM8{"M/M/8", {8, false}, 320'000, 0.345, 1005};

double meanGap(const System& s) { return 1 / (kLoad * s.queue.servers); }

/// The columns of one replication, as nanoseconds.
struct Jobs {
  std::vector<Nanos> arrival, service, wait, finish;
  Nanos sumOfLatencies = 0;  ///< of the workflows' own column
};

class Farm {
 public:
  explicit Farm(const System& system) : system_(system), n_(kWarmUp + system.jobs) {
    firstCall_.resize(n_ + 1);
    for (std::uint32_t i = 0; i <= n_; ++i) firstCall_[i] = i;
    parentOffset_.assign(n_ + 1, 0);
    stage_.assign(n_, 0);
    output_.assign(n_, 1);
    prompt_.resize(n_);
    for (auto* column : {&arrival_, &latency_, &ready_, &leased_, &finished_}) column->resize(n_);
    const WholeCosts costs{0, 1000, 1'000'000, 0, 0};
    const std::vector<InstanceSpec> instances(static_cast<std::size_t>(system.queue.servers),
                                              instanceSpec(0, 1, 1'000'000'000));
    cluster_ = clusterOf(std::span(&costs, 1), instances);
    cluster_.templates = {{{0, 1'000'000, 1}}};  // a constant SLO base costs nothing
  }

  /// All jobs, warm-up included.
  void run(int replication, Feedback feedback, Jobs* jobs) {
    Random random(system_.seed, static_cast<std::uint64_t>(replication));
    for (std::uint32_t& tokens : prompt_) {
      const double s = system_.queue.deterministic ? 1 : random.exponential(1);
      tokens = std::max(1u, static_cast<std::uint32_t>(s * 1e6 + 0.5));
    }
    TraceColumns columns;
    columns.workflows = columns.calls = n_;
    columns.firstCall = firstCall_.data();
    columns.stage = stage_.data();
    columns.promptTokens = prompt_.data();
    columns.outputTokens = output_.data();
    columns.parentOffset = parentOffset_.data();
    Trace trace;
    REQUIRE(ok(trace.bind(columns)));

    RunOptions options = baseOptions("fcfs", "global-queue", Binding::kAtCredit);
    options.feedback = feedback;
    options.sloBase = SloBase::kTemplate;
    options.arrivals = {ArrivalProcess::kPoisson,
                        1 / meanGap(system_),
                        system_.seed,
                        static_cast<std::uint64_t>(replication),
                        {}};
    RunOutputs out;
    out.latencyMs = latency_.data();
    out.arrivalMs = arrival_.data();
    out.readyMs = ready_.data();
    out.leasedMs = leased_.data();
    out.finishedMs = finished_.data();
    RunResult result;
    REQUIRE(ok(simulate(trace, cluster_, options, out, &result)));
    REQUIRE(result.completed == n_);

    for (auto* column : {&jobs->arrival, &jobs->service, &jobs->wait, &jobs->finish}) column->resize(n_);
    jobs->sumOfLatencies = 0;
    for (std::uint32_t i = 0; i < n_; ++i) {
      jobs->arrival[i] = fromMs(arrival_[i]);
      jobs->service[i] = Nanos{prompt_[i]} * 1000;
      jobs->wait[i] = fromMs(leased_[i]) - fromMs(ready_[i]);
      jobs->finish[i] = fromMs(finished_[i]);
      jobs->sumOfLatencies += fromMs(latency_[i]);
    }
  }

 private:
  System system_;
  std::uint32_t n_;
  ClusterSpec cluster_;
  std::vector<std::uint32_t> firstCall_, parentOffset_, prompt_, output_;
  std::vector<std::uint16_t> stage_;
  std::vector<double> arrival_, latency_, ready_, leased_, finished_;
};

/// By insertion: a job overtakes a few others at most.
void sortNearlySorted(std::vector<Nanos>* times) {
  for (std::size_t i = 1; i < times->size(); ++i) {
    const Nanos t = (*times)[i];
    std::size_t at = i;
    for (; at > 0 && (*times)[at - 1] > t; --at) (*times)[at] = (*times)[at - 1];
    (*times)[at] = t;
  }
}

/// Integral over [from, to] of the number in the system, from the instants of arrival and departure alone.
__int128_t area(const std::vector<Nanos>& arrivals, const std::vector<Nanos>& departures, Nanos from,
                Nanos to) {
  __int128_t sum = 0;
  std::int64_t present = 0;
  Nanos last = from;
  std::size_t a = 0, d = 0;
  while (a < arrivals.size() || d < departures.size()) {
    const bool arrives = a < arrivals.size() && (d == departures.size() || arrivals[a] <= departures[d]);
    const Nanos t = arrives ? arrivals[a++] : departures[d++];
    const Nanos until = std::clamp(t, from, to);
    sum += static_cast<__int128_t>(present) * (until - last);
    last = until;
    present += arrives ? 1 : -1;
  }
  return sum;
}

/// Jobs whose wait or finish differs from the recursion of Kiefer and Wolfowitz (one server: Lindley).
std::uint32_t offTheRecursion(const Jobs& jobs, int servers) {
  std::vector<Nanos> free(static_cast<std::size_t>(servers), 0);
  std::uint32_t off = 0;
  for (std::size_t i = 0; i < jobs.arrival.size(); ++i) {
    const auto next = std::min_element(free.begin(), free.end());
    const Nanos start = std::max(jobs.arrival[i], *next);
    *next = start + jobs.service[i];
    if (jobs.wait[i] != start - jobs.arrival[i] || jobs.finish[i] != *next) ++off;
  }
  return off;
}

struct Controls {
  double service = 0;  ///< mean - 1
  double gap = 0;      ///< mean - 1 / lambda
  double product = 0;
};

Controls controlsOf(const Jobs& jobs, const System& system) {
  Controls c;
  const double gap = meanGap(system);
  double y = 0;
  Nanos last = 0;
  for (std::size_t i = 0; i < jobs.arrival.size(); ++i) {
    const double s = toSeconds(jobs.service[i]) - 1;
    const double a = toSeconds(jobs.arrival[i] - last) - gap;
    last = jobs.arrival[i];
    const double x = s - system.queue.servers * a;
    if (i >= kWarmUp) {
      c.service += s;
      c.gap += a;
      c.product += x * y;
    }
    y = kFilter * y + x;
  }
  c.service /= system.jobs;
  c.gap /= system.jobs;
  c.product /= system.jobs;
  return c;
}

struct Number {
  const char* name;
  Formula target;
  double product = 0;               ///< coefficient of the product control
  std::vector<double> values = {};  ///< one per replication, controlled

  void add(double raw, const Controls& c, const System& s) {
    constexpr double h = 1e-5;
    const double a = meanGap(s);
    const double byService = (target(s.queue, 1 + h, a) - target(s.queue, 1 - h, a)) / (2 * h);
    const double byGap = (target(s.queue, 1, a * (1 + h)) - target(s.queue, 1, a * (1 - h))) / (2 * h * a);
    values.push_back(raw - byService * c.service - byGap * c.gap - product * c.product);
  }
  Interval interval() const { return meanInterval(values, kConfidence); }
  bool hits(const System& s) const {
    const Interval i = interval();
    const double goal = target(s.queue, 1, meanGap(s));
    return i.low <= goal && goal <= i.high;
  }
};

/// LAXITY_TABLE=1 prints target, estimate and interval of every number.
void report(const System& s, const Number& n, const char* note) {
  if (std::getenv("LAXITY_TABLE") == nullptr) return;
  const Interval i = n.interval();
  const double goal = n.target(s.queue, 1, meanGap(s));
  std::printf("| %s | %s%s | %.6f | %.6f | [%.6f, %.6f] | %.2f %% | %s |\n", s.name, n.name, note, goal,
              i.mean, i.low, i.high, 100 * (i.high - i.low) / 2 / goal, n.hits(s) ? "hit" : "missed");
}

void check(const System& s, const Number& n) {
  const Interval i = n.interval();
  const double goal = n.target(s.queue, 1, meanGap(s));
  CAPTURE(s.name);
  CAPTURE(n.name);
  CAPTURE(goal);
  CAPTURE(i.low);
  CAPTURE(i.high);
  report(s, n, "");
  CHECK(n.hits(s));
  CHECK((i.high - i.low) / 2 <= 0.03 * goal);
}

/// What a core that loses the wait of every 50th job would have measured.
std::vector<Nanos> losingWaits(const std::vector<Nanos>& waits) {
  std::vector<Nanos> lossy = waits;
  for (std::size_t i = 0; i < lossy.size(); i += 50) lossy[i] = 0;
  return lossy;
}

double meanWait(const std::vector<Nanos>& waits) {
  double sum = 0;
  for (std::size_t i = kWarmUp; i < waits.size(); ++i) sum += toSeconds(waits[i]);
  return sum / static_cast<double>(waits.size() - kWarmUp);
}

bool sameJobs(const Jobs& a, const Jobs& b) {
  return a.arrival == b.arrival && a.wait == b.wait && a.finish == b.finish &&
         a.sumOfLatencies == b.sumOfLatencies;
}

/// The whole test of one system. `lease`: the first replications are also run with feedback lease and
/// lookahead 0, which must give the same columns (CONTRACT 6), so that its numbers are these.
void examine(const System& s, bool lease) {
  Number wq{"Wq", waitTime, s.product};
  Number w{"W", sojournTime, s.product};
  Number l{"L", inSystem, s.product / meanGap(s)};
  Number waited{"P(wait)", waitProbability};
  Number p95{"P95", sojourn95, 12};
  Number p99{"P99", sojourn99, 21};
  Number lossy{"Wq", waitTime, s.product};
  const bool exponentialSojourn = s.queue.servers == 1 && !s.queue.deterministic;

  Farm farm(s);
  Jobs jobs, again;
  std::uint32_t off = 0, leaseDiffers = 0, littleBroken = 0;
  for (int r = 0; r < kReplications; ++r) {
    farm.run(r, Feedback::kBoundary, &jobs);
    off += offTheRecursion(jobs, s.queue.servers);
    if (lease && r < kLeaseReplications) {
      farm.run(r, Feedback::kLease, &again);
      leaseDiffers += sameJobs(jobs, again) ? 0 : 1;
    }
    const std::size_t n = jobs.arrival.size();
    std::vector<Nanos> departures = jobs.finish;
    sortNearlySorted(&departures);
    // The run starts and ends empty: Little's law is an identity of integers.
    if (area(jobs.arrival, departures, 0, departures.back()) != jobs.sumOfLatencies) ++littleBroken;

    const Controls c = controlsOf(jobs, s);
    const Nanos from = jobs.arrival[kWarmUp], to = jobs.arrival[n - 1];
    l.add(static_cast<double>(area(jobs.arrival, departures, from, to)) / static_cast<double>(to - from), c,
          s);
    wq.add(meanWait(jobs.wait), c, s);
    lossy.add(meanWait(losingWaits(jobs.wait)), c, s);
    std::vector<double> sojourns(n - kWarmUp);
    double waiters = 0;
    for (std::size_t i = kWarmUp; i < n; ++i) {
      sojourns[i - kWarmUp] = toSeconds(jobs.finish[i] - jobs.arrival[i]);
      waiters += jobs.wait[i] > 0 ? 1 : 0;
    }
    w.add(mean(sojourns), c, s);
    waited.add(waiters / static_cast<double>(n - kWarmUp), c, s);
    if (exponentialSojourn) {
      p95.add(upperQuantile(sojourns, 0.95), c, s);
      p99.add(upperQuantile(sojourns, 0.99), c, s);
    }
  }
  CAPTURE(s.name);
  CHECK(off == 0);
  CHECK(leaseDiffers == 0);
  CHECK(littleBroken == 0);
  check(s, w);
  check(s, wq);
  check(s, l);
  if (exponentialSojourn) {
    check(s, p95);
    check(s, p99);
  }
  if (s.queue.servers > 1) check(s, waited);
  report(s, lossy, " losing 1 wait in 50");
  CHECK(!lossy.hits(s));
}

}  // namespace

TEST_SUITE("queueing") {
  TEST_CASE("the formulas give validation.md's targets") {
    const auto near = [](double a, double b) { return std::abs(a - b) < 5e-7; };
    CHECK(near(waitTime(kMM1.queue, 1, meanGap(kMM1)), 4));
    CHECK(near(sojournTime(kMM1.queue, 1, meanGap(kMM1)), 5));
    CHECK(near(inSystem(kMM1.queue, 1, meanGap(kMM1)), 4));
    CHECK(near(sojourn95(kMM1.queue, 1, meanGap(kMM1)), 14.978661));
    CHECK(near(sojourn99(kMM1.queue, 1, meanGap(kMM1)), 23.025851));
    CHECK(near(waitTime(kMD1.queue, 1, meanGap(kMD1)), 2));
    CHECK(near(waitTime(kMM2.queue, 1, meanGap(kMM2)), 1.777778));
    CHECK(near(waitTime(kMM4.queue, 1, meanGap(kMM4)), 0.745541));
    CHECK(near(waitTime(kMM8.queue, 1, meanGap(kMM8)), 0.286028));
    CHECK(near(waitProbability(kMM2.queue, 1, meanGap(kMM2)), 0.711111));
    CHECK(near(waitProbability(kMM4.queue, 1, meanGap(kMM4)), 0.596432));
    CHECK(near(waitProbability(kMM8.queue, 1, meanGap(kMM8)), 0.457645));
  }

  TEST_CASE("M/M/1, boundary and lease; a core that loses one wait in fifty fails") { examine(kMM1, true); }
  TEST_CASE("M/D/1; a core that loses one wait in fifty fails") { examine(kMD1, false); }
  TEST_CASE("M/M/2; a core that loses one wait in fifty fails") { examine(kMM2, false); }
  TEST_CASE("M/M/4, boundary and lease; a core that loses one wait in fifty fails") { examine(kMM4, true); }
  TEST_CASE("M/M/8; a core that loses one wait in fifty fails") { examine(kMM8, false); }

  TEST_CASE("one queue per instance: the same M/M/1 by every placement and order") {
    // One instance: no placement has a choice, and with one call a workflow these orders all serve by
    // arrival.
    Random random(77);
    OwnedTrace trace;
    Nanos t = 0;
    for (int i = 0; i < 3000; ++i) {
      t += static_cast<Nanos>(random.exponential(1.25e9));
      trace.workflow(t);
      trace.call({.prompt = std::max(1u, static_cast<std::uint32_t>(random.exponential(1e6)))});
    }
    const WholeCosts costs{0, 1000, 1'000'000, 0, 0};
    const InstanceSpec one = instanceSpec(0, 1, 1'000'000'000);
    const ClusterSpec cluster = clusterOf(std::span(&costs, 1), std::span(&one, 1));
    const Run reference = run(trace, cluster, baseOptions("fcfs", "round-robin", Binding::kAtReveal));
    REQUIRE(ok(reference.status));
    for (const char* order : {"fcfs", "workflow-fcfs"}) {
      for (const std::string_view placement : placementNames()) {
        for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
          for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
            RunOptions options = baseOptions(order, placement, binding);
            options.feedback = feedback;
            CHECK(sameBytes(run(trace, cluster, options), reference));
          }
        }
      }
    }
  }
}

namespace {

/// Columns of a workload whose calls are prefills of 1 us a token, and one run of it.
struct Shop {
  explicit Shop(std::uint32_t workflows, std::uint32_t callsEach, std::uint16_t instances = 1)
      : workflows_(workflows), calls_(workflows * callsEach) {
    for (std::uint32_t i = 0; i <= workflows; ++i) firstCall.push_back(i * callsEach);
    parentOffset.assign(calls_ + 1, 0);
    stage.assign(calls_, 0);
    model.assign(calls_, 0);
    output.assign(calls_, 1);
    prompt.resize(calls_);
    slo.assign(workflows, 1);
    for (auto* column : {&arrival, &latency}) column->resize(workflows);
    for (auto* column : {&ready, &leased, &finished}) column->resize(calls_);
    const WholeCosts costs{0, 1000, 1'000'000, 0, 0};
    std::vector<InstanceSpec> specs;
    for (std::uint16_t m = 0; m < instances; ++m) specs.push_back(instanceSpec(0, 1, 1'000'000'000, m));
    cluster = clusterOf(std::span(&costs, 1), specs);
    cluster.templates = {{{0, 1'000'000, 1}}};
  }

  void run(const char* order, std::uint64_t seed, int replication, Feedback feedback = Feedback::kBoundary) {
    TraceColumns columns;
    columns.workflows = workflows_;
    columns.calls = calls_;
    columns.edges = static_cast<std::uint32_t>(parents.size());
    columns.firstCall = firstCall.data();
    columns.sloMs = slo.data();
    columns.stage = stage.data();
    columns.model = model.data();
    columns.promptTokens = prompt.data();
    columns.outputTokens = output.data();
    columns.toolGapMs = gap.empty() ? nullptr : gap.data();
    columns.parentOffset = parentOffset.data();
    columns.parents = parents.data();
    if (!recorded.empty()) columns.arrivalMs = recorded.data();
    Trace trace;
    REQUIRE(ok(trace.bind(columns)));
    RunOptions options = baseOptions(order, "global-queue", Binding::kAtCredit);
    options.feedback = feedback;
    options.sloBase = SloBase::kTemplate;
    if (recorded.empty()) {
      options.arrivals = {ArrivalProcess::kPoisson, kLoad, seed, static_cast<std::uint64_t>(replication), {}};
    } else {
      options.arrivals.recordedMs = recorded;
    }
    RunOutputs out;
    out.arrivalMs = arrival.data();
    out.latencyMs = latency.data();
    out.readyMs = ready.data();
    out.leasedMs = leased.data();
    out.finishedMs = finished.data();
    RunResult result;
    REQUIRE(ok(simulate(trace, cluster, options, out, &result)));
    REQUIRE(result.completed == workflows_);
  }
  double waited(std::uint32_t call) const { return (leased[call] - ready[call]) * 1e-3; }

  static std::uint32_t tokens(double seconds) {
    return std::max(1u, static_cast<std::uint32_t>(seconds * 1e6 + 0.5));
  }

  ClusterSpec cluster;
  std::vector<std::uint32_t> firstCall, parentOffset, parents, prompt, output;
  std::vector<std::uint16_t> stage, model;
  std::vector<double> slo, gap, recorded, arrival, latency, ready, leased, finished;

 private:
  std::uint32_t workflows_;
  std::uint32_t calls_;
};

/// One number with its target, its control coefficients (from a pilot of the plain recursions with other
/// seeds) and one controlled value per replication.
struct Target {
  const char* name;
  double goal;
  /// Of: mean service, mean gap, the product control, mean squared service, the share of the first class.
  double by[5] = {};
  std::vector<double> values = {};

  void add(double raw, const double (&controls)[5]) {
    for (int i = 0; i < 5; ++i) raw -= by[i] * controls[i];
    values.push_back(raw);
  }
  bool hits() const {
    const Interval i = meanInterval(values, kConfidence);
    return i.low <= goal && goal <= i.high;
  }
  void check() const {
    const Interval i = meanInterval(values, kConfidence);
    CAPTURE(name);
    CAPTURE(goal);
    CAPTURE(i.low);
    CAPTURE(i.high);
    if (std::getenv("LAXITY_TABLE") != nullptr) {
      std::printf("| %s | %.6f | %.6f | [%.6f, %.6f] | %.2f %% | %s |\n", name, goal, i.mean, i.low, i.high,
                  100 * (i.high - i.low) / 2 / goal, hits() ? "hit" : "missed");
    }
    CHECK(values.size() == kReplications);
    CHECK(hits());
    CHECK((i.high - i.low) / 2 <= 0.03 * goal);
  }
};

/// Controls of a single-server queue with Poisson arrivals of rate 0.8 and mean service 1.
struct SingleServer {
  Shop shop;
  std::uint64_t seed;
  double squared;  ///< E[S^2]
  std::uint32_t jobs;
  double controls[5] = {};

  SingleServer(std::uint32_t n, std::uint64_t s, double e2)
      : shop(kWarmUp + n, 1), seed(s), squared(e2), jobs(n) {}

  /// `service(random)` in seconds; `first(job)`: whether it is of the first class.
  template <class Service, class First>
  void run(const char* order, int replication, Service&& service, First&& first) {
    Random random(seed, static_cast<std::uint64_t>(replication));
    for (std::uint32_t& tokens : shop.prompt) tokens = Shop::tokens(service(random));
    for (double& slo : shop.slo) slo = random.below(2) == 0 ? 1 : 1e12;
    shop.run(order, seed, replication);
    std::fill(std::begin(controls), std::end(controls), 0);
    double y = 0, last = 0;
    for (std::uint32_t i = 0; i < kWarmUp + jobs; ++i) {
      const double s = shop.prompt[i] * 1e-6;
      const double gap = (shop.arrival[i] - last) * 1e-3 - 1 / kLoad;
      last = shop.arrival[i];
      const double x = s - 1 - gap;
      if (i >= kWarmUp) {
        controls[0] += s - 1;
        controls[1] += gap;
        controls[2] += x * y;
        controls[3] += s * s - squared;
        controls[4] += first(i) ? 0.5 : -0.5;
      }
      y = kFilter * y + x;
    }
    for (double& c : controls) c /= jobs;
  }
  /// Mean wait of the jobs for which `which` holds.
  template <class Which>
  double meanWait(Which&& which) const {
    double sum = 0;
    std::uint32_t count = 0;
    for (std::uint32_t i = kWarmUp; i < kWarmUp + jobs; ++i) {
      if (!which(i)) continue;
      sum += shop.waited(i);
      ++count;
    }
    return sum / count;
  }
};

}  // namespace

TEST_SUITE("queueing") {
  // Row 3: 0.9 exponential of mean 0.5 and 0.1 of mean 5.5; Pollaczek and Khinchine: 0.8 * 6.5 / (2 * 0.2).
  TEST_CASE("M/G/1 with hyperexponential service") {
    Target wq{"M/G/1 H2 | Wq", 13, {43, -62, 4.8, 2.27, 0}};
    SingleServer server(160'000, 1101, 6.5);
    for (int r = 0; r < kReplications; ++r) {
      server.run(
          "fcfs", r, [](Random& random) { return random.exponential(random.below(10) > 0 ? 0.5 : 5.5); },
          [](std::uint32_t) { return true; });
      server.controls[4] = 0;
      wq.add(server.meanWait([](std::uint32_t) { return true; }), server.controls);
    }
    wq.check();
  }

  // Row 5, by two deadlines: 1 ms after the arrival, or beyond the end of the run. Cobham. The same queue
  // under fcfs misses both.
  TEST_CASE("M/M/1 with two classes, not preemptive, through edf") {
    Target urgent{"priority | Wq1", 4.0 / 3, {0, -1.6, 0.13, 0.9, 1.4}};
    Target patient{"priority | Wq2", 20.0 / 3, {35, -32, 5.3, 3, 21}};
    Target unordered{"priority | Wq1 under fcfs", 4.0 / 3};
    SingleServer server(60'000, 1102, 2);
    const auto first = [&](std::uint32_t i) { return server.shop.slo[i] == 1; };
    const auto second = [&](std::uint32_t i) { return !first(i); };
    const auto service = [](Random& random) { return random.exponential(1); };
    for (int r = 0; r < kReplications; ++r) {
      server.run("edf", r, service, first);
      urgent.add(server.meanWait(first), server.controls);
      patient.add(server.meanWait(second), server.controls);
      if (r > 2) continue;
      server.run("fcfs", r, service, first);
      unordered.add(server.meanWait(first), server.controls);
    }
    urgent.check();
    patient.check();
    CHECK(!unordered.hits());
  }

  // Row 6, first half.
  TEST_CASE("M/M/1, shortest job first, not preemptive") {
    // T = Wq + S: the control of the mean service carries both.
    Target sojourn{"SJF | T", 2.882219, {7.2, -4.65, 0.78, 0.55, 0}};
    SingleServer server(30'000, 1103, 2);
    for (int r = 0; r < kReplications; ++r) {
      server.run(
          "sjf", r, [](Random& random) { return random.exponential(1); }, [](std::uint32_t) { return true; });
      const double meanService = 1 + server.controls[0];
      server.controls[4] = 0;
      sojourn.add(server.meanWait([](std::uint32_t) { return true; }) + meanService, server.controls);
    }
    sojourn.check();
  }

  // Row 9: every workflow has a call for each of two instances (by model) and ends with the later one.
  TEST_CASE("fork-join of two M/M/1") {
    Target sojourn{"fork-join | T", 7, {31, -22.7, 4, 0, 0}};
    const std::uint32_t jobs = 40'000, all = jobs + kWarmUp;
    Shop shop(all, 2, 2);
    for (std::uint32_t i = 0; i < 2 * all; ++i) shop.model[i] = i % 2;
    for (int r = 0; r < kReplications; ++r) {
      Random random(1104, static_cast<std::uint64_t>(r));
      for (std::uint32_t& tokens : shop.prompt) tokens = Shop::tokens(random.exponential(1));
      shop.run("fcfs", 1104, r);
      double controls[5] = {}, y[2] = {}, sum = 0, last = 0;
      for (std::uint32_t i = 0; i < all; ++i) {
        const double gap = (shop.arrival[i] - last) * 1e-3 - 1 / kLoad;
        last = shop.arrival[i];
        for (int k = 0; k < 2; ++k) {
          const double s = shop.prompt[2 * i + k] * 1e-6 - 1;
          if (i >= kWarmUp) {
            controls[0] += s / 2 / jobs;
            controls[2] += (s - gap) * y[k] / 2 / jobs;
          }
          y[k] = kFilter * y[k] + s - gap;
        }
        if (i < kWarmUp) continue;
        controls[1] += gap / jobs;
        sum += shop.latency[i] * 1e-3;
      }
      sojourn.add(sum / jobs, controls);
    }
    sojourn.check();
  }

  // Row 10: N workflows, each a long chain whose tools take 10 s on average; exact MVA.
  TEST_CASE("a closed loop of agents on one instance") {
    struct Size {
      std::uint32_t agents;
      double throughput, response;
      std::uint32_t rounds;
    };
    for (const Size& size : {Size{1, 0.090909, 1, 6000}, Size{4, 0.353337, 1.320644, 4000},
                             Size{16, 0.977698, 6.364969, 2000}}) {
      const std::string name = "closed loop N = " + std::to_string(size.agents);
      const std::string names[] = {name + " | X", name + " | R"};
      Target x{names[0].c_str(), size.throughput};
      Target response{names[1].c_str(), size.response};
      Shop shop(size.agents, size.rounds);
      for (std::uint32_t i = 0; i < size.agents * size.rounds; ++i) {
        if (i % size.rounds > 0) shop.parents.push_back(i % size.rounds - 1);
        shop.parentOffset[i + 1] = static_cast<std::uint32_t>(shop.parents.size());
      }
      shop.gap.resize(shop.prompt.size());
      shop.recorded.assign(size.agents, 0);
      // A window in which every agent is at work, and its response times whole.
      const double from = 500, to = (10 + size.response) * size.rounds * 0.85;
      for (int r = 0; r < kReplications; ++r) {
        Random random(1105 + size.agents, static_cast<std::uint64_t>(r));
        for (std::uint32_t& tokens : shop.prompt) tokens = Shop::tokens(random.exponential(1));
        for (double& ms : shop.gap) ms = random.exponential(10'000);
        shop.run("fcfs", 0, 0);
        double sum = 0;
        std::uint32_t served = 0, asked = 0;
        for (std::uint32_t i = 0; i < shop.prompt.size(); ++i) {
          const double finished = shop.finished[i] * 1e-3, ready = shop.ready[i] * 1e-3;
          if (i % size.rounds == size.rounds - 1) REQUIRE(finished > to + 100);
          served += finished > from && finished <= to ? 1 : 0;
          if (ready <= from || ready > to) continue;
          sum += finished - ready;
          ++asked;
        }
        const double none[5] = {};
        x.add(served / (to - from), none);
        response.add(sum / asked, none);
      }
      x.check();
      response.check();
    }
  }
}

TEST_SUITE("zero load") {
  // Row 12: exact, in whole nanoseconds.
  TEST_CASE("a serial workflow takes the sum of its prefills, decodes and tool gaps") {
    Random random(5);
    for (int round = 0; round < 60; ++round) {
      const WholeCosts costs = randomCosts(random);
      OwnedTrace trace;
      std::vector<Nanos> exact;
      Nanos t = 0;
      for (int w = 0; w < 5; ++w) {
        trace.workflow(t);
        Nanos sum = 0;
        const std::uint32_t calls = between(random, 1, 12);
        for (std::uint32_t i = 0; i < calls; ++i) {
          OwnedTrace::CallSpec c{.prompt = between(random, 1, 3000), .output = between(random, 1, 300)};
          if (i > 0) c.parents = {i - 1};
          if (random.uniform() < 0.5) c.gap = between(random, 1, 2'000'000'000);
          trace.call(c);
          sum += c.gap + aloneTime(costs, c.prompt, c.output);
        }
        exact.push_back(sum);
        t += sum + 1;
      }
      const InstanceSpec one = inMode(instanceSpec(0, 4, 4000), static_cast<EngineMode>(round % 3), random);
      const std::vector<InstanceSpec> instances(1 + random.below(3), one);
      const ClusterSpec cluster = clusterOf(std::span(&costs, 1), instances);
      for (const std::string_view order : orderNames()) {
        for (const std::string_view placement : placementNames()) {
          for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
            for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
              RunOptions options = baseOptions(order, placement, binding);
              options.feedback = feedback;
              options.laws = true;
              const Run r = run(trace, cluster, options);
              REQUIRE(ok(r.status));
              for (std::size_t w = 0; w < exact.size(); ++w) {
                CHECK(fromMs(r.latencyMs[w]) == exact[w]);
                CHECK(fromMs(r.baseMs[w]) == exact[w]);
              }
            }
          }
        }
      }
    }
  }

  TEST_CASE("a graph on enough instances takes its longest path") {
    Random random(6);
    for (int round = 0; round < 60; ++round) {
      const WholeCosts costs = randomCosts(random);
      const TraceShape shape{.workflows = 1, .maxCalls = 12, .toolShare = 0.4};
      const OwnedTrace trace = randomTrace(random, shape);
      std::vector<Nanos> end(trace.calls());
      Nanos longest = 0;
      for (std::uint32_t i = 0; i < trace.calls(); ++i) {
        Nanos start = 0;
        for (std::uint32_t e = trace.parentOffset[i]; e < trace.parentOffset[i + 1]; ++e) {
          start = std::max(start, end[trace.parents[e]]);
        }
        end[i] = start + fromMs(trace.gapMs[i]) + aloneTime(costs, trace.prompt[i], trace.output[i]);
        longest = std::max(longest, end[i]);
      }
      // As many instances as calls: whoever looks at the load finds an idle one, and so does round robin.
      const std::vector<InstanceSpec> instances(trace.calls(), instanceSpec(0, 4, 4000));
      const ClusterSpec cluster = clusterOf(std::span(&costs, 1), instances);
      for (const char* placement : {"round-robin", "least-work-left", "workload-balanced", "eftxp"}) {
        for (const Knowledge knowledge : {Knowledge::kOnline, Knowledge::kDeclared, Knowledge::kOracle}) {
          RunOptions options = baseOptions("fcfs", placement, Binding::kAtReveal);
          options.knowledge = knowledge;
          options.laws = true;
          const Run r = run(trace, cluster, options);
          REQUIRE(ok(r.status));
          CAPTURE(placement);
          CHECK(fromMs(r.latencyMs[0]) == longest);
          CHECK(fromMs(r.baseMs[0]) == longest);
        }
      }
      // Batch limit 1: an instance with credit is an idle one.
      const std::vector<InstanceSpec> single(trace.calls(), instanceSpec(0, 1, 4000));
      RunOptions options = baseOptions("fcfs", "global-queue", Binding::kAtCredit);
      options.laws = true;
      const Run r = run(trace, clusterOf(std::span(&costs, 1), single), options);
      REQUIRE(ok(r.status));
      CHECK(fromMs(r.latencyMs[0]) == longest);
    }
  }
}

namespace {

struct EngineRun {
  Nanos active = 0;  ///< time during which the engine was not idle
  Nanos busy = 0;
  std::size_t finished = 0;
};

/// Drives an engine alone: calls are leased at their times, unseen by any scheduler.
EngineRun driveEngine(Engine& engine, const std::vector<std::pair<Nanos, EngineCall>>& leases) {
  EngineRun out;
  std::size_t i = 0;
  Nanos last = 0;
  while (i < leases.size() || engine.next() != kNever) {
    const Nanos t = i < leases.size() ? std::min(leases[i].first, engine.next()) : engine.next();
    if (!engine.idle()) out.active += t - last;
    last = t;
    if (engine.next() == t) {
      engine.advance(t);
      out.finished += engine.finished().size();
    }
    while (i < leases.size() && leases[i].first == t) engine.lease(leases[i++].second);
    engine.settle(t);
  }
  out.busy = engine.busy();
  return out;
}

}  // namespace

// Two defects of the driver keep the random configurations below from two corners; each has a test of its
// own. Set to true once that passes.
constexpr bool kAbortsWithPendingTools = true;
constexpr bool kOrphansStayUnleased = true;

TEST_SUITE("laws") {
  TEST_CASE("busy time is the sum of iteration times") {
    Random random(8);
    for (int round = 0; round < 300; ++round) {
      const WholeCosts costs = randomCosts(random);
      const LatencyModel model = latency(costs);
      const bool alone = round % 3 == 0;
      const std::uint32_t batch = alone ? 1 : between(random, 2, 8);
      Engine engine;
      const auto mode = static_cast<EngineMode>(round / 3 % 3);
      engine.reset(inMode(instanceSpec(0, batch, 6000), mode, random), model,
                   {FirstToken::kFromPrefill, true, true});
      std::vector<std::pair<Nanos, EngineCall>> leases;
      Nanos t = 0, iterations = 0;
      for (std::uint32_t i = 0; i < 30; ++i) {
        t += static_cast<Nanos>(random.exponential(1e9));
        EngineCall c;
        c.slot = i;
        c.promptTokens = between(random, 1, 2000);
        c.outputTokens = between(random, 1, 200);
        c.expectedTokens = alone ? c.outputTokens : between(random, 1, 200);
        c.kv = std::int64_t{c.promptTokens} + c.expectedTokens;
        leases.push_back({t, c});
        iterations += aloneTime(costs, c.promptTokens, c.outputTokens);
      }
      const EngineRun out = driveEngine(engine, leases);
      CHECK(out.finished == leases.size());
      CHECK(out.busy == out.active);
      if (alone) CHECK(out.busy == iterations);
      CHECK(engine.kvUsed() == 0);
    }
  }

  TEST_CASE("a batch that starts together: prefills one by one, then common iterations") {
    Random random(9);
    for (int round = 0; round < 100; ++round) {
      const WholeCosts costs = randomCosts(random);
      const LatencyModel model = latency(costs);
      const std::uint32_t calls = between(random, 1, 8);
      Engine engine;
      engine.reset(instanceSpec(0, 8, 1'000'000), model, {FirstToken::kFromPrefill, true, false});
      std::vector<std::pair<Nanos, EngineCall>> leases;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> left;  // context, tokens to emit
      Nanos exact = 0;
      for (std::uint32_t i = 0; i < calls; ++i) {
        EngineCall c;
        c.slot = i;
        c.promptTokens = between(random, 1, 2000);
        c.outputTokens = c.expectedTokens = between(random, 1, 100);
        c.kv = std::int64_t{c.promptTokens} + c.outputTokens;
        leases.push_back({0, c});
        exact += aloneTime(costs, c.promptTokens, 1);
        if (c.outputTokens > 1) left.push_back({c.promptTokens + 1, c.outputTokens - 1});
      }
      while (!left.empty()) {
        exact += costs.decodeBase + costs.decodePerSequence * static_cast<Nanos>(left.size() - 1);
        for (auto& [context, tokens] : left) {
          exact += costs.decodePerContext * context;
          ++context;
          --tokens;
        }
        std::erase_if(left, [](const auto& call) { return call.second == 0; });
      }
      const EngineRun out = driveEngine(engine, leases);
      CHECK(out.busy == exact);
      CHECK(out.active == exact);
    }
  }

  TEST_CASE("a call whose parent was rejected is never leased") {
    const WholeCosts costs{1'000'000, 1000, 1'000'000, 0, 0};
    const InstanceSpec one = instanceSpec(0, 2, 100);
    const ClusterSpec cluster = clusterOf(std::span(&costs, 1), std::span(&one, 1));
    OwnedTrace trace;
    trace.workflow(0);
    trace.call({.prompt = 200});  // fits nowhere
    trace.call({.prompt = 10, .parents = {0}});
    for (const Knowledge knowledge : {Knowledge::kOnline, Knowledge::kDeclared, Knowledge::kOracle}) {
      for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
        RunOptions options = baseOptions("fcfs", "least-work-left", binding);
        options.knowledge = knowledge;
        options.laws = true;
        const Run r = run(trace, cluster, options);
        CAPTURE(static_cast<int>(knowledge));
        CHECK(ok(r.status));
        CHECK(r.result.rejected == 1);
        CHECK(r.result.calls == 0);
        CHECK(std::isnan(r.leasedMs[1]));
        CHECK(std::isinf(r.latencyMs[0]));
      }
    }
  }

  // Without the fix it crashes.
  TEST_CASE("a tool that ends after its workflow was aborted starts nothing" *
            doctest::skip(!kAbortsWithPendingTools)) {
    // The record of the aborted workflow 1 is used again by workflow 2 before the tool of workflow 1 ends.
    const WholeCosts costs{1'000'000, 1000, 1'000'000, 0, 0};
    const InstanceSpec one = instanceSpec(0, 4, 1'000'000);
    const ClusterSpec cluster = clusterOf(std::span(&costs, 1), std::span(&one, 1));
    OwnedTrace trace;
    trace.workflow(0);
    trace.call({.prompt = 1, .output = 2000});
    trace.call({.prompt = 1, .output = 2000, .parents = {0}});
    trace.workflow(1000);
    trace.call({.prompt = 10, .gap = kSecond / 2});
    trace.call({.prompt = 2'000'000});  // fits nowhere
    trace.workflow(2000);
    trace.call({.prompt = 1, .output = 1000});
    trace.call({.prompt = 1, .output = 1000, .parents = {0}});
    for (const Knowledge knowledge : {Knowledge::kOnline, Knowledge::kOracle}) {
      RunOptions options = baseOptions("fcfs", "least-work-left", Binding::kAtReveal);
      options.knowledge = knowledge;
      const Run r = run(trace, cluster, options);
      CAPTURE(static_cast<int>(knowledge));
      CHECK(ok(r.status));
      CHECK(r.result.completed == 2);
      CHECK(r.result.rejected == 1);
      CHECK(r.result.calls == 4);
      CHECK(std::isnan(r.finishedMs[2]));
    }
  }

  TEST_CASE("laws hold at every instant of random configurations, over every policy") {
    // As many configurations as ever, spread over the policies: at least one for each kind of knowledge.
    const int policies = static_cast<int>(orderNames().size() * placementNames().size() * 4);
    const int rounds = std::max(1, 3072 / (4 * policies));
    Random random(10);
    Random modes(110);
    int configurations = 0;
    std::uint64_t evictions = 0, rejected = 0, incomplete = 0, waitedForTools = 0;
    for (const std::string_view order : orderNames()) {
      for (const std::string_view placement : placementNames()) {
        for (const Binding binding : {Binding::kAtReveal, Binding::kAtCredit}) {
          for (const Feedback feedback : {Feedback::kBoundary, Feedback::kLease}) {
            for (int round = 0; round < 4 * rounds; ++round) {
              const int know = round % 4;
              ++configurations;
              const std::vector<WholeCosts> costs{randomCosts(random), randomCosts(random)};
              // Every second configuration has calls that fit nowhere, or only as predicted: their workflows
              // abort.
              const bool aborts = random.below(2) == 0;
              TraceShape shape;
              shape.workflows = between(random, 5, 36);
              shape.maxCalls = between(random, 1, 10);
              shape.maxPrompt = between(random, 10, 1000);
              shape.maxOutput = between(random, 1, 300);
              shape.meanGap = static_cast<Nanos>(random.exponential(1.5e9));
              shape.wrongShare = random.below(2) * 0.8;
              shape.models = static_cast<std::uint16_t>(between(random, 1, 2));
              if (aborts && !kAbortsWithPendingTools) shape.toolShare = 0;
              const OwnedTrace trace = randomTrace(random, shape);
              std::vector<InstanceSpec> instances;
              const std::uint32_t count = between(random, shape.models, 5);
              const double tight = aborts ? 0.5 + 0.6 * random.uniform() : 1.0;
              const auto room = static_cast<std::int64_t>((shape.maxPrompt + shape.maxOutput) * tight);
              for (std::uint32_t m = 0; m < count; ++m) {
                const InstanceSpec spec =
                    instanceSpec(static_cast<std::uint16_t>(random.below(2)), between(random, 1, 6),
                                 std::max<std::int64_t>(1, room * between(random, 4, 12) / 4),
                                 static_cast<std::uint16_t>(m % shape.models));
                instances.push_back(inMode(spec, static_cast<EngineMode>(modes.below(3)), modes));
              }
              ClusterSpec cluster = clusterOf(costs, instances);
              if (random.below(2) == 0)
                cluster.templates = {{{0, 300, 40}, {1, 500, 90}, {2, 200, 10}, {4, 800, 60}}};

              RunOptions options = baseOptions(order, placement, binding);
              options.feedback = feedback;
              options.lookahead = feedback == Feedback::kLease ? random.below(3) : 0;
              options.knowledge = static_cast<Knowledge>(know);
              options.tieSeed = random.below(3);
              options.sloBase = random.below(2) == 0 ? SloBase::kTemplate : SloBase::kExclusive;
              options.parameters.set(static_cast<std::uint16_t>(Parameter::kAlpha), random.below(11) / 10.0);
              if (random.below(3) == 0) {
                options.parameters.set(static_cast<std::uint16_t>(Parameter::kOvercommit),
                                       (aborts ? 0.5 : 1) + random.uniform());
              }
              options.laws = true;

              const Run r = run(trace, cluster, options);
              CAPTURE(configurations);
              CAPTURE(order);
              CAPTURE(placement);
              CAPTURE(static_cast<int>(binding));
              CAPTURE(static_cast<int>(feedback));
              CAPTURE(know);
              CAPTURE(aborts);
              CHECK(r.status == Status::kOk);
              if (!ok(r.status)) continue;
              if (!aborts) {
                CHECK(r.result.rejected == 0);
                CHECK(r.result.completed == trace.workflows());
              }
              evictions += r.result.evictions;
              rejected += r.result.rejected;

              // Conservation, and causality on the columns.
              std::uint64_t finished = 0, completed = 0;
              bool causal = true;
              const std::vector<std::uint32_t>& first = trace.firstCall;
              for (std::uint32_t w = 0; w < trace.workflows(); ++w) {
                bool all = true;
                double lastFinish = 0;
                for (std::uint32_t row = first[w]; row < first[w + 1]; ++row) {
                  if (std::isnan(r.finishedMs[row])) {
                    all = false;
                    continue;
                  }
                  ++finished;
                  lastFinish = std::max(lastFinish, r.finishedMs[row]);
                  Nanos ready = fromMs(r.arrivalMs[w]);
                  bool orphan = false;
                  for (std::uint32_t e = trace.parentOffset[row]; e < trace.parentOffset[row + 1]; ++e) {
                    const double end = r.finishedMs[first[w] + trace.parents[e]];
                    if (std::isnan(end))
                      orphan = true;
                    else
                      ready = std::max(ready, fromMs(end));
                  }
                  if (orphan && !kOrphansStayUnleased) continue;
                  waitedForTools += trace.gapMs[row] > 0 ? 1 : 0;
                  causal = causal && !orphan && fromMs(r.readyMs[row]) == ready + fromMs(trace.gapMs[row]) &&
                           r.readyMs[row] <= r.leasedMs[row] && r.leasedMs[row] < r.firstTokenMs[row] &&
                           r.firstTokenMs[row] <= r.finishedMs[row] && r.instance[row] < instances.size() &&
                           instances[r.instance[row]].model == trace.model[row];
                }
                completed += all ? 1 : 0;
                if (all)
                  causal = causal && fromMs(r.latencyMs[w]) == fromMs(lastFinish) - fromMs(r.arrivalMs[w]);
                else
                  causal = causal && std::isinf(r.latencyMs[w]);
              }
              incomplete += trace.workflows() - completed;
              CHECK(causal);
              CHECK(finished == r.result.calls);
              CHECK(completed == r.result.completed);
            }
          }
        }
      }
    }
    CHECK(waitedForTools > 1000);
    CHECK(configurations >= 300);
    // The configurations do reach the corners.
    CHECK(evictions > 500);
    CHECK(rejected > 1000);
    CHECK(incomplete > 900);
  }
}
