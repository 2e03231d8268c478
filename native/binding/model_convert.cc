#include "binding/model_convert.h"

#include <cmath>

#include "base/status.h"
#include "binding/convert.h"
#include "model/memory.h"
#include "model/polynomial.h"
#include "model/profile.h"

namespace laxity::binding {
namespace {

constexpr const char* kPrecisions[] = {"bf16", "fp8"};
constexpr const char* kInterconnects[] = {"switched", "pcie"};

template <class Spec>
struct Field {
  const char* name;
  double Spec::*at;
};

constexpr Field<LlmSpec> kLlmFields[] = {
    {"layers", &LlmSpec::layers},
    {"hidden", &LlmSpec::hidden},
    {"queryHeads", &LlmSpec::queryHeads},
    {"kvHeads", &LlmSpec::kvHeads},
    {"headDim", &LlmSpec::headDim},
    {"ffn", &LlmSpec::ffn},
    {"vocabulary", &LlmSpec::vocabulary},
    {"experts", &LlmSpec::experts},
    {"expertsPerToken", &LlmSpec::expertsPerToken},
    {"expertWidth", &LlmSpec::expertWidth},
};
constexpr Field<GpuSpec> kGpuFields[] = {
    {"flops16", &GpuSpec::flops16}, {"flops8", &GpuSpec::flops8}, {"bandwidth", &GpuSpec::bandwidth},
    {"memory", &GpuSpec::memory},   {"peer", &GpuSpec::peer},     {"network", &GpuSpec::network},
    {"pcie", &GpuSpec::pcie},
};
constexpr Field<Stack> kStackFields[] = {
    {"scale", &Stack::scale}, {"fixedMs", &Stack::fixedMs}, {"perSequenceMs", &Stack::perSequenceMs}};

template <class Spec, std::size_t N>
bool readFields(Napi::Object from, const Field<Spec> (&fields)[N], Spec* out) {
  for (const Field<Spec>& field : fields) {
    if (!readNumber(from, field.name, &(out->*field.at))) return false;
  }
  return true;
}

template <class Spec, std::size_t N>
Napi::Object fieldsOf(Napi::Env env, const Field<Spec> (&fields)[N], const Spec& spec) {
  Napi::Object o = Napi::Object::New(env);
  for (const Field<Spec>& field : fields) o.Set(field.name, spec.*field.at);
  return o;
}

bool readObject(Napi::Object from, const char* name, Napi::Object* out) {
  const Napi::Value value = from.Get(name);
  if (from.Env().IsExceptionPending()) return false;
  if (!value.IsObject()) return fail(from.Env(), std::string("Expected an object for `") + name + "`");
  *out = value.As<Napi::Object>();
  return true;
}

/// Numbers of a plain array: descriptions go through JSON and between threads.
bool readNumbers(Napi::Object from, const char* name, std::vector<double>* out) {
  const Napi::Value value = from.Get(name);
  if (from.Env().IsExceptionPending()) return false;
  if (!value.IsArray()) return fail(from.Env(), std::string("Expected an array for `") + name + "`");
  const Napi::Array list = value.As<Napi::Array>();
  if (list.Length() > 1u << 24) return fail(from.Env(), std::string("Too many entries in `") + name + "`");
  out->resize(list.Length());
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value item = list.Get(i);
    if (!item.IsNumber()) return fail(from.Env(), std::string("Expected numbers in `") + name + "`");
    (*out)[i] = item.As<Napi::Number>().DoubleValue();
  }
  return true;
}

bool readKnots(Napi::Object from, const char* name, std::vector<std::uint32_t>* out) {
  std::vector<double> numbers;
  if (!readNumbers(from, name, &numbers)) return false;
  for (const double n : numbers) {
    if (!(n >= 0 && n <= 4e9) || n != std::floor(n))
      return fail(from.Env(), std::string("Knot out of range in `") + name + "`");
    out->push_back(static_cast<std::uint32_t>(n));
  }
  return true;
}

bool readGrid(Napi::Object from, const char* name, ProfileGrid* out) {
  Napi::Object grid;
  std::vector<double> ms;
  if (!readObject(from, name, &grid) || !readKnots(grid, "rows", &out->rows) ||
      !readKnots(grid, "columns", &out->columns) || !readNumbers(grid, "ms", &ms)) {
    return false;
  }
  for (const double time : ms) {
    if (!(time > 0 && time <= 3.6e6))
      return fail(from.Env(), std::string("Time out of range in `") + name + "`");
    out->times.push_back(fineFromMs(time));
  }
  return true;
}

}  // namespace

