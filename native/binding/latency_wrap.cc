#include "binding/latency_wrap.h"

#include <string>

#include "binding/convert.h"
#include "binding/model_convert.h"
#include "model/memory.h"
#include "model/transfer.h"

namespace laxity::binding {
namespace {

template <class T>
bool array(const Napi::CallbackInfo& info, std::size_t i, napi_typedarray_type wanted, std::span<T>* out) {
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (!info[i].IsTypedArray() ||
      napi_get_typedarray_info(info.Env(), info[i], &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != wanted) {
    return fail(info.Env(), "Wrong typed array for argument " + std::to_string(i));
  }
  *out = {static_cast<T*>(data), length};
  return true;
}

bool doubles(const Napi::CallbackInfo& info, std::size_t i, std::span<double>* out) {
  return array(info, i, napi_float64_array, out);
}

bool counts(const Napi::CallbackInfo& info, std::size_t i, std::span<const std::uint32_t>* out) {
  std::span<std::uint32_t> values;
  if (!array(info, i, napi_uint32_array, &values)) return false;
  *out = values;
  return true;
}

std::int64_t wholeTokens(double tokens) {
  return tokens >= 0 && tokens <= 1e15 ? static_cast<std::int64_t>(tokens) : 0;
}

bool optionalNumber(Napi::Object from, const char* name, double scale, double* out) {
  const Napi::Value value = from.Get(name);
  if (from.Env().IsExceptionPending()) return false;
  if (value.IsUndefined()) return true;
  double number = 0;
  if (!readNumber(from, name, &number)) return false;
  *out = number * scale;
  return true;
}

bool readLink(Napi::Value value, LinkOptions* out) {
  if (!value.IsObject()) return fail(value.Env(), "Expected the options of a link");
  const Napi::Object link = value.As<Napi::Object>();
  return optionalNumber(link, "efficiency", 1, &out->efficiency) &&
         optionalNumber(link, "latencyMs", 1e6, &out->latencyNs) &&
         optionalNumber(link, "handshakeMs", 1e6, &out->handshakeNs) &&
         optionalNumber(link, "compression", 1, &out->compression) &&
         optionalNumber(link, "lanes", 1, &out->lanes) &&
         optionalNumber(link, "bandwidthGBps", 1e9, &out->bandwidth);
}

}  // namespace

Napi::Function LatencyWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Latency",
      {InstanceMethod<&LatencyWrap::prefill>("prefill"), InstanceMethod<&LatencyWrap::decode>("decode"),
       InstanceMethod<&LatencyWrap::mixed>("mixed")});
}

LatencyWrap::LatencyWrap(const Napi::CallbackInfo& info) : ObjectWrap<LatencyWrap>(info) {
  std::vector<LatencyModel> models;
  if (!info[0].IsObject()) {
    fail(info.Env(), "Expected { latencies: [description] }");
    return;
  }
  if (!readLatencies(info[0].As<Napi::Object>(), &models)) return;
  if (models.size() != 1) {
    fail(info.Env(), "Expected one latency model");
    return;
  }
  model_ = std::move(models[0]);
}

/// (newTokens, cachedTokens, out): ms.
Napi::Value LatencyWrap::prefill(const Napi::CallbackInfo& info) {
  std::span<const std::uint32_t> fresh;
  std::span<const std::uint32_t> cached;
  std::span<double> out;
  if (!counts(info, 0, &fresh) || !counts(info, 1, &cached) || !doubles(info, 2, &out))
    return info.Env().Undefined();
  if (fresh.size() != out.size() || cached.size() != out.size()) fail(info.Env(), "Lengths differ");
  if (info.Env().IsExceptionPending()) return info.Env().Undefined();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = toMs(model_.prefill(fresh[i], cached[i]));
  return info.Env().Undefined();
}

/// (batch, context, out): ms of an iteration.
Napi::Value LatencyWrap::decode(const Napi::CallbackInfo& info) {
  std::span<const std::uint32_t> batch;
  std::span<double> context;
  std::span<double> out;
  if (!counts(info, 0, &batch) || !doubles(info, 1, &context) || !doubles(info, 2, &out))
    return info.Env().Undefined();
  if (batch.size() != out.size() || context.size() != out.size()) fail(info.Env(), "Lengths differ");
  if (info.Env().IsExceptionPending()) return info.Env().Undefined();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t tokens = wholeTokens(context[i]);
    out[i] = toMs(roundFine(model_.piece(batch[i] > 0 ? batch[i] : 1, tokens).at(tokens)));
  }
  return info.Env().Undefined();
}

