// Machines and their work: how much of an instance's time a call uses at least, whoever schedules it.
//
// A machine is one resource of one role with a weight u_k >= 0 on each hardware class k. In s seconds it does
// s * sum_k u_k n_k of weighted work, so the work of all calls that must run inside an interval is at most
// that. A call that runs on class k uses u_k * work_k; since the class is free, its item is the least of
// these over the classes on which it can still be on time.
//
//   prefill    work_k = prefill_k              an instance computes one prompt at a time, or the tokens of
//                                              a batch share its base (bound_instance.h)
//   KV         work_k = sum over its iterations of base_k * kv / cap_k + seq_k + ctx_k * context
//                                              the KV of a batch is at most cap: base >= base * sum kv / cap
//   packing    KV with f(kv / cap) for kv / cap, f dual feasible: where shares sum to at most 1, so do
//              their f. f_m(x) = x where (m + 1) x is whole, else floor((m + 1) x) / m, m = 1 .. 4: two calls
//              beyond half the KV never share a batch, and so on. g_e(x) = 1 above 1 - e, 0 below e, else x.
//              Only where reservations hold.
//   sequences  the same with base_k / maxSequences_k     a batch has at most so many
//   latency    work_k = n * g * T / (T - base_k), g = seq_k + ctx_k * context at its start, n iterations,
//              T = (longest time the decode may take) / n
//                                              an iteration of T_j = base + sum_m g_m splits exactly into
//                                              g_m T_j / (T_j - base); that is convex in T_j (Jensen)
//   path       the calls of a critical path take at most B = D - tools in sum, so for every mu >= 0 their
//              work is at least sum_c min_k (u_k work_k + mu time_k) - mu B. What this exceeds the path's own
//              items by is one further item, in the hull of their windows. With the latency work of one call,
//              min over T of u n g T / (T - base) + mu n T = n (sqrt(u g) + sqrt(mu base))^2.
//
// Unified instances: one machine for prefill and decode. Its work is the prefill's plus one of the decode
// terms above, and every mode of the engine has room for no more:
//
//   prefill-first  prefills and iterations take turns
//   decode-share   while both are in progress their speeds sum to 1
//   chunked        an iteration takes its decodes' time plus what each chunk adds to its prompt's; the chunks
//                  of a prompt add up to its prefill. The decodes' part of an iteration is at most the whole,
//                  so the latency term holds as it is. By a model without constants (a roofline prices an
//                  iteration as a whole) prefills count as nothing; the decodes' part is at most the whole
//                  there, too
//
// A call's item is then three: the prefill in its own window, the decode in its own, and what the least of
// their sum over the classes exceeds the sum of the two leasts by, in the hull of both.
// Relaxed further: KV is held during the prefill too; a decode stands still while others are prefilled.
//
// (base, seq, ctx) is the affine floor of an iteration (decode_floor.h). Where reservations may fall short of
// the true lengths, kv is what a call holds as it grows. Engines round a stretch of iterations once: each
// iteration is charged half a nanosecond less. Work is rounded down to 1/1024 ns of the fastest class,
// after a relative margin of 1e-9 for the doubles in between.
//
// Windows, for D = alpha * base and arrival a (bound_instance.h has head, tail, least and afterwards):
//   prefill  [a + head, a + D - afterwards - tail]       decode  [a + head + least, a + D - tail]
#pragma once

#include <cstdint>
#include <vector>

#include "bounds/bound_instance.h"