bool readRoofline(Napi::Object from, RooflineSpec* out) {
  Napi::Object llm;
  Napi::Object gpu;
  Napi::Object stack;
  double parallel = 0;
  int weights = 0;
  int kv = 0;
  int interconnect = 0;
  std::string kernels;
  if (!readObject(from, "llm", &llm) || !readFields(llm, kLlmFields, &out->llm) ||
      !readObject(from, "gpu", &gpu) || !readFields(gpu, kGpuFields, &out->gpu) ||
      !readName(gpu, "interconnect", kInterconnects, &interconnect) ||
      !readString(gpu, "kernels", &kernels) || !readObject(from, "stack", &stack) ||
      !readFields(stack, kStackFields, &out->stack) || !readNumber(from, "tensorParallel", &parallel) ||
      !readName(from, "weights", kPrecisions, &weights) || !readName(from, "kv", kPrecisions, &kv)) {
    return false;
  }
  out->llm.gated = isTruthy(llm.Get("gated"));
  out->llm.tiedEmbeddings = isTruthy(llm.Get("tiedEmbeddings"));
  out->gpu.interconnect = static_cast<Interconnect>(interconnect);
  out->weights = static_cast<Precision>(weights);
  out->kv = static_cast<Precision>(kv);
  out->tensorParallel = parallel >= 1 && parallel <= 1024 && parallel == std::floor(parallel)
                            ? static_cast<std::uint32_t>(parallel)
                            : 0;
  for (std::size_t i = 0; i < kKernelSets.size(); ++i) {
    if (kKernelSets[i].id != kernels) continue;
    out->gpu.kernels = static_cast<std::uint8_t>(i);
    return true;
  }
  return fail(from.Env(), "Unknown kernel set \"" + kernels + "\"");
}

namespace {

/// The objects of a list, each read into a regime of `out`.
template <class Regime, class Read>
bool readRegimes(Napi::Object from, const char* name, std::vector<Regime>* out, Read&& read) {
  const Napi::Value value = from.Get(name);
  if (from.Env().IsExceptionPending()) return false;
  if (!value.IsArray() || value.As<Napi::Array>().Length() > 0xffff)
    return fail(from.Env(), std::string("Expected a list for `") + name + "`");
  const Napi::Array list = value.As<Napi::Array>();
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Value item = list.Get(i);
    if (!item.IsObject()) return fail(from.Env(), std::string("Expected objects in `") + name + "`");
    if (!read(item.As<Napi::Object>(), &out->emplace_back())) return false;
  }
  return true;
}

bool readFrom(Napi::Object from, const char* name, std::uint32_t* out) {
  double n = 0;
  if (!readNumber(from, name, &n)) return false;
  if (!(n >= 1 && n <= 4e9) || n != std::floor(n))
    return fail(from.Env(), std::string("`") + name + "` out of range");
  *out = static_cast<std::uint32_t>(n);
  return true;
}

bool readPolynomial(Napi::Object from, LatencyPolynomial* out) {
  return readRegimes(from, "prefill", &out->prefill,
                     [](Napi::Object o, PrefillRegime* r) {
                       return readFrom(o, "fromTokens", &r->fromTokens) &&
                              readNumber(o, "baseMs", &r->baseMs) &&
                              readNumber(o, "perTokenMs", &r->perTokenMs) &&
                              readNumber(o, "perTokenSquaredMs", &r->perTokenSquaredMs);
                     }) &&
         readRegimes(from, "decode", &out->decode, [](Napi::Object o, DecodeRegime* r) {
           return readFrom(o, "fromSequences", &r->fromSequences) && readNumber(o, "baseMs", &r->baseMs) &&
                  readNumber(o, "perSequenceMs", &r->perSequenceMs) &&
                  readNumber(o, "perContextMs", &r->perContextMs);
         });
}

}  // namespace

