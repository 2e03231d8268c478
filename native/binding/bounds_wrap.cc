#include "binding/bounds_wrap.h"

#include "binding/convert.h"

namespace laxity::binding {
namespace {

bool readShares(Napi::Value from, std::span<const double>* out) {
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (!from.IsTypedArray() ||
      napi_get_typedarray_info(from.Env(), from, &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_float64_array) {
    return fail(from.Env(), "Expected a Float64Array of shares");
  }
  *out = {static_cast<const double*>(data), length};
  return true;
}

}  // namespace

Napi::Object lowerBound(Napi::Env env, const Trace& trace, const ClusterSpec& cluster,
                        const RunOptions& options, Napi::Value taus) {
  std::span<const double> shares;
  if (!readShares(taus, &shares)) return Napi::Object::New(env);
  BoundResult result;
  const Status status = reqLowerBounds(trace, cluster, options, shares, &result);
  Napi::Object out = Napi::Object::New(env);
  out.Set("status", static_cast<int>(status));
  Napi::Array list = Napi::Array::New(env);
  for (const LowerBound& b : result.bounds) {
    Napi::Object works = Napi::Object::New(env);
    works.Set("prefill", b.share[0]);
    works.Set("kv", b.share[1]);
    works.Set("sequences", b.share[2]);
    works.Set("latency", b.share[3]);
    Napi::Object one = Napi::Object::New(env);
    one.Set("tau", b.tau);
    one.Set("ratio", b.ratio);
    one.Set("isolated", b.isolated);
    one.Set("shares", works);
    list.Set(list.Length(), one);
  }
  out.Set("bounds", list);
  out.Set("evaluations", result.evaluations);
  out.Set("rounds", result.rounds);
  return out;
}

Napi::Object clairvoyant(Napi::Env env, const Trace& trace, const ClusterSpec& cluster,
                         const RunOptions& options, Napi::Value taus, Napi::Value evaluations) {
  Napi::Object out = Napi::Object::New(env);
  std::span<const double> shares;
  if (!readShares(taus, &shares)) return out;
  const double budget = evaluations.IsNumber() ? evaluations.As<Napi::Number>().DoubleValue() : 0;
  if (!(budget >= 1 && budget <= 1e9)) {
    fail(env, "Expected a number of simulations");
    return out;
  }
  ReferenceOptions how;
  how.evaluations = static_cast<std::uint32_t>(budget);
  std::vector<Reference> references;
  const Status status = clairvoyantSearch(trace, cluster, options, shares, how, &references);
  out.Set("status", static_cast<int>(status));
  Napi::Array list = Napi::Array::New(env);
  for (const Reference& r : references) {
    Napi::Object one = Napi::Object::New(env);
    one.Set("tau", r.tau);
    one.Set("ratio", r.ratio);
    one.Set("evaluations", r.evaluations);
    list.Set(list.Length(), one);
  }
  out.Set("references", list);
  return out;
}

}  // namespace laxity::binding
