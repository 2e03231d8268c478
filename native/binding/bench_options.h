// What the benchmarks of the addon share: options that are numbers in ranges, and rounds of work by thread
// CPU time.
#pragma once

#include <string>
#include <vector>

#include "base/thread_time.h"
#include "binding/convert.h"

namespace laxity::binding {

struct BenchOption {
  const char* name;
  double low, high;
};

template <std::size_t N>
bool readOptions(const Napi::CallbackInfo& info, const BenchOption (&options)[N], double (&out)[N]) {
  if (!info[0].IsObject()) return fail(info.Env(), "Expected the options of a benchmark");
  const Napi::Object object = info[0].As<Napi::Object>();
  for (std::size_t i = 0; i < N; ++i) {
    if (!readNumber(object, options[i].name, &out[i])) return false;
    if (!(out[i] >= options[i].low && out[i] <= options[i].high))
      return fail(info.Env(), std::string("Option out of range: `") + options[i].name + "`");
  }
  return true;
}

/// ns of one of `operations` in each of `repeats` rounds; a first one lets arrays grow and is not counted.
template <class Round>
Napi::Value rounds(Napi::Env env, double repeats, double operations, Round&& round) {
  std::vector<double> ns(static_cast<std::size_t>(repeats));
  round();
  for (double& each : ns) {
    const std::int64_t before = threadCpuNs();
    round();
    each = static_cast<double>(threadCpuNs() - before) / operations;
  }
  return numbersArray(env, ns);
}

}  // namespace laxity::binding
