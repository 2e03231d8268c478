#include "binding/machine_bench.h"

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/random.h"
#include "binding/bench_options.h"
#include "binding/convert.h"

namespace laxity::binding {
namespace {

struct alignas(64) Line {
  std::uint32_t next;
};

/// One cycle through all lines (Sattolo), so that no load finds its line by a pattern.
std::vector<Line> randomCycle(std::size_t lines, Random random) {
  std::vector<std::uint32_t> order(lines);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = lines - 1; i > 0; --i)
    std::swap(order[i], order[random.below(static_cast<std::uint32_t>(i))]);
  std::vector<Line> cycle(lines);
  for (std::size_t i = 0; i < lines; ++i) cycle[order[i]].next = order[(i + 1) % lines];
  return cycle;
}

Napi::Value empty(const Napi::CallbackInfo& info) { return info.Env().Undefined(); }

Napi::Value sixIn(const Napi::CallbackInfo& info) {
  if (!info[0].IsObject()) return info.Env().Undefined();
  const Napi::Object object = info[0].As<Napi::Object>();
  double sum = 0;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    double value = 0;
    if (!readNumber(object, name, &value)) return info.Env().Undefined();
    sum += value;
  }
  return Napi::Number::New(info.Env(), sum);
}

Napi::Value columnIn(const Napi::CallbackInfo& info) {
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (!info[0].IsTypedArray() ||
      napi_get_typedarray_info(info.Env(), info[0], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_float64_array)
    return info.Env().Undefined();
  const auto* values = static_cast<const double*>(data);
  return Napi::Number::New(info.Env(), std::accumulate(values, values + length, 0.0));
}

Napi::Value eightOut(const Napi::CallbackInfo& info) {
  Napi::Object object = Napi::Object::New(info.Env());
  double value = 0;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) object.Set(name, ++value);
  return object;
}

}  // namespace

Napi::Value memoryBench(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  double v[5];
  if (!readOptions(info,
                   {{"kind", 0, 1},
                    {"bytes", 1024, 4e9},
                    {"operations", 1, 1e9},
                    {"repeats", 1, 1e4},
                    {"seed", 0, 1e9}},
                   v))
    return env.Undefined();
  if (v[0] == 0) {
    const std::vector<Line> cycle =
        randomCycle(static_cast<std::size_t>(v[1]) / sizeof(Line), Random(static_cast<std::uint64_t>(v[4])));
    const auto loads = static_cast<std::uint64_t>(v[2]);
    std::uint32_t at = 0;
    const Napi::Value ns = rounds(env, v[3], v[2], [&] {
      for (std::uint64_t i = 0; i < loads; ++i) at = cycle[at].next;
    });
    return at >= cycle.size() ? env.Null() : ns;  // the end of the walk keeps the compiler from dropping it
  }
  const std::size_t half = static_cast<std::size_t>(v[1]) / 2;
  std::vector<unsigned char> memory(2 * half, 1);
  const Napi::Value ns = rounds(env, v[3], v[2] * 2 * static_cast<double>(half), [&] {
    for (double i = 0; i < v[2]; ++i) {
      std::memcpy(memory.data() + half, memory.data(), half);
      ++memory[static_cast<std::size_t>(i) % half];  // so that every copy counts
    }
  });
  return memory.back() == 0 && memory.front() == 0 ? env.Null() : ns;
}

Napi::Object crossings(Napi::Env env) {
  Napi::Object calls = Napi::Object::New(env);
  calls.Set("empty", Napi::Function::New<empty>(env, "empty"));
  calls.Set("sixIn", Napi::Function::New<sixIn>(env, "sixIn"));
  calls.Set("columnIn", Napi::Function::New<columnIn>(env, "columnIn"));
  calls.Set("eightOut", Napi::Function::New<eightOut>(env, "eightOut"));
  return calls;
}

}  // namespace laxity::binding
