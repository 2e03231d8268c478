#include "binding/bounds_wrap.h"

#include "binding/convert.h"

namespace laxity::binding {

Napi::Object lowerBound(Napi::Env env, const Trace& trace, const ClusterSpec& cluster,
                        const RunOptions& options, Napi::Value taus) {
  napi_typedarray_type type;
  std::size_t length = 0;
  void* data = nullptr;
  if (!taus.IsTypedArray() ||
      napi_get_typedarray_info(env, taus, &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_float64_array) {
    fail(env, "Expected a Float64Array of shares");
    return Napi::Object::New(env);
  }
  BoundResult result;
  const Status status =
      reqLowerBounds(trace, cluster, options, {static_cast<const double*>(data), length}, &result);
  Napi::Object out = Napi::Object::New(env);
  out.Set("status", static_cast<int>(status));
  Napi::Array list = Napi::Array::New(env);
  for (const LowerBound& b : result.bounds) {
    Napi::Object shares = Napi::Object::New(env);
    shares.Set("prefill", b.share[0]);
    shares.Set("kv", b.share[1]);
    shares.Set("sequences", b.share[2]);
    shares.Set("latency", b.share[3]);
    Napi::Object one = Napi::Object::New(env);
    one.Set("tau", b.tau);
    one.Set("ratio", b.ratio);
    one.Set("isolated", b.isolated);
    one.Set("shares", shares);
    list.Set(list.Length(), one);
  }
  out.Set("bounds", list);
  out.Set("evaluations", result.evaluations);
  out.Set("rounds", result.rounds);
  return out;
}

}  // namespace laxity::binding