bool readModelled(Napi::Object from, std::uint32_t index, bool* handled, LatencyModel* out) {
  std::string kind;
  *handled = false;
  if (!readString(from, "kind", &kind)) return false;
  Status status = Status::kOk;
  if (kind == "roofline") {
    RooflineSpec spec;
    if (!readRoofline(from, &spec)) return false;
    status = LatencyModel::roofline(spec, out);
  } else if (kind == "profile") {
    ProfileGrid decode;
    ProfileGrid prefill;
    if (!readGrid(from, "decode", &decode) || !readGrid(from, "prefill", &prefill)) return false;
    status = LatencyModel::profile(std::move(decode), std::move(prefill), out);
  } else if (kind == "polynomial") {
    LatencyPolynomial terms;
    if (!readPolynomial(from, &terms)) return false;
    status = LatencyModel::polynomial(terms, out);
  } else {
    return true;
  }
  *handled = true;
  return ok(status) || fail(from.Env(), "Latency model " + std::to_string(index) + ": " + reason(status));
}

Napi::Object hardware(Napi::Env env) {
  Napi::Object o = Napi::Object::New(env);
  o.Set("calibration", std::string(kCalibration));
  Napi::Object gpus = Napi::Object::New(env);
  for (const GpuEntry& entry : kGpus) {
    Napi::Object gpu = fieldsOf(env, kGpuFields, entry.spec);
    gpu.Set("interconnect", kInterconnects[static_cast<int>(entry.spec.interconnect)]);
    gpu.Set("kernels", std::string(kKernelSets[entry.spec.kernels].id));
    gpu.Set("transferred", entry.spec.transferred);
    gpus.Set(std::string(entry.id), gpu);
  }
  o.Set("gpus", gpus);
  Napi::Object models = Napi::Object::New(env);
  for (const LlmEntry& entry : kLlms) {
    Napi::Object llm = fieldsOf(env, kLlmFields, entry.spec);
    llm.Set("gated", entry.spec.gated);
    llm.Set("tiedEmbeddings", entry.spec.tiedEmbeddings);
    models.Set(std::string(entry.id), llm);
  }
  o.Set("models", models);
  Napi::Object sets = Napi::Object::New(env);
  for (const KernelSet& set : kKernelSets) {
    const auto list = [&](std::initializer_list<double> values) {
      Napi::Array array = Napi::Array::New(env);
      for (const double value : values) array.Set(array.Length(), value);
      return array;
    };
    const auto gemm = [&](const GemmConstants& c) {
      return list({c.compute, c.memory, c.launchUs, static_cast<double>(c.p)});
    };
    const auto mixture = [&](const MixtureConstants& c) {
      return list({c.compute, c.memory, c.launchUs, c.pad, c.skew, c.perTokenNs});
    };
    Napi::Object kernels = Napi::Object::New(env);
    kernels.Set("gemm16", gemm(set.gemm16));
    if (set.gemm8.compute > 0) kernels.Set("gemm8", gemm(set.gemm8));
    kernels.Set("prefill",
                list({set.prefill.compute, set.prefill.memory, set.prefill.launchUs, set.prefill.extra}));
    kernels.Set("decode", list({set.decode.memory, set.decode.launchUs, set.decode.perHead}));
    kernels.Set("mixture16", mixture(set.mixture16));
    if (set.mixture8.compute > 0) kernels.Set("mixture8", mixture(set.mixture8));
    sets.Set(std::string(set.id), kernels);
  }
  o.Set("kernelSets", sets);
  Napi::Object stacks = Napi::Object::New(env);
  for (const StackEntry& entry : kStacks)
    stacks.Set(std::string(entry.id), fieldsOf(env, kStackFields, entry.stack));
  o.Set("stacks", stacks);
  return o;
}

}  // namespace laxity::binding