/// (batch, context, newTokens, cachedTokens): ms of one iteration with one chunk.
Napi::Value LatencyWrap::mixed(const Napi::CallbackInfo& info) {
  std::int64_t given[4];
  for (std::size_t i = 0; i < 4; ++i) {
    if (!info[i].IsNumber()) {
      fail(info.Env(), "Expected four numbers");
      return info.Env().Undefined();
    }
    given[i] = wholeTokens(info[i].As<Napi::Number>().DoubleValue());
  }
  const PrefillChunk chunk{static_cast<std::uint32_t>(given[3]), 0, static_cast<std::uint32_t>(given[2])};
  const auto batch = static_cast<std::uint32_t>(given[0]);
  const MixedPiece piece = model_.mixed(batch, given[1], {&chunk, 1});
  return Napi::Number::New(info.Env(), toMs(roundFine(piece.decode.at(given[1]))));
}

Napi::Function RooflineWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Roofline",
      {Accessor<&RooflineWrap::status>("status"), InstanceMethod<&RooflineWrap::iterations>("iterations"),
       InstanceMethod<&RooflineWrap::memory>("memory"), InstanceMethod<&RooflineWrap::transfer>("transfer"),
       InstanceMethod<&RooflineWrap::load>("load")});
}

RooflineWrap::RooflineWrap(const Napi::CallbackInfo& info) : ObjectWrap<RooflineWrap>(info) {
  if (!info[0].IsObject()) {
    fail(info.Env(), "Expected a description");
    return;
  }
  if (!readRoofline(info[0].As<Napi::Object>(), &spec_)) return;
  status_ = check(spec_);
  if (usable()) roofline_ = Roofline(spec_);
}

Napi::Value RooflineWrap::status(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<int>(status_));
}

/// (loads, out): rows of (sequences, context, pairs, new, touched, samples) to ms.
Napi::Value RooflineWrap::iterations(const Napi::CallbackInfo& info) {
  std::span<double> loads;
  std::span<double> out;
  if (!doubles(info, 0, &loads) || !doubles(info, 1, &out)) return info.Env().Undefined();
  if (loads.size() != 6 * out.size() || !usable()) {
    fail(info.Env(), "Expected six numbers per row, and a description that was accepted");
    return info.Env().Undefined();
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double* row = &loads[6 * i];
    out[i] = 1e-6 * roofline_.iteration({row[0], row[1], {row[2], row[3], row[4]}, row[5]});
  }
  return info.Env().Undefined();
}

/// (utilisation, reserveBytes): { status, kvTokens, kvBytesPerToken, weightBytes, parameters, active }.
Napi::Value RooflineWrap::memory(const Napi::CallbackInfo& info) {
  if (!info[0].IsNumber() || !info[1].IsNumber() || !usable()) {
    fail(info.Env(), "Expected utilisation and reserve");
    return info.Env().Undefined();
  }
  const MemoryOptions options{info[0].As<Napi::Number>().DoubleValue(),
                              info[1].As<Napi::Number>().DoubleValue()};
  std::int64_t tokens = 0;
  const Status status = kvCapacity(spec_, options, &tokens);
  Napi::Object o = Napi::Object::New(info.Env());
  o.Set("status", static_cast<int>(status));
  o.Set("kvTokens", static_cast<double>(tokens));
  o.Set("kvBytesPerToken", kvBytesPerToken(spec_.llm, spec_.kvBytes()));
  o.Set("weightBytes", weightBytes(spec_));
  o.Set("parameters", parameters(spec_.llm));
  o.Set("activeParameters", activeParameters(spec_.llm));
  return o;
}

