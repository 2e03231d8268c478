// The latency model from JavaScript: what the simulator uses, by columns; the closed form, by columns; memory
// and transfers; single kernels, for fits.
#pragma once

#include "binding/napi_setup.h"
#include "binding/object_wrap.h"
#include "model/latency.h"
#include "model/roofline.h"

namespace laxity::binding {

/// One LatencyModel of any kind: `new Latency({ latencies: [description] })`.
class LatencyWrap : public ObjectWrap<LatencyWrap> {
 public:
  static constexpr char kName[] = "Latency";
  static constexpr napi_type_tag kTag{0x2821ec6c2a071458, 0xb7adea2c6a7f07c4};
  static Napi::Function define(Napi::Env env);
  explicit LatencyWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value prefill(const Napi::CallbackInfo& info);
  Napi::Value decode(const Napi::CallbackInfo& info);
  Napi::Value mixed(const Napi::CallbackInfo& info);
  LatencyModel model_;
};

/// The closed form of one roofline. `status` is not 0 where the core refused the description.
class RooflineWrap : public ObjectWrap<RooflineWrap> {
 public:
  static constexpr char kName[] = "Roofline";
  static constexpr napi_type_tag kTag{0x0fe8ef9105632ea9, 0xe01ac3737a5c2399};
  static Napi::Function define(Napi::Env env);
  explicit RooflineWrap(const Napi::CallbackInfo& info);
  const RooflineSpec& spec() const { return spec_; }
  bool usable() const { return ok(status_); }

 private:
  Napi::Value status(const Napi::CallbackInfo& info);
  Napi::Value iterations(const Napi::CallbackInfo& info);
  Napi::Value memory(const Napi::CallbackInfo& info);
  Napi::Value transfer(const Napi::CallbackInfo& info);
  Napi::Value load(const Napi::CallbackInfo& info);

  RooflineSpec spec_;
  Roofline roofline_;
  Status status_ = Status::kBadValue;
};

/// kernelTimes(kind, constants, rows, out): ms of single kernels under trial constants.
Napi::Value kernelTimes(const Napi::CallbackInfo& info);

}  // namespace laxity::binding