namespace laxity::bounds {

enum class Work : std::uint8_t { kPrefill, kKv, kSequences, kLatency };
inline constexpr std::size_t kWorks = 4;

/// Factors on the work terms: 1 each. Anything else is a broken bound, which tests must catch.
struct WorkFaults {
  double work[kWorks] = {1, 1, 1, 1};
  double packing = 1;  ///< of KV work with f other than the identity
  double path = 1;
  double window = 1;  ///< of what is left of a window beyond the isolated time
};

struct Machine {
  Work work = Work::kPrefill;  ///< unified: that of its decodes
  bool unified = false;
  std::uint32_t packing = 0;           ///< kKv: which f, 0 = the identity
  std::vector<std::uint32_t> classes;  ///< of its role and model
  std::vector<std::int64_t> weights;   ///< by entry of classes, in 1/1024
  std::int64_t speed = 0;              ///< sum of weight * instances
  bool decodes() const { return work != Work::kPrefill; }
  bool prefills() const { return unified || !decodes(); }
  std::size_t group() const { return unified ? 2 : decodes() ? 1 : 0; }
};

/// What an item stands for.
enum class Part : std::uint8_t { kPrefill, kDecode, kBoth };

/// Items of one kind of machine: for each of its parts one per call, then one per workflow for its path.
/// Their windows are common to the machines.
struct ItemGroup {
  std::vector<Part> parts;
  std::vector<std::uint32_t> workflow;  ///< by item
  std::vector<Nanos> release;
  std::vector<Nanos> deadline;
  std::vector<std::uint8_t> present;
  std::vector<std::uint32_t> byRelease;     ///< present items, latest release first
  std::vector<std::uint32_t> byDeadline;    ///< present items, earliest deadline first
  std::vector<std::uint32_t> deadlineRank;  ///< by item
  std::size_t calls = 0;

  /// Of a call's item; of a path's, kBoth.
  Part partOf(std::uint32_t item) const {
    const std::size_t part = calls == 0 ? parts.size() : item / calls;
    return part < parts.size() ? parts[part] : Part::kBoth;
  }
};

class WorkTerms {
 public:
  static constexpr std::int64_t kUnit = 1024;

  explicit WorkTerms(const BoundInstance& instance, const WorkFaults& faults = {});

  /// Windows and items for ratio `alpha`.
  void at(double alpha);

  const std::vector<Machine>& machines() const { return machines_; }
  const ItemGroup& group(const Machine& m) const { return groups_[m.group()]; }
  /// By item of the machine's group, in 1/1024 ns.
  const std::vector<std::int64_t>& items(std::size_t machine) const { return items_[machine]; }
  /// By workflow: its isolated path fits.
  const std::vector<std::uint8_t>& mayBeOnTime() const { return open_; }

 private:
  void packings();
  void addMachines(Machine kind);
  void add(Machine m, const std::vector<double>& weights);
  const std::vector<BoundClass>& classesOf(const Machine& m) const {
    return m.decodes() ? instance_.decode : instance_.prefill;
  }
  /// Where it runs on class k: the least time of its prefill, transfer and decode; else kNever.
  Nanos timeOn(const Machine& m, std::size_t call, std::size_t k) const;
  double prefillWork(std::size_t call, std::size_t k) const;
  double heldWork(const Machine& m, std::size_t call, std::size_t k) const;
  double latencyWork(std::size_t call, std::size_t k, Nanos slack) const;
  double decodeFault(const Machine& m) const;
  double fixedWork(const Machine& m, std::size_t call, std::size_t k) const;
  void buildGroups();
  void windows(ItemGroup& g);
  void machineItems(std::size_t index);
  void callItems(std::size_t index, std::uint32_t call, Nanos slack);
  void pathCosts(const Machine& m, const BoundWorkflow& w);
  double pathWork(double budget, double mu) const;
  double pathBound(const Machine& m, const BoundWorkflow& w, double budget);

  const BoundInstance& instance_;
  WorkFaults faults_;
  std::vector<Machine> machines_;
  std::vector<std::vector<double>> kvWork_;  ///< by packing, [calls x decode classes] ns
  std::vector<double> sequenceWork_;         ///< [calls x decode classes] ns
  ItemGroup groups_[3];                      ///< by Machine::group()
  std::vector<std::vector<std::int64_t>> items_;
  std::vector<std::uint8_t> open_;
  std::vector<Nanos> due_;  ///< by workflow: D

  // Of one path on one machine, by call and class.
  struct PathCost {
    double fixed, perMu, perRoot;
  };
  std::vector<PathCost> pathCosts_;
  std::vector<std::uint32_t> pathEnds_;  ///< by call
};

}  // namespace laxity::bounds