/// (to, tokens, link, prefillMs | undefined): ms; with prefillMs the layer-overlapped form.
Napi::Value RooflineWrap::transfer(const Napi::CallbackInfo& info) {
  LinkOptions link;
  const RooflineWrap* to = of(info.Env(), info[0]);
  if (to == nullptr) return info.Env().Undefined();
  if (!info[1].IsNumber() || !usable() || !to->usable()) {
    fail(info.Env(), "Expected another roofline and a number of tokens");
    return info.Env().Undefined();
  }
  if (!readLink(info[2], &link)) return info.Env().Undefined();
  const double tokens = info[1].As<Napi::Number>().DoubleValue();
  const double ns = info[3].IsNumber()
                        ? overlappedTransferNs(spec_, to->spec(), tokens,
                                               1e6 * info[3].As<Napi::Number>().DoubleValue(), link)
                        : transferNs(spec_, to->spec(), tokens, link);
  return Napi::Number::New(info.Env(), 1e-6 * ns);
}

/// (tokens, tier, link): ms.
Napi::Value RooflineWrap::load(const Napi::CallbackInfo& info) {
  static constexpr const char* kTiers[] = {"host", "disk", "network"};
  LinkOptions link;
  int tier = 0;
  if (!info[0].IsNumber() || !info[1].IsString() || !usable()) {
    fail(info.Env(), "Expected tokens and a tier");
    return info.Env().Undefined();
  }
  Napi::Object named = Napi::Object::New(info.Env());
  named.Set("tier", info[1]);
  if (!readName(named, "tier", kTiers, &tier) || !readLink(info[2], &link)) return info.Env().Undefined();
  const double tokens = info[0].As<Napi::Number>().DoubleValue();
  return Napi::Number::New(info.Env(), 1e-6 * loadNs(spec_, tokens, static_cast<Tier>(tier), link));
}

/// Rows by kind. `gemm`: flops, bandwidth, tokens, n, k, weight bytes. `prefill`: flops, bandwidth, query
/// heads, KV heads, head size, pairs, new, touched. `decode`: bandwidth, query heads, KV heads, head size, KV
/// bytes, sequences, context. `mixture`: flops, bandwidth, tokens, hidden, expert width per GPU, experts, per
/// token, shards, groups, weight bytes, skewed (1) or even (0).
Napi::Value kernelTimes(const Napi::CallbackInfo& info) {
  static constexpr const char* kKinds[] = {"gemm", "prefill", "decode", "mixture"};
  static constexpr std::size_t kWidths[] = {6, 8, 7, 11};
  static constexpr std::size_t kConstants[] = {4, 4, 3, 6};
  std::span<double> c;
  std::span<double> rows;
  std::span<double> out;
  int kind = 0;
  Napi::Object named = Napi::Object::New(info.Env());
  named.Set("kind", info[0]);
  if (!readName(named, "kind", kKinds, &kind) || !doubles(info, 1, &c) || !doubles(info, 2, &rows) ||
      !doubles(info, 3, &out)) {
    return info.Env().Undefined();
  }
  const std::size_t width = kWidths[kind];
  if (rows.size() != width * out.size() || c.size() != kConstants[kind]) {
    fail(info.Env(), "Wrong number of constants or columns");
    return info.Env().Undefined();
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double* r = &rows[width * i];
    double ns = 0;
    if (kind == 0) {
      const GemmConstants gemm{c[0], c[1], c[2], static_cast<int>(c[3])};
      ns = Gemm(gemm, r[0], r[1], r[3], r[4], r[5]).ns(r[2]);
    } else if (kind == 1) {
      ns = PrefillAttention({c[0], c[1], c[2], c[3]}, r[0], r[1], r[2], r[3], r[4]).ns({r[5], r[6], r[7]});
    } else if (kind == 2) {
      ns = DecodeAttention({c[0], c[1], c[2]}, r[0], r[1], r[2], r[3], r[4]).ns(r[5], r[6]);
    } else {
      const MixtureConstants mixture{c[0], c[1], c[2], c[3], r[10] > 0 ? c[4] : 1, c[5]};
      ns = Mixture(mixture, r[0], r[1], {r[3], r[4], r[5], r[6], r[7], r[8], r[9], 1}).ns(r[2]);
    }
    out[i] = 1e-6 * ns;
  }
  return info.Env().Undefined();
}

}  // namespace laxity::binding
