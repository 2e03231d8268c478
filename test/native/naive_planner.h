// The planner's oracle: planner.md 2 written down once more, with everything recomputed at every step. Shares
// nothing with native/planner.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace naive {

struct Prefill {
  int hardwareClass;
  std::uint64_t tie;
  std::int64_t ready;
  bool present = true;
  bool open = false;
};

struct Decode {
  int hardwareClass;
  std::uint64_t tie;
  std::int64_t capacity, used, batch, context, perIteration;
  bool present = true;
  std::vector<std::pair<std::int64_t, std::int64_t>> releases;  // (time, KV), any order
};

/// Time per token in units of 2^-20 ns.
struct DecodeClass {
  std::int64_t base, perSequence, perContext;
  double price = 0;  // of a token of KV, per ns of decode
};

struct Call {
  std::int64_t arrival;
  std::uint64_t rank;
  std::int64_t horizon, hint, kv, output, sequences = 1;
  int lock = -1;
  std::vector<std::int64_t> prefill;                // per class, -1 = cannot run
  std::vector<std::vector<std::int64_t>> transfer;  // [prefill class][decode class], -1 = cannot
  std::vector<std::pair<int, std::int64_t>> holders;
  std::int64_t key = 0;
};

struct Entry {
  int call, prefill, decode;
  std::int64_t end, ready, finish;
  double ratio;
  friend bool operator==(const Entry&, const Entry&) = default;
};

enum class Mode { kGreedy, kOnePass, kByKey };

struct State {
  std::int64_t t;
  std::vector<Prefill> prefill;
  std::vector<Decode> decode;
  std::vector<DecodeClass> decodeClasses;
  std::vector<Call> calls;
};

/// `perInstance` < 0: the whole plan.
std::vector<Entry> plan(State s, Mode mode, int perInstance);

/// One call of the decode stage (planner.md 2, last paragraph).
struct DecodeCall {
  std::int64_t arrival;
  std::uint64_t rank;
  std::int64_t horizon, hint, kv, output, sequences = 1;
  int lock = -1;
  std::vector<std::int64_t> transfer;  // per decode class
};
std::vector<Entry> planDecode(State s, const std::vector<DecodeCall>& calls);

/// Earliest time at which kv fits on d, t where it fits now, -1 where never.
std::int64_t fits(const Decode& d, std::int64_t t, std::int64_t kv);

}  // namespace naive
